// @ts-check
/** Sums over bindings and clusters, for all screens alike. Pure. */
import * as model from "./model.js";

/**
 * `requests` are those of all that is placed. `existing` are those of the replicas that the cluster
 * reports, and `promised` those that are placed and not reported.
 * @typedef {{ placed: number, workloads: number, leaving: number, arriving: number, homecoming: number, requests: Record<string, number>, existing: Record<string, number>, promised: Record<string, number> }} Load
 */

/** How long a placement is promised where nothing is reported: `--reservation-ttl` as it is by default. */
const PROMISED_MS = 300_000;

/** @returns {Load} */
const nothing = () => ({
  placed: 0,
  workloads: 0,
  leaving: 0,
  arriving: 0,
  homecoming: 0,
  requests: {},
  existing: {},
  promised: {},
});

/**
 * What a map has of a key, made if it has nothing.
 * @template T
 * @param {Map<string, T>} map @param {string} key @param {() => T} make
 */
function entry(map, key, make) {
  const known = map.get(key) ?? make();
  map.set(key, known);
  return known;
}

/**
 * Adds what so many replicas of a binding take.
 * @param {Record<string, number>} sums @param {model.Binding} binding @param {number} pods
 */
function take(sums, binding, pods) {
  if (pods === 0) return;
  const { requests } = binding;
  if (!("pods" in requests)) sums.pods = (sums.pods ?? 0) + pods;
  for (const resource in requests)
    sums[resource] = (sums[resource] ?? 0) + (requests[resource] ?? 0) * pods;
}

/**
 * The replicas of a target that no report shows yet.
 * @param {model.Binding} binding @param {string} cluster @param {number} pods @param {number} now
 */
function promised(binding, cluster, pods, now) {
  const report = binding.reports[cluster];
  if (report && report.exist !== null) return Math.max(0, pods - report.exist);
  const isNew = now - (binding.lastScheduled ?? binding.created ?? 0) < PROMISED_MS;
  return isNew && !report?.arrived ? pods : 0;
}

/**
 * What each cluster carries.
 * @param {Iterable<model.Binding>} bindings
 * @param {Iterable<any>} homecoming moves of a review: what would be where it is not
 * @param {number} [now] in milliseconds
 * @returns {Map<string, Load>}
 */
export function loads(bindings, homecoming, now = Date.now()) {
  /** @type {Map<string, Load>} */
  const found = new Map();
  /** @param {string} name */
  const of = (name) => entry(found, name, nothing);
  /** @type {Map<string, model.Share[]>} */
  const homes = new Map();
  for (const binding of bindings) {
    if (binding.home.length) homes.set(binding.key, binding.home);
    for (const { name, replicas } of binding.targets) {
      const load = of(name);
      const pods = replicas ?? binding.replicas;
      load.placed += pods;
      load.workloads += 1;
      const report = binding.reports[name];
      if (report && report.ready !== null) load.arriving += Math.max(0, pods - report.ready);
      take(load.requests, binding, pods);
      take(load.promised, binding, promised(binding, name, pods, now));
    }
    for (const [name, { exist }] of Object.entries(binding.reports))
      if (exist) take(of(name).existing, binding, exist);
    for (const { from, replicas } of binding.evictions) of(from).leaving += replicas;
  }
  for (const move of homecoming) {
    // What goes where the workload never was is no return.
    const key = `${model.text(move.binding?.namespace)}/${model.text(move.binding?.name)}`;
    const home = new Set((homes.get(key) ?? []).map(({ name }) => name));
    for (const { name, change } of changes(model.shares(move.from), model.shares(move.to))) {
      if (change > 0 && home.has(name)) of(name).homecoming += change;
    }
  }
  return found;
}

/**
 * How many replicas each cluster has.
 * @param {Iterable<model.Binding>} bindings
 * @returns {Map<string, number>}
 */
export function replicas(bindings) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const { targets } of bindings) {
    for (const { name, replicas: count } of targets)
      found.set(name, (found.get(name) ?? 0) + (count ?? 0));
  }
  return found;
}

/**
 * What differs between two placements. A copy is there or not: it has no number of its own.
 * @param {model.Share[]} from
 * @param {model.Share[]} to
 * @returns {{ name: string, before: number, after: number, change: number, isCopy: boolean, arrives: boolean }[]}
 *   by name of cluster
 */
export function changes(from, to) {
  const [before, after] = [counts(from), counts(to)];
  const copies = new Set(
    [...from, ...to].filter(({ replicas }) => replicas === null).map(({ name }) => name),
  );
  const names = [...new Set([...before.keys(), ...after.keys()])].sort(model.byName);
  return names
    .map((name) => ({ name, before: before.get(name) ?? 0, after: after.get(name) ?? 0 }))
    .map((it) => ({ ...it, change: it.after - it.before, isCopy: copies.has(it.name) }))
    .map((it) => ({
      ...it,
      arrives: it.isCopy ? after.has(it.name) : it.change > 0,
    }))
    .filter(({ change, name }) => change !== 0 || before.has(name) !== after.has(name));
}

/** @param {model.Share[]} shares @returns {Map<string, number>} */
const counts = (shares) => new Map(shares.map(({ name, replicas }) => [name, replicas ?? 0]));

/**
 * The replicas that a workload should have. Each copy of a workload that is not divided counts, also
 * one that an eviction has taken away, until the workload is back.
 * @param {model.Binding} binding
 */
export function wantedOf({ replicas, isDivided, targets, home }) {
  if (isDivided) return replicas;
  return Math.max(replicas, model.sum(targets), replicas * home.length);
}

/**
 * Whether the scheduler found no placement for some replicas of a workload. One that has all of them
 * placed is not unschedulable, although a decision about it has failed.
 * @param {model.Binding} binding
 */
export const isUnschedulable = (binding) =>
  binding.scheduled?.status === "False" &&
  (binding.targets.length === 0 || model.sum(binding.targets) < wantedOf(binding));

/** @param {Iterable<model.Binding>} bindings */
export function schedule(bindings) {
  let [scheduled, stuck, waiting, workloads, replicas] = [0, 0, 0, 0, 0];
  for (const binding of bindings) {
    workloads += 1;
    replicas += wantedOf(binding);
    if (isUnschedulable(binding)) stuck += 1;
    else if (binding.scheduled) scheduled += 1;
    else waiting += 1;
  }
  return { workloads, replicas, scheduled, stuck, waiting };
}

/**
 * What of a workload there is, and what there should be. `ready` and `missing` add up to `wanted`.
 * `unplaced` replicas have no cluster, and are among the missing ones.
 * @typedef {{ wanted: number, ready: number, missing: number, unplaced: number, lost: number }} Standing
 */
/** @typedef {{ cluster: string, ready: number, missing: number }} Part */

/** The replicas that a report calls ready; one without numbers tells by the health of the whole. @param {model.Binding["reports"][string] | undefined} report @param {number} assigned */
function readyIn(report, assigned) {
  if (!report) return 0;
  if (report.ready !== null) return Math.max(0, report.ready);
  return report.exist === null && report.isWell ? assigned : 0;
}

/**
 * How a workload stands, and its part on each cluster, as the server's FleetReview counts (NP1). What
 * runs on a cluster that cannot be reached is not ready: nobody knows whether it runs. A replica
 * that a cluster still serves while the workload leaves it is ready there.
 * @param {model.Binding} binding
 * @param {Set<string>} unreachable names of clusters
 * @returns {Standing & { parts: Part[] }}
 */
export function standing(binding, unreachable) {
  const { targets, reports, evictions } = binding;
  const wanted = wantedOf(binding);
  const own = new Set(targets.map(({ name }) => name));
  let rest = wanted;
  const take = (/** @type {number} */ offered) => {
    const taken = Math.max(0, Math.min(rest, offered));
    rest -= taken;
    return taken;
  };
  let lost = 0;
  /** @type {(Part & { assigned: number })[]} */
  const parts = targets.map(({ name, replicas }) => {
    const pods = replicas ?? 0;
    const isAway = unreachable.has(name);
    if (isAway) lost += pods;
    const ready = isAway ? 0 : take(Math.min(pods, readyIn(reports[name], pods)));
    return { cluster: name, assigned: pods, ready, missing: 0 };
  });
  for (const name of new Set(evictions.map(({ from }) => from))) {
    if (own.has(name)) continue;
    const ready = unreachable.has(name) ? 0 : take(readyIn(reports[name], wanted));
    parts.push({ cluster: name, assigned: 0, ready, missing: 0 });
  }
  const ready = wanted - rest;
  // What is missing is first where clusters are lost: what is ready elsewhere is on its way.
  for (const isLostTurn of [true, false])
    for (const part of parts)
      if (unreachable.has(part.cluster) === isLostTurn)
        part.missing = take(part.assigned - part.ready);
  return { wanted, ready, missing: wanted - ready, unplaced: rest, lost, parts };
}

/** @typedef {{ wanted: number, ready: number, missing: number }} Health */

/** @returns {Health} */
const none = () => ({ wanted: 0, ready: 0, missing: 0 });

/** @param {Health} sum @param {Health} more */
function add(sum, more) {
  sum.wanted += more.wanted;
  sum.ready += more.ready;
  sum.missing += more.missing;
}

/** The clusters that cannot be reached, by name. @param {Iterable<model.Cluster>} clusters */
export const unreachable = (clusters) =>
  new Set([...clusters].filter(({ ready }) => ready?.status !== "True").map(({ name }) => name));

/** Whether a cluster was there and no longer is. @param {model.Cluster} cluster */
export const isLost = ({ ready }) => ready !== null && ready.status !== "True";

/**
 * How many replicas are wanted and ready: of the fleet, and by cluster, region and namespace. What
 * is placed nowhere belongs to no cluster, and to no region.
 * @param {Iterable<model.Binding>} bindings
 * @param {Map<string, model.Cluster>} clusters by key
 */
export function health(bindings, clusters) {
  const away = unreachable(clusters.values());
  const regions = new Map([...clusters.values()].map((it) => [it.name, it.region]));
  const all = none();
  /** @typedef {Map<string, Health>} Healths */
  const byCluster = /** @type {Healths} */ (new Map());
  const byRegion = /** @type {Healths} */ (new Map());
  const byNamespace = /** @type {Healths} */ (new Map());
  let unplaced = 0;
  /** @param {Healths} map @param {string} key @returns {Health} */
  const at = (map, key) => entry(map, key, none);
  for (const binding of bindings) {
    const own = standing(binding, away);
    unplaced += own.unplaced;
    add(all, own);
    add(at(byNamespace, binding.namespace), own);
    for (const { cluster, ready, missing } of own.parts) {
      const part = { wanted: ready + missing, ready, missing };
      add(at(byCluster, cluster), part);
      add(at(byRegion, regions.get(cluster) ?? ""), part);
    }
  }
  return { all, unplaced, byCluster, byRegion, byNamespace };
}

/**
 * What a FleetReview counts, as `loads`, `health` and `schedule` count it. It does not count what
 * workloads request, and how many are scheduled.
 * @param {any} review
 */
export function counted(review) {
  const of = (/** @type {any} */ it) => {
    const { wanted, ready, missing } = model.map(it.replicas);
    return {
      wanted: model.count(wanted),
      ready: model.count(ready),
      missing: model.count(missing),
    };
  };
  const [clusters, regions] = [model.list(review.clusters), model.list(review.regions)];
  /** @returns {[string, Load]} */
  const load = (/** @type {any} */ it) => {
    const [leaving, arriving] = [model.count(it.leaving), model.count(it.arriving)];
    const placed = of(it).wanted - leaving + arriving;
    const workloads = model.count(model.map(it.replicas).workloads);
    return [model.text(it.name), { ...nothing(), placed, workloads, leaving, arriving }];
  };
  const named = (/** @type {any[]} */ all) =>
    new Map(all.map((it) => /** @type {[string, Health]} */ ([model.text(it.name), of(it)])));
  const { workloads, wanted } = model.map(review.replicas);
  return {
    loads: new Map(clusters.map(load)),
    health: {
      all: of(review),
      unplaced: model.count(review.unplaced),
      byCluster: named(clusters),
      byRegion: named(regions),
      byNamespace: named(model.list(review.namespaces)),
    },
    schedule: {
      workloads: model.count(workloads),
      replicas: model.count(wanted),
      scheduled: null,
      stuck: model.count(review.unschedulable),
      waiting: 0,
    },
  };
}

/** @typedef {{ all: number, used: number, promised: number, clusters: number }} Capacity */

/** Every cluster has these, so they are told first. */
const USUAL = ["cpu", "memory", "pods"];

/**
 * The resources that matter: the usual ones, and what any workload requests. So GPUs are among them
 * where somebody wants some, also where no cluster has any.
 * @param {Iterable<model.Binding>} bindings
 * @param {Iterable<model.Cluster>} clusters
 * @returns {string[]}
 */
export function resources(bindings, clusters) {
  const found = new Set();
  for (const { requests } of bindings)
    for (const [name, amount] of Object.entries(requests)) if (amount > 0) found.add(name);
  for (const { room } of clusters)
    for (const [name, { used }] of Object.entries(room)) if (used > 0) found.add(name);
  USUAL.forEach((it) => found.delete(it));
  return [...USUAL, ...[...found].sort(model.byName)];
}

/**
 * What a cluster has of a resource. `null`: it reports nothing of it, and nothing there wants it.
 * @param {model.Cluster} cluster @param {Load | undefined} load @param {string} resource
 * @returns {{ all: number, used: number, promised: number } | null}
 */
export function capacity(cluster, load, resource) {
  const room = cluster.room[resource];
  const [existing, promised] = [load?.existing[resource] ?? 0, load?.promised[resource] ?? 0];
  if (!room) return existing + promised > 0 ? { all: 0, used: existing, promised } : null;
  return { all: room.all, used: Math.max(room.used + room.waiting, existing), promised };
}

/**
 * The sums of several clusters. Those that cannot be reached have no capacity now.
 * @param {Iterable<model.Cluster>} clusters @param {Map<string, Load>} loads @param {string} resource
 * @returns {Capacity}
 */
export function capacities(clusters, loads, resource) {
  const sum = { all: 0, used: 0, promised: 0, clusters: 0 };
  for (const cluster of clusters) {
    const own = isLost(cluster) ? null : capacity(cluster, loads.get(cluster.name), resource);
    if (!own) continue;
    sum.all += own.all;
    sum.used += own.used;
    sum.promised += own.promised;
    if (own.all > 0) sum.clusters += 1;
  }
  return sum;
}

/** The share of a whole that is taken; more than 1 where more is promised than there is. @param {{ all: number, used: number, promised: number } | null} of */
export const share = (of) =>
  !of ? 0 : of.all > 0 ? (of.used + of.promised) / of.all : of.used + of.promised > 0 ? 9.99 : 0;

/** A few words for why a workload does not stand as wanted. Empty: it does. @param {model.Binding} binding @param {Standing} own @param {Set<string>} lost */
export function trouble(binding, own, lost) {
  const { scheduled, evictions, targets } = binding;
  if (isUnschedulable(binding)) return scheduled?.message || scheduled?.reason || "";
  const away = targets.filter(({ name }) => lost.has(name)).map(({ name }) => name);
  if (away.length)
    return `${away.length} ${away.length === 1 ? "cluster" : "clusters"} not reachable: ${away.join(", ")}`;
  if (evictions.length) return `evicted from ${evictions.map(({ from }) => from).join(", ")}`;
  if (scheduled?.reason === "PartlyScheduled") return scheduled.message;
  if (own.missing > 0) return "replicas are not ready";
  if (!scheduled) return "not scheduled yet";
  return "";
}

/** Taints that chase away what runs. @param {model.Cluster} cluster */
export const evicts = (cluster) => cluster.taints.some(({ effect }) => effect === "NoExecute");

/**
 * Workloads that are being evicted, and those whose eviction has not begun. One that loses two
 * clusters counts once, as the server counts.
 * @param {Iterable<model.Binding>} bindings
 * @param {Map<string, model.Cluster>} clusters by key
 */
export function evictions(bindings, clusters) {
  const struck = new Set([...clusters.values()].filter(evicts).map(({ name }) => name));
  let [running, waiting] = [0, 0];
  for (const binding of bindings) {
    if (binding.evictions.length > 0) running += 1;
    const gone = new Set(binding.evictions.map(({ from }) => from));
    if (binding.targets.some(({ name }) => struck.has(name) && !gone.has(name))) waiting += 1;
  }
  return { running, waiting };
}

/** The key of the taint that closes a cluster to new workloads. */
export const CORDON = "cluster.karmada.io/unschedulable";

/** Taints that people set, and not the server itself. @param {model.Cluster} cluster */
export const ownTaints = ({ taints }) =>
  taints.filter(({ key }) => !/^cluster\.karmada\.io\/(not-ready|unreachable)$/.test(key));

/** Whether nothing new comes to a cluster, though it is there. @param {model.Cluster} cluster */
export const isClosed = (cluster) =>
  ownTaints(cluster).some(({ effect }) => effect === "NoSchedule" || effect === "NoExecute");

/** How bad it stands with a cluster: lost ones come first. @param {model.Cluster} cluster */
export function severity(cluster) {
  if (isLost(cluster)) return 0;
  if (evicts(cluster)) return 1;
  if (!cluster.ready || cluster.leaving) return 2;
  return isClosed(cluster) ? 3 : 4;
}

/**
 * Entries by region, those with trouble first, and those without a region last.
 * @template T
 * @param {T[]} entries @param {(entry: T) => string} region @param {(entry: T) => number} rank
 * @returns {{ region: string, entries: T[], worst: number }[]}
 */
export function byRegion(entries, region, rank) {
  /** @type {Map<string, T[]>} */
  const found = new Map();
  for (const it of entries) {
    const key = region(it);
    const known = found.get(key);
    if (known) known.push(it);
    else found.set(key, [it]);
  }
  return [...found]
    .map(([key, own]) => ({ region: key, entries: own, worst: Math.min(...own.map(rank)) }))
    .sort(
      (a, b) =>
        Math.min(a.worst, CALM) - Math.min(b.worst, CALM) ||
        Number(!a.region) - Number(!b.region) ||
        model.byName(a.region, b.region),
    );
}
/** From here on a group does not come before others. */
const CALM = 2;

/** Whether a cluster is ready: yes, no, or not known. @param {model.Cluster} cluster */
export function readiness(cluster) {
  if (cluster.leaving) return { tone: "warn", word: "leaving" };
  if (cluster.ready?.status === "True") return { tone: "good", word: "Ready" };
  if (cluster.ready?.status === "False") return { tone: "bad", word: "Not ready" };
  return { tone: "warn", word: cluster.ready ? "Unknown" : "No report" };
}

/** `Deployment web`, with the namespace where there is one. @param {model.Binding} binding */
export const title = ({ workload, namespace }) =>
  `${namespace ? `${namespace}/` : ""}${workload.name}`;

/** @param {model.Share[]} shares */
export const told = (shares) =>
  shares
    .map(({ name, replicas }) => (replicas === null ? name : `${name}: ${replicas}`))
    .join(", ") || "nowhere";
