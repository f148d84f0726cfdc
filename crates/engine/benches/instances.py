"""Reads the fleets that the bench has written (`objective.rs`), for what solves them elsewhere."""

import json
import pathlib


def instances(folder):
    """The name of each fleet, the fleet, and the level that Ballast brings it to."""
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        instance = json.loads(path.read_text())
        sites = instance["sites"]
        mean = sum(site["used"] for site in sites) / sum(site["has"] for site in sites)
        yield path.stem, instance, instance["ballast"]["after"] + mean
