// @ts-check
/** How near a plan comes to its objective, and what it costs. */
import * as model from "../model.js";
import { Figure } from "../parts.js";
import { html } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/**
 * @param {{ objective: any, cost: any, state?: "planned" | "reached" | "undone" }} given as in a
 *   status; absent: there is none. `state`: whether the plan is carried out
 */
export function Outcome({ objective, cost, state = "planned" }) {
  const [it, price] = [model.map(objective), model.map(cost)];
  const isPlanned = typeof it.after === "number";
  const isPriced = typeof price.afterPerHour === "number";
  if (!isPlanned && !isPriced) return null;
  const unpriced = model.count(price.unpricedClusters);
  const left = unpriced
    ? ` ${words.counted(unpriced, "cluster has", "clusters have")} no price.`
    : "";
  const change = model.count(price.differencePerHour);
  const unrelieved = Array.isArray(it.unrelieved) ? it.unrelieved.map(model.text) : [];
  const leftOut = unrelieved.length
    ? ` Left out, because no move relieves them: ${words.few(unrelieved, 5)}.`
    : "";
  const shown = (/** @type {unknown} */ n) => words.figure(n, it.unit);
  const [value, tip] = {
    planned: [
      `${shown(it.before)} → ${shown(it.after)}`,
      `The figure of the goal before the moves, and after all of them. Smaller is better.${leftOut}`,
    ],
    reached: [
      `${shown(it.before)} → ${shown(it.after)}`,
      `The figure of the goal before and after the moves. Smaller is better.${leftOut}`,
    ],
    undone: [
      shown(it.before),
      `What was moved has been taken back. The plan was to reach ${shown(it.after)}.`,
    ],
  }[state];
  const names = {
    planned: "objective, as planned",
    reached: "objective",
    undone: "objective, undone",
  };
  return html`<div class="figures">
    ${
      isPlanned &&
      html`<${Figure} value=${value} name=${names[state]} tip=${tip} /><${Figure}
          value=${shown(it.bound)}
          name="bound"
          tip="No plan within the rules, the limits and the budget gets below it."
        />`
    }
    ${
      isPriced &&
      html`<${Figure}
        value=${state === "undone" ? words.fraction(price.beforePerHour) : `${words.fraction(price.beforePerHour)} → ${words.fraction(price.afterPerHour)}`}
        name="cost an hour"
        tip=${`What the selected workloads cost where prices are known: ${change > 0 ? "+" : ""}${words.fraction(change)} an hour.${left}`}
      />`
    }
  </div>`;
}
