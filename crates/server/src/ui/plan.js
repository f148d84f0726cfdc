// @ts-check
/** A plan as a picture: replicas before and after, the flows between clusters, and the moves. */
import * as derive from "./derive.js";
import * as model from "./model.js";
import { workloadLink } from "./route.js";
import { html, useMemo, useRef, useState } from "./vendor/preact-htm/standalone.js";
import * as words from "./words.js";
import { Name, Rows, follows, useWidth } from "./parts.js";
import { useFeed } from "./state.js";

/** The height of a line of a move, and what its row has around the lines, in pixels. */
const LINE = 20;
const AROUND = 14;
/** Where there is less room, the changes of a move stand below its name. */
const NARROW = 560;
/** What else a wide row holds: the name of the workload, and the phase. */
const NAME = 290;
const PHASE = 170;
/** About the width of a letter, and the space between two changes. */
const LETTER = 7.6;
const SPACE = 14;
/** Lines that the changes of a move may take. */
const LINES_MAX = 3;
/** Rows of moves that are seen at once. */
const ROWS_SEEN = 9;
const BAND = 16;
const GAP = 6;

/** @typedef {{ name: string, before: number, planned: number, now: number }} Count */

/** Clusters whose bars are seen at first. Beyond them those that change most come first. */
const BARS_FIRST = 15;

/**
 * Bars of each cluster before and after, and now where that is another thing.
 * @param {{ clusters: Count[], hasNow?: boolean }} given
 */
export function Bars({ clusters, hasNow = false }) {
  const [isWhole, show] = useState(false);
  const most = Math.max(
    1,
    ...clusters.flatMap((it) => [it.before, it.planned, hasNow ? it.now : 0]),
  );
  const change = (/** @type {Count} */ it) => Math.abs(it.planned - it.before);
  const isMany = clusters.length > BARS_FIRST;
  const sorted = [...clusters].sort(
    (a, b) => (isMany ? change(b) - change(a) : 0) || model.byName(a.name, b.name),
  );
  const shown = isWhole ? sorted : sorted.slice(0, BARS_FIRST);
  const longest = Math.max(0, ...shown.map(({ name }) => name.length)) * LETTER + 20;
  return html`<ul
      class="before-after"
      aria-label="Replicas by cluster"
      style=${{ "--name": `${Math.max(90, Math.min(hasNow ? 320 : 270, longest))}px` }}
    >
      ${shown.map((it) => html`<${BarOf} key=${it.name} of=${it} most=${most} hasNow=${hasNow} />`)}
    </ul>
    ${isMany && html`<button class="quiet" onClick=${() => show(!isWhole)}>${isWhole ? "Show fewer" : `Show ${words.counted(sorted.length - BARS_FIRST, "more cluster")}`}</button>`}`;
}

/** @param {{ of: Count, most: number, hasNow: boolean }} given */
function BarOf({ of, most, hasNow }) {
  const { name, before, planned, now } = of;
  const change = planned - before;
  const [low, high] = [Math.min(before, planned), Math.max(before, planned)];
  const at = hasNow ? `, ${words.number(now)} now` : "";
  const tip = `${name}: ${words.number(before)} before, ${words.number(planned)} after${at}`;
  return html`<li data-tip=${tip}>
    <span class="before-after-name"><${Name} name=${name} /></span>
    <span class="before-after-track" aria-hidden="true">
      <span class="kept" style=${{ width: `${(low / most) * 100}%` }}></span>
      <span
        class=${change > 0 ? "gain" : "loss"}
        style=${{ width: `${((high - low) / most) * 100}%` }}
      ></span>
      ${hasNow && html`<span class="now-mark" style=${{ left: `${(now / most) * 100}%` }}></span>`}
    </span>
    <span class="number">${words.number(before)}</span><span class="muted">→</span>
    <span class="number"><b>${words.number(planned)}</b></span>
    <span class=${`number ${change > 0 ? "arrived" : change < 0 ? "left" : "muted"}`}
      >${change === 0 ? "·" : words.signed(change)}</span
    >
  </li>`;
}

/**
 * How many replicas go from which cluster to which. A decision says only where replicas are, so
 * those that leave are matched with those that arrive, workload by workload, in order.
 * @param {any[]} moves
 * @returns {{ from: string, to: string, replicas: number, workloads: number }[]}
 */
export function flows(moves) {
  /** @type {Map<string, { from: string, to: string, replicas: number, workloads: number }>} */
  const found = new Map();
  for (const move of moves) {
    const changes = derive.changes(model.shares(move.from), model.shares(move.to));
    const leaving = changes
      .filter((it) => it.change < 0)
      .map((it) => ({ name: it.name, left: -it.change }));
    for (const { name: to, change } of changes.filter((it) => it.change > 0)) {
      let wanted = change;
      for (const source of leaving) {
        const taken = Math.min(wanted, source.left);
        if (taken === 0) continue;
        wanted -= taken;
        source.left -= taken;
        add(source.name, to, taken);
      }
      if (wanted > 0) add("", to, wanted);
    }
    for (const { name, left } of leaving) if (left > 0) add(name, "", left);
  }
  return [...found.values()].sort(
    (a, b) => model.byName(a.from, b.from) || model.byName(a.to, b.to),
  );

  /** @param {string} from @param {string} to @param {number} replicas */
  function add(from, to, replicas) {
    const key = JSON.stringify([from, to]);
    const known = found.get(key) ?? { from, to, replicas: 0, workloads: 0 };
    found.set(key, {
      ...known,
      replicas: known.replicas + replicas,
      workloads: known.workloads + 1,
    });
  }
}

/** More clusters than that on a side are drawn by their regions. */
const ENDS_MAX = 14;

/** Flows between regions, where there are too many clusters to be told apart. @param {ReturnType<typeof flows>} all @param {(name: string) => string} regionOf */
function byRegion(all, regionOf) {
  const of = (/** @type {string} */ name) => (name === "" ? "" : regionOf(name) || "no region");
  /** @type {ReturnType<typeof flows>} */
  const found = [];
  for (const it of all) {
    const [from, to] = [of(it.from), of(it.to)];
    const known = found.find((other) => other.from === from && other.to === to);
    if (known) {
      known.replicas += it.replicas;
      known.workloads += it.workloads;
    } else found.push({ ...it, from, to });
  }
  return found.sort((a, b) => model.byName(a.from, b.from) || model.byName(a.to, b.to));
}

/** @param {{ moves: any[] }} given */
export function Flows({ moves }) {
  const clusters = useFeed("clusters");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidth(box, NARROW, moves.length === 0);
  const all = useMemo(() => {
    const found = flows(moves);
    const ends = Math.max(
      ...["from", "to"].map(
        (side) => new Set(found.map((it) => it[/** @type {"from"} */ (side)])).size,
      ),
    );
    if (ends <= ENDS_MAX) return found;
    const regions = new Map([...clusters.items.values()].map((it) => [it.name, it.region]));
    return byRegion(found, (name) => regions.get(name) ?? "");
  }, [moves, clusters.version]);
  const most = all.reduce((sum, it) => sum + it.replicas, 0);
  if (most === 0) {
    const copies = moves.some((it) =>
      model.shares(it.to).some(({ replicas }) => replicas === null),
    );
    return html`<p class="muted" ref=${box}>
      ${copies ? "Only copies come and go." : "No replica changes its cluster."}
    </p>`;
  }
  const sources = [...new Set(all.map((it) => it.from))];
  const goals = [...new Set(all.map((it) => it.to))].sort(model.byName);
  const rows = Math.max(sources.length, goals.length);
  const height = Math.max(90, rows * (BAND + GAP) + 70);
  const scale = (height - rows * GAP - 10) / most;
  const count = (/** @type {"from" | "to"} */ side, /** @type {string} */ it) =>
    words.number(sum(all, side, it));
  const longest = Math.max(
    ...sources.map((it) => (it || "new").length + count("from", it).length),
    ...goals.map((it) => (it || "removed").length + count("to", it).length),
  );
  const name = Math.max(64, Math.min((longest + 1) * LABEL + 14, width / 3));
  // Where a name does not fit, the words that all names share give way first.
  const brief = words.distinct([...new Set([...sources, ...goals])].filter(Boolean));
  const [left, right] = [
    stack(sources, (it) => sum(all, "from", it)),
    stack(goals, (it) => sum(all, "to", it)),
  ];
  const used = { left: new Map(left), right: new Map(right) };
  return html`<figure class="flows" ref=${box}>
    <svg
      width=${width}
      height=${height}
      role="img"
      aria-label=${`${words.counted(most, "replica")} change their cluster`}
    >
      ${all.map(({ from, to, replicas, workloads }) => {
        const source = sources.indexOf(from);
        const thick = Math.max(1.5, replicas * scale);
        const [y1, y2] = [used.left.get(from) ?? 0, used.right.get(to) ?? 0];
        used.left.set(from, y1 + thick);
        used.right.set(to, y2 + thick);
        const [x1, x2] = [name, width - name];
        const half = (x1 + x2) / 2;
        const d = `M${x1} ${y1 + thick / 2}C${half} ${y1 + thick / 2} ${half} ${y2 + thick / 2} ${x2} ${y2 + thick / 2}`;
        const tip = `${words.counted(replicas, "replica")} of ${words.counted(workloads, "workload")} ${from ? `from ${from}` : "added"} ${to ? `to ${to}` : "removed"}`;
        return html`<path
          class="flow"
          d=${d}
          stroke-width=${thick}
          style=${{ stroke: words.hue(source) }}
          data-tip=${tip}
        />`;
      })}
      ${labels("from", sources, left, "new").map((it) => label(it, name - 8, "end"))}
      ${labels("to", goals, right, "removed").map((it) => label(it, width - name + 8, "start"))}
    </svg>
  </figure>`;

  /**
   * The labels of a side, each beside the middle of its band, and none over another.
   * @param {"from" | "to"} side @param {string[]} ends @param {Map<string, number>} tops @param {string} other
   */
  function labels(side, ends, tops, other) {
    const ys = ends.map((it) => (tops.get(it) ?? 0) + (sum(all, side, it) * scale) / 2);
    const found = words.apart(ys, LABEL_LINE, 6, height - 6);
    return ends.map((it, i) => {
      const [text, told] = [it || other, count(side, it)];
      const letters = Math.floor((name - 14) / LABEL) - told.length - 1;
      const shown = text.length <= letters ? text : (brief.get(it) ?? text);
      return { text, told, y: found[i] ?? 0, shown: words.cut(shown, Math.max(3, letters)) };
    });
  }

  /** @param {string[]} names @param {(name: string) => number} of @returns {Map<string, number>} */
  function stack(names, of) {
    let y = 5;
    return new Map(
      names.map((it) => {
        const at = y;
        y += of(it) * scale + GAP;
        return [it, at];
      }),
    );
  }
}

/** @param {ReturnType<typeof flows>} all @param {"from" | "to"} side @param {string} name */
const sum = (all, side, name) =>
  all.filter((it) => it[side] === name).reduce((n, it) => n + it.replicas, 0);

/** The width of a letter of a label. */
const LABEL = 7.3;
/** The least distance of two labels, in pixels. */
const LABEL_LINE = 14;

/** @param {{ text: string, told: string, y: number, shown: string }} given @param {number} x @param {string} anchor */
const label = ({ text, told, y, shown }, x, anchor) =>
  html`<text
    class="axis-name"
    x=${x}
    y=${y + 4}
    text-anchor=${anchor}
    data-tip=${`${text}: ${told} replicas`}
    >${shown} <tspan class="flow-number">${told}</tspan></text
  >`;

/**
 * The moves of a plan or a run.
 * @param {{ moves: any[], hasPhase?: boolean, more?: number }} given
 */
export function Moves({ moves, hasPhase = false, more = 0 }) {
  const [active, activate] = useState(0);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidth(box, NARROW, moves.length === 0);
  const sorted = useMemo(
    () =>
      [...moves]
        .sort((a, b) => model.byName(nameOf(a), nameOf(b)))
        .map((move) => ({ move, changes: changesOf(move) })),
    [moves],
  );
  const isNarrow = width < NARROW;
  const room = isNarrow ? width - 28 : width - NAME - (hasPhase ? PHASE : 0);
  // All rows are as high as the one that needs most, so that the place of each is known.
  const lines = useMemo(
    () => Math.max(1, ...sorted.slice(0, SIZED_MAX).map(({ changes }) => fit(changes, room).lines)),
    [sorted, room],
  );
  if (moves.length === 0) return html`<p class="muted">No workload would move.</p>`;
  const rowHeight = AROUND + LINE * (lines + (isNarrow ? 1 : 0));
  const seen = Math.min(moves.length, ROWS_SEEN);
  return html`<div
    class="moves"
    ref=${box}
    style=${{ "--rows-height": `${seen * rowHeight}px`, "--move-line": `${LINE}px` }}
  >
    <${Rows}
      count=${moves.length}
      rowHeight=${rowHeight}
      label="Moves"
      ids="move"
      active=${Math.min(active, moves.length - 1)}
      onActive=${activate}
      onOpen=${(/** @type {number} */ index) => (location.hash = workloadLink(sorted[index]?.move.binding))}
      row=${(/** @type {number} */ index) => {
        const entry = sorted[index];
        if (!entry) return null;
        const { move, changes } = entry;
        const { shown } = fit(changes, room);
        const place = model.text(move.workload?.namespace) || model.text(move.binding?.namespace);
        return html`<div
          class=${`table-row move-row ${isNarrow ? "stacked" : ""} ${index === active ? "active" : ""}`}
          role="row"
          id=${`move-${index}`}
          key=${`${place}/${move.binding?.name}`}
          onClick=${follows(workloadLink(move.binding))}
          style=${{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
        >
          <span role="rowheader" class="move-name"
            ><a class="row-link" tabindex="-1" href=${workloadLink(move.binding)}
              >${place && html`<span class="muted namespace">${place}/</span>`}<${Name}
                name=${model.text(move.workload?.name)}
            /></a>
          </span>
          <span
            role="gridcell"
            class="move-changes"
            data-tip=${shown < changes.length ? changes.map(({ told }) => told).join(", ") : null}
          >
            ${changes.slice(0, shown).map(({ short, arrives }) => html`<span class=${arrives ? "arrived" : "left"}>${short}</span>`)}
            ${shown < changes.length && html`<span class="muted">${words.counted(changes.length - shown, "more", "more")}</span>`}
            ${changes.length === 0 && html`<span class="muted">stays</span>`}
          </span>
          ${hasPhase && html`<${PhaseChip} move=${move} />`}
        </div>`;
      }}
    />
    ${more > 0 && html`<p class="muted">and ${words.counted(more, "more")} that are not listed</p>`}
  </div>`;
}

/** Moves whose changes are looked at for the height of the rows. */
const SIZED_MAX = 2000;

/** @typedef {{ short: string, told: string, arrives: boolean }} Change as it is shown, and whole */

/** What fits nowhere stays where it is. @param {any} move @returns {Change[]} */
const changesOf = (move) =>
  model.list(move.to).length === 0
    ? []
    : derive
        .changes(model.shares(move.from), model.shares(move.to))
        .map(({ name, before, after, isCopy, arrives }) => {
          const what = isCopy ? (arrives ? "→ copy" : "→ gone") : `${before} → ${after}`;
          return { short: `${words.cut(name, 30)} ${what}`, told: `${name} ${what}`, arrives };
        });

/**
 * How many lines the changes take, and how many are shown: some only where not all of them fit.
 * @param {Change[]} changes @param {number} room in pixels
 */
function fit(changes, room) {
  let [lines, used] = [1, 0];
  for (let at = 0; at < changes.length; at += 1) {
    const width = (changes[at]?.short.length ?? 0) * LETTER;
    if (used > 0 && used + SPACE + width > room) {
      // The last one makes room for how many more there are.
      if (lines === LINES_MAX) return { lines, shown: at - 1 };
      lines += 1;
      used = 0;
    }
    used += (used > 0 ? SPACE : 0) + width;
  }
  return { lines, shown: changes.length };
}

/** @param {any} move */
const nameOf = (move) =>
  `${model.text(move.binding?.namespace)}/${model.text(move.workload?.name)}`;

/** The phases of moves: their tones and words. @type {Record<string, [string, string]>} */
const PHASES = {
  Settled: ["good", "moved"],
  Moving: ["home", "in progress"],
  Pending: ["", "pending"],
  Failed: ["bad", "failed"],
  Superseded: ["warn", "superseded"],
  Unchanged: ["", "unchanged"],
};

/** The tone and the word of a phase. @param {string} phase @returns {[string, string]} */
export const phaseOf = (phase) => PHASES[phase] ?? ["", phase];

/** @param {{ move: any }} given */
function PhaseChip({ move }) {
  const [tone, word] = phaseOf(move.phase);
  return html`<span role="gridcell" class=${`chip ${tone}`} data-tip=${move.message || null}
    >${word}${move.reason && ` · ${move.reason}`}</span
  >`;
}

/** The workloads that do not move, each with its reason and what would help. @param {{ entries: any[], what: string }} given */
export function Stuck({ entries, what }) {
  if (entries.length === 0) return null;
  return html`<section class="panel warn">
    <h2>${words.counted(entries.length, "workload")} ${what}</h2>
    <ul>
      ${entries
        .slice(0, 100)
        .map(
          (it) =>
            html`<li key=${it.binding?.uid || it.binding?.name}>
              <a href=${workloadLink(it.binding ?? { name: "" })}
                >${model.text(it.workload?.namespace) && `${it.workload.namespace}/`}${model.text(it.workload?.name)}</a
              >: ${" "}${model.text(it.message) || model.text(it.reason)}
            </li>`,
        )}
    </ul>
    ${entries.length > 100 && html`<p class="muted">and ${words.number(entries.length - 100)} more</p>`}
  </section>`;
}
