// @ts-check
/** Workload: who got it and why not the others, its conditions, and how it came to stand there. */
import * as api from "../api.js";
import * as derive from "../derive.js";
import { revisionAt } from "../history.js";
import * as model from "../model.js";
import { Age, Awaited, Chip, Empty, Missing, NumberHead, Sign } from "../parts.js";
import { link, route } from "../route.js";
import { currentMoment, review, showMoment, useBindings, useFeed, wish } from "../state.js";
import { html, useEffect, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** Events that are listed. */
const EVENTS_MAX = 200;

/** Beyond so many clusters those with the same reason are one row. */
const ROWS_MAX = 15;

/** Modes of a review, in words. @type {[string, string, string][]} */
const MODES = [
  ["AsIs", "as it stands", "Why the workload is where it is, and not elsewhere"],
  [
    "Fresh",
    "decided afresh",
    "What a decision would say that does not look at where the workload runs now",
  ],
];

export function WorkloadScreen() {
  const bindings = useBindings();
  const clusters = useFeed("clusters");
  const { rest } = route();
  const [namespace = "", name = ""] = rest;
  const key = `${namespace === "-" ? "" : namespace}/${name}`;
  const binding = bindings.feeds[0].items.get(key) ?? bindings.feeds[1].items.get(key);
  if (!binding) {
    const isLoading = bindings.isLoading;
    return html`<${Missing}
        of=${[
          ["bindings", bindings.feeds[0]],
          ["clusterBindings", bindings.feeds[1]],
        ]}
      />
      ${
        isLoading
          ? html`<p class="muted" role="status">Loading…</p>`
          : html`<${Empty} title=${`There is no binding ${key.replace(/^\//, "")}`}>
            <p>${currentMoment() ? "There was none at this moment." : "It may have been deleted."} <a href="#/placements">To the placements</a></p>
          </${Empty}>`
      }`;
  }
  return html`<${Workload}
    key=${key}
    binding=${binding}
    clusters=${clusters.items}
    isCounted=${clusters.state !== "forbidden"}
  />`;
}

/** @param {{ binding: model.Binding, clusters: Map<string, model.Cluster>, isCounted: boolean }} given `isCounted`: it is known which clusters can be reached */
function Workload({ binding, clusters, isCounted }) {
  const { workload } = binding;
  const { wanted, ready, missing } = derive.standing(
    binding,
    derive.unreachable(clusters.values()),
  );
  const group =
    binding.group &&
    html`<${Chip} tip="The affinity group that the placement comes from.">group ${binding.group}</${Chip}>`;
  return html`
    <div class="head">
      <h1>
        <span class="muted">${workload.kind} ${binding.namespace && `${binding.namespace}/`}</span
        >${workload.name}
      </h1>
      <p class="chips">
        <${State} name="Scheduled" condition=${binding.scheduled} />
        <${State} name="FullyApplied" condition=${binding.applied} />
        ${group}
        ${binding.moving && html`<${Chip} tone="home" tip="It is being moved. Its targets may add up to more than it wants meanwhile.">under way: ${binding.moving}</${Chip}>`}
      </p>
      <p class="muted">
        ${
          isCounted
            ? html`<b
                  class=${missing ? "bad-word" : ""}
                  data-tip="Replicas that are ready on clusters that can be reached, of those that are wanted."
                  >${words.number(ready)} of ${words.counted(wanted, "replica")} ready</b
                >${missing > 0 && html`, ${words.number(missing)} missing`}`
            : html`<b>${words.counted(wanted, "replica")} wanted</b>, ready: no access`
        };
        placed on${" "}${toldOf(binding.targets)}
        ${binding.scheduled?.reason === "PartlyScheduled" && html`<br />${binding.scheduled.message}`}
        ${!currentMoment() && html`<${Age} since=${binding.lastScheduled} before=" · decided " /> ${binding.lastScheduled ? "ago" : ""}`}
      </p>
    </div>
    ${
      binding.evictions.length > 0 &&
      html`<section class="panel warn">
        <h2>Evictions under way</h2>
        <ul>
          ${binding.evictions.map(
            (it) =>
              html`<li>
                ${words.counted(it.replicas, "replica")} leave <b>${it.from}</b>:${" "}
                ${it.message || it.reason}. They stay until the replacement is ready.
              </li>`,
          )}
        </ul>
      </section>`
    }
    <${Decision} binding=${binding} clusters=${clusters} />
    <${Past} binding=${binding} />
  `;
}

/** @param {model.Share[]} targets */
const toldOf = (targets) =>
  targets.length > 8
    ? `${words.counted(targets.length, "cluster")}: ${derive.told(targets.slice(0, 8))}, …`
    : derive.told(targets);

/** @param {{ name: string, condition: model.Condition | null }} given */
function State({ name, condition }) {
  if (!condition)
    return html`<${Chip} tip=${`Nobody has said ${name} of it yet.`}>${name}: not known</${Chip}>`;
  const isPartly = condition.reason === "PartlyScheduled";
  const tone = (!isPartly && { True: "good", False: "bad" }[condition.status]) || "warn";
  return html`<${Chip} tone=${tone} tip=${`${condition.reason}: ${condition.message}`}><${Sign} tone=${tone} />${name} ${condition.status}</${Chip}>`;
}

/** @param {{ binding: model.Binding, clusters: Map<string, model.Cluster> }} given */
function Decision({ binding, clusters }) {
  const [mode, choose] = useState("AsIs");
  const [found, find] = useState(/** @type {any} */ (null));
  const [error, fail] = useState("");
  const moment = currentMoment();
  const { apiVersion, kind, name } = binding.workload;
  const asked = `${mode} ${moment?.revision ?? `${binding.changed} ${clusters.size}`} ${binding.key}`;
  useEffect(() => {
    const abort = new AbortController();
    const namespace = binding.workload.namespace || binding.namespace;
    const entry = {
      kind,
      name,
      ...(apiVersion && { apiVersion }),
      ...(namespace && { namespace }),
    };
    review({ select: [entry], mode, explain: "Full", limit: 5 }, abort.signal)
      .then((it) => (find(it), fail("")))
      .catch((cause) => abort.signal.aborted || (find(null), fail(cause.message)));
    return () => abort.abort();
  }, [asked]);
  const is = (/** @type {any} */ it) => model.text(it.binding?.name) === binding.name;
  const entry = found && (found.moves.find(is) ?? found.unplaceable.find(is));
  const attempts = model.list(model.map(entry?.trace).attempts);
  const moves = entry ? derive.changes(model.shares(entry.from), model.shares(entry.to)) : [];
  return html`<section class="panel">
    <div class="panel-head">
      <h2>Why here, and why not there</h2>
      <span class="choice" role="group" aria-label="Which decision">
        ${MODES.map(([value, word, tip]) => html`<button aria-pressed=${mode === value} data-tip=${tip} onClick=${() => choose(value)}>${word}</button>`)}
      </span>
    </div>
    ${error && html`<p class="notice warn" role="status">The decision cannot be explained: ${error}</p>`}
    ${!found && !error && html`<${Awaited}>Asking…</${Awaited}>`}
    ${entry && html`<p class="sentence">${sentence(entry, mode, moves)}</p>`}
    ${found && !entry && html`<p class="sentence">A fresh decision comes to the same: it is where it belongs.</p>`}
    ${attempts.map((attempt) => html`<${Attempt} attempt=${attempt} count=${attempts.length} binding=${binding} />`)}
  </section>`;
}

/** @param {any} entry @param {string} mode @param {ReturnType<typeof derive.changes>} moves */
function sentence(entry, mode, moves) {
  const message = model.text(entry.message);
  if (mode === "AsIs") return message ? `${message[0]?.toUpperCase()}${message.slice(1)}.` : "";
  if (moves.length === 0)
    return message ? `It would stay: ${message}.` : "It would stay where it is.";
  const told = moves.map(({ name, before, after }) => `${name} ${before} → ${after}`).join(", ");
  return `Decided afresh it would move: ${told}.${message && ` (${message})`}`;
}

/** @param {{ attempt: any, count: number, binding: model.Binding }} given */
function Attempt({ attempt, count, binding }) {
  const [isWhole, show] = useState(false);
  const rows = model.list(attempt.clusters);
  const before = new Map(binding.targets.map((it) => [it.name, it.replicas]));
  const sorted = [...rows].sort(
    (a, b) =>
      model.count(b.replicasAfter) - model.count(a.replicasAfter) ||
      Number(b.selected) - Number(a.selected) ||
      model.byName(model.text(a.name), model.text(b.name)),
  );
  const isMany = sorted.length > ROWS_MAX;
  const alike = isMany && !isWhole ? likeReasons(sorted) : [];
  const shown =
    alike.length > 0 ? sorted.filter((it) => !it.out || model.count(it.replicasAfter) > 0) : sorted;
  const hasWeight = rows.some((it) => typeof it.weight === "number");
  const hasRoom = rows.some((it) => typeof it.free === "number");
  return html`
    ${count > 1 && html`<h3>${attempt.group ? `Group ${attempt.group}` : "Attempt"}${attempt.failure ? `: ${attempt.failure}` : ""}</h3>`}
    <div class="scroll" tabindex="0" role="region" aria-label="Clusters">
      <table class="why">
        <thead>
          <tr>
            <th scope="col">cluster</th>
            <${NumberHead} tip="Replicas when the decision was made">before</${NumberHead}>
            <${NumberHead} tip="Replicas by the decision">after</${NumberHead}>
            ${hasRoom && html`<${NumberHead} tip="How many more replicas fit beside those that run there">free</${NumberHead}>`}
            ${hasWeight && html`<${NumberHead} tip="The cluster's weight when the replicas were divided">weight</${NumberHead}>`}
            <${NumberHead} tip="The sum of what the scorers gave. More comes first.">score</${NumberHead}>
            <th scope="col">because</th>
          </tr>
        </thead>
        <tbody>
          ${shown.map((it) => {
            const [was, is] = [model.count(it.replicasBefore), model.count(it.replicasAfter)];
            const scores = model.list(it.scores);
            const score = scores.reduce((all, s) => all + model.count(s.score), 0);
            const copied = before.get(it.name) === null && before.has(it.name);
            const isIn = !it.out && (is > 0 || copied || it.selected);
            return html`<tr class=${isIn ? "in" : "out"} key=${it.name}>
              <th scope="row">${model.text(it.name)}</th>
              <td
                class="number"
                data-tip=${`${words.counted(was, "replica")} on ${it.name} when it was decided`}
              >
                ${was || "–"}
              </td>
              <td
                class=${`number ${is > was ? "arrived" : is < was ? "left" : ""}`}
                data-tip=${`${words.counted(is, "replica")} on ${it.name} by the decision`}
              >
                ${is || (isIn && copied ? "✓" : "–")}
              </td>
              ${hasRoom && html`<td class="number" data-tip=${roomTold(it)}>${typeof it.free === "number" ? words.compact(it.free) : "–"}</td>`}
              ${hasWeight && html`<td class="number" data-tip=${typeof it.weight === "number" ? `The weight of ${it.name}: its part of the sum of all is its part of the replicas` : "Not weighed: it was out before"}>${typeof it.weight === "number" ? words.compact(it.weight) : "–"}</td>`}
              <td
                class="number"
                data-tip=${scores.map((s) => `${s.plugin} ${s.score}`).join(", ") || "Not scored: it was out before"}
              >
                ${scores.length ? score : "–"}
              </td>
              <td class="because">${because(it, isIn)}</td>
            </tr>`;
          })}
          ${alike.map(
            ({ reason, filter, names }) =>
              html`<tr class="out" key=${reason}>
                <th scope="row" colspan=${4 + Number(hasRoom) + Number(hasWeight)}>
                  <span data-tip=${words.few(names, 40)}
                    >${names.length === 1 ? names[0] : `${words.counted(names.length, "cluster")}: ${words.few(names, 2)}`}</span
                  >
                </th>
                <td class="because">${filter && html`<b>${filter}</b>: `}${reason}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${isMany && html`<button class="quiet" onClick=${() => show(!isWhole)}>${isWhole ? "Like reasons together" : `Show each of ${words.counted(sorted.length, "cluster")}`}</button>`}
  `;
}

/** Clusters that are out for the same reason, the most frequent reason first. @param {any[]} rows */
function likeReasons(rows) {
  /** @type {Map<string, { reason: string, filter: string, names: string[] }>} */
  const found = new Map();
  for (const row of rows) {
    const reason = model.text(row.out);
    if (!reason || model.count(row.replicasAfter) > 0) continue;
    const objection = model.list(row.filters).find((it) => it.objection === reason);
    const told = model.text(objection?.detail) || reason;
    const known = found.get(told) ?? {
      reason: told,
      filter: model.text(objection?.filter),
      names: [],
    };
    known.names.push(model.text(row.name));
    found.set(told, known);
  }
  return [...found.values()].sort((a, b) => b.names.length - a.names.length);
}

/** @param {any} row */
const roomTold = ({ name, free, freeFrom }) =>
  typeof free === "number"
    ? `${words.counted(free, "more replica")} would fit on ${name}${freeFrom ? `, by its ${freeFrom}` : ""}`
    : `The free capacity of ${name} is not known`;

/** @param {any} row @param {boolean} isIn */
function because(row, isIn) {
  const objections = model.list(row.filters).filter((it) => it.objection);
  const overruled = objections
    .filter((it) => it.overruled)
    .map((it) => `${it.filter} objects (${it.objection}), but it runs there already`);
  if (overruled.length) return overruled.join("; ");
  if (isIn) return "every filter agrees";
  const objection = objections.find((it) => it.objection === row.out);
  return objection
    ? html`<b>${objection.filter}</b>: ${model.text(objection.detail) || row.out}`
    : model.text(row.out) || "no replica fell to it";
}

/**
 * How a binding came to stand where it does: its last change as it records it, and its events.
 * @param {{ binding: model.Binding }} given
 */
function Past({ binding }) {
  const [events, find] = useState(/** @type {any[] | null} */ (null));
  const [error, fail] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    const selector = `involvedObject.kind=${binding.kind},involvedObject.name=${binding.name}`;
    const place = binding.namespace ? `namespaces/${encodeURIComponent(binding.namespace)}/` : "";
    api
      .get(
        `/api/v1/${place}events?limit=${EVENTS_MAX}&fieldSelector=${encodeURIComponent(selector)}`,
        abort.signal,
      )
      .then((it) => (find(model.list(it.items)), fail("")))
      .catch((cause) => abort.signal.aborted || fail(cause.message));
    return () => abort.abort();
  }, [binding.key, binding.changed]);
  const change = model.lastChange(binding);
  const sorted = (events ?? [])
    .map((it) => ({
      at: model.time(it.lastTimestamp) ?? 0,
      reason: model.text(it.reason),
      message: model.text(it.message),
      tone:
        it.type === "Warning"
          ? "bad"
          : ["ReplicasMoved", "Rebalanced"].includes(model.text(it.reason))
            ? "home"
            : "",
      count: model.count(it.count),
    }))
    .sort((a, b) => b.at - a.at || rank(a.reason) - rank(b.reason));
  return html`<section class="panel">
    <h2>How it came to stand there</h2>
    ${change && html`<p class="last-change"><b>Last change</b>${change.at !== null && html` <${Age} since=${change.at} /> ago`}: ${change.sentence}</p>`}
    ${!change && binding.targets.length > 0 && html`<p class="muted">The cause of its last change is not recorded.</p>`}
    ${error && html`<p class="notice warn" role="status">Its events cannot be read: ${error}</p>`}
    ${events && sorted.length === 0 && html`<p class="muted">No event of the last hour is about it.</p>`}
    <ol class="chronicle">
      ${sorted.map(
        ({ at, reason, message, tone, count }) =>
          html`<li class=${tone}>
            <button class="quiet" data-tip="Ask why at this moment" onClick=${() => ask(at)}>
              <time datetime=${new Date(at).toISOString()}>${words.clock(at)}</time>
            </button>
            <${Sign} tone=${tone || "none"} /><span
              ><b>${reason}</b>${" "}
              ${message}${count > 1 && html` <span class="muted">×${count}</span>`}</span
            >
          </li>`,
      )}
    </ol>
    <p><a href=${link(["outage"])}>What happened to the fleet meanwhile</a></p>
  </section>`;
}

/** What moved it comes before what was said of it in the same second. @param {string} reason */
const rank = (reason) => (["ReplicasMoved", "Rebalanced"].includes(reason) ? 0 : 1);

/** @param {number} at */
async function ask(at) {
  const second = Math.min(at + 1000, api.now());
  const isWanted = wish();
  const revision = await revisionAt(second, new AbortController().signal);
  if (isWanted()) showMoment({ at: second, revision });
  scrollTo({ top: 0 });
}
