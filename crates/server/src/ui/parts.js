// @ts-check
/** The parts that the screens share. */
import { FEED_NAMES, readNamespace, useTick } from "./state.js";
import { html, useEffect, useRef, useState } from "./vendor/preact-htm/standalone.js";
import * as words from "./words.js";
import * as api from "./api.js";

/**
 * A number with a name below. It explains itself.
 * @param {{ value: any, name: string, tip: string, tone?: string, href?: string }} given
 */
export function Figure({ value, name, tip, tone = "", href }) {
  const inner = html`<b>${value}</b><span>${name}</span>`;
  return href
    ? html`<a class="figure ${tone}" href=${href} data-tip=${tip} aria-description=${tip}
        >${inner}</a
      >`
    : html`<div
        class="figure ${tone}"
        tabindex="0"
        role="group"
        data-tip=${tip}
        aria-description=${tip}
      >
        ${inner}
      </div>`;
}

/** Letters at the end of a name that are shown where the name is cut: that is where names differ. */
const TAIL = 12;

/**
 * Cuts the names that have no room, and only these. The whole name stays one text of the document,
 * so that the browser's search finds it; its end is drawn again beside the cut.
 */
/** @type {ResizeObserver | undefined} */
let cutting;

/** @param {ResizeObserverEntry[]} entries */
function cutNames(entries) {
  for (const { target } of entries) {
    const [name, whole] = [/** @type {HTMLElement} */ (target), target.firstElementChild];
    const [wide, room] = [whole?.scrollWidth ?? 0, name.clientWidth];
    const isCut = wide > room + 1 && room > 0;
    name.classList.toggle("is-cut", isCut);
    const letters = [...(whole?.textContent ?? "")];
    const fitting = Math.floor((letters.length * room) / Math.max(1, wide)) - 2;
    const tail = Math.min(TAIL, Math.floor((fitting * 2) / 3));
    name.dataset.tail = isCut && tail > 0 ? letters.slice(-tail).join("") : "";
  }
}

/**
 * A name, of which the middle gives way where there is no room: names of a fleet differ at their
 * ends. The whole name is told on hover and on focus of what it stands in.
 * @param {{ name: string }} given
 */
export function Name({ name }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const it = box.current;
    if (!it) return;
    const observer = (cutting ??= new ResizeObserver(cutNames));
    observer.observe(it);
    return () => observer.unobserve(it);
  }, [name]);
  return html`<bdi class="name-cut" ref=${box} data-tip=${name} data-cut
    ><span class="name-head">${name}</span></bdi
  >`;
}

/** A sign for a state, told apart by its shape as well as by its colour. @param {{ tone: string }} given */
export const Sign = ({ tone }) => html`<i class=${`sign ${tone}`} aria-hidden="true"></i>`;

/**
 * A short word in its tone. In a row of a list it is no stop of the tab key.
 * @param {{ tone?: string, tip?: string, isInRow?: boolean, children?: any }} given
 */
export const Chip = ({ tone = "", tip = "", isInRow = false, children }) =>
  html`<span class="chip ${tone}" data-tip=${tip || null} tabindex=${tip && !isInRow ? 0 : null}
    >${children}</span
  >`;

/** From here on a capacity is nearly taken, and from here on it is as good as taken: in percent. */
const TIGHT = 80;
const FULL = 95;
/** More than so many times the capacity is drawn as that. */
const BEYOND_MAX = 2;

/** By the percent that are shown, so that equal numbers have one colour. @param {number} share */
function toneOf(share) {
  const shown = Math.round(share * 100);
  return shown >= FULL ? "bad" : shown > TIGHT ? "warn" : "";
}

/** What a bar says. @param {{ name: string, used: number, promised: number, all: number, resource: string }} given */
function barTip({ name, used, promised, all, resource }) {
  const [u, a, p] = [used, all, promised].map((it) => words.amount(resource, it));
  if (all <= 0)
    return `${name}: ${words.amount(resource, used + promised)} wanted, and there is none`;
  const rest = all - used - promised;
  const free =
    rest >= 0
      ? `${words.amount(resource, rest)} free`
      : `${words.amount(resource, -rest)} more than there is`;
  return `${name}: ${u} of ${a} used, ${p} promised, ${free} (${words.fullness(used + promised, all)})`;
}

/**
 * The track of a bar: used, promised, and what is beyond the capacity, which is at the mark.
 * @param {{ used: number, promised: number, all: number }} given
 */
function Track({ used, promised, all }) {
  const taken = used + promised;
  const share = all > 0 ? taken / all : taken > 0 ? BEYOND_MAX : 0;
  const scale = Math.max(1, Math.min(BEYOND_MAX, share));
  const wide = (/** @type {number} */ part) => `${(Math.max(0, part) / scale) * 100}%`;
  const is = all > 0 ? Math.min(1, used / all) : 0;
  const will = Math.min(1, share) - is;
  return html`<span class=${`bar-track ${toneOf(share)}`}
    ><span class="bar-fill" style=${{ width: wide(is) }}></span
    ><span class="bar-promised" style=${{ width: wide(will) }}></span
    >${share > 1 && html`<span class="bar-beyond" style=${{ width: wide(scale - 1) }}></span>`}</span
  >`;
}

/**
 * A bar for how much of something is used.
 * @param {{ name: string, used: number, promised?: number, all: number, resource: string, more?: string }} given
 */
export function Bar({ name, used, promised = 0, all, resource, more = "" }) {
  const share = all > 0 ? (used + promised) / all : used + promised > 0 ? BEYOND_MAX : 0;
  const tip = `${barTip({ name, used, promised, all, resource })}${more}`;
  return html`<div class=${`bar ${toneOf(share)}`} data-tip=${tip} role="img" aria-label=${tip}>
    <span class="bar-name">${words.resource(name)}</span>
    <${Track} used=${used} promised=${promised} all=${all} />
    <span class="bar-amount"
      >${
        all > 0
          ? html`<b>${words.fullness(used + promised, all)}</b> of ${words.amount(resource, all)}`
          : html`<b>none</b>`
      }</span
    >
  </div>`;
}

/**
 * A bar in a cell of a list: how much is taken, in percent.
 * @param {{ of: { all: number, used: number, promised: number } | null, resource: string }} given
 */
export function SmallBar({ of, resource }) {
  if (!of) return html`<span class="muted" data-tip=${`No ${resource}`}>–</span>`;
  const tip = barTip({ name: resource, resource, ...of });
  return html`<span class="small-bar" data-tip=${tip} aria-label=${tip} role="img"
    ><${Track} ...${of} /><span class="small-bar-number"
      >${of.all > 0 ? words.fullness(of.used + of.promised, of.all) : "none"}</span
    ></span
  >`;
}

/** The field that `/` leads to. @param {{ value: string, label: string, onInput: (typed: string) => void }} given */
export const Search = ({ value, label, onInput }) =>
  html`<input
    type="search"
    aria-label=${label}
    placeholder=${label}
    aria-keyshortcuts="/"
    value=${value}
    onInput=${(/** @type {any} */ event) => onInput(event.target.value)}
  />`;

/**
 * Some words of which one is chosen.
 * @param {{ label: string, value: string, of: readonly (readonly [string, string, string])[], onChoose: (value: string) => void }} given
 */
export const Choice = ({ label, value, of, onChoose }) =>
  html`<span class="choice" role="group" aria-label=${label}>
    ${of.map(
      ([key, word, tip]) =>
        html`<button
          type="button"
          key=${key}
          aria-pressed=${value === key}
          data-tip=${tip}
          onClick=${() => onChoose(key)}
        >
          ${word}
        </button>`,
    )}
  </span>`;

/** The head of a column, with what its numbers mean. @param {{ tip: string, children?: any }} given */
export const NumberHead = ({ tip, children }) =>
  html`<th scope="col" class="number" tabindex="0" data-tip=${tip}>${children}</th>`;

/** An age that goes on by itself. @param {{ since: number | null, before?: string }} given */
export function Age({ since, before = "" }) {
  useTick(1000);
  if (since === null) return null;
  const tip = `since ${words.dateTime(since)}`;
  return html`<time class="age" data-tip=${tip} datetime=${new Date(since).toISOString()}
    >${before}${words.span(api.now() - since)}</time
  >`;
}

/** What to do where there is nothing. @param {{ title: string, children?: any }} given */
export const Empty = ({ title, children }) =>
  html`<div class="empty">
    <h2>${title}</h2>
    <div>${children}</div>
  </div>`;

/**
 * Stands where an answer of the server will be, and keeps what is below it out of sight: that would
 * move away from under the pointer when the answer comes.
 * @param {{ children?: any }} given what the page does meanwhile
 */
export const Awaited = ({ children }) =>
  html`<p class="muted awaited" role="status">${children}</p>`;

/**
 * Says what of the feeds is missing, and why. What is there is shown all the same.
 * @param {{ of: [string, { state: string, error: string, items?: Map<string, any> }][] }} given
 */
export function Missing({ of }) {
  const [typed, type] = useState("");
  const lost = of.filter(([, { state }]) => ["forbidden", "absent", "own"].includes(state));
  // A part of a list looks like the whole, unless it is told.
  const part = of.filter(([, { state, items }]) => state === "loading" && items?.size);
  if (lost.length === 0 && part.length > 0)
    return html`<p class="notice" role="status">
      ${`Still reading: only ${part.map(([name, { items }]) => `${words.number(items?.size ?? 0)} ${FEED_NAMES[/** @type {keyof typeof FEED_NAMES} */ (name)] ?? name}`).join(" and ")} are counted so far.`}
    </p>`;
  if (lost.length === 0) return null;
  const offers = lost.some(([name, { state }]) => name === "bindings" && state === "forbidden");
  return html`<div class="notice warn" role="status">
    ${lost.map(([name, { state, error }]) => {
      const what = FEED_NAMES[/** @type {keyof typeof FEED_NAMES} */ (name)] ?? name;
      const verb = name === "reviews" ? "create" : "read";
      return html`<p>
        <b>${state === "absent" ? `This server has no ${what}.` : `You may not ${verb} ${what}.`}</b
        >${" "}
        ${error}${state === "own" && ". The clusters of your workloads are shown, without their capacity and taints."}
      </p>`;
    })}
    ${
      offers &&
      html`<form
        class="row"
        onSubmit=${(/** @type {Event} */ event) => {
          event.preventDefault();
          readNamespace(typed.trim());
        }}
      >
        <label
          >Read one namespace instead:
          <input
            value=${typed}
            onInput=${(/** @type {any} */ e) => type(e.target.value)}
            required
            placeholder="namespace"
        /></label>
        <button>Read</button>
      </form>`
    }
  </div>`;
}

/**
 * The width of an element, also after it has changed.
 * @param {{ current: HTMLElement | null }} box
 * @param {number} first the width until it is known
 * @param {any} [anew] with another value the box is another element
 */
export function useWidth(box, first, anew) {
  const [width, size] = useState(first);
  useEffect(() => {
    const observer = new ResizeObserver(() => box.current && size(box.current.clientWidth));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [anew]);
  return width;
}

/** A click anywhere in a row follows its link. @param {string} href */
export const follows = (href) => (/** @type {MouseEvent} */ event) => {
  const isLink = event.target instanceof Element && event.target.closest("a");
  if (!isLink && event.button === 0) location.hash = href;
};

/**
 * A list of which only the visible rows are in the document.
 * @param {{ count: number, rowHeight: number, row: (index: number) => any, label: string,
 *   header?: any, footer?: any, width?: number, active: number, ids?: string, columns?: number,
 *   style?: Record<string, string>, onActive: (index: number) => void,
 *   onOpen: (index: number) => void, onSide?: (step: number) => void,
 *   onView?: (left: number, width: number) => void }} given
 */
export function Rows({
  count,
  rowHeight,
  row,
  label,
  header,
  footer,
  width,
  active,
  ids = "row",
  columns,
  style = {},
  onActive,
  onOpen,
  onSide,
  onView,
}) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, look] = useState({ top: 0, height: 600 });
  const measure = () => {
    const it = box.current;
    if (!it) return;
    look((now) => {
      const [top, height] = [Math.floor(it.scrollTop / rowHeight) * rowHeight, it.clientHeight];
      return now.top === top && now.height === height ? now : { top, height };
    });
    onView?.(it.scrollLeft, it.clientWidth);
  };
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 6);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + 6);
  /** @param {number} to */
  const go = (to) => {
    const next = Math.max(0, Math.min(count - 1, to));
    onActive(next);
    const it = box.current;
    if (!it) return;
    const room = it.clientHeight - rowHeight;
    if (next * rowHeight < it.scrollTop) it.scrollTop = next * rowHeight;
    if ((next + 1) * rowHeight > it.scrollTop + room) it.scrollTop = (next + 1) * rowHeight - room;
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const step = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -count,
      End: count,
    }[event.key];
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step !== undefined) go(active + step);
    else if (side !== undefined && onSide) onSide(side);
    else if (event.key === "Enter" && active < count) onOpen(active);
    else return;
    event.preventDefault();
  };
  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(row(index));
  return html`<div
    class="rows"
    ref=${box}
    tabindex="0"
    role="grid"
    aria-label=${label}
    aria-rowcount=${count + 1}
    aria-colcount=${columns ?? null}
    style=${style}
    aria-activedescendant=${active >= first && active < last ? `${ids}-${active}` : null}
    onScroll=${measure}
    onKeyDown=${onKey}
  >
    <div
      class="rows-all"
      role="presentation"
      style=${{ width: width ? `${width}px` : null, minWidth: "100%" }}
    >
      ${header}
      <div class="rows-body" role="rowgroup" style=${{ height: `${count * rowHeight}px` }}>
        ${rows}
      </div>
      ${footer}
    </div>
  </div>`;
}

/**
 * One explanation for the whole page: whatever has `data-tip` shows it on hover and on focus.
 * The text is set as text.
 */
export function startTips() {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  /** @type {Element | null} */
  let owner = null;
  const hide = () => {
    owner = null;
    tip.hidden = true;
  };
  /** @param {EventTarget | null} target */
  const show = (target) => {
    const found = target instanceof Element ? target.closest("[data-tip]") : null;
    if (found === owner && found) return;
    if (!found || !found.getAttribute("data-tip")) return hide();
    // A name that is there in full explains itself.
    if (found.hasAttribute("data-cut")) {
      if (!found.classList.contains("is-cut")) return hide();
    }
    owner = found;
    tip.textContent = found.getAttribute("data-tip");
    tip.hidden = false;
    const [at, size] = [found.getBoundingClientRect(), tip.getBoundingClientRect()];
    const left = Math.max(
      6,
      Math.min(innerWidth - size.width - 6, at.left + at.width / 2 - size.width / 2),
    );
    const below = at.bottom + 8 + size.height < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? at.bottom + 8 : Math.max(6, at.top - size.height - 8)}px`;
  };
  addEventListener("mouseover", (event) => show(event.target));
  addEventListener("focusin", (event) => {
    const within = event.target instanceof Element ? event.target : null;
    show(within?.closest("[data-tip]") ?? within?.querySelector("[data-cut]") ?? null);
  });
  addEventListener("focusout", hide);
  addEventListener("scroll", hide, true);
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
}
