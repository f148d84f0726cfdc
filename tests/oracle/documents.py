"""What a document of a server says about the kinds that both servers have: others have no counterpart, and the order is
each server's own. `~ NAME` in a table picks with one of `PICKS`.
"""

import definitions

PLURALS = {(version, names["plural"]) for version, _, names, _ in definitions.kinds()}


def resources(document):
    """An APIResourceList with its resources by their names; anything else as it is."""
    if not isinstance(document, dict) or document.get("kind") != "APIResourceList":
        return document
    of_both = [it for it in document["resources"] if (document["groupVersion"], it["name"].split("/")[0]) in PLURALS]
    return document | {"resources": {it["name"]: it for it in of_both}}


PICKS = {"resources": resources}
