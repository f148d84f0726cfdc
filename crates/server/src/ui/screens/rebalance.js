// @ts-check
/** Rebalance: see a plan, start it, and follow the run. */
import * as api from "../api.js";
import * as model from "../model.js";
import { Age, Chip, Empty, Figure, Missing } from "../parts.js";
import { Bars, Flows, Moves, Stuck } from "../plan.js";
import { link, route } from "../route.js";
import {
  currentMoment,
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

export function RebalanceScreen() {
  const { rest } = route();
  return rest[0] ? html`<${Run} name=${rest[0]} key=${rest[0]} />` : html`<${Overview} />`;
}

function Overview() {
  const rebalances = useFeed("rebalances");
  const sorted = [...rebalances.items.values()].sort((a, b) => (b.changed ?? 0) - (a.changed ?? 0));
  return html`
    <div class="head"><h1>Rebalance</h1></div>
    <${Missing} of=${[["rebalances", rebalances]]} />
    <${Wish} />
    <${Maintenance} />
    <h2>Rebalances</h2>
    ${sorted.length === 0 && html`<p class="muted">None yet. What you start above appears here, and can be paused, aborted and undone.</p>`}
    <ul class="runs">
      ${sorted.map((it) => {
        const [status, summary] = [model.map(it.status), model.map(model.map(it.status).summary)];
        return html`<li key=${it.key}>
          <a href=${link(["rebalance", it.metadata.name])}><b>${it.metadata.name}</b></a>
          <${Phase} status=${status} />
          <${Progress} summary=${summary} />
          <span class="muted"
            >${words.number(model.count(summary.settled))} of${" "}
            ${words.number(model.count(summary.toMove))} moved</span
          >
        </li>`;
      })}
    </ul>
  `;
}

/** @type {Record<string, string>} */
const PHASES = {
  Completed: "good",
  Running: "home",
  Planned: "warn",
  Paused: "warn",
  Aborted: "bad",
};

/** @param {{ status: any }} given */
const Phase = ({ status }) =>
  html`<${Chip} tone=${PHASES[status.phase] ?? ""}>${model.text(status.phase) || "Planning"}</${Chip}>`;

/** @param {{ summary: any }} given */
function Progress({ summary }) {
  const all = Math.max(1, model.count(summary.toMove));
  const parts = /** @type {const} */ ([
    ["settled", "good"],
    ["moving", "home"],
    ["failed", "bad"],
    ["superseded", "warn"],
  ]);
  const tip = parts.map(([name]) => `${model.count(summary[name])} ${name}`).join(", ");
  return html`<span
    class="progress"
    role="img"
    tabindex="0"
    aria-label=${tip}
    data-tip=${`${tip}, of ${model.count(summary.toMove)}`}
  >
    ${parts.map(([name, tone]) => html`<span class=${tone} style=${{ width: `${(model.count(summary[name]) / all) * 100}%` }}></span>`)}
  </span>`;
}

/** What is to be moved, its plan, and the object that would do it. */
function Wish() {
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
  const may = useMay("create", "clusterrebalances");
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
  const count = model.count(plan?.summary.toMove);
  return html`<section class="panel">
    <h2>Bring home what is displaced</h2>
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
      <label
        >placed on
        <select value=${wish.cluster} onChange=${field("cluster")}>
          <option value="">any cluster</option>
          ${names.map((it) => html`<option value=${it}>${it}</option>`)}
        </select></label
      >
      <label
        >labels
        <input placeholder="app=web,tier=front" value=${wish.labels} onInput=${field("labels")}
      /></label>
      <label
        >at once
        <input
          class="small"
          value=${wish.atOnce}
          onInput=${field("atOnce")}
          data-tip="How many workloads move at a time: a number or a percentage. Empty: all."
      /></label>
      <label
        >give up after
        <input
          class="small"
          value=${wish.abort}
          onInput=${field("abort")}
          data-tip="How many moves may fail before the rest is left alone. Empty: never."
      /></label>
      <label class="check"
        ><input
          type="checkbox"
          checked=${wish.surge}
          onChange=${() => set((now) => ({ ...now, surge: !now.surge }))}
        />
        new replicas before old ones go</label
      >
    </form>
    ${answer?.error && html`<p class="notice warn" role="status">There is no plan: ${answer.error}</p>`}
    ${!answer && html`<p class="muted" role="status">Planning…</p>`}
    ${plan && count === 0 && plan.unplaceable.length === 0 && html`<${Empty} title="Everything is home"><p>No workload of this selection is displaced.</p></${Empty}>`}
    ${
      plan &&
      (count > 0 || plan.unplaceable.length > 0) &&
      html` <${Plan} plan=${plan} />
        <${Start}
          wish=${wish}
          entry=${selected.entry}
          count=${count}
          hash=${plan.planHash}
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

/** The key of the taint that closes a cluster to new workloads. */
const CLOSED = "cluster.karmada.io/unschedulable";
const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";

/** Closes a cluster to new workloads, takes off what runs there, and opens it again. */
function Maintenance() {
  const clusters = useFeed("clusters");
  const [name, choose] = useState("");
  const [error, fail] = useState("");
  const [plan, show] = useState(/** @type {any} */ (null));
  const may = useMay("create", "clusterrebalances");
  const sorted = useMemo(
    () => [...clusters.items.values()].sort((a, b) => model.byName(a.name, b.name)),
    [clusters.version],
  );
  if (onlyNamespace() || sorted.length === 0) return null;
  const chosen = sorted.find((it) => it.name === name);
  const isClosed = Boolean(
    chosen?.taints.some((/** @type {{ key: string }} */ taint) => taint.key === CLOSED),
  );
  const drain = {
    apiVersion: "ballast.dev/v1alpha1",
    kind: "ClusterRebalance",
    metadata: { generateName: "drain-" },
    spec: { drain: { clusters: [name] } },
  };
  const attempt = (/** @type {() => Promise<void>} */ act) => async () => {
    try {
      await act();
      fail("");
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const close = (/** @type {boolean} */ wanted) =>
    attempt(async () => {
      const path = `${CLUSTERS}/${encodeURIComponent(name)}`;
      const { metadata, spec } = await api.get(path);
      const others = model.list(spec.taints).filter((it) => it.key !== CLOSED);
      const taints = wanted ? [...others, { key: CLOSED, effect: "NoSchedule" }] : others;
      await api.patch(path, {
        metadata: { resourceVersion: metadata.resourceVersion },
        spec: { taints },
      });
    });
  const start = attempt(async () => {
    const made = await api.post(rebalancesPlace(), expecting(drain, plan?.status?.planHash));
    location.hash = link(["rebalance", made.metadata.name]);
  });
  const why = currentMoment()
    ? "The past cannot be changed."
    : may.allowed
      ? ""
      : `You may not: ${may.why}`;
  const off = !chosen || Boolean(why);
  return html`<section class="panel">
    <h2>Take a cluster out for maintenance</h2>
    <div class="row">
      <label
        >cluster
        <select
          value=${name}
          onChange=${(/** @type {any} */ event) => (choose(event.target.value), show(null))}
        >
          <option value="">choose one</option>
          ${sorted.map((it) => html`<option value=${it.name} selected=${it.name === name}>${it.name}</option>`)}
        </select></label
      >
      <button
        disabled=${off}
        data-tip=${why || "Nothing new comes to it, and what runs there stays."}
        onClick=${close(!isClosed)}
      >
        ${isClosed ? "Uncordon" : "Cordon"}
      </button>
      <button
        disabled=${off}
        data-tip=${why || "It is closed, and what runs there leaves. First you see the plan."}
        onClick=${attempt(async () => show(await api.post(`${rebalancesPlace()}?dryRun=All`, drain)))}
      >
        Drain…
      </button>
    </div>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${plan && html`<${Question} what="The drain" asked=${plan} onStart=${start} onLeave=${() => show(null)} />`}
  </section>`;
}

/** @param {{ plan: any }} given */
export function Plan({ plan }) {
  const { summary, clusters, moves, unplaceable, remaining } = plan;
  const touched = clusters.filter((/** @type {any} */ it) => it.before !== it.planned);
  return html`
    <div class="figures">
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
        value=${words.number(model.count(summary.unchanged))}
        name="stay"
        tip="Selected workloads that stay where they are."
      />
      <${Figure}
        value=${words.number(unplaceable.length)}
        name="no place"
        tone=${unplaceable.length ? "bad" : ""}
        tip="Workloads that would fit nowhere."
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
    <${Stuck} entries=${unplaceable} />
  `;
}

/** @param {{ wish: any, entry: any, count: number, hash: string | undefined, may: { allowed: boolean, why: string }, onStarted: () => void, set: any }} given */
function Start({ wish, entry, count, hash, may, onStarted, set }) {
  const [error, fail] = useState("");
  const [isCopied, copy] = useState(false);
  const object = expecting(wanted(wish, entry), hash);
  const text = yaml(object);
  const start = async () => {
    try {
      const made = await api.post(rebalancesPlace(), object);
      fail("");
      onStarted();
      location.hash = link(["rebalance", made.metadata.name]);
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const inPast = currentMoment() !== null;
  const why = inPast
    ? "The past cannot be changed: go back to now first."
    : may.allowed
      ? ""
      : `You may not start it: ${may.why}`;
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
        onClick=${start}
        disabled=${count === 0 || Boolean(why)}
        data-tip=${why || null}
      >
        Start: move ${words.counted(count, "workload")}
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
    <details>
      <summary>The object that does it</summary>
      <pre tabindex="0">${text}</pre>
    </details>
  </div>`;
}

/**
 * The rebalance, which moves nothing where its plan has changed since it was shown.
 * @param {any} rebalance @param {string | undefined} hash
 */
const expecting = (rebalance, hash) => ({
  ...rebalance,
  spec: { ...rebalance.spec, expectPlan: hash },
});

/** @param {any} wish @param {any} entry */
function wanted({ name, surge, atOnce, abort }, entry) {
  const amount = (/** @type {string} */ it) =>
    /^\d+$/.test(it.trim()) ? Number(it) : it.trim() || undefined;
  return {
    apiVersion: "ballast.dev/v1alpha1",
    kind: onlyNamespace() ? "Rebalance" : "ClusterRebalance",
    metadata: name.trim() ? { name: name.trim() } : { generateName: "from-page-" },
    spec: {
      select: [entry],
      mode: "AsBefore",
      rollout: {
        strategy: surge ? "SurgeFirst" : "Direct",
        maxConcurrent: amount(atOnce),
        settle: { when: "Healthy", timeoutSeconds: 300 },
        abortOn: amount(abort) === undefined ? undefined : { failed: amount(abort) },
      },
    },
  };
}

/** Whether the user may do something, as the API says. @param {string} verb @param {string} resource */
export function useMay(verb, resource) {
  const [answer, tell] = useState({ allowed: true, why: "" });
  useEffect(() => {
    const attributes = {
      verb,
      group: "ballast.dev",
      resource: onlyNamespace() ? resource.replace("cluster", "") : resource,
      namespace: onlyNamespace() || undefined,
    };
    const question = {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: attributes },
    };
    api
      .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question)
      .then(({ status }) =>
        tell({
          allowed: status?.allowed === true,
          why:
            model.text(status?.reason) || `the right to ${verb} ${attributes.resource} is missing`,
        }),
      )
      // Where it cannot be asked, trying tells.
      .catch(() => tell({ allowed: true, why: "" }));
  }, [verb, resource]);
  return answer;
}

/**
 * The plan of an undo or a drain, as its dry run answers, and the question whether to start it.
 * @param {{ what: string, asked: any, onStart: () => void, onLeave: () => void }} given
 */
function Question({ what, asked, onStart, onLeave }) {
  const [status, rollout] = [model.map(asked.status), model.map(model.map(asked.spec).rollout)];
  const summary = model.map(status.summary);
  const count = model.count(summary.toMove);
  const failed = model.count(summary.failed);
  const pace = [
    rollout.strategy === "SurgeFirst"
      ? "new replicas before old ones go"
      : "all replicas of a workload at once",
    rollout.maxConcurrent && `at most ${rollout.maxConcurrent} of the workloads at a time`,
    rollout.minAvailable && `at least ${rollout.minAvailable} of the replicas ready`,
  ].filter(Boolean);
  return html`<section class="panel" aria-labelledby="question">
    <h2 id="question">
      ${what} would move ${words.counted(count, "workload")} with${" "}
      ${words.counted(model.count(summary.replicasToMove), "replica")}
    </h2>
    <p class="muted">${`They move with ${pace.join(", ")}.`}</p>
    ${failed > 0 && html`<p class="notice warn" role="status">${words.counted(failed, "workload")} cannot move.</p>`}
    <${Bars} clusters=${model.list(status.clusters)} />
    <div class="row">
      <button class="primary" onClick=${onStart}>
        Start: move ${words.counted(count, "workload")}
      </button>
      <button onClick=${onLeave}>Leave it</button>
    </div>
  </section>`;
}

/** A run, as it goes. @param {{ name: string }} given */
function Run({ name }) {
  const rebalances = useFeed("rebalances");
  const moves = useFeed("moves");
  const clusterMoves = useFeed("clusterMoves");
  const may = useMay("patch", "clusterrebalances");
  const [error, fail] = useState("");
  const [undone, show] = useState(/** @type {any} */ (null));
  const rebalance = [...rebalances.items.values()].find((it) => it.metadata.name === name);
  const own = useMemo(
    () =>
      [...moves.items.values(), ...clusterMoves.items.values()]
        .filter((it) => model.text(it.spec?.rebalance) === name)
        .map((it) => ({
          ...it.spec,
          ...model.map(it.status),
          phase: model.text(it.status?.phase),
          reason: model.text(it.status?.reason),
        }))
        .sort(
          (a, b) =>
            model.byName(a.workload?.namespace ?? "", b.workload?.namespace ?? "") ||
            model.byName(a.workload?.name ?? "", b.workload?.name ?? ""),
        ),
    [moves.version, clusterMoves.version, name],
  );
  if (!rebalance) {
    return html`<${Missing} of=${[["rebalances", rebalances]]} />
      ${rebalances.state === "loading" ? html`<p class="muted">Loading…</p>` : html`<${Empty} title=${`There is no rebalance ${name}`}><p><a href="#/rebalance">To the rebalances</a></p></${Empty}>`}`;
  }
  const [spec, status] = [model.map(rebalance.spec), model.map(rebalance.status)];
  const summary = model.map(status.summary);
  const isOver = ["Completed", "Aborted"].includes(status.phase);
  const change = (/** @type {any} */ wish) => async () => {
    try {
      await api.patch(`${rebalancesPlace()}/${encodeURIComponent(name)}`, { spec: wish });
      fail("");
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const undo = {
    apiVersion: "ballast.dev/v1alpha1",
    kind: onlyNamespace() ? "Rebalance" : "ClusterRebalance",
    metadata: { name: `${name}-undo` },
    spec: { undo: { name } },
  };
  // A dry run answers with the plan, and with the bounds that the undo takes over.
  const preview = async () => {
    try {
      show(await api.post(`${rebalancesPlace()}?dryRun=All`, undo));
      fail("");
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const start = async () => {
    try {
      await api.post(rebalancesPlace(), expecting(undo, undone?.status?.planHash));
      location.hash = link(["rebalance", `${name}-undo`]);
    } catch (cause) {
      fail(/** @type {Error} */ (cause).message);
    }
  };
  const awaits = spec.approval === "Required" && !spec.approved && !isOver;
  const can = may.allowed && !currentMoment();
  const tip = can
    ? null
    : currentMoment()
      ? "The past cannot be changed."
      : `You may not: ${may.why}`;
  return html`
    <div class="head">
      <h1>${name}</h1>
      <${Phase} status=${status} />
      <span class="muted">${spec.undo ? `undoes ${model.text(spec.undo.name)}` : ""}</span>
      <span class="row">
        ${awaits && html`<button class="primary" disabled=${!can} data-tip=${tip} onClick=${change({ approved: true })}>Approve</button>`}
        ${!isOver && html`<button disabled=${!can} data-tip=${tip} onClick=${change({ paused: !spec.paused })}>${spec.paused ? "Resume" : "Pause"}</button>`}
        ${!isOver && html`<button class="danger" disabled=${!can || spec.abort} data-tip=${tip ?? "Moves that have begun settle; no further one begins."} onClick=${change({ abort: true })}>Abort</button>`}
        ${isOver && !spec.undo && model.count(summary.settled) + model.count(summary.failed) > 0 && html`<button disabled=${!can} data-tip=${tip ?? "Each workload that was moved goes back to where it was. First you see the plan."} onClick=${preview}>Undo…</button>`}
      </span>
      <a href="#/rebalance">all rebalances</a>
    </div>
    ${error && html`<p class="notice bad" role="alert">${error}</p>`}
    ${undone && html`<${Question} what="The undo" asked=${undone} onStart=${start} onLeave=${() => show(null)} />`}
    <${Progress} summary=${summary} />
    <div class="figures">
      ${[
        ["toMove", "to move", "Workloads that the plan moves."],
        ["settled", "moved", "Moves that are over, as wanted."],
        ["moving", "under way", "Moves that have begun and are not over."],
        ["pending", "pending", "Moves that have not begun."],
        ["failed", "failed", "Moves that failed, and workloads that fit nowhere."],
        ["superseded", "superseded", "Moves that another change of the binding overtook."],
      ].map(
        ([key, word, meaning]) =>
          html`<${Figure}
            value=${words.number(model.count(summary[/** @type {string} */ (key)]))}
            name=${word}
            tone=${key === "failed" && summary.failed ? "bad" : ""}
            tip=${meaning}
          />`,
      )}
      <${Figure}
        value=${html`${words.number(model.count(summary.replicasMoved))}<small> / ${words.number(model.count(summary.replicasToMove))}</small>`}
        name="replicas moved"
        tip="Replicas that have arrived, of all that the plan moves."
      />
    </div>
    ${model
      .list(status.conditions)
      .filter((it) => it.message)
      .map((it) => html`<p class="muted">${it.type}: ${it.message}</p>`)}
    <p class="muted">
      ${!isOver && !currentMoment() && html`<${Age} since=${model.time(status.startedAt)} before="running for " />`}
    </p>
    <section class="panel">
      <h2>Replicas by cluster</h2>
      <${Bars} clusters=${model.list(status.clusters)} hasNow=${true} />
    </section>
    <section class="panel">
      <h2>Moves</h2>
      <${Missing}
        of=${[
          ["moves", moves],
          ["clusterMoves", clusterMoves],
        ]}
      />
      <${Moves} moves=${own} hasPhase=${true} />
    </section>
  `;
}
