// @ts-check
/**
 * What the page keeps of an object: the few fields that it shows. Ten thousand bindings with all
 * that they carry would not fit into a browser.
 *
 * Objects may be half filled, or written by somebody who knows other fields. So nothing here
 * trusts a shape: what is not of the right type is as good as absent.
 */

/** @typedef {{ name: string, replicas: number | null }} Share `null`: copied, and not divided */
/** @typedef {{ status: string, reason: string, message: string, since: number | null }} Condition */
/**
 * @typedef {object} Cluster
 * @property {string} key
 * @property {string} name
 * @property {Record<string, string>} labels
 * @property {string} place
 * @property {string} region empty: it names none
 * @property {string} provider
 * @property {string[]} zones
 * @property {Condition | null} ready
 * @property {{ key: string, value: string, effect: string, since: number | null }[]} taints
 * @property {boolean} leaving it is being deleted
 * @property {string} version of its Kubernetes
 * @property {Record<string, { all: number, used: number, waiting: number }>} room
 * @property {number | null} changed when it was last written
 * @property {number | null} edited when its spec or its labels were last written
 */
/**
 * @typedef {object} Binding
 * @property {string} key
 * @property {string} kind
 * @property {string} namespace empty: cluster-scoped
 * @property {string} name
 * @property {{ apiVersion: string, kind: string, namespace: string, name: string }} workload
 * @property {Record<string, string>} labels
 * @property {number} replicas
 * @property {boolean} isDivided its replicas are divided among clusters; otherwise each has all
 * @property {Record<string, number>} requests of one replica
 * @property {Share[]} targets
 * @property {{ from: string, replicas: number, reason: string, message: string, since: number | null }[]} evictions
 * @property {Condition | null} scheduled
 * @property {Condition | null} applied
 * @property {Record<string, { health: string, ready: number | null, exist: number | null, arrived: boolean, isWell: boolean, message: string }>} reports
 * @property {string} group the affinity group that was used
 * @property {number | null} lastScheduled
 * @property {number | null} created
 * @property {string} moving the rebalance that it is under way in
 * @property {Share[]} home where it was before a failure; empty: it lost nothing, or has been back
 * @property {string} recorded its last change, as the annotation has it: see `lastChange`
 * @property {number | null} changed
 */

/** @param {unknown} value @returns {any[]} */
export const list = (value) =>
  Array.isArray(value) ? value.filter((it) => it && typeof it === "object") : [];
/** @param {unknown} value */
export const text = (value) => (typeof value === "string" ? value : "");
/** @param {unknown} value @returns {number} */
export const count = (value) => (typeof value === "number" && Number.isFinite(value) ? value : 0);
/** @param {unknown} value @returns {Record<string, any>} */
export const map = (value) =>
  value && typeof value === "object" && !Array.isArray(value) ? /** @type {any} */ (value) : {};
/** @param {unknown} value @returns {number | null} milliseconds */
export function time(value) {
  const read = Date.parse(text(value));
  return Number.isNaN(read) ? null : read;
}

/** @param {unknown} value @returns {Record<string, string>} */
function texts(value) {
  return Object.fromEntries(Object.entries(map(value)).filter(([, it]) => typeof it === "string"));
}

const UNITS = /** @type {Record<string, number>} */ ({
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
});

/** The value of a quantity such as `500m` or `2Gi`. @param {unknown} value */
export function quantity(value) {
  if (typeof value === "number") return value;
  const [, digits, unit] =
    /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]{0,2})$/.exec(text(value)) ?? [];
  const read = Number(digits) * (UNITS[unit ?? ""] ?? NaN);
  return Number.isFinite(read) ? read : 0;
}

/** @param {unknown} conditions @param {string} type @returns {Condition | null} */
function condition(conditions, type) {
  const found = list(conditions).find((it) => it.type === type);
  if (!found) return null;
  return {
    status: text(found.status),
    reason: text(found.reason),
    message: text(found.message),
    since: time(found.lastTransitionTime),
  };
}

/** When it was last written; without `withStatus` but for its status. @param {any} meta @returns {number | null} */
function written(meta, withStatus = true) {
  const entries = list(meta.managedFields).filter((it) => withStatus || !it.subresource);
  const times = entries.map((it) => time(it.time) ?? 0);
  return Math.max(0, time(meta.creationTimestamp) ?? 0, ...times) || null;
}

/** @param {any} object */
export function keyOf(object) {
  const meta = map(object?.metadata);
  return `${text(meta.namespace)}/${text(meta.name)}`;
}

/** @param {any} object @returns {Cluster} */
export function cluster(object) {
  const [meta, spec, status] = [map(object.metadata), map(object.spec), map(object.status)];
  const summary = map(status.resourceSummary);
  const [all, used, waiting] = [
    map(summary.allocatable),
    map(summary.allocated),
    map(summary.allocating),
  ];
  const zones = Array.isArray(spec.zones) ? spec.zones.map(text).filter(Boolean) : [];
  const labels = texts(meta.labels);
  const place = [text(spec.provider), text(spec.region), text(spec.zone) || zones.join(", ")];
  if (!place.some(Boolean))
    place.push(labels.region ?? "", labels.zone ? `zone ${labels.zone}` : "");
  return {
    key: keyOf(object),
    name: text(meta.name),
    labels,
    region: text(spec.region) || labels.region || labels["topology.kubernetes.io/region"] || "",
    provider: text(spec.provider),
    zones: zones.length ? zones : [text(spec.zone)].filter(Boolean),
    place: place.filter(Boolean).join(" · "),
    ready: condition(status.conditions, "Ready"),
    taints: list(spec.taints).map((it) => ({
      key: text(it.key),
      value: text(it.value),
      effect: text(it.effect),
      since: time(it.timeAdded),
    })),
    leaving: Boolean(meta.deletionTimestamp),
    version: text(status.kubernetesVersion),
    room: Object.fromEntries(
      Object.keys(all).map((name) => [
        name,
        { all: quantity(all[name]), used: quantity(used[name]), waiting: quantity(waiting[name]) },
      ]),
    ),
    changed: written(meta),
    edited: written(meta, false),
  };
}

/** @param {any} object @returns {Binding} */
export function binding(object) {
  const [meta, spec, status] = [map(object.metadata), map(object.spec), map(object.status)];
  const resource = map(spec.resource);
  const annotations = map(meta.annotations);
  return {
    key: keyOf(object),
    kind:
      text(object.kind) || (text(meta.namespace) ? "ResourceBinding" : "ClusterResourceBinding"),
    namespace: text(meta.namespace),
    name: text(meta.name),
    workload: {
      apiVersion: text(resource.apiVersion),
      kind: text(resource.kind),
      namespace: text(resource.namespace),
      name: text(resource.name) || text(meta.name),
    },
    labels: texts(meta.labels),
    replicas: Math.max(0, count(spec.replicas)),
    isDivided: map(map(spec.placement).replicaScheduling).replicaSchedulingType === "Divided",
    requests: Object.fromEntries(
      Object.entries(map(map(spec.replicaRequirements).resourceRequest)).map(([name, it]) => [
        name,
        quantity(it),
      ]),
    ),
    targets: shares(spec.clusters),
    evictions: list(spec.gracefulEvictionTasks).map((it) => ({
      from: text(it.fromCluster),
      replicas: count(it.replicas),
      reason: text(it.reason),
      message: text(it.message),
      since: time(it.creationTimestamp),
    })),
    scheduled: condition(status.conditions, "Scheduled"),
    applied: condition(status.conditions, "FullyApplied"),
    reports: Object.fromEntries(
      list(status.aggregatedStatus).map((it) => [
        text(it.clusterName),
        {
          health: text(it.health),
          ready: typeof map(it.status).readyReplicas === "number" ? it.status.readyReplicas : null,
          exist: existing(map(it.status)),
          arrived: it.applied === true || it.health === "Healthy",
          isWell: it.health === "Healthy" || (it.health !== "Unhealthy" && it.applied === true),
          message: text(it.appliedMessage),
        },
      ]),
    ),
    group: text(status.schedulerObservingAffinityName),
    lastScheduled: time(status.lastScheduledTime),
    created: time(meta.creationTimestamp),
    moving: text(annotations["ballast.dev/move"]),
    home: homeOf(annotations["ballast.dev/home"]),
    recorded: text(annotations["ballast.dev/last-change"]),
    changed: written(meta),
  };
}

/** The placement before a failure, as the annotation contains it. @param {unknown} value @returns {Share[]} */
function homeOf(value) {
  if (!text(value)) return [];
  try {
    return shares(map(JSON.parse(text(value))).targets);
  } catch {
    return [];
  }
}

/**
 * The last change of the targets, as the binding records it. `null`: none is recorded, or a writer
 * that records nothing has changed them since.
 * @param {Binding} binding @returns {{ at: number | null, sentence: string } | null}
 */
export function lastChange({ recorded, targets }) {
  const [, at, known, sentence] = /^(\S+) ([0-9a-f]{8}) (.*)$/s.exec(recorded) ?? [];
  return sentence && known === digest(targets) ? { at: time(at), sentence } : null;
}

/** The digest that the server records (FNV-1a). @param {Share[]} targets */
function digest(targets) {
  const lines = targets.map(({ name, replicas }) => `${name}=${replicas ?? 0}\n`).sort();
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(lines.join(""))) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/** The replicas that a report says exist. @param {Record<string, unknown>} status */
function existing({ replicas, readyReplicas }) {
  const found = [replicas, readyReplicas].find((it) => Number.isInteger(it) && Number(it) >= 0);
  return found === undefined ? null : Number(found);
}

/** @param {unknown} value @returns {Share[]} */
export function shares(value) {
  return list(value).map((it) => ({
    name: text(it.name),
    replicas: typeof it.replicas === "number" ? it.replicas : null,
  }));
}

/**
 * A cluster that the user may not read, as a review of the namespace counts it. Its capacity, taints
 * and labels are not known.
 * @param {any} counted @returns {Cluster}
 */
export function countedCluster(counted) {
  const region = text(counted.region);
  return {
    key: `/${text(counted.name)}`,
    name: text(counted.name),
    labels: {},
    region,
    provider: "",
    zones: [],
    place: region,
    ready: text(counted.ready)
      ? {
          status: text(counted.ready),
          reason: "Counted",
          message: "as the review of the namespace reports it",
          since: time(counted.since),
        }
      : null,
    taints: [],
    leaving: false,
    version: "",
    room: {},
    changed: null,
    edited: null,
  };
}

/** Other kinds are shown whole; the record of their managers is not. @param {any} object */
export function whole(object) {
  const { managedFields: _left, ...metadata } = map(object.metadata);
  return { ...object, metadata, key: keyOf(object), changed: written(map(object.metadata)) };
}

/** @param {Share[]} targets @returns {number} */
export const sum = (targets) => targets.reduce((all, it) => all + (it.replicas ?? 0), 0);

/** Compares names with numbers in them as people do. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;
