// @ts-check
/** What the Outage screen draws: lanes, their folding, and what happened, in words. Pure. */
import * as derive from "./derive.js";
import * as model from "./model.js";
import * as words from "./words.js";

/** @typedef {{ at: number, cluster: model.Cluster | null, name: string }} Change */
/** @typedef {{ from: number, to: number, tone: string, tip: string }} Segment */
/** @typedef {{ from: number, to: number, tone: string, what: string, why: string }} Entry */
/** @typedef {{ kind: "group", region: string, all: number, struck: number, folded: number, isOpen: boolean } | { kind: "lane", name: string } | { kind: "more", count: number }} Line */

/** Up to so many clusters each has its lane. Beyond that those that are well are folded. */
const UNFOLDED_MAX = 12;
/** Lanes that are drawn at a time. The rest is counted. */
const LANES_MAX = 80;
/** Of one kind, what follows within so many milliseconds is one entry. */
const TOGETHER_MS = 10_000;
/** A stream of evictions is one entry until it pauses for so long. */
const PAUSE_MS = 60_000;
/** Clusters that an entry names. */
const NAMED = 3;
/** Entries that are listed. */
const ENTRIES_MAX = 200;

/** How a cluster was from change to change. @param {string} name @param {Change[]} own @param {number} end @returns {Segment[]} */
export function segments(name, own, end) {
  return own
    .map(({ at, cluster }, i) => {
      const to = own[i + 1]?.at ?? end;
      if (!cluster) return { from: at, to, tone: "gone", tip: `${name} is gone` };
      const state = derive.readiness(cluster);
      const taints = cluster.taints.map(({ key, effect }) => `${key} ${effect}`).join(", ");
      const why =
        cluster.ready && state.tone !== "good"
          ? `: ${cluster.ready.message || cluster.ready.reason}`
          : "";
      const tip = `${name}: ${state.word}${why}${taints && `; taints ${taints}`}`;
      return { from: at, to, tone: toneOf(cluster, state.tone), tip };
    })
    .filter(({ from, to }) => to > from);
}

/** @param {model.Cluster} cluster @param {string} tone of its readiness */
function toneOf(cluster, tone) {
  if (!cluster.ready && !cluster.leaving) return "silent";
  if (tone !== "good") return tone;
  if (derive.evicts(cluster)) return "warn";
  return derive.isClosed(cluster) ? "held" : tone;
}

/** Changes by cluster, in their order. @param {Change[]} changes @returns {Map<string, Change[]>} */
export function byName(changes) {
  /** @type {Map<string, Change[]>} */
  const found = new Map();
  for (const it of changes) {
    const own = found.get(it.name);
    if (own) own.push(it);
    else found.set(it.name, [it]);
  }
  return found;
}

/**
 * The clusters with something to see: lost, tainted, closed or gone at some time, or evicted from.
 * @param {Map<string, Change[]>} changes by cluster
 * @param {Iterable<{ from: string }>} evictions
 * @returns {Set<string>}
 */
export function struck(changes, evictions) {
  const found = new Set([...evictions].map(({ from }) => from));
  for (const [name, own] of changes) {
    const isStruck = own.some(
      ({ cluster }) => !cluster || derive.isLost(cluster) || derive.isClosed(cluster),
    );
    if (isStruck) found.add(name);
  }
  return found;
}

/**
 * The lines of the picture: regions, and below each the clusters with something to see. Those that
 * are well are folded until somebody opens their region or looks for them.
 * @param {{ names: string[], regionOf: (name: string) => string, struck: Set<string>, opened: Set<string>, text: string }} given
 * @returns {Line[]}
 */
export function lines({ names, regionOf, struck, opened, text }) {
  const wanted = text.toLowerCase();
  const shown = names.filter((it) => `${it} ${regionOf(it)}`.toLowerCase().includes(wanted));
  if (names.length <= UNFOLDED_MAX) return shown.map((name) => ({ kind: "lane", name }));
  const groups = derive.byRegion(shown, regionOf, (name) => (struck.has(name) ? 0 : 4));
  /** @type {Line[]} */
  const found = [];
  let drawn = 0;
  for (const { region, entries } of groups) {
    const isOpen = opened.has(region) || wanted !== "";
    const own = entries.filter((name) => isOpen || struck.has(name));
    const first = [...own].sort((a, b) => Number(struck.has(b)) - Number(struck.has(a)));
    const fitting = first.slice(0, Math.max(0, LANES_MAX - drawn));
    drawn += fitting.length;
    found.push({
      kind: "group",
      region,
      all: entries.length,
      struck: entries.filter((name) => struck.has(name)).length,
      folded: entries.length - own.length,
      isOpen,
    });
    for (const name of fitting) found.push({ kind: "lane", name });
    if (fitting.length < own.length)
      found.push({ kind: "more", count: own.length - fitting.length });
  }
  return found;
}

/** Whether two versions of a cluster look alike in the picture. @param {model.Cluster} one @param {model.Cluster} other */
export const isAlike = (one, other) => looks(one) === looks(other);

/** @param {model.Cluster} cluster */
const looks = ({ ready, taints, leaving, region }) =>
  JSON.stringify([
    ready && [ready.status, ready.reason, ready.message],
    taints.map(({ key, value, effect }) => [key, value, effect]),
    leaving,
    region,
  ]);

/** The moments at which clusters were lost or came back, in order and each once. @param {Change[]} changes @returns {number[]} */
export function turns(changes) {
  const found = new Set();
  for (const own of byName(changes).values())
    own.forEach(({ at, cluster }, i) => {
      const before = own[i - 1];
      if (before && isAway(before.cluster) !== isAway(cluster)) found.add(at);
    });
  return [...found].sort((a, b) => a - b);
}

/** @param {model.Cluster | null} cluster */
const isAway = (cluster) => cluster === null || derive.isLost(cluster);

/** The moments at which clusters were lost, in order. @param {Change[]} changes @returns {{ at: number, name: string }[]} */
export function losses(changes) {
  /** @type {{ at: number, name: string }[]} */
  const found = [];
  for (const [name, own] of byName(changes))
    own.forEach(({ at, cluster }, i) => {
      const before = own[i - 1];
      if (before?.cluster && !isAway(before.cluster) && isAway(cluster)) found.push({ at, name });
    });
  return found.sort((a, b) => a.at - b.at);
}

/**
 * How it was at a moment, as the server counts: the ready replicas by cluster, the missing ones, and
 * all that were wanted.
 * @typedef {{ at: number, revision: string, ready: Map<string, number>, missing: number, total: number }} Sample
 */
/** @typedef {{ at: number, groups: number[], missing: number, total: number, isCoarse: boolean }} Column */

/** @param {number} at @param {Record<string, any>} status of a FleetReview @returns {Sample} */
export function sampleOf(at, status) {
  const ready = new Map();
  for (const { name, replicas } of model.list(status.clusters))
    ready.set(model.text(name), model.count(model.map(replicas).ready));
  const { missing, wanted } = model.map(status.replicas);
  const revision = model.text(status.revision);
  return { at, revision, ready, missing: model.count(missing), total: model.count(wanted) };
}

/** Whether two samples would be drawn differently. @param {Sample} one @param {Sample} other */
export function differ(one, other) {
  if (one.missing !== other.missing || one.total !== other.total) return true;
  const names = new Set([...one.ready.keys(), ...other.ready.keys()]);
  return [...names].some((name) => (one.ready.get(name) ?? 0) !== (other.ready.get(name) ?? 0));
}

/**
 * The samples, and one more for each loss between two of them: the replicas of a lost cluster are
 * missing from that second on, although no sample of that second may be read yet.
 * @param {Sample[]} samples in order @param {{ at: number, name: string }[]} lost in order
 * @returns {Sample[]}
 */
function withLosses(samples, lost) {
  /** @type {Sample[]} */
  const found = [];
  let next = 0;
  samples.forEach((sample, i) => {
    found.push(sample);
    const until = samples[i + 1]?.at ?? -Infinity;
    while (next < lost.length && (lost[next]?.at ?? 0) <= sample.at) next += 1;
    for (; next < lost.length && (lost[next]?.at ?? 0) < until; next += 1) {
      const { at, name } = /** @type {{ at: number, name: string }} */ (lost[next]);
      const before = /** @type {Sample} */ (found.at(-1));
      const gone = before.ready.get(name) ?? 0;
      if (gone === 0) continue;
      const ready = new Map(before.ready).set(name, 0);
      found.push({ ...before, at, ready, missing: before.missing + gone });
    }
  });
  return found;
}

/**
 * The heights of the stack at each sample: the ready replicas by group, and the missing ones.
 * A sample is coarse if it is not known when, until the next one, it changed.
 * @param {Sample[]} samples
 * @param {string[]} groups
 * @param {(name: string) => string} groupOf
 * @param {{ at: number, name: string }[]} lost the moments at which clusters were lost
 * @param {number} close samples within so many milliseconds are exact enough
 * @returns {Column[]}
 */
export function stack(samples, groups, groupOf, lost, close) {
  const places = new Map(groups.map((it, i) => [it, i]));
  const last = groups.length - 1;
  const all = withLosses(samples, lost);
  return all.map((sample, i) => {
    const { at, ready, missing, total } = sample;
    const own = groups.map(() => 0);
    for (const [name, replicas] of ready) {
      const place = places.get(groupOf(name)) ?? last;
      own[place] = (own[place] ?? 0) + replicas;
    }
    const next = all[i + 1];
    const isCoarse = next !== undefined && next.at - at > close && differ(sample, next);
    return { at, groups: own, missing, total, isCoarse };
  });
}

/** Round numbers for an axis: from 0 to the first one that is not below `most`. @param {number} most @returns {number[]} */
export function ticks(most) {
  const rough = Math.max(1, most) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 2.5, 5, 10].find((it) => it * power >= rough) ?? 10;
  const step = Math.max(1, factor * power);
  const whole = Number.isInteger(step) ? step : Math.ceil(step);
  return Array.from({ length: Math.ceil(Math.max(1, most) / whole) + 1 }, (_, i) => i * whole);
}

/** What happened to clusters, one entry for each. @param {Change[]} changes @returns {(Entry & { kind: string, name: string })[]} */
function ofClusters(changes) {
  /** @type {(Entry & { kind: string, name: string })[]} */
  const found = [];
  /** @type {Map<string, model.Cluster | null>} */
  const last = new Map();
  for (const { at, cluster, name } of changes) {
    const before = last.get(name);
    last.set(name, cluster);
    /** @param {string} kind @param {string} tone @param {string} [why] */
    const add = (kind, tone, why = "") =>
      found.push({ from: at, to: at, kind, name, tone, what: "", why });
    if (!cluster) {
      add("gone", "bad");
      continue;
    }
    if (!before) {
      add("joined", "");
      continue;
    }
    if (before.ready?.status === "True" && derive.isLost(cluster))
      add("lost", "bad", cluster.ready?.message || cluster.ready?.reason);
    if (derive.isLost(before) && cluster.ready?.status === "True") add("ready", "good");
    if (!derive.evicts(before) && derive.evicts(cluster)) add("evicts", "warn");
    if (derive.evicts(before) && !derive.evicts(cluster)) add("spared", "good");
    const [was, is] = [closing(before), closing(cluster)];
    if (is.key && !was.key)
      add(is.isCordon ? "cordoned" : "closed", "held", is.isCordon ? "" : is.key);
    if (was.key && !is.key)
      add(was.isCordon ? "uncordoned" : "opened", "good", was.isCordon ? "" : was.key);
  }
  return found;
}

/** What closes a cluster to new workloads. @param {model.Cluster} cluster */
function closing(cluster) {
  const found = derive.ownTaints(cluster).filter(({ effect }) => effect === "NoSchedule");
  const cordon = found.find(({ key }) => key === derive.CORDON);
  return { key: (cordon ?? found[0])?.key ?? "", isCordon: cordon !== undefined };
}

/** What an entry of a kind says of one cluster and of several. @type {Record<string, [string, string]>} */
const SAID = {
  joined: ["joined", "joined"],
  gone: ["is gone", "are gone"],
  lost: ["was lost", "were lost"],
  ready: ["is ready again", "are ready again"],
  evicts: ["was tainted: what runs there is evicted", "were tainted: what runs there is evicted"],
  spared: ["lost its NoExecute taint", "lost their NoExecute taints"],
  cordoned: ["was cordoned: nothing new comes to it", "were cordoned: nothing new comes to them"],
  closed: ["was closed by a NoSchedule taint", "were closed by NoSchedule taints"],
  uncordoned: ["was uncordoned", "were uncordoned"],
  opened: ["lost its NoSchedule taint", "lost their NoSchedule taints"],
};

/**
 * Puts what happened at once into one entry. An entry bears the time of its first event, and later
 * events never join one that has ended.
 * @param {(Entry & { kind: string, name: string })[]} found in order
 * @returns {Entry[]}
 */
function together(found) {
  /** @type {Map<string, { entry: Entry, names: Set<string> }>} */
  const open = new Map();
  /** @type {{ kind: string, entry: Entry, names: Set<string> }[]} */
  const all = [];
  for (const it of found) {
    const key = `${it.kind} ${it.why}`;
    const known = open.get(key);
    if (known && it.from - known.entry.to <= TOGETHER_MS) {
      known.entry.to = it.from;
      known.names.add(it.name);
      continue;
    }
    const made = { kind: it.kind, entry: { ...it }, names: new Set([it.name]) };
    open.set(key, made);
    all.push(made);
  }
  return all.map(({ kind, entry, names }) => {
    const [one, many] = SAID[kind] ?? ["", ""];
    const list = [...names].sort(model.byName);
    const who =
      list.length <= NAMED ? words.few(list, NAMED) : words.counted(list.length, "cluster");
    const named = list.length > NAMED ? words.few(list, NAMED) : "";
    const why = [named, entry.why].filter(Boolean).join(": ");
    const what = `${who} ${list.length === 1 ? one : many}${why ? ":" : ""}`;
    return { from: entry.from, to: entry.to, tone: entry.tone, what, why };
  });
}

/** @param {{ at: number, from: string }[]} evictions @returns {Entry[]} */
function ofEvictions(evictions) {
  /** @type {Map<string, number[]>} */
  const byCluster = new Map();
  for (const { at, from } of evictions) byCluster.set(from, [...(byCluster.get(from) ?? []), at]);
  /** @type {Entry[]} */
  const found = [];
  for (const [name, times] of byCluster) {
    let [first, last, count] = [0, 0, 0];
    const end = () =>
      count > 0 &&
      found.push({
        from: first,
        to: last,
        tone: "warn",
        what: words.counted(count, "eviction"),
        why: `from ${name} ended`,
      });
    for (const at of times.sort((a, b) => a - b)) {
      if (count > 0 && at - last > PAUSE_MS) {
        end();
        count = 0;
      }
      if (count === 0) first = at;
      last = at;
      count += 1;
    }
    end();
  }
  return found;
}

/** @param {any} rebalance */
export function titleOf({ metadata, spec }) {
  const name = `${metadata?.namespace ? `${metadata.namespace}/` : ""}${model.text(metadata?.name)}`;
  const drained = model.map(model.map(spec).drain).clusters;
  return Array.isArray(drained)
    ? `Drain ${name} of ${words.few(drained.map(model.text))}`
    : `Rebalance ${name}`;
}

/** @param {any} rebalance @returns {Entry[]} */
function ofRebalance(rebalance) {
  const status = model.map(rebalance.status);
  const summary = model.map(status.summary);
  const title = titleOf(rebalance);
  const [began, ended] = [model.time(status.startedAt), model.time(status.finishTime)];
  /** @type {Entry[]} */
  const found = [];
  if (began)
    found.push({
      from: began,
      to: began,
      tone: "home",
      what: `${title} began:`,
      why: `${words.counted(model.count(summary.toMove), "workload")} to move`,
    });
  if (ended) {
    const isBad = status.phase === "Aborted";
    found.push({
      from: ended,
      to: ended,
      tone: isBad ? "bad" : "good",
      what: `${title} ${isBad ? "was aborted" : "completed"}:`,
      why: `${model.count(summary.settled)} moved, ${model.count(summary.failed)} failed`,
    });
  }
  return found;
}

/**
 * What happened, in words, the newest first.
 * @param {Change[]} changes in order
 * @param {{ at: number, from: string }[]} evictions
 * @param {Iterable<any>} rebalances
 * @returns {Entry[]}
 */
export function chronicle(changes, evictions, rebalances) {
  const found = [...together(ofClusters(changes)), ...ofEvictions(evictions)];
  for (const it of rebalances) found.push(...ofRebalance(it));
  return found.sort((a, b) => b.from - a.from || b.to - a.to).slice(0, ENTRIES_MAX);
}

/** Times of one kind, those in the same part of the picture together. @param {{ at: number }[]} entries @param {number} part in milliseconds @returns {[number, number][]} */
export function bundled(entries, part) {
  /** @type {Map<number, number>} */
  const found = new Map();
  for (const { at } of entries) {
    const key = Math.floor(at / part) * part;
    found.set(key, (found.get(key) ?? 0) + 1);
  }
  return [...found];
}

/** When a cluster was ready again after it was not. @param {Segment[]} found */
export const recoveries = (found) =>
  found
    .filter(
      (it, i) =>
        it.tone === "good" &&
        ["bad", "gone", "warn"].includes(found[i - 1]?.tone ?? "") &&
        found.slice(0, i).some((b) => b.tone === "good"),
    )
    .map(({ from }) => from);
