// @ts-check
/** Capacity: each resource that anybody requests, of the fleet and by cluster. */
import * as derive from "../derive.js";
import { Grid, sorted } from "../grid.js";
import * as model from "../model.js";
import { Bar, Empty, Missing, Name, Search, Sign, SmallBar } from "../parts.js";
import { link, refine } from "../route.js";
import { useBindings, useFeed, useRoute } from "../state.js";
import { html, useMemo } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

export function CapacityScreen() {
  const clusters = useFeed("clusters");
  const bindings = useBindings();
  const { query } = useRoute();
  const found = useMemo(() => {
    const all = bindings.all();
    const loads = derive.loads(all, []);
    const resources = derive.resources(all, clusters.items.values());
    return { loads, resources };
  }, [...bindings.versions, clusters.version]);
  const { loads, resources } = found;
  const all = [...clusters.items.values()].sort((a, b) => model.byName(a.name, b.name));
  const chosen = query.get("of") ?? resources[0] ?? "cpu";
  const text = query.get("q") ?? "";
  const shown = all.filter((it) =>
    `${it.name} ${it.place}`.toLowerCase().includes(text.toLowerCase()),
  );
  const away = all.filter(derive.isLost).length;
  return html`
    <div class="head">
      <h1>Capacity</h1>
      <p class="muted">
        ${`What workloads request anywhere: used, promised and free.${away > 0 ? ` ${words.counted(away, "lost cluster is", "lost clusters are")} not counted.` : ""}`}
      </p>
    </div>
    <${Missing}
      of=${[
        ["clusters", clusters],
        ["bindings", bindings.feeds[0]],
        ["clusterBindings", bindings.feeds[1]],
      ]}
    />
    ${
      all.length === 0 || clusters.state === "own"
        ? clusters.state === "live" &&
          html`<${Empty} title="No cluster has joined yet"><p>Capacity is what the agents of clusters report.</p></${Empty}>`
        : html`<div class="resources" role="group" aria-label="Resources of the fleet">
              ${resources.map(
                (name) =>
                  html`<${Resource}
                    key=${name}
                    name=${name}
                    of=${derive.capacities(all, loads, name)}
                    isChosen=${name === chosen}
                  />`,
              )}
            </div>
            <div class="filters" role="search">
              <${Search}
                label="Filter clusters"
                value=${text}
                onInput=${(/** @type {string} */ q) => refine({ q }, "typed")}
              />
              <span class="muted" role="status"
                >${words.counted(shown.length, "cluster")}, by ${chosen}</span
              >
            </div>
            <${List}
              clusters=${shown}
              found=${found}
              chosen=${chosen}
              sort=${query.get("sort") ?? "-share"}
            />`
    }
  `;
}

/** One resource of the whole fleet. @param {{ name: string, of: derive.Capacity, isChosen: boolean }} given */
function Resource({ name, of, isChosen }) {
  const free = of.all - of.used - of.promised;
  return html`<button
    class="resource"
    aria-pressed=${isChosen}
    onClick=${() => refine({ of: name })}
    data-tip=${`${name}: of ${words.counted(of.clusters, "cluster")} that can be reached. Click lists them by it.`}
  >
    <span class="resource-name">${name}</span>
    <b class=${free < 0 ? "bad-word" : ""}
      >${free < 0 ? `${words.amount(name, -free)} short` : `${words.amount(name, free)} free`}</b
    >
    <${Bar} name=${name} resource=${name} ...${of} />
    <small class="muted"
      >${words.amount(name, of.used)} used, ${words.amount(name, of.promised)} promised</small
    >
  </button>`;
}

/** @param {{ clusters: model.Cluster[], found: any, chosen: string, sort: string }} given */
function List({ clusters, found, chosen, sort }) {
  const of = (/** @type {model.Cluster} */ it) =>
    derive.capacity(it, found.loads.get(it.name), chosen);
  /** @param {string} id @param {string} tip @param {(own: { all: number, used: number, promised: number }) => number} pick */
  const amount = (id, tip, pick) => ({
    id,
    head: id,
    tip,
    width: "110px",
    isNumber: true,
    sort: (/** @type {model.Cluster} */ it) => pick(of(it) ?? { all: 0, used: 0, promised: 0 }),
    cell: (/** @type {model.Cluster} */ it) => {
      const own = of(it);
      if (!own) return html`<span class="muted" data-tip=${`${it.name} has no ${chosen}`}>–</span>`;
      const value = pick(own);
      return html`<span
        class=${value < 0 ? "bad-word" : ""}
        data-tip=${`${it.name}: ${words.amount(chosen, value)} ${id}`}
        >${value < 0 ? `−${words.amount(chosen, -value)}` : words.amount(chosen, value)}</span
      >`;
    },
  });
  /** @type {import("../grid.js").Column<model.Cluster>[]} */
  const columns = [
    {
      id: "cluster",
      head: "cluster",
      tip: "The name of the cluster.",
      width: "minmax(220px, 2fr)",
      sort: (it) => it.name,
      cell: (it) => html`<${Sign} tone=${derive.readiness(it).tone} /><${Name} name=${it.name} />`,
    },
    {
      id: "region",
      head: "region",
      tip: "The region that the cluster names.",
      width: "minmax(100px, 1fr)",
      isWide: true,
      sort: (it) => it.region,
      cell: (it) => html`<span class="muted">${it.region || "–"}</span>`,
    },
    {
      id: "share",
      head: "taken",
      tip: "Used and promised, of what there is.",
      width: "minmax(150px, 2fr)",
      isNumber: true,
      sort: (it) => derive.share(of(it)),
      cell: (it) => html`<${SmallBar} of=${of(it)} resource=${chosen} />`,
    },
    amount("used", "What runs there takes so much.", ({ used }) => used),
    amount("promised", "Placed there, and not reported yet.", ({ promised }) => promised),
    amount(
      "free",
      "What is left. Below zero: more is promised than there is.",
      ({ all, used, promised }) => all - used - promised,
    ),
    amount("total", "What the cluster has in all.", ({ all }) => all),
  ];
  return html`<${Grid}
    label=${`Clusters by ${chosen}`}
    columns=${columns}
    rows=${sorted(clusters, columns, sort)}
    keyOf=${(/** @type {model.Cluster} */ it) => it.name}
    hrefOf=${(/** @type {model.Cluster} */ it) => link(["placements"], { cluster: it.name })}
    sort=${sort}
    onSort=${(/** @type {string} */ next) => refine({ sort: next })}
    minWidth=${860}
  />`;
}
