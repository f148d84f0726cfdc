"""The tables of requests: plain text, read by people first.

    # a title begins a scenario, with a namespace of its own
    GET $rb?limit=<<|0|x>>                  every way to fill the brackets is a request
      Accept: application/yaml              a header
      | {"spec": ...}                       a line of the body
      @uid = metadata.uid                   from here on $uid is this member of the answer
      ~ resources                           of the answer only this is compared (documents.py)
    // a remark

`$name` stands for a text of `WORDS` or for a captured value. A line of the body may have brackets, too.
A body is JSON unless a Content-Type is given.
"""

import itertools
import os
import re
import string
import urllib.parse
from dataclasses import dataclass, field

WORK = "/apis/work.karmada.io/v1alpha2"
WORDS = {
    "work": WORK,
    "all": f"{WORK}/resourcebindings",
    "rb": f"{WORK}/namespaces/$ns/resourcebindings",
    "crb": f"{WORK}/clusterresourcebindings",
    "pp": "/apis/policy.karmada.io/v1alpha1/namespaces/$ns/propagationpolicies",
    "wr": "/apis/apps.karmada.io/v1alpha1/workloadrebalancers",
    # The beginnings of objects.
    "RB": '"apiVersion":"work.karmada.io/v1alpha2","kind":"ResourceBinding"',
    "CRB": '"apiVersion":"work.karmada.io/v1alpha2","kind":"ClusterResourceBinding"',
    "PP": '"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy"',
    "WR": '"apiVersion":"apps.karmada.io/v1alpha1","kind":"WorkloadRebalancer"',
    # The least that a binding and a policy must say.
    "R": '"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}',
    "S": '"spec":{"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}',
    "P": '"resourceSelectors":[{"apiVersion":"apps/v1","kind":"Deployment"}]',
    # Media types.
    "merge": "Content-Type: application/merge-patch+json",
    "json": "Content-Type: application/json-patch+json",
    "apply": "Content-Type: application/apply-patch+yaml",
    "yaml": "Content-Type: application/yaml",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "partial": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "partials": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    # What is tedious to write.
    "a254": "a" * 254, "a64": "a" * 64, "a129": "a" * 129, "kib300": "x" * (300 << 10),
}  # fmt: skip
# Marks the names of one run, so that a server may be asked twice; answers lose it again.
RUN = f"-{os.getpid():x}"
METHODS = r"(<<[A-Z|]+>>|GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|FOO)"


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: str | None


@dataclass
class Line:
    """A request as it is written, with one choice made for each bracket."""

    method: str
    path: str
    headers: tuple = ()
    body: str | None = None
    captures: list = field(default_factory=list)
    picks: list = field(default_factory=list)

    @property
    def shown(self):
        parts = [self.method, self.path, *(f"{{{header}}}" for header in self.headers), self.body or ""]
        parts += [f"~ {pick}" for pick in self.picks]
        text = " ".join(parts).strip()
        return text if len(text) < 400 else f"{text[:400]}…"

    def filled(self, scenario, values):
        words = {**WORDS, "ns": scenario.namespace, **values}

        def fill(text):
            for _ in range(2):
                text = string.Template(text).safe_substitute(words)
            return text

        headers = dict(fill(header).split(": ", 1) for header in self.headers)
        body = None if self.body is None else fill(self.body)
        if body and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        path = urllib.parse.quote(fill(self.path), safe="/?&=%*,:;+!$'()~@[]{}#")
        return Request(self.method, path, headers, body)


@dataclass
class Scenario:
    title: str
    namespace: str
    requests: list


def warming():
    """Writes that no scenario sees, so that the first revisions of a fresh server are used up."""
    scenario = Scenario("", f"warm{RUN}", [])
    for method, path, body in (("POST", "$rb", '{$RB,"metadata":{"name":"a"},$S}'), ("DELETE", "$rb/a", None)):
        yield Line(method, path, (), body).filled(scenario, {})


def read(folder):
    scenarios = []
    for file in sorted(folder.glob("*.txt")):
        for block in re.split(r"^# ", file.read_text(), flags=re.M)[1:]:
            title, *lines = block.splitlines()
            namespace = f"o{len(scenarios)}{RUN}"
            scenarios.append(Scenario(f"{file.stem}: {title}", namespace, list(requests(lines))))
    return scenarios


def requests(lines):
    found = []
    for line in lines:
        text = line.strip()
        if not text or text.startswith("//"):
            continue
        if match := re.match(METHODS + r" ([/$<].*)$", line):
            found.append(Line(*match.groups()))
        elif text.startswith("|"):
            found[-1].body = "\n".join(filter(None, [found[-1].body, text[1:].removeprefix(" ")]))
        elif text.startswith("@"):
            found[-1].captures.append(tuple(text[1:].split(" = ")))
        elif text.startswith("~"):
            found[-1].picks.append(text[1:].strip())
        else:
            found[-1].headers += (text,)
    for line in found:
        yield from expanded(line)


def expanded(line):
    parts = (line.method, line.path, "\x00".join(line.headers), line.body or "")
    whole = "\x01".join(parts)
    pieces = re.split(r"<<(.*?)>>", whole, flags=re.S)
    fixed, choices = pieces[::2], [piece.split("|") for piece in pieces[1::2]]
    for choice in itertools.product(*choices):
        text = fixed[0] + "".join(a + b for a, b in zip(choice, fixed[1:]))
        method, path, headers, body = text.split("\x01")
        headers = tuple(header for header in headers.split("\x00") if header and not header.endswith(": "))
        yield Line(method, path, headers, body if line.body is not None else None, line.captures, line.picks)
