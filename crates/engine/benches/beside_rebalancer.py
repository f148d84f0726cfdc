#!/usr/bin/env python3
"""Solves the fleets of the bench with Meta's open rebalancer, if it is there (Python 3.12).

    python3.12 -m venv VENV && VENV/bin/pip install rebalancer
    cargo bench -p ballast-engine --bench objective -- 10000 100 --write FOLDER
    VENV/bin/python crates/engine/benches/beside_rebalancer.py FOLDER [SECONDS]

It has to keep to the clusters that each workload may be on, and lowers the use of the fullest
cluster by moves of single replicas, from where everything is. SECONDS (default 300) is how long it
may search for each fleet.
"""

import collections
import sys
import time

try:
    from rebalancer import ProblemSolver
except ImportError:
    raise SystemExit("rebalancer is not installed")

from instances import instances


def solve(instance, seconds):
    clusters = [f"cluster-{number}" for number in range(len(instance["sites"]))]
    there, needs, groups = collections.defaultdict(list), {}, collections.defaultdict(list)
    for number, item in enumerate(instance["items"]):
        for site, replicas in item["at"]:
            for _ in range(replicas):
                name = f"replica-{len(needs)}"
                needs[name] = float(item["need"])
                there[clusters[site]].append(name)
                groups[f"choice-{item['choice']}"].append(name)
    closed = {
        cluster: {f"choice-{choice}": 1.0 for choice, open in enumerate(instance["choices"]) if site not in open}
        for site, cluster in enumerate(clusters)
    }
    solver = ProblemSolver(service_name="rebalancer", service_scope="ballast")
    solver.set_object_name("replica").set_container_name("cluster")
    solver.set_assignment({cluster: there[cluster] for cluster in clusters})
    solver.add_object_dimension("cpu", needs)
    has = {cluster: float(site["has"]) for cluster, site in zip(clusters, instance["sites"])}
    solver.add_container_dimension("cpu", has)
    solver.add_constraint({"capacitySpec": {"name": "room", "scope": "cluster", "dimension": "cpu"}})
    if any(closed.values()):
        solver.add_partition("choice", dict(groups))
        solver.add_dynamic_object_dimension_by_partition("closed", "cluster", "choice", closed, 0.0)
        limit = {"type": 0, "globalLimit": 0.0}
        solver.add_constraint(
            {"capacitySpec": {"name": "rules", "scope": "cluster", "dimension": "closed", "limit": limit}}
        )
    solver.add_goal({"balanceSpec": {"name": "even", "scope": "cluster", "dimension": "cpu"}})
    moves = [{"singleMoveTypeSpec": {}}]
    solver.add_solver({"localSearchSolverSpec": {"solveTime": seconds, "moveTypeList": moves}})
    began = time.monotonic()
    answer = solver.solve()["assignment"]
    took = time.monotonic() - began
    used, moved = collections.Counter(), 0
    for cluster, names in there.items():
        moved += sum(answer[name] != cluster for name in names)
    for name, cluster in answer.items():
        used[cluster] += needs[name]
    return max(used[cluster] / has[cluster] for cluster in clusters), moved, took


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    print("| shape | level of Ballast | of the rebalancer | moved by Ballast | by the rebalancer | s of Ballast | s of the rebalancer |")
    print("|---|---|---|---|---|---|---|")
    for name, instance, own in instances(sys.argv[1]):
        ballast = instance["ballast"]
        level, moved, took = solve(instance, seconds)
        print(
            f"| {name} | {own:.4f} | {level:.4f} | {ballast['moved']} | {moved} "
            f"| {ballast['seconds']:.2f} | {took:.1f} |",
            flush=True,
        )


main()
