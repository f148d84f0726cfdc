"""Small valid objects. They have no placement, so nothing acts on their bindings."""

NAMESPACE = "shop"


def workload(name):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE, "name": name}


def binding(name, replicas=None, **metadata):
    spec = {"resource": workload(name)}
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def rebalancer(name):
    return {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": name},
        "spec": {"workloads": [workload(name)]},
    }


def task(name):
    return {
        "apiVersion": "task.karmada.io/v1alpha1",
        "kind": "RescheduleTask",
        "metadata": {"name": name},
        "spec": {"targetRefResource": [workload(name)]},
    }
