// @ts-check
/** Returns displaced workloads: what is selected, its plan, and the question whether to start it. */
import * as api from "../api.js";
import { Confirm } from "../dialog.js";
import * as model from "../model.js";
import { Awaited, Empty, Figure } from "../parts.js";
import { Bars, Flows, Moves, Stuck } from "../plan.js";
import { refusal, useMay } from "../rights.js";
import { rebalanceLink } from "../route.js";
import {
  currentMoment,
  expecting,
  onlyNamespace,
  rebalancesPlace,
  review,
  useBindings,
  useDisplacement,
  useFeed,
} from "../state.js";
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";
import { yaml } from "../yaml.js";

/** Moves that a preview lists. */
const LISTED_MAX = 5000;

/** What is to be moved, its plan, and the object that would do it. */
export function Wish() {
  const bindings = useBindings();
  const clusters = useFeed("clusters");
  const displaced = useDisplacement();
  const [wish, set] = useState({
    namespace: onlyNamespace(),
    cluster: "",
    labels: "",
    surge: true,
    atOnce: "10%",
    abort: "10%",
    name: "",
  });
  const [answer, tell] = useState(/** @type {{ plan: any, error: string } | null} */ (null));
  const [asked, ask] = useState(0);
  const may = useMay("create");
  const namespaces = useMemo(
    () => [...new Set(bindings.all().map((it) => it.namespace))].filter(Boolean).sort(model.byName),
    bindings.versions,
  );
  const names = useMemo(
    () => [...clusters.items.values()].map((it) => it.name).sort(model.byName),
    [clusters.version],
  );
  const selected = useMemo(() => selection(wish), [wish]);
  useEffect(() => {
    const abort = new AbortController();
    if (selected.error) {
      tell({ plan: null, error: selected.error });
      return;
    }
    const timer = setTimeout(() => {
      review({ select: [selected.entry], mode: "AsBefore", limit: LISTED_MAX }, abort.signal)
        .then((plan) => tell({ plan, error: "" }))
        .catch((cause) => abort.signal.aborted || tell({ plan: null, error: cause.message }));
    }, 150);
    return () => (clearTimeout(timer), abort.abort());
  }, [selected, asked, displaced.moves, currentMoment()?.revision]);
  const field = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    set((now) => ({ ...now, [name]: event.target.value }));
  const plan = answer?.plan;
  return html`<section class="panel">
    <h2>Return displaced workloads</h2>
    <form class="wish" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <label
        >namespace
        <select
          value=${wish.namespace}
          onChange=${field("namespace")}
          disabled=${Boolean(onlyNamespace())}
        >
          <option value="">all</option>
          ${namespaces.map((it) => html`<option value=${it} selected=${it === wish.namespace}>${it}</option>`)}
        </select></label
      >
      <${ClusterField}
        label="placed on"
        placeholder="any cluster"
        value=${wish.cluster}
        names=${names}
        onChoose=${(/** @type {string} */ cluster) => set((now) => ({ ...now, cluster }))}
      />
      <label
        >labels
        <input placeholder="app=web,tier=front" value=${wish.labels} onInput=${field("labels")}
      /></label>
      <label
        >concurrency
        <input
          class="small"
          value=${wish.atOnce}
          onInput=${field("atOnce")}
          data-tip="How many workloads move at a time: a number or a percentage. Empty: all."
      /></label>
      <label
        >abort threshold
        <input
          class="small"
          value=${wish.abort}
          onInput=${field("abort")}
          data-tip="How many moves may fail before the rebalance is aborted: a number or a percentage. Empty: it goes on."
      /></label>
      <label class="check"
        ><input
          type="checkbox"
          checked=${wish.surge}
          onChange=${() => set((now) => ({ ...now, surge: !now.surge }))}
        />
        surge: new replicas before old ones go</label
      >
    </form>
    ${answer?.error && html`<p class="notice warn" role="status">There is no plan: ${answer.error}</p>`}
    ${!answer && html`<${Awaited}>Planning…</${Awaited}>`}
    ${plan && model.count(plan.summary.selected) === 0 && html`<${Empty} title="Nothing is displaced"><p>No workload of this selection has lost a cluster and not been back.</p></${Empty}>`}
    ${
      plan &&
      model.count(plan.summary.selected) > 0 &&
      html`<${Plan} plan=${plan} refused="cannot return yet" />`
    }
    ${
      plan &&
      model.count(plan.summary.toMove) > 0 &&
      html`<${Start}
        wish=${wish}
        spec=${{ select: [selected.entry], mode: "AsBefore" }}
        plan=${plan}
        may=${may}
        onStarted=${() => ask((n) => n + 1)}
        set=${set}
      />`
    }
  </section>`;
}

/** @param {any} wish @returns {{ entry: any, error: string }} */
function selection({ namespace, cluster, labels }) {
  /** @type {any} */
  const entry = { displaced: true };
  if (namespace && !onlyNamespace()) entry.namespace = namespace;
  if (cluster) entry.placedOn = [cluster];
  /** @type {Record<string, string>} */
  const wanted = {};
  for (const pair of labels
    .split(",")
    .map((/** @type {string} */ it) => it.trim())
    .filter(Boolean)) {
    const [key, value] = pair.split("=");
    if (!key || value === undefined)
      return { entry, error: `write labels as key=value, not ${JSON.stringify(pair)}` };
    wanted[key.trim()] = value.trim();
  }
  if (Object.keys(wanted).length) entry.labelSelector = { matchLabels: wanted };
  return { entry, error: "" };
}

/**
 * The clusters to choose one from, by typing.
 * @param {{ label: string, value: string, names: string[], placeholder: string, onChoose: (name: string) => void }} given
 */
export function ClusterField({ label, value, names, placeholder, onChoose }) {
  const list = `clusters-${label.replace(/\W/g, "-")}`;
  return html`<label
    >${label}
    <input
      class="wide"
      list=${list}
      placeholder=${placeholder}
      value=${value}
      onInput=${(/** @type {any} */ event) => onChoose(event.target.value)}
    />
    <datalist id=${list}>${names.map((it) => html`<option value=${it}></option>`)}</datalist>
  </label>`;
}

/**
 * @param {{ plan: any, refused?: string }} given `refused`: the words for workloads that the plan
 *   finds no move for
 */
export function Plan({ plan, refused = "unschedulable" }) {
  const { summary, clusters, moves, unplaceable, stays, remaining } = plan;
  const isMoving = (/** @type {any} */ it) => it.reason === "MovingAlready";
  const [moving, staying] = [
    stays.filter(isMoving),
    stays.filter((/** @type {any} */ it) => !isMoving(it)),
  ];
  // A displaced workload that a plan leaves where it is cannot return yet, whatever the reason.
  const stuck = refused === "unschedulable" ? unplaceable : [...unplaceable, ...staying];
  const kept = model.count(summary.unchanged) - moving.length - (stuck.length - unplaceable.length);
  const touched = clusters.filter((/** @type {any} */ it) => it.before !== it.planned);
  return html`
    <div class="figures">
      <${Figure}
        value=${words.number(model.count(summary.selected))}
        name="selected"
        tip=${`Workloads that are selected: those that move, those that stay, those that a rebalance is moving already, and those that are ${refused}.`}
      />
      <${Figure}
        value=${words.number(model.count(summary.toMove))}
        name="workloads move"
        tip=${`Of ${words.counted(model.count(summary.selected), "selected workload")}.`}
      />
      <${Figure}
        value=${words.number(model.count(summary.replicasToMove))}
        name="replicas move"
        tip="Replicas that change their cluster, counted where they arrive."
      />
      <${Figure}
        value=${words.number(kept)}
        name="stay"
        tip="Selected workloads that stay where they are."
      />
      ${
        moving.length > 0 &&
        html`<${Figure}
          value=${words.number(moving.length)}
          name="being moved"
          tone="home"
          tip="Selected workloads that a rebalance is moving already. The plan leaves them to it."
        />`
      }
      <${Figure}
        value=${words.number(stuck.length)}
        name=${refused}
        tone=${stuck.length ? (refused === "unschedulable" ? "bad" : "warn") : ""}
        tip=${refused === "unschedulable" ? "Workloads that would have no placement for some of their replicas." : "Workloads that stay where they are for now, each with its reason below."}
      />
    </div>
    <div class="plan">
      <div>
        <h3>Replicas before and after</h3>
        <${Bars} clusters=${touched.length ? touched : clusters} />
      </div>
      <div>
        <h3>From where to where</h3>
        <${Flows} moves=${moves} />
      </div>
    </div>
    <h3>Moves</h3>
    <${Moves} moves=${moves} more=${remaining} />
    <${Stuck} entries=${stuck} what=${words.agreeing(stuck.length, refused)} />
    <${Stuck}
      entries=${moving}
      what=${moving.length === 1 ? "is being moved" : "are being moved"}
    />
  `;
}

/**
 * The button that starts a plan, and the object that it writes.
 * @param {{ wish: any, spec: any, plan: any, may: { allowed: boolean, why: string }, onStarted: () => void, set: any }} given
 */
export function Start({ wish, spec, plan, may, onStarted, set }) {
  const [isAsking, askFirst] = useState(false);
  const [error, fail] = useState("");
  const [isCopied, copy] = useState(false);
  const count = model.count(plan.summary.toMove);
  const object = expecting(wanted(wish, spec), plan.planHash);
  const text = yaml(object);
  const start = async () => {
    try {
      const made = await api.post(rebalancesPlace(), object);
      fail("");
      onStarted();
      location.hash = rebalanceLink(made.metadata);
    } catch (cause) {
      askFirst(false);
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const why = refusal(may);
  return html`<div class="start">
    <div class="row">
      <label
        >name
        <input
          class="medium"
          placeholder="a name is made"
          value=${wish.name}
          onInput=${(/** @type {any} */ e) => set((/** @type {any} */ now) => ({ ...now, name: e.target.value }))}
      /></label>
      <button
        class="primary"
        onClick=${() => askFirst(true)}
        disabled=${count === 0 || Boolean(why)}
        data-tip=${why || null}
      >
        Start: move ${words.counted(count, "workload")}…
      </button>
      <button
        onClick=${() =>
          navigator.clipboard.writeText(text).then(
            () => copy(true),
            () => copy(false),
          )}
      >
        ${isCopied ? "Copied" : "Copy YAML"}
      </button>
      ${why && html`<span class="muted">${why}</span>`}
    </div>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${
      isAsking &&
      html`<${Confirm}
        title=${`Move ${words.counted(count, "workload")}?`}
        yes=${`Start: move ${words.counted(count, "workload")}`}
        onYes=${start}
        onNo=${() => askFirst(false)}
      >
        <dl class="confirm-facts">
          <dt>replicas</dt>
          <dd>${words.number(model.count(plan.summary.replicasToMove))} change their cluster</dd>
          <dt>not moved</dt>
          <dd>${words.counted(model.count(plan.summary.selected) - count, "workload")}</dd>
          <dt>strategy</dt>
          <dd>${wish.surge ? "surge: new replicas before old ones go" : "direct: all replicas at once"}</dd>
          <dt>concurrency</dt>
          <dd>${wish.atOnce.trim() || "all at once"}</dd>
          <dt>abort threshold</dt>
          <dd>${wish.abort.trim() ? `${wish.abort} of the moves failed` : "none"}</dd>
        </dl>
      </${Confirm}>`
    }
    <details>
      <summary>Manifest</summary>
      <pre tabindex="0">${text}</pre>
    </details>
  </div>`;
}

/** @param {any} wish @param {any} spec what is selected, and what for */
function wanted({ name, surge, atOnce, abort }, spec) {
  const amount = (/** @type {string} */ it) =>
    /^\d+$/.test(it.trim()) ? Number(it) : it.trim() || undefined;
  return {
    apiVersion: "ballast.dev/v1alpha1",
    kind: onlyNamespace() ? "Rebalance" : "ClusterRebalance",
    metadata: name.trim() ? { name: name.trim() } : { generateName: "from-page-" },
    spec: {
      ...spec,
      rollout: {
        strategy: surge ? "SurgeFirst" : "Direct",
        maxConcurrent: amount(atOnce),
        settle: { when: "Healthy", timeoutSeconds: 300 },
        abortOn: amount(abort) === undefined ? undefined : { failed: amount(abort) },
      },
    },
  };
}
