// @ts-check
/**
 * The last hour of the log: how the clusters were, and how many replicas each had.
 *
 * The clusters' changes come from one watch that begins an hour ago: the log still has them. The
 * replicas come from reviews of past moments, first on a coarse grid, then closer wherever two
 * neighbours differ. From when the page was opened, both go on by what the feeds bring.
 */
import * as api from "./api.js";
import * as derive from "./derive.js";
import { Derived, changed, listAt, wait } from "./feed.js";
import * as model from "./model.js";
import { feeds, reviewAt } from "./state.js";

/** @typedef {{ at: number, cluster: model.Cluster | null, name: string }} Change */
/** @typedef {{ at: number, revision: string, counts: Map<string, number>, total: number }} Sample */
/** @typedef {{ at: number, from: string }} Eviction */

const HOUR_MS = 60 * 60 * 1000;
/** Moments that are asked about before it is known where to look closer. */
const GRID = 16;
const SAMPLES_MAX = 220;
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
  #isRunning = false;
  #abort = new AbortController();
  #lastLive = "";
  #lastLiveAt = 0;
  /** Evictions under way at the last look. */
  #leaving = 0;
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
        const revision = await this.#oldest(signal);
        await this.#clusters(revision, signal).catch((cause) => {
          // Who may not read clusters sees the replicas.
          if (!(cause instanceof api.ApiError && cause.isForbidden)) throw cause;
          this.start = api.now() - HOUR_MS;
        });
        await Promise.all([this.#replicas(this.start), this.#events(signal)]);
        this.state = "live";
        this.#tell();
        return;
      } catch (error) {
        this.state = "away";
        this.error = /** @type {Error} */ (error).message;
        this.#tell();
        await wait(5000, signal);
      }
    }
    this.#isRunning = false;
  }

  /** The revision an hour ago, or the oldest that is remembered. @param {AbortSignal} signal */
  async #oldest(signal) {
    try {
      return (await reviewAt(api.now() - HOUR_MS, signal)).revision;
    } catch (error) {
      const oldest = /oldest that can be asked about is (\d+)/.exec(
        /** @type {Error} */ (error).message,
      )?.[1];
      if (!oldest) throw error;
      return oldest;
    }
  }

  /** @param {string} revision @param {AbortSignal} signal */
  async #clusters(revision, signal) {
    const path = feeds.clusters.path();
    this.changes = [];
    const newest = await api.get(`${path}?limit=1`, signal);
    const until = Number(newest.metadata?.resourceVersion ?? 0);
    if (revision !== "0") {
      const then = await listAt(path, model.cluster, revision, signal);
      const began = api.now() - HOUR_MS;
      for (const cluster of then.values()) {
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
    this.start = Math.max(api.now() - HOUR_MS, Math.min(...times, api.now() - 20_000) - 2000);
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
    // The order is the log's. A clock that was set back must not turn it around.
    const at =
      type === "DELETED" ? Math.max(last, api.now()) : Math.max(last, cluster.changed ?? last);
    this.changes.push({ at, cluster: type === "DELETED" ? null : cluster, name: cluster.name });
    this.#tell();
  }

  /** @param {number} start */
  async #replicas(start) {
    const { signal } = new AbortController();
    const end = api.now() - CLOSEST_MS;
    /** @type {Set<number>} */
    const asked = new Set();
    const grid = Array.from({ length: GRID + 1 }, (_, i) => start + ((end - start) * i) / GRID);
    const near = this.changes
      .filter(({ at }) => at >= start)
      .flatMap(({ at }) => [at, at + 2000])
      .slice(-60);
    for (const at of [...grid.slice(-1), ...near, ...grid]) await this.#sample(at, asked, signal);
    const close = Math.max(CLOSEST_MS, (end - this.start) / 150);
    for (let isCloser = true; isCloser && this.samples.length < SAMPLES_MAX;) {
      isCloser = false;
      for (const [one, next] of pairs([...this.samples])) {
        if (
          next.at - one.at <= close ||
          one.revision === next.revision ||
          same(one.counts, next.counts)
        )
          continue;
        isCloser = (await this.#sample((one.at + next.at) / 2, asked, signal)) || isCloser;
      }
    }
  }

  /** @param {number} time @param {Set<number>} asked @param {AbortSignal} signal */
  async #sample(time, asked, signal) {
    const at = Math.floor(time / 1000) * 1000;
    if (asked.has(at) || at > api.now() || at < this.start - 1000 || asked.size > SAMPLES_MAX)
      return false;
    asked.add(at);
    const found = await reviewAt(at, signal);
    this.#add(at, found.revision, new Map(found.clusters.map(({ name, now }) => [name, now])));
    this.#tell();
    return true;
  }

  /** @param {number} at @param {string} revision @param {Map<string, number>} counts */
  #add(at, revision, counts) {
    const total = [...counts.values()].reduce((all, it) => all + it, 0);
    this.samples.push({ at, revision, counts, total });
    this.samples.sort((a, b) => a.at - b.at);
  }

  /** Adds how it is now, if that is news. */
  look() {
    const { bindings, clusterBindings } = feeds;
    const now = api.now();
    if (bindings.state !== "live" || now - this.#lastLiveAt < LIVE_EVERY_MS || !this.start) return;
    const version = `${bindings.version}/${clusterBindings.version}`;
    if (version === this.#lastLive) return;
    this.#lastLive = version;
    this.#lastLiveAt = now;
    const all = [...bindings.items.values(), ...clusterBindings.items.values()];
    const counts = derive.replicas(all);
    const leaving = all.reduce((sum, { evictions }) => sum + evictions.length, 0);
    if (leaving < this.#leaving) void this.#events(this.#abort.signal);
    this.#leaving = leaving;
    const last = this.samples.at(-1);
    if (last && same(last.counts, counts)) return;
    this.#add(now, bindings.revision, counts);
    this.samples = this.samples.filter(({ at }) => at > now - HOUR_MS).slice(-2 * SAMPLES_MAX);
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

  /** The newest sample that is not after a time. @param {number} at @returns {Sample | undefined} */
  sampleAt(at) {
    let found = this.samples[0];
    for (const sample of this.samples) {
      if (sample.at > at) break;
      found = sample;
    }
    return found;
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

/** @param {Map<string, number>} one @param {Map<string, number>} other */
function same(one, other) {
  const names = new Set([...one.keys(), ...other.keys()]);
  return [...names].every((name) => (one.get(name) ?? 0) === (other.get(name) ?? 0));
}

/**
 * The revision of a moment.
 * @param {number} at
 * @param {AbortSignal} signal
 */
export async function revisionAt(at, signal) {
  return (await reviewAt(at, signal)).revision;
}

export const history = new History();
