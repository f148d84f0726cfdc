"""What came back, with what no two servers can agree on made equal, and how two answers differ."""

import json
import re

import documents
import table

try:
    import yaml
except ImportError:
    # Then YAML is compared as text, and the order of its keys shows.
    yaml = None

# Of the others a client takes no notice, or they belong to one server alone (dates, lengths, audit
# ids, HTTP/2).
HEADERS = (
    "allow", "cache-control", "content-encoding", "content-type", "location", "retry-after", "vary", "warning",
    "www-authenticate", "x-content-type-options",
)  # fmt: skip
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# Where messages count: revisions and table cells that tell an age.
REVISIONS = re.compile(r"((?:resource version|record|precondition|current): \(?|ResourceVersion in \w+ \()(\d+)")
AGE = re.compile(r"(\d+[smhd])+")
# What Karmada's webhook, and here Ballast itself, adds to a binding and a policy; a bare custom
# resource has none.
PERMANENT_ID = re.compile(r"(f:)?\w+\.karmada\.io/permanent-id")
# What a server makes of a generateName.
GENERATED = re.compile(r"(?<!\w)(\w*-|g|A_|a{57,58})[bcdfghjklmnpqrstvwxz2456789]{5}\b")
TEXT_SHOWN_MAX = 500


class Seen:
    """The revisions and names that one server gave in one scenario, by the order in which they came."""

    def __init__(self):
        self.values = {}

    def name(self, kind, value):
        same = self.values.setdefault(kind, {})
        return f"{kind}{same.setdefault(value, len(same) + 1)}"


class Answer:
    def __init__(self, code, headers, body, seen, picks=()):
        self.code, self.seen = code, seen
        self.headers = {}
        for name, value in headers:
            if name.lower() in HEADERS:
                self.headers.setdefault(name.lower(), []).append(self.levelled_text(value))
        try:
            self.raw = [json.loads(body)]
        except ValueError:
            self.raw = texts(body, dict(headers).get("Content-Type") or dict(headers).get("content-type", ""))
        for pick in picks if code == 200 else ():
            self.raw = [documents.PICKS[pick](value) for value in self.raw]
        self.body = [self.levelled(value) for value in self.raw]

    def find(self, path):
        value = self.raw[0] if self.raw else {}
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value.get(part, "") if isinstance(value, dict) else ""
        return value if isinstance(value, str) else json.dumps(value)

    def levelled(self, value, key=None):
        if isinstance(value, dict):
            value = in_order(value)
            pairs = {name: self.levelled(child, name) for name, child in value.items()}
            rest = {name: child for name, child in pairs.items() if not PERMANENT_ID.fullmatch(name)}
            lost = len(rest) < len(pairs) and set(rest) <= {"."}
            return None if lost else {name: child for name, child in rest.items() if not is_emptied(name, child)}
        if isinstance(value, list):
            return [self.levelled(child, key) for child in value]
        if not isinstance(value, str) or not value:
            return value
        if key == "resourceVersion":
            return self.seen.name("RV", value)
        if key == "continue":
            return "TOKEN"
        if key == "cells" and AGE.fullmatch(value):
            return "AGE"
        return self.levelled_text(value)

    def levelled_text(self, value):
        value = value.replace(table.RUN, "")
        value = UUID.sub(lambda found: self.seen.name("UID", found.group()), value)
        value = REVISIONS.sub(r"\1N", value)
        return GENERATED.sub(r"\1XXXXX", TIME.sub("TIME", value))

    def text(self):
        text = f"{self.code} {json.dumps(self.headers)} {json.dumps(self.body)}"
        return text if len(text) < TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}…"


def in_order(value):
    """A status with its causes sorted, each once: Go looks at the members of an object in no order, and there at
    its metadata twice."""
    causes = value.get("details", {}).get("causes", []) if value.get("reason") == "Invalid" else []
    told = [f"{cause.get('field')}: {cause.get('message')}" for cause in causes]
    if not told or not all(text in value["message"] for text in told):
        return value
    head = value["message"].split(" is invalid: ")[0]
    once = {json.dumps(cause, sort_keys=True): cause for cause in causes}
    details = value["details"] | {"causes": [once[text] for text in sorted(once)]}
    return value | {"message": f"{head} is invalid: {', '.join(sorted(set(told)))}", "details": details}


def is_emptied(name, child):
    """Whether the permanent id was all that there was: no bare custom resource would have the member at all."""
    if name in ("labels", "f:labels"):
        return child is None
    return name == "f:metadata" and child == {}


def texts(body, content_type):
    """YAML, a stream of JSON documents, or else text."""
    text = body.decode(errors="replace")
    try:
        if yaml and content_type.endswith("/yaml"):
            return [yaml.load(text, yaml.BaseLoader)]
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return [text]


def differences(real, ours):
    found = []
    if real.code != ours.code:
        gists = [gist(answer) for answer in (real, ours)]
        return [f"code: {real.code} != {ours.code}: {gists[0]} != {gists[1]}"]
    compare("header", real.headers, ours.headers, found)
    for index in range(max(len(real.body), len(ours.body))):
        pair = [answer.body[index] if index < len(answer.body) else "(nothing)" for answer in (real, ours)]
        compare("body" if len(real.body) < 2 else f"event{index}", *pair, found)
    return found


def gist(answer):
    """What an answer says, where two answers are not to be compared member by member."""
    value = answer.body[0] if answer.body else None
    return shown(value["message"] if isinstance(value, dict) and "message" in value else value)


def compare(path, real, ours, found):
    if isinstance(real, dict) and isinstance(ours, dict):
        for name in sorted({*real, *ours}):
            compare(f"{path}.{name}", real.get(name, "(absent)"), ours.get(name, "(absent)"), found)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (a, b) in enumerate(zip(real, ours)):
            compare(f"{path}[{index}]", a, b, found)
    elif isinstance(real, list) and isinstance(ours, list) and path.endswith((".items", ".rows")):
        found.append(f"{path}: {len(real)} of them != {len(ours)} of them")
    elif real != ours or type(real) is not type(ours):
        found.append(f"{path}: {shown(real)} != {shown(ours)}")


def shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}…"


class Accepted:
    """`accepted.txt`: a reason in lines that begin with `#`, then patterns `REQUEST => DIFFERENCE` that it excuses."""

    def __init__(self, file):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        self.patterns = {line: tuple(re.compile(part) for part in line.split(" => ")) for line in lines}
        # What each has excused.
        self.used = {line: [] for line in self.patterns}

    def covers(self, request, difference):
        matching = [
            line for line, (where, what) in self.patterns.items() if where.search(request) and what.search(difference)
        ]
        for line in matching:
            self.used[line].append((request, difference))
        return bool(matching)

    def unused(self):
        return [line for line, excused in self.used.items() if not excused]
