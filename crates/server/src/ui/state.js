// @ts-check
/**
 * What the whole page shares: the feeds, the moment that it shows, and what is displaced.
 *
 * With a moment in the past every screen shows the objects as they were then: each kind is listed
 * at that moment's revision, and no screen has to know.
 */
import * as api from "./api.js";
import { Derived, Feed, changed, changedNow, listAt, listen, onAnotherLog, wait } from "./feed.js";
import * as model from "./model.js";
import { refine, route } from "./route.js";
import { useEffect, useRef, useState } from "./vendor/preact-htm/standalone.js";

const KARMADA = "/apis/work.karmada.io/v1alpha2";
const FLEET = "/apis/placement.kubernetes-fleet.io/v1beta1";
const OURS = "/apis/ballast.dev/v1alpha1";

/** How long a changed number stays marked. */
export const MARKED_MS = 90_000;
/** The rest between two reviews of what is displaced, */
const REVIEW_EVERY_MS = 2500;
/** and how many times as long as they took: a large fleet keeps the server free. */
const REVIEW_REST_TIMES = 4;
/** The most workloads that a review lists. */
const LISTED_MAX = 10_000;
/** Kinds at moments of the past that are kept. */
const PAST_MAX = 24;

/** The only namespace that is read, where the user may not read all. Empty: all. */
let namespace = "";

/** @param {string} base @param {string} plural */
const namespaced = (base, plural) => () =>
  `${base}/${namespace && `namespaces/${namespace}/`}${plural}`;

/** Where rebalances of a namespace are, or those of the fleet. @param {string} [of] */
export const rebalancesPlace = (of = namespace) =>
  `${OURS}/${of ? `namespaces/${encodeURIComponent(of)}/rebalances` : "clusterrebalances"}`;

/**
 * The rebalance, which moves nothing where its plan has changed since it was shown.
 * @param {any} rebalance @param {unknown} hash of the plan
 */
export const expecting = (rebalance, hash) =>
  typeof hash === "string" && hash
    ? { ...rebalance, spec: { ...rebalance.spec, expectPlan: hash } }
    : rebalance;

/** What changed last of each binding: its targets before, and when. */
/** @type {Map<string, { before: model.Share[], at: number }>} */
export const moved = new Map();

/** @param {model.Binding | undefined} before @param {model.Binding | undefined} after */
function noteMove(before, after) {
  if (!before || !after) return;
  if (JSON.stringify(before.targets) === JSON.stringify(after.targets)) return;
  moved.delete(after.key);
  moved.set(after.key, { before: before.targets, at: api.now() });
  for (const [key, { at }] of moved) {
    if (api.now() - at < MARKED_MS) break;
    moved.delete(key);
  }
}

/** What changed of a binding a short while ago. In the past nothing is marked. @param {model.Binding} binding */
export function recent(binding) {
  const found = moment ? undefined : moved.get(binding.key);
  return found && api.now() - found.at < MARKED_MS ? found : undefined;
}

/** @param {any} object */
const whole = (object) => model.whole(object);

export const feeds = {
  clusters: new Feed(() => "/apis/cluster.karmada.io/v1alpha1/clusters", model.cluster),
  bindings: new Feed(namespaced(KARMADA, "resourcebindings"), model.binding, noteMove),
  clusterBindings: new Feed(() => `${KARMADA}/clusterresourcebindings`, model.binding, noteMove),
  clusterRebalances: new Feed(() => `${OURS}/clusterrebalances`, whole),
  rebalances: new Feed(namespaced(OURS, "rebalances"), whole),
  limits: new Feed(() => `${OURS}/evictionlimits`, whole),
  moves: new Feed(namespaced(OURS, "moves"), whole),
  clusterMoves: new Feed(() => `${OURS}/clustermoves`, whole),
  members: new Feed(() => "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters", whole),
  placements: new Feed(() => `${FLEET}/clusterresourceplacements`, whole),
  fleetBindings: new Feed(() => `${FLEET}/clusterresourcebindings`, whole),
};
/** @typedef {keyof typeof feeds} FeedName */

/** Words for people, of feeds and of what else is asked for. @type {Record<FeedName | "reviews" | "events", string>} */
export const FEED_NAMES = {
  clusters: "clusters",
  bindings: "resource bindings",
  clusterBindings: "cluster resource bindings",
  clusterRebalances: "cluster rebalances",
  rebalances: "rebalances of namespaces",
  limits: "limits of evictions",
  moves: "moves",
  clusterMoves: "cluster moves",
  members: "member clusters",
  placements: "Fleet placements",
  fleetBindings: "Fleet bindings",
  reviews: "placement reviews, which say what is displaced",
  events: "events, which say what was evicted",
};

export const onlyNamespace = () => namespace;

/** Both kinds of rebalances together. */
export function useRebalances() {
  const [ofNamespaces, ofFleet] = [useFeed("rebalances"), useFeed("clusterRebalances")];
  return {
    feeds: /** @type {const} */ ([ofNamespaces, ofFleet]),
    isLoading: ofNamespaces.state === "loading" || ofFleet.state === "loading",
    /** @returns {any[]} */
    all: () => [...ofNamespaces.items.values(), ...ofFleet.items.values()],
    versions: [ofNamespaces.version, ofFleet.version],
  };
}

/** @param {string} name empty: all namespaces */
export function readNamespace(name) {
  namespace = name;
  feeds.bindings.restart();
  feeds.moves.restart();
  feeds.rebalances.restart();
  displacement.restart();
  changedNow();
}

export function restartAll() {
  Object.values(feeds).forEach((feed) => feed.restart());
  displacement.restart();
}

/**
 * Draws the component anew when what it looks at has changed, and only then.
 * @template {string | number | boolean | null} T
 * @param {() => T} look
 */
export function useSnapshot(look) {
  const [, draw] = useState(look);
  const latest = useRef(look);
  latest.current = look;
  useEffect(() => {
    draw(latest.current());
    return listen(() => draw(latest.current()));
  }, []);
  return look();
}

/** The address, and anew whenever it changes. */
export function useRoute() {
  useSnapshot(() => location.hash);
  return route();
}

/** @type {Map<() => void, number>} those that are drawn again and again, and how many seconds lie between */
const ticking = new Map();
let seconds = 0;
/** @type {ReturnType<typeof setInterval> | undefined} */
let clock;

function tick() {
  seconds += 1;
  for (const [draw, every] of ticking) if (seconds % every === 0) draw();
}

/** Draws the component anew each so many milliseconds, for ages. @param {number} ms */
export function useTick(ms) {
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    ticking.set(again, Math.max(1, Math.round(ms / 1000)));
    clock ??= setInterval(tick, 1000);
    return () => {
      ticking.delete(again);
    };
  }, [ms]);
}

/** @typedef {{ at: number, revision: string }} Moment */
/** @type {Moment | null} `null`: now */
let moment = null;

export const currentMoment = () => moment;
/** The time that the page shows, in milliseconds. */
export const shownTime = () => moment?.at ?? api.now();

/** Counts the moments that somebody wished to see. */
let wishes = 0;

/**
 * To be called before the revision of a moment is looked up. Says afterwards whether that moment is
 * still the one to show, or something else was wished meanwhile.
 */
export function wish() {
  wishes += 1;
  const mine = wishes;
  return () => mine === wishes;
}

/** @param {Moment | null} wanted */
export function showMoment(wanted) {
  wishes += 1;
  const at = wanted ? stamp(wanted.at) : "";
  const wasPast = moment !== null;
  const isOther = wanted?.revision !== moment?.revision || wanted?.at !== moment?.at;
  moment = wanted;
  followed = at;
  // Entering the past and leaving it are steps for Back. Moving about in it is not.
  refine({ at }, wasPast === Boolean(wanted) ? "typed" : "step");
  if (!isOther) return;
  displacement.restart();
  changedNow();
}

/** The moment that the address named last. */
let followed = "";
/** Why the moment of the address cannot be shown. Empty: it is shown. */
let lostMoment = "";
export const momentError = () => lostMoment;

/** Shows the moment that the address names. */
export async function followAddress() {
  const at = route().query.get("at") ?? "";
  if (at === followed) return;
  followed = at;
  lostMoment = "";
  const time = model.time(at);
  if (time === null) {
    if (at) refine({ at: "" }, "typed");
    return showMoment(null);
  }
  const isWanted = wish();
  try {
    const { revision } = await reviewAt(Math.min(time, api.now()));
    if (isWanted()) showMoment({ at: time, revision });
  } catch (cause) {
    if (!isWanted()) return;
    lostMoment = `${at} cannot be shown: ${/** @type {Error} */ (cause).message}`;
    showMoment(null);
  }
}

/** @typedef {{ items: Map<string, any>, state: string, error: string, abort: AbortController }} Past */
/** @type {Map<string, Past>} by path and revision, the oldest first */
const past = new Map();

/** @param {FeedName} name @param {Moment} at @returns {Past} */
function pastOf(name, at) {
  const feed = feeds[name];
  const key = `${feed.path()}@${at.revision}`;
  const known = past.get(key);
  if (known) return known;
  /** @type {Past} */
  const made = { items: new Map(), state: "loading", error: "", abort: new AbortController() };
  past.set(key, made);
  for (const [old, { abort }] of past) {
    if (past.size <= PAST_MAX) break;
    abort.abort();
    past.delete(old);
  }
  const keep = /** @type {(object: any) => any} */ (feed.keep);
  listAt(feed.path(), keep, at.revision, made.abort.signal)
    .then((items) => Object.assign(made, { items, state: "live" }))
    .catch((error) =>
      Object.assign(made, {
        state: error.isForbidden ? "forbidden" : "away",
        error: error.message,
      }),
    )
    .finally(changed);
  return made;
}

/** The rest between two counts of the clusters of a namespace. */
const COUNT_EVERY_MS = 3000;

/**
 * The clusters of the namespace's workloads, for a user who may not list clusters: the server's
 * LocalFleetReview reports which of them are ready.
 */
class OwnClusters extends Derived {
  state = "idle";
  version = 0;
  /** @type {Map<string, model.Cluster>} */
  items = new Map();
  #isAsking = false;
  #of = "";

  constructor() {
    super(() => [feeds.clusters]);
  }

  /** Whether they stand in for the clusters that cannot be read. */
  get isUsed() {
    return (
      !moment &&
      namespace === this.#of &&
      this.state === "live" &&
      feeds.clusters.state === "forbidden"
    );
  }

  look() {
    const isNeeded = feeds.clusters.state === "forbidden" && namespace !== "" && !moment;
    if (this.users === 0 || this.#isAsking || !isNeeded) return;
    this.#isAsking = true;
    void this.#ask(namespace);
  }

  /** @param {string} of */
  async #ask(of) {
    const question = {
      apiVersion: "ballast.dev/v1alpha1",
      kind: "LocalFleetReview",
      spec: { limit: 0 },
    };
    let pause = COUNT_EVERY_MS;
    try {
      const path = `${OURS}/namespaces/${encodeURIComponent(of)}/localfleetreviews`;
      const status = model.map((await api.post(path, question)).status);
      const found = model.list(status.clusters).map(model.countedCluster);
      const items = new Map(found.map((it) => [it.key, it]));
      if (this.state !== "live" || this.#of !== of || !isSame(items, this.items)) {
        Object.assign(this, { items, state: "live", version: this.version + 1 });
        this.#of = of;
        changed();
      }
    } catch (error) {
      const isForbidden = /** @type {api.ApiError} */ (error).isForbidden;
      if (isForbidden) pause = 10 * COUNT_EVERY_MS;
      if (this.state === "live") this.version += 1;
      this.state = isForbidden ? "forbidden" : "away";
      changed();
    }
    await wait(pause, new AbortController().signal);
    this.#isAsking = false;
    this.look();
  }
}

/** @param {Map<string, model.Cluster>} one @param {Map<string, model.Cluster>} other */
const isSame = (one, other) => JSON.stringify([...one]) === JSON.stringify([...other]);

const ownClusters = new OwnClusters();

/**
 * The clusters, now or at the moment that is shown. Their state is `own` where only those of the
 * namespace's workloads are known, without capacity, taints and labels.
 */
function useClusters() {
  useEffect(() => ownClusters.use(), []);
  useSnapshot(() => `${ownClusters.isUsed} ${ownClusters.version}`);
  const found = useObjects("clusters");
  if (found.state !== "forbidden" || !ownClusters.isUsed) return found;
  const { items, version } = ownClusters;
  return { items, state: "own", error: found.error, version: `own ${version}`, shape: version };
}

/**
 * The objects of a feed, now or at the moment that is shown.
 * @param {FeedName} name
 * @returns {{ items: Map<string, any>, state: string, error: string, version: unknown, shape: unknown }}
 */
function useObjects(name) {
  const feed = feeds[name];
  useEffect(() => feed.use(), [feed]);
  useSnapshot(() => (moment ? `${moment.revision} ${pastOf(name, moment).state}` : feed.version));
  if (!moment)
    return {
      items: feed.items,
      state: feed.state,
      error: feed.error,
      version: feed.version,
      shape: feed.shape,
    };
  const { items, state, error } = pastOf(name, moment);
  return { items, state, error, version: items, shape: items };
}

/**
 * The objects of a feed, now or at the moment that is shown.
 * @param {FeedName} name
 */
export const useFeed = (name) => (name === "clusters" ? useClusters() : useObjects(name));

/** Both kinds of bindings together. */
export function useBindings() {
  const [some, others] = [useFeed("bindings"), useFeed("clusterBindings")];
  return {
    feeds: /** @type {const} */ ([some, others]),
    isLoading: some.state === "loading" || (others.state === "loading" && some.state !== "live"),
    /** @returns {model.Binding[]} */
    all: () => [...some.items.values(), ...others.items.values()],
    versions: [some.version, others.version],
    shapes: [some.shape, others.shape],
  };
}

/**
 * @typedef {object} Review the status of a PlacementReview, as it came
 * @property {string} revision
 * @property {any} summary
 * @property {{ name: string, before: number, planned: number, now: number }[]} clusters
 * @property {any[]} moves
 * @property {any[]} stays selected workloads that a plan leaves where they are, each with a reason
 * @property {any[]} unplaceable
 * @property {number} remaining
 * @property {string} planHash names the plan; empty where the server names none
 * @property {any[]} survival what the loss of each domain would strand
 * @property {number | null} survivalTime the time that it is about, where that is not now
 * @property {any} objective how near the plan comes to what it is for
 * @property {any} cost
 */

/** Whether an entry of a plan changes a placement. A Fleet placement names no new clusters. @param {any} entry */
const changes = ({ from, to }) =>
  model.list(to).length === 0 || JSON.stringify(from) !== JSON.stringify(to);

/**
 * Asks a review. Where only one namespace may be read, that one is asked about.
 * @param {any} spec
 * @param {AbortSignal} [signal]
 * @returns {Promise<Review>}
 */
export async function review(spec, signal) {
  const at = moment && !spec.asOf ? { asOf: { revision: moment.revision } } : {};
  const [kind, place] = namespace
    ? ["LocalPlacementReview", `namespaces/${namespace}/localplacementreviews`]
    : ["PlacementReview", "placementreviews"];
  const question = { apiVersion: "ballast.dev/v1alpha1", kind, spec: { ...spec, ...at } };
  const isExplained = Boolean(spec.explain) || spec.mode === "AsIs";
  for (let tries = 0; ; tries += 1) {
    try {
      const status = model.map((await api.post(`${OURS}/${place}`, question, signal)).status);
      return {
        revision: model.text(status.revision),
        summary: model.map(status.summary),
        clusters: model.list(status.clusters),
        moves: model.list(status.moves).filter((it) => isExplained || changes(it)),
        stays: isExplained ? [] : model.list(status.moves).filter((it) => !changes(it)),
        unplaceable: model.list(status.unplaceable),
        remaining: model.count(status.remaining),
        planHash: model.text(status.planHash),
        survival: model.list(status.survival),
        survivalTime: model.time(status.survivalTime),
        objective: model.map(status.objective),
        cost: model.map(status.cost),
      };
    } catch (error) {
      // Only so many reviews are answered at a time.
      if (!(error instanceof api.ApiError) || error.code !== 429 || tries >= 20) throw error;
      await wait(150 + 100 * tries, signal ?? new AbortController().signal);
    }
  }
}

/**
 * How the fleet was at a time, in milliseconds: the revision, and how many replicas each cluster had.
 * @param {number} at
 * @param {AbortSignal} [signal]
 */
export const reviewAt = (at, signal) =>
  review({ select: [{ all: true }], mode: "AsIs", limit: 0, asOf: { time: stamp(at) } }, signal);

/**
 * How much of the fleet, or of the only namespace that is read, was ready: at a time, or as the
 * present moment of the page.
 * @param {{ time: string } | { revision: string } | null} asOf `null`: now
 * @param {AbortSignal} [signal]
 * @returns {Promise<Record<string, any>>} the status of a FleetReview
 */
export async function fleetReview(asOf, signal) {
  const [kind, place] = namespace
    ? ["LocalFleetReview", `namespaces/${encodeURIComponent(namespace)}/localfleetreviews`]
    : ["FleetReview", "fleetreviews"];
  const spec = { limit: 0, ...(asOf ? { asOf } : {}) };
  const question = { apiVersion: "ballast.dev/v1alpha1", kind, spec };
  for (let tries = 0; ; tries += 1) {
    try {
      const status = model.map((await api.post(`${OURS}/${place}`, question, signal)).status);
      // A server of an earlier version counts the present only.
      if (asOf && !status.time) throw new api.ApiError(404, "NotFound", "the server is too old");
      return status;
    } catch (error) {
      // Only so many counts of the past are made at a time.
      if (!(error instanceof api.ApiError) || error.code !== 429 || tries >= 20) throw error;
      await wait(150 + 100 * tries, signal ?? new AbortController().signal);
    }
  }
}

/** @param {number} at in milliseconds @param {AbortSignal} [signal] */
export const fleetAt = (at, signal) => fleetReview({ time: stamp(at) }, signal);

/** @param {number} ms */
const stamp = (ms) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/**
 * What is displaced and where it would go home to, and how much has drifted, asked anew when
 * placements or clusters change.
 */
class Displacement extends Derived {
  state = "idle";
  /** Changes with every answer. */
  version = 0;
  error = "";
  /** @type {Map<string, any>} by binding */
  moves = new Map();
  /** @type {Map<string, any>} displaced workloads that cannot return yet, by binding */
  stuck = new Map();
  /** @type {any} */
  summary = null;
  /** How many workloads are displaced, and how many have drifted: what the metrics and commands say. */
  count = 0;
  drifted = 0;
  #asked = "";
  /** The revision of the last answer. */
  #revision = 0;
  #isAsking = false;
  /** @type {AbortController} */
  #abort = new AbortController();

  constructor() {
    super(() => [feeds.clusters, feeds.bindings, feeds.clusterBindings]);
  }

  restart() {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.#isAsking = false;
    this.#asked = "";
    this.#revision = 0;
    this.state = "idle";
    this.version += 1;
    this.look();
  }

  look() {
    if (this.users === 0 || this.#isAsking) return;
    const { clusters, bindings, clusterBindings } = feeds;
    const of =
      moment?.revision ?? `${clusters.version}/${bindings.version}/${clusterBindings.version}`;
    // At the start the server first counts, and sends the first of each list.
    const isStarting = !moment && bindings.state === "loading" && bindings.items.size === 0;
    if (of === this.#asked || bindings.state === "idle" || isStarting) return;
    this.#asked = of;
    // What was answered while the lists were read may be newer than these.
    const newest = Math.max(
      ...[clusters, bindings, clusterBindings].map((it) => Number(it.revision)),
    );
    if (!moment && this.state === "live" && bindings.revision && newest <= this.#revision) return;
    this.#isAsking = true;
    void this.#ask(this.#abort.signal);
  }

  /** @param {AbortSignal} signal */
  async #ask(signal) {
    const began = performance.now();
    try {
      // One after the other: the second uses what the first has worked out.
      const found = await review(
        { select: [{ displaced: true }], mode: "AsBefore", limit: LISTED_MAX },
        signal,
      );
      const drifted = await review(
        { select: [{ drifted: true }], mode: "Steady", limit: 0 },
        signal,
      );
      if (signal.aborted) return;
      this.#revision = Math.min(Number(found.revision), Number(drifted.revision));
      const keyed = (/** @type {any[]} */ entries) =>
        new Map(
          entries.map((it) => [
            `${model.text(it.binding?.namespace)}/${model.text(it.binding?.name)}`,
            it,
          ]),
        );
      Object.assign(this, {
        state: "live",
        error: "",
        summary: found.summary,
        count: model.count(found.summary.selected),
        drifted: model.count(drifted.summary.selected),
      });
      this.moves = keyed(found.moves);
      this.stuck = keyed([...found.unplaceable, ...found.stays]);
    } catch (error) {
      if (signal.aborted) return;
      const told = /** @type {api.ApiError} */ (error);
      Object.assign(this, {
        state: told.isForbidden ? "forbidden" : told.code === 404 ? "absent" : "away",
        error: told.message,
        summary: null,
        count: 0,
        drifted: 0,
      });
      this.moves = new Map();
      this.stuck = new Map();
    }
    this.version += 1;
    changed();
    const took = performance.now() - began;
    await wait(Math.max(REVIEW_EVERY_MS, REVIEW_REST_TIMES * took), signal);
    if (signal.aborted) return;
    this.#isAsking = false;
    this.look();
  }
}

export const displacement = new Displacement();

/** How a screen that asks again and again, without a feed, fares. */
export const asking = { state: "idle", error: "" };

/** @param {"idle" | "live" | "away"} state @param {string} [error] */
export function sayAsking(state, error = "") {
  if (asking.state === state) return;
  Object.assign(asking, { state, error });
  changed();
}

// What was known of the past is another log's past.
onAnotherLog(() => {
  past.forEach(({ abort }) => abort.abort());
  past.clear();
  moved.clear();
  showMoment(null);
});

export function useDisplacement() {
  useEffect(() => displacement.use(), []);
  useSnapshot(() => displacement.version);
  return displacement;
}
