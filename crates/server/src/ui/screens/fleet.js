// @ts-check
/** Fleet: a tile for each cluster, and above them how the workloads stand. */
import * as derive from "../derive.js";
import * as model from "../model.js";
import { Age, Bar, Chip, Empty, Figure, Missing } from "../parts.js";
import { link } from "../route.js";
import { currentMoment, useBindings, useDisplacement, useFeed } from "../state.js";
import { html, useMemo } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** The server's usual pace of evictions, each second (`--resource-eviction-rate`). */
const EVICTIONS_PER_SECOND = 0.5;
const RESOURCES = ["cpu", "memory", "pods"];

export function FleetScreen() {
  const clusters = useFeed("clusters");
  const bindings = useBindings();
  const displaced = useDisplacement();
  const found = useMemo(() => {
    const all = bindings.all();
    return {
      loads: derive.loads(all, displaced.moves.values()),
      schedule: derive.schedule(all),
      evictions: derive.evictions(all, clusters.items),
    };
  }, [...bindings.versions, clusters.version, displaced.moves]);
  const sorted = useMemo(
    () => [...clusters.items.values()].sort((a, b) => model.byName(a.name, b.name)),
    [clusters.version],
  );
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
    <${Figures} found=${found} displaced=${displaced} clusters=${sorted} />
    ${
      sorted.length === 0 && clusters.state === "live"
        ? html`<${Empty} title="No cluster has joined yet">
          <p>Register one, and have its agent report what it serves and the room it has:</p>
          <pre>kubectl create -f examples/rebalance/clusters.yaml</pre>
        </${Empty}>`
        : html`<ul class="tiles">
            ${sorted.map((it) => html`<${Tile} key=${it.name} cluster=${it} load=${found.loads.get(it.name)} />`)}
          </ul>`
    }
  `;
}

/** @param {{ found: any, displaced: any, clusters: model.Cluster[] }} given */
function Figures({ found, displaced, clusters }) {
  const { schedule, evictions } = found;
  const ready = clusters.filter((it) => it.ready?.status === "True").length;
  const seconds = evictions.waiting / EVICTIONS_PER_SECOND;
  const duration = evictions.waiting ? `, about ${words.span(seconds * 1000)}` : "";
  const away = displaced.count;
  return html`<div class="figures">
    <${Figure}
      value=${html`${ready}<small> / ${clusters.length}</small>`}
      name="clusters ready"
      tone=${ready < clusters.length ? "bad" : ""}
      tip="Clusters whose condition Ready is True, of all that have joined."
    />
    <${Figure}
      value=${words.number(schedule.scheduled)}
      name="scheduled"
      tip=${`Workloads whose condition Scheduled is True, of ${words.counted(schedule.workloads, "workload")} with ${words.counted(schedule.replicas, "replica")}.`}
      href=${link(["placements"])}
    />
    <${Figure}
      value=${words.number(schedule.stuck)}
      name="unschedulable"
      tone=${schedule.stuck ? "bad" : ""}
      tip=${`Workloads whose condition Scheduled is False: no placement could be found.${schedule.waiting ? ` ${schedule.waiting} more wait for their first decision.` : ""}`}
      href=${link(["placements"], { show: "stuck" })}
    />
    <${Figure}
      value=${displaced.state === "live" ? words.number(away) : "–"}
      name="displaced"
      tone=${away ? "warn" : ""}
      tip=${
        displaced.state === "forbidden"
          ? `Not known: ${displaced.error}`
          : "Workloads that have lost clusters and have not been back, that break a rule of their placement, or that an earlier affinity group would take. They stay until somebody asks for a rebalance."
      }
      href=${link(["placements"], { show: "displaced" })}
    />
    <${Figure}
      value=${displaced.state === "live" ? words.number(displaced.drifted) : "–"}
      name="drifted"
      tip="Workloads that are well, and that a fresh decision over the present fleet would divide otherwise."
    />
    <${Figure}
      value=${words.number(evictions.waiting + evictions.running)}
      name=${`evictions waiting${duration}`}
      tone=${evictions.waiting ? "bad" : ""}
      tip=${`${evictions.waiting} have not begun: their cluster has a NoExecute taint. At the usual pace of one in two seconds the last begins in ${words.span(seconds * 1000)}. ${evictions.running} wait for their replacement to be well.`}
    />
  </div>`;
}

/** @param {{ cluster: model.Cluster, load: derive.Load | undefined }} given */
function Tile({ cluster, load }) {
  const { tone, word } = derive.readiness(cluster);
  const { placed = 0, workloads = 0, leaving = 0, arriving = 0, homecoming = 0 } = load ?? {};
  const why = cluster.ready
    ? `${cluster.ready.reason}: ${cluster.ready.message}`
    : "Its agent has not reported yet.";
  return html`<li class=${`tile ${tone}`}>
    <div class="tile-head">
      <h2><a href=${link(["placements"], { cluster: cluster.name })}>${cluster.name}</a></h2>
      <${Chip} tone=${tone} tip=${why}><i class="dot"></i>${word}</${Chip}>
    </div>
    <p class="tile-place">
      ${cluster.place || "no region"}${cluster.version && ` · ${cluster.version}`}
      ${currentMoment() ? null : html`<${Age} since=${cluster.ready?.since ?? null} before=${` · ${word.toLowerCase()} for `} />`}
    </p>
    <dl class="tile-load">
      <div tabindex="0" data-tip=${`${words.counted(placed, "replica")} of ${words.counted(workloads, "workload")} are placed here.`}>
        <dt>replicas</dt><dd>${words.compact(placed)}</dd>
      </div>
      <div class=${leaving ? "left" : "none"} tabindex="0" data-tip="Replicas that are being evicted from here, until their replacement is well.">
        <dt>leaving</dt><dd>${leaving ? words.compact(leaving) : "–"}</dd>
      </div>
      <div class=${arriving ? "arrived" : "none"} tabindex="0" data-tip="Replicas that are placed here and that the cluster's agent does not report as ready yet.">
        <dt>arriving</dt><dd>${arriving ? words.compact(arriving) : "–"}</dd>
      </div>
      <div class=${homecoming ? "home" : "none"} tabindex="0" data-tip="Replicas that would come home to here. They stay where they are until somebody asks.">
        <dt>would return</dt><dd>${homecoming ? words.compact(homecoming) : "–"}</dd>
      </div>
    </dl>
    <div class="bars">
      ${RESOURCES.map((name) => {
        const room = cluster.room[name];
        if (!room) return null;
        const own = load?.requests[name] ?? 0;
        const reported = room.used + room.waiting;
        const used = Math.max(reported, load?.existing[name] ?? 0);
        const more =
          reported > 0
            ? `; ${words.amount(name, own)} by what is placed here`
            : ", as far as the workloads placed here say";
        return html`<${Bar}
          key=${name}
          name=${name}
          resource=${name}
          used=${used}
          promised=${load?.promised[name] ?? 0}
          all=${room.all}
          more=${more}
        />`;
      })}
      ${Object.keys(cluster.room).length === 0 && html`<p class="muted">It reports no room.</p>`}
    </div>
    ${
      cluster.taints.length > 0 &&
      html`<p class="taints">
        ${cluster.taints.map(
          ({ key, value, effect, since }) =>
            html`<${Chip} tone="warn" tip=${`Taint ${key}${value && `=${value}`}: ${effect}${since ? `, since ${words.dateTime(since)}` : ""}`}
            >${key.split("/").pop()} ${effect}</${Chip}
          > `,
        )}
      </p>`
    }
  </li>`;
}
