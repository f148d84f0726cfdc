// @ts-check
/** How near a plan comes to its objective, and what it costs. */
import * as model from "../model.js";
import { Figure } from "../parts.js";
import { html } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** @param {{ objective: any, cost: any }} given as in a status; absent: there is none */
export function Outcome({ objective, cost }) {
  const [it, price] = [model.map(objective), model.map(cost)];
  const isPlanned = typeof it.after === "number";
  const isPriced = typeof price.afterPerHour === "number";
  if (!isPlanned && !isPriced) return null;
  const unpriced = model.count(price.unpricedClusters);
  const left = unpriced
    ? ` ${words.counted(unpriced, "cluster has", "clusters have")} no price.`
    : "";
  const change = model.count(price.differencePerHour);
  return html`<div class="figures">
    ${
      isPlanned &&
      html`<${Figure}
          value=${`${it.before} → ${it.after}`}
          name="objective"
          tip="The figure of the goal before and after all moves. Smaller is better."
        /><${Figure}
          value=${it.bound}
          name="bound"
          tip="No plan within the rules, the limits and the budget gets below it."
        />`
    }
    ${
      isPriced &&
      html`<${Figure}
        value=${`${price.beforePerHour} → ${price.afterPerHour}`}
        name="cost an hour"
        tip=${`What the selected workloads cost where prices are known: ${change > 0 ? "+" : ""}${change} an hour.${left}`}
      />`
    }
  </div>`;
}
