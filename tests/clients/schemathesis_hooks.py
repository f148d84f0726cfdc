"""Steers schemathesis to requests that can find something.

It uses few names, so that objects are found again, and bodies with the right kind and apiVersion.
Half of the requests stay as they were generated.
"""

import zlib

import schemathesis

NAMES = ("a", "b", "c")
NAMESPACES = ("one", "two")


def chance(value, of):
    """A number below `of` that depends on the value alone, so that a seed repeats its run."""
    return zlib.crc32(repr(value).encode()) % of


def text(value):
    return value if isinstance(value, str) else repr(value)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and chance(path_parameters, 2):
        for name, known in (("name", NAMES), ("namespace", NAMESPACES)):
            if name in path_parameters:
                path_parameters[name] = known[chance(text(path_parameters[name]), len(known))]
    return path_parameters


@schemathesis.hook
def before_call(context, case, kwargs):
    query = case.query
    if isinstance(query, dict):
        # A watch has an endless answer. The other clients cover it.
        query.pop("watch", None)
        # The server waits three seconds for a version of the future and then answers 504, as
        # Kubernetes does.
        if str(query.get("resourceVersion", "")).strip("0123456789") == "":
            query.pop("resourceVersion", None)


@schemathesis.hook
def map_body(context, body):
    operation = context.operation
    kind = operation.definition.raw.get("x-kubernetes-group-version-kind") if operation is not None else None
    if isinstance(body, dict) and kind and operation.method in ("post", "put") and chance(body, 4):
        body["apiVersion"], body["kind"] = f"{kind['group']}/{kind['version']}", kind["kind"]
        metadata = body.get("metadata")
        name = NAMES[chance(body.get("spec"), len(NAMES))]
        body["metadata"] = {"name": name}
        if isinstance(metadata, dict) and chance(metadata, 2):
            body["metadata"] = {**metadata, "name": name}
            body["metadata"].pop("resourceVersion", None)
    return body
