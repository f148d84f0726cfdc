"""Our kinds as custom resources: CustomResourceDefinitions made from the published OpenAPI documents, one a line.

    definitions.py            the definitions, as JSON
    definitions.py --paths    where each is served, to see that the server has taken it up

What a definition says beyond its schema (names, scope, printer columns) is upstream's table, tests/data/karmada.tsv.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("WorkloadRebalancer", "ResourceBinding", "ClusterResourceBinding", "PropagationPolicy")
# Said by the published documents, and by no definition.
PUBLISHED_ONLY = ("x-kubernetes-group-version-kind", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key")


def structural(node, schemas, key=None):
    """The schema with its references put in place."""
    if isinstance(node, list):
        return [structural(item, schemas) for item in node]
    if not isinstance(node, dict):
        return node
    if key == "properties":
        return {name: structural(child, schemas) for name, child in node.items()}
    whole = {}
    for part in node.get("allOf", []) + ([node] if "$ref" in node else []):
        whole |= structural(schemas[part["$ref"].rsplit("/", 1)[1]], schemas)
    for name, value in node.items():
        if name not in ("allOf", "$ref", *PUBLISHED_ONLY):
            literal = name in ("default", "enum", "required")
            whole[name] = value if literal else structural(value, schemas, name)
    return whole


def kinds():
    table = (ROOT / "tests/data/karmada.tsv").read_text().splitlines()
    columns = [line.split("\t")[1:] for line in table if line.startswith("# column\t")]
    for line in table:
        if not line.startswith("# kind\t"):
            continue
        _, version, kind, *rest = line.split("\t")
        if kind in KINDS:
            yield version, kind, dict(pair.split("=", 1) for pair in rest), [c for c in columns if c[0] == kind]


def definition(api_version, kind, names, columns):
    group, version = api_version.split("/")
    document = json.loads((ROOT / f"openapi/v3/apis__{group}__{version}_openapi.json").read_text())
    schemas = document["components"]["schemas"]
    published = next(name for name in schemas if name.endswith(f".{version}.{kind}"))
    schema = structural(schemas[published], schemas)
    schema["properties"]["metadata"] = {"type": "object"}
    served = {
        "name": version, "served": True, "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}} if names["statusSubresource"] == "true" else {},
        "additionalPrinterColumns": [
            {"name": name, "type": type, "jsonPath": path, "priority": int(rest[0].split("=")[1])}
            for _, name, type, path, *rest in columns
        ],
    }  # fmt: skip
    listed = lambda name: [text for text in names[name].split(",") if text]  # noqa: E731
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names['plural']}.{group}",
            # Any *.k8s.io group would want an approval; ours do not, and it does no harm.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a comparison"},
        },
        "spec": {
            "group": group, "scope": names["scope"], "versions": [served],
            "names": {
                "kind": kind, "plural": names["plural"], "singular": names["singular"], "listKind": f"{kind}List",
                "shortNames": listed("shortNames"), "categories": listed("categories"),
            },
        },
    }  # fmt: skip


if __name__ == "__main__":
    for api_version, kind, names, columns in kinds():
        if "--paths" in sys.argv:
            print(f"/apis/{api_version}/{names['plural']}")
        else:
            print(json.dumps(definition(api_version, kind, names, columns)))
