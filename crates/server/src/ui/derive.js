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
 * Adds what so many replicas of a binding take.
 * @param {Record<string, number>} sums @param {model.Binding} binding @param {number} pods
 */
function take(sums, binding, pods) {
  if (pods === 0) return;
  for (const [resource, amount] of Object.entries({ pods: 1, ...binding.requests }))
    sums[resource] = (sums[resource] ?? 0) + amount * pods;
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
  const of = (name) => {
    const known = found.get(name) ?? nothing();
    found.set(name, known);
    return known;
  };
  for (const binding of bindings) {
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
    for (const { name, change } of changes(model.shares(move.from), model.shares(move.to))) {
      if (change > 0) of(name).homecoming += change;
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
 * What differs between two placements.
 * @param {model.Share[]} from
 * @param {model.Share[]} to
 * @returns {{ name: string, before: number, after: number, change: number }[]} by name of cluster
 */
export function changes(from, to) {
  const [before, after] = [counts(from), counts(to)];
  const names = [...new Set([...before.keys(), ...after.keys()])].sort(model.byName);
  return names
    .map((name) => ({ name, before: before.get(name) ?? 0, after: after.get(name) ?? 0 }))
    .map((it) => ({ ...it, change: it.after - it.before }))
    .filter(({ change, name }) => change !== 0 || before.has(name) !== after.has(name));
}

/** @param {model.Share[]} shares @returns {Map<string, number>} */
const counts = (shares) => new Map(shares.map(({ name, replicas }) => [name, replicas ?? 0]));

/** @param {Iterable<model.Binding>} bindings */
export function schedule(bindings) {
  let [scheduled, stuck, waiting, workloads, replicas] = [0, 0, 0, 0, 0];
  for (const { scheduled: condition, replicas: wanted } of bindings) {
    workloads += 1;
    replicas += wanted;
    if (condition?.status === "True") scheduled += 1;
    else if (condition?.status === "False") stuck += 1;
    else waiting += 1;
  }
  return { workloads, replicas, scheduled, stuck, waiting };
}

/** Taints that chase away what runs. @param {model.Cluster} cluster */
export const evicts = (cluster) => cluster.taints.some(({ effect }) => effect === "NoExecute");

/**
 * Evictions under way, and those that have not begun.
 * @param {Iterable<model.Binding>} bindings
 * @param {Map<string, model.Cluster>} clusters by key
 */
export function evictions(bindings, clusters) {
  const struck = new Set([...clusters.values()].filter(evicts).map(({ name }) => name));
  let [running, waiting] = [0, 0];
  for (const binding of bindings) {
    running += binding.evictions.length;
    const gone = new Set(binding.evictions.map(({ from }) => from));
    waiting += binding.targets.filter(({ name }) => struck.has(name) && !gone.has(name)).length;
  }
  return { running, waiting };
}

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
