// @ts-check
/** Keeps the fleet in shape: a plan for all workloads together, towards a goal. */
import { Awaited, Choice, Empty } from "../parts.js";
import { useMay } from "../rights.js";
import { currentMoment, review } from "../state.js";
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import { Outcome } from "./outcome.js";
import { Plan, Start } from "./start.js";

/** Moves that a preview lists. */
const LISTED_MAX = 5000;
/** The pause after what is typed before the server is asked. */
const TYPING_MS = 300;

const GOALS = /** @type {const} */ ([
  ["Balance", "balance", "Uses the clusters as evenly as can be"],
  ["Pack", "pack", "Carries the workloads on as few clusters as possible"],
  ["Cost", "cost", "Moves replicas to where they cost least"],
  ["Survive", "survive", "Makes room for what the loss of any one domain would strand"],
]);
const HAVE_RESOURCE = ["Balance", "Pack"];
/** The goals whose tolerance is a percentage. */
const IN_PERCENT = ["Balance", "Cost"];

/** @param {any} wish */
function objectiveOf({ goal, resource, by, budget, worth, tolerance }) {
  const amount = budget.trim();
  const small = tolerance.trim();
  return {
    goal,
    resource: HAVE_RESOURCE.includes(goal) ? resource.trim() || undefined : undefined,
    by: goal === "Survive" ? by : undefined,
    maxMovedReplicas: /^\d+$/.test(amount) ? Number(amount) : amount || undefined,
    // What is no number is the server's to refuse.
    worth: worth.trim() === "" ? undefined : Number.isNaN(Number(worth)) ? worth : Number(worth),
    tolerance: /^\d+$/.test(small) ? Number(small) : small || undefined,
  };
}

export function Shape() {
  const [wish, set] = useState({
    goal: "",
    resource: "",
    by: "Cluster",
    budget: "",
    worth: "0.5",
    tolerance: "",
    surge: true,
    atOnce: "10%",
    abort: "10%",
    name: "",
  });
  const [answer, tell] = useState(/** @type {{ plan: any, error: string } | null} */ (null));
  const [asked, ask] = useState(0);
  const may = useMay("create");
  const { goal, resource, by, budget, worth, tolerance } = wish;
  const spec = useMemo(
    () => ({ select: [{ all: true }], objective: objectiveOf(wish) }),
    [goal, resource, by, budget, worth, tolerance],
  );
  useEffect(() => {
    tell(null);
    if (!goal) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      review({ ...spec, limit: LISTED_MAX }, abort.signal)
        .then((plan) => tell({ plan, error: "" }))
        .catch((cause) => abort.signal.aborted || tell({ plan: null, error: cause.message }));
    }, TYPING_MS);
    return () => (clearTimeout(timer), abort.abort());
  }, [spec, asked, currentMoment()?.revision]);
  const field = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    set((now) => ({ ...now, [name]: event.target.value }));
  const plan = answer?.plan;
  const isNothing = plan && plan.moves.length === 0 && plan.unplaceable.length === 0;
  return html`<section class="panel shape">
    <div class="panel-head">
      <h2>Keep the fleet in shape</h2>
      <${Choice}
        label="Goal"
        value=${goal}
        of=${GOALS}
        onChoose=${(/** @type {string} */ it) => set((now) => ({ ...now, goal: it === goal ? "" : it }))}
      />
    </div>
    ${!goal && html`<p class="muted">Choose a goal, and see which moves bring all workloads together nearest to it.</p>`}
    ${
      goal &&
      html`<form class="wish" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
        ${HAVE_RESOURCE.includes(goal) && html`<label>resource <input class="medium" placeholder="the most used one" value=${resource} onInput=${field("resource")} /></label>`}
        ${
          goal === "Survive" &&
          html`<label
            >what is lost
            <select value=${by} onChange=${field("by")}>
              ${["Cluster", "Zone", "Region", "Provider"].map((it) => html`<option value=${it} selected=${it === by}>${it.toLowerCase()}</option>`)}
            </select></label
          >`
        }
        <label
          >budget
          <input
            class="small"
            placeholder="none"
            value=${budget}
            onInput=${field("budget")}
            data-tip="How many replicas may move over all workloads: a number or a percentage. 0 moves nothing."
        /></label>
        <label
          >worth
          <input
            class="small"
            value=${worth}
            onInput=${field("worth")}
            data-tip="A move is made when its share of the gain is this many times its share of the moved replicas. 0 makes every move that gains anything."
        /></label>
        <label
          >tolerance
          <input
            class="small"
            placeholder=${IN_PERCENT.includes(goal) ? "2%" : "0"}
            value=${tolerance}
            onInput=${field("tolerance")}
            data-tip="The gain up to which nothing moves: a percentage of a cluster's capacity with balance, of the price with cost; replicas with survive, clusters with pack."
        /></label>
        <label class="check"
          ><input
            type="checkbox"
            checked=${wish.surge}
            onChange=${() => set((now) => ({ ...now, surge: !now.surge }))}
          />
          surge: new replicas before old ones go</label
        >
      </form>`
    }
    ${goal && !answer && html`<${Awaited}>Planning…</${Awaited}>`}
    ${answer?.error && html`<p class="notice warn" role="status">There is no plan: ${answer.error}</p>`}
    ${plan && html`<${Outcome} objective=${plan.objective} cost=${plan.cost} />`}
    ${
      isNothing &&
      html`<${Empty} title="Nothing to gain">
        <p>${
          (plan.objective?.withinTolerance ?? null) === null
            ? "No move within the rules and the budget is worth its replicas."
            : `Every gain is within the tolerance of ${plan.objective.withinTolerance}.`
        }</p>
      </${Empty}>`
    }
    ${
      plan &&
      !isNothing &&
      html`<${Plan} plan=${plan} refused="cannot move" />
        <${Start}
          wish=${wish}
          spec=${spec}
          plan=${plan}
          may=${may}
          onStarted=${() => ask((n) => n + 1)}
          set=${set}
        />`
    }
  </section>`;
}
