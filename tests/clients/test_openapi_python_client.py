"""A typed Python client is generated from `openapi/` by openapi-python-client, imported, and used.

This generator is stricter than openapi-generator: it leaves out each operation whose body or answer
it cannot read. So each write must be there, and must work.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from ballast import ROOT
from objects import NAMESPACE, binding, rebalancer, task

GENERATION_SECONDS = 180
DOCUMENTS = {
    "apps": "apis__apps.karmada.io__v1alpha1",
    "work": "apis__work.karmada.io__v1alpha2",
    "task": "apis__task.karmada.io__v1alpha1",
    "ballast": "apis__ballast.dev__v1alpha1",
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The generated packages by their short names."""
    folder, made = tmp_path_factory.mktemp("typed"), {}
    for name, document in DOCUMENTS.items():
        package = f"typed_{name}"
        options = folder / f"{name}.yaml"
        # It formats with ruff unless it is told what to do afterwards.
        options.write_text(f"package_name_override: {package}\npost_hooks: []\n")
        run = subprocess.run(
            [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none",
             "--path", ROOT / "openapi" / "v3" / f"{document}_openapi.json",
             "--output-path", folder / package, "--config", options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GENERATION_SECONDS,
        )  # fmt: skip
        said = run.stdout + run.stderr
        assert run.returncode == 0, said
        # It says so of media types that it does not know, and goes on with the others.
        lost = [line for line in said.splitlines() if line.startswith("ERROR") or "Cannot parse" in line]
        assert not lost, said
        made[name] = package
    sys.path.insert(0, str(folder))
    return made


@pytest.fixture
def client(packages, ballast):
    def connect(name):
        client = importlib.import_module(f"{packages[name]}.client")
        return client.Client(base_url=ballast.url, verify_ssl=ballast.tls())

    return connect


def operation(packages, name, verb, what):
    """The function of an operation, by the first word of its name and its kind."""
    folder = Path(importlib.import_module(packages[name]).__file__).parent / "api"
    # Longer names are of collections and namespaces.
    found = sorted(folder.glob(f"*/{verb}_*_{what}.py"), key=lambda path: len(path.stem))
    assert found, f"the client has no {verb} of {what}"
    return importlib.import_module(f"{packages[name]}.api.{found[0].parent.name}.{found[0].stem}").sync_detailed


def model(packages, name, kind):
    """The class of a kind: the one with the shortest name that ends so."""
    models = importlib.import_module(f"{packages[name]}.models")
    return getattr(models, min((known for known in dir(models) if known.endswith(kind)), key=len))


def test_a_rebalancer_is_created_read_replaced_listed_and_deleted(packages, client):
    def do(verb):
        return operation(packages, "apps", verb, "workload_rebalancer")

    kind = model(packages, "apps", "WorkloadRebalancer")
    with client("apps") as connection:
        # It may be there from a run that the end of a leader has broken off.
        do("delete")(client=connection, name="typed")
        created = do("create")(client=connection, body=kind.from_dict(rebalancer("typed")))
        assert created.status_code == 201 and created.parsed.spec.workloads[0].name == "typed"
        again = do("create")(client=connection, body=kind.from_dict(rebalancer("typed")))
        assert again.status_code == 409 and again.parsed.reason == "AlreadyExists"
        for _ in range(20):
            read = do("read")(client=connection, name="typed").parsed
            read.spec.ttl_seconds_after_finished = 3600
            replaced = do("replace")(client=connection, name="typed", body=read)
            # The server may have written the status in between.
            if replaced.status_code != 409:
                break
        assert replaced.status_code == 200 and replaced.parsed.spec.ttl_seconds_after_finished == 3600
        listed = do("list")(client=connection)
        assert [item.metadata.name for item in listed.parsed.items] == ["typed"]
        assert do("delete")(client=connection, name="typed").status_code == 200
        assert do("read")(client=connection, name="typed").status_code == 404


def test_bindings_tasks_and_reviews_are_created(packages, client):
    with client("work") as connection:
        kind = model(packages, "work", "V1Alpha2ResourceBinding")
        delete, create = (operation(packages, "work", verb, "namespaced_resource_binding") for verb in ("delete", "create"))
        delete(NAMESPACE, "typed", client=connection)
        made = create(NAMESPACE, client=connection, body=kind.from_dict(binding("typed", replicas=2)))
        assert made.status_code == 201 and made.parsed.spec.replicas == 2
    with client("task") as connection:
        create = operation(packages, "task", "create", "reschedule_task")
        made = create(client=connection, body=model(packages, "task", "RescheduleTask").from_dict(task("typed")))
        assert made.status_code == 201 and made.parsed.metadata.name == "typed"
    with client("ballast") as connection:
        create = operation(packages, "ballast", "create", "placement_review")
        review = {"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "spec": {"select": [{"all": True}]}}
        body = model(packages, "ballast", "V1Alpha1PlacementReview").from_dict(review)
        made = create(client=connection, body=body)
        assert made.status_code == 201 and made.parsed.status
