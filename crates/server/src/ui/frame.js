// @ts-check
/** The frame around every screen: which server, which user, which time, and how current it is. */
import * as api from "./api.js";
import { Chip, Sign } from "./parts.js";
import {
  asking,
  currentMoment,
  feeds,
  momentError,
  onlyNamespace,
  readNamespace,
  showMoment,
  useSnapshot,
  useTick,
} from "./state.js";
import { html, useEffect, useRef, useState } from "./vendor/preact-htm/standalone.js";
import * as words from "./words.js";

/** Keys that lead somewhere, told by `?`. `g` and a letter open a screen. */
const KEYS = [
  ["/", "search on this screen"],
  ["?", "show these keys"],
  ["g f", "Fleet"],
  ["g p", "Placements"],
  ["g o", "Outage"],
  ["g r", "Rebalance"],
  ["g w", "What if"],
  ["g c", "Capacity"],
  ["g m", "Fleet placements"],
  ["g h", "Health"],
  ["g n", "back to now"],
  ["↑ ↓ Enter", "move through a list, and open"],
  ["Esc", "close what is open"],
];
/** @type {Record<string, string>} */
const PLACES = {
  f: "fleet",
  p: "placements",
  o: "outage",
  r: "rebalance",
  w: "whatif",
  c: "capacity",
  m: "members",
  h: "health",
};
/** The second key comes within so many milliseconds. */
const CHORD_MS = 1200;

/** A strip over everything that says which environment this is. */
export function Banner() {
  const { banner } = api.where();
  return banner ? html`<p class="banner" role="note">${banner}</p>` : null;
}

/** How current the page is, and whose eyes it sees with. */
export function Connection() {
  const used = [...Object.values(feeds), asking].filter((feed) => feed.state !== "idle");
  const away = used.find((feed) => feed.state === "away");
  const isLoading = used.some((feed) => feed.state === "loading");
  const moment = currentMoment();
  useSnapshot(() => {
    const all = [...Object.values(feeds), asking];
    const states = all.map((feed) => feed.state).join();
    return `${states} ${currentMoment()?.revision} ${onlyNamespace()}`;
  });
  const place = api.where().server ?? location.origin;
  const [tone, word, tip] = away
    ? ["bad", "reconnecting", `${away.error}. What is shown is what was last known.`]
    : moment
      ? ["home", "past", `What is shown is how it was at ${words.dateTime(moment.at)}.`]
      : isLoading
        ? ["", "loading", "The first answers are on their way."]
        : ["good", "live", `Every change at ${place} is shown when it happens.`];
  return html`<div class="connection" role="status" aria-live="polite">
    ${
      onlyNamespace() &&
      html`<button
        class="quiet"
        onClick=${() => readNamespace("")}
        data-tip="Only this namespace is read. Click for all."
      >
        namespace ${onlyNamespace()} ×
      </button>`
    }
    <${Chip} tone=${tone} tip=${tip}><${Sign} tone=${tone} />${word}</${Chip}>
  </div>`;
}

/** The server and the user, and the zone of all times. */
export function Where() {
  const [user, know] = useState("");
  const { server = location.origin, context } = api.where();
  useEffect(() => {
    // Where it cannot be asked, the name is left out.
    api.whoAmI().then(know, () => {});
  }, []);
  const tip = [
    `Server ${server}`,
    context && `context ${context} of the kubeconfig`,
    user && `user ${user}`,
    `times in ${words.zone()}`,
  ]
    .filter(Boolean)
    .join(", ");
  return html`<p class="where" tabindex="0" data-tip=${tip} aria-label=${tip}>
    <b>${context || server.replace(/^https?:\/\//, "")}</b>${" "}<span
      >${user ? `${user} · ` : ""}${words.zone().replace(/^.*, /, "")}</span
    >
  </p>`;
}

/** Says on every screen that it shows the past. */
export function PastBanner() {
  useSnapshot(() => `${currentMoment()?.revision} ${currentMoment()?.at} ${momentError()}`);
  useTick(1000);
  const moment = currentMoment();
  if (!moment)
    return momentError() ? html`<p class="past" role="alert">${momentError()}</p>` : null;
  const ago = words.span(api.now() - moment.at);
  return html`<div class="past" role="status">
    <span>As it was at <b>${words.clock(moment.at)}</b>, ${ago} ago</span>
    <a href=${`#/outage?at=${encodeURIComponent(new Date(moment.at).toISOString())}`}
      >Move in time</a
    >
    <button onClick=${() => showMoment(null)}>Back to now</button>
  </div>`;
}

/** @param {{ onClose: () => void }} given */
function Help({ onClose }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    box.current?.showModal();
  }, []);
  return html`<dialog class="confirm" ref=${box} aria-labelledby="keys" onCancel=${onClose}>
    <h2 id="keys">Keys</h2>
    <dl class="keys">
      ${KEYS.map(
        ([keys = "", does]) =>
          html`<div>
            <dt>${keys.split(" ").map((it) => html`<kbd>${it}</kbd> `)}</dt>
            <dd>${does}</dd>
          </div>`,
      )}
    </dl>
    <button autofocus onClick=${onClose}>Close</button>
  </dialog>`;
}

/** Whether letters go into a field. A slider or a box to tick takes none. @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement &&
  Boolean(target.closest("input:not([type=range], [type=checkbox]), select, textarea, dialog"));

/** Leads to the search of the screen, or to that of the placements. */
function search() {
  const field = document.querySelector("main input[type=search]");
  if (field instanceof HTMLInputElement) {
    field.focus();
    field.select();
    return;
  }
  location.hash = "#/placements";
  setTimeout(() => {
    const there = document.querySelector("main input[type=search]");
    if (there instanceof HTMLInputElement) there.focus();
  }, 100);
}

/** Listens to keys of the whole page. */
export function Keys() {
  const [isOpen, open] = useState(false);
  useEffect(() => {
    let chordAt = 0;
    /** @param {KeyboardEvent} event */
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const isSecond = performance.now() - chordAt < CHORD_MS;
      chordAt = 0;
      if (isSecond && event.key === "n") showMoment(null);
      else if (isSecond && PLACES[event.key]) location.hash = `#/${PLACES[event.key]}`;
      else if (event.key === "g") chordAt = performance.now();
      else if (event.key === "/") search();
      else if (event.key === "?") open(true);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return isOpen ? html`<${Help} onClose=${() => open(false)} />` : null;
}
