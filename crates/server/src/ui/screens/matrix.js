// @ts-check
/** Workloads by clusters or by regions: a number in each cell, with what left and what arrived. */
import * as derive from "../derive.js";
import * as model from "../model.js";
import { Name, Rows, Sign, follows } from "../parts.js";
import { workloadLink } from "../route.js";
import { recent } from "../state.js";
import { html, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

const ROW = 34;
/** The height of the heads where names of clusters take four lines. */
const HEAD_LONG = 70;
const CELL_MIN = 74;
const CELL_MAX = 120;
/** Where long names stand in several lines. */
const CELL_LONG = 92;
/** The width of a letter of a cluster's name, and what is left and right of the name. */
const LETTER = 8.6;
const BESIDE = 16;
const NAME = 264;
const NAME_MIN = 190;
/** Rows whose names are measured, and what stands beside a name. */
const MEASURED_MAX = 5000;
const BESIDE_NAME = 110;
/** The largest part of the picture that the names may have. */
const NAME_PART = 0.45;
const NAME_NARROW = 150;

/**
 * Workloads by clusters, or by regions where `regionOf` says of which region a cluster is.
 * @param {{ rows: model.Binding[], columns: string[], displaced: any, clusters: Map<string, model.Cluster>, lost: Set<string>, isCounted: boolean, regionOf: ((cluster: string) => string) | null }} given
 *   isCounted: it is known which clusters can be reached
 */
export function Matrix({ rows, columns, displaced, clusters, lost, isCounted, regionOf }) {
  const [active, activate] = useState(0);
  const [column, choose] = useState(-1);
  const [view, look] = useState({ left: 0, width: 1200 });
  const isNarrow = view.width < 560;
  const room = Math.floor((view.width - NAME) / Math.max(1, columns.length));
  const longest = Math.max(0, ...columns.map((it) => it.length)) * LETTER + BESIDE;
  const isLong = longest > CELL_MAX;
  const CELL = Math.max(
    CELL_MIN,
    Math.min(CELL_MAX, room),
    isLong ? CELL_LONG : Math.min(CELL_MAX, Math.ceil(longest)),
  );
  // Where that lets all columns be seen at once, the names give way a little.
  const beside = view.width - columns.length * CELL;
  const widest = useMemo(() => wantedOf(rows), [rows]);
  const most = Math.max(NAME, Math.min(widest, view.width * NAME_PART));
  const name = isNarrow ? NAME_NARROW : beside >= NAME_MIN ? Math.min(most, beside) : NAME;
  const heads = words.distinct(columns);
  // Columns beyond the view are not in the document either.
  const first = Math.max(0, Math.floor(view.left / CELL) - 2);
  const last = Math.min(columns.length, Math.ceil((view.left + view.width - name) / CELL) + 2);
  const seen = columns.slice(first, last);
  const states = new Map([...clusters.values()].map((it) => [it.name, derive.readiness(it)]));
  const current = Math.min(active, rows.length - 1);
  const header = html`<div
    class=${`rows-head ${isLong ? "long" : ""}`}
    role="row"
    style=${{ height: `${isLong ? HEAD_LONG : ROW}px` }}
  >
    <span class="cell name" role="columnheader" style=${{ width: `${name}px` }}>workload</span>
    ${seen.map(
      (it, i) =>
        html`<span
          class=${`cell number ${states.get(it)?.tone ?? ""}`}
          role="columnheader"
          key=${it}
          style=${{ left: `${name + (first + i) * CELL}px`, width: `${CELL}px` }}
          data-tip=${regionOf ? `Region ${it || "without a name"}` : `${it}: ${states.get(it)?.word ?? "not a cluster any more"}`}
          ><span class="head-name">${heads.get(it) || "no region"}</span></span
        >`,
    )}
  </div>`;
  return html`<div class="table">
    <${Rows}
      count=${rows.length}
      rowHeight=${ROW}
      width=${name + columns.length * CELL}
      label=${regionOf ? "Workloads by regions" : "Workloads by clusters"}
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
        const { wanted, ready, missing } = derive.standing(binding, lost);
        const isStuck = derive.isUnschedulable(binding);
        const isPartly = binding.scheduled?.reason === "PartlyScheduled";
        return html`<div
          class=${`table-row ${index === current ? "active" : ""}`}
          role="row"
          key=${binding.key}
          id=${`row-${index}`}
          aria-rowindex=${index + 2}
          onClick=${follows(workloadLink(binding))}
          style=${{ top: `${index * ROW}px`, height: `${ROW}px` }}
        >
          <span
            class="cell name"
            role="rowheader"
            style=${{ width: `${name}px` }}
            data-tip=${`${binding.workload.kind} ${derive.title(binding)}, ${words.counted(binding.replicas, "replica")}: ${derive.told(binding.targets)}${isPartly ? `. ${binding.scheduled?.message}` : ""}`}
          >
            <${Sign}
              tone=${isStuck && !isPartly ? "bad" : isPartly || move ? "home" : missing && isCounted ? "warn" : "none"}
            />
            <a class="row-link" tabindex="-1" href=${workloadLink(binding)}
              >${binding.namespace && html`<span class="muted namespace">${binding.namespace}/</span>`}<${Name}
                name=${binding.workload.name}
            /></a>
            ${!isNarrow && !isCounted && html`<small class="no-access">no access</small>`}
            ${!isNarrow && isCounted && wanted > 0 && html`<span class=${`ready-of ${missing ? "bad-word" : "muted"}`} data-tip=${`${ready} of ${wanted} wanted replicas are ready`}>${ready}/${wanted}</span>`}
          </span>
          ${cells(binding, seen, move, regionOf, lost).map(
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
        </div>`;
      }}
    />
    <p class="legend">
      <span><i class="swatch arrived"></i>arrived</span><span><i class="swatch left"></i>left</span
      ><span><i class="swatch home"></i>to return</span
      ><span><i class="swatch cell-lost"></i>lost cluster</span><span>✓ a copy, not divided</span
      ><span><${Sign} tone="warn" />replicas missing</span
      ><span><${Sign} tone="bad" />unschedulable</span><span><${Sign} tone="home" />displaced</span>
      <span class="muted" aria-live="polite"
        >${told(rows[current], columns[column], displaced, regionOf, lost)}</span
      >
    </p>
  </div>`;
}

/** About the width that the names need. @param {model.Binding[]} rows */
function wantedOf(rows) {
  let most = 0;
  for (const { namespace, workload } of rows.slice(0, MEASURED_MAX))
    most = Math.max(most, namespace.length + 1 + workload.name.length);
  return most * 7.9 + BESIDE_NAME;
}

/** What the chosen cell says, for who moves by keys. @param {model.Binding | undefined} binding @param {string | undefined} column @param {any} displaced @param {((cluster: string) => string) | null} regionOf @param {Set<string>} lost */
function told(binding, column, displaced, regionOf, lost) {
  if (!binding || column === undefined) return "";
  return (
    cells(binding, [column], displaced.moves.get(binding.key), regionOf, lost)[0]?.tip ||
    `Nothing of ${derive.title(binding)} on ${column}`
  );
}

/** The shares of clusters, or of regions. @param {model.Share[]} shares @param {((cluster: string) => string) | null} regionOf @returns {Map<string, number | null>} */
function columnsOf(shares, regionOf) {
  /** @type {Map<string, number | null>} */
  const found = new Map();
  for (const { name, replicas } of shares) {
    const key = regionOf ? regionOf(name) : name;
    const known = found.get(key);
    found.set(key, replicas === null ? (known ?? null) : (known ?? 0) + replicas);
  }
  return found;
}

/**
 * The cells of a workload in some columns.
 * @param {model.Binding} binding
 * @param {string[]} columns
 * @param {any} move what a fresh decision would do
 * @param {((cluster: string) => string) | null} regionOf
 * @param {Set<string>} lost
 */
function cells(binding, columns, move, regionOf, lost) {
  const away = columnsOf(
    binding.targets.filter(({ name }) => lost.has(name)),
    regionOf,
  );
  const now = columnsOf(binding.targets, regionOf);
  const noted = recent(binding);
  const before = noted && columnsOf(noted.before, regionOf);
  const home = move && columnsOf(model.shares(move.to), regionOf);
  const leaving = new Map(
    binding.evictions.map((it) => [regionOf ? regionOf(it.from) : it.from, it]),
  );
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
        change: words.signed(step),
      });
      cell.tip = `${shown || "No"} now, ${words.signed(step)} since ${words.clock(/** @type {any} */ (noted).at)}: ${workload} on ${name}`;
    } else if (home) {
      const way = (home.get(name) ?? 0) - (replicas ?? 0);
      if (way !== 0) {
        Object.assign(cell, {
          tone: way > 0 ? "home" : "away",
          shown: shown || "0",
          change: words.signed(way),
        });
        cell.tip = `${words.counted(replicas ?? 0, "replica")} of ${workload} on ${name}; a fresh decision would make it ${home.get(name) ?? 0}`;
      }
    }
    if (away.has(name) && !cell.tone) {
      cell.tone = "lost";
      cell.tip = `${cell.tip}; ${regionOf ? `${words.counted(away.get(name) ?? 0, "replica")} on lost clusters` : "the cluster is lost"}`;
    }
    return cell;
  });
}
