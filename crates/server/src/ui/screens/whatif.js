// @ts-check
/**
 * What if: what each loss would strand, and, for some clusters that are lost, added or changed, what
 * would move.
 */
import * as derive from "../derive.js";
import * as model from "../model.js";
import { Choice, Empty, Missing, Name, Search } from "../parts.js";
import { refine } from "../route.js";
import { currentMoment, onlyNamespace, review, useFeed, useRoute } from "../state.js";
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Plan } from "./start.js";
import { Survival } from "./survival.js";

/** Moves that the answer lists. */
const LISTED_MAX = 5000;

/** Clusters that are listed at first. Others are found by their names. */
const SHOWN_MAX = 24;

/** @typedef {{ absent?: boolean, room?: Record<string, string> }} Change */
/** @typedef {{ changes: Record<string, Change>, added: { name: string, like: string }[] }} Supposed */

const MODES = /** @type {const} */ ([
  ["Steady", "by itself", "Moves as little as possible, as the scheduler does by itself"],
  ["Fresh", "with a rebalance", "As after a rebalance of everything"],
]);

/** What the address supposes. @param {string | null} text @returns {Supposed} */
export function read(text) {
  try {
    const found = model.map(JSON.parse(text ?? "{}"));
    return {
      changes: model.map(found.changes),
      added: model.list(found.added).filter((it) => model.text(it.name) && model.text(it.like)),
    };
  } catch {
    return { changes: {}, added: [] };
  }
}

export function WhatIfScreen() {
  const clusters = useFeed("clusters");
  const { query } = useRoute();
  const text = query.get("suppose");
  const { changes, added } = useMemo(() => read(text), [text]);
  const mode = query.get("mode") ?? "Steady";
  const [answer, tell] = useState(/** @type {{ plan: any, error: string } | null} */ (null));
  const [find, look] = useState("");
  const all = useMemo(
    () => [...clusters.items.values()].sort((a, b) => model.byName(a.name, b.name)),
    [clusters.version],
  );
  const isGone = (/** @type {model.Cluster} */ it) => derive.isLost(it) || it.leaving;
  const [lost, sorted] = [all.filter(isGone), all.filter((it) => !isGone(it))];
  const supposed = useMemo(() => suppositions(changes, added), [changes, added]);
  useEffect(() => {
    if (supposed.length === 0) {
      tell(null);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      review(
        { select: [{ all: true }], mode, suppose: { clusters: supposed }, limit: LISTED_MAX },
        abort.signal,
      )
        .then((plan) => tell({ plan, error: "" }))
        .catch((cause) => abort.signal.aborted || tell({ plan: null, error: cause.message }));
    }, 200);
    return () => (clearTimeout(timer), abort.abort());
  }, [supposed, mode, currentMoment()?.revision]);
  /** @param {Supposed} wanted */
  const suppose = (wanted) => {
    const kept = Object.entries(wanted.changes).filter(([, it]) => it.absent || it.room);
    const isEmpty = kept.length + wanted.added.length === 0;
    const next = { changes: Object.fromEntries(kept), added: wanted.added };
    refine({ suppose: isEmpty ? "" : JSON.stringify(next) });
  };
  const lose = (/** @type {string[]} */ names) =>
    suppose({
      changes: { ...changes, ...Object.fromEntries(names.map((it) => [it, { absent: true }])) },
      added,
    });
  const loseDomain = (/** @type {string} */ by, /** @type {string} */ name) => {
    const isIn = (/** @type {model.Cluster} */ it) =>
      ({
        Cluster: it.name === name,
        Zone: it.zones.includes(name),
        Region: it.region === name,
        Provider: it.provider === name,
      })[by];
    lose(sorted.filter(isIn).map((it) => it.name));
  };
  const isMany = sorted.length > SHOWN_MAX;
  const wanted = find.toLowerCase();
  const isFitting = (/** @type {model.Cluster} */ it) =>
    `${it.name} ${it.place}`.toLowerCase().includes(wanted);
  const touched = sorted.filter((it) => changes[it.name]);
  const fitting = sorted.filter((it) => !changes[it.name] && isFitting(it));
  const shown = isMany ? [...touched, ...fitting.slice(0, SHOWN_MAX - touched.length)] : sorted;
  const regions = derive.byRegion(
    sorted,
    (it) => it.region,
    () => 0,
  );
  return html`
    <div class="head">
      <h1>What if</h1>
      <p class="muted">Nothing here changes anything: the server only answers what it would do.</p>
      <${Choice}
        label="How it is decided"
        value=${mode}
        of=${MODES}
        onChoose=${(/** @type {string} */ it) => refine({ mode: it })}
      />
    </div>
    <${Missing} of=${[["clusters", clusters]]} />
    ${
      lost.length > 0 &&
      html`<p class="notice warn" role="status">
        ${words.counted(lost.length, "cluster")} lost already:${" "}
        ${words.few(
          lost.map((it) => it.name),
          5,
        )}.
        A further loss adds to this.
      </p>`
    }
    ${all.length === 0 && clusters.state === "live" && html`<${Empty} title="There are no clusters"><p>Without a fleet there is nothing to suppose.</p></${Empty}>`}
    ${sorted.length > 0 && supposed.length === 0 && !onlyNamespace() && html`<${Survival} onLose=${loseDomain} />`}
    ${
      sorted.length > 0 &&
      html`<div class="filters" role="search">
        ${isMany && html`<${Search} label="Find clusters" value=${find} onInput=${look} />`}
        ${
          regions.length > 1 &&
          html`<label class="field"
            >Simulate loss of region
            <select
              value=""
              onChange=${(/** @type {any} */ event) => {
                const own = regions.find(({ region }) => (region || "-") === event.target.value);
                if (own) lose(own.entries.map((it) => it.name));
              }}
            >
              <option value="">choose one</option>
              ${regions.map(({ region, entries }) => html`<option value=${region || "-"}>${region || "no region"} (${entries.length})</option>`)}
            </select></label
          >`
        }
        ${supposed.length > 0 && html`<button onClick=${() => refine({ suppose: "" })}>Start over</button>`}
        <span class="muted" role="status"
          >${supposed.length === 0 ? "Nothing is supposed yet" : `${words.counted(supposed.length, "cluster")} supposed`}</span
        >
      </div>`
    }
    <ul class="supposed">
      ${shown.map(
        (it) =>
          html`<${Cluster}
            key=${it.name}
            cluster=${it}
            change=${changes[it.name] ?? {}}
            onChange=${(/** @type {Change} */ c) => suppose({ changes: { ...changes, [it.name]: c }, added })}
            onAdd=${() => suppose({ changes, added: [...added, { name: fresh(it.name, clusters.items, added), like: it.name }] })}
          />`,
      )}
      ${added.map(({ name, like }) => html`<li class="new" key=${name}><b>${name}</b> <span class="muted">new, like ${like}</span> <button onClick=${() => suppose({ changes, added: added.filter((it) => it.name !== name) })}>Remove</button></li>`)}
    </ul>
    ${isMany && shown.length < sorted.length && html`<p class="muted">${words.number(sorted.length - shown.length)} more: find them by name or region.</p>`}
    ${supposed.length === 0 && sorted.length > 0 && html`<p class="muted">Simulate the loss of a cluster, or add one like it, and see what would go where.</p>`}
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
    ? `, and ${words.counted(unplaceable.length, "workload")} would be unschedulable`
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
function Cluster({ cluster, change, onChange, onAdd }) {
  const { absent = false, room = {} } = change;
  return html`<li class=${absent ? "absent" : ""}>
    <b class="supposed-name"><${Name} name=${cluster.name} /></b>
    <button aria-pressed=${absent} onClick=${() => onChange(absent ? {} : { absent: true })}>
      ${absent ? "Keep" : "Simulate loss"}
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
