// @ts-check
/** The page: its frame, and the screen that the address names. */
import * as api from "./api.js";
import { Banner, Connection, Keys, PastBanner, Where } from "./frame.js";
import { startTips } from "./parts.js";
import { link, route } from "./route.js";
import { CapacityScreen } from "./screens/capacity.js";
import { FleetScreen } from "./screens/fleet.js";
import { HealthScreen } from "./screens/health.js";
import { MembersScreen } from "./screens/members.js";
import { OutageScreen } from "./screens/outage.js";
import { PlacementsScreen } from "./screens/placements.js";
import { RebalanceScreen } from "./screens/rebalance.js";
import { WhatIfScreen } from "./screens/whatif.js";
import { WorkloadScreen } from "./screens/workload.js";
import { feeds, followAddress, readNamespace, restartAll, useSnapshot } from "./state.js";
import { listen } from "./feed.js";
import {
  html,
  render,
  useEffect,
  useErrorBoundary,
  useState,
} from "./vendor/preact-htm/standalone.js";

/** @type {Record<string, { name: string, screen: () => any, isHidden?: boolean }>} */
const SCREENS = {
  fleet: { name: "Fleet", screen: FleetScreen },
  placements: { name: "Placements", screen: PlacementsScreen },
  outage: { name: "Outage", screen: OutageScreen },
  rebalance: { name: "Rebalance", screen: RebalanceScreen },
  whatif: { name: "What if", screen: WhatIfScreen },
  capacity: { name: "Capacity", screen: CapacityScreen },
  members: { name: "Fleet placements", screen: MembersScreen },
  health: { name: "Health", screen: HealthScreen },
  workload: { name: "Workload", screen: WorkloadScreen, isHidden: true },
};

function Page() {
  useSnapshot(() => route().screen);
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
    <header class="frame">
      <${Banner} />
      <div class="top">
        <a class="brand" href=${link(["fleet"])}
          ><img src="icon.svg" alt="" width="24" height="24" /> Ballast</a
        >
        <${Screens} current=${screen === "workload" ? "placements" : screen} />
        <${Where} />
        <${Connection} />
      </div>
      <${PastBanner} />
    </header>
    <main id="main" tabindex="-1">
      ${shown ? html`<${Guarded} key=${screen} screen=${shown.screen} />` : html`<${Unknown} />`}
    </main>
    <${Keys} />
  `;
}

/** The links to the screens, at the moment that is shown. @param {{ current: string }} given */
function Screens({ current }) {
  useSnapshot(() => route().query.get("at"));
  return html`<nav aria-label="Screens">
    ${Object.entries(SCREENS).map(([path, { name, isHidden }]) =>
      isHidden
        ? null
        : html`<a key=${path} href=${link([path])} aria-current=${path === current ? "page" : null}
            >${name}</a
          >`,
    )}
  </nav>`;
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

/** The page of `ballast ui` without the secret of its run. @param {{ message: string }} given */
const Refused = ({ message }) =>
  html`<main class="sign-in">
    <form>
      <img src="icon.svg" alt="" width="48" height="48" />
      <h1>Open the printed address</h1>
      <p role="alert">${message}</p>
    </form>
  </main>`;

startTips();
let refusal = "";
await api.findSurroundings().catch((cause) => {
  if (cause.reason === "NoSecret") refusal = cause.message;
});
listen(() => void followAddress());
void followAddress();
// Who may not read all namespaces reads the one that the kubeconfig names.
const stopAsking = listen(() => {
  const { namespace } = api.where();
  if (feeds.bindings.state === "forbidden" && namespace) readNamespace(namespace);
  if (["live", "forbidden"].includes(feeds.bindings.state)) stopAsking();
});
const page = /** @type {Element} */ (document.getElementById("page"));
page.textContent = "";
render(refusal ? html`<${Refused} message=${refusal} />` : html`<${Page} />`, page);
