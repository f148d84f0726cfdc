// @ts-check
/** What the loss of each domain would strand: a heat map of domains by resource, the worst first. */
import * as model from "../model.js";
import { Age, Awaited, Choice, Chip, Name } from "../parts.js";
import { refine } from "../route.js";
import { currentMoment, review, useRoute } from "../state.js";
import { html, useEffect, useState } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** Domains that are listed at first: the worst ones. */
const SHOWN_FIRST = 12;
/** Resources that have a column. */
const RESOURCES_MAX = 6;

const DOMAINS = /** @type {const} */ ([
  ["Cluster", "cluster", "Each cluster alone"],
  ["Zone", "zone", "All clusters of one zone"],
  ["Region", "region", "All clusters of one region"],
  ["Provider", "provider", "All clusters of one provider"],
]);

/**
 * @param {{ onLose: (by: string, name: string) => void }} given what follows where a loss is to be
 *   looked at more closely
 */
export function Survival({ onLose }) {
  const { query } = useRoute();
  const by = query.get("by") ?? "Cluster";
  const word = DOMAINS.find(([it]) => it === by)?.[1] ?? "cluster";
  const [answer, tell] = useState(
    /** @type {{ domains: any[], time: number | null, error: string } | null} */ (null),
  );
  const [asked, ask] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    tell(null);
    review({ select: [{ all: true }], survive: { by } }, abort.signal)
      .then(({ survival, survivalTime: time }) => tell({ domains: survival, time, error: "" }))
      .catch(
        (cause) => abort.signal.aborted || tell({ domains: [], time: null, error: cause.message }),
      );
    return () => abort.abort();
  }, [by, asked, currentMoment()?.revision]);
  return html`<section class="panel survival">
    <div class="panel-head">
      <h2>Would we survive?</h2>
      <span class="row">
        <${Choice}
          label="What is lost"
          value=${by}
          of=${DOMAINS}
          onChoose=${(/** @type {string} */ it) => refine({ by: it })}
        />
        <button onClick=${() => ask((n) => n + 1)}>Ask again</button>
      </span>
    </div>
    ${!answer && html`<${Awaited}>Asking…</${Awaited}>`}
    ${answer?.time && html`<p class="notice" role="status"><${Age} since=${answer.time} before="The answer is " /> old: about the present it takes too long for a request.</p>`}
    ${answer?.error && html`<p class="notice warn" role="status">No answer: ${answer.error}</p>`}
    ${answer && !answer.error && html`<${HeatMap} domains=${answer.domains} word=${word} onLose=${(/** @type {string} */ name) => onLose(by, name)} key=${by} />`}
  </section>`;
}

/** The resources that the domains have most of, cpu and memory first. @param {any[]} domains */
function resourcesOf(domains) {
  const rank = (/** @type {string} */ it) => {
    const at = ["cpu", "memory", "pods"].indexOf(it);
    return at < 0 ? 3 : at;
  };
  const all = new Set(domains.flatMap((it) => Object.keys(model.map(it.share))));
  return [...all].sort((a, b) => rank(a) - rank(b) || model.byName(a, b)).slice(0, RESOURCES_MAX);
}

/** @param {{ domains: any[], word: string, onLose: (name: string) => void }} given */
function HeatMap({ domains, word, onLose }) {
  const [isWhole, show] = useState(false);
  const [open, turn] = useState("");
  const resources = resourcesOf(domains);
  const isStranding = (/** @type {any} */ it) => model.count(it.strandedWorkloads) > 0;
  const worse = domains.filter(isStranding).length;
  const share = (/** @type {any} */ it, /** @type {string} */ resource) =>
    Number(model.map(it.share)[resource] ?? 0);
  const most = Object.fromEntries(
    resources.map((name) => [name, Math.max(1e-9, ...domains.map((it) => share(it, name)))]),
  );
  const shown = isWhole ? domains : domains.slice(0, SHOWN_FIRST);
  const headline =
    worse === 0
      ? `The loss of any one ${word} would strand nothing.`
      : `${words.number(worse)} of ${words.counted(domains.length, word)} would strand workloads if lost alone.`;
  return html`<p class=${worse ? "bad-word" : ""} role="status">${headline}</p>
    <div class="scroll">
      <table class="heat">
        <thead>
          <tr>
            <th scope="col">${word}</th>
            <th
              scope="col"
              class="number"
              data-tip="Replicas that would fit nowhere after the loss, and fit somewhere before it"
            >
              stranded
            </th>
            <th scope="col" class="number" data-tip="Workloads of these replicas">workloads</th>
            ${resources.map((name) => html`<th scope="col" class="number" data-tip=${`The part of all ${name} of the fleet that it has: how much is lost, and not how much is used`} key=${name}>${words.resource(name)}<small class="muted"> of the fleet</small></th>`)}
          </tr>
        </thead>
        <tbody>
          ${shown.map((it, index) => {
            const name = model.text(it.name);
            const isOpen = open === name;
            return html`<tr class=${isStranding(it) ? "stranding" : ""} key=${name}>
                <th scope="row">
                  <button
                    class="quiet"
                    aria-expanded=${isOpen}
                    onClick=${() => turn(isOpen ? "" : name)}
                  >
                    <${Name} name=${name} />
                  </button>
                  ${index === 0 && worse > 0 && html` <${Chip} tone="bad">worst</${Chip}>`}
                </th>
                <td class="number">${words.number(model.count(it.strandedReplicas))}</td>
                <td class="number">${words.number(model.count(it.strandedWorkloads))}</td>
                ${resources.map(
                  (resource) =>
                    html`<td
                      class="number hot"
                      key=${resource}
                      style=${{ "--heat": share(it, resource) / (most[resource] ?? 1) }}
                    >
                      ${words.percent(share(it, resource), 1)}
                    </td>`,
                )}
              </tr>
              ${
                isOpen &&
                html`<tr class="who">
                  <td colspan=${3 + resources.length}>
                    <${Who} of=${it} onLose=${() => onLose(name)} />
                  </td>
                </tr>`
              }`;
          })}
        </tbody>
      </table>
    </div>
    ${domains.length > SHOWN_FIRST && html`<button class="quiet" onClick=${() => show(!isWhole)}>${isWhole ? "Show fewer" : `Show ${words.counted(domains.length - SHOWN_FIRST, "more", "more")}`}</button>`}`;
}

/** Who would be stranded, and what room would be left. @param {{ of: any, onLose: () => void }} given */
function Who({ of, onLose }) {
  const first = Array.isArray(of.first) ? of.first.map(model.text) : [];
  const more = model.count(of.strandedWorkloads) - first.length;
  const left = Object.entries(model.map(of.roomLeft)).slice(0, RESOURCES_MAX);
  return html`<p>
      ${first.length === 0 ? "All that runs there would find room elsewhere." : html`<b>Would fit nowhere:</b> ${first.join(", ")}${more > 0 && ` and ${words.number(more)} more`}`}
    </p>
    <p class="muted">
      ${`Room left in the rest: ${left.map(([name, it]) => `${words.resource(name)} ${it}`).join(", ") || "none"}`}
    </p>
    <button onClick=${onLose}>Simulate this loss</button>`;
}
