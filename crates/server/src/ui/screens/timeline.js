// @ts-check
/** The picture of the Outage screen: lanes of clusters by region, and replicas stacked over time. */
import * as api from "../api.js";
import { history } from "../history.js";
import * as lanes from "../lanes.js";
import * as model from "../model.js";
import { Name, useWidth } from "../parts.js";
import { feeds } from "../state.js";
import { html, useMemo, useRef } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** The height of the stack, and of the times below it, in pixels. */
const AREA = 190;
const AXIS = 24;
/** More colours than that are not told apart: then regions are stacked, and not clusters. */
const COLOURS = 12;
/** Marks in one part of so many of the picture are one. */
const PARTS = 240;

/** @param {number} start @param {number} end */
const scale = (start, end) => (/** @type {number} */ at) =>
  (Math.max(0, Math.min(1, (at - start) / (end - start))) * 100).toFixed(3);

/**
 * @param {{ names: string[], regions: Map<string, string>, start: number, end: number, text: string, opened: Set<string>, onToggle: (region: string) => void }} given
 */
export function Lanes({ names, regions, start, end, text, opened, onToggle }) {
  const changes = lanes.byName(history.changes);
  const struck = lanes.struck(changes, history.evictions);
  const found = lanes.lines({
    names,
    regionOf: (name) => regions.get(name) ?? "",
    struck,
    opened,
    text,
  });
  const x = scale(start, end);
  const isByCluster = names.length <= COLOURS;
  return html`<div class="lanes" tabindex="0" role="region" aria-label="Clusters over time">
    ${found.length === 0 && html`<p class="muted lanes-empty">No cluster is called ${text}.</p>`}
    ${found.map((it) => {
      if (it.kind === "group")
        return html`<div class="lane lane-group" key=${`group ${it.region}`}>
          <button
            class="quiet lane-label"
            aria-expanded=${it.isOpen}
            tabindex=${it.folded || opened.has(it.region) ? 0 : -1}
            onClick=${() => onToggle(it.region)}
            data-tip=${it.folded ? `${words.counted(it.folded, "cluster")} without anything to see: click shows them` : null}
          >
            <i class=${`fold ${it.isOpen ? "open" : ""}`} aria-hidden="true"></i
            ><b>${it.region || "no region"}</b>${" "}<span class="muted"
              >${it.folded ? `${words.number(it.folded)} well` : words.counted(it.all, "cluster")}</span
            >
          </button>
          <span class="lane-track">
            ${it.folded > 0 && html`<i class="lane-part good" style=${{ left: 0, width: "100%" }}></i>`}
          </span>
        </div>`;
      if (it.kind === "more")
        return html`<div class="lane" key="more">
          <span class="lane-label muted">and ${words.number(it.count)} more</span>
        </div>`;
      return html`<${Lane}
        key=${it.name}
        name=${it.name}
        own=${changes.get(it.name) ?? []}
        x=${x}
        start=${start}
        end=${end}
        hue=${isByCluster ? names.indexOf(it.name) : -1}
      />`;
    })}
  </div>`;
}

/** @param {{ name: string, own: lanes.Change[], x: (at: number) => string, start: number, end: number, hue: number }} given */
function Lane({ name, own, x, start, end, hue }) {
  const found = lanes.segments(name, own, end);
  const evicted = lanes.bundled(
    history.evictions.filter(({ from, at }) => from === name && at >= start),
    (end - start) / PARTS,
  );
  return html`<div class="lane">
    <span class="lane-label">
      ${hue >= 0 && html`<i class="lane-hue" style=${{ background: words.hue(hue) }}></i>`}
      <${Name} name=${name} />
    </span>
    <span class="lane-track">
      ${found.map(({ from, to, tone, tip }) => {
        if (to < start) return null;
        const left = Number(x(from));
        return html`<i
          class=${`lane-part ${tone}`}
          style=${{ left: `${left}%`, width: `max(2px, ${Number(x(to)) - left}%)` }}
          data-tip=${`${tip}, from ${words.clock(from)} for ${words.span(to - from)}`}
        ></i>`;
      })}
      ${evicted.map(
        ([at, n]) =>
          html`<i
            class="lane-evicted"
            style=${{ left: `${x(at)}%` }}
            data-tip=${`${words.counted(n, "eviction")} from ${name} ended at ${words.clock(at)}`}
          ></i>`,
      )}
      ${lanes
        .recoveries(found)
        .map(
          (at) =>
            html`<i
              class="lane-recovered"
              style=${{ left: `${x(at)}%` }}
              data-tip=${`${name} recovered at ${words.clock(at)}`}
            ></i>`,
        )}
    </span>
  </div>`;
}

/** @param {string[]} names @param {Map<string, string> | null} regions `null`: they are not known @returns {{ groups: string[], groupOf: (name: string) => string }} */
function grouping(names, regions) {
  if (names.length <= COLOURS) return { groups: names, groupOf: (name) => name };
  if (!regions)
    return { groups: [...names.slice(0, COLOURS - 1), "others"], groupOf: (name) => name };
  const groupOf = (/** @type {string} */ name) => regions.get(name) ?? "";
  const all = [...new Set(names.map(groupOf))].sort(model.byName);
  return {
    groups: all.length <= COLOURS ? all : [...all.slice(0, COLOURS - 1), "others"],
    groupOf,
  };
}

/** @param {{ names: string[], regions: Map<string, string> | null, start: number, end: number }} given */
export function Stack({ names, regions, start, end }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidth(box, 900);
  const { groups, groupOf } = grouping(names, regions);
  const close = Math.max(2000, (end - start) / 100);
  const columns = useMemo(
    () => lanes.stack(history.samples, groups, groupOf, lanes.losses(history.changes), close),
    [history.version, names],
  );
  const marks = lanes.ticks(Math.max(1, ...columns.map(({ total }) => total)));
  const most = marks.at(-1) ?? 1;
  const isByCluster = names.length <= COLOURS;
  const isReading = history.state !== "live";
  const { read, of } = history.progress;
  return html`<div class="stack">
    <div class="stack-label">
      <p class="muted">ready replicas${isByCluster || !regions ? "" : " by region"}</p>
      ${
        !isByCluster &&
        html`<ul class="stack-legend">
          ${[...groups].reverse().map((it) => html`<li key=${it}><i class="lane-hue" style=${{ background: words.hue(groups.indexOf(it)) }}></i><${Name} name=${it || "no region"} /></li>`)}
        </ul>`
      }
      ${isReading && html`<p class="muted reading" role="status">Reading the log${of > 0 ? `: ${words.percent(read, of)}` : ""}…</p>`}
      ${marks.map((n) => html`<span class="stack-mark axis-name" key=${n} style=${{ top: `${(heightOf(n, most) / (AREA + AXIS)) * 100}%` }}>${most < 100_000 ? words.number(n) : words.compact(n)}</span>`)}
    </div>
    <div class="stack-area" ref=${box}>
      <svg
        width=${width}
        height=${AREA + AXIS}
        role="img"
        aria-label=${`Ready and missing replicas over the last ${words.span(end - start)}, at most ${words.number(most)}`}
      >
        <defs>
          <pattern
            id="missing"
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <rect width="6" height="6" class="missing-ground" />
            <rect width="3" height="6" class="missing-line" />
          </pattern>
          <pattern id="coarse" width="7" height="7" patternUnits="userSpaceOnUse">
            <circle cx="2" cy="2" r="1" class="coarse-dot" />
          </pattern>
        </defs>
        ${marks.map((n) => html`<line class="grid-line" key=${n} x1="0" x2=${width} y1=${heightOf(n, most)} y2=${heightOf(n, most)} />`)}
        <${Areas}
          columns=${columns}
          groups=${groups}
          most=${most}
          width=${width}
          start=${start}
          end=${end}
          isReading=${isReading}
        />
        <${Bands} width=${width} start=${start} end=${end} />
        <${Axis} width=${width} start=${start} end=${end} />
      </svg>
    </div>
  </div>`;
}

/** Where a number of replicas is in the picture, in pixels. @param {number} n @param {number} most */
const heightOf = (n, most) => Number((8 + (AREA - 8) * (1 - n / most)).toFixed(1));

/**
 * What is known at a moment holds until the next. What is not known is not drawn: a line between two
 * moments would tell of something that nobody has seen.
 * @param {{ columns: lanes.Column[], groups: string[], most: number, width: number, start: number, end: number, isReading: boolean }} given
 */
function Areas({ columns, groups, most, width, start, end, isReading }) {
  const at = scale(start, end);
  const x = (/** @type {number} */ time) => ((Number(at(time)) / 100) * width).toFixed(1);
  const sums = columns.map(() => 0);
  const layers = [...groups.keys(), -1].map((i) => {
    const below = [...sums];
    columns.forEach(
      (it, c) => (sums[c] = (sums[c] ?? 0) + (i < 0 ? it.missing : (it.groups[i] ?? 0))),
    );
    return { i, below, above: [...sums] };
  });
  /** Columns that follow each other without a gap. @type {number[][]} */
  const runs = [];
  columns.forEach((it, c) => {
    if (it.isCoarse) return;
    const run = runs.at(-1);
    if (run && run.at(-1) === c - 1) run.push(c);
    else runs.push([c]);
  });
  const endOf = (/** @type {number} */ c) => columns[c + 1]?.at ?? end;
  /** @param {number[]} run @param {number[]} values */
  const line = (run, values) =>
    run.flatMap((c) => {
      const y = heightOf(values[c] ?? 0, most);
      return [`${x(columns[c]?.at ?? end)} ${y}`, `${x(endOf(c))} ${y}`];
    });
  const unread = columns
    .map((it, c) => ({ from: it.at, to: endOf(c), isCoarse: it.isCoarse }))
    .filter(({ isCoarse }) => isCoarse);
  // Before the first moment that is read, too, there is something to read.
  if (isReading && (columns[0]?.at ?? end) > start)
    unread.unshift({ from: start, to: columns[0]?.at ?? end, isCoarse: true });
  return html`<g>
    ${layers.map(({ i, below, above }) => {
      const d = runs
        .map((run) => `M${line(run, above).join("L")}L${line(run, below).reverse().join("L")}Z`)
        .join("");
      const last = columns.at(-1);
      const now = (i < 0 ? last?.missing : last?.groups[i]) ?? 0;
      const name = i < 0 ? "Missing" : groups[i] || "no region";
      return html`<path
        class=${i < 0 ? "area missing" : "area"}
        key=${i}
        d=${d}
        style=${i < 0 ? {} : { fill: words.hue(i) }}
        data-tip=${`${name}: ${words.counted(now, i < 0 ? "replica" : "ready replica")} at the end`}
      />`;
    })}
    ${unread.map(
      ({ from, to }) =>
        html`<rect
          class=${isReading ? "coarse unread" : "coarse"}
          key=${from}
          x=${x(from)}
          y="8"
          width=${Math.max(1, Number(x(to)) - Number(x(from)))}
          height=${AREA - 8}
          data-tip=${isReading ? "Not read yet" : `Known at ${words.clock(from)} and at ${words.clock(to)} only`}
        />`,
    )}
  </g>`;
}

/** Rebalances as bands. @param {{ width: number, start: number, end: number }} given */
function Bands({ width, start, end }) {
  const at = scale(start, end);
  const all = [...feeds.rebalances.items.values(), ...feeds.clusterRebalances.items.values()];
  return all.map((rebalance) => {
    const status = model.map(rebalance.status);
    const began = model.time(status.startedAt);
    const ended = model.time(status.finishTime) ?? api.now();
    if (!began || ended < start) return null;
    const [x1, x2] = [began, ended].map((it) => (Number(at(it)) / 100) * width);
    const tip = `${lanes.titleOf(rebalance)}: ${model.text(status.phase)}, ${words.clock(began)} to ${words.clock(ended)}`;
    return html`<rect
      class="band"
      key=${rebalance.key}
      x=${x1}
      y="0"
      width=${Math.max(3, (x2 ?? 0) - (x1 ?? 0))}
      height=${AREA}
      data-tip=${tip}
    />`;
  });
}

/** @param {{ width: number, start: number, end: number }} given */
function Axis({ width, start, end }) {
  const steps = [
    5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
  ].map((it) => it * 1000);
  const most = Math.max(2, Math.floor(width / 96));
  const step = steps.find((it) => (end - start) / it <= most) ?? 86_400_000;
  const at = scale(start, end);
  const ticks = [];
  // Round times are round where the reader is.
  const shift = new Date(end).getTimezoneOffset() * 60_000;
  const first = Math.ceil((start - shift) / step) * step + shift;
  const tell =
    step < 60_000 ? words.clock : end - start > 86_400_000 ? words.dayTime : words.minute;
  for (let time = first; time < end; time += step) {
    const x = (Number(at(time)) / 100) * width;
    if (x > 28 && x < width - 28) ticks.push({ time, x });
  }
  return html`<g class="axis">
    <line x1="0" x2=${width} y1=${AREA} y2=${AREA} />
    ${ticks.map(({ time, x }) => html`<g key=${time}><line x1=${x} x2=${x} y1=${AREA} y2=${AREA + 5} /><text class="axis-name" x=${x} y=${AREA + 18} text-anchor="middle">${tell(time)}</text></g>`)}
  </g>`;
}
