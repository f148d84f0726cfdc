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

/** @param {{ status: any, spec?: any }} given */
export function Phase({ status, spec = {} }) {
  const isOver = ["Completed", "Aborted"].includes(status.phase);
  const waits = !isOver && spec.approval === "Required" && !spec.approved;
  const word = waits ? "waits for approval" : model.text(status.phase) || "Planning";
  const tone = waits ? "warn" : (PHASES[status.phase] ?? "");
  const sign = tone === "warn" ? "held" : tone;
  return html`<${Chip} tone=${tone}><${Sign} tone=${sign} />${word}</${Chip}>`;
}

/**
 * What became of the moves that were planned. A summary counts what fits nowhere among the failed,
 * and not among what is to move.
 * @param {any} summary
 */
export function outcomes(summary) {
  const all = model.count(summary.toMove);
  const failed = model.count(summary.failed);
  const others = ["settled", "moving", "pending", "superseded"].map((it) =>
    model.count(summary[it]),
  );
  const known = others.reduce((sum, it) => sum + it, failed);
  const unschedulable = Math.min(failed, Math.max(0, known - all));
  return { all, failed: failed - unschedulable, unschedulable };
}

/** What failed and what fits nowhere, in words; empty: nothing. @param {any} summary */
export function failures(summary) {
  const { failed, unschedulable } = outcomes(summary);
  return [
    failed > 0 && `${words.number(failed)} failed`,
    unschedulable > 0 && `${words.number(unschedulable)} unschedulable`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** @param {{ summary: any }} given */
export function Progress({ summary }) {
  const all = Math.max(1, model.count(summary.toMove));
  const parts = /** @type {const} */ ([
    ["settled", "good"],
    ["moving", "home"],
    ["failed", "bad"],
    ["superseded", "warn"],
  ]);
  const counts = { ...summary, failed: outcomes(summary).failed };
  const tip = parts.map(([name]) => `${model.count(counts[name])} ${name}`).join(", ");
  return html`<span
    class="progress"
    role="img"
    tabindex="0"
    aria-label=${tip}
    data-tip=${`${tip}, of ${model.count(summary.toMove)}`}
  >
    ${parts.map(([name, tone]) => html`<span class=${tone} style=${{ width: `${(model.count(counts[name]) / all) * 100}%` }}></span>`)}
  </span>`;
}
