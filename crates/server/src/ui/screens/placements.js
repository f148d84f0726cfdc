// @ts-check
/** Placements: workloads by clusters, with what left and what arrived. */
import * as api from "../api.js";
import * as derive from "../derive.js";
import * as model from "../model.js";
import { Empty, Missing, Rows } from "../parts.js";
import { refine, route, workloadLink } from "../route.js";
import {
  MARKED_MS,
  currentMoment,
  moved,
  useBindings,
  useDisplacement,
  useFeed,
  useTick,
} from "../state.js";
import { html, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

const ROW = 34;
const CELL_MIN = 74;
const CELL_MAX = 120;
/** The most that a long name of a cluster makes of it. */
const CELL_LONG = 150;
/** The width of a letter of a cluster's name, and what is left and right of the name. */
const LETTER = 8.6;
const BESIDE = 16;
const NAME = 264;
const NAME_MIN = 190;
const NAME_NARROW = 150;

const SHOWN = /** @type {const} */ ([
  ["", "all", "Every workload"],
  [
    "displaced",
    "displaced",
    "Workloads that have lost clusters and have not been back, or that break a rule",
  ],
  ["stuck", "unschedulable", "Workloads that fit nowhere, or only in part"],
  ["moved", "just moved", "Workloads whose replicas moved in the last minutes"],
]);

export function PlacementsScreen() {
  const clusters = useFeed("clusters");
  const bindings = useBindings();
  const displaced = useDisplacement();
  useTick(15_000);
  const { query } = route();
  const filter = {
    text: query.get("q") ?? "",
    namespace: query.get("ns") ?? "",
    cluster: query.get("cluster") ?? "",
    show: query.get("show") ?? "",
  };
  const columns = useMemo(() => {
    const names = new Set([...clusters.items.values()].map(({ name }) => name));
    for (const { targets } of bindings.all()) targets.forEach(({ name }) => names.add(name));
    return [...names].sort(model.byName);
  }, [clusters.version, ...bindings.versions]);
  // Sorting takes long with thousands of workloads, so it is done when some come or go.
  const order = useMemo(
    () =>
      bindings
        .all()
        .map((it) => ({ feed: it.namespace ? 0 : 1, ...it }))
        .sort(
          (a, b) =>
            model.byName(a.namespace, b.namespace) ||
            model.byName(a.workload.name, b.workload.name),
        )
        .map(({ feed, key }) => ({ feed, key })),
    bindings.shapes,
  );
  /** @type {model.Binding[]} */
  const sorted = useMemo(
    () => order.map(({ feed, key }) => bindings.feeds[feed]?.items.get(key)).filter(Boolean),
    [order, ...bindings.versions],
  );
  const namespaces = useMemo(
    () => [...new Set(sorted.map((it) => it.namespace))].filter(Boolean),
    [sorted],
  );
  const rows = useMemo(
    () => sorted.filter((it) => fits(it, filter, displaced)),
    [sorted, displaced.moves, displaced.stuck, ...Object.values(filter)],
  );
  return html`
    <div class="head">
      <h1>Placements</h1>
      <${Filters}
        filter=${filter}
        namespaces=${namespaces}
        columns=${columns}
        shown=${rows.length}
        all=${sorted.length}
      />
    </div>
    <${Missing}
      of=${[
        ["bindings", bindings.feeds[0]],
        ["clusterBindings", bindings.feeds[1]],
        ["clusters", clusters],
        ["reviews", displaced],
      ]}
    />
    ${
      rows.length > 0
        ? html`<${Table}
            rows=${rows}
            columns=${columns}
            displaced=${displaced}
            clusters=${clusters.items}
          />`
        : html`<${Nothing}
            isLoading=${bindings.isLoading}
            all=${sorted.length}
            show=${filter.show}
          />`
    }
  `;
}

/** @param {model.Binding} binding @param {any} filter @param {any} displaced */
function fits(binding, { text, namespace, cluster, show }, displaced) {
  if (namespace && binding.namespace !== namespace) return false;
  if (cluster && !isOn(binding, cluster)) return false;
  if (
    show === "displaced" &&
    !displaced.moves.has(binding.key) &&
    !displaced.stuck.has(binding.key)
  )
    return false;
  if (show === "stuck" && binding.scheduled?.status !== "False") return false;
  if (show === "moved" && !recent(binding) && binding.evictions.length === 0) return false;
  return text.split(/\s+/).every((/** @type {string} */ word) => says(binding, word.toLowerCase()));
}

/** @param {model.Binding} binding @param {string} cluster */
const isOn = ({ targets, evictions }, cluster) =>
  targets.some(({ name }) => name === cluster) || evictions.some(({ from }) => from === cluster);

/** A word of the search: part of the name or kind, or a label as `key=value`. @param {model.Binding} binding @param {string} word */
function says({ namespace, name, workload, labels }, word) {
  if (`${namespace}/${workload.kind}/${workload.name} ${name}`.toLowerCase().includes(word))
    return true;
  return Object.entries(labels).some(([key, value]) =>
    `${key}=${value}`.toLowerCase().includes(word),
  );
}

/** @param {model.Binding} binding */
function recent(binding) {
  const found = currentMoment() ? undefined : moved.get(binding.key);
  return found && api.now() - found.at < MARKED_MS ? found : undefined;
}

/** @param {{ filter: any, namespaces: string[], columns: string[], shown: number, all: number }} given */
function Filters({ filter, namespaces, columns, shown, all }) {
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    refine({ [name]: event.target.value });
  return html`<form
    class="filters"
    role="search"
    onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}
  >
    <input
      type="search"
      aria-label="Filter by name or label"
      placeholder="name or label=value"
      value=${filter.text}
      onInput=${set("q")}
    />
    <select aria-label="Namespace" value=${filter.namespace} onChange=${set("ns")}>
      <option value="">all namespaces</option>
      ${namespaces.map((it) => html`<option value=${it} selected=${it === filter.namespace}>${it}</option>`)}
    </select>
    <select aria-label="Cluster" value=${filter.cluster} onChange=${set("cluster")}>
      <option value="">all clusters</option>
      ${columns.map((it) => html`<option value=${it} selected=${it === filter.cluster}>${it}</option>`)}
    </select>
    <span class="choice" role="group" aria-label="Which workloads">
      ${SHOWN.map(
        ([value, word, tip]) =>
          html`<button
            type="button"
            aria-pressed=${filter.show === value}
            data-tip=${tip}
            onClick=${() => refine({ show: value })}
          >
            ${word}
          </button>`,
      )}
    </span>
    <span
      class="muted"
      role="status"
      data-tip="Workloads that the filters let through, of all that you may read"
      >${shown === all ? words.counted(all, "workload") : `${words.number(shown)} of ${words.counted(all, "workload")}`}</span
    >
  </form>`;
}

/** @param {{ rows: model.Binding[], columns: string[], displaced: any, clusters: Map<string, model.Cluster> }} given */
function Table({ rows, columns, displaced, clusters }) {
  const [active, activate] = useState(0);
  const [column, choose] = useState(-1);
  const [view, look] = useState({ left: 0, width: 1200 });
  const isNarrow = view.width < 560;
  const room = Math.floor((view.width - NAME) / Math.max(1, columns.length));
  const longest = Math.max(0, ...columns.map((it) => it.length)) * LETTER + BESIDE;
  const CELL = Math.max(
    CELL_MIN,
    Math.min(CELL_MAX, room),
    Math.min(isNarrow ? CELL_MIN : CELL_LONG, Math.ceil(longest)),
  );
  // Where that lets all columns be seen at once, the names give way a little.
  const beside = view.width - columns.length * CELL;
  const name = isNarrow ? NAME_NARROW : beside >= NAME_MIN ? Math.min(NAME, beside) : NAME;
  const letters = Math.floor((CELL - BESIDE) / LETTER);
  // Columns beyond the view are not in the document either.
  const first = Math.max(0, Math.floor(view.left / CELL) - 2);
  const last = Math.min(columns.length, Math.ceil((view.left + view.width - name) / CELL) + 2);
  const seen = columns.slice(first, last);
  const states = new Map([...clusters.values()].map((it) => [it.name, derive.readiness(it)]));
  const current = Math.min(active, rows.length - 1);
  const header = html`<div class="rows-head" role="row" style=${{ height: `${ROW}px` }}>
    <span class="cell name" role="columnheader" style=${{ width: `${name}px` }}>workload</span>
    ${seen.map(
      (it, i) =>
        html`<span
          class=${`cell number ${states.get(it)?.tone ?? ""}`}
          role="columnheader"
          key=${it}
          style=${{ left: `${name + (first + i) * CELL}px`, width: `${CELL}px` }}
          data-tip=${`${it}: ${states.get(it)?.word ?? "not a cluster any more"}`}
          >${words.cut(it, letters)}</span
        >`,
    )}
  </div>`;
  return html`<div class="table">
    <${Rows}
      count=${rows.length}
      rowHeight=${ROW}
      width=${name + columns.length * CELL}
      label="Workloads by clusters"
      header=${header}
      active=${current}
      onActive=${activate}
      onOpen=${(/** @type {number} */ index) => (location.hash = workloadLink(/** @type {any} */ (rows[index])))}
      onSide=${(/** @type {number} */ step) => choose((now) => Math.max(-1, Math.min(columns.length - 1, now + step)))}
      onView=${(/** @type {number} */ left, /** @type {number} */ width) =>
        look((now) =>
          Math.abs(now.left - left) < CELL_MIN && now.width === width ? now : { left, width },
        )}
      row=${(/** @type {number} */ index) => {
        const binding = /** @type {model.Binding} */ (rows[index]);
        const move = displaced.moves.get(binding.key);
        const isStuck = binding.scheduled?.status === "False";
        const isPartly = binding.scheduled?.reason === "PartlyScheduled";
        return html`<a
          class=${`table-row ${index === current ? "active" : ""}`}
          role="row"
          key=${binding.key}
          id=${`row-${index}`}
          aria-rowindex=${index + 2}
          tabindex="-1"
          href=${workloadLink(binding)}
          style=${{ top: `${index * ROW}px`, height: `${ROW}px` }}
        >
          <span
            class="cell name"
            role="rowheader"
            style=${{ width: `${name}px` }}
            data-tip=${`${binding.workload.kind} ${derive.title(binding)}, ${words.counted(binding.replicas, "replica")}: ${derive.told(binding.targets)}${isPartly ? `. ${binding.scheduled?.message}` : ""}`}
          >
            <i class=${`mark ${isStuck && !isPartly ? "bad" : isPartly || move ? "warn" : ""}`}></i>
            ${binding.namespace && html`<span class="muted">${binding.namespace}/</span>`}${binding.workload.name}
          </span>
          ${cells(binding, seen, move).map(
            (cell, i) =>
              html`<span
                class=${`cell number ${cell.tone} ${index === current && first + i === column ? "chosen" : ""}`}
                role="gridcell"
                key=${cell.name}
                style=${{ left: `${name + (first + i) * CELL}px`, width: `${CELL}px` }}
                data-tip=${cell.tip || null}
                >${cell.shown}${cell.change && html`<small>${cell.change}</small>`}</span
              >`,
          )}
        </a>`;
      }}
    />
    <p class="legend">
      <span><i class="swatch arrived"></i>arrived</span><span><i class="swatch left"></i>left</span
      ><span><i class="swatch home"></i>would return</span>
      <span class="muted" aria-live="polite"
        >${told(rows[current], columns[column], displaced)}</span
      >
    </p>
  </div>`;
}

/** What the chosen cell says, for who moves by keys. @param {model.Binding | undefined} binding @param {string | undefined} column @param {any} displaced */
function told(binding, column, displaced) {
  if (!binding || !column) return "";
  return (
    cells(binding, [column], displaced.moves.get(binding.key))[0]?.tip ||
    `Nothing of ${derive.title(binding)} on ${column}`
  );
}

/**
 * The cells of a workload in some columns.
 * @param {model.Binding} binding
 * @param {string[]} columns
 * @param {any} move what a fresh decision would do
 */
function cells(binding, columns, move) {
  const now = new Map(binding.targets.map((it) => [it.name, it.replicas]));
  const noted = recent(binding);
  const before = noted && new Map(noted.before.map((it) => [it.name, it.replicas ?? 0]));
  const home = move && new Map(model.shares(move.to).map((it) => [it.name, it.replicas ?? 0]));
  const leaving = new Map(binding.evictions.map((it) => [it.from, it]));
  const workload = derive.title(binding);
  return columns.map((name) => {
    const replicas = now.get(name);
    const isHere = now.has(name);
    const shown = !isHere ? "" : replicas === null ? "✓" : String(replicas);
    const cell = { name, shown, tone: "", change: "", tip: "" };
    if (isHere)
      cell.tip =
        replicas === null
          ? `${workload} runs on ${name}`
          : `${words.counted(replicas ?? 0, "replica")} of ${workload} on ${name}`;
    const eviction = leaving.get(name);
    const step = before ? (replicas ?? 0) - (before.get(name) ?? 0) : 0;
    if (eviction) {
      Object.assign(cell, {
        tone: "left",
        shown: shown || String(eviction.replicas),
        change: "leaving",
      });
      cell.tip = `${words.counted(eviction.replicas, "replica")} of ${workload} leave ${name}: ${eviction.message || eviction.reason}`;
    } else if (step !== 0) {
      Object.assign(cell, {
        tone: step > 0 ? "arrived" : "left",
        shown: shown || "0",
        change: signed(step),
      });
      cell.tip = `${shown || "No"} now, ${signed(step)} since ${words.clock(/** @type {any} */ (noted).at)}: ${workload} on ${name}`;
    } else if (home) {
      const way = (home.get(name) ?? 0) - (replicas ?? 0);
      if (way !== 0) {
        Object.assign(cell, {
          tone: way > 0 ? "home" : "away",
          shown: shown || "0",
          change: signed(way),
        });
        cell.tip = `${words.counted(replicas ?? 0, "replica")} of ${workload} on ${name}; a fresh decision would make it ${home.get(name) ?? 0}`;
      }
    }
    return cell;
  });
}

/** @param {number} n */
const signed = (n) => (n > 0 ? `+${n}` : `−${-n}`);

/** @param {{ isLoading: boolean, all: number, show: string }} given */
function Nothing({ isLoading, all, show }) {
  if (isLoading) return html`<p class="muted" role="status">Loading workloads…</p>`;
  if (all === 0) {
    return html`<${Empty} title="No workload is to be placed yet">
      <p>A binding says which workload it is for, how many replicas there are, and where they may go:</p>
      <pre>kubectl create -f examples/rebalance/bindings.yaml</pre>
    </${Empty}>`;
  }
  if (show === "displaced")
    return html`<${Empty} title="Nothing is displaced"><p>Every workload is where it was before, and keeps its rules.</p></${Empty}>`;
  if (show === "stuck")
    return html`<${Empty} title="Everything fits"><p>Every workload has a place.</p></${Empty}>`;
  if (show === "moved")
    return html`<${Empty} title="Nothing moved in the last minutes"><p>The Outage screen shows what moved before.</p></${Empty}>`;
  return html`<${Empty} title="No workload fits these filters"><p>Try fewer of them.</p></${Empty}>`;
}
