// @ts-check
/** Fleet placements: ClusterResourcePlacements by member clusters. */
import * as model from "../model.js";
import { Chip, Empty, Missing } from "../parts.js";
import { useFeed } from "../state.js";
import { html, useMemo } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** @type {Record<string, string>} */
const TONES = { Bound: "good", Scheduled: "home", Unscheduled: "warn" };

export function MembersScreen() {
  const [placements, bindings, members] = [
    useFeed("placements"),
    useFeed("fleetBindings"),
    useFeed("members"),
  ];
  const names = useMemo(() => {
    const found = new Set([...members.items.values()].map((it) => it.metadata.name));
    for (const it of bindings.items.values()) found.add(model.text(it.spec?.targetCluster));
    return [...found].filter(Boolean).sort(model.byName);
  }, [members.version, bindings.version]);
  /** @type {Map<string, Map<string, any>>} */
  const found = useMemo(() => {
    const all = new Map();
    for (const it of bindings.items.values()) {
      const owner = model.text(model.map(it.metadata.labels)["kubernetes-fleet.io/parent-CRP"]);
      if (!all.has(owner)) all.set(owner, new Map());
      all.get(owner).set(model.text(it.spec?.targetCluster), it);
    }
    return all;
  }, [bindings.version]);
  const sorted = [...placements.items.values()].sort((a, b) =>
    model.byName(a.metadata.name, b.metadata.name),
  );
  return html`
    <div class="head"><h1>Fleet placements</h1></div>
    <${Missing}
      of=${[
        ["placements", placements],
        ["fleetBindings", bindings],
        ["members", members],
      ]}
    />
    ${
      sorted.length === 0
        ? placements.state === "live" &&
          html`<${Empty} title="There is no ClusterResourcePlacement">
          <p>One asks for resources on member clusters, and says how many and which:</p>
          <pre>kubectl create -f examples/fleet/placement.yaml</pre>
        </${Empty}>`
        : html`<div
              class="panel scroll"
              tabindex="0"
              role="region"
              aria-label="Placements by member clusters"
            >
              <table>
                <thead>
                  <tr>
                    <th scope="col">placement</th>
                    <th scope="col">wants</th>
                    <th scope="col">rollout</th>
                    ${names.map((it) => html`<th scope="col" key=${it}>${it}</th>`)}
                  </tr>
                </thead>
                <tbody>
                  ${sorted.map((it) => html`<${Row} key=${it.key} placement=${it} names=${names} bindings=${found.get(it.metadata.name)} />`)}
                </tbody>
              </table>
            </div>
            <p class="muted">
              Bound: rolled out. Scheduled: decided, and waiting for its turn in the rollout.
              Unscheduled: it will go.
            </p>`
    }
  `;
}

/** @param {{ placement: any, names: string[], bindings: Map<string, any> | undefined }} given */
function Row({ placement, names, bindings }) {
  const policy = model.map(placement.spec?.policy);
  const kind = model.text(policy.placementType) || "PickAll";
  const wants = kind === "PickN" ? `${kind} ${model.count(policy.numberOfClusters)}` : kind;
  const conditions = model.list(placement.status?.conditions);
  /** @type {Map<string, any>} */
  const refused = new Map(
    model.list(placement.status?.placementStatuses).map((it) => [model.text(it.clusterName), it]),
  );
  return html`<tr>
    <th scope="row">${placement.metadata.name}</th>
    <td>${wants}</td>
    <td>
      <div class="chips">
        ${conditions.map((it) => {
          const word = model.text(it.type).replace(/^ClusterResourcePlacement/, "");
          const tone = { True: "good", False: "bad" }[model.text(it.status)] ?? "";
          return html`<${Chip} tone=${tone} tip=${`${it.reason}: ${it.message}`}>${word}</${Chip}>`;
        })}
      </div>
    </td>
    ${names.map((name) => {
      const binding = bindings?.get(name);
      if (!binding) {
        const why = model.list(refused.get(name)?.conditions).find((it) => it.status === "False");
        return html`<td
          class="muted"
          tabindex="0"
          data-tip=${why ? `${name}: ${why.message}` : `${name} was not picked`}
        >
          –
        </td>`;
      }
      const state = model.text(binding.spec?.state);
      const decision = model.map(binding.spec?.clusterDecision);
      const score = model.map(decision.clusterScore);
      const told = Object.entries(score)
        .map(([key, value]) => `${key} ${value}`)
        .join(", ");
      const tip = `${name}: ${model.text(decision.reason) || state}${told && ` (${told})`}`;
      const sum = Object.values(score).reduce((all, it) => all + model.count(it), 0);
      return html`<td key=${name}><${Chip} tone=${TONES[state] ?? ""} tip=${tip}>${state || "?"}${sum ? ` · ${words.number(sum)}` : ""}</${Chip}></td>`;
    })}
  </tr>`;
}
