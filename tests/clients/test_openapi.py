"""schemathesis runs over every document that `/openapi/v3` links: requests made from the schema.

Half of them are valid and half are not. No answer may be a 5xx, and none may have a status, a
content type or a body that the document does not describe. Two things are not asked of the server:
to refuse everything that the schema forbids (Kubernetes drops unknown fields and reads any text as
a boolean), and to accept everything that the schema allows (names, references and versions have
rules of their own). A connection that ends without an answer is a fault, too: schemathesis reports
it, and so does its exit status.

The seed and the number of examples are fixed, so each run sends the same requests, about 20,000 in
two minutes on two cores. $BALLAST_OPENAPI_LONG=1, as in `.ci/long`, sends many more: it also covers
the borders of every body, and tries other seeds than CI does if $BALLAST_OPENAPI_SEED says so.
"""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ballast import REPLICAS, served, was_killed

HERE = Path(__file__).parent
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)
SEED = int(os.environ.get("BALLAST_OPENAPI_SEED", "20260101"))
LONG = os.environ.get("BALLAST_OPENAPI_LONG") == "1"
# Examples for each operation. Operations with a whole object as their body take the most time,
# and nearly all of it goes into making up the body.
EXAMPLES = {"cheap": 2, "bodies": 1} if REPLICAS else {"cheap": 40, "bodies": 20} if LONG else {"cheap": 8, "bodies": 4}
# How often a part is run, if a leader is killed under it.
RUNS_MAX = 8
SECONDS = 5000 if LONG else 1100
# The limit for one answer. schemathesis' own ten seconds are too few where a disk stalls.
ANSWER_SECONDS = 60
WORKERS = 2


def run(ballast, document, part, folder):
    """Runs one part of one document.

    Returns the output if a fault was found, and the number of requests.
    """
    methods = {"cheap": ["GET", "PATCH", "DELETE"], "bodies": ["POST", "PUT"]}[part]
    # With replicas, runs are short, so that most of them meet no kill.
    both = "fuzzing" if REPLICAS else "coverage,fuzzing"
    phases = {"cheap": both, "bodies": both if LONG else "fuzzing"}[part]
    folder.mkdir(parents=True)
    command = [
        str(Path(sys.executable).parent / "st"), "run", f"{ballast.url}/openapi/v3/{document}", "--url", ballast.url,
        "--tls-verify", ballast.ca, "--request-cert", ballast.cert, "--request-cert-key", ballast.key,
        "--checks", CHECKS, "--phases", phases, "--seed", str(SEED), "-n", str(EXAMPLES[part]), "--workers", "1",
        "--request-timeout", str(ANSWER_SECONDS), "--generation-database", "none", "--suppress-health-check", "all",
        "--warnings", "off", "--no-color",
        # Behind it, another server answers as it likes.
        "--exclude-path-regex", r"/proxy(/\{path\})?$",
        *[word for method in methods for word in ("--include-method", method)],
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "schemathesis_hooks"}
    for _ in range(RUNS_MAX):
        began = time.monotonic()
        ended = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=SECONDS,
        )  # fmt: skip
        if ended.returncode == 0 or not was_killed(began, time.monotonic()):
            break
    cases = re.search(r"(\d+) generated", ended.stdout)
    return document, part, ended.returncode, ended.stdout, int(cases.group(1)) if cases else 0


def test_every_answer_is_as_the_documents_say(tmp_path):
    with served() as ballast:
        known = sorted(json.loads(ballast.get("/openapi/v3"))["paths"])
        assert "apis/work.karmada.io/v1alpha2" in known
        # The long parts go first, so that all workers end at about the same time.
        parts = [(document, "bodies") for document in known if re.search(r"/v\d", document)]
        parts += [(document, "cheap") for document in known]
        with ThreadPoolExecutor(WORKERS) as pool:
            ends = list(pool.map(lambda one: run(ballast, *one, tmp_path / one[1] / one[0].replace("/", "_")), parts))
        found = [f"{document} ({part}): {text}" for document, part, code, text, _ in ends if code]
        cases = sum(cases for *_, cases in ends)
        print(f"{cases} requests from {len(known)} documents")
        if found:
            pytest.fail("\n\n".join(found)[-20_000:])
        assert cases > (500 if REPLICAS else 1000)
