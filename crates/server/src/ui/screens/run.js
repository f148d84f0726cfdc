// @ts-check
/** A rebalance, as it goes: how far, within which bounds, because of whom, and each of its moves. */
import * as api from "../api.js";
import { Confirm } from "../dialog.js";
import * as model from "../model.js";
import { Age, Empty, Missing, Sign } from "../parts.js";
import { Bars, Moves, phaseOf } from "../plan.js";
import { refusal, useMay } from "../rights.js";
import { link, rebalanceLink, refine } from "../route.js";
import {
  currentMoment,
  expecting,
  rebalancesPlace,
  useFeed,
  useRebalances,
  useRoute,
  useTick,
} from "../state.js";
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Outcome } from "./outcome.js";
import { Phase, Progress, isUndoneByGate } from "./progress.js";

/** Reasons of failures that are listed. */
const REASONS = 5;

/** Phases of moves: what the summary calls them, and what they mean. */
const PHASES = /** @type {const} */ ([
  ["Settled", "settled", "Moves that are over, as wanted."],
  ["Moving", "moving", "Moves that have begun and are not over."],
  ["Pending", "pending", "Moves that have not begun."],
  [
    "Failed",
    "failed",
    "Moves that failed, also at once, because the plan found no place to move the workload to.",
  ],
  ["Superseded", "superseded", "Moves that another change of the binding overtook."],
  [
    "Unchanged",
    "unchanged",
    "Workloads that stay where they are: by the plan, or because their move never began.",
  ],
]);

/** The moves of one rebalance. @param {any} rebalance @param {any[]} all */
function movesOf(rebalance, all) {
  const { name, namespace = "" } = rebalance.metadata;
  const kind = namespace ? "Rebalance" : "ClusterRebalance";
  return all
    .filter(({ metadata, spec }) => {
      if (model.text(spec?.rebalance) !== name) return false;
      const owner = model.list(metadata.ownerReferences)[0];
      if (owner) return owner.kind === kind && (!namespace || metadata.namespace === namespace);
      return !namespace || metadata.namespace === namespace;
    })
    .map(({ spec, status }) => ({
      ...spec,
      ...model.map(status),
      phase: model.text(status?.phase) || "Pending",
      reason: model.text(status?.reason),
    }));
}

/**
 * How many of the selected workloads are in which phase, as the summary counts them: the numbers of
 * kubectl, of the commands and of the conditions. They add up to all that are selected.
 * @param {any} summary
 * @returns {{ counts: Record<string, number>, all: number }}
 */
export function tally(summary) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const [phase, field] of PHASES) counts[phase] = model.count(summary[field]);
  return { counts, all: Object.values(counts).reduce((sum, it) => sum + it, 0) };
}

/** How a plan is carried out, in words. @param {any} rollout @returns {[string, string][]} */
function bounds(rollout) {
  const when = { Scheduled: "it is placed", Applied: "it is applied", Healthy: "it is healthy" };
  const settle = model.map(rollout.settle);
  const abort = model.map(rollout.abortOn).failed;
  /** @type {[string, any][]} */
  const found = [
    [
      "strategy",
      rollout.strategy === "SurgeFirst"
        ? "surge: new replicas before old ones go"
        : "direct: all replicas of a workload at once",
    ],
    [
      "concurrency",
      rollout.maxConcurrent ? `${rollout.maxConcurrent} of the moves` : "all at once",
    ],
    ["kept available", rollout.strategy === "SurgeFirst" && (rollout.minAvailable ?? "90%")],
    ["replicas at once", rollout.maxMovingReplicas],
    [
      "to one cluster",
      rollout.maxIncomingPerCluster && `${rollout.maxIncomingPerCluster} replicas`,
    ],
    ["abort threshold", abort ? `${abort} failed` : "none"],
    [
      "a move is over",
      `when ${when[/** @type {"Healthy"} */ (settle.when)] ?? "it is healthy"}, or failed after ${words.span(1000 * (model.count(settle.timeoutSeconds) || 300))}`,
    ],
  ];
  return found.filter(([, it]) => it).map(([name, it]) => [name, String(it)]);
}

/** The numbers of a plan that a dry run has answered with. @param {{ asked: any }} given */
export function PlanFacts({ asked }) {
  const status = model.map(asked.status);
  const summary = model.map(status.summary);
  const failed = model.count(summary.failed);
  return html`<dl class="confirm-facts">
      <dt>moves</dt>
      <dd>
        ${`${words.counted(model.count(summary.toMove), "workload")} with ${words.counted(model.count(summary.replicasToMove), "replica")}`}
      </dd>
      <dt>cannot move</dt>
      <dd class=${failed ? "bad-word" : ""}>
        ${failed ? words.counted(failed, "workload") : "none"}
      </dd>
      ${bounds(model.map(model.map(asked.spec).rollout)).map(
        ([name, it]) =>
          html`<dt>${name}</dt>
            <dd>${it}</dd>`,
      )}
    </dl>
    <${Bars} clusters=${model.list(status.clusters)} />`;
}

/**
 * The clusters that have been lost, come back, joined or been edited since a time. A drain closes
 * its own clusters.
 * @param {Iterable<model.Cluster>} clusters @param {number} at @param {string[]} drained
 */
export function changedSince(clusters, at, drained) {
  const found = [];
  for (const { name, ready, edited } of clusters)
    if ((ready?.since ?? 0) > at || ((edited ?? 0) > at && !drained.includes(name)))
      found.push(name);
  return found.sort(model.byName);
}

/** An objective in a few words. @param {any} objective */
const told = ({ goal, resource, by, maxMovedReplicas }) =>
  [goal, resource, by && `by ${by}`, maxMovedReplicas && `at most ${maxMovedReplicas} replicas`]
    .filter(Boolean)
    .join(", ");

/** @param {any} spec @returns {string[]} */
function drainedBy(spec) {
  const { clusters } = model.map(model.map(spec).drain);
  return Array.isArray(clusters) ? clusters.map(model.text) : [];
}

/** Who asked for it, and why. @param {any} rebalance @returns {[string, any][]} */
function causes({ metadata, spec }) {
  const annotations = model.map(metadata.annotations);
  const labels = model.map(metadata.labels);
  const schedule = model.text(labels["ballast.dev/schedule"]);
  const recovered = model.text(annotations["ballast.dev/recovered"]);
  const drained = drainedBy(spec);
  /** @type {[string, any][]} */
  const found = [
    ["cause", schedule ? `schedule ${schedule}${recovered && `: ${recovered} recovered`}` : ""],
    ["created by", model.text(annotations["ballast.dev/created-by"])],
    ["approved by", model.text(annotations["ballast.dev/approved-by"])],
    ["undoes", spec.undo && model.text(spec.undo.name)],
    ["drains", words.few(drained, 5)],
    ["mode", model.text(spec.mode)],
    ["objective", spec.objective && told(model.map(spec.objective))],
  ];
  return found.filter(([, it]) => it);
}

/**
 * How long a rebalance may take to arrive. One that was just made comes with the watch, a moment
 * after the answer of its creation.
 */
const ARRIVES_WITHIN_MS = 2_000;

/** Whether so much time has passed since the screen was opened. @param {number} ms */
function useHasPassed(ms) {
  const [hasPassed, setHasPassed] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setHasPassed(true), ms);
    return () => clearTimeout(timer);
  }, [ms]);
  return hasPassed;
}

/** @param {{ namespace: string, name: string }} given */
export function Run({ namespace, name }) {
  const hasWaited = useHasPassed(ARRIVES_WITHIN_MS);
  const rebalances = useRebalances();
  const moves = useFeed("moves");
  const clusterMoves = useFeed("clusterMoves");
  const found = rebalances
    .all()
    .find((it) => it.metadata.name === name && (it.metadata.namespace ?? "") === namespace);
  const own = useMemo(
    () => (found ? movesOf(found, [...moves.items.values(), ...clusterMoves.items.values()]) : []),
    [found, moves.version, clusterMoves.version],
  );
  if (!found) {
    const title = `There is no rebalance ${namespace && `${namespace}/`}${name}`;
    return html`<h1>${name}</h1>
      <${Missing}
        of=${[
          ["clusterRebalances", rebalances.feeds[1]],
          ["rebalances", rebalances.feeds[0]],
        ]}
      />
      ${rebalances.isLoading || !hasWaited ? html`<p class="muted">Loading…</p>` : html`<${Empty} title=${title}><p><a href=${link(["rebalance"])}>To the rebalances</a></p></${Empty}>`}`;
  }
  const undo = rebalances
    .all()
    .find(
      (it) =>
        model.map(model.map(it.spec).undo).name === name &&
        (it.metadata.namespace ?? "") === namespace &&
        model.map(it.status).phase !== "Aborted",
    );
  return html`<${Found}
    rebalance=${found}
    own=${own}
    feeds=${[moves, clusterMoves]}
    undo=${undo}
  />`;
}

/** @param {{ rebalance: any, own: any[], feeds: any[], undo: any }} given `undo`: the rebalance that takes it back */
function Found({ rebalance, own, feeds, undo }) {
  const { metadata } = rebalance;
  const { query } = useRoute();
  const [spec, status] = [model.map(rebalance.spec), model.map(rebalance.status)];
  const summary = model.map(status.summary);
  const counted = tally(summary);
  const isUndone = model.map(undo?.status).phase === "Completed" || isUndoneByGate(status);
  const state = isUndone ? "undone" : status.phase === "Completed" ? "reached" : "planned";
  const phase = query.get("phase") ?? "";
  const shown = phase ? own.filter((it) => it.phase === phase) : own;
  return html`
    <p class="crumbs"><a href=${link(["rebalance"])}>Rebalances</a></p>
    <div class="head">
      <h1>
        ${metadata.namespace && html`<span class="muted">${metadata.namespace}/</span>`}${metadata.name}
      </h1>
      <${Phase} status=${status} spec=${spec} isUndone=${isUndone} />
      <${Actions} rebalance=${rebalance} counted=${counted} undo=${undo} />
    </div>
    ${
      undo &&
      html`<p class="notice warn" role="status">
        <a href=${rebalanceLink(undo.metadata)}>${undo.metadata.name}</a>${" "}
        ${isUndone ? "has taken back what was moved: the numbers below are those of this rebalance, and no longer in force." : "takes back what was moved."}
      </p>`
    }
    <${Progress} status=${status} />
    <${Tiles} counted=${counted} phase=${phase} summary=${summary} />
    <${Reasons} status=${status} own=${own} failed=${counted.counts.Failed ?? 0} />
    <${Facts} rebalance=${rebalance} counted=${counted} />
    <${Outcome} objective=${status.objective} cost=${status.cost} state=${state} />
    <section class="panel">
      <h2>Replicas of the selected workloads, by cluster</h2>
      <${Bars} clusters=${model.list(status.clusters)} hasNow=${true} />
    </section>
    <section class="panel">
      <div class="panel-head">
        <h2>Moves</h2>
        ${phase && html`<span class="row"><span class="muted">${words.number(shown.length)} of ${words.number(own.length)}, ${phaseOf(phase)[1]}</span><button onClick=${() => refine({ phase: "" })}>Show all</button></span>`}
      </div>
      <${Missing}
        of=${[
          ["moves", feeds[0]],
          ["clusterMoves", feeds[1]],
        ]}
      />
      <${Moves} moves=${shown} hasPhase=${true} key=${phase} />
    </section>
  `;
}

/** Tiles that add up, and that filter the list. @param {{ counted: ReturnType<typeof tally>, phase: string, summary: any }} given */
function Tiles({ counted, phase, summary }) {
  const toggle = (/** @type {string} */ it) => refine({ phase: phase === it ? "" : it });
  return html`<div class="figures adding">
    <div
      class="figure"
      tabindex="0"
      role="group"
      data-tip="Selected workloads: the tiles on the right add up to it."
    >
      <b>${words.number(counted.all)}</b><span>selected</span>
    </div>
    <span class="equals" aria-hidden="true">=</span>
    ${PHASES.map(([it, , tip], i) => {
      const [tone, word] = phaseOf(it);
      const n = counted.counts[it] ?? 0;
      return html`${i > 0 && html`<span class="equals" aria-hidden="true">+</span>`}<button
          class=${`figure ${n ? tone : ""}`}
          key=${it}
          aria-pressed=${phase === it}
          data-tip=${`${tip} Click lists them.`}
          onClick=${() => toggle(it)}
        >
          <b>${words.number(n)}</b><span>${word}</span>
        </button>`;
    })}
    <span class="gap" aria-hidden="true"></span>
    <div
      class="figure"
      tabindex="0"
      role="group"
      data-tip="Replicas that have arrived, of all that the plan moves."
    >
      <b
        >${words.number(model.count(summary.replicasMoved))}<small
          >${` / ${words.number(model.count(summary.replicasToMove))}`}</small
        ></b
      ><span>replicas moved</span>
    </div>
  </div>`;
}

/** Why moves failed, the most frequent reasons first. @param {{ status: any, own: any[], failed: number }} given */
function Reasons({ status, own, failed }) {
  /** @type {Map<string, { count: number, message: string }>} */
  const found = new Map();
  for (const { phase, reason, message } of own) {
    if (phase !== "Failed") continue;
    const key = reason || "Failed";
    const known = found.get(key) ?? { count: 0, message: model.text(message) };
    found.set(key, { ...known, count: known.count + 1 });
  }
  // Without the right to list Moves, the status has the reasons of the plan.
  if (failed > 0 && found.size === 0)
    for (const { reason, count, message } of model.list(status.reasons))
      if (!found.has(reason)) found.set(reason, { count, message: model.text(message) });
  if (found.size === 0) return null;
  return html`<section class="situation bad" aria-label="What failed">
    <ul>
      ${[...found]
        .sort((a, b) => b[1].count - a[1].count)
        .slice(0, REASONS)
        .map(
          ([reason, { count, message }]) =>
            html`<li>
              <${Sign} tone="bad" /><span
                ><b>${words.number(count)} × ${reason}</b>${message && `: ${message}`}</span
              >
            </li>`,
        )}
    </ul>
  </section>`;
}

/** Its conditions, bounds, author and ages. @param {{ rebalance: any, counted: ReturnType<typeof tally> }} given */
function Facts({ rebalance, counted }) {
  const clusters = useFeed("clusters");
  useTick(1000);
  const [spec, status] = [model.map(rebalance.spec), model.map(rebalance.status)];
  const isOver = ["Completed", "Aborted"].includes(status.phase);
  const [planned, began] = [model.time(status.plannedAt), model.time(status.startedAt)];
  const ended = model.time(status.finishTime);
  const changed =
    planned && !isOver ? changedSince(clusters.items.values(), planned, drainedBy(spec)) : [];
  const isHeld = status.phase === "Paused" || spec.paused === true;
  const left = isOver || isHeld || currentMoment() ? "" : timeLeft(counted.counts, began);
  const pausedAt = isHeld && !isOver ? pausedSince(status) : null;
  return html`<section class="panel facts" aria-label="Bounds and causes">
    <dl>
      ${causes(rebalance).map(
        ([name, it]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${it}</dd>
          </div>`,
      )}
      ${
        planned &&
        html`<div>
          <dt>planned</dt>
          <dd>${currentMoment() ? words.clock(planned) : html`<${Age} since=${planned} /> ago`}</dd>
        </div>`
      }
      ${
        began &&
        html`<div>
          <dt>${isOver ? "took" : isHeld ? "ran until the pause" : "running for"}</dt>
          <dd title="From the first move to the last">
            ${isHeld && !isOver ? (pausedAt ? words.span(pausedAt - began) : "paused") : isOver && ended ? words.span(ended - began) : currentMoment() ? words.clock(began) : html`<${Age} since=${began} />`}
          </dd>
        </div>`
      }
      ${
        pausedAt &&
        !currentMoment() &&
        html`<div>
          <dt>paused for</dt>
          <dd title="Since when no move begins"><${Age} since=${pausedAt} /></dd>
        </div>`
      }
      ${
        !isOver &&
        !isHeld &&
        gateWait(spec, status).map(
          ([name, it]) =>
            html`<div key=${name}>
              <dt>gate ${name}</dt>
              <dd>${it}</dd>
            </div>`,
        )
      }
      ${
        left &&
        html`<div>
          <dt>time left</dt>
          <dd title="If the rest goes as fast as until now">${left}</dd>
        </div>`
      }
      ${bounds(model.map(spec.rollout)).map(
        ([name, it]) =>
          html`<div>
            <dt>${name}</dt>
            <dd title=${`${name}, as the rebalance asks for it`}>${it}</dd>
          </div>`,
      )}
    </dl>
    ${changed.length > 0 && html`<p class="notice warn" role="status">The fleet has changed since the plan: ${words.few(changed)}.</p>`}
    <ul class="conditions">
      ${model
        .list(status.conditions)
        // Two conditions with one message are one line.
        .filter(
          (it, i, all) =>
            all.findIndex(
              (one) => one.type === it.type || (it.message && one.message === it.message),
            ) === i,
        )
        .map((it) => html`<${ConditionLine} key=${it.type} condition=${it} />`)}
    </ul>
  </section>`;
}

/** Since when a rebalance is paused. @param {any} status @returns {number | null} */
function pausedSince(status) {
  const progressing = model.list(status.conditions).find((it) => it.type === "Progressing");
  return progressing?.reason === "Paused" ? model.time(progressing.lastTransitionTime) : null;
}

/** What follows from an unanswered gate. @type {Record<string, string>} */
const FOLLOWS = {
  Abort: "the rebalance is aborted",
  Pause: "the rebalance is paused",
  Undo: "what was moved is taken back",
};

/** How long each gate that is queried may still take, and what follows then. @param {any} spec @param {any} status @returns {[string, string][]} */
function gateWait(spec, status) {
  const wave = model.map(status.wave);
  const since = model.time(wave.askedSince);
  if (!since || wave.passed || wave.failed) return [];
  return model.list(model.map(spec.rollout).gates).map((gate) => {
    const left = since + 1000 * (model.count(gate.timeoutSeconds) || 600) - api.now();
    const then = FOLLOWS[model.text(gate.onFailure) || "Abort"] ?? "";
    return [model.text(gate.name), `${words.span(left)} left, then ${then}`];
  });
}

/** What is left at the pace until now. @param {Record<string, number>} counts @param {number | null} began */
function timeLeft(counts, began) {
  const done = (counts.Settled ?? 0) + (counts.Failed ?? 0) + (counts.Superseded ?? 0);
  const rest = (counts.Pending ?? 0) + (counts.Moving ?? 0);
  if (!began || done === 0 || rest === 0) return "";
  return `about ${words.span(((api.now() - began) / done) * rest)} at the pace until now`;
}

/** What is said of gates, by the reason of their condition. */
/** @type {Record<string, string>} */
const GATES = {
  NotAsked: "Gates not asked yet",
  Waiting: "Waiting for a gate",
  Passed: "Gates passed",
  Failed: "A gate failed",
};

/** A condition as it is: one that is False says that it is not so. @param {{ condition: any }} given */
function ConditionLine({ condition }) {
  const { type, status, message, reason } = condition;
  const plain = { True: type, False: `Not ${String(type).toLowerCase()}` }[String(status)];
  const is = type === "Gate" ? (GATES[reason] ?? "Gate") : plain;
  const tone = status === "True" ? "good" : status === "False" ? "none" : "warn";
  return html`<li>
    <${Sign} tone=${tone} /><span class="muted"
      ><b>${is ?? `${type} not known`}</b>${(message || reason) && `: ${message || reason}`}</span
    >
  </li>`;
}

/** What can be done with it. Each act asks once. @param {{ rebalance: any, counted: ReturnType<typeof tally>, undo: any }} given `undo`: the rebalance that takes it back */
function Actions({ rebalance, counted, undo: takenBackBy }) {
  const { name, namespace = "" } = rebalance.metadata;
  const [spec, status] = [model.map(rebalance.spec), model.map(rebalance.status)];
  const may = useMay("patch", namespace);
  const [error, fail] = useState("");
  const [asked, ask] = useState("");
  const [undone, show] = useState(/** @type {any} */ (null));
  const isOver = ["Completed", "Aborted"].includes(status.phase);
  const awaits = spec.approval === "Required" && !spec.approved && !isOver;
  const why = refusal(may);
  const attempt = async (/** @type {() => Promise<any>} */ act) => {
    try {
      await act();
      fail("");
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
    ask("");
  };
  const change = (/** @type {any} */ wish) =>
    attempt(() =>
      api.patch(`${rebalancesPlace(namespace)}/${encodeURIComponent(name)}`, { spec: wish }),
    );
  const undo = {
    apiVersion: "ballast.dev/v1alpha1",
    kind: namespace ? "Rebalance" : "ClusterRebalance",
    metadata: { name: `${name}-undo` },
    spec: { undo: { name } },
  };
  // A dry run answers with the plan, and with the bounds that the undo takes over.
  const preview = () =>
    attempt(async () => show(await api.post(`${rebalancesPlace(namespace)}?dryRun=All`, undo)));
  const start = () =>
    attempt(async () => {
      show(null);
      await api.post(rebalancesPlace(namespace), expecting(undo, undone?.status?.planHash));
      location.hash = link(["rebalance", ...(namespace ? [namespace] : []), `${name}-undo`]);
    });
  const { Pending = 0, Moving = 0, Settled = 0 } = counted.counts;
  return html`<span class="row">
      ${awaits && html`<button class="primary" disabled=${Boolean(why)} data-tip=${why || null} onClick=${() => ask("approve")}>Approve…</button>`}
      ${!isOver && html`<button disabled=${Boolean(why)} data-tip=${why || null} onClick=${() => change({ paused: !spec.paused })}>${spec.paused ? "Resume" : "Pause"}</button>`}
      ${!isOver && html`<button class="danger" disabled=${Boolean(why) || spec.abort} data-tip=${why || "Moves that have begun settle; no further one begins."} onClick=${() => ask("abort")}>Abort…</button>`}
      ${isOver && !spec.undo && !takenBackBy && !isUndoneByGate(status) && Settled + (counted.counts.Failed ?? 0) > 0 && html`<button disabled=${Boolean(why)} data-tip=${why || "Each workload that was moved goes back to where it was. First you see the plan."} onClick=${preview}>Undo…</button>`}
    </span>
    ${error && html`<p class="notice bad" role="alert">${error}</p>`}
    ${
      asked === "approve" &&
      html`<${Confirm}
        title=${`Approve ${name}?`}
        yes=${`Approve: move ${words.counted(model.count(model.map(status.summary).toMove), "workload")}`}
        onYes=${() => change({ approved: true })}
        onNo=${() => ask("")}
        ><${PlanFacts} asked=${rebalance}
      /></${Confirm}>`
    }
    ${
      asked === "abort" &&
      html`<${Confirm}
        title=${`Abort ${name}?`}
        yes=${`Abort: ${words.counted(Pending, "move")} never ${Pending === 1 ? "begins" : "begin"}`}
        tone="danger-fill"
        onYes=${() => change({ abort: true })}
        onNo=${() => ask("")}
      >
        <dl class="confirm-facts">
          <dt>moved</dt>
          <dd>${words.number(Settled)} stay where they are now</dd>
          <dt>in progress</dt>
          <dd>${words.number(Moving)} settle first</dd>
          <dt>pending</dt>
          <dd>${words.number(Pending)} stay where they were</dd>
        </dl>
        <p class="muted">An aborted rebalance does not go on. Undo takes back what has moved.</p>
      </${Confirm}>`
    }
    ${
      undone &&
      html`<${Confirm}
        title=${`Undo ${name}?`}
        yes=${`Start: move ${words.counted(model.count(model.map(model.map(undone.status).summary).toMove), "workload")}`}
        onYes=${start}
        onNo=${() => show(null)}
        ><${PlanFacts} asked=${undone}
      /></${Confirm}>`
    }`;
}
