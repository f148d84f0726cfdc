// @ts-check
/**
 * Objects of one kind, kept current: listed once, then watched.
 *
 * A watch that ends is resumed at its last revision, so nothing is missed and nothing is sent
 * twice. If the server no longer knows the revision (410), or has another log than before, the kind
 * is listed anew. While the server is away, what was last known stays on the screen, and the feed
 * says that it is old.
 */
import * as api from "./api.js";
import { keyOf } from "./model.js";

/** @typedef {"idle" | "loading" | "live" | "away" | "forbidden" | "absent"} State */

/** Objects in one page of a list. */
const PAGE = 500;
/** Pauses before another try, in milliseconds. */
const PAUSE_MIN = 500;
const PAUSE_MAX = 10_000;
/** The rest between two looks at a list that is still being read. */
const TELL_EVERY_MS = 500;
/** A feed that nobody looks at goes on for so long, in case they come back. */
const LINGER_MS = 20_000;

/** @type {Set<() => void>} */
const listeners = new Set();
let isTold = false;

/** Between two redraws for what the server sends. A storm of changes leaves time for the user. */
const REDRAW_EVERY_MS = 80;
let toldAt = 0;

function tell() {
  isTold = false;
  toldAt = performance.now();
  listeners.forEach((listener) => listener());
}

/**
 * The one source of redraws: something that the page shows has changed. Tells all listeners once,
 * before the next picture.
 */
export function changed() {
  if (isTold) return;
  isTold = true;
  const pause = REDRAW_EVERY_MS - (performance.now() - toldAt);
  // A tab in the background draws nothing, and is told all the same.
  if (document.hidden) setTimeout(tell, 250);
  else if (pause > 0) setTimeout(tell, pause);
  else requestAnimationFrame(tell);
}

/** The user has changed something, and sees it at once. */
export const changedNow = () => tell();

/** @param {() => void} listener */
export function listen(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** @type {(() => void)[]} */
const losers = [];

/** @param {() => void} told is called when the server may have another log than before */
export function onAnotherLog(told) {
  losers.push(told);
}

const tellOfAnotherLog = () => losers.forEach((told) => told());

/** @typedef {{ namespace: string, name: string, uid: string, resourceVersion: string }} Version */

/** What tells one version of an object from all others, in any log. @param {any} object @returns {Version} */
function versionOf(object) {
  const { namespace = "", name = "", uid = "", resourceVersion = "" } = object?.metadata ?? {};
  return { namespace, name, uid, resourceVersion };
}

/** The one that was written later. @param {Version | null} known @param {any} object @returns {Version} */
function newer(known, object) {
  const version = versionOf(object);
  return known && Number(known.resourceVersion) > Number(version.resourceVersion) ? known : version;
}

/** Something that is worked out from feeds for as long as anybody looks at it. */
export class Derived {
  /** How many look at it. */
  users = 0;
  #feeds;

  /** @param {() => Feed<any>[]} feeds that it is worked out from */
  constructor(feeds) {
    this.#feeds = feeds;
  }

  /** Keeps it current until the returned function is called. */
  use() {
    this.users += 1;
    const stops = [...this.#feeds().map((feed) => feed.use()), listen(() => this.look())];
    this.begin();
    return () => {
      this.users -= 1;
      stops.forEach((stop) => stop());
    };
  }

  /** Somebody has begun to look. */
  begin() {
    this.look();
  }

  /** Something has changed. */
  look() {}
}

/** @template T */
export class Feed {
  /** @type {Map<string, T>} */
  items = new Map();
  /** @type {State} */
  state = "idle";
  error = "";
  /** Changes with every change of the items. */
  version = 0;
  /** Changes when items come or go, and not when one of them changes. */
  shape = 0;
  /** The revision that the items are known at. */
  revision = "";
  /** How many are listed so far, while loading. */
  expected = 0;

  #users = 0;
  /**
   * The object that was written last of those that are known. `null`: it is not known which that is.
   * @type {Version | null}
   */
  #newest = null;
  /** @type {AbortController | null} */
  #running = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #leaving;

  /**
   * @param {() => string} path of the collection
   * @param {(object: any) => T} keep
   * @param {(before: T | undefined, after: T | undefined) => void} [onChange] is told what the
   *   watch brings
   */
  constructor(path, keep, onChange) {
    this.path = path;
    this.keep = keep;
    this.onChange = onChange;
  }

  /** Keeps the feed going until the returned function is called. */
  use() {
    this.#users += 1;
    clearTimeout(this.#leaving);
    if (!this.#running) this.#start();
    return () => {
      this.#users -= 1;
      if (this.#users > 0) return;
      this.#leaving = setTimeout(() => this.stop(), LINGER_MS);
    };
  }

  stop() {
    this.#running?.abort();
    this.#running = null;
    this.items = new Map();
    this.revision = "";
    this.#newest = null;
    this.#say("idle");
  }

  /** Begins anew: the path or the user has changed. */
  restart() {
    if (!this.#running) return;
    this.stop();
    this.#start();
  }

  #start() {
    this.#running = new AbortController();
    void this.#run(this.#running.signal);
  }

  /** @param {State} state @param {string} [error] */
  #say(state, error = "") {
    this.shape += 1;
    this.state = state;
    this.error = error;
    this.version += 1;
    changed();
  }

  /** @param {AbortSignal} signal */
  async #run(signal) {
    let pause = PAUSE_MIN;
    while (!signal.aborted) {
      try {
        if (!this.revision) {
          if (this.items.size === 0) this.#say("loading");
          await this.#list(signal);
        } else if (!(await this.#isSameLog(signal))) {
          await this.#list(signal);
        }
        pause = PAUSE_MIN;
        await this.#watch(signal);
      } catch (cause) {
        if (signal.aborted) return;
        const error =
          cause instanceof api.ApiError ? cause : new api.ApiError(0, "", String(cause));
        if (error.code === 410 || error.reason === "Expired") {
          // The log has gone on without us, or is another one: what we know may be wrong.
          this.revision = "";
          await wait(PAUSE_MIN, signal);
          continue;
        }
        if (error.isForbidden) this.#lose("forbidden", error.message);
        else if (error.code === 404) this.#lose("absent", error.message);
        else this.#say("away", error.message);
        const isFinal = error.isForbidden || error.code === 404 || error.code === 401;
        await wait(isFinal ? PAUSE_MAX : pause, signal);
        pause = Math.min(pause * 2, PAUSE_MAX);
      }
    }
  }

  /** @param {State} state @param {string} why */
  #lose(state, why) {
    this.items = new Map();
    this.revision = "";
    this.#newest = null;
    this.#say(state, why);
  }

  /** @param {AbortSignal} signal */
  async #list(signal) {
    /** @type {Map<string, T>} */
    const found = new Map();
    let next = "";
    /** @type {string} */
    let revision;
    const last = this.#newest;
    /** @type {Version | null} */
    let newest = null;
    let isLastThere = false;
    let toldAt = 0;
    /** @returns {Promise<any>} */
    const ask = () => {
      const rest = next && `&continue=${encodeURIComponent(next)}`;
      return api.get(`${this.path()}?limit=${PAGE}${rest}`, signal);
    };
    let coming = ask();
    do {
      const page = await coming;
      next = page.metadata?.continue ?? "";
      // The server answers while this page is read.
      if (next) coming = ask();
      // Who has stopped waiting for it does not look at how it ends.
      coming.catch(() => {});
      for (const object of itemsOf(page)) {
        found.set(keyOf(object), this.keep(object));
        newest = newer(newest, object);
        isLastThere ||= object.metadata?.uid === last?.uid;
      }
      revision = page.metadata?.resourceVersion ?? "";
      this.expected = found.size + (page.metadata?.remainingItemCount ?? 0);
      // Each time, the screens look at all that is known so far.
      if (this.state === "loading" && next && performance.now() - toldAt > TELL_EVERY_MS) {
        toldAt = performance.now();
        this.items = found;
        this.shape += 1;
        this.version += 1;
        changed();
      }
    } while (next);
    this.items = found;
    this.revision = revision;
    this.#newest = newest;
    // It was not deleted before the watch ended. So it has gone meanwhile, or with its log.
    if (last && !isLastThere) tellOfAnotherLog();
    this.#say("live");
  }

  /**
   * Whether the server still has the log that the items come from, so that a watch from the last
   * revision misses nothing. A log that began anew, or that was restored from a backup, may have
   * come to the same revision by another way. Then what was written last is not the same there, or
   * there are more or fewer objects. Where the server cannot tell (410), the kind is listed anew.
   * @param {AbortSignal} signal
   */
  async #isSameLog(signal) {
    // An empty log has no past to ask about.
    if (!Number(this.revision)) return false;
    const path = this.path();
    const head = await api.get(`${path}?limit=1`, signal);
    if (Number(head.metadata?.resourceVersion) < Number(this.revision)) return false;
    const then = `limit=1&resourceVersion=${this.revision}&resourceVersionMatch=Exact`;
    const page = await api.get(`${path}?${then}`, signal);
    const count = (page.items?.length ?? 0) + (page.metadata?.remainingItemCount ?? 0);
    if (count !== this.items.size) return false;
    if (count === 0) return true;
    if (!this.#newest) return false;
    const { namespace, name } = this.#newest;
    const fields = `metadata.name=${name}${namespace && `,metadata.namespace=${namespace}`}`;
    const found = await api.get(
      `${path}?${then}&fieldSelector=${encodeURIComponent(fields)}`,
      signal,
    );
    return JSON.stringify(versionOf(found.items?.[0])) === JSON.stringify(this.#newest);
  }

  /** @param {AbortSignal} signal */
  async #watch(signal) {
    const began = Date.now();
    const query = `?watch=1&allowWatchBookmarks=true&resourceVersion=${this.revision}`;
    const opened = () => this.state !== "live" && this.#say("live");
    await api.watch(this.path() + query, (event) => this.#apply(event), signal, opened);
    // Servers end watches now and then. One that ends at once would be asked for without end.
    if (Date.now() - began < 1000) await wait(PAUSE_MIN, signal);
  }

  /** @param {api.WatchEvent} event */
  #apply(event) {
    this.revision = event.object?.metadata?.resourceVersion ?? this.revision;
    if (event.type !== "BOOKMARK") {
      const key = keyOf(event.object);
      const before = this.items.get(key);
      const after = event.type === "DELETED" ? undefined : this.keep(event.object);
      if (after) this.#newest = newer(this.#newest, event.object);
      else if (this.#newest && key === keyOf({ metadata: this.#newest })) this.#newest = null;
      if (!before !== !after) this.shape += 1;
      if (after) this.items.set(key, after);
      else this.items.delete(key);
      this.onChange?.(before, after);
      this.version += 1;
      changed();
    }
    if (this.state !== "live") this.#say("live");
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
export function wait(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      // A signal may outlive thousands of waits.
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

/**
 * All objects of a collection as they were at a revision.
 * @template T
 * @param {string} path
 * @param {(object: any) => T} keep
 * @param {string} revision
 * @param {AbortSignal} signal
 * @returns {Promise<Map<string, T>>}
 */
export async function listAt(path, keep, revision, signal) {
  // In one page: the server keeps no old state between two pages.
  const page = await api.get(
    `${path}?resourceVersion=${revision}&resourceVersionMatch=Exact`,
    signal,
  );
  /** @type {Map<string, T>} */
  const found = new Map();
  for (const object of itemsOf(page)) found.set(keyOf(object), keep(object));
  return found;
}

/** The objects of a list, each with its kind, which the list does not repeat. @param {any} page @returns {any[]} */
function itemsOf(page) {
  const kind = String(page.kind ?? "").replace(/List$/, "");
  for (const object of page.items ?? []) object.kind ??= kind;
  return page.items ?? [];
}
