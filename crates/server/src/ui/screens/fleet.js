// @ts-check
/** Fleet: what is wrong, how the workloads stand, and each cluster in its region. */
import { useCounts } from "../backlog.js";
import * as derive from "../derive.js";
import { Grid, sorted } from "../grid.js";
import * as model from "../model.js";
import { Age, Bar, Chip, Choice, Empty, Missing, Name, Search, Sign, SmallBar } from "../parts.js";
import { link, refine } from "../route.js";
import {
  currentMoment,
  useBindings,
  useDisplacement,
  useFeed,
  useRebalances,
  useRoute,
} from "../state.js";
import { html, useMemo } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Figures, Situation } from "./situation.js";

/** Beyond so many clusters a list is easier to read than tiles. */
const TILES_MAX = 24;
/** Resources that a tile and a list have room for; the Capacity screen has all of them. */
const LISTED_RESOURCES = 4;

const SHOWN = /** @type {const} */ ([
  ["", "all", "Every cluster"],
  ["trouble", "in trouble", "Clusters that are lost, that evict, or that have not reported"],
  ["closed", "closed", "Clusters that take nothing new, by a taint: cordoned or drained"],
]);
const VIEWS = /** @type {const} */ ([
  ["tiles", "tiles", "A tile for each cluster"],
  ["list", "list", "A row for each cluster, which can be sorted"],
]);

/** Whether a list is still being read, so that a part of it is known. @param {{ state: string }} feed */
const isRead = ({ state }) => state !== "idle" && state !== "loading";

/** Lists that are still being read, and that the server has counted. */
const COUNTED = { state: "live", error: "", items: new Map(), version: 0, shape: 0 };

/** What the bindings say, or what the server counts of them until all of them are read. */
function useFound(/** @type {any} */ clusters, /** @type {any} */ displaced) {
  const [bindings, counts] = [useBindings(), useCounts()];
  const isWhole = bindings.feeds.every(isRead);
  const isCounted = !isWhole && counts !== null;
  const found = useMemo(() => {
    // A part of the bindings is no answer to how many replicas are missing.
    const all = isWhole ? bindings.all() : [];
    return {
      loads: derive.loads(all, displaced.moves.values()),
      health: derive.health(all, clusters.items),
      schedule: derive.schedule(all),
      evictions: derive.evictions(all, clusters.items),
      resources: derive.resources(all, clusters.items.values()),
      isOwn: clusters.state === "own",
      isWhole,
      ...(isCounted ? derive.counted(counts) : {}),
    };
  }, [
    ...(isWhole ? bindings.versions : [counts, isWhole]),
    clusters.version,
    isWhole && displaced.moves,
  ]);
  const feeds = isCounted ? [COUNTED, COUNTED] : bindings.feeds;
  return { found, bindings: { ...bindings, feeds, all: isWhole ? bindings.all : () => [] } };
}

export function FleetScreen() {
  const clusters = useFeed("clusters");
  const displaced = useDisplacement();
  const { found, bindings } = useFound(clusters, displaced);
  const rebalances = useRebalances();
  const { query } = useRoute();
  /** @type {model.Cluster[]} */
  const all = useMemo(
    () =>
      (isRead(clusters) ? [...clusters.items.values()] : []).sort(
        (a, b) => derive.severity(a) - derive.severity(b) || model.byName(a.name, b.name),
      ),
    [clusters.version],
  );
  const [text, show] = [query.get("q") ?? "", query.get("show") ?? ""];
  const shown = all.filter((it) => fits(it, text, show));
  const isList = (query.get("view") ?? (all.length > TILES_MAX ? "list" : "tiles")) === "list";
  return html`
    <h1>Fleet</h1>
    <${Missing}
      of=${[
        ["clusters", clusters],
        ["bindings", bindings.feeds[0]],
        ["clusterBindings", bindings.feeds[1]],
        ["reviews", displaced],
      ]}
    />
    <${Situation}
      found=${found}
      displaced=${displaced}
      clusters=${clusters}
      all=${all}
      bindings=${bindings}
      rebalances=${rebalances}
    />
    <${Figures}
      found=${found}
      displaced=${displaced}
      clusters=${clusters}
      all=${all}
      bindings=${bindings}
    />
    ${
      all.length === 0
        ? (clusters.state === "live" &&
            html`<${Empty} title="No cluster has joined yet">
          <p>Register one, and have its agent report what it serves and its capacity:</p>
          <pre>kubectl create -f examples/rebalance/clusters.yaml</pre>
        </${Empty}>`) ||
          (!isRead(clusters) && html`<p class="muted" role="status">Reading clusters…</p>`)
        : html`
            <div class="filters" role="search">
              <${Search}
                label="Filter clusters"
                value=${text}
                onInput=${(/** @type {string} */ q) => refine({ q }, "typed")}
              />
              <${Choice}
                label="Which clusters"
                value=${show}
                of=${SHOWN}
                onChoose=${(/** @type {string} */ it) => refine({ show: it })}
              />
              <${Choice}
                label="View"
                value=${isList ? "list" : "tiles"}
                of=${VIEWS}
                onChoose=${(/** @type {string} */ view) => refine({ view })}
              />
              <span class="muted" role="status" data-tip="Clusters that the filters let through"
                >${shown.length === all.length ? words.counted(all.length, "cluster") : `${words.number(shown.length)} of ${words.counted(all.length, "cluster")}`}</span
              >
            </div>
            ${
              shown.length === 0
                ? html`<${Empty} title=${show === "trouble" && !text ? "No cluster is in trouble" : "No cluster fits these filters"}><p>${words.counted(all.length, "cluster")} ${all.length === 1 ? "is" : "are"} in the fleet.</p></${Empty}>`
                : isList
                  ? html`<${List}
                      clusters=${shown}
                      found=${found}
                      sort=${query.get("sort") ?? ""}
                    />`
                  : html`<${Tiles} clusters=${shown} found=${found} />`
            }
          `
    }
  `;
}

/** @param {model.Cluster} cluster @param {string} text @param {string} show */
function fits(cluster, text, show) {
  if (show === "trouble" && derive.severity(cluster) > 2) return false;
  if (show === "closed" && !derive.isClosed(cluster)) return false;
  const labels = Object.entries(cluster.labels).map(([key, value]) => `${key}=${value}`);
  const own = [cluster.name, cluster.place, cluster.version, ...labels].join(" ").toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => own.includes(word));
}

/** What stands over the clusters of a region. @param {{ region: string, clusters: model.Cluster[], found: any }} given */
function RegionHead({ region, clusters, found }) {
  const lost = clusters.filter(derive.isLost).length;
  const sum = { wanted: 0, ready: 0, missing: 0 };
  for (const { name } of clusters) {
    const own = found.health.byCluster.get(name);
    if (!own) continue;
    sum.wanted += own.wanted;
    sum.ready += own.ready;
    sum.missing += own.missing;
  }
  return html`<b>${region || "no region"}</b>${" "}<span class="muted"
      >${words.counted(clusters.length, "cluster")}</span
    >
    ${lost > 0 && html`<span class="bad-word"><${Sign} tone="bad" />${words.number(lost)} lost</span>`}
    ${
      sum.wanted > 0 &&
      html`<span class=${sum.missing ? "bad-word" : "muted"}
        >${sum.missing ? `${words.number(sum.missing)} of ${words.number(sum.wanted)} replicas missing` : `${words.counted(sum.wanted, "replica")}`}</span
      >`
    }`;
}

/** @param {{ clusters: model.Cluster[], found: any }} given */
function Tiles({ clusters, found }) {
  const groups = derive.byRegion(clusters, (it) => it.region, derive.severity);
  return groups.map(
    ({ region, entries }) =>
      html`<section class="region" key=${region} aria-label=${region || "no region"}>
        <p class="region-head">
          <${RegionHead} region=${region} clusters=${entries} found=${found} />
        </p>
        <ul class="tiles">
          ${entries.map((it) => html`<${Tile} key=${it.name} cluster=${it} found=${found} />`)}
        </ul>
      </section>`,
  );
}

/** Why a cluster is as it is, in one sentence. @param {model.Cluster} cluster */
const why = ({ ready }) =>
  ready ? `${ready.reason}: ${ready.message}` : "Its agent has not reported yet.";

/** @param {{ cluster: model.Cluster, isInRow?: boolean }} given */
const State = ({ cluster, isInRow = false }) => {
  const { tone, word } = derive.readiness(cluster);
  const isClosed = tone === "good" && derive.isClosed(cluster);
  return html`<${Chip} isInRow=${isInRow} tone=${isClosed ? "warn" : tone} tip=${isClosed ? "It is ready, and a taint keeps new workloads away." : why(cluster)}
    ><${Sign} tone=${isClosed ? "held" : tone} />${isClosed ? "closed" : word}</${Chip}
  >`;
};

/** Where a cluster is within its region, which stands above. @param {model.Cluster} cluster */
const placeIn = ({ place, region, version }) =>
  [...place.split(" · ").filter((it) => it !== region), version].filter(Boolean).join(" · ");

/** @param {{ cluster: model.Cluster, found: any }} given */
function Tile({ cluster, found }) {
  const { isOwn } = found;
  const load = found.loads.get(cluster.name);
  const own = found.health.byCluster.get(cluster.name);
  const { tone, word } = derive.readiness(cluster);
  const { placed = 0, workloads = 0, leaving = 0, arriving = 0, homecoming = 0 } = load ?? {};
  const missing = own?.missing ?? 0;
  const resources = found.resources.filter(
    (/** @type {string} */ it) => derive.capacity(cluster, load, it) !== null,
  );
  return html`<li class=${`tile ${tone} ${derive.isLost(cluster) ? "dead" : ""}`}>
    <div class="tile-head">
      <h2>
        <a href=${link(["placements"], { cluster: cluster.name })}
          ><${Name} name=${cluster.name}
        /></a>
      </h2>
      <${State} cluster=${cluster} isInRow=${true} />
    </div>
    <p class="tile-place">
      <span class="cut" data-tip=${cluster.place || "It names no region"}>${placeIn(cluster)}</span>
      ${currentMoment() ? null : html`<${Age} since=${cluster.ready?.since ?? null} before=${`${word.toLowerCase()} for `} />`}
    </p>
    <dl class="tile-load">
      <div
        data-tip=${`${words.counted(placed, "replica")} of ${words.counted(workloads, "workload")} are placed here.`}
      >
        <dt>replicas</dt>
        <dd>${words.compact(placed)}</dd>
      </div>
      <div
        class=${missing ? "missing" : "none"}
        data-tip="Replicas that are placed here and are not ready, or whose cluster cannot be reached."
      >
        <dt>missing</dt>
        <dd>${missing ? words.compact(missing) : "–"}</dd>
      </div>
      <div
        class=${leaving ? "left" : "none"}
        data-tip="Replicas that are being evicted from here, until their replacement is ready."
      >
        <dt>leaving</dt>
        <dd>${leaving ? words.compact(leaving) : "–"}</dd>
      </div>
      <div
        class=${arriving ? "arrived" : "none"}
        data-tip="Replicas that are placed here and that the cluster's agent does not report as ready yet."
      >
        <dt>arriving</dt>
        <dd>${arriving ? words.compact(arriving) : "–"}</dd>
      </div>
      <div
        class=${homecoming ? "home" : "none"}
        data-tip="Replicas that were here before a failure, and that a rebalance would return to here now."
      >
        <dt>to return</dt>
        <dd>${homecoming ? words.compact(homecoming) : "–"}</dd>
      </div>
    </dl>
    <div class="bars">
      ${(isOwn ? [] : resources.slice(0, LISTED_RESOURCES)).map((/** @type {string} */ name) => {
        const room = /** @type {any} */ (derive.capacity(cluster, load, name));
        const more = cluster.room[name]?.used
          ? `; ${words.amount(name, load?.requests[name] ?? 0)} by what is placed here`
          : ", as far as the workloads placed here say";
        return html`<${Bar} key=${name} name=${name} resource=${name} ...${room} more=${more} />`;
      })}
      ${Object.keys(cluster.room).length === 0 && html`<p class="muted">${isOwn ? "Capacity: no access" : "It reports no capacity."}</p>`}
    </div>
    ${
      cluster.taints.length > 0 &&
      html`<p class="taints">
        ${cluster.taints.map(
          ({ key, value, effect, since }) =>
            html`<${Chip} isInRow=${true} tone="warn" tip=${`Taint ${key}${value && `=${value}`}: ${effect}${since ? `, since ${words.dateTime(since)}` : ""}`}
            >${key.split("/").pop()} ${effect}</${Chip}
          > `,
        )}
      </p>`
    }
  </li>`;
}

/** The columns of the list. @param {any} found @returns {import("../grid.js").Column<model.Cluster>[]} */
function columnsOf(found) {
  const load = (/** @type {model.Cluster} */ it) => found.loads.get(it.name);
  const own = (/** @type {model.Cluster} */ it) => found.health.byCluster.get(it.name);
  /** @param {string} id @param {string} head @param {string} tip @param {(it: model.Cluster) => number} of @param {string} tone */
  const count = (id, head, tip, of, tone) => ({
    id,
    head,
    tip,
    width: "66px",
    isNumber: true,
    sort: of,
    cell: (/** @type {model.Cluster} */ it) =>
      html`<span class=${of(it) ? tone : "muted"} data-tip=${`${it.name}: ${of(it)} ${head}`}
        >${of(it) ? words.compact(of(it)) : "–"}</span
      >`,
  });
  return [
    {
      id: "cluster",
      head: "cluster",
      tip: "The name of the cluster.",
      width: "minmax(190px, 300px)",
      sort: (it) => it.name,
      cell: (it) => html`<${Name} name=${it.name} />`,
    },
    {
      id: "state",
      head: "state",
      tip: "The condition Ready, and the taints that people set.",
      width: "112px",
      sort: derive.severity,
      cell: (it) => html`<${State} cluster=${it} isInRow=${true} />`,
    },
    {
      id: "since",
      head: "since",
      tip: "How long it has been so.",
      width: "56px",
      isNumber: true,
      isWide: true,
      sort: (it) => it.ready?.since ?? 0,
      cell: (it) => (currentMoment() ? "" : html`<${Age} since=${it.ready?.since ?? null} />`),
    },
    {
      id: "replicas",
      head: "replicas",
      tip: "Replicas that are placed there.",
      width: "70px",
      isNumber: true,
      sort: (it) => load(it)?.placed ?? 0,
      cell: (it) =>
        html`<span
          data-tip=${`${words.counted(load(it)?.placed ?? 0, "replica")} of ${words.counted(load(it)?.workloads ?? 0, "workload")} are placed on ${it.name}`}
          >${words.compact(load(it)?.placed ?? 0)}</span
        >`,
    },
    count(
      "missing",
      "missing",
      "Replicas that are placed there and not ready, or out of reach.",
      (it) => own(it)?.missing ?? 0,
      "bad-word",
    ),
    count(
      "leaving",
      "leaving",
      "Replicas that are being evicted from there.",
      (it) => load(it)?.leaving ?? 0,
      "left",
    ),
    count(
      "return",
      "to return",
      "Replicas that were there before a failure, and that a rebalance would return now.",
      (it) => load(it)?.homecoming ?? 0,
      "home",
    ),
    ...(found.isOwn ? [] : found.resources.slice(0, LISTED_RESOURCES)).map(
      (/** @type {string} */ name) => ({
        id: name,
        head: words.resource(name),
        tip: `How much ${name} is used and promised, of what the cluster has.`,
        width: "minmax(84px, 1fr)",
        isWide: true,
        sort: (/** @type {model.Cluster} */ it) =>
          derive.share(derive.capacity(it, load(it), name)),
        cell: (/** @type {model.Cluster} */ it) =>
          found.isWhole
            ? html`<${SmallBar} of=${derive.capacity(it, load(it), name)} resource=${name} />`
            : html`<span class="muted" data-tip="The workloads are still being read.">…</span>`,
      }),
    ),
  ];
}

/** @param {{ clusters: model.Cluster[], found: any, sort: string }} given */
function List({ clusters, found, sort }) {
  const columns = columnsOf(found);
  const groups = sort ? [] : derive.byRegion(clusters, (it) => it.region, derive.severity);
  const rows = sort ? sorted(clusters, columns, sort) : groups.flatMap(({ entries }) => entries);
  let at = 0;
  const heads = groups.map(({ region, entries }) => {
    const head = html`<${RegionHead} region=${region} clusters=${entries} found=${found} />`;
    at += entries.length;
    return { at: at - entries.length, head };
  });
  return html`<${Grid}
    label="Clusters"
    columns=${columns}
    rows=${rows}
    groups=${heads}
    keyOf=${(/** @type {model.Cluster} */ it) => it.name}
    hrefOf=${(/** @type {model.Cluster} */ it) => link(["placements"], { cluster: it.name })}
    toneOf=${(/** @type {model.Cluster} */ it) => `${derive.readiness(it).tone} ${derive.isLost(it) ? "dead" : ""}`}
    sort=${sort}
    onSort=${(/** @type {string} */ next) => refine({ sort: next })}
    minWidth=${1110}
  />`;
}
