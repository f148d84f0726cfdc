// @ts-check
/** What is wrong right now, worst first, and the figures of the fleet. In peace: one calm line. */
import { useBacklog } from "../backlog.js";
import * as derive from "../derive.js";
import * as model from "../model.js";
import { Age, Figure, Name, Sign } from "../parts.js";
import { link, rebalanceLink } from "../route.js";
import { currentMoment } from "../state.js";
import { html } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Evictions, evictionsName, evictionsTold } from "./evictions.js";
import { failures } from "./progress.js";

/** Lost clusters, regions, reasons and runs that are named. The rest is counted. */
const NAMED = 4;

/** Whether a feed knows what it holds. @param {{ state: string }} feed */
const isKnown = ({ state }) => ["live", "away", "own"].includes(state);

/** Reasons by how many workloads they keep from being placed. @param {model.Binding[]} all */
function reasons(all) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const binding of all.filter(derive.isUnschedulable)) {
    const reason = words.shortage(binding.scheduled?.message || binding.scheduled?.reason || "");
    found.set(reason, (found.get(reason) ?? 0) + 1);
  }
  return [...found].sort((a, b) => b[1] - a[1]);
}

/** @param {any} rebalance */
const isUnderWay = ({ status }) =>
  ["Planning", "Planned", "Running", "Paused"].includes(status?.phase);

/** @param {{ found: any, displaced: any, clusters: any, all: model.Cluster[], bindings: any, rebalances: any }} given */
export function Situation({ found, displaced, clusters, all, bindings, rebalances }) {
  const { health, schedule } = found;
  const evictions = evictionsTold(found.evictions, useBacklog());
  const lost = all.filter(derive.isLost);
  const open = rebalances.all().filter(isUnderWay);
  const isTold = isKnown(clusters) && isKnown(bindings.feeds[0]);
  if (!isTold && lost.length === 0) return null;
  const lines = [
    lost.length > 0 && html`<${Lost} lost=${lost} all=${all} />`,
    health.all.missing > 0 && html`<${MissingReplicas} health=${health} />`,
    schedule.stuck > 0 && html`<${Stuck} count=${schedule.stuck} all=${bindings.all()} />`,
    (evictions.isLimited ||
      lost.length > 0 ||
      evictions.waiting + evictions.running + evictions.foreseen > 0) &&
      html`<${Evictions} ...${evictions} />`,
  ].filter(Boolean);
  if (lines.length === 0 && all.length > 0)
    lines.push(
      html`<li>
        <${Sign} tone="good" /><span
          ><b>${displaced.count > 0 ? "Nothing is missing." : "All is well."}</b
          >${` ${words.counted(all.length, "cluster is", "clusters are")} ready${health.all.wanted > 0 ? `, and ${words.number(health.all.ready)} of ${words.counted(health.all.wanted, "replica")}` : ""}.`}</span
        >
      </li>`,
    );
  // A review counts them, so they come a moment later than the rest.
  if (displaced.count > 0) lines.push(html`<${Displaced} displaced=${displaced} lost=${lost} />`);
  if (lines.length + open.length === 0) return null;
  const isBad = lost.length > 0 || schedule.stuck > 0;
  return html`<section
    class=${`situation ${isBad ? "bad" : health.all.missing || evictions.waiting ? "warn" : "calm"}`}
    aria-label="The situation"
  >
    <ul>
      ${lines}
      ${open.slice(0, NAMED).map((/** @type {any} */ it) => html`<${Open} key=${it.key} rebalance=${it} />`)}
      ${open.length > NAMED && html`<li><i class="sign home"></i><a href=${link(["rebalance"])}>${words.counted(open.length - NAMED, "more rebalance")} in progress</a></li>`}
    </ul>
  </section>`;
}

/** @param {{ lost: model.Cluster[], all: model.Cluster[] }} given */
function Lost({ lost, all }) {
  const since = Math.min(...lost.map((it) => it.ready?.since ?? Infinity));
  return html`<li>
    <${Sign} tone="bad" /><span
      ><b
        ><a href=${link(["fleet"], { show: "trouble" })}
          >${words.number(lost.length)} of ${words.counted(all.length, "cluster")} lost</a
        ></b
      >${!currentMoment() && Number.isFinite(since) && html`<${Age} since=${since} before=" for " />`}:${" "}
      <span class="names"
        >${lost
          .slice(0, NAMED)
          .map(
            (it) =>
              html`<a key=${it.name} href=${link(["placements"], { cluster: it.name })}
                ><${Name} name=${it.name}
              /></a>`,
          )}${lost.length > NAMED && html`<span class="muted">and ${words.number(lost.length - NAMED)} more</span>`}</span
      ></span
    >
  </li>`;
}

/** @param {{ health: ReturnType<typeof derive.health> }} given */
function MissingReplicas({ health }) {
  const { all } = health;
  const struck = [...health.byRegion]
    .filter(([, it]) => it.missing > 0)
    .sort((a, b) => b[1].missing - a[1].missing);
  const named = struck
    .slice(0, NAMED)
    .map(
      ([region, it]) =>
        `${region || "no region"} ${words.number(it.missing)} of ${words.number(it.wanted)}`,
    );
  if (health.unplaced > 0) named.push(`${words.number(health.unplaced)} placed nowhere`);
  return html`<li>
    <${Sign} tone=${all.missing * 20 > all.wanted ? "bad" : "warn"} /><span
      ><b
        ><a href=${link(["placements"], { show: "missing" })}
          >${words.number(all.missing)} of ${words.counted(all.wanted, "replica")} missing</a
        ></b
      >${` (${words.percent(all.missing, all.wanted)})`}${
        named.length > 0 &&
        html`<span class="muted"
          >${`: ${named.join(", ")}${struck.length > NAMED ? `, and ${words.counted(struck.length - NAMED, "more region")}` : ""}`}</span
        >`
      }</span
    >
  </li>`;
}

/** @param {{ count: number, all: model.Binding[] }} given */
function Stuck({ count, all }) {
  const [first, ...rest] = reasons(all);
  return html`<li>
    <${Sign} tone="bad" /><span
      ><b
        ><a href=${link(["placements"], { show: "stuck" })}
          >${words.counted(count, "workload")} unschedulable</a
        ></b
      >${
        first &&
        html`<span class="muted reason"
          >${`: ${first[1] === count ? "" : `${words.number(first[1])} × `}${words.short(first[0])}`}</span
        >`
      }${rest.length > 0 && html`<span class="muted">${` and ${words.counted(rest.length, "other reason")}`}</span>`}</span
    >
  </li>`;
}

/**
 * The displaced workloads: those that a rebalance returns now, those that one is moving, and those
 * that cannot return yet.
 * @param {{ displaced: any, lost: model.Cluster[] }} given
 */
function Displaced({ displaced, lost }) {
  const { count } = displaced;
  /** @type {any[]} */
  const staying = [...displaced.stuck.values()];
  const returnable = displaced.moves.size;
  const moving = staying.filter((it) => it.reason === "MovingAlready").length;
  const stuck = Math.max(0, count - returnable - moving);
  const awaited = awaitedBy(staying, lost);
  const parts = [
    returnable > 0 &&
      `${returnable === count ? "" : `${words.number(returnable)} `}can return: a rebalance moves ${returnable === 1 ? "it" : "them"} back`,
    moving > 0 && `${moving === count ? "" : `${words.number(moving)} `}being moved`,
    stuck > 0 &&
      `${stuck === count ? "" : `${words.number(stuck)} `}cannot return yet${awaited.length ? `, waits for ${words.few(awaited)}`.replace("waits", stuck === 1 ? "waits" : "wait") : ""}`,
  ].filter(Boolean);
  return html`<li>
    <${Sign} tone="warn" /><span
      ><b
        ><a href=${link(["placements"], { show: "displaced" })}
          >${words.counted(count, "workload")} displaced</a
        ></b
      ><span class="muted">${`: ${parts.join("; ")}.`}</span></span
    >
  </li>`;
}

/** The lost clusters that displaced workloads would return to. @param {any[]} staying @param {model.Cluster[]} lost */
function awaitedBy(staying, lost) {
  const found = new Set();
  for (const { message } of staying) {
    const name = /^it waits for cluster ([^\s,]+)/.exec(model.text(message))?.[1];
    if (name && lost.some((it) => it.name === name)) found.add(name);
  }
  return [...found].sort(model.byName);
}

/** @param {{ rebalance: any }} given */
function Open({ rebalance }) {
  const { metadata, spec, status } = rebalance;
  const summary = model.map(status.summary);
  const isWaiting = spec?.approval === "Required" && !spec?.approved;
  const done = `${words.number(model.count(summary.settled))} of ${words.number(model.count(summary.toMove))} moved`;
  const failed = failures(summary);
  return html`<li>
    <${Sign} tone=${isWaiting || status.phase === "Paused" ? "held" : "home"} /><span
      ><b><a href=${rebalanceLink(metadata)}>Rebalance ${metadata.name}</a></b
      >${isWaiting ? " waits for approval" : ` ${String(status.phase).toLowerCase()}: ${done}${failed && `, ${failed}`}`}</span
    >
  </li>`;
}

/**
 * The figures of the fleet. What may not be read is told as that, and never as zero.
 * @param {{ found: any, displaced: any, clusters: any, all: model.Cluster[], bindings: any }} given
 */
export function Figures({ found, displaced, clusters, all, bindings }) {
  const { schedule, health } = found;
  const backlog = useBacklog();
  const evictions = evictionsTold(found.evictions, backlog);
  const ready = all.filter((it) => it.ready?.status === "True").length;
  const away = displaced.count;
  const ofBindings = (/** @type {any} */ value) => told(bindings.feeds[0], value);
  const reviewed = (/** @type {number} */ value) => told(displaced, words.number(value));
  // Without the clusters it is not known which replicas are out of reach.
  const counted = (/** @type {any} */ value) => ofBindings(told(clusters, value));
  const isCounted = isKnown(clusters);
  return html`<div class="figures">
    <${Figure}
      value=${counted(html`${words.number(health.all.missing)}<small> / ${words.number(health.all.wanted)}</small>`)}
      name="replicas missing"
      tone=${isCounted && health.all.missing ? "bad" : ""}
      tip=${!isCounted ? "Which clusters can be reached is not known." : `Of ${words.counted(health.all.wanted, "wanted replica")}, ${words.number(health.all.ready)} are ready on clusters that can be reached.`}
      href=${link(["placements"], { show: "missing" })}
    />
    <${Figure}
      value=${told(clusters, html`${words.number(ready)}<small> / ${words.number(all.length)}</small>`)}
      name="clusters ready"
      tone=${ready < all.length ? "bad" : ""}
      tip=${clusters.state === "own" ? "Clusters whose condition Ready is True, of those that your workloads are on." : "Clusters whose condition Ready is True, of all that have joined."}
      href=${link(["fleet"], { show: ready < all.length ? "trouble" : "" })}
    />
    <${Figure}
      value=${ofBindings(schedule.scheduled === null ? html`<small>…</small>` : words.number(schedule.scheduled))}
      name="scheduled"
      tip=${`Workloads with a placement for all of their replicas, of ${words.counted(schedule.workloads, "workload")} with ${words.counted(schedule.replicas, "replica")}.`}
      href=${link(["placements"])}
    />
    <${Figure}
      value=${ofBindings(words.number(schedule.stuck))}
      name="unschedulable"
      tone=${schedule.stuck ? "bad" : ""}
      tip=${`Workloads without a placement for some of their replicas.${schedule.waiting ? ` ${schedule.waiting} more wait for their first decision.` : ""}`}
      href=${link(["placements"], { show: "stuck" })}
    />
    <${Figure}
      value=${reviewed(away)}
      name="displaced"
      tone=${away ? "warn" : ""}
      tip="Workloads that have lost clusters and have not been back, that break a rule of their placement, or that an earlier affinity group would take. A rebalance returns those that can."
      href=${link(["placements"], { show: "displaced" })}
    />
    <${Figure}
      value=${reviewed(displaced.drifted)}
      name="drifted"
      tip="Workloads that are well, and that a fresh decision over the present fleet would divide otherwise."
    />
    <${Figure}
      value=${backlog || clusters.state !== "own" ? counted(words.number(evictions.waiting + evictions.running + evictions.foreseen)) : NO_ACCESS}
      name=${evictionsName(evictions)}
      tone=${evictions.waiting ? "bad" : ""}
      tip=${`${words.number(evictions.waiting)} wait for their turn: their cluster has a NoExecute taint${evictions.waiting && evictions.rate ? `, at ${evictions.rate}` : ""}. ${words.number(evictions.running)} are in progress, until the replacement is ready. ${words.number(evictions.foreseen)} are foreseen if nothing changes.`}
    />
  </div>`;
}

/** What stands for a number that the user may not know. */
const NO_ACCESS = html`<small class="no-access">no access</small>`;

/** A value as far as it is known. @param {{ state: string, error?: string }} feed @param {any} value */
export function told(feed, value) {
  if (feed.state === "forbidden") return NO_ACCESS;
  if (feed.state === "absent") return html`<small class="no-access">not served</small>`;
  if (feed.state === "loading" || feed.state === "idle") return html`<small>…</small>`;
  return feed.state === "away" && !value ? "–" : value;
}
