// @ts-check
/** Closes a cluster to new workloads, takes off what runs there, and opens it again. */
import * as api from "../api.js";
import { Confirm } from "../dialog.js";
import * as derive from "../derive.js";
import * as model from "../model.js";
import { refusal, useMay } from "../rights.js";
import { link } from "../route.js";
import { expecting, onlyNamespace, rebalancesPlace, useFeed } from "../state.js";
import { html, useMemo, useState } from "../vendor/preact-htm/standalone.js";
import { PlanFacts } from "./run.js";
import { ClusterField } from "./start.js";

const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";

export function Maintenance() {
  const clusters = useFeed("clusters");
  const [name, choose] = useState("");
  const [error, fail] = useState("");
  const [plan, show] = useState(/** @type {any} */ (null));
  const may = useMay("create");
  const sorted = useMemo(
    () => [...clusters.items.values()].sort((a, b) => model.byName(a.name, b.name)),
    [clusters.version],
  );
  if (onlyNamespace() || sorted.length === 0) return null;
  const chosen = sorted.find((it) => it.name === name);
  const isClosed = Boolean(
    chosen?.taints.some((/** @type {{ key: string }} */ taint) => taint.key === derive.CORDON),
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
      const others = model.list(spec.taints).filter((it) => it.key !== derive.CORDON);
      const taints = wanted ? [...others, { key: derive.CORDON, effect: "NoSchedule" }] : others;
      await api.patch(path, {
        metadata: { resourceVersion: metadata.resourceVersion },
        spec: { taints },
      });
    });
  const start = attempt(async () => {
    const made = await api.post(rebalancesPlace(), expecting(drain, plan?.status?.planHash));
    location.hash = link(["rebalance", made.metadata.name]);
  });
  const why = refusal(may);
  const off = !chosen || Boolean(why);
  return html`<section class="panel">
    <h2>Take a cluster out for maintenance</h2>
    <div class="row">
      <${ClusterField}
        label="cluster"
        placeholder="choose one"
        value=${name}
        names=${sorted.map((it) => it.name)}
        onChoose=${(/** @type {string} */ it) => (choose(it), show(null))}
      />
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
    ${
      plan &&
      html`<${Confirm}
        title=${`Drain ${name}?`}
        yes=${`Drain ${name}`}
        onYes=${start}
        onNo=${() => show(null)}
        ><${PlanFacts} asked=${plan}
      /></${Confirm}>`
    }
  </section>`;
}
