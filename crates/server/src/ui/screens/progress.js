// @ts-check
/** How far a rebalance is: its phase, and a bar of its moves. */
import * as model from "../model.js";
import { Chip, Sign } from "../parts.js";
import * as words from "../words.js";
import { html } from "../vendor/preact-htm/standalone.js";

/** @type {Record<string, string>} */
const PHASES = {
  Completed: "good",
  Running: "home",
  Planned: "warn",
  Paused: "warn",
  Aborted: "bad",
};

/** Whether what a rebalance moved has been taken back by its own gate. @param {any} status */
export const isUndoneByGate = (status) => model.map(status.wave).undone === true;

/** @param {{ status: any, spec?: any, isUndone?: boolean }} given `isUndone`: another rebalance has taken it back */
export function Phase({ status, spec = {}, isUndone = false }) {
  const isOver = ["Completed", "Aborted"].includes(status.phase);
  const waits = !isOver && spec.approval === "Required" && !spec.approved;
  const phase = waits ? "waits for approval" : model.text(status.phase) || "Planning";
  const isBack = isOver && (isUndone || isUndoneByGate(status));
  const word = isBack ? `${phase}, undone` : phase;
  const tone = waits || isBack ? "warn" : (PHASES[status.phase] ?? "");
  const sign = tone === "warn" ? "held" : tone;
  return html`<${Chip} tone=${tone}><${Sign} tone=${sign} />${word}</${Chip}>`;
}

/** Reasons of workloads that a plan leaves where they are, and that are not counted as failed. */
const STAYING = ["NotWorthwhile", "LimitReached", "MovingAlready"];

/**
 * How many workloads have a Move: those that the plan moves, and those that failed at once because
 * it found no place for them.
 * @param {any} status
 */
export function planned(status) {
  const summary = model.map(status.summary);
  const count = (/** @type {string} */ it) => model.count(summary[it]);
  const refused = model
    .list(status.reasons)
    .filter(({ reason }) => !STAYING.includes(reason))
    .reduce((sum, it) => sum + model.count(it.count), 0);
  const known = ["settled", "moving", "pending", "failed", "superseded"].map(count);
  return Math.max(
    count("toMove") + refused,
    known.reduce((sum, it) => sum + it, 0),
  );
}

/** What failed, in words; empty: nothing. @param {any} summary */
export const failures = (summary) =>
  model.count(summary.failed) > 0 ? `${words.number(model.count(summary.failed))} failed` : "";

/** The bar of the moves. Its whole are all workloads with a Move. @param {{ status: any }} given */
export function Progress({ status }) {
  const summary = model.map(status.summary);
  const all = Math.max(1, planned(status));
  const parts = /** @type {const} */ ([
    ["settled", "good"],
    ["moving", "home"],
    ["failed", "bad"],
    ["superseded", "warn"],
  ]);
  const tip = parts.map(([name]) => `${model.count(summary[name])} ${name}`).join(", ");
  return html`<span
    class="progress"
    role="img"
    tabindex="0"
    aria-label=${tip}
    data-tip=${`${tip}, of ${planned(status)}`}
  >
    ${parts.map(([name, tone]) => html`<span class=${tone} style=${{ width: `${(model.count(summary[name]) / all) * 100}%` }}></span>`)}
  </span>`;
}
