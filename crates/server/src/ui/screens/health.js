// @ts-check
/** Health: how the server itself does, from its metrics. */
import * as api from "../api.js";
import { Empty, Figure, NumberHead } from "../parts.js";
import { html, useEffect, useState } from "../vendor/preact-htm/standalone.js";
import { wait } from "../feed.js";
import { sayAsking } from "../state.js";
import * as words from "../words.js";
import { Replicas } from "./replicas.js";

const EVERY_MS = 3000;

/** @typedef {{ labels: Record<string, string>, value: number }} Point */

export function HealthScreen() {
  const [found, find] = useState(
    /** @type {{ now: Map<string, Point[]>, before: Map<string, Point[]> | null, version: string, at: number, between: number } | null} */ (
      null
    ),
  );
  const [error, fail] = useState(/** @type {api.ApiError | null} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    const ask = async () => {
      try {
        const [text, version] = await Promise.all([
          api.getText("/metrics", abort.signal),
          api.get("/version", abort.signal),
        ]);
        const [now, at] = [read(text), performance.now()];
        fail(null);
        sayAsking("live");
        find((last) => ({
          now,
          // Counters of another process, as of another replica, began elsewhere.
          before: last && started(last.now) === started(now) ? last.now : null,
          version: String(version.gitVersion ?? ""),
          at,
          between: last ? (at - last.at) / 1000 : 0,
        }));
      } catch (cause) {
        if (abort.signal.aborted) return;
        const told = /** @type {api.ApiError} */ (cause);
        fail(told);
        sayAsking(told.isForbidden ? "live" : "away", told.message);
      }
    };
    const look = async () => {
      while (!abort.signal.aborted) {
        await ask();
        await wait(EVERY_MS, abort.signal);
      }
    };
    void look();
    return () => {
      abort.abort();
      sayAsking("idle");
    };
  }, []);
  return html`
    <div class="head">
      <h1>Health</h1>
      <p class="muted">From the server's own metrics, every ${EVERY_MS / 1000} seconds.</p>
    </div>
    ${
      error?.isForbidden &&
      html`<${Empty} title="You may not read the metrics"><p>${error.message}</p><p>The right to get the path /metrics is missing.</p></${Empty}>`
    }
    ${error && !error.isForbidden && html`<p class="notice warn" role="status">${error.message}</p>`}
    ${found && html`<${Found} ...${found} />`}
  `;
}

/** @param {{ now: Map<string, Point[]>, before: Map<string, Point[]> | null, version: string, between: number }} given */
function Found({ now, before, version, between }) {
  const one = (/** @type {string} */ name) => now.get(name)?.[0]?.value;
  const commit = mean(now, before, "ballast_store_commit_duration_seconds");
  const writes = rate(now, before, between, "ballast_store_commits_total");
  const trigger = mean(now, null, "ballast_trigger_to_scheduled_seconds");
  const requests = rate(now, before, between, "apiserver_request_total");
  const expiry = one("ballast_serving_certificate_expiry_timestamp_seconds");
  const left = expiry ? expiry * 1000 - api.now() : null;
  const queues = (now.get("ballast_worker_queue_depth") ?? []).map((it) => ({
    name: it.labels.name ?? it.labels.worker ?? Object.values(it.labels)[0] ?? "",
    depth: it.value,
    waiting:
      now.get("ballast_worker_queue_waiting")?.find((w) => same(w.labels, it.labels))?.value ?? 0,
  }));
  const size = sizes(now);
  const leader = one("ballast_leader");
  const term = one("ballast_leader_term");
  const lag = one("ballast_lag_seconds");
  const began = started(now);
  const losses = one("ballast_history_lost_total") ?? 0;
  return html`
    ${
      losses > 0 &&
      html`<p class="notice warn" role="status">
        ${`The database has lost changes that were acknowledged: ${words.number(one("ballast_history_lost_revisions") ?? 0)} revisions the last time. The log says from when to when.`}
      </p>`
    }
    <div class="figures">
      <${Figure}
        value=${version || "–"}
        name="version"
        tip="The version that the server says of itself."
      />
      <${Figure}
        value=${leader === undefined ? "–" : leader ? "yes" : "no"}
        name="leads"
        tip=${`Whether this replica commits, and its workers run.${term ? ` The present leader's term is ${words.number(term)}.` : ""}`}
      />
      ${
        leader === 0 &&
        lag !== undefined &&
        html`<${Figure}
          value=${ms(lag)}
          name="behind"
          tip="How long ago this replica had all that the leader has committed."
        />`
      }
      <${Figure}
        value=${began ? words.span(api.now() - began * 1000) : "–"}
        name="up"
        tip="Since the process began."
      />
      <${Figure}
        value=${commit === null ? "–" : ms(commit)}
        name="a commit takes"
        tip="Mean time of the last commits to the store."
      />
      <${Figure}
        value=${writes === null ? "–" : `${words.number(Math.round(writes))}/s`}
        name="commits"
        tip="Commits a second, between the last two looks."
      />
      <${Figure}
        value=${requests === null ? "–" : `${words.number(Math.round(requests))}/s`}
        name="requests"
        tip="Requests a second, between the last two looks."
      />
      <${Figure}
        value=${trigger === null ? "–" : ms(trigger)}
        name="trigger to scheduled"
        tip="Mean time from a trigger to its decision, since the process began."
      />
      <${Figure}
        value=${left === null ? "–" : words.span(left)}
        name="certificate left"
        tone=${left !== null && left < 7 * 86_400_000 ? "bad" : ""}
        tip="Until the serving certificate expires."
      />
      ${size.map(({ name, value, tip }) => html`<${Figure} value=${words.bytes(value)} name=${name} tip=${tip} />`)}
    </div>
    <${Replicas} metrics=${now} />
    <${Queues} queues=${queues} />
  `;
}

/** @param {{ queues: { name: string, depth: number, waiting: number }[] }} given */
function Queues({ queues }) {
  return html`<section class="panel">
    <h2>Queues of the workers</h2>
    ${
      queues.length === 0
        ? html`<p class="muted">No worker runs in this process: they run where the leader is.</p>`
        : html`<div class="scroll" tabindex="0" role="region" aria-label="Queues of the workers">
        <table>
          <thead>
            <tr>
              <th scope="col">worker</th>
              <${NumberHead} tip="Keys that are ready to be worked on">ready</${NumberHead}>
              <${NumberHead} tip="Keys that wait for their time">waiting</${NumberHead}>
            </tr>
          </thead>
          <tbody>
            ${queues.map(
              (it) =>
                html`<tr key=${it.name}>
                  <th scope="row">${it.name}</th>
                  <td
                    class="number"
                    data-tip=${`${words.counted(it.depth, "key")} of ${it.name} ready to be worked on`}
                  >
                    ${words.number(it.depth)}
                  </td>
                  <td
                    class="number"
                    data-tip=${`${words.counted(it.waiting, "key")} of ${it.name} waiting for their time: a retry, or an hour that something is kept`}
                  >
                    ${words.number(it.waiting)}
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>`
    }
  </section>`;
}

/** @param {number} seconds */
const ms = (seconds) =>
  seconds < 0.0995
    ? `${(seconds * 1000).toFixed(1)} ms`
    : seconds < 10
      ? `${Math.round(seconds * 1000)} ms`
      : words.span(seconds * 1000);

/** @param {Record<string, string>} a @param {Record<string, string>} b */
const same = (a, b) => Object.keys(a).every((key) => a[key] === b[key]);

/** When the process began that has answered. @param {Map<string, Point[]>} now */
const started = (now) => now.get("process_start_time_seconds")?.[0]?.value;

/** Metrics of sizes, in bytes: what each is called, and what it says. */
const SIZES = [
  ["ballast_store_size_bytes", "database", "What the database takes of its disk."],
  [
    "ballast_store_free_bytes",
    "unused in it",
    "The part of the database that holds nothing and is used again. It says nothing about the disk.",
  ],
  ["process_resident_memory_bytes", "memory", "What the server's process holds in memory."],
];

/** Only SQLite says what of its file holds nothing. @param {Map<string, Point[]>} now @param {string | undefined} metric */
const isCounted = (now, metric) =>
  metric !== "ballast_store_free_bytes" ||
  now.get("ballast_store_info")?.[0]?.labels.back_end !== "PostgreSQL";

/** @param {Map<string, Point[]>} now */
const sizes = (now) =>
  SIZES.filter(([metric]) => now.has(/** @type {string} */ (metric)) && isCounted(now, metric)).map(
    ([metric, name, tip]) => ({ name, value: total(now, /** @type {string} */ (metric)), tip }),
  );

/** @param {Map<string, Point[]>} all @param {string} name */
const total = (all, name) => (all.get(name) ?? []).reduce((sum, { value }) => sum + value, 0);

/** How often a second, where there were so many seconds between. @param {Map<string, Point[]>} now @param {Map<string, Point[]> | null} before @param {number} between @param {string} name */
function rate(now, before, between, name) {
  if (!before || !now.has(name) || between <= 0) return null;
  return Math.max(0, total(now, name) - total(before, name)) / between;
}

/** The mean of a histogram, of what came between two looks if anything did. @param {Map<string, Point[]>} now @param {Map<string, Point[]> | null} before @param {string} name */
function mean(now, before, name) {
  const of = (/** @type {Map<string, Point[]>} */ all) => [
    total(all, `${name}_sum`),
    total(all, `${name}_count`),
  ];
  const [sum = 0, count = 0] = of(now);
  const [sumBefore = 0, countBefore = 0] = before ? of(before) : [];
  if (count > countBefore && countBefore > 0) return (sum - sumBefore) / (count - countBefore);
  return count > 0 ? sum / count : null;
}

/** Reads the text format of Prometheus. @param {string} text @returns {Map<string, Point[]>} */
export function read(text) {
  /** @type {Map<string, Point[]>} */
  const found = new Map();
  for (const line of text.split("\n")) {
    const [, name, inner = "", number] = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (!name || name.endsWith("_bucket")) continue;
    const labels = Object.fromEntries(
      [...inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((it) => [it[1], it[2]]),
    );
    const value = Number(number);
    if (!found.has(name)) found.set(name, []);
    if (Number.isFinite(value)) found.get(name)?.push({ labels, value });
  }
  return found;
}
