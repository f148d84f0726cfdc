// @ts-check
/** Rebalance: see a plan, start it, and find the runs of the fleet and of its namespaces. */
import * as model from "../model.js";
import { Age, Choice, Missing, Search } from "../parts.js";
import { rebalanceLink, refine } from "../route.js";
import { currentMoment, useRebalances, useRoute } from "../state.js";
import { html, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Maintenance } from "./maintenance.js";
import { Phase, Progress, failures } from "./progress.js";
import { Run } from "./run.js";
import { Shape } from "./shape.js";
import { Wish } from "./start.js";

/** Runs that are listed at first. */
const LISTED_FIRST = 25;

const SHOWN = /** @type {const} */ ([
  ["", "all", "Every rebalance"],
  ["open", "in progress", "Rebalances that are not over, or that wait for approval"],
  ["failed", "with failures", "Rebalances in which moves failed"],
]);

export function RebalanceScreen() {
  const { rest } = useRoute();
  const [namespace, name] = rest.length > 1 ? rest : ["", rest[0]];
  return name
    ? html`<${Run} namespace=${namespace} name=${name} key=${rest.join("/")} />`
    : html`<${Overview} />`;
}

function Overview() {
  return html`
    <div class="head"><h1>Rebalance</h1></div>
    <${Current} />
    <${Wish} />
    <${Shape} />
    <${Maintenance} />
    <${Runs} />
  `;
}

/** @param {any} rebalance */
const isOver = ({ status }) => ["Completed", "Aborted"].includes(model.map(status).phase);

/** The names of the rebalances that another one has taken back. @param {any[]} all @returns {Set<string>} */
function undoneBy(all) {
  const undos = all.filter((it) => it.spec?.undo && model.map(it.status).phase === "Completed");
  return new Set(
    undos.map((it) => `${it.metadata.namespace ?? ""}/${model.text(it.spec.undo.name)}`),
  );
}

/** The rebalances that are not over come first: they move workloads now, or wait for a person. */
function Current() {
  const open = useRebalances()
    .all()
    .filter((it) => !isOver(it));
  if (open.length === 0) return null;
  return html`<section class="panel" aria-labelledby="current">
    <h2 id="current">In progress</h2>
    <ul class="runs">
      ${open.map((it) => html`<${RunRow} key=${it.key} rebalance=${it} />`)}
    </ul>
  </section>`;
}

/** @param {any} rebalance @param {string} text @param {string} show */
function fits({ metadata, status }, text, show) {
  const summary = model.map(model.map(status).summary);
  if (show === "open" && isOver({ status })) return false;
  if (show === "failed" && model.count(summary.failed) === 0) return false;
  return `${metadata.namespace ?? ""}/${metadata.name}`.includes(text.trim());
}

function Runs() {
  const rebalances = useRebalances();
  const { query } = useRoute();
  const [isWhole, show] = useState(false);
  const [text, which] = [query.get("q") ?? "", query.get("show") ?? ""];
  const all = rebalances
    .all()
    .sort(
      (a, b) =>
        (model.time(b.metadata.creationTimestamp) ?? 0) -
        (model.time(a.metadata.creationTimestamp) ?? 0),
    );
  const undone = undoneBy(all);
  const fitting = all.filter((it) => fits(it, text, which));
  const shown = isWhole ? fitting : fitting.slice(0, LISTED_FIRST);
  return html`<section aria-labelledby="runs">
    <div class="head runs-head">
      <h2 id="runs">Rebalances</h2>
      ${
        all.length > 0 &&
        html`<div class="filters" role="search">
          <${Search}
            label="Filter rebalances"
            value=${text}
            onInput=${(/** @type {string} */ q) => refine({ q }, "typed")}
          />
          <${Choice}
            label="Which rebalances"
            value=${which}
            of=${SHOWN}
            onChoose=${(/** @type {string} */ it) => refine({ show: it })}
          />
        </div>`
      }
    </div>
    <${Missing}
      of=${[
        ["clusterRebalances", rebalances.feeds[1]],
        ["rebalances", rebalances.feeds[0]],
      ]}
    />
    ${all.length === 0 && !rebalances.isLoading && html`<p class="muted">None yet. What you start above appears here, and can be paused, aborted and undone.</p>`}
    ${all.length > 0 && fitting.length === 0 && html`<p class="muted">No rebalance fits these filters.</p>`}
    <ul class="runs">
      ${shown.map((it) => html`<${RunRow} key=${it.key} rebalance=${it} isUndone=${undone.has(it.key)} />`)}
    </ul>
    ${shown.length < fitting.length && html`<button onClick=${() => show(true)}>${words.number(fitting.length - shown.length)} older</button>`}
  </section>`;
}

/** @param {{ rebalance: any, isUndone?: boolean }} given */
function RunRow({ rebalance, isUndone = false }) {
  const { metadata } = rebalance;
  const status = model.map(rebalance.status);
  const summary = model.map(status.summary);
  const failed = failures(summary);
  return html`<li>
    <a href=${rebalanceLink(metadata)}
      >${metadata.namespace && html`<span class="muted">${metadata.namespace}/</span>`}<b
        >${metadata.name}</b
      ></a
    >
    <${Phase} status=${status} spec=${model.map(rebalance.spec)} isUndone=${isUndone} />
    <${Progress} status=${status} />
    <span class="muted"
      >${words.number(model.count(summary.settled))} of${" "}
      ${words.number(model.count(summary.toMove))} moved</span
    >
    ${failed && html`<span class="bad-word">${failed}</span>`}
    ${!currentMoment() && html`<${Age} since=${model.time(metadata.creationTimestamp)} />`}
  </li>`;
}
