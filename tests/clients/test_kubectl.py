"""kubectl, as a person at a terminal uses it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from objects import NAMESPACE, binding

SECONDS = 60
RB = "resourcebinding.work.karmada.io"


def find_kubectl():
    """$KUBECTL, or the pinned kubectl of the virtual environment, or else the machine's."""
    if "KUBECTL" in os.environ:
        return os.environ["KUBECTL"]
    pinned = Path(sys.executable).parent / "kubectl"
    return str(pinned) if pinned.exists() else shutil.which("kubectl")


class Kubectl:
    def __init__(self, ballast, home):
        self.program, self.home = find_kubectl(), home
        if self.program is None:
            pytest.skip("there is no kubectl on this machine")
        # kubectl keeps its discovery cache in the home folder.
        keep = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        self.environment = {**keep, "HOME": str(home), "KUBECONFIG": str(ballast.kubeconfig)}

    def start(self, *arguments, namespace=NAMESPACE, **more):
        command = [self.program, f"--namespace={namespace}", *arguments]
        environment = {**self.environment, **more}
        return subprocess.Popen(
            command, env=environment, cwd=self.home, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def ends(self, *arguments, code, stdin="", **more):
        """What kubectl prints on both streams. It must end with this code."""
        process = self.start(*arguments, **more)
        out, err = process.communicate(stdin, timeout=SECONDS)
        assert process.returncode == code, f"kubectl {' '.join(arguments)}: {process.returncode}\n{out}{err}"
        return out, err

    def run(self, *arguments, **more):
        """What kubectl prints. It must succeed without a warning, but for workloads without bindings."""
        out, err = self.ends(*arguments, code=0, **more)
        warnings = [line for line in err.splitlines() if "Warning" in line and "no binding of" not in line]
        assert not warnings, f"kubectl {' '.join(arguments)}:\n{err}"
        return out

    def warn(self, *arguments, **more):
        """What kubectl prints, and its warnings. It must succeed."""
        return self.ends(*arguments, code=0, **more)

    def fail(self, *arguments, **more):
        """The error that kubectl prints. It must fail."""
        return self.ends(*arguments, code=1, **more)[1]

    def get(self, *arguments):
        return json.loads(self.run("get", "-o", "json", *arguments))

    def create(self, *objects):
        for one in objects:
            self.run("create", "-f", "-", stdin=json.dumps(one))

    def file(self, *objects, name="objects.yaml"):
        """JSON is YAML. By the first line kubectl knows that more than one document may come."""
        path = self.home / name
        path.write_text("".join(f"---\n{json.dumps(one)}\n" for one in objects))
        return str(path)


@pytest.fixture
def kubectl(ballast, tmp_path):
    kubectl = Kubectl(ballast, tmp_path)
    yield kubectl
    for kind in ("rb", "workloadrebalancers"):
        for one in kubectl.get(kind)["items"]:
            if one["metadata"].get("finalizers"):
                kubectl.run("patch", kind, one["metadata"]["name"], "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl.ends("delete", kind, "--all", "--timeout=20s", code=0)


def rows(table):
    return [line.split() for line in table.splitlines()]


def names(output):
    return sorted(line.split("/", 1)[1] for line in output.splitlines())


# -- discovery


def test_resources_and_versions_are_listed(kubectl):
    listed = {row[0]: row for row in rows(kubectl.run("api-resources", "--no-headers"))}
    assert listed["resourcebindings"] == ["resourcebindings", "rb", "work.karmada.io/v1alpha2", "true", "ResourceBinding"]
    assert "rescheduletasks" in listed
    can_list = kubectl.run("api-resources", "--verbs=list", "-o", "name").split()
    assert "resourcebindings.work.karmada.io" in can_list
    assert "rescheduletasks.task.karmada.io" not in can_list, "it can only be created"
    assert "work.karmada.io/v1alpha2" in kubectl.run("api-versions").split()
    assert "ballast" in kubectl.run("version")
    assert kubectl.run("api-resources", "--categories=karmada-io", "-o", "name")


def test_every_field_of_every_kind_is_explained(kubectl):
    resources = kubectl.run("api-resources", "-o", "name").split()
    assert len(resources) >= 7
    for resource in resources:
        explained = kubectl.run("explain", resource, "--recursive")
        assert "FIELDS:" in explained and "metadata\t<ObjectMeta>" in explained, explained
        shallow = kubectl.run("explain", resource)
        assert "<no description>" not in shallow.replace("FIELDS:", ""), shallow
        old = kubectl.run("explain", resource, "--output=plaintext-openapiv2")
        assert "DESCRIPTION:" in old and "<empty>" not in old, old
    assert "FIELD: replicas <integer>" in kubectl.run("explain", "rb.spec.replicas")
    assert "<[]RebalancedObjectReference>" in kubectl.run("explain", "workloadrebalancers.spec.workloads")
    assert "field \"nothing\" does not exist" in kubectl.fail("explain", "rb.spec.nothing")


def test_users_ask_who_they_are_and_what_they_may(kubectl):
    assert "ballast-admin" in kubectl.run("auth", "whoami")
    assert kubectl.run("auth", "can-i", "create", "resourcebindings.work.karmada.io") == "yes\n"
    assert kubectl.run("auth", "can-i", "get", "/metrics") == "yes\n"
    as_jane = ("--as=jane", "--as-group=system:authenticated")
    assert "*.*" in kubectl.run("auth", "can-i", "--list")
    # Without a policy file, users other than the administrator may only ask what they may do.
    assert "jane" in kubectl.run("auth", "whoami", *as_jane)
    assert kubectl.ends("auth", "can-i", "list", "resourcebindings.work.karmada.io", *as_jane, code=1)[0] == "no\n"
    assert "cannot list resource" in kubectl.fail("get", "rb", *as_jane)


# -- reading


def test_objects_are_shown_in_every_form(kubectl):
    kubectl.create(binding("a", replicas=1, labels={"tier": "front"}), binding("b", replicas=2), binding("c", replicas=3))
    table = rows(kubectl.run("get", "rb"))
    assert table[0] == ["NAME", "SCHEDULED", "FULLYAPPLIED", "AGE"] and [row[0] for row in table[1:]] == ["a", "b", "c"]
    assert rows(kubectl.run("get", "rb", "-A"))[1][:2] == [NAMESPACE, "a"]
    assert "tier=front" in kubectl.run("get", "rb", "--show-labels")
    assert rows(kubectl.run("get", "rb", "-L", "tier"))[0][-1] == "TIER"
    assert "REPLICAS" not in kubectl.run("get", "rb", "-o", "wide", "--no-headers")
    assert names(kubectl.run("get", "rb", "-o", "name")) == ["a", "b", "c"]
    assert kubectl.run("get", "rb", "a", "-o", "jsonpath={.spec.replicas}") == "1"
    assert kubectl.run("get", "rb", "-o", "go-template={{range .items}}{{.spec.replicas}}{{end}}") == "123"
    assert rows(kubectl.run("get", "rb", "-o", "custom-columns=N:.metadata.name,R:.spec.replicas"))[1] == ["a", "1"]
    assert "replicas: 2\n" in kubectl.run("get", "rb", "b", "-o", "yaml")
    assert kubectl.get("rb")["kind"] == "List"
    by_size = kubectl.run("get", "rb", "--sort-by=.spec.replicas", "-o", "name")
    assert by_size.splitlines() == [f"{RB}/a", f"{RB}/b", f"{RB}/c"]
    assert names(kubectl.run("get", "rb", "-l", "tier=front", "-o", "name")) == ["a"]
    assert names(kubectl.run("get", "rb", "-l", "tier!=front", "-o", "name")) == ["b", "c"]
    assert names(kubectl.run("get", "rb", "-l", "tier notin (front)", "-o", "name")) == ["b", "c"]
    assert names(kubectl.run("get", "rb", "--field-selector=metadata.name=b", "-o", "name")) == ["b"]
    assert kubectl.run("get", "rb/a", "rb/b", "-o", "name").count("\n") == 2
    assert kubectl.run("get", "rb,crb,workloadrebalancers", "-o", "name").count("\n") == 3
    described = rows(kubectl.run("describe", "rb", "b"))
    assert ["Replicas:", "2"] in described and ["Events:", "<none>"] in described
    raw = json.loads(kubectl.run("get", "--raw", f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings"))
    assert raw["kind"] == "ResourceBindingList" and len(raw["items"]) == 3
    assert kubectl.run("get", "rb", "nothing", "--ignore-not-found") == ""
    assert kubectl.fail("get", "rb", "nothing") == f'Error from server (NotFound): {RB.replace("binding.", "bindings.")} "nothing" not found\n'
    assert "No resources found in empty namespace." in kubectl.ends("get", "rb", namespace="empty", code=0)[1]
    assert "managedFields" not in kubectl.run("get", "rb", "a", "-o", "yaml")


def test_long_lists_come_in_chunks(kubectl):
    many = [binding(f"b{i:02}") for i in range(25)]
    kubectl.run("create", "-f", kubectl.file(*many))
    for size in (4, 7, 25, 0):
        # At this level kubectl logs its requests. There must be one for each chunk.
        out, err = kubectl.ends("get", "rb", f"--chunk-size={size}", "-o", "name", "-v=6", code=0)
        assert names(out) == sorted(one["metadata"]["name"] for one in many)
        # kubectl 1.32 and older end the line with a status.
        done = ('"Response"', " 200 OK in ")
        asked = [line for line in err.splitlines() if "/resourcebindings" in line and any(word in line for word in done)]
        assert len(asked) == (-(-25 // size) if size else 1), err
    assert len(rows(kubectl.run("get", "rb", "--chunk-size=4", "--no-headers"))) == 25
    assert len(rows(kubectl.run("get", "rb", "--chunk-size=4", "--no-headers", "--sort-by=.metadata.name"))) == 25
    assert kubectl.run("describe", "rb", "--chunk-size=3").count("\nAPI Version:") == 25


def test_a_watch_shows_each_change(kubectl):
    kubectl.create(binding("before"))
    watch = kubectl.start("get", "rb", "-w", "--output-watch-events", "--no-headers")
    event = lambda: watch.stdout.readline().split()[:2]  # noqa: E731
    plain = kubectl.start("get", "rb", "before", "--watch-only", "--output-watch-events", "-o", "jsonpath={.type}:{.object.metadata.labels.a} ")
    assert event() == ["ADDED", "before"]
    kubectl.create(binding("later"))
    assert event() == ["ADDED", "later"]
    # --watch-only shows what happens after its request has arrived. The first event that it shows
    # is the sign that it has.
    deadline, seen = time.monotonic() + SECONDS, None
    os.set_blocking(plain.stdout.fileno(), False)
    while not seen and time.monotonic() < deadline:
        kubectl.run("label", "rb", "before", "--overwrite", f"a=x{time.monotonic_ns()}")
        # Read as bytes, because a text stream fails where there are none yet.
        seen = plain.stdout.buffer.read()
    assert seen and seen.startswith(b"MODIFIED:x"), seen
    kubectl.run("delete", "rb", "later")
    line = event()
    while line == ["MODIFIED", "before"]:
        line = event()
    assert line == ["DELETED", "later"]
    for process in (watch, plain):
        process.kill()
        process.communicate()
    table = kubectl.start("get", "rb", "-w", "--output-watch-events")
    assert table.stdout.readline().split() == ["EVENT", "NAME", "SCHEDULED", "FULLYAPPLIED", "AGE"]
    assert table.stdout.readline().split()[:2] == ["ADDED", "before"]
    table.kill()
    table.communicate()


# -- writing


def test_create_says_what_is_wrong(kubectl):
    file = kubectl.file(binding("a"))
    assert kubectl.run("create", "-f", file, "--dry-run=server") == f"{RB}/a created (server dry run)\n"
    assert kubectl.run("create", "-f", file, "--dry-run=client") == f"{RB}/a created (dry run)\n"
    assert kubectl.run("get", "rb", "-o", "name") == ""
    assert kubectl.run("create", "-f", file) == f"{RB}/a created\n"
    assert "(AlreadyExists)" in kubectl.fail("create", "-f", file)
    bad = binding("b")
    bad["spec"]["replicas"] = "three"
    refused = kubectl.fail("create", "-f", kubectl.file(bad), "--validate=false")
    assert 'The ResourceBinding "b" is invalid: spec.replicas: Invalid value: "string"' in refused, refused
    named = json.loads(kubectl.run("create", "-o", "json", "-f", kubectl.file({**binding("x"), "metadata": {"generateName": "gen-"}})))
    assert named["metadata"]["name"].startswith("gen-") and len(named["metadata"]["name"]) > 4


@pytest.mark.parametrize("text, complaint", [
    ('{"apiVersion":"work.karmada.io/v1alpha2","kind":"ResourceBinding","metadata":{"name":"v"},'
     '"spec":{"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"v"},"surprise":1}}',
     'unknown field "spec.surprise"'),
    ("apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: v}\nspec:\n"
     "  resource: {apiVersion: apps/v1, kind: Deployment, name: v}\n  surprise: 1\n",
     'unknown field "spec.surprise"'),
])  # fmt: skip
def test_unknown_fields_are_refused_warned_of_or_dropped(kubectl, text, complaint):
    for strict in ("--validate=strict", "--validate=true", "--validate"):
        refused = kubectl.fail("create", strict, "-f", "-", stdin=text)
        assert f"strict decoding error: {complaint}" in refused, refused
    refused = kubectl.fail("apply", "-f", "-", stdin=text)
    assert f"strict decoding error: {complaint}" in refused, refused
    out, err = kubectl.warn("create", "--validate=warn", "-f", "-", stdin=text)
    assert out == f"{RB}/v created\n" and f"Warning: {complaint}" in err, err
    assert "surprise" not in kubectl.get("rb", "v")["spec"]
    kubectl.run("delete", "rb", "v")
    for ignore in ("--validate=ignore", "--validate=false"):
        assert kubectl.run("create", ignore, "-f", "-", stdin=text) == f"{RB}/v created\n"
        kubectl.run("delete", "rb", "v")


def test_client_side_apply_merges_three_ways(kubectl):
    first = binding("web", replicas=1, labels={"a": "1", "b": "2"})
    assert kubectl.run("apply", "-f", kubectl.file(first)) == f"{RB}/web created\n"
    assert kubectl.run("apply", "-f", kubectl.file(first)) == f"{RB}/web unchanged\n"
    kubectl.run("label", "rb", "web", "own=by-hand")
    second = binding("web", replicas=2, labels={"a": "1"})
    file = kubectl.file(second)
    assert kubectl.run("apply", "-f", file, "--dry-run=server") == f"{RB}/web configured (server dry run)\n"
    assert kubectl.run("apply", "-f", file, "--dry-run=client") == f"{RB}/web configured (dry run)\n"
    assert kubectl.get("rb", "web")["spec"]["replicas"] == 1
    difference, _ = kubectl.ends("diff", "-f", file, code=1)
    assert "-  replicas: 1\n+  replicas: 2" in difference and "-    b: \"2\"" in difference, difference
    assert kubectl.run("apply", "-f", file) == f"{RB}/web configured\n"
    assert kubectl.run("diff", "-f", file) == ""
    web = kubectl.get("rb", "web")
    labels = {name: value for name, value in web["metadata"]["labels"].items() if "/" not in name}
    assert (labels, web["spec"]["replicas"]) == ({"a": "1", "own": "by-hand"}, 2)
    assert '"replicas":2' in kubectl.run("apply", "view-last-applied", "rb/web", "-o", "json").replace(" ", "")
    kubectl.run("apply", "set-last-applied", "-f", kubectl.file(first))
    assert "replicas: 1" in kubectl.run("apply", "view-last-applied", "rb/web")
    stale = {**second, "metadata": {**second["metadata"], "resourceVersion": "1"}}
    assert "the object has been modified" in kubectl.fail("apply", "-f", kubectl.file(stale))


def test_apply_prunes_what_is_no_longer_there(kubectl):
    labels = {"app": "shop"}
    both = kubectl.file(binding("a", labels=labels), binding("b", labels=labels))
    kubectl.run("apply", "-f", both)
    kinds = "--prune-allowlist=work.karmada.io/v1alpha2/ResourceBinding"
    one = kubectl.file(binding("a", labels=labels))
    pruned = kubectl.run("apply", "-f", one, "--prune", "-l", "app=shop", kinds)
    assert f"{RB}/b pruned" in pruned
    assert names(kubectl.run("get", "rb", "-o", "name")) == ["a"]


def test_server_side_apply_knows_who_owns_what(kubectl):
    applied = f"{RB}/ssa serverside-applied\n"
    mine = kubectl.file(binding("ssa", replicas=1, labels={"a": "1", "b": "2"}))
    assert kubectl.run("apply", "--server-side", "-f", mine, "--dry-run=server") == f"{RB}/ssa serverside-applied (server dry run)\n"
    assert kubectl.run("get", "rb", "-o", "name") == ""
    assert kubectl.run("apply", "--server-side", "-f", mine) == applied
    version = kubectl.get("rb", "ssa")["metadata"]["resourceVersion"]
    assert kubectl.run("apply", "--server-side", "-f", mine) == applied
    assert kubectl.get("rb", "ssa")["metadata"]["resourceVersion"] == version, "nothing has changed"
    owners = kubectl.get("rb", "ssa", "--show-managed-fields")["metadata"]["managedFields"]
    assert ("kubectl", "Apply") in [(owner["manager"], owner["operation"]) for owner in owners]

    theirs = kubectl.file(binding("ssa", replicas=3), name="theirs.yaml")
    other = ("apply", "--server-side", "--field-manager=other", "-f", theirs)
    refused = kubectl.fail(*other)
    assert "Apply failed with 1 conflict: conflict with \"kubectl\"" in refused and ".spec.replicas" in refused, refused
    difference, _ = kubectl.ends("diff", "--server-side", "--force-conflicts", "--field-manager=other", "-f", theirs, code=1)
    assert "-  replicas: 1\n+  replicas: 3" in difference, difference
    assert kubectl.run(*other, "--force-conflicts") == applied
    assert ".spec.replicas" in kubectl.fail("apply", "--server-side", "-f", mine)

    # A field that no manager owns any more is removed. A field of another manager stays.
    less = kubectl.file(binding("ssa", labels={"a": "1"}))
    assert kubectl.run("apply", "--server-side", "-f", less) == applied
    ssa = kubectl.get("rb", "ssa")
    labels = {name: value for name, value in ssa["metadata"]["labels"].items() if "/" not in name}
    assert (labels, ssa["spec"]["replicas"]) == ({"a": "1"}, 3)
    surprise = binding("ssa")
    surprise["spec"]["surprise"] = 1
    assert "field not declared in schema" in kubectl.fail("apply", "--server-side", "-f", kubectl.file(surprise))


def test_what_was_applied_by_the_client_goes_on_on_the_server(kubectl):
    before = kubectl.file(binding("moved", replicas=1, labels={"a": "1", "b": "2"}))
    kubectl.run("apply", "-f", before)
    after = kubectl.file(binding("moved", replicas=2, labels={"a": "1"}), name="after.yaml")
    assert kubectl.run("apply", "--server-side", "-f", after) == f"{RB}/moved serverside-applied\n"
    moved = kubectl.get("rb", "moved")
    assert moved["spec"]["replicas"] == 2 and "b" not in moved["metadata"]["labels"]
    kubectl.run("apply", "-f", before)
    assert kubectl.get("rb", "moved")["metadata"]["labels"]["b"] == "2"


def test_a_patch_of_each_type(kubectl):
    kubectl.create(binding("p", replicas=1))
    patched = f"{RB}/p patched\n"
    assert kubectl.run("patch", "rb", "p", "--type=merge", "-p", '{"spec":{"replicas":2}}') == patched
    assert kubectl.run("patch", "rb", "p", "--type=merge", "-p", '{"spec":{"replicas":2}}') == f"{RB}/p patched (no change)\n"
    assert kubectl.run("patch", "rb", "p", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":3}]') == patched
    assert kubectl.run("patch", "rb", "p", "--type=merge", "--dry-run=server", "-p", '{"spec":{"replicas":9}}') == patched
    assert kubectl.get("rb", "p")["spec"]["replicas"] == 3
    (kubectl.home / "patch.yaml").write_text("metadata:\n  labels:\n    from: file\n")
    assert kubectl.run("patch", "rb", "p", "--type=merge", "--patch-file", "patch.yaml") == patched
    status = '{"status":{"schedulerObservedGeneration":7},"spec":{"replicas":8}}'
    assert kubectl.run("patch", "rb", "p", "--subresource=status", "--type=merge", "-p", status) == patched
    shown = kubectl.get("rb", "p")
    assert (shown["spec"]["replicas"], shown["status"]["schedulerObservedGeneration"]) == (3, 7)
    assert shown["metadata"]["labels"]["from"] == "file"
    assert kubectl.get("rb", "p", "--subresource=status")["status"]["schedulerObservedGeneration"] == 7
    # A strategic merge works for built-in kinds only. The answer names the types that can be sent.
    refused = kubectl.fail("patch", "rb", "p", "-p", '{"spec":{"replicas":2}}')
    assert "is not supported by" in refused and "application/merge-patch+json" in refused, refused
    untrue = '[{"op":"test","path":"/spec/replicas","value":99}]'
    assert "the server rejected our request due to an error in our request" in kubectl.fail("patch", "rb", "p", "--type=json", "-p", untrue)
    assert "(NotFound)" in kubectl.fail("patch", "rb", "nothing", "--type=merge", "-p", "{}")


def test_replace_edit_label_and_annotate(kubectl):
    kubectl.create(binding("r", replicas=1))
    stale = kubectl.get("rb", "r")
    changed = json.loads(json.dumps(stale))
    changed["spec"]["replicas"] = 2
    assert kubectl.run("replace", "-f", kubectl.file(changed), "--dry-run=server") == f"{RB}/r replaced (server dry run)\n"
    assert kubectl.run("replace", "-f", kubectl.file(changed)) == f"{RB}/r replaced\n"
    assert "(Conflict)" in kubectl.fail("replace", "-f", kubectl.file(stale))
    assert kubectl.run("replace", "--force", "-f", kubectl.file(binding("r", replicas=4))).splitlines()[-1] == f"{RB}/r replaced"
    again = kubectl.get("rb", "r")
    assert again["metadata"]["uid"] != stale["metadata"]["uid"] and again["spec"]["replicas"] == 4

    assert kubectl.run("label", "rb", "r", "a=b", "c=d") == f"{RB}/r labeled\n"
    assert "already has a value" in kubectl.fail("label", "rb", "r", "a=other")
    assert kubectl.run("label", "rb", "r", "a=other", "--overwrite") == f"{RB}/r labeled\n"
    assert kubectl.run("label", "rb", "r", "c-") == f"{RB}/r unlabeled\n"
    assert "a=other" in kubectl.run("label", "rb", "r", "--list").splitlines()
    assert kubectl.run("annotate", "rb", "--all", "note=some words") == f"{RB}/r annotated\n"
    version = kubectl.get("rb", "r")["metadata"]["resourceVersion"]
    kubectl.run("annotate", "rb", "r", f"--resource-version={version}", "second=1")
    assert "(Conflict)" in kubectl.fail("annotate", "rb", "r", f"--resource-version={version}", "third=1")
    assert kubectl.get("rb", "r")["metadata"]["annotations"]["note"] == "some words"

    editor = kubectl.home / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/replicas: 4/replicas: 5/" "$1"\n')
    editor.chmod(0o755)
    assert kubectl.run("edit", "rb", "r", KUBE_EDITOR=str(editor)) == f"{RB}/r edited\n"
    assert kubectl.get("rb", "r")["spec"]["replicas"] == 5
    wrong = '{"metadata":{"labels":{"wrong/label/name":"1"}}}'
    assert "is invalid: metadata.labels" in kubectl.fail("patch", "rb", "r", "--type=merge", "-p", wrong)


def test_wait_for_fields_conditions_creation_and_the_end(kubectl):
    waiting = kubectl.start("wait", "rb/w", "--for=create", "--timeout=30s")
    kubectl.create(binding("w", replicas=1))
    assert waiting.wait(SECONDS) == 0, waiting.stderr.read()
    assert kubectl.run("wait", "rb/w", "--for=jsonpath={.spec.replicas}=1", "--timeout=30s") == f"{RB}/w condition met\n"
    waiting = kubectl.start("wait", "rb/w", "--for=condition=FullyApplied", "--timeout=30s")
    condition = {"type": "FullyApplied", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    kubectl.run("patch", "rb", "w", "--subresource=status", "--type=merge", "-p", json.dumps({"status": {"conditions": [condition]}}))
    assert waiting.wait(SECONDS) == 0, waiting.stderr.read()
    assert kubectl.fail("wait", "rb/w", "--for=condition=Scheduled", "--timeout=5s").startswith("error: timed out waiting")
    waiting = kubectl.start("wait", "rb", "--all", "--for=delete", "--timeout=30s")
    kubectl.run("delete", "rb", "w")
    assert waiting.wait(SECONDS) == 0, waiting.stderr.read()


def test_delete_with_each_cascade(kubectl):
    gone = '"{}" deleted'
    for cascade in ("background", "foreground", "orphan"):
        kubectl.create(binding(cascade))
    assert gone.format("background") in kubectl.run("delete", "rb", "background", "--cascade=background", "--timeout=20s")
    # These two ways of deletion wait for a garbage collector. The test plays its part.
    for cascade, finalizer in (("foreground", "foregroundDeletion"), ("orphan", "orphan")):
        assert gone.format(cascade) in kubectl.run("delete", "rb", cascade, f"--cascade={cascade}", "--wait=false")
        deleting = kubectl.get("rb", cascade)["metadata"]
        assert deleting["deletionTimestamp"] and deleting["finalizers"] == [finalizer]
        ending = kubectl.start("wait", f"rb/{cascade}", "--for=delete", "--timeout=30s")
        kubectl.run("patch", "rb", cascade, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert ending.wait(SECONDS) == 0, ending.stderr.read()
    assert kubectl.run("get", "rb", "-o", "name") == ""


def test_delete_chooses_what_it_is_told(kubectl):
    kubectl.create(*[binding(name, labels={"group": name[0]}) for name in ("a1", "a2", "b1", "b2", "c1")])
    assert "deleted" in kubectl.run("delete", "rb", "--all", "--dry-run=server")
    kubectl.run("delete", "rb", "-l", "group=a")
    kubectl.run("delete", "rb", "--field-selector=metadata.name=b1")
    assert names(kubectl.run("get", "rb", "-o", "name")) == ["b2", "c1"]
    kubectl.run("delete", "-f", kubectl.file(binding("b2")), "--now")
    assert "(NotFound)" in kubectl.fail("delete", "rb", "b2")
    kubectl.run("delete", "rb", "b2", "--ignore-not-found")
    kubectl.run("delete", "--raw", f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/c1")
    kubectl.create(binding("held", finalizers=["example.com/held"]))
    kubectl.run("delete", "rb", "held", "--wait=false")
    assert "deletionTimestamp" in kubectl.get("rb", "held")["metadata"]
    assert "timed out" in kubectl.fail("delete", "rb", "held", "--timeout=1s")


def test_a_rebalance_from_a_folder_of_manifests(kubectl):
    """The README's walk by hand: clusters, a binding, and a rebalancer that finishes."""
    folder = Path(__file__).resolve().parents[2] / "examples" / "rebalance"
    run = lambda *arguments: kubectl.run(*arguments, namespace="default")  # noqa: E731
    run("apply", "-f", str(folder / "clusters.yaml"))
    for member in ("member1", "member2"):
        run("patch", "cluster", member, "--subresource=status", "--type=merge", "--patch-file", str(folder / "cluster-status.yaml"))
    run("apply", "-f", str(folder / "bindings.yaml"))
    run("wait", "rb", "--all", "--for=condition=Scheduled", "--timeout=30s")
    run("patch", "cluster", "member1", "--type=merge", "--patch-file", str(folder / "member1-fails.yaml"))
    on = "jsonpath={.spec.clusters[*].name}"
    run("wait", "rb/demo-deploy-1-deployment", "--for=jsonpath={.spec.clusters[0].replicas}=4", "--timeout=30s")
    assert run("get", "rb", "demo-deploy-1-deployment", "-o", on) == "member2"
    run("patch", "cluster", "member1", "--type=merge", "--patch-file", str(folder / "member1-recovers.yaml"))
    run("create", "-f", str(folder / "rebalancer.yaml"))
    run("wait", "--for=jsonpath={.status.finishTime}", "workloadrebalancer/demo", "--timeout=30s")
    assert run("get", "rb", "demo-deploy-1-deployment", "-o", on) == "member1 member2"
    # kubectl itself warns that not all of these are in a namespace.
    kubectl.ends("delete", "-f", str(folder / "bindings.yaml"), "-f", str(folder / "rebalancer.yaml"), namespace="default", code=0)
