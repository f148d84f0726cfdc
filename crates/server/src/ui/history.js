// @ts-check
/**
 * The last hours of the log: how the clusters were, and how many replicas were ready on each.
 *
 * The clusters' changes come from one watch that begins in the past: the log still has them. The
 * replicas come from FleetReviews of past moments: of those at which clusters changed, then on a
 * coarse grid, then closer wherever two neighbours differ. From when the page was opened, both go on
 * by what the feeds bring.
 */
import * as api from "./api.js";
import * as derive from "./derive.js";
import { Derived, changed, listAt, wait } from "./feed.js";
import * as lanes from "./lanes.js";
import * as model from "./model.js";
import { feeds, fleetAt, reviewAt } from "./state.js";

/** @typedef {{ at: number, cluster: model.Cluster | null, name: string }} Change */
/** @typedef {import("./lanes.js").Sample} Sample */
/** @typedef {{ at: number, from: string }} Eviction */

const HOUR_MS = 60 * 60 * 1000;
/** Longer than any log. */
export const WHOLE_MS = 400 * 24 * HOUR_MS;
/** Moments that are asked about before it is known where to look closer. */
const GRID = 16;
const SAMPLES_MAX = 220;
/** Moments at which clusters changed that are looked at closely, the latest ones. */
const NEAR_MAX = 60;
const CLOSEST_MS = 1000;
/** Pages of events that are read. */
const EVENT_PAGES_MAX = 8;
/** How long the changes of the clusters may take to come. */
const CHANGES_MS = 20_000;
const LIVE_EVERY_MS = 500;
const EVENTS_EVERY_MS = 2000;

class History extends Derived {
  state = "idle";
  error = "";
  /** @type {Change[]} in order */
  changes = [];
  /** @type {Sample[]} in order */
  samples = [];
  /** @type {Eviction[]} */
  evictions = [];
  /** Whether the events could be read. */
  eventsRead = { state: "idle", error: "" };
  start = 0;
  version = 0;
  /** How far back it looks. */
  range = HOUR_MS;
  /** Moments that are read, and those that are known to be needed. */
  progress = { read: 0, of: 0 };
  #isRunning = false;
  #abort = new AbortController();
  #lastLive = "";
  #lastLiveAt = 0;
  /** The clusters after the last change, by name. @type {Map<string, model.Cluster>} */
  #latest = new Map();
  /** Evictions under way at the last look. */
  #leaving = 0;
  /** When the log begins, if it is shorter than the range; 0: it is not. */
  #oldestAt = 0;
  #areEventsDue = false;
  #isReadingEvents = false;

  constructor() {
    super(() => [
      feeds.clusters,
      feeds.bindings,
      feeds.clusterBindings,
      feeds.rebalances,
      feeds.clusterRebalances,
    ]);
  }

  /** Looks further back, or less far. @param {number} range in milliseconds */
  lookBack(range) {
    if (range === this.range) return;
    this.range = range;
    this.#abort.abort();
    Object.assign(this, { samples: [], changes: [], start: 0, state: "loading" });
    this.#isRunning = false;
    if (this.users > 0) void this.#run();
  }

  begin() {
    if (!this.#isRunning) void this.#run();
    // What happened while nobody looked is asked for.
    else if (this.state === "live") void this.#replicas(this.samples.at(-1)?.at ?? this.start);
  }

  #tell() {
    this.version += 1;
    changed();
  }

  async #run() {
    this.#isRunning = true;
    while (this.users > 0) {
      this.#abort.abort();
      this.#abort = new AbortController();
      const { signal } = this.#abort;
      try {
        this.state = "loading";
        this.progress = { read: 0, of: 0 };
        const revision = await this.#oldest(signal);
        await this.#clusters(revision, signal).catch((cause) => {
          // Who may not read clusters sees the replicas.
          if (!(cause instanceof api.ApiError && cause.isForbidden)) throw cause;
          this.start = Math.max(api.now() - this.range, this.#oldestAt || 0);
        });
        await Promise.all([this.#replicas(this.start), this.#events(signal)]);
        if (signal.aborted) return;
        this.state = "live";
        this.#tell();
        return;
      } catch (error) {
        // Another range is looked at by another run.
        if (signal.aborted) return;
        this.state = "away";
        this.error = /** @type {Error} */ (error).message;
        this.#tell();
        await wait(5000, signal);
      }
    }
    this.#isRunning = false;
  }

  /** The revision at the beginning of the range, or the oldest that is remembered. @param {AbortSignal} signal */
  async #oldest(signal) {
    this.#oldestAt = 0;
    try {
      return (await reviewAt(Math.max(0, api.now() - this.range), signal)).revision;
    } catch (error) {
      const [, oldest, since] =
        /oldest that can be asked about is (\d+)(?:, just before (\S+))?/.exec(
          /** @type {Error} */ (error).message,
        ) ?? [];
      if (!oldest) throw error;
      this.#oldestAt = model.time(since) ?? 0;
      return oldest;
    }
  }

  /** @param {string} revision @param {AbortSignal} signal */
  async #clusters(revision, signal) {
    const path = feeds.clusters.path();
    this.changes = [];
    this.#latest = new Map();
    const newest = await api.get(`${path}?limit=1`, signal);
    const until = Number(newest.metadata?.resourceVersion ?? 0);
    if (revision !== "0") {
      const then = await listAt(path, model.cluster, revision, signal);
      const began = Math.max(api.now() - this.range, this.#oldestAt);
      for (const cluster of then.values()) {
        this.#latest.set(cluster.name, cluster);
        this.changes.push({
          at: Math.max(began, cluster.changed ?? 0),
          cluster,
          name: cluster.name,
        });
      }
    }
    if (until > 0) {
      const from = revision === "0" ? "1" : revision;
      const query = `?watch=1&allowWatchBookmarks=true&resourceVersion=${from}`;
      // The watch goes on as long as the page: what it brings later is the present.
      let [isTold, isOver] = [false, false];
      void api
        .watch(
          path + query,
          (event) => this.#note(event),
          signal,
          () => {},
        )
        .catch(() => {})
        .then(() => (isOver = true))
        .then(() => wait(2000, signal))
        .then(() => {
          if (signal.aborted || !isTold) return;
          // The server has ended it, or is gone: the log may be another one.
          this.#isRunning = false;
          this.samples = [];
          if (this.users > 0) void this.#run();
        });
      await wait(400, signal);
      if (revision === "0") await this.#first(path, signal);
      // Without its changes, a cluster would be shown as well.
      for (let waited = 0; !this.#hasAll() && !isOver && waited < CHANGES_MS; waited += 200)
        await wait(200, signal);
      if (!this.#hasAll()) throw new Error("the server does not send the changes of its clusters");
      isTold = true;
    }
    const times = this.changes.map(({ at }) => at);
    this.start = Math.max(
      api.now() - this.range,
      times.reduce((least, at) => Math.min(least, at), api.now() - 20_000) - 2000,
    );
  }

  /** Whether a change of each cluster that is there is known. */
  #hasAll() {
    const known = new Set(this.changes.map(({ name }) => name));
    return [...feeds.clusters.items.values()].every(({ name }) => known.has(name));
  }

  /** The very first change is not in a watch that begins with it. @param {string} path @param {AbortSignal} signal */
  async #first(path, signal) {
    const then = await listAt(path, model.cluster, "1", signal);
    for (const cluster of then.values()) {
      this.changes.unshift({ at: cluster.changed ?? 0, cluster, name: cluster.name });
    }
  }

  /** @param {api.WatchEvent} event */
  #note({ type, object }) {
    if (type === "BOOKMARK") return;
    const cluster = model.cluster(object);
    const last = this.changes.at(-1)?.at ?? 0;
    // Most writes of a cluster only report how much of it is used.
    const before = this.#latest.get(cluster.name);
    if (type !== "DELETED" && before && lanes.isAlike(before, cluster)) return;
    if (type === "DELETED") this.#latest.delete(cluster.name);
    else this.#latest.set(cluster.name, cluster);
    // The order is the log's. A clock that was set back must not turn it around.
    const at =
      type === "DELETED" ? Math.max(last, api.now()) : Math.max(last, cluster.changed ?? last);
    this.changes.push({ at, cluster: type === "DELETED" ? null : cluster, name: cluster.name });
    this.#tell();
  }

  /** @param {number} start */
  async #replicas(start) {
    const { signal } = this.#abort;
    const end = api.now() - CLOSEST_MS;
    /** @type {Set<number>} */
    const asked = new Set();
    const grid = Array.from({ length: GRID + 1 }, (_, i) => start + ((end - start) * i) / GRID);
    const turns = lanes.turns(this.changes).filter((at) => at >= start);
    const near = turns.slice(-NEAR_MAX).flatMap((at) => [at, at + 2000]);
    const first = [...grid.slice(-1), ...near, ...grid];
    this.progress = { read: 0, of: first.length };
    for (const at of first) {
      await this.#sample(at, asked, signal);
      this.progress.read += 1;
    }
    const close = Math.max(CLOSEST_MS, (end - this.start) / 150);
    for (let isCloser = true; isCloser && this.samples.length < SAMPLES_MAX;) {
      const wide = pairs([...this.samples]).filter(
        ([one, next]) => next.at - one.at > close && lanes.differ(one, next),
      );
      this.progress.of += wide.length;
      isCloser = false;
      for (const [one, next] of wide) {
        isCloser = (await this.#sample((one.at + next.at) / 2, asked, signal)) || isCloser;
        this.progress.read += 1;
      }
    }
  }

  /** @param {number} time @param {Set<number>} asked @param {AbortSignal} signal */
  async #sample(time, asked, signal) {
    const at = Math.floor(time / 1000) * 1000;
    if (asked.has(at) || at > api.now() || at < this.start - 1000 || asked.size > SAMPLES_MAX)
      return false;
    asked.add(at);
    const status = await fleetAt(at, signal);
    if (signal.aborted) return false;
    this.#add(lanes.sampleOf(at, status));
    this.#tell();
    return true;
  }

  /** @param {Sample} sample */
  #add(sample) {
    this.samples.push(sample);
    this.samples.sort((a, b) => a.at - b.at);
  }

  /** Adds how it is now, if that is news. */
  look() {
    const { clusters, bindings, clusterBindings } = feeds;
    const now = api.now();
    if (bindings.state !== "live" || now - this.#lastLiveAt < LIVE_EVERY_MS || !this.start) return;
    if (["idle", "loading"].includes(clusters.state) || clusterBindings.state === "loading") return;
    const version = `${clusters.version}/${bindings.version}/${clusterBindings.version}`;
    if (version === this.#lastLive) return;
    this.#lastLive = version;
    this.#lastLiveAt = now;
    const all = [...bindings.items.values(), ...clusterBindings.items.values()];
    const leaving = all.reduce((sum, { evictions }) => sum + evictions.length, 0);
    if (leaving < this.#leaving) void this.#events(this.#abort.signal);
    this.#leaving = leaving;
    // Without the clusters only the server knows what is out of reach.
    if (clusters.state === "forbidden") {
      if (this.state === "live")
        void this.#sample(now - CLOSEST_MS, new Set(), this.#abort.signal).catch(() => {});
      return;
    }
    const { byCluster, all: sum } = derive.health(all, clusters.items);
    const ready = new Map([...byCluster].map(([name, it]) => [name, it.ready]));
    const sample = { at: now, revision: bindings.revision, ready, ...totals(sum) };
    const last = this.samples.at(-1);
    if (last && !lanes.differ(last, sample)) return;
    this.#add(sample);
    const began = now - this.range;
    this.samples = this.samples.filter(({ at }) => at > began).slice(-2 * SAMPLES_MAX);
    this.version += 1;
  }

  /** Evictions that came to an end. Asked for while it is read, it is read once more. @param {AbortSignal} signal */
  async #events(signal) {
    this.#areEventsDue = true;
    if (this.#isReadingEvents) return;
    this.#isReadingEvents = true;
    try {
      while (this.#areEventsDue) {
        this.#areEventsDue = false;
        this.evictions = await evicted(signal);
        this.eventsRead = { state: "live", error: "" };
        this.#tell();
        if (this.#areEventsDue) await wait(EVENTS_EVERY_MS, signal);
      }
    } catch (cause) {
      // Who may not read events sees the rest.
      const { isForbidden, message } = /** @type {api.ApiError} */ (cause);
      this.eventsRead = { state: isForbidden ? "forbidden" : "away", error: message };
      this.#tell();
    } finally {
      this.#isReadingEvents = false;
    }
  }
}

/** The evictions that ended, as events tell. @param {AbortSignal} signal */
async function evicted(signal) {
  const selector = "reason=EvictWorkloadFromClusterSucceed,involvedObject.kind=ResourceBinding";
  /** @type {Eviction[]} */
  const all = [];
  let next = "";
  for (let page = 0; page < EVENT_PAGES_MAX; page += 1) {
    const query = `?limit=500&fieldSelector=${encodeURIComponent(selector)}${next && `&continue=${encodeURIComponent(next)}`}`;
    /** @type {any} */
    const found = await api.get(`/api/v1/events${query}`, signal);
    for (const event of model.list(found.items)) {
      const from = /from cluster (\S+)/.exec(model.text(event.message))?.[1];
      const at = model.time(event.lastTimestamp);
      if (from && at) all.push({ at, from });
    }
    next = found.metadata?.continue ?? "";
    if (!next) break;
  }
  return all;
}

/** @template T @param {T[]} entries @returns {[T, T][]} */
const pairs = (entries) => entries.slice(1).map((it, i) => [/** @type {T} */ (entries[i]), it]);

/** @param {derive.Health} sum */
const totals = ({ wanted, missing }) => ({ total: wanted, missing });

/**
 * The revision of a moment.
 * @param {number} at
 * @param {AbortSignal} signal
 */
export async function revisionAt(at, signal) {
  return (await reviewAt(at, signal)).revision;
}

export const history = new History();
