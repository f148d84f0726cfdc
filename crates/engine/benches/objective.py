#!/usr/bin/env python3
"""Holds Ballast's plans for the whole fleet against the LP that HiGHS solves.

    python3 -m venv VENV && VENV/bin/pip install highspy
    cargo bench -p ballast-engine --bench objective -- 10000 100 --write FOLDER
    VENV/bin/python crates/engine/benches/objective.py FOLDER

The LP may split replicas, and moves them one by one. It answers two questions: how even can the
clusters be used at all, and how few replicas have to move for what Ballast has reached.
"""

import collections
import sys
import time

import highspy
import numpy

from instances import instances


class Lp:
    """A linear program that is written down row by row."""

    def __init__(self):
        self.costs, self.upper = [], []
        self.low, self.high, self.starts, self.columns, self.values = [], [], [0], [], []

    def variable(self, cost=0.0, upper=highspy.kHighsInf):
        self.costs.append(cost)
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, terms, low, high):
        for column, value in terms:
            self.columns.append(column)
            self.values.append(value)
        self.low.append(low)
        self.high.append(high)
        self.starts.append(len(self.columns))

    def least(self):
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.low)
        lp.col_cost_ = numpy.array(self.costs)
        lp.col_lower_ = numpy.zeros(len(self.costs))
        lp.col_upper_ = numpy.array(self.upper)
        lp.row_lower_, lp.row_upper_ = numpy.array(self.low), numpy.array(self.high)
        lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = lp.num_col_, lp.num_row_
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = numpy.array(self.starts)
        lp.a_matrix_.index_ = numpy.array(self.columns)
        lp.a_matrix_.value_ = numpy.array(self.values, dtype=float)
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.passModel(lp)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise SystemExit(f"no optimum: {solver.getModelStatus()}")
        return solver.getInfo().objective_function_value


def even(instance, is_careful):
    """The least level that no cluster is above. A careful plan counts room as Ballast does: what
    arrives fits beside all that is there at first, so that no move waits for another."""
    # What moves alike is one pool, which can be split. The unit is a mean cluster: with small units
    # the tolerances of the solver would count.
    unit = sum(site["has"] for site in instance["sites"]) / len(instance["sites"])
    there, pools = collections.Counter(), collections.Counter()
    fixed = [site["used"] for site in instance["sites"]]
    for item in instance["items"]:
        for site, replicas in item["at"]:
            amount = item["need"] * replicas
            there[item["choice"], site] += amount
            pools[item["choice"]] += amount
            fixed[site] -= amount
    lp = Lp()
    level = lp.variable(cost=1.0)
    used, arriving = collections.defaultdict(list), collections.defaultdict(list)
    for choice, amount in pools.items():
        ways = []
        for site in instance["choices"][choice]:
            stays = lp.variable(upper=there[choice, site] / unit)
            arrives = lp.variable()
            arriving[site].append((arrives, 1.0))
            used[site] += [(stays, 1.0), (arrives, 1.0)]
            ways += [(stays, 1.0), (arrives, 1.0)]
        lp.row(ways, amount / unit, amount / unit)
    for number, site in enumerate(instance["sites"]):
        terms = used[number] + [(level, -site["has"] / unit)]
        lp.row(terms, -highspy.kHighsInf, -fixed[number] / unit)
        if is_careful:
            lp.row(arriving[number], -highspy.kHighsInf, (site["has"] - site["used"]) / unit)
    return lp.least()


def fewest(instance, level):
    """The fewest replicas that have to move so that no cluster is above the level."""
    there = collections.Counter()
    for item in instance["items"]:
        for site, replicas in item["at"]:
            there[item["choice"], item["need"], site] += replicas
    # Whoever leaves a cluster goes into the pool of its kind, and out of it to any other cluster.
    lp, balance, pools = Lp(), collections.defaultdict(list), collections.defaultdict(list)
    for (choice, need, site), replicas in sorted(there.items()):
        out = lp.variable(cost=1.0, upper=float(replicas))
        balance[site].append((out, -need / 1_000.0))
        pools[choice, need].append((out, -1.0))
    for (choice, need), terms in pools.items():
        for site in instance["choices"][choice]:
            arriving = lp.variable()
            balance[site].append((arriving, need / 1_000.0))
            terms.append((arriving, 1.0))
        lp.row(terms, 0.0, 0.0)
    for number, site in enumerate(instance["sites"]):
        # What arrives needs room before anything leaves, which the LP need not keep.
        lp.row(balance[number], -highspy.kHighsInf, (level * site["has"] - site["used"]) / 1_000.0)
    return lp.least()


def main():
    print("| shape | level of Ballast | of the LP | of the careful LP | off | moved by Ballast | at least | more | s of Ballast | s of HiGHS |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, instance, level in instances(sys.argv[1]):
        ballast = instance["ballast"]
        began = time.monotonic()
        careful = even(instance, is_careful=True)
        seconds = time.monotonic() - began
        best = even(instance, is_careful=False)
        moved = fewest(instance, level)
        more = 100.0 * (ballast["moved"] / moved - 1.0) if moved > 0.5 else 0.0
        print(
            f"| {name} | {level:.4f} | {best:.4f} | {careful:.4f} | {100.0 * (level / careful - 1.0):.2f} % | {ballast['moved']} "
            f"| {moved:.0f} | {more:.1f} % | {ballast['seconds']:.2f} | {seconds:.2f} |",
            flush=True,
        )


main()
