// @ts-check
/**
 * The counts of the server's FleetReview: the replicas that are missing, and the evictions that wait
 * and when the last of them begins. The server knows the rate, tolerations and what is foreseen, and
 * its counts are there long before all bindings of a large fleet are read. A server without
 * FleetReviews is asked once.
 */
import { Derived, changed, onAnotherLog, wait } from "./feed.js";
import * as model from "./model.js";
import { currentMoment, feeds, fleetReview, onlyNamespace, useSnapshot } from "./state.js";
import { useEffect } from "./vendor/preact-htm/standalone.js";

/** The rest between two questions. */
const ASK_EVERY_MS = 2500;
/** A server that does not answer this question is asked again after so long. */
const ASK_AGAIN_MS = 60_000;

/**
 * `at`: the time that they are counted at. `until`, `setBy` and `note` are those of the EvictionLimit
 * that sets the rate.
 * @typedef {{ waiting: number, foreseen: number, leaving: number, due: number | null, ends: number | null, rate: string, from: string, until: number | null, setBy: string, note: string, at: number | null, askAgain: () => void }} Evictions
 */

class Backlog extends Derived {
  /** @type {Evictions | null} `null`: not known, or the server does not tell */
  evictions = null;
  /** @type {any} the status of the review; `null`: as for the evictions */
  counts = null;
  version = 0;
  #asked = "";
  /** The revision of the past that is known; empty: the present. */
  #shown = "";
  /** The revision of the past that was asked about last. @type {string | undefined} */
  #revision;
  #pause = new AbortController();
  #isAsking = false;

  constructor() {
    super(() => [feeds.clusters, feeds.bindings, feeds.clusterBindings, feeds.limits]);
  }

  /** What is known is of the moment that is shown. */
  get isCurrent() {
    return this.#shown === (currentMoment()?.revision ?? "");
  }

  /** The user has changed the rate. */
  askAgain() {
    this.#asked = "";
    this.#hurry();
    this.look();
  }

  #hurry() {
    this.#pause.abort();
    this.#pause = new AbortController();
  }

  forget() {
    this.#asked = "";
    this.evictions = null;
    this.counts = null;
  }

  look() {
    const { clusters, bindings, clusterBindings, limits } = feeds;
    const moment = currentMoment();
    const now = `${clusters.version}/${bindings.version}/${clusterBindings.version}/${limits.version}`;
    const of = `${moment?.revision ?? now}/${onlyNamespace()}`;
    // Another moment does not wait for the next look at this one.
    if (this.#isAsking && this.#revision !== moment?.revision) this.#hurry();
    if (this.users === 0 || this.#isAsking) return;
    if (of === this.#asked) return;
    this.#asked = of;
    this.#isAsking = true;
    this.#revision = moment?.revision;
    void this.#ask(moment);
  }

  /** @param {{ at: number, revision: string } | null} moment */
  async #ask(moment) {
    let pause = moment ? 0 : ASK_EVERY_MS;
    const namespace = onlyNamespace();
    try {
      const status = await fleetReview(moment && { revision: moment.revision });
      const found = model.map(status.evictions);
      this.counts = moment ? null : { ...status, namespace };
      this.evictions = {
        waiting: model.count(found.waiting),
        foreseen: model.count(found.foreseen),
        leaving: model.count(found.leaving),
        due: model.time(found.nextDue),
        ends: model.time(found.ends),
        rate: String(found.perSecond ?? ""),
        from: model.text(found.rateFrom),
        until: model.time(found.rateUntil),
        setBy: model.text(found.rateSetBy),
        note: model.text(found.rateNote),
        at: moment && model.time(status.time),
        askAgain: () => this.askAgain(),
      };
      this.#shown = moment?.revision ?? "";
    } catch {
      // Who may not ask, and who asks a server without it, sees what the page counts.
      this.evictions = null;
      this.counts = null;
      pause = moment ? 0 : ASK_AGAIN_MS;
    }
    this.version += 1;
    changed();
    const isCurrent = currentMoment()?.revision === moment?.revision;
    await wait(isCurrent ? pause : 0, this.#pause.signal);
    this.#isAsking = false;
    this.look();
  }
}

const backlog = new Backlog();
onAnotherLog(() => backlog.forget());

/** The counts of the namespace that is read, or of the fleet, or `null`. @returns {any} */
export function useCounts() {
  useEffect(() => backlog.use(), []);
  useSnapshot(() => backlog.version);
  const isOfThese = !currentMoment() && backlog.counts?.namespace === onlyNamespace();
  return isOfThese ? backlog.counts : null;
}

/** The evictions as the server tells, or `null`. @returns {Evictions | null} */
export function useBacklog() {
  useEffect(() => backlog.use(), []);
  useSnapshot(() => `${backlog.version} ${currentMoment()?.revision}`);
  return backlog.isCurrent ? backlog.evictions : null;
}
