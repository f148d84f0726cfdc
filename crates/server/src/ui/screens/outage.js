// @ts-check
/** Outage: the last hour, a lane for each cluster over the stacked replicas, and a slider. */
import * as api from "../api.js";
import * as derive from "../derive.js";
import { history, revisionAt } from "../history.js";
import * as model from "../model.js";
import { Empty, Figure, Missing, useWidth } from "../parts.js";
import { link } from "../route.js";
import {
  currentMoment,
  feeds,
  showMoment,
  useBindings,
  useChanges,
  useDisplacement,
  useFeed,
  useTick,
  wish,
} from "../state.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

const RIGHT = 14;
const TOP = 6;
const AREA = 190;
const AXIS = 24;
/** The pause before a moved slider asks the server. */
const SETTLE_MS = 90;

/** The right end of the scale, once somebody looks back. */
let standing = 0;

/** @typedef {{ from: number, to: number, tone: string, tip: string }} Segment */
/** @typedef {{ at: number, tone: string, what: string, why: string }} Entry */

export function OutageScreen() {
  useChanges();
  useTick(2000);
  useEffect(() => history.use(), []);
  const clusters = useFeed("clusters");
  const bindings = useBindings();
  const displaced = useDisplacement();
  const moment = currentMoment();
  // The scale stands still while somebody looks back: nothing moves below the pointer.
  if (!moment) standing = api.now();
  const end = Math.max(standing, moment?.at ?? 0);
  const start = Math.min(history.start || end - 60_000, end - 20_000);
  const names = useMemo(() => laneNames(), [history.version]);
  const entries = useMemo(
    () => chronicle(names),
    [history.version, history.evictions.length, feeds.rebalances.version],
  );
  const { schedule, evictions } = useMemo(() => {
    const all = bindings.all();
    return { schedule: derive.schedule(all), evictions: derive.evictions(all, clusters.items) };
  }, [...bindings.versions, clusters.version]);
  const ready = [...clusters.items.values()].filter((it) => it.ready?.status === "True").length;
  const away = displaced.count;
  return html`
    <div class="head">
      <h1>Outage</h1>
      <p class="muted">
        The last ${words.span(end - start)}, as the log remembers it. Move the slider: every screen
        shows that moment.
      </p>
    </div>
    <${Missing}
      of=${[
        ["clusters", feeds.clusters],
        ["bindings", feeds.bindings],
        ["rebalances", feeds.rebalances],
        ["reviews", displaced],
        ["events", history.eventsRead],
      ]}
    />
    ${history.state === "away" && html`<p class="notice warn" role="status">The past cannot be read: ${history.error}</p>`}
    ${
      names.length === 0 && history.state === "live"
        ? html`<${Empty} title="There is no history yet"><p>As soon as clusters join, this screen shows what becomes of them.</p></${Empty}>`
        : html`<${Chart} names=${names} start=${start} end=${end} moment=${moment} />`
    }
    <div class="figures">
      <${Figure}
        value=${html`${ready}<small> / ${clusters.items.size}</small>`}
        name="clusters ready"
        tone=${ready < clusters.items.size ? "bad" : ""}
        tip="Clusters whose condition Ready was True at the moment that is shown."
        href=${link(["fleet"])}
      />
      <${Figure}
        value=${words.number(schedule.workloads)}
        name="workloads"
        tip="Bindings that there were at the moment that is shown."
        href=${link(["placements"])}
      />
      <${Figure}
        value=${words.number(evictions.running + evictions.waiting)}
        name="evictions"
        tone=${evictions.waiting ? "bad" : ""}
        tip="Evictions that were under way, or that a NoExecute taint had made due."
      />
      <${Figure}
        value=${displaced.state === "live" ? words.number(away) : "–"}
        name="displaced"
        tone=${away ? "warn" : ""}
        tip="Workloads that had lost clusters and had not been back, or that broke a rule of their placement."
        href=${link(["placements"], { show: "displaced" })}
      />
    </div>
    <h2 id="chronicle">What happened</h2>
    ${entries.length === 0 && html`<p class="muted">Nothing yet.</p>`}
    <ol class="chronicle" aria-labelledby="chronicle">
      ${entries.map(
        ({ at, tone, what, why }) =>
          html`<li class=${`${tone} ${moment && at > moment.at ? "later" : ""}`}>
            <button class="quiet" onClick=${() => go(at)} data-tip="Show this moment">
              <time datetime=${new Date(at).toISOString()}>${words.clock(at)}</time>
            </button>
            <i class="dot"></i><span><b>${what}</b> ${why}</span>
          </li>`,
      )}
    </ol>
  `;
}

/** @param {number} at */
async function go(at) {
  const signal = new AbortController().signal;
  const second = Math.ceil(at / 1000) * 1000;
  const isWanted = wish();
  const revision = await revisionAt(Math.min(second, api.now()), signal);
  if (isWanted()) showMoment({ at: second, revision });
}

/** The clusters that there were, by name. Who may not read them knows those with replicas. */
function laneNames() {
  const names = new Set(history.changes.map(({ name }) => name));
  for (const { counts } of history.samples) counts.forEach((_, name) => names.add(name));
  return [...names].sort(model.byName);
}

/** How a cluster was from change to change. @param {string} name @param {number} end @returns {Segment[]} */
function segments(name, end) {
  const own = history.changes.filter((it) => it.name === name);
  return own
    .map(({ at, cluster }, i) => {
      const to = own[i + 1]?.at ?? end;
      if (!cluster) return { from: at, to, tone: "gone", tip: `${name} is gone` };
      const state = derive.readiness(cluster);
      const taints = cluster.taints.map(({ key, effect }) => `${key} ${effect}`).join(", ");
      const isSilent = !cluster.ready && !cluster.leaving;
      const tone = isSilent
        ? "silent"
        : state.tone === "good" && derive.evicts(cluster)
          ? "warn"
          : state.tone;
      const why =
        cluster.ready && tone !== "good"
          ? `: ${cluster.ready.message || cluster.ready.reason}`
          : "";
      return {
        from: at,
        to,
        tone,
        tip: `${name}: ${state.word}${why}${taints && `; taints ${taints}`}`,
      };
    })
    .filter(({ from, to }) => to > from);
}

/** What happened, in words, the newest first. @param {string[]} names @returns {Entry[]} */
function chronicle(names) {
  /** @type {Entry[]} */
  const found = [];
  /** @type {Map<string, model.Cluster | null>} */
  const last = new Map();
  for (const { at, cluster, name } of history.changes) {
    const before = last.get(name);
    last.set(name, cluster);
    if (!cluster) found.push({ at, tone: "bad", what: `${name} is gone`, why: "" });
    else if (before === undefined || before === null) {
      found.push({ at, tone: "", what: `${name} joined`, why: "" });
      // The first report belongs to the joining.
      if (!cluster.ready)
        last.set(name, {
          ...cluster,
          ready: { status: "True", reason: "", message: "", since: null },
        });
    } else if (
      before.ready?.status === "True" &&
      cluster.ready &&
      cluster.ready.status !== "True"
    ) {
      found.push({
        at,
        tone: "bad",
        what: `${name} was lost:`,
        why: cluster.ready.message || cluster.ready.reason,
      });
    } else if (before.ready && before.ready.status !== "True" && cluster.ready?.status === "True") {
      found.push({ at, tone: "good", what: `${name} is ready again`, why: "" });
    }
    if (before && cluster && !derive.evicts(before) && derive.evicts(cluster)) {
      found.push({
        at,
        tone: "warn",
        what: `${name} was tainted:`,
        why: "what runs there is evicted",
      });
    }
    if (before && cluster && derive.evicts(before) && !derive.evicts(cluster)) {
      found.push({ at, tone: "good", what: `${name} lost its taint`, why: "" });
    }
  }
  for (const name of names) {
    const own = history.evictions.filter(({ from }) => from === name);
    if (own.length === 0) continue;
    const at = Math.max(...own.map((it) => it.at));
    found.push({
      at,
      tone: "warn",
      what: words.counted(own.length, "eviction"),
      why: `from ${name} came to an end`,
    });
  }
  for (const rebalance of feeds.rebalances.items.values()) found.push(...ofRebalance(rebalance));
  const joined = found.filter(({ what }) => what.endsWith(" joined"));
  const rest = found.filter(({ what }) => !what.endsWith(" joined"));
  // A fleet that joins at once is one entry.
  if (joined.length > 3) {
    const at = Math.max(...joined.map((it) => it.at));
    rest.push({ at, tone: "", what: `${joined.length} clusters joined`, why: "" });
  } else rest.push(...joined);
  return rest.sort((a, b) => b.at - a.at).slice(0, 100);
}

/** @param {any} rebalance @returns {Entry[]} */
function ofRebalance(rebalance) {
  const status = model.map(rebalance.status);
  const summary = model.map(status.summary);
  const name = model.text(model.map(rebalance.metadata).name);
  const [began, ended] = [model.time(status.startedAt), model.time(status.finishTime)];
  /** @type {Entry[]} */
  const found = [];
  if (began)
    found.push({
      at: began,
      tone: "home",
      what: `Rebalance ${name} began:`,
      why: `${words.counted(model.count(summary.toMove), "workload")} to move`,
    });
  if (ended) {
    const isBad = status.phase === "Aborted";
    const why = `${model.count(summary.settled)} moved, ${model.count(summary.failed)} failed`;
    found.push({
      at: ended,
      tone: isBad ? "bad" : "good",
      what: `Rebalance ${name} ${isBad ? "was aborted" : "completed"}:`,
      why,
    });
  }
  return found;
}

/** @param {{ names: string[], start: number, end: number, moment: { at: number } | null }} given */
function Chart({ names, start, end, moment }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidth(box, 900);
  const [held, hold] = useState(/** @type {number | null} */ (null));
  const isNarrow = width < 560;
  const left = isNarrow ? 88 : 104;
  const lane = names.length > 40 ? 6 : names.length > 16 ? 12 : 20;
  const lanes = names.length * lane;
  const height = TOP + lanes + 14 + AREA + AXIS;
  /** @param {number} at */
  const x = (at) =>
    left + ((Math.max(start, Math.min(end, at)) - start) / (end - start)) * (width - left - RIGHT);
  const shown = held ?? moment?.at ?? end;
  return html`<div class="outage" ref=${box}>
    <svg
      width=${width}
      height=${height}
      viewBox=${`0 0 ${width} ${height}`}
      role="img"
      aria-label=${`${names.length} clusters over the last ${words.span(end - start)}`}
    >
      <${Bands} x=${x} height=${height - AXIS} />
      ${names.map((name, i) => html`<${Lane} key=${name} name=${name} index=${i} top=${TOP + i * lane} height=${lane} left=${left} x=${x} end=${end} start=${start} />`)}
      <${Stack} names=${names} x=${x} left=${left} top=${TOP + lanes + 14} end=${end} at=${shown} />
      <${Axis} x=${x} start=${start} end=${end} top=${height - AXIS} width=${width} left=${left} />
      <g class="cursor" aria-hidden="true">
        <line x1=${x(shown)} x2=${x(shown)} y1="0" y2=${height - AXIS + 4} />
        ${moment || held !== null ? html`<rect class="unseen" x=${x(shown)} y="0" width=${Math.max(0, width - RIGHT - x(shown))} height=${height - AXIS} />` : null}
      </g>
    </svg>
    <p class="legend" aria-hidden="true">
      <span><i class="swatch lost"></i>lost</span><span><i class="swatch tainted"></i>tainted</span
      ><span><i class="swatch evicted"></i>evicted</span
      ><span><i class="swatch recovered"></i>recovered</span
      ><span><i class="swatch under-way"></i>rebalance</span>
    </p>
    <${Slider}
      start=${start}
      end=${end}
      shown=${shown}
      isPast=${Boolean(moment) || held !== null}
      left=${left}
      held=${held}
      hold=${hold}
    />
  </div>`;
}

/** @param {{ start: number, end: number, shown: number, isPast: boolean, left: number, held: number | null, hold: (at: number | null) => void }} given */
function Slider({ start, end, shown, isPast, left, held, hold }) {
  const asking = useRef(/** @type {AbortController | null} */ (null));
  const wanted = useRef(/** @type {number | null} */ (null));
  const [first, last] = [Math.floor(start / 1000), Math.ceil(end / 1000)];
  /** @param {number} second */
  const move = (second) => {
    asking.current?.abort();
    if (second >= last - 1) {
      hold(null);
      wanted.current = null;
      showMoment(null);
      return;
    }
    const at = second * 1000;
    hold(at);
    wanted.current = at;
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
  return html`<div
    class="slider"
    style=${{ paddingLeft: `${left - 8}px`, paddingRight: `${RIGHT - 8}px` }}
  >
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

/** @param {{ name: string, index: number, top: number, height: number, left: number, x: (at: number) => number, end: number, start: number }} given */
function Lane({ name, index, top, height, left, x, end, start }) {
  const middle = top + height / 2;
  const found = useMemo(() => segments(name, end), [name, history.version, Math.floor(end / 2000)]);
  const thick = Math.max(3, Math.min(10, height - 8));
  const struck = useMemo(
    () => bySecond(history.evictions.filter(({ from }) => from === name)),
    [history.version],
  );
  return html`<g class="lane">
    ${
      height >= 12 &&
      html`<circle cx="6" cy=${middle} r="4" style=${{ fill: words.hue(index) }} />
        <text class="lane-name" x="16" y=${middle + 4}
          >${words.cut(name, Math.floor((left - 20) / 7))}</text
        >`
    }
    ${found.map(({ from, to, tone, tip }) => {
      const [x1, x2] = [x(from), x(to)];
      if (to < start || x2 <= x1) return null;
      const size = tone === "good" ? 2 : thick;
      return html`<rect
        class=${`lane-part ${tone}`}
        x=${x1}
        y=${middle - size / 2}
        width=${Math.max(1, x2 - x1)}
        height=${size}
        rx=${size > 2 ? 2 : 0}
        data-tip=${`${tip}, from ${words.clock(from)} for ${words.span(to - from)}`}
      />`;
    })}
    ${
      height >= 12 &&
      struck.map(
        ([at, n]) =>
          html`<path
            class="evicted"
            d=${`M${x(at) - 4} ${middle - thick / 2 - 7}h8l-4 7z`}
            data-tip=${`${words.counted(n, "eviction")} from ${name} came to an end at ${words.clock(at)}`}
          />`,
      )
    }
    ${height >= 12 && recoveries(found).map((at) => html`<circle class="recovered" cx=${x(at)} cy=${middle} r="4" data-tip=${`${name} recovered at ${words.clock(at)}`} />`)}
  </g>`;
}

/** @param {{ at: number }[]} entries @returns {[number, number][]} */
function bySecond(entries) {
  /** @type {Map<number, number>} */
  const found = new Map();
  for (const { at } of entries) found.set(at, (found.get(at) ?? 0) + 1);
  return [...found];
}

/** @param {Segment[]} found */
const recoveries = (found) =>
  found
    .filter(
      (it, i) =>
        it.tone === "good" &&
        ["bad", "gone", "warn"].includes(found[i - 1]?.tone ?? "") &&
        i > 1 &&
        found.slice(0, i).some((b) => b.tone === "good"),
    )
    .map(({ from }) => from);

/** Rebalances as bands behind everything. @param {{ x: (at: number) => number, height: number }} given */
function Bands({ x, height }) {
  return [...feeds.rebalances.items.values()].map((rebalance) => {
    const status = model.map(rebalance.status);
    const began = model.time(status.startedAt);
    if (!began) return null;
    const ended = model.time(status.finishTime) ?? api.now();
    const name = model.text(rebalance.metadata?.name);
    const [x1, x2] = [x(began), x(ended)];
    const tip = `Rebalance ${name}: ${model.text(status.phase)}, ${words.clock(began)} to ${words.clock(ended)}`;
    return html`<rect
      class="band"
      x=${x1}
      y="0"
      width=${Math.max(3, x2 - x1)}
      height=${height}
      data-tip=${tip}
    />`;
  });
}

/** @param {{ names: string[], x: (at: number) => number, left: number, top: number, end: number, at: number }} given */
function Stack({ names, x, left, top, end, at }) {
  const { samples } = history;
  const most = Math.max(1, ...samples.map(({ total }) => total));
  /** @param {number} n */
  const y = (n) => top + AREA - (n / most) * AREA;
  const areas = useMemo(() => {
    const sums = samples.map(() => 0);
    return names.map((name) => {
      const below = [...sums];
      samples.forEach(({ counts }, i) => (sums[i] = (sums[i] ?? 0) + (counts.get(name) ?? 0)));
      return { name, below, above: [...sums] };
    });
  }, [history.version, names]);
  const xs = samples.map((it) => it.at).concat(end);
  const reading = history.sampleAt(at);
  /** Steps: what is known at a moment holds until the next. @param {number[]} values */
  const steps = (values) =>
    values.map(
      (value, i) =>
        `L${x(xs[i] ?? end).toFixed(1)} ${y(value).toFixed(1)}L${x(xs[i + 1] ?? end).toFixed(1)} ${y(value).toFixed(1)}`,
    );
  return html`<g class="stack">
    <line class="grid" x1=${left} x2=${x(end)} y1=${y(0)} y2=${y(0)} />
    <line class="grid" x1=${left} x2=${x(end)} y1=${y(most / 2)} y2=${y(most / 2)} />
    <text class="axis-name" x=${left - 8} y=${y(most) + 10} text-anchor="end"
      >${words.compact(most)}</text
    >
    <text class="axis-name" x=${left - 8} y=${y(most / 2) + 4} text-anchor="end"
      >${words.compact(Math.round(most / 2))}</text
    >
    <text class="axis-name" x=${left - 8} y=${y(0)} text-anchor="end">0</text>
    <text class="axis-title" x="0" y=${top + 24}>replicas</text>
    ${
      samples.length > 0 &&
      areas.map(({ name, below, above }, i) => {
        const back = steps(below).join("").split("L").filter(Boolean).reverse();
        const d = `M${steps(above).join("").slice(1)}L${back.join("L")}Z`;
        const now = reading?.counts.get(name) ?? 0;
        return html`<path
          class="area"
          key=${name}
          d=${d}
          style=${{ fill: words.hue(i) }}
          data-tip=${`${name}: ${words.counted(now, "replica")} at ${words.clock(at)}`}
        />`;
      })
    }
    ${samples.length === 0 && html`<text class="axis-name" x=${left + 12} y=${top + AREA / 2}>Reading the log…</text>`}
  </g>`;
}

/** @param {{ x: (at: number) => number, start: number, end: number, top: number, width: number, left: number }} given */
function Axis({ x, start, end, top, width, left }) {
  const steps = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800].map((it) => it * 1000);
  const most = Math.max(2, Math.floor((width - left) / 96));
  const step = steps.find((it) => (end - start) / it <= most) ?? 3_600_000;
  const ticks = [];
  for (let at = Math.ceil(start / step) * step; at < end; at += step) ticks.push(at);
  return html`<g class="axis">
    ${ticks.map((at) => html`<g><line x1=${x(at)} x2=${x(at)} y1=${top} y2=${top + 5} /><text class="axis-name" x=${x(at)} y=${top + 18} text-anchor="middle">${words.clock(at)}</text></g>`)}
  </g>`;
}
