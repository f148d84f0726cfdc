// What the page computes, without a browser: sums, lanes, flows, words. Run by `node --test`.
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = { hash: "", href: "http://localhost/ui/" };
globalThis.addEventListener = () => {};
globalThis.document = { hidden: false };
globalThis.requestAnimationFrame = (told) => setTimeout(told);

const page = "../../crates/server/src/ui";
const [derive, lanes, model, words, grid, plan, run, progress] = await Promise.all(
  ["derive", "lanes", "model", "words", "grid", "plan", "screens/run", "screens/progress"].map(
    (it) => import(`${page}/${it}.js`),
  ),
);

const T0 = Date.parse("2026-11-27T02:00:00Z");
const cluster = (name, { ready = "True", region = "eu", taints = [], room = {}, used = {} } = {}) =>
  model.cluster({
    metadata: { name },
    spec: { region, taints },
    status: {
      conditions: ready ? [{ type: "Ready", status: ready, message: "because" }] : [],
      resourceSummary: { allocatable: room, allocated: used },
    },
  });
const binding = (name, replicas, on, { ready = {}, from = [], type = "Divided", requests } = {}) =>
  model.binding({
    metadata: { name, namespace: "shop" },
    spec: {
      replicas,
      replicaRequirements: { resourceRequest: requests },
      placement: { replicaScheduling: { replicaSchedulingType: type } },
      clusters: Object.entries(on).map(([it, n]) => ({ name: it, replicas: n })),
      gracefulEvictionTasks: from.map((it) => ({ fromCluster: it, replicas: 1 })),
    },
    status: {
      aggregatedStatus: Object.entries(ready).map(([clusterName, readyReplicas]) => ({
        clusterName,
        status: { replicas: readyReplicas, readyReplicas },
      })),
    },
  });
const fleet = (...all) => new Map(all.map((it) => [it.key, it]));

test("replicas on clusters out of reach are missing from the second of the loss", () => {
  const all = [binding("a", 5, { m1: 3, m2: 2 }, { ready: { m1: 3, m2: 2 } })];
  const calm = derive.health(all, fleet(cluster("m1"), cluster("m2")));
  assert.deepEqual(calm.all, { wanted: 5, ready: 5, missing: 0 });
  const lost = cluster("m1", { ready: "False", region: "us" });
  const found = derive.health(all, fleet(lost, cluster("m2")));
  assert.deepEqual(found.all, { wanted: 5, ready: 2, missing: 3 });
  assert.deepEqual(found.byRegion.get("us"), { wanted: 3, ready: 0, missing: 3 });
  assert.deepEqual(found.byRegion.get("eu"), { wanted: 2, ready: 2, missing: 0 });
  assert.deepEqual(found.byNamespace.get("shop"), found.all);
});

test("what is placed nowhere belongs to no region, and is missing all the same", () => {
  const found = derive.health([binding("a", 4, {})], fleet(cluster("m1")));
  assert.deepEqual([found.all.missing, found.unplaced, found.byRegion.size], [4, 4, 0]);
});

test("what still serves while it leaves is ready there, and each copy is wanted", () => {
  const leaving = binding("a", 2, { m2: 2 }, { ready: { m1: 2, m2: 0 }, from: ["m1"] });
  assert.equal(derive.standing(leaving, new Set()).missing, 0);
  const copies = binding("b", 2, { m1: 2, m2: 2 }, { ready: { m1: 2, m2: 1 }, type: "Duplicated" });
  const { wanted, ready, missing } = derive.standing(copies, new Set());
  assert.deepEqual([wanted, ready, missing], [4, 3, 1]);
});

test("capacity has every resource that anybody requests, and goes beyond what there is", () => {
  const gpus = { requests: { "nvidia.com/gpu": "2" } };
  const all = [binding("a", 3, { m1: 3 }, { ...gpus, ready: { m1: 3 } })];
  const one = cluster("m1", { room: { cpu: "4", "nvidia.com/gpu": "4" }, used: { cpu: "1" } });
  assert.deepEqual(derive.resources(all, [one]), ["cpu", "memory", "pods", "nvidia.com/gpu"]);
  const own = derive.capacity(one, derive.loads(all, []).get("m1"), "nvidia.com/gpu");
  assert.deepEqual(own, { all: 4, used: 6, promised: 0 });
  assert.equal(derive.share(own), 1.5);
});

test("a copy is gone or there, and never goes from 0 to 0", () => {
  const [gone, come] = derive.changes(
    [{ name: "m1", replicas: null }],
    [{ name: "m2", replicas: null }],
  );
  assert.deepEqual([gone.isCopy, gone.arrives], [true, false]);
  assert.deepEqual([come.isCopy, come.arrives], [true, true]);
});

test("regions in trouble come first, and those without a name last", () => {
  const groups = derive.byRegion(
    [cluster("a", { region: "" }), cluster("b"), cluster("c", { region: "zz", ready: "False" })],
    (it) => it.region,
    derive.severity,
  );
  assert.deepEqual(
    groups.map((it) => it.region),
    ["zz", "eu", ""],
  );
});

const change = (at, name, given) => ({ at: T0 + at * 1000, name, cluster: cluster(name, given) });

test("sre-06: an entry bears the time of its first event, and later ones make their own", () => {
  const changes = [change(0, "m1"), change(1, "m2"), change(2, "m3"), change(3, "m4")];
  const before = lanes.chronicle(changes, [], []);
  assert.equal(before.length, 1);
  assert.match(before[0].what, /^4 clusters joined/);
  assert.deepEqual([before[0].from, before[0].to], [T0, T0 + 3000]);
  const after = lanes.chronicle([...changes, change(2700, "m5")], [], []);
  assert.equal(after.length, 2);
  assert.deepEqual([after[0].what, after[0].from], ["m5 joined", T0 + 2_700_000]);
  assert.deepEqual(after[1], before[0]);
});

test("sre-06: evictions that pause are several entries", () => {
  const evictions = [0, 20, 40, 600].map((it) => ({ at: T0 + it * 1000, from: "m1" }));
  const found = lanes.chronicle([], evictions, []);
  assert.deepEqual(
    found.map((it) => [it.what, it.from - T0]),
    [
      ["1 eviction", 600_000],
      ["3 evictions", 0],
    ],
  );
});

test("cordons, taints and rebalances of namespaces have entries", () => {
  const cordon = { taints: [{ key: "cluster.karmada.io/unschedulable", effect: "NoSchedule" }] };
  const changes = [change(0, "m1"), change(60, "m1", cordon), change(90, "m1")];
  const rebalance = {
    metadata: { name: "evac", namespace: "pay" },
    status: { startedAt: "2026-11-27T02:05:00Z", summary: { toMove: 35 } },
  };
  const found = lanes.chronicle(changes, [], [rebalance]).map((it) => it.what);
  assert.deepEqual(found, [
    "Rebalance pay/evac began:",
    "m1 was uncordoned",
    "m1 was cordoned: nothing new comes to it",
    "m1 joined",
  ]);
});

test("lanes of clusters that are well are folded, and found by their names", () => {
  const names = Array.from({ length: 45 }, (_, i) => `c${i}`);
  const given = { names, regionOf: (it) => `r${Number(it.slice(1)) % 3}`, opened: new Set() };
  const found = lanes.lines({ ...given, struck: new Set(["c4"]), text: "" });
  assert.deepEqual(
    found.map((it) => (it.kind === "lane" ? it.name : `${it.region}: ${it.folded}`)),
    ["r1: 14", "c4", "r0: 15", "r2: 15"],
  );
  const sought = lanes.lines({ ...given, struck: new Set(), text: "c44" });
  assert.deepEqual(
    sought.filter((it) => it.kind === "lane").map((it) => it.name),
    ["c44"],
  );
  const many = Array.from({ length: 1000 }, (_, i) => `c${i}`);
  const all = lanes.lines({ ...given, names: many, struck: new Set(many), text: "" });
  assert.ok(all.length < 100, `${all.length} lines`);
});

test("what is lost is missing from that second on, and what is not read is coarse", () => {
  const changes = [change(0, "m1"), change(10, "m1", { ready: "False" })];
  const sample = (at, ready, missing, revision) => ({
    at: T0 + at * 1000,
    revision,
    ready: new Map([["m1", ready]]),
    missing,
    total: ready + missing,
  });
  const found = lanes.stack(
    [sample(5, 3, 1, "1"), sample(12, 0, 4, "2"), sample(90, 9, 0, "3")],
    ["m1"],
    (it) => it,
    lanes.losses(changes),
    6000,
  );
  assert.deepEqual(
    found.map((it) => [(it.at - T0) / 1000, it.groups[0], it.missing, it.isCoarse]),
    [
      [5, 3, 1, false],
      [10, 0, 4, false],
      [12, 0, 4, true],
      [90, 9, 0, false],
    ],
  );
  assert.deepEqual(lanes.turns(changes), [T0 + 10_000]);
  const status = { revision: "7", clusters: [{ name: "m1", replicas: { ready: 2, missing: 1 } }] };
  status.replicas = { ready: 2, missing: 5, wanted: 7 };
  assert.deepEqual(lanes.sampleOf(1, status), {
    at: 1,
    revision: "7",
    ready: new Map([["m1", 2]]),
    missing: 5,
    total: 7,
  });
});

test("an axis has round numbers from 0 to what is not below the greatest", () => {
  assert.deepEqual(lanes.ticks(2799), [0, 1000, 2000, 3000]);
  assert.deepEqual(lanes.ticks(7), [0, 2, 4, 6, 8]);
  assert.deepEqual(lanes.ticks(1), [0, 1]);
  assert.deepEqual(lanes.ticks(0), [0, 1]);
  assert.deepEqual(lanes.ticks(9), [0, 3, 6, 9]);
});

test("tiles of a run are the counts of its summary, and add up", () => {
  const summary = {
    selected: 9,
    toMove: 6,
    settled: 2,
    moving: 1,
    pending: 2,
    failed: 3,
    unchanged: 1,
  };
  const { counts, all } = run.tally(summary);
  assert.equal(all, summary.selected);
  assert.deepEqual([counts.Failed, counts.Unchanged, counts.Settled], [3, 1, 2]);
  const reasons = [
    { reason: "NoClusterFits", count: 2 },
    { reason: "LimitReached", count: 1 },
  ];
  // Two of the failed ones never had a place to move to, and are no part of `toMove`.
  assert.equal(progress.planned({ summary, reasons }), 8);
  const aborted = { toMove: 6, settled: 2, failed: 2, unchanged: 5 };
  assert.equal(progress.planned({ summary: aborted, reasons }), 8);
  assert.equal(progress.failures(aborted), "2 failed");
});

test("figures of objectives have units", () => {
  assert.equal(words.figure(0.2558, "ShareOfCapacity"), "25.58 % of capacity");
  assert.equal(words.figure(2195, "Replicas"), "2,195 replicas");
  assert.equal(words.figure(1, "Clusters"), "1 cluster");
  assert.equal(words.figure(0.72, "CostPerHour"), "0.72 an hour");
});

const bindingOf = (spec, more = {}) =>
  model.binding({
    metadata: { name: "web", namespace: "shop", ...more.metadata },
    spec,
    status: more.status,
  });

test("an evicted copy stays wanted, and only returns count as to return", () => {
  const home = JSON.stringify({
    targets: [
      { name: "a", replicas: 2 },
      { name: "b", replicas: 2 },
    ],
  });
  const metadata = { annotations: { "ballast.dev/home": home } };
  const rest = bindingOf({ replicas: 2, clusters: [{ name: "b", replicas: 2 }] }, { metadata });
  assert.deepEqual([derive.wantedOf(rest), derive.standing(rest, new Set()).unplaced], [4, 2]);
  const move = {
    binding: { namespace: "shop", name: "web" },
    from: [{ name: "b", replicas: 2 }],
    to: [
      { name: "a", replicas: 2 },
      { name: "c", replicas: 2 },
    ],
  };
  const loads = derive.loads([rest], [move]);
  assert.deepEqual([loads.get("a")?.homecoming, loads.get("c")?.homecoming ?? 0], [2, 0]);
});

test("a workload that runs in full is not unschedulable", () => {
  const placement = { replicaScheduling: { replicaSchedulingType: "Divided" } };
  const status = { conditions: [{ type: "Scheduled", status: "False", reason: "Unschedulable" }] };
  const on = (replicas) =>
    bindingOf({ replicas: 4, placement, clusters: [{ name: "b", replicas }] }, { status });
  assert.deepEqual([on(4), on(3)].map(derive.isUnschedulable), [false, true]);
});

test("a plan is told what has changed in the fleet since, but not what its drain has closed", () => {
  const at = (/** @type {number} */ second) =>
    `2026-11-28T03:00:${String(second).padStart(2, "0")}Z`;
  const cluster = (/** @type {string} */ name, /** @type {number} */ edited, ready = 1) =>
    model.cluster({
      metadata: {
        name,
        creationTimestamp: at(0),
        managedFields: [
          { time: at(edited) },
          // Each report of an agent is a write, too.
          { time: at(50), subresource: "status" },
        ],
      },
      status: { conditions: [{ type: "Ready", status: "True", lastTransitionTime: at(ready) }] },
    });
  const fleet = [cluster("as-it-was", 3), cluster("cordoned", 20), cluster("back", 3, 30)];
  fleet.push(cluster("drained", 12));
  const planned = Date.parse(at(10));
  assert.deepEqual(run.changedSince(fleet, planned, ["drained"]), ["back", "cordoned"]);
});

test("flows match what leaves with what arrives", () => {
  const moves = [
    {
      from: [{ name: "a", replicas: 5 }],
      to: [
        { name: "b", replicas: 3 },
        { name: "c", replicas: 2 },
      ],
    },
  ];
  assert.deepEqual(
    plan.flows(moves).map((it) => [it.from, it.to, it.replicas]),
    [
      ["a", "b", 3],
      ["a", "c", 2],
    ],
  );
});

test("what is more than all is told as more, and a sum that is off by rounding is not", () => {
  assert.equal(words.fullness(64.3, 64), "101 %");
  assert.equal(words.fullness(0.1 + 0.2, 0.3), "100 %");
});

test("labels keep their order and their distance", () => {
  assert.deepEqual(words.apart([2, 4, 5, 60], 10, 6, 100), [6, 16, 26, 60]);
  assert.deepEqual(words.apart([80, 95, 99], 10, 6, 100), [80, 90, 100]);
});

test("the first line says what is short, and not how the engine came to it", () => {
  const full =
    "failed to assign replicas: failed to scale up: Clusters available replicas 0 are not enough to schedule.; cluster member10: 0 free, 0 promised to others";
  assert.equal(words.shortage(full), "not enough free capacity on the clusters that it may use");
  assert.equal(
    words.shortage("0/45 clusters are available: 3 cluster(s) had untolerated taint."),
    "no cluster fits: 3 cluster(s) had untolerated taint",
  );
  assert.equal(words.shortage("suspended"), "suspended");
});

test("names keep their ends, and lose what all of them share", () => {
  const names = [
    "prod-eu-west-1-blue-k8s-01",
    "prod-eu-west-1-core-k8s-01",
    "prod-us-east-1-gpu-k8s-01",
  ];
  assert.deepEqual(
    [...words.distinct(names).values()],
    ["…eu-west-1-blue…", "…eu-west-1-core…", "…us-east-1-gpu…"],
  );
});

test("a share that is not all is never told as all, nor a small one as a large one", () => {
  assert.deepEqual(
    [0, 1, 9, 10, 999, 1000].map((it) => words.percent(it, 1000)),
    ["0 %", "0.1 %", "0.9 %", "1 %", "99 %", "100 %"],
  );
  assert.equal(words.percent(22, 363_564), "less than 0.1 %");
});

test("counts of the server stand for bindings that are still being read", () => {
  const replicas = { workloads: 2, wanted: 5, ready: 3, missing: 2 };
  const counted = derive.counted({
    replicas,
    unplaced: 1,
    unschedulable: 1,
    regions: [{ name: "r1", replicas }],
    clusters: [{ name: "m1", replicas, leaving: 1, arriving: 2 }],
  });
  const health = { wanted: 5, ready: 3, missing: 2 };
  assert.deepEqual([counted.health.all, counted.health.unplaced], [health, 1]);
  assert.deepEqual([...counted.health.byRegion], [["r1", health]]);
  const { placed, workloads, leaving } = counted.loads.get("m1");
  assert.deepEqual([placed, workloads, leaving], [6, 2, 1]);
  assert.deepEqual([counted.schedule.stuck, counted.schedule.scheduled], [1, null]);
});

test("a click on a head sorts by it, the other way round, and not at all", () => {
  const column = { id: "n", isNumber: true, sort: (it) => it };
  assert.deepEqual(
    ["", "-n", "n"].map((it) => grid.nextSort(it, column)),
    ["-n", "n", ""],
  );
  assert.deepEqual(grid.sorted([1, 3, 2], [column], "-n"), [3, 2, 1]);
});

test("a recorded change is shown for the targets that it is about alone", () => {
  // The digest is the server's: see `last_change.rs`.
  const sentence = "4 replicas added: member1 0 to 2, because it was placed for the first time.";
  const binding = (clusters) =>
    model.binding({
      metadata: {
        name: "web",
        annotations: { "ballast.dev/last-change": `2024-04-17T15:00:05Z 2a496880 ${sentence}` },
      },
      spec: { clusters },
    });
  const on = (name, replicas) => ({ name, replicas });
  const targets = [on("member3", 1), on("member1", 2), on("member2", 1)];
  const at = Date.parse("2024-04-17T15:00:05Z");
  assert.deepEqual(model.lastChange(binding(targets)), { at, sentence });
  assert.equal(model.lastChange(binding(targets.slice(1))), null);
});
