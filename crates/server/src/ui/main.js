// @ts-check
/** The page: its frame, and the screen that the address names. */
import * as api from "./api.js";
import { Chip, startTips } from "./parts.js";
import { link, route } from "./route.js";
import { FleetScreen } from "./screens/fleet.js";
import { HealthScreen } from "./screens/health.js";
import { MembersScreen } from "./screens/members.js";
import { OutageScreen } from "./screens/outage.js";
import { PlacementsScreen } from "./screens/placements.js";
import { RebalanceScreen } from "./screens/rebalance.js";
import { WhatIfScreen } from "./screens/whatif.js";
import { WorkloadScreen } from "./screens/workload.js";
import {
  currentMoment,
  feeds,
  onlyNamespace,
  readNamespace,
  restartAll,
  showMoment,
  useChanges,
} from "./state.js";
import {
  html,
  render,
  useEffect,
  useErrorBoundary,
  useState,
} from "./vendor/preact-htm/standalone.js";
import * as words from "./words.js";

/** @type {Record<string, { name: string, screen: () => any, isHidden?: boolean }>} */
const SCREENS = {
  fleet: { name: "Fleet", screen: FleetScreen },
  placements: { name: "Placements", screen: PlacementsScreen },
  outage: { name: "Outage", screen: OutageScreen },
  rebalance: { name: "Rebalance", screen: RebalanceScreen },
  whatif: { name: "What if", screen: WhatIfScreen },
  members: { name: "Fleet placements", screen: MembersScreen },
  health: { name: "Health", screen: HealthScreen },
  workload: { name: "Workload", screen: WorkloadScreen, isHidden: true },
};

function Page() {
  useChanges();
  const [needsSignIn, need] = useState(false);
  useEffect(() => api.onUnauthorized(() => need(true)), []);
  const { screen } = route();
  const shown = SCREENS[screen];
  useEffect(() => {
    document.title = `${shown?.name ?? "Unknown"} · Ballast`;
    document.getElementById("main")?.focus({ preventScroll: true });
    // On a phone the names of the screens do not fit beside each other.
    const current = document.querySelector("nav [aria-current]");
    current?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [screen]);
  if (needsSignIn) return html`<${SignIn} onDone=${() => (need(false), restartAll())} />`;
  return html`
    <a class="skip" href="#main" onClick=${skip}>To the content</a>
    <header class="top">
      <a class="brand" href="#/fleet"
        ><img src="icon.svg" alt="" width="24" height="24" /> Ballast</a
      >
      <nav aria-label="Screens">
        ${Object.entries(SCREENS).map(([path, { name, isHidden }]) => {
          const current = path === screen || (screen === "workload" && path === "placements");
          return isHidden
            ? null
            : html`<a href=${link([path])} aria-current=${current ? "page" : null}>${name}</a>`;
        })}
      </nav>
      <${Connection} />
    </header>
    <${PastBanner} />
    <main id="main" tabindex="-1">
      ${shown ? html`<${Guarded} key=${screen} screen=${shown.screen} />` : html`<${Unknown} />`}
    </main>
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

const Unknown = () =>
  html`<div class="empty">
    <h1>There is no such screen</h1>
    <p><a href="#/fleet">To the fleet</a></p>
  </div>`;

/** A fault of one screen leaves the others alone. @param {{ screen: () => any }} given */
function Guarded({ screen }) {
  const [error, again] = useErrorBoundary((seen) => console.error(seen));
  if (!error) return html`<${screen} />`;
  return html`<div class="empty" role="alert">
    <h1>This screen has failed</h1>
    <p>${String(error?.message ?? error)}</p>
    <button onClick=${again}>Try again</button>
  </div>`;
}

/** How current the page is. */
function Connection() {
  useChanges();
  const used = Object.values(feeds).filter((feed) => feed.state !== "idle");
  const away = used.find((feed) => feed.state === "away");
  const place = api.where().server ?? location.origin;
  const [tone, word, tip] = away
    ? ["bad", "reconnecting", `${away.error}. What is shown is what was last known.`]
    : used.some((feed) => feed.state === "loading")
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
    <${Chip} tone=${tone} tip=${tip}><i class="dot"></i>${word}</${Chip}>
  </div>`;
}

/** Says on every screen that it shows the past. */
function PastBanner() {
  const moment = currentMoment();
  if (!moment) return null;
  const ago = words.span(api.now() - moment.at);
  return html`<div class="past" role="status">
    <span>As it was at <b>${words.clock(moment.at)}</b>, ${ago} ago</span>
    <a href="#/outage">Move in time</a>
    <button onClick=${() => showMoment(null)}>Back to now</button>
  </div>`;
}

/** @param {{ onDone: () => void }} given */
function SignIn({ onDone }) {
  const [typed, type] = useState("");
  const [error, fail] = useState("");
  /** @param {Event} event */
  const enter = async (event) => {
    event.preventDefault();
    api.signIn(typed);
    try {
      await api.get("/apis");
      onDone();
    } catch (cause) {
      const told = /** @type {api.ApiError} */ (cause);
      fail(told.code === 401 ? "The server does not know this token." : told.message);
    }
  };
  const isProxied = api.where().through === "proxy";
  return html`<main class="sign-in">
    <form onSubmit=${enter}>
      <img src="icon.svg" alt="" width="48" height="48" />
      <h1>Sign in</h1>
      ${
        isProxied
          ? html`<p>
              The server does not accept the credentials of the kubeconfig. Mend it, and
              start${" "}<code>ballast ui</code> again.
            </p>`
          : html`<p>
                This server shows its objects to who signs in. Give a bearer token; it is kept in
                this tab's memory and nowhere else.
              </p>
              <label for="token">Bearer token</label>
              <input
                id="token"
                type="password"
                autocomplete="off"
                required
                value=${typed}
                onInput=${(/** @type {any} */ e) => type(e.target.value)}
              />
              <button class="primary">Sign in</button>
              <p class="muted">
                A client certificate in the browser works, too. Or run <code>ballast ui</code> on
                your machine: it uses your kubeconfig.
              </p>`
      }
      ${error && html`<p class="error" role="alert">${error}</p>`}
    </form>
  </main>`;
}

startTips();
await api.findSurroundings().catch(() => {});
const page = /** @type {Element} */ (document.getElementById("page"));
page.textContent = "";
render(html`<${Page} />`, page);
