// @ts-check
/** How far a rebalance is: its phase, and a bar of its moves. */
import * as model from "../model.js";
import { Chip, Sign } from "../parts.js";
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

/** @param {{ summary: any }} given */
export function Progress({ summary }) {
  const all = Math.max(1, model.count(summary.toMove));
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
    data-tip=${`${tip}, of ${model.count(summary.toMove)}`}
  >
    ${parts.map(([name, tone]) => html`<span class=${tone} style=${{ width: `${(model.count(summary[name]) / all) * 100}%` }}></span>`)}
  </span>`;
}
