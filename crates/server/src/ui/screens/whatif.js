// @ts-check
/** What if: take a cluster away, add one, change its room, and see what would become of it. */
import * as model from "../model.js";
import { Empty, Missing } from "../parts.js";
import { review, currentMoment, useFeed } from "../state.js";
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Plan } from "./rebalance.js";

/** Moves that the answer lists. */
const LISTED_MAX = 5000;

/** @typedef {{ absent?: boolean, room?: Record<string, string> }} Change */

export function WhatIfScreen() {
  const clusters = useFeed("clusters");
  const [changes, set] = useState(/** @type {Record<string, Change>} */ ({}));
  const [added, add] = useState(/** @type {{ name: string, like: string }[]} */ ([]));
  const [mode, choose] = useState("Steady");
  const [answer, tell] = useState(/** @type {{ plan: any, error: string } | null} */ (null));
  const sorted = useMemo(
    () => [...clusters.items.values()].sort((a, b) => model.byName(a.name, b.name)),
    [clusters.version],
  );
  const supposed = useMemo(() => suppositions(changes, added), [changes, added]);
  useEffect(() => {
    if (supposed.length === 0) {
      tell(null);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      review(
        { select: [{}], mode, suppose: { clusters: supposed }, limit: LISTED_MAX },
        abort.signal,
      )
        .then((plan) => tell({ plan, error: "" }))
        .catch((cause) => abort.signal.aborted || tell({ plan: null, error: cause.message }));
    }, 200);
    return () => (clearTimeout(timer), abort.abort());
  }, [supposed, mode, currentMoment()?.revision]);
  /** @param {string} name @param {Change} change */
  const change = (name, change) => set((now) => ({ ...now, [name]: change }));
  return html`
    <div class="head">
      <h1>What if</h1>
      <p class="muted">Nothing here changes anything: the server only answers what it would do.</p>
      <span class="choice" role="group" aria-label="How it is decided">
        <button
          aria-pressed=${mode === "Steady"}
          data-tip="Moves as little as possible, as the scheduler does by itself"
          onClick=${() => choose("Steady")}
        >
          by itself
        </button>
        <button
          aria-pressed=${mode === "Fresh"}
          data-tip="As after a rebalance of everything"
          onClick=${() => choose("Fresh")}
        >
          with a rebalance
        </button>
      </span>
    </div>
    <${Missing} of=${[["clusters", clusters]]} />
    ${sorted.length === 0 && clusters.state === "live" && html`<${Empty} title="There are no clusters"><p>Without a fleet there is nothing to suppose.</p></${Empty}>`}
    <ul class="supposed">
      ${sorted.map((it) => html`<${Supposed} key=${it.name} cluster=${it} change=${changes[it.name] ?? {}} onChange=${(/** @type {Change} */ c) => change(it.name, c)} onAdd=${() => add((now) => [...now, { name: fresh(it.name, clusters.items, now), like: it.name }])} />`)}
      ${added.map(({ name, like }) => html`<li class="new" key=${name}><b>${name}</b> <span class="muted">new, like ${like}</span> <button onClick=${() => add((now) => now.filter((it) => it.name !== name))}>Remove</button></li>`)}
    </ul>
    ${supposed.length === 0 && html`<p class="muted">Take a cluster away, or add one like it, and see who would go where.</p>`}
    ${supposed.length > 0 && !answer && html`<p class="muted" role="status">Asking…</p>`}
    ${answer?.error && html`<p class="notice warn" role="status">No answer: ${answer.error}</p>`}
    ${
      answer?.plan &&
      html`<section class="panel">
        <h2>${headline(answer.plan)}</h2>
        <${Plan} plan=${answer.plan} />
      </section>`
    }
  `;
}

/** @param {any} plan */
function headline({ summary, unplaceable }) {
  const moves = model.count(summary.toMove);
  const stuck = unplaceable.length
    ? `, and ${words.counted(unplaceable.length, "workload")} would have no place`
    : "";
  return moves === 0 && !stuck
    ? "Nothing would move"
    : `${words.counted(moves, "workload")} would move${stuck}`;
}

/** @param {string} name @param {Map<string, model.Cluster>} known @param {{ name: string }[]} added */
function fresh(name, known, added) {
  const taken = new Set([
    ...[...known.values()].map((it) => it.name),
    ...added.map((it) => it.name),
  ]);
  let n = 2;
  while (taken.has(`${name}-${n}`)) n += 1;
  return `${name}-${n}`;
}

/** @param {Record<string, Change>} changes @param {{ name: string, like: string }[]} added */
function suppositions(changes, added) {
  const found = Object.entries(changes).map(([name, { absent, room }]) => {
    if (absent) return { name, absent };
    const allocatable = Object.fromEntries(
      Object.entries(room ?? {}).filter(([, it]) => it.trim()),
    );
    return Object.keys(allocatable).length ? { name, allocatable } : null;
  });
  return [...found.filter((it) => it !== null), ...added];
}

/** @param {{ cluster: model.Cluster, change: Change, onChange: (change: Change) => void, onAdd: () => void }} given */
function Supposed({ cluster, change, onChange, onAdd }) {
  const { absent = false, room = {} } = change;
  return html`<li class=${absent ? "absent" : ""}>
    <b>${cluster.name}</b>
    <button aria-pressed=${absent} onClick=${() => onChange(absent ? {} : { absent: true })}>
      ${absent ? "Bring back" : "Take away"}
    </button>
    <button onClick=${onAdd}>Add one like it</button>
    <span class="row">
      ${["cpu", "memory"].map((name) => {
        const all = cluster.room[name]?.all;
        if (all === undefined) return null;
        return html`<label
          >${name}
          <input
            class="small"
            disabled=${absent}
            placeholder=${words.amount(name, all)}
            value=${room[name] ?? ""}
            onChange=${(/** @type {any} */ e) => onChange({ ...change, room: { ...room, [name]: e.target.value } })}
            data-tip=${`How much ${name} it has in all, such as ${name === "cpu" ? "400" : "512Gi"}. Empty: as it is.`}
        /></label>`;
      })}
    </span>
  </li>`;
}
