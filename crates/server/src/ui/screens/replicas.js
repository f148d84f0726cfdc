// @ts-check
/** Who shares the log, and who of them leads: a part of Health, from the same metrics. */
import { Chip, NumberHead } from "../parts.js";
import { html } from "../vendor/preact-htm/standalone.js";
import * as words from "../words.js";

/** A replica speaks every two seconds. One that has said nothing for so long may be gone. */
const SILENT_MS = 10_000;

/** @typedef {import("./health.js").Point} Point */
/** @typedef {{ name: string, address: string, version: string, isHere: boolean, leads: boolean, missing: number, lag: number, silence: number }} Replica */

/** @param {Map<string, Point[]>} metrics @returns {Replica[]} by name */
function replicasIn(metrics) {
  /** @param {string} family */
  const values = (family) =>
    new Map(
      (metrics.get(`ballast_replica_${family}`) ?? []).map((it) => [it.labels.name, it.value]),
    );
  const [leads, missing, lag, silence] = [
    values("leads"),
    values("missing_revisions"),
    values("lag_seconds"),
    values("silence_seconds"),
  ];
  return (metrics.get("ballast_replica_info") ?? [])
    .map(({ labels: { name = "", address = "", version = "", here } }) => ({
      name,
      address,
      version,
      isHere: here === "true",
      leads: leads.get(name) === 1,
      missing: missing.get(name) ?? 0,
      lag: milliseconds(lag.get(name)),
      silence: milliseconds(silence.get(name)),
    }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** @param {number | undefined} seconds */
const milliseconds = (seconds = 0) => Math.round(seconds * 1000);

/** A name is that of the machine or the pod, and an id of the process. @param {Replica} replica */
const machine = ({ name }) => name.replace(/_[0-9a-f-]{36}$/, "") || name;

/** @param {{ metrics: Map<string, Point[]> }} given */
export function Replicas({ metrics }) {
  const replicas = replicasIn(metrics);
  const keeper = metrics.get("ballast_store_info")?.[0]?.labels.back_end ?? "";
  return html`<section class="panel replicas">
    <h2>Leader and replicas</h2>
    ${
      replicas.length > 0
        ? html`<${Several}
            replicas=${replicas}
            term=${metrics.get("ballast_leader_term")?.[0]?.value ?? 0}
          />`
        : html`<p class="sentence">${ALONE[keeper] ?? UNKNOWN}</p>`
    }
  </section>`;
}

/** @type {Record<string, string>} */
const ALONE = {
  SQLite:
    "One server, SQLite. It leads, because it has the log to itself, and nobody takes over while it is away. Several replicas can share a PostgreSQL database.",
  memory:
    "One server, in memory. It leads, because it has the log to itself, and all that it knows goes with it.",
  PostgreSQL: "No replica has said yet that it is there.",
};
const UNKNOWN =
  "The server does not say which replicas there are. It is older than this page, or another API server answers for it.";

/** @param {{ replicas: Replica[], term: number }} given */
function Several({ replicas, term }) {
  const here = replicas.find((it) => it.isHere);
  const leader = replicas.find((it) => it.leads);
  // What is known came over the database. While the one that is asked cannot reach it, the others
  // seem silent, too.
  const isCutOff = here !== undefined && here.silence > SILENT_MS;
  return html`
    ${
      isCutOff
        ? html`<p class="notice bad" role="status">
            ${`${machine(here)} answers here, and has not reached the database for ${words.span(here.silence)}. What is below is from then.`}
          </p>`
        : leader
          ? html`<p class="sentence" data-tip="Each change of the leader begins a new term.">
              <b>${machine(leader)}</b> at ${leader.address} leads, in term ${words.number(term)}.
            </p>`
          : html`<p class="notice warn" role="status">
              Nobody leads at the moment: reads go on, and writes wait for the next leader.
            </p>`
    }
    <div class="scroll" tabindex="0" role="region" aria-label="Replicas">
      <table>
        <thead>
          <tr>
            <th scope="col">replica</th>
            <th scope="col">address</th>
            <th scope="col">role</th>
            <${NumberHead} tip="How long ago its state was last known to be the newest, as it said itself">behind</${NumberHead}>
            <${NumberHead} tip="How long ago it last said that it is there. It does so every two seconds">heard of</${NumberHead}>
            <th scope="col">version</th>
          </tr>
        </thead>
        <tbody>
          ${replicas.map((it) => html`<${Row} key=${it.name} replica=${it} isCutOff=${isCutOff} />`)}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{ replica: Replica, isCutOff: boolean }} given */
function Row({ replica, isCutOff }) {
  const { name, address, version, isHere, leads, missing, lag, silence } = replica;
  const isSilent = silence > SILENT_MS && !isCutOff;
  const who = machine(replica);
  const [tone, role, tip] = isSilent
    ? ["bad", "silent", `${who} may be gone. After ten minutes it is forgotten.`]
    : leads
      ? ["good", "leads", `${who} numbers the changes and commits them, and its workers run.`]
      : ["", "follows", `${who} answers reads, passes writes on, and takes over if need be.`];
  const behind = isSilent ? "–" : `${words.number(lag)} ms`;
  return html`<tr class=${isSilent ? "out" : ""}>
    <th scope="row" tabindex="0" data-tip=${`Its whole name, new with each start: ${name}`}>
      ${who}${isHere && html`<span class="muted">${" "}answers here</span>`}
    </th>
    <td class="replica-address">${address}</td>
    <td><${Chip} tone=${tone} tip=${tip}>${role}</${Chip}></td>
    <td
      class="number"
      data-name="behind"
      data-tip=${
        isSilent
          ? `Nobody knows how far ${who} has come`
          : `${who} lacked ${words.counted(missing, "change")} that it knew of, and had all ${words.number(lag)} ms before it last said so`
      }
    >
      ${behind}
    </td>
    <td class="number" data-name="heard of" data-tip=${`${who} was last heard of ${words.span(silence)} ago`}>
      ${words.span(silence)} ago
    </td>
    <td class="version" data-name="version">${version}</td>
  </tr>`;
}
