"""Random requests, most of them wrong in some way.

No answer may be a 500 or above, nothing may panic, and nothing may stay behind. Each request is put
together from parts that the server knows (paths, options, media types, objects, patches) and is
damaged now and then. The same seed makes the same requests. $RANDOM_REQUESTS is their number.
"""

import base64
import http.client
import json
import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from ballast import KILLS, REPLICAS, served, was_killed
from objects import binding, rebalancer, task

# With replicas it takes long enough for a kill or two.
REQUESTS = int(os.environ.get("RANDOM_REQUESTS", "10000" if REPLICAS else "6000"))
SEED = int(os.environ.get("RANDOM_SEED", "1"))
CONNECTIONS = 4
ANSWER_SECONDS = 60
# The timeout that some requests ask for. If it were shorter, a stalled disk would bring a 504.
DEADLINE = "50s"
# How much the memory of the server may grow between the first fifth and the end. Its window of past
# events fills up in that time, and the allocator keeps some of what is freed.
GROWTH_KIB_MAX = 200 * 1024

RESOURCES = (
    ("apis/work.karmada.io/v1alpha2", "resourcebindings", True, "ResourceBinding"),
    ("apis/work.karmada.io/v1alpha2", "clusterresourcebindings", False, "ClusterResourceBinding"),
    ("apis/apps.karmada.io/v1alpha1", "workloadrebalancers", False, "WorkloadRebalancer"),
    ("apis/cluster.karmada.io/v1alpha1", "clusters", False, "Cluster"),
    ("apis/policy.karmada.io/v1alpha1", "propagationpolicies", True, "PropagationPolicy"),
    ("apis/policy.karmada.io/v1alpha1", "clusterpropagationpolicies", False, "ClusterPropagationPolicy"),
    ("apis/policy.karmada.io/v1alpha1", "overridepolicies", True, "OverridePolicy"),
    ("apis/policy.karmada.io/v1alpha1", "federatedresourcequotas", True, "FederatedResourceQuota"),
    ("apis/policy.karmada.io/v1alpha1", "clustertaintpolicies", False, "ClusterTaintPolicy"),
    ("apis/task.karmada.io/v1alpha1", "rescheduletasks", False, "RescheduleTask"),
    ("apis/ballast.dev/v1alpha1", "rebalances", True, "Rebalance"),
    ("apis/ballast.dev/v1alpha1", "clusterrebalances", False, "ClusterRebalance"),
    ("apis/ballast.dev/v1alpha1", "rebalanceschedules", False, "RebalanceSchedule"),
    ("apis/ballast.dev/v1alpha1", "evictionlimits", False, "EvictionLimit"),
    ("apis/ballast.dev/v1alpha1", "moves", True, "Move"),
    ("apis/ballast.dev/v1alpha1", "placementreviews", False, "PlacementReview"),
    ("apis/placement.kubernetes-fleet.io/v1beta1", "clusterresourceplacements", False, "ClusterResourcePlacement"),
    ("apis/cluster.kubernetes-fleet.io/v1beta1", "memberclusters", False, "MemberCluster"),
)
POLICY = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}}
SPECS = {
    "Cluster": {"syncMode": "Push", "taints": [{"key": "a", "effect": "NoSchedule"}]},
    "PropagationPolicy": POLICY,
    "ClusterPropagationPolicy": POLICY,
    "OverridePolicy": {"overrideRules": [{"overriders": {}}]},
    "FederatedResourceQuota": {"overall": {"cpu": "1"}},
    "ClusterTaintPolicy": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "Rebalance": {"select": [{"placedOn": ["a"]}]},
    "ClusterRebalance": {"select": [{"all": True}]},
    "EvictionLimit": {"bindingsPerSecond": "500m"},
    "RebalanceSchedule": {"schedule": "0 3 * * 6", "template": {"spec": {"select": [{"all": True}]}}},
    "PlacementReview": {"select": [{"all": True}]},
    "MemberCluster": {"identity": {"kind": "ServiceAccount", "name": "a", "namespace": "n"}},
    "ClusterResourcePlacement": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "n"}],
        "policy": {"placementType": "PickAll"},
    },
}
DOCUMENTS = (
    "/", "/api", "/api/v1", "/apis", "/apis/work.karmada.io", "/apis/work.karmada.io/v1alpha2", "/apis/no.such", "/version",
    "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps.karmada.io/v1alpha1?hash=0", "/openapi/v3/nothing",
    "/healthz", "/readyz?verbose", "/livez/ping", "/metrics", "/api/v1/namespaces/one", "/api/v1/namespaces/one/events",
)  # fmt: skip
NAMES = ("a", "b", "c", "d.e")
BAD_NAMES = ("UPPER", "-", "a b", "ä", "%2F", "..", "x" * 254, "a%00b", "")
NAMESPACES = ("one", "two", "three")
BAD_NAMESPACES = ("No", "", "ä")
PATCHES = ("application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml")
BODIES = ("application/json", "application/json", "application/yaml", None)
BAD_MEDIA = (
    "application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf", "application/json; charset=utf-16",
    "text/plain", "", "garbage", *PATCHES, *BODIES,
)  # fmt: skip
ACCEPTS = (None, "*/*", "application/json")
ODD_ACCEPTS = (
    "application/json;q=0.1", "application/yaml", "text/html", "application/vnd.kubernetes.protobuf", ";;;,q=",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;q=nan, */*;q=-1",
)  # fmt: skip
# "9" * 9 is a version of the future. The server waits for it.
VERSIONS = ("", "0", "1", "2", "-1", "abc", "9" * 25, "1.5", "0x1", " 1")
SELECTORS = (
    "a=b", "a!=b", "a in (b,c)", "a notin ()", "!a", "a", "a=b,c=d", "a in (b", "=,=", "metadata.name=a", "spec.x=1",
    "x/y/z=1", "a" * 300, "metadata.name=a,metadata.name=b", "\u0000", "a>1",
)  # fmt: skip
TEXTS = ("", "a", "true", "-1", "1e999", "\u0000", "\ud83d\ude00", "a" * 5000, "2026-01-01T00:00:00Z", "100m", "{}", "null")
PATHS = ("/spec", "/spec/replicas", "/metadata/labels/a", "/metadata/finalizers", "/status", "", "/", "/spec/-", "/a~2", "x", "/spec/clusters/0")


class Draw(random.Random):
    def mostly(self, usual, other, share=0.85):
        return self.choice(usual if self.random() < share else other)

    def value(self, depth=0):
        kind = self.randrange(10 if depth < 4 else 7)
        if kind == 0:
            return None
        if kind == 1:
            return self.random() < 0.5
        if kind == 2:
            return self.choice((0, 1, -1, 2**31, 2**63 - 1, 2**64, -(2**63) - 1, 10**40))
        if kind == 3:
            return self.choice((0.5, -0.0, 1e300, 1e-300, 1.0))
        if kind < 7:
            return self.choice(TEXTS)
        if kind == 7:
            return [self.value(depth + 1) for _ in range(self.randrange(4))]
        names = ("a", "name", "kind", "replicas", "metadata", "spec", "items", "", "x" * 100, "clusters", "placement")
        return {self.choice(names): self.value(depth + 1) for _ in range(self.randrange(5))}

    def damaged(self, value):
        """A copy of the value in which one place was replaced, removed or added to."""
        if isinstance(value, dict) and value and self.random() < 0.8:
            name = self.choice(list(value))
            if self.random() < 0.1:
                return {other: kept for other, kept in value.items() if other != name}
            return {**value, name: self.damaged(value[name])}
        if isinstance(value, list) and value and self.random() < 0.8:
            at = self.randrange(len(value))
            return [*value[:at], self.damaged(value[at]), *value[at + 1 :]]
        return self.value()

    def object(self, api, kind, name):
        made = {"ResourceBinding": binding, "WorkloadRebalancer": rebalancer, "RescheduleTask": task}.get(kind, binding)(name)
        made["apiVersion"], made["kind"] = api.removeprefix("apis/"), kind
        made["spec"] = SPECS.get(kind, made["spec"])
        if self.random() < 0.3:
            made["metadata"]["labels"] = {"a": self.choice(("b", "c"))}
        if self.random() < 0.1:
            made["metadata"]["finalizers"] = ["example.com/x"]
        if self.random() < 0.05:
            made["metadata"] = {"generateName": "gen-"}
        for _ in range(self.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 5))):
            made = self.damaged(made)
        return made

    def patch(self):
        operations = ("add", "remove", "replace", "move", "copy", "test", "nothing")
        step = lambda: {"op": self.choice(operations), "path": self.choice(PATHS), "from": self.choice(PATHS), "value": self.value()}  # noqa: E731
        return [step() for _ in range(self.randrange(4))]

    def body(self, api, kind, name, method):
        usual = {"POST": (0,), "PUT": (0,), "PATCH": (0, 5, 6, 6), "DELETE": (7, 11, 11)}.get(method, (0,))
        shape = self.mostly(usual, range(12), 0.7)
        if shape < 5:
            text = json.dumps(self.object(api, kind, name))
        elif shape == 5:
            text = json.dumps(self.patch())
        elif shape == 6:
            text = json.dumps({"spec": self.value(), "metadata": {"labels": {"a": self.choice(("b", None))}}})
        elif shape == 7:
            text = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": self.choice(("Foreground", "Orphan", "Background", "x"))})
        elif shape == 8:
            text = self.choice(("[" * 100_000, '{"a":' * 20_000, "a: &a [*a, *a]", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", "!!binary x", "{", "---\n---", "\ufeff{}"))
        elif shape == 9:
            text = json.dumps(self.object(api, kind, name)).replace('"name"', '"name": "twice", "name"')
        elif shape == 10:
            return self.randbytes(self.randrange(2000))
        else:
            return b""
        data = text.encode("utf-8", "surrogatepass")
        if self.random() < 0.1:
            at = self.randrange(len(data) + 1)
            data = self.choice((data[:at], data[:at] + self.randbytes(3) + data[at:]))
        return data

    def query(self):
        options = {
            "limit": ("1", "0", "-1", "x", "9" * 20), "continue": ("", "x", self.token()), "labelSelector": SELECTORS,
            "fieldSelector": SELECTORS, "resourceVersion": VERSIONS, "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
            "sendInitialEvents": ("true", "x"), "dryRun": ("All", "x", ""), "fieldManager": ("m", "", "x" * 200, "\u0007"),
            "fieldValidation": ("Strict", "Warn", "Ignore", "x"), "force": ("true", "x"), "pretty": ("true", "x"),
            "propagationPolicy": ("Orphan", "Foreground", "x"), "gracePeriodSeconds": ("0", "-5", "x"),
            "orphanDependents": ("true", "x"), "timeout": (DEADLINE, "x", "-1s", "0"), "timeoutSeconds": ("1", "x"), "unknown": ("1",),
        }  # fmt: skip
        chosen = self.sample(list(options), self.choice((0, 0, 0, 0, 0, 0, 1, 2, 4)))
        return "&".join(f"{name}={quoted(self.choice(options[name]))}" for name in chosen)

    def token(self):
        token = {"v": self.choice(("meta.k8s.io/v1", "x")), "rv": self.choice((1, -1, 0, 10**30, "x")), "start": self.choice(("/one/a\u0000", "../..", 5, ""))}
        return base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")

    def request(self):
        """Method, target, headers, body, and whether to hang up after the head of the answer."""
        api, plural, namespaced, kind = self.choice(RESOURCES)
        name = self.mostly(NAMES, BAD_NAMES)
        method = self.mostly(("GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"), ("HEAD", "OPTIONS", "TRACE", "BREW"), 0.95)
        if self.random() < 0.05:
            target = self.choice(DOCUMENTS)
        else:
            target = f"/{api}/"
            if namespaced == (self.random() < 0.95):
                target += f"namespaces/{quoted(self.mostly(NAMESPACES, BAD_NAMESPACES))}/"
            target += plural
            # An object is made in its collection and changed by its name.
            if self.random() < {"POST": 0.1, "GET": 0.5, "DELETE": 0.9}.get(method, 0.95):
                target += f"/{quoted(name)}"
                if self.random() < 0.15:
                    target += self.mostly(("/status",), ("/scale", "/status/x", "/"))
        if self.random() < 0.02:
            at = self.randrange(1, len(target) + 1)
            target = target[:at] + self.choice(("%", "%zz", "//", "/../", "%ff", "%00")) + target[at:]
        if (query := self.query()):
            target += ("&" if "?" in target else "?") + query
        headers = {}
        media = self.mostly(PATCHES if method == "PATCH" else BODIES, BAD_MEDIA)
        for header, value in (("Content-Type", media), ("Accept", self.mostly(ACCEPTS, ODD_ACCEPTS))):
            if value is not None:
                headers[header] = value
        if self.random() < 0.05:
            headers[self.choice(("Authorization", "Impersonate-User", "If-None-Match", "Accept-Encoding", "Content-Encoding", "Audit-ID", "X-Remote-User"))] = self.choice(("x", "gzip", "*", "Bearer x"))
        body = b"" if method in ("GET", "HEAD", "OPTIONS", "TRACE") else self.body(api, kind, self.mostly((name,), NAMES), method)
        hang_up = method == "GET" and self.random() < 0.02
        if hang_up:
            target += ("&" if "?" in target else "?") + "watch=1"
        return method, target, headers, body, hang_up


def quoted(text):
    """The text with those characters percent-encoded that no request target may have.

    A server closes the connection at such a character. All others stay as they were drawn.
    """
    return "".join(c if 32 < ord(c) < 127 and c not in "?#&+<>" else "".join(f"%{b:02X}" for b in c.encode("utf-8", "surrogatepass")) for c in text)


def is_expected(method, status, body):
    """Whether the status is below 500, or the 504 of a version of the future."""
    return status < 500 or (status == 504 and (method == "HEAD" or b"Too large resource version" in body))


def send(ballast, context, seed, count):
    """Sends `count` requests. Returns the failures, and how often each status came.

    A failure is when the connection was last in order, when it was noticed, and a sentence.
    """
    draw, faults, seen = Draw(seed), [], Counter()
    ended = time.monotonic()
    connection = http.client.HTTPSConnection("127.0.0.1", ballast.port, context=context, timeout=ANSWER_SECONDS)
    for _ in range(count):
        method, target, headers, body, hang_up = draw.request()
        try:
            connection.request(method, target, body=body, headers=headers)
            answer = connection.getresponse()
            text = b"" if hang_up else answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException) as error:
            status, text = 599, repr(error).encode()
        if hang_up or status == 599 or answer.will_close:
            connection.close()
        seen[status] += 1
        in_order, ended = ended, time.monotonic()
        if not is_expected(method, status, text):
            said = f"{status} to {method} {target[:300]} {headers} {body[:300]!r}: {text[:300]!r}"
            faults.append((in_order, ended, status in (503, 599), said))
    connection.close()
    return faults, seen


def test_random_requests_bring_no_failure_and_leave_nothing():
    with served() as ballast:
        context = ballast.tls()
        # Replicas come and go, so nobody can say what they leave behind.
        holdings = None if REPLICAS else ballast
        idle_files = holdings.open_files() if holdings else 0

        def round_of(count, first_seed):
            each = count // CONNECTIONS
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                ends = pool.map(lambda i: send(ballast, context, first_seed + i, each), range(CONNECTIONS))
                return zip(*ends, strict=True)

        began = time.monotonic()
        faults, statuses = [], Counter()
        memory = []
        for part, first_seed in ((REQUESTS // 5, SEED * 1000), (REQUESTS - REQUESTS // 5, SEED * 1000 + 500)):
            found, seen = round_of(part, first_seed)
            faults += sum(found, [])
            statuses += sum(seen, Counter())
            if holdings:
                memory.append(holdings.resident_kib())
        seconds = time.monotonic() - began
        print(f"{sum(statuses.values())} requests in {seconds:.0f} s: {dict(sorted(statuses.items()))}, KiB {memory}")
        # Who was in the midst of a request to a leader that was killed, or of a write that went
        # there, hears so. Nothing else may fail.
        cut_off = [said for since, until, is_refusal, said in faults if is_refusal and was_killed(since, until)]
        faults = [said for *_, said in faults if said not in cut_off]
        print(f"{len(KILLS)} leaders killed, {len(cut_off)} requests cut off")
        assert not faults, f"{len(faults)} failures:\n" + "\n".join(faults[:20])
        assert len(cut_off) <= 2 * CONNECTIONS * len(KILLS), "each kill costs each connection a request and its next"
        # The requests are a good test only if many of them succeed.
        assert statuses[200] + statuses[201] > REQUESTS // 10, statuses
        if holdings is None:
            return
        assert memory[1] - memory[0] < GROWTH_KIB_MAX, memory
        # The watches that hung up, like all other connections, are gone soon after.
        deadline = time.monotonic() + 60
        while (left := holdings.open_files()) > idle_files + 5 and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left <= idle_files + 5, f"{left} open files, {idle_files} at the start"
