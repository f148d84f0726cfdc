// @ts-check
/** Placements: which workloads are where, what is missing and why. */
import * as derive from "../derive.js";
import { Grid, sorted } from "../grid.js";
import * as model from "../model.js";
import { Age, Choice, Empty, Missing, Name, Search, Sign } from "../parts.js";
import { refine, workloadLink } from "../route.js";
import {
  currentMoment,
  recent,
  shownTime,
  useBindings,
  useDisplacement,
  useFeed,
  useRoute,
  useTick,
} from "../state.js";
import { html, useMemo } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Matrix } from "./matrix.js";

/** Beyond so many clusters a list says more than a matrix. */
const MATRIX_MAX = 15;
/** Clusters that a row names at most, and about the width of a letter and of what is beside a name. */
const NAMED = 6;
const LETTER = 7.8;
const BESIDE = 46;
/** The width of a page from which on a row is one line, and the part of it that the clusters have. */
const WIDE = 680;
const PART = 0.31;

const SHOWN = /** @type {const} */ ([
  ["", "all", "Every workload"],
  ["missing", "missing replicas", "Workloads with replicas that are not ready, or out of reach"],
  ["stuck", "unschedulable", "Workloads without a placement for some of their replicas"],
  [
    "displaced",
    "displaced",
    "Workloads that have lost clusters and have not been back, or that break a rule",
  ],
  ["moved", "just moved", "Workloads whose replicas moved in the last minutes"],
]);
const VIEWS = /** @type {const} */ ([
  ["list", "list", "A row for each workload: wanted, ready, where, since and why"],
  ["matrix", "matrix", "Workloads by clusters; by regions where there are many clusters"],
]);

/** @typedef {{ binding: model.Binding, own: derive.Standing, why: string, move: any, since: number | null, lost: Set<string>, isCounted: boolean }} Row `isCounted`: it is known which clusters can be reached */

export function PlacementsScreen() {
  const clusters = useFeed("clusters");
  const bindings = useBindings();
  const displaced = useDisplacement();
  useTick(15_000);
  const { query } = useRoute();
  const filter = {
    text: query.get("q") ?? "",
    namespace: query.get("ns") ?? "",
    cluster: query.get("cluster") ?? "",
    show: query.get("show") ?? "",
  };
  const names = useMemo(() => {
    const found = new Set([...clusters.items.values()].map(({ name }) => name));
    for (const { targets } of bindings.all()) targets.forEach(({ name }) => found.add(name));
    return [...found].sort(model.byName);
  }, [clusters.version, ...bindings.versions]);
  const lost = useMemo(() => derive.unreachable(clusters.items.values()), [clusters.version]);
  // Without the clusters it is not known which replicas are out of reach.
  const isCounted = clusters.state !== "forbidden";
  // Sorting takes long with thousands of workloads, so it is done when some come or go.
  const order = useMemo(
    () =>
      bindings
        .all()
        .map((it) => ({ feed: it.namespace ? 0 : 1, ...it }))
        .sort(
          (a, b) =>
            // What has no namespace, as roles that every cluster has, does not lead.
            Number(!a.namespace) - Number(!b.namespace) ||
            model.byName(a.namespace, b.namespace) ||
            model.byName(a.workload.name, b.workload.name),
        )
        .map(({ feed, key }) => ({ feed, key })),
    bindings.shapes,
  );
  /** @type {model.Binding[]} */
  const all = useMemo(
    () => order.map(({ feed, key }) => bindings.feeds[feed]?.items.get(key)).filter(Boolean),
    [order, ...bindings.versions],
  );
  const namespaces = useMemo(
    () => [...new Set(all.map((it) => it.namespace))].filter(Boolean),
    [all],
  );
  const shown = useMemo(
    () => all.filter((it) => fits(it, filter, displaced, lost)),
    [all, isCounted, displaced.moves, displaced.stuck, lost, ...Object.values(filter)],
  );
  const isMany = names.length > MATRIX_MAX;
  const isList = (query.get("view") ?? (isMany ? "list" : "matrix")) === "list";
  return html`
    <div class="head">
      <h1>Placements</h1>
      <${Filters}
        filter=${filter}
        namespaces=${namespaces}
        clusters=${names}
        shown=${shown.length}
        all=${all.length}
        view=${isList ? "list" : "matrix"}
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
      shown.length === 0
        ? html`<${Nothing}
            isLoading=${bindings.isLoading}
            all=${all.length}
            show=${filter.show}
            state=${bindings.feeds[0].state}
            isCounted=${isCounted}
          />`
        : isList
          ? html`<${List}
              bindings=${shown}
              displaced=${displaced}
              lost=${lost}
              isCounted=${isCounted}
              sort=${query.get("sort") ?? ""}
            />`
          : html`<${ByPlace}
              rows=${shown}
              names=${names}
              clusters=${clusters.items}
              displaced=${displaced}
              lost=${lost}
              isCounted=${isCounted}
            />`
    }
  `;
}

/** @param {model.Binding} binding @param {any} filter @param {any} displaced @param {Set<string>} lost */
function fits(binding, { text, namespace, cluster, show }, displaced, lost) {
  if (namespace && binding.namespace !== namespace) return false;
  if (cluster && !isOn(binding, cluster)) return false;
  if (
    show === "displaced" &&
    !displaced.moves.has(binding.key) &&
    !displaced.stuck.has(binding.key)
  )
    return false;
  if (show === "stuck" && !derive.isUnschedulable(binding)) return false;
  if (show === "missing" && derive.standing(binding, lost).missing === 0) return false;
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

/** @param {{ filter: any, namespaces: string[], clusters: string[], shown: number, all: number, view: string }} given */
function Filters({ filter, namespaces, clusters, shown, all, view }) {
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    refine({ [name]: event.target.value });
  return html`<form
    class="filters"
    role="search"
    onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}
  >
    <${Search}
      label="Filter by name or label=value"
      value=${filter.text}
      onInput=${(/** @type {string} */ q) => refine({ q }, "typed")}
    />
    <select aria-label="Namespace" value=${filter.namespace} onChange=${set("ns")}>
      <option value="">all namespaces</option>
      ${namespaces.map((it) => html`<option value=${it} selected=${it === filter.namespace}>${it}</option>`)}
    </select>
    <select aria-label="Cluster" value=${filter.cluster} onChange=${set("cluster")}>
      <option value="">all clusters</option>
      ${clusters.map((it) => html`<option value=${it} selected=${it === filter.cluster}>${it}</option>`)}
    </select>
    <${Choice}
      label="Which workloads"
      value=${filter.show}
      of=${SHOWN}
      onChoose=${(/** @type {string} */ it) => refine({ show: it })}
    />
    <${Choice}
      label="View"
      value=${view}
      of=${VIEWS}
      onChoose=${(/** @type {string} */ it) => refine({ view: it })}
    />
    <span
      class="muted"
      role="status"
      data-tip="Workloads that the filters let through, of all that you may read"
      >${shown === all ? words.counted(all, "workload") : `${words.number(shown)} of ${words.counted(all, "workload")}`}</span
    >
  </form>`;
}

/** The matrix of the clusters that there are, or of their regions. @param {{ rows: model.Binding[], names: string[], clusters: Map<string, model.Cluster>, displaced: any, lost: Set<string>, isCounted: boolean }} given */
function ByPlace({ rows, names, clusters, displaced, lost, isCounted }) {
  const regions = useMemo(
    () => new Map([...clusters.values()].map((it) => [it.name, it.region])),
    [clusters],
  );
  const regionOf =
    names.length > MATRIX_MAX ? (/** @type {string} */ name) => regions.get(name) ?? "" : null;
  const columns = regionOf ? [...new Set(names.map(regionOf))].sort(model.byName) : names;
  return html`<${Matrix}
    rows=${rows}
    columns=${columns}
    displaced=${displaced}
    clusters=${clusters}
    lost=${lost}
    isCounted=${isCounted}
    regionOf=${regionOf}
  />`;
}

/** @param {{ bindings: model.Binding[], displaced: any, lost: Set<string>, isCounted: boolean, sort: string }} given */
function List({ bindings, displaced, lost, isCounted, sort }) {
  /** @type {Row[]} */
  const rows = useMemo(
    () =>
      bindings.map((binding) => {
        const own = derive.standing(binding, lost);
        const move = displaced.moves.get(binding.key);
        const told = derive.trouble(binding, own, lost);
        const why =
          told ||
          (move
            ? `displaced: would go to ${derive.told(model.shares(move.to))}`
            : staysBecause(displaced.stuck.get(binding.key)));
        const since = recent(binding)?.at ?? binding.lastScheduled ?? binding.created;
        return { binding, own, why, move, since, lost, isCounted };
      }),
    [bindings, displaced.moves, lost, isCounted],
  );
  const totals = useMemo(() => {
    const sum = { wanted: 0, ready: 0, missing: 0 };
    for (const { own } of rows) {
      sum.wanted += own.wanted;
      sum.ready += own.ready;
      sum.missing += own.missing;
    }
    return sum;
  }, [rows]);
  return html`<${Grid}
    label="Workloads"
    columns=${COLUMNS}
    rows=${sorted(rows, COLUMNS, sort)}
    keyOf=${(/** @type {Row} */ row) => row.binding.key}
    hrefOf=${(/** @type {Row} */ row) => workloadLink(row.binding)}
    sort=${sort}
    onSort=${(/** @type {string} */ next) => refine({ sort: next })}
    totals=${{
      workload: html`<b>${words.counted(rows.length, "workload")}</b>`,
      wanted: html`<b>${words.number(totals.wanted)}</b>`,
      ready: isCounted ? html`<b>${words.number(totals.ready)}</b>` : NO_ACCESS,
      missing: isCounted
        ? html`<b class=${totals.missing ? "bad-word" : ""}>${words.number(totals.missing)}</b>`
        : NO_ACCESS,
    }}
    minWidth=${1050}
    lines=${4}
  />`;
}

/** What stands for a number that the user may not know. */
const NO_ACCESS = html`<small class="no-access">no access</small>`;

/** Why a displaced workload stays. @param {any} entry of a review; absent: it is not displaced */
function staysBecause(entry) {
  if (!entry) return "";
  const why = model.text(entry.message) || model.text(entry.reason);
  return entry.reason === "MovingAlready" ? why : `displaced, and cannot return yet: ${why}`;
}

/** @param {Row} row */
const signOf = ({ binding, own, move, isCounted }) => {
  const isPartly = binding.scheduled?.reason === "PartlyScheduled";
  if (derive.isUnschedulable(binding) && !isPartly) return "bad";
  if (!isCounted) return isPartly ? "warn" : move ? "home" : "none";
  if (own.missing > 0 || isPartly) return "warn";
  return move ? "home" : "good";
};

/** @param {string} id @param {string} tip @param {(own: derive.Standing) => number} of @returns {import("../grid.js").Column<Row>} */
const count = (id, tip, of) => ({
  id,
  head: id,
  tip,
  width: "74px",
  isNumber: true,
  sort: ({ own }) => of(own),
  cell: ({ own, binding, isCounted }) => {
    if (own.wanted === 0) return html`<span class="muted" data-tip="It has no replicas">–</span>`;
    if (!isCounted && id !== "wanted") return NO_ACCESS;
    const isBad = id !== "wanted" && own.missing > 0;
    return html`<span
      class=${isBad ? "bad-word" : ""}
      data-tip=${`${words.counted(of(own), "replica")} of ${derive.title(binding)} ${id}`}
      >${id === "missing" && of(own) === 0 ? "–" : words.number(of(own))}</span
    >`;
  },
});

/** The lost clusters are named beside, in red. */
const REACHED = /^(\d+ clusters? not reachable): .*/s;

/** @type {import("../grid.js").Column<Row>[]} */
const COLUMNS = [
  {
    id: "workload",
    head: "workload",
    tip: "The namespace and the name of the workload.",
    width: "minmax(250px, 1.7fr)",
    sort: ({ binding }) => derive.title(binding),
    cell: (row) =>
      html`<${Sign} tone=${signOf(row)} />${
          row.binding.namespace &&
          html`<span class="muted namespace">${row.binding.namespace}/</span>`
        }<${Name} name=${row.binding.workload.name} />`,
  },
  count("wanted", "Replicas that the workload asks for.", ({ wanted }) => wanted),
  count("ready", "Replicas that are ready on clusters that can be reached.", ({ ready }) => ready),
  count("missing", "Wanted, and not ready or out of reach.", ({ missing }) => missing),
  {
    id: "where",
    head: "where",
    tip: "The clusters that it is placed on.",
    width: "minmax(290px, 2.2fr)",
    sort: ({ binding }) => binding.targets.map(({ name }) => name).join(),
    cell: ({ binding, lost }) => html`<${Places} targets=${binding.targets} lost=${lost} />`,
  },
  {
    id: "since",
    head: "since",
    tip: "When it was placed so.",
    width: "72px",
    isNumber: true,
    isWide: true,
    sort: ({ since }) => since ?? 0,
    cell: ({ since }) =>
      currentMoment()
        ? since &&
          html`<span data-tip=${words.dateTime(since)}>${words.span(shownTime() - since)}</span>`
        : html`<${Age} since=${since} />`,
  },
  {
    id: "why",
    head: "why",
    tip: "Why it does not stand as wanted.",
    width: "minmax(190px, 1.3fr)",
    sort: ({ why }) => why,
    cell: ({ why }) =>
      why && html`<span class="cut muted" data-tip=${why}>${why.replace(REACHED, "$1")}</span>`,
  },
];

/**
 * The clusters of a workload, those that are lost first: as many as their names leave room for.
 * @param {{ targets: model.Share[], lost: Set<string> }} given
 */
function Places({ targets, lost }) {
  if (targets.length === 0) return html`<span class="muted">nowhere</span>`;
  const longest = Math.max(...targets.map(({ name }) => name.length)) * LETTER + BESIDE;
  const room = innerWidth < WIDE ? innerWidth - 130 : innerWidth * PART;
  const most = Math.max(1, Math.min(NAMED, Math.floor(room / longest)));
  const isLost = (/** @type {model.Share} */ it) => lost.has(it.name);
  const inOrder = [...targets.filter(isLost), ...targets.filter((it) => !isLost(it))];
  return html`<span class="places" data-tip=${derive.told(targets)}
    >${inOrder
      .slice(0, most)
      .map(
        ({ name, replicas }) =>
          html`<span class=${`place ${lost.has(name) ? "lost" : ""}`} key=${name}
            >${lost.has(name) && html`<${Sign} tone="bad" />`}<${Name}
              name=${name}
            />${replicas !== null && html`<b>${words.number(replicas)}</b>`}</span
          >`,
      )}${targets.length > most && html`<span class="muted">+${targets.length - most}</span>`}</span
  >`;
}

/** @param {{ isLoading: boolean, all: number, show: string, state: string, isCounted: boolean }} given */
function Nothing({ isLoading, all, show, state, isCounted }) {
  if (show === "missing" && !isCounted)
    return html`<${Empty} title="No access"><p>Which replicas are missing is not known without the right to list clusters.</p></${Empty}>`;
  if (state === "forbidden") return null;
  if (isLoading) return html`<p class="muted" role="status">Loading workloads…</p>`;
  if (all === 0) {
    return html`<${Empty} title="No workload is to be placed yet">
      <p>A binding says which workload it is for, how many replicas there are, and where they may go:</p>
      <pre>kubectl create -f examples/rebalance/bindings.yaml</pre>
    </${Empty}>`;
  }
  if (show === "displaced")
    return html`<${Empty} title="Nothing is displaced"><p>Every workload is where it was before, and keeps its rules.</p></${Empty}>`;
  if (show === "missing")
    return html`<${Empty} title="Nothing is missing"><p>Every wanted replica is ready, as far as the agents report.</p></${Empty}>`;
  if (show === "stuck")
    return html`<${Empty} title="Everything fits"><p>Every workload has a place.</p></${Empty}>`;
  if (show === "moved")
    return html`<${Empty} title="Nothing moved in the last minutes"><p>The Outage screen shows what moved before.</p></${Empty}>`;
  return html`<${Empty} title="No workload fits these filters"><p>Try fewer of them.</p></${Empty}>`;
}
