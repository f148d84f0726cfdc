// @ts-check
/**
 * The evictions that wait, and when the last of them begins, as the server's FleetReview says: it
 * knows the rate, tolerations and what is foreseen. A server without FleetReviews is asked once.
 */
import * as api from "./api.js";
import { Derived, changed, onAnotherLog, wait } from "./feed.js";
import * as model from "./model.js";
import { currentMoment, feeds, onlyNamespace, useSnapshot } from "./state.js";
import { useEffect } from "./vendor/preact-htm/standalone.js";

/** The rest between two questions. */
const ASK_EVERY_MS = 2500;
/** A server that does not answer this question is asked again after so long. */
const ASK_AGAIN_MS = 60_000;
const OURS = "/apis/ballast.dev/v1alpha1";

/** @typedef {{ waiting: number, foreseen: number, leaving: number, due: number | null, ends: number | null, rate: string, from: string }} Evictions */

class Backlog extends Derived {
  /** @type {Evictions | null} `null`: not known, as in the past, or the server does not tell */
  evictions = null;
  version = 0;
  #asked = "";
  #isAsking = false;

  constructor() {
    super(() => [feeds.clusters, feeds.bindings, feeds.clusterBindings]);
  }

  forget() {
    this.#asked = "";
    this.evictions = null;
  }

  look() {
    if (this.users === 0 || this.#isAsking || currentMoment()) return;
    const { clusters, bindings, clusterBindings } = feeds;
    const of = `${clusters.version}/${bindings.version}/${clusterBindings.version}/${onlyNamespace()}`;
    if (of === this.#asked || bindings.state !== "live") return;
    this.#asked = of;
    this.#isAsking = true;
    void this.#ask();
  }

  async #ask() {
    let pause = ASK_EVERY_MS;
    const namespace = onlyNamespace();
    const [kind, place] = namespace
      ? ["LocalFleetReview", `namespaces/${encodeURIComponent(namespace)}/localfleetreviews`]
      : ["FleetReview", "fleetreviews"];
    try {
      const question = { apiVersion: "ballast.dev/v1alpha1", kind, spec: { limit: 0 } };
      const status = model.map((await api.post(`${OURS}/${place}`, question)).status);
      const found = model.map(status.evictions);
      this.evictions = {
        waiting: model.count(found.waiting),
        foreseen: model.count(found.foreseen),
        leaving: model.count(found.leaving),
        due: model.time(found.nextDue),
        ends: model.time(found.ends),
        rate: String(found.perSecond ?? ""),
        from: model.text(found.rateFrom),
      };
    } catch {
      // Who may not ask, and who asks a server without it, sees what the page counts.
      this.evictions = null;
      pause = ASK_AGAIN_MS;
    }
    this.version += 1;
    changed();
    await wait(pause, new AbortController().signal);
    this.#isAsking = false;
    this.look();
  }
}

const backlog = new Backlog();
onAnotherLog(() => backlog.forget());

/** The evictions as the server tells, or `null`. @returns {Evictions | null} */
export function useBacklog() {
  useEffect(() => backlog.use(), []);
  useSnapshot(() => backlog.version);
  return currentMoment() ? null : backlog.evictions;
}
