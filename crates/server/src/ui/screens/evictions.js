// @ts-check
/** The evictions that wait, their rate with its author, and the dialog that holds or hastens them. */
import * as api from "../api.js";
import { useBacklog } from "../backlog.js";
import { Confirm } from "../dialog.js";
import { Sign } from "../parts.js";
import { refusal, useMayLimit } from "../rights.js";
import { currentMoment, onlyNamespace } from "../state.js";
import { html, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

const LIMITS = "/apis/ballast.dev/v1alpha1/evictionlimits";
/** How long a hold or a rate may last, as the dialog offers it. */
const SPANS = /** @type {const} */ ([
  [15, "15 minutes"],
  [30, "30 minutes"],
  [60, "1 hour"],
  [240, "4 hours"],
  [0, "until it is cleared"],
]);

/**
 * Evictions as they are told: by the server, or else as the bindings and taints say.
 * @typedef {{ waiting: number, running: number, foreseen: number, due: number | null, left: number, rate: string, isLimited: boolean, isHeld: boolean }} Told
 */

/** @param {{ running: number, waiting: number }} counted @param {import("../backlog.js").Evictions | null} known @returns {Told} */
export function evictionsTold(counted, known) {
  // A rate that is not known is not told: a flag may have set another than the usual one.
  if (!known)
    return {
      ...counted,
      foreseen: 0,
      due: null,
      left: 0,
      rate: "",
      isLimited: false,
      isHeld: false,
    };
  const { waiting, foreseen, leaving, due, ends, rate, from, until, setBy, note, at } = known;
  const isHeld = Number(rate) === 0;
  const isLimited = from === "EvictionLimit";
  const why = isLimited
    ? ` by the EvictionLimit${until ? ` until ${words.clock(until)}` : ""}${setBy ? `, set by ${setBy}` : ""}${note ? `: ${note}` : ""}`
    : from === "MostlyUnready"
      ? " as most clusters are lost"
      : "";
  return {
    waiting,
    foreseen,
    running: leaving,
    due,
    left: ends ? Math.max(0, ends - (at ?? api.now())) : 0,
    rate: `${isHeld ? "rate 0: on hold" : `a rate of ${rate} a second`}${why}`,
    isLimited,
    isHeld,
  };
}

/** What the figure of the evictions is called. @param {Told} told */
export function evictionsName({ waiting, running, foreseen, left }) {
  if (foreseen > 0 && waiting + running === 0) return "evictions foreseen";
  return waiting && left ? `evictions, about ${words.span(left)}` : "evictions";
}

/** Evictions in words, and what can be done about them. @param {Told} given */
export function Evictions({ running, waiting, foreseen, due, left, rate, isLimited, isHeld }) {
  const from = due === null ? "" : ` from ${words.clock(due)}`;
  /** @type {[number, string][]} */
  const counts = [
    [waiting, "waiting for their turn"],
    [foreseen, `foreseen${from} if nothing changes`],
    [running, "in progress"],
  ];
  const some = counts.filter(([count]) => count > 0);
  const parts =
    some.length === 0
      ? ""
      : some.length === 1
        ? ` ${some[0]?.[1]}`
        : `: ${some.map(([count, told]) => `${words.number(count)} ${told}`).join(", ")}`;
  const isDue = waiting + foreseen > 0;
  const end = isDue && left ? `; the last begins in about ${words.span(left)}, at ${rate}` : "";
  const rest = (isDue || isLimited) && rate && !end ? `; ${rate}` : "";
  return html`<li>
    <${Sign} tone=${isHeld && isLimited ? "held" : waiting ? "warn" : "home"} /><span
      ><b>${words.counted(running + waiting + foreseen, "eviction")}</b>${`${parts}${end}${rest}`}
      <${Limit} isLimited=${isLimited} isHeld=${isHeld}
    /></span>
  </li>`;
}

/** The buttons that hold evictions, hasten them, or let the flags set the rate. @param {{ isLimited: boolean, isHeld: boolean }} given */
function Limit({ isLimited, isHeld }) {
  const [asked, ask] = useState(/** @type {"" | "hold" | "rate" | "clear"} */ (""));
  const [wish, set] = useState({ rate: "5", minutes: 30, note: "" });
  const [error, fail] = useState("");
  const backlog = useBacklog();
  const may = useMayLimit();
  // The rate is that of all namespaces.
  if (onlyNamespace() || currentMoment() || !backlog || backlog.from === "NoEviction") return null;
  const why = refusal(may);
  const offers = /** @type {const} */ ([
    ["hold", "Hold…", "Evict nothing for a while.", !(isLimited && isHeld)],
    ["rate", "Rate…", "Evict faster or slower for a while.", true],
    ["clear", "Clear…", "Let the flags of the server set the rate again.", isLimited],
  ]);
  const close = () => (ask(""), fail(""));
  const go = async () => {
    try {
      await (asked === "clear" ? clear() : put(asked === "hold" ? "0" : wish.rate.trim(), wish));
      close();
      backlog.askAgain();
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const field = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    set((now) => ({ ...now, [name]: event.target.value }));
  const titles = {
    hold: "Hold all evictions?",
    rate: "Change the rate of evictions?",
    clear: "Clear the limit of evictions?",
  };
  const yes = { hold: "Hold", rate: `Set ${wish.rate} a second`, clear: "Clear" };
  return html`<span class="limit"
    >${offers.map(
      ([key, word, tip, isOffered]) =>
        isOffered &&
        html`<button
          key=${key}
          disabled=${Boolean(why)}
          data-tip=${why || tip}
          onClick=${() => ask(key)}
        >
          ${word}
        </button>`,
    )}${
      asked &&
      html`<${Confirm} title=${titles[asked]} yes=${yes[asked]} onYes=${go} onNo=${close}>
        ${
          asked === "clear"
            ? html`<p>The flags of the server set the rate again, at once.</p>`
            : html`<div class="limit-wish">
                  ${
                    asked === "rate" &&
                    html`<label
                      >workloads a second
                      <input class="small" value=${wish.rate} onInput=${field("rate")}
                    /></label>`
                  }
                  <label
                    >for
                    <select value=${String(wish.minutes)} onChange=${field("minutes")}>
                      ${SPANS.map(([minutes, word]) => html`<option key=${minutes} value=${minutes} selected=${Number(wish.minutes) === minutes}>${word}</option>`)}
                    </select></label
                  >
                  <label
                    >note
                    <input
                      class="wide"
                      placeholder="why, such as INC-4711"
                      maxlength="256"
                      value=${wish.note}
                      onInput=${field("note")}
                  /></label>
                </div>
                <p class="muted">
                  Everybody sees your name, the note and the end. The command is${" "}
                  <code
                    >ballast evictions ${asked === "hold" ? "--hold" : `--rate ${wish.rate}`}</code
                  >.
                </p>`
        }
        ${error && html`<p class="error" role="alert">${error}</p>`}
      </${Confirm}>`
    }</span
  >`;
}

/** Changes the one EvictionLimit, or creates it. @param {string} rate @param {{ minutes: number | string, note: string }} wish */
async function put(rate, { minutes, note }) {
  const span = Number(minutes) * 60_000;
  const expiresAt = span ? `${new Date(api.now() + span).toISOString().slice(0, 19)}Z` : null;
  const spec = { bindingsPerSecond: rate, expiresAt, note: note.trim() || null };
  try {
    await api.patch(`${LIMITS}/fleet`, { spec });
  } catch (error) {
    if (!(error instanceof api.ApiError) || error.code !== 404) throw error;
    const given = Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== null));
    await api.post(LIMITS, {
      apiVersion: "ballast.dev/v1alpha1",
      kind: "EvictionLimit",
      metadata: { name: "fleet" },
      spec: given,
    });
  }
}

async function clear() {
  try {
    await api.remove(`${LIMITS}/fleet`);
  } catch (error) {
    // Somebody has cleared it already, or it has ended.
    if (!(error instanceof api.ApiError) || error.code !== 404) throw error;
  }
}
