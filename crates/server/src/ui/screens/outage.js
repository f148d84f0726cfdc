// @ts-check
/** Outage: the last hours, lanes of clusters over the stacked replicas, and a slider. */
import * as api from "../api.js";
import { useBacklog } from "../backlog.js";
import * as derive from "../derive.js";
import { WHOLE_MS, history, revisionAt } from "../history.js";
import * as lanes from "../lanes.js";
import * as model from "../model.js";
import { Awaited, Choice, Empty, Figure, Missing, Search, Sign } from "../parts.js";
import { link, refine } from "../route.js";
import {
  currentMoment,
  feeds,
  showMoment,
  useBindings,
  useDisplacement,
  useFeed,
  useRoute,
  useSnapshot,
  useTick,
  wish,
} from "../state.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { Lanes, Stack } from "./timeline.js";
import { told } from "./situation.js";

/** The pause before a moved slider asks the server. */
const SETTLE_MS = 90;
/** Entries that are seen at first. */
const ENTRIES_FIRST = 40;

const HOUR_MS = 3_600_000;
/** How far back the picture goes. @type {Record<string, number>} */
const RANGES = {
  "15m": HOUR_MS / 4,
  "": HOUR_MS,
  "6h": 6 * HOUR_MS,
  "24h": 24 * HOUR_MS,
  all: WHOLE_MS,
};
const RANGE_WORDS = /** @type {const} */ ([
  ["15m", "15 min", "The last 15 minutes"],
  ["", "1 hour", "The last hour"],
  ["6h", "6 hours", "The last six hours"],
  ["24h", "24 hours", "The last day"],
  ["all", "all", "As far back as the log remembers: --history of the server"],
]);

/** The right end of the scale, once somebody looks back. */
let standing = 0;

export function OutageScreen() {
  useSnapshot(
    () =>
      `${history.version} ${history.state} ${feeds.rebalances.version} ${feeds.clusterRebalances.version}`,
  );
  useTick(2000);
  useEffect(() => history.use(), []);
  const { query } = useRoute();
  const range = query.get("range") ?? "";
  useEffect(() => history.lookBack(RANGES[range] ?? HOUR_MS), [range]);
  const moment = currentMoment();
  // The scale stands still while somebody looks back: nothing moves below the pointer.
  if (!moment) standing = api.now();
  const end = Math.ceil(Math.max(standing, moment?.at ?? 0) / 1000) * 1000;
  const start = Math.min(history.start || end - 60_000, end - 20_000);
  const names = useMemo(() => laneNames(), [history.version]);
  const regions = useMemo(() => regionsOf(), [history.version, feeds.clusters.version]);
  const text = query.get("q") ?? "";
  const isReading = history.samples.length === 0 && ["idle", "loading"].includes(history.state);
  // Who may not read clusters sees the replicas, if only that there are none.
  // Without the right to list clusters, the log does not show which of them were lost.
  const hasClusters = feeds.clusters.state !== "forbidden";
  const isEmpty =
    names.length === 0 && history.state === "live" && feeds.clusters.state !== "forbidden";
  return html`
    <div class="head">
      <h1>Outage</h1>
      <p class="muted">
        The last ${words.span(end - start)}, as the log remembers it. Move the slider: every screen
        shows that moment.
      </p>
      <${Choice}
        label="How far back"
        value=${RANGES[range] ? range : ""}
        of=${RANGE_WORDS}
        onChoose=${(/** @type {string} */ it) => refine({ range: it })}
      />
      ${
        names.length > 12 &&
        html`<div class="filters" role="search">
          <${Search}
            label="Find clusters"
            value=${text}
            onInput=${(/** @type {string} */ q) => refine({ q }, "typed")}
          />
        </div>`
      }
    </div>
    <${Missing}
      of=${[
        ["clusters", feeds.clusters],
        ["bindings", feeds.bindings],
        ["clusterRebalances", feeds.clusterRebalances],
        ["events", history.eventsRead],
      ]}
    />
    ${history.state === "away" && html`<p class="notice warn" role="status">The past cannot be read: ${history.error}</p>`}
    ${isReading && html`<${Awaited}>Reading the log…</${Awaited}>`}
    ${isEmpty && html`<${Empty} title="There is no history yet"><p>As soon as clusters join, this screen shows what becomes of them.</p></${Empty}>`}
    ${
      !isReading &&
      !isEmpty &&
      html`<${Picture}
        names=${names}
        regions=${regions}
        start=${start}
        end=${end}
        moment=${moment}
        text=${text}
        hasClusters=${hasClusters}
      />`
    }
    <${Figures} />
    <${Chronicle} moment=${moment} />
  `;
}

/** The clusters that there were, by name. Who may not read them knows those with replicas. */
function laneNames() {
  const names = new Set(history.changes.map(({ name }) => name));
  for (const { ready } of history.samples) ready.forEach((_, name) => names.add(name));
  return [...names].sort(model.byName);
}

/** The region of each cluster that there was. @returns {Map<string, string>} */
function regionsOf() {
  const found = new Map();
  for (const { name, cluster } of history.changes) if (cluster) found.set(name, cluster.region);
  return found;
}

/** @param {number} at */
async function go(at) {
  const signal = new AbortController().signal;
  const second = Math.ceil(at / 1000) * 1000;
  const isWanted = wish();
  const revision = await revisionAt(Math.min(second, api.now()), signal);
  if (isWanted()) showMoment({ at: second, revision });
}

/** How it was at the moment that is shown. */
function Figures() {
  const clusters = useFeed("clusters");
  const bindings = useBindings();
  const displaced = useDisplacement();
  const { schedule, evictions, health } = useMemo(() => {
    const all = bindings.all();
    return {
      schedule: derive.schedule(all),
      evictions: derive.evictions(all, clusters.items),
      health: derive.health(all, clusters.items),
    };
  }, [...bindings.versions, clusters.version]);
  const ready = [...clusters.items.values()].filter((it) => it.ready?.status === "True").length;
  const away = displaced.count;
  const [some] = bindings.feeds;
  const isCounted = clusters.state !== "forbidden";
  // The taints that make evictions due are not known of clusters that a review counts.
  const known = useBacklog();
  const backlog = clusters.state === "own" ? known : null;
  return html`<div class="figures">
    <${Figure}
      value=${told(some, told(clusters, html`${words.number(health.all.missing)}<small> / ${words.number(health.all.wanted)}</small>`))}
      name="replicas missing"
      tone=${isCounted && health.all.missing ? "bad" : ""}
      tip="Replicas that were wanted at the moment that is shown, and not ready or out of reach."
      href=${link(["placements"], { show: "missing" })}
    />
    <${Figure}
      value=${told(clusters, html`${words.number(ready)}<small> / ${words.number(clusters.items.size)}</small>`)}
      name="clusters ready"
      tone=${ready < clusters.items.size ? "bad" : ""}
      tip="Clusters whose condition Ready was True at the moment that is shown."
      href=${link(["fleet"])}
    />
    <${Figure}
      value=${told(some, words.number(schedule.workloads))}
      name="workloads"
      tip="Bindings that there were at the moment that is shown."
      href=${link(["placements"])}
    />
    <${Figure}
      value=${told(some, backlog || clusters.state !== "own" ? told(clusters, words.number(backlog ? backlog.leaving + backlog.waiting : evictions.running + evictions.waiting)) : told({ state: "forbidden" }, 0))}
      name="evictions begun or due"
      tone=${evictions.waiting ? "bad" : ""}
      tip="Evictions that were in progress, or that a NoExecute taint had made due."
    />
    <${Figure}
      value=${told(displaced, words.number(away))}
      name="displaced"
      tone=${away ? "warn" : ""}
      tip="Workloads that had lost clusters and had not been back, or that broke a rule of their placement."
      href=${link(["placements"], { show: "displaced" })}
    />
  </div>`;
}

/** What happened, in words. @param {{ moment: { at: number } | null }} given */
function Chronicle({ moment }) {
  const [isWhole, show] = useState(false);
  const entries = useMemo(
    () =>
      lanes.chronicle(history.changes, history.evictions, [
        ...feeds.rebalances.items.values(),
        ...feeds.clusterRebalances.items.values(),
      ]),
    [history.version, feeds.rebalances.version, feeds.clusterRebalances.version],
  );
  const shown = isWhole ? entries : entries.slice(0, ENTRIES_FIRST);
  return html`
    <h2 id="chronicle">What happened</h2>
    ${entries.length === 0 && html`<p class="muted">${feeds.clusters.state === "forbidden" ? "What happened to clusters: no access" : "Nothing yet."}</p>`}
    <ol class="chronicle" aria-labelledby="chronicle">
      ${shown.map(
        ({ from, to, tone, what, why }) =>
          html`<li
            class=${`${tone} ${moment && from > moment.at ? "later" : ""}`}
            key=${`${from} ${what}`}
          >
            <button class="quiet" onClick=${() => go(to)} data-tip="Show this moment">
              <time datetime=${new Date(from).toISOString()}>${words.clock(from)}</time>
            </button>
            <${Sign} tone=${tone || "none"} /><span
              ><b>${what}</b> ${why}${
                to - from >= 1000 && html`<span class="muted"> ${`until ${words.clock(to)}`}</span>`
              }</span
            >
          </li>`,
      )}
    </ol>
    ${shown.length < entries.length && html`<button onClick=${() => show(true)}>${words.number(entries.length - shown.length)} earlier</button>`}
  `;
}

/**
 * The lanes and the stack, and over them the moment. Only the moment's line moves while the slider
 * is dragged; the picture below it is drawn when the log has something new.
 * @param {{ names: string[], regions: Map<string, string>, start: number, end: number, moment: { at: number } | null, text: string, hasClusters: boolean }} given
 */
function Picture({ names, regions, start, end, moment, text, hasClusters }) {
  const [held, hold] = useState(/** @type {number | null} */ (null));
  const [opened, open] = useState(/** @type {Set<string>} */ (new Set()));
  const shown = held ?? moment?.at ?? end;
  const isPast = Boolean(moment) || held !== null;
  const rebalances = `${feeds.rebalances.version} ${feeds.clusterRebalances.version}`;
  const toggle = (/** @type {string} */ region) =>
    open((now) => {
      const next = new Set(now);
      if (!next.delete(region)) next.add(region);
      return next;
    });
  const picture = useMemo(
    () => html`
      ${
        hasClusters
          ? html`<${Lanes}
              names=${names}
              regions=${regions}
              start=${start}
              end=${end}
              text=${text}
              opened=${opened}
              onToggle=${toggle}
            />`
          : html`<p class="muted">
              Clusters over time: <small class="no-access">no access</small>. The server counts
              which replicas of the namespace were ready.
            </p>`
      }
      <${Stack} names=${names} regions=${hasClusters ? regions : null} start=${start} end=${end} />
    `,
    [hasClusters, names, regions, start, end, text, opened, history.version, rebalances],
  );
  const part = Math.max(0, Math.min(1, (shown - start) / (end - start)));
  return html`<section
    class="outage"
    aria-label="The past"
    style=${{ "--name": `${Math.max(10, ...names.map((it) => it.length))}ch` }}
  >
    <div class="timeline">
      ${picture}
      <div class="over" aria-hidden="true">
        ${isPast && html`<i class="unseen" style=${{ left: `${part * 100}%` }}></i>`}
        <i class="cursor" style=${{ left: `${part * 100}%` }}></i>
      </div>
    </div>
    <p class="legend" aria-hidden="true">
      ${
        hasClusters &&
        html`<span><i class="swatch lost"></i>lost</span
          ><span><i class="swatch tainted"></i>evicting</span
          ><span><i class="swatch held"></i>closed</span
          ><span><i class="swatch evicted"></i>evicted</span
          ><span><i class="swatch recovered"></i>recovered</span>`
      }<span><i class="swatch missing"></i>missing</span
      ><span><i class="swatch coarse"></i>not read, or known at its ends only</span
      ><span><i class="swatch under-way"></i>rebalance</span>
    </p>
    <${Slider}
      start=${start}
      end=${end}
      shown=${shown}
      isPast=${isPast}
      held=${held}
      hold=${hold}
    />
  </section>`;
}

/** @param {{ start: number, end: number, shown: number, isPast: boolean, held: number | null, hold: (at: number | null) => void }} given */
function Slider({ start, end, shown, isPast, held, hold }) {
  const asking = useRef(/** @type {AbortController | null} */ (null));
  const [first, last] = [Math.floor(start / 1000), Math.ceil(end / 1000)];
  /** @param {number} second */
  const move = (second) => {
    asking.current?.abort();
    if (second >= last - 1) {
      hold(null);
      showMoment(null);
      return;
    }
    const at = second * 1000;
    hold(at);
    const isWanted = wish();
    const abort = new AbortController();
    asking.current = abort;
    setTimeout(async () => {
      if (abort.signal.aborted) return;
      try {
        const revision = await revisionAt(at, abort.signal);
        if (abort.signal.aborted) return;
        if (isWanted()) showMoment({ at, revision });
        hold(null);
      } catch {
        if (!abort.signal.aborted) hold(null);
      }
    }, SETTLE_MS);
  };
  return html`<div class="slider">
    <input
      type="range"
      aria-label="Moment that every screen shows"
      aria-valuetext=${isPast ? `${words.clock(shown)}, ${words.span(api.now() - shown)} ago` : "now"}
      min=${first}
      max=${last}
      step="1"
      value=${isPast ? Math.round(shown / 1000) : last}
      onInput=${(/** @type {any} */ event) => move(Number(event.target.value))}
    />
    <p class="slider-words">
      ${
        isPast
          ? html`<b>${words.clock(shown)}</b>${" "}
              <span class="muted">${words.span(api.now() - shown)} ago</span>
              ${held !== null ? html`<span class="muted">…</span>` : null}
              <button onClick=${() => (hold(null), showMoment(null))}>Back to now</button>`
          : html`<b>now</b>${" "}
              <span class="muted">drag the slider, or use the arrow keys, to go back</span>`
      }
    </p>
  </div>`;
}
