// @ts-check
/** A list with columns that sort it. Only the rows that are seen are in the document. */
import { Rows, follows } from "./parts.js";
import { html, useState } from "./vendor/preact-htm/standalone.js";

/** The height of a row with its cells beside each other, and of a line where they are stacked. */
const ROW = 34;
const LINE = 24;
/** Where there is less room, the cells of a row stand below its name. */
const NARROW = 620;

/**
 * @template T
 * @typedef {object} Column
 * @property {string} id
 * @property {string} head
 * @property {string} tip what its numbers mean
 * @property {string} width as in a grid of CSS
 * @property {boolean} [isNumber]
 * @property {boolean} [isWide] it is left out where there is little room
 * @property {(row: T) => number | string} [sort] what the list is sorted by
 * @property {(row: T) => any} cell
 */
/**
 * @template T
 * @typedef {{ label: string, columns: Column<T>[], rows: T[], keyOf: (row: T) => string,
 *   hrefOf: (row: T) => string, sort: string, onSort: (sort: string) => void, toneOf?: (row: T) => string,
 *   groups?: { at: number, head: any }[], totals?: Record<string, any>, ids?: string,
 *   minWidth?: number, rowsMax?: number, lines?: number }} Given
 */

/**
 * Sorts as `sort` says: the id of a column, with `-` before it for the other way round. Equal ones
 * stay in their order.
 * @template T
 * @param {T[]} rows @param {Column<T>[]} columns @param {string} sort
 */
export function sorted(rows, columns, sort) {
  const id = sort.replace(/^-/, "");
  const by = columns.find((it) => it.id === id)?.sort;
  if (!by) return rows;
  const way = sort.startsWith("-") ? -1 : 1;
  const keys = new Map(rows.map((it) => [it, by(it)]));
  return [...rows].sort((a, b) => way * compare(keys.get(a), keys.get(b)));
}

const collator = new Intl.Collator("en", { numeric: true });

/** @param {any} a @param {any} b */
const compare = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));

/**
 * The order after a click on a head: numbers begin with the greatest, names with the first.
 * @param {string} now @param {{ id: string, isNumber?: boolean }} column
 */
export function nextSort(now, { id, isNumber }) {
  const [first, then] = isNumber ? [`-${id}`, id] : [id, `-${id}`];
  return now === first ? then : now === then ? "" : first;
}

/**
 * @template T
 * @param {Given<T>} given
 */
export function Grid(given) {
  const { label, columns, rows, keyOf, hrefOf, groups = [], ids = "row", rowsMax = 0 } = given;
  // On a phone a row takes so many lines.
  const { lines = 3 } = given;
  const [active, activate] = useState(0);
  const [width, size] = useState(1000);
  const isNarrow = width < NARROW;
  const shown = isNarrow ? columns.filter((it) => !it.isWide) : columns;
  const rowHeight = isNarrow ? lines * LINE + 10 : ROW;
  const template = shown.map((it) => it.width).join(" ");
  // Heads of groups are rows of their own.
  const heads = new Map(groups.map(({ at, head }, i) => [at + i, head]));
  const offsets = groups.map(({ at }, i) => at + i);
  const count = rows.length + groups.length;
  /** @param {number} index */
  const rowAt = (index) => rows[index - offsets.filter((it) => it < index).length];
  const current = Math.max(0, Math.min(active, count - 1));
  return html`<div class=${`grid ${isNarrow ? "narrow" : ""}`}>
    <${Rows}
      count=${count}
      rowHeight=${rowHeight}
      label=${label}
      ids=${ids}
      columns=${shown.length}
      width=${isNarrow ? 0 : Math.max(width, given.minWidth ?? 0)}
      style=${{
        "--columns": template,
        "--row": `${rowHeight}px`,
        height: rowsMax ? `${(Math.min(count, rowsMax) + 1) * rowHeight + 3}px` : null,
      }}
      header=${html`<${Head} ...${given} columns=${shown} />`}
      footer=${given.totals && html`<${Totals} columns=${shown} totals=${given.totals} count=${count} />`}
      active=${current}
      onActive=${activate}
      onOpen=${(/** @type {number} */ index) => {
        const row = heads.has(index) ? undefined : rowAt(index);
        if (row) location.hash = hrefOf(row);
      }}
      onView=${(/** @type {number} */ _left, /** @type {number} */ seen) => size(seen)}
      row=${(/** @type {number} */ index) => {
        const place = { top: `${index * rowHeight}px`, height: `${rowHeight}px` };
        if (heads.has(index))
          return html`<div
            class="grid-group"
            role="row"
            id=${`${ids}-${index}`}
            key=${`group ${index}`}
            aria-rowindex=${index + 2}
            style=${place}
          >
            <span role="gridcell" aria-colspan=${shown.length}>${heads.get(index)}</span>
          </div>`;
        const row = rowAt(index);
        if (!row) return null;
        const href = hrefOf(row);
        return html`<div
          class=${`table-row grid-row ${given.toneOf?.(row) ?? ""} ${index === current ? "active" : ""}`}
          role="row"
          id=${`${ids}-${index}`}
          key=${keyOf(row)}
          aria-rowindex=${index + 2}
          onClick=${follows(href)}
          style=${place}
        >
          ${shown.map(
            (it, i) =>
              html`<span
                class=${`grid-cell ${it.isNumber ? "number" : ""}`}
                role=${i === 0 ? "rowheader" : "gridcell"}
                data-head=${isNarrow && i > 0 ? it.head : null}
                >${i === 0 ? html`<a class="row-link" tabindex="-1" href=${href}>${it.cell(row)}</a>` : it.cell(row)}</span
              >`,
          )}
        </div>`;
      }}
    />
  </div>`;
}

/** @param {{ columns: Column<any>[], sort: string, onSort: (sort: string) => void }} given */
function Head({ columns, sort, onSort }) {
  return html`<div class="rows-head grid-row grid-head" role="row">
    ${columns.map((it) => {
      const way = sort === it.id ? "ascending" : sort === `-${it.id}` ? "descending" : "none";
      return html`<span
        class=${`grid-cell ${it.isNumber ? "number" : ""}`}
        role="columnheader"
        aria-sort=${it.sort ? way : null}
        key=${it.id}
        >${
          it.sort
            ? html`<button
                class="quiet sorts"
                type="button"
                data-tip=${`${it.tip} Click sorts by it.`}
                onClick=${() => onSort(nextSort(sort, it))}
              >
                ${it.head}<i class=${`way ${way}`} aria-hidden="true"></i>
              </button>`
            : html`<span data-tip=${it.tip}>${it.head}</span>`
        }</span
      >`;
    })}
  </div>`;
}

/** @param {{ columns: Column<any>[], totals: Record<string, any>, count: number }} given */
const Totals = ({ columns, totals, count }) =>
  html`<div class="grid-row grid-totals" role="row" aria-rowindex=${count + 2}>
    ${columns.map(
      (it, i) =>
        html`<span
          class=${`grid-cell ${it.isNumber ? "number" : ""}`}
          role=${i === 0 ? "rowheader" : "gridcell"}
          data-tip=${totals[it.id] === undefined ? null : `Of all rows: ${it.tip}`}
          >${totals[it.id] ?? ""}</span
        >`,
    )}
  </div>`;
