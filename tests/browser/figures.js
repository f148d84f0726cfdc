// Measures the page: how soon a screen with many workloads is there, what it holds in memory, how
// long after its commit a change is on the screen, and how smoothly the slider of the Outage screen
// is dragged. It also measures what a scrape of the metrics costs. It asserts nothing.
//
//   BALLAST=target/release/ballast tests/browser/run --figures [WORKLOADS CLUSTERS]
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { chromium } from "@playwright/test";

import { client, storm } from "./fleets.js";
import { folder, start } from "./program.js";

const [workloads, clusters] = process.argv.slice(2).map(Number);
const ROUNDS = 5;
const CHANGES = 20;
const SCRAPES = 20;
const DRAGS = 3;
const BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";

const place = folder();
const certificates = join(place.path, "certs");
const server = await start(
  ["serve", "--secure-port", "0", "--database-url", `sqlite://${place.path}/ballast.db`].concat([
    "--cert-dir",
    certificates,
  ]),
  /https:\/\/(\S+:\d+)/,
);
const send = client(certificates, server.match[1]);

const cluster = async (i) => {
  const name = `member${i}`;
  await send("POST", CLUSTERS, {
    apiVersion: "cluster.karmada.io/v1alpha1",
    kind: "Cluster",
    metadata: { name },
    spec: { syncMode: "Push" },
  });
  const status = {
    apiEnablements: [
      { groupVersion: "apps/v1", resources: [{ kind: "Deployment", name: "deployments" }] },
    ],
    resourceSummary: {
      allocatable: { cpu: "64000", memory: "256Ti", pods: "1100000" },
      allocated: {},
    },
  };
  await send("PATCH", `${CLUSTERS}/${name}/status`, { status });
};

/** Replicas over one to nine clusters each, so that the table has something to show. */
const binding = (i) =>
  send("POST", BINDINGS, {
    apiVersion: "work.karmada.io/v1alpha2",
    kind: "ResourceBinding",
    metadata: { name: `web-${i}-deployment`, namespace: "default", labels: { app: "web" } },
    spec: {
      resource: {
        apiVersion: "apps/v1",
        kind: "Deployment",
        name: `web-${i}`,
        namespace: "default",
        uid: `u-${i}`,
      },
      replicas: 2 + (i % 9),
      replicaRequirements: { resourceRequest: { cpu: "250m", memory: "256Mi" } },
      placement: {
        clusterAffinity: { clusterNames: [] },
        replicaScheduling: {
          replicaSchedulingType: "Divided",
          replicaDivisionPreference: "Weighted",
          weightPreference: { dynamicWeight: "AvailableReplicas" },
        },
      },
    },
  });

const middle = (times) => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];
const told = (times) => `${middle(times).toFixed(0)} ms (at most ${Math.max(...times).toFixed(0)})`;

await storm(clusters, cluster);
await storm(workloads, binding);
for (;;) {
  const { items } = await send("GET", BINDINGS);
  if (items.every((it) => it.status?.lastScheduledTime)) break;
}
const ui = await start(
  ["ui", "--port", "0", "--kubeconfig", join(certificates, "admin.kubeconfig")],
  /is at (\S+)\nCtrl-C/,
);
const origin = new URL(ui.match[1]).origin;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

const painted = [];
const shown = [];
const counted = [];
let page;
let session;
let transferred = 0;
for (let round = 0; round < ROUNDS; round += 1) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  page = await context.newPage();
  session = await context.newCDPSession(page);
  await session.send("Network.enable");
  const files = new Set();
  transferred = 0;
  session.on("Network.requestWillBeSent", ({ requestId, request: { url } }) => {
    if (new URL(url).pathname.startsWith("/ui/")) files.add(requestId);
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (files.has(requestId)) transferred += encodedDataLength;
  });
  await page.goto(ui.match[1]);
  await page.waitForURL("**/ui/**");
  await page.locator(".connection", { hasText: "live" }).waitFor();
  await page.close();
  page = await context.newPage();
  session = await context.newCDPSession(page);
  // The moment at which the table stands with numbers in it, by the page's own clock.
  await page.addInitScript(() => {
    const look = () => {
      const cells = document.querySelectorAll(".table-row .cell.number");
      if ([...cells].some((cell) => /\d/.test(cell.textContent ?? ""))) {
        globalThis.shownAt = performance.now();
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await page.goto(`${origin}/ui/#/placements?view=matrix`);
  await page.waitForFunction(() => globalThis.shownAt !== undefined);
  shown.push(await page.evaluate(() => globalThis.shownAt));
  painted.push(
    await page.evaluate(
      () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
    ),
  );
  // All figures of the Fleet screen, with what the server counts.
  const other = await context.newPage();
  await other.addInitScript(() => {
    const look = () => {
      const figures = [...document.querySelectorAll(".figure")];
      if (figures.length > 0 && figures.every((it) => /\d/.test(it.textContent ?? ""))) {
        globalThis.shownAt = performance.now();
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await other.goto(`${origin}/ui/#/fleet`);
  await other.waitForFunction(() => globalThis.shownAt !== undefined);
  counted.push(await other.evaluate(() => globalThis.shownAt));
  await other.close();
  if (round < ROUNDS - 1) await context.close();
}

const all = `${workloads.toLocaleString("en")} workloads`;
await page.locator('.filters [role="status"]', { hasText: all }).waitFor();
await session.send("HeapProfiler.enable");
await session.send("HeapProfiler.collectGarbage");
await session.send("Performance.enable");
const { metrics } = await session.send("Performance.getMetrics");
const heap = metrics.find(({ name }) => name === "JSHeapUsedSize").value;

// A row that can be seen shows its own number of replicas; the change is one more on a target.
const late = [];
for (let round = 0; round < CHANGES; round += 1) {
  const path = `${BINDINGS}/web-0-deployment`;
  const wanted = String(100 + round);
  const seen = page.evaluate(
    (text) =>
      new Promise((resolve) => {
        const isThere = () =>
          [...document.querySelectorAll(".table-row .cell.number")].some((cell) =>
            (cell.textContent ?? "").startsWith(text),
          );
        const look = () => (isThere() ? resolve(Date.now()) : requestAnimationFrame(look));
        look();
      }),
    wanted,
  );
  // The first column is always in the document.
  const on = [{ name: "member0", replicas: Number(wanted) }];
  await send("PATCH", path, { spec: { schedulerName: "nobody", clusters: on } });
  const committed = Date.now();
  late.push(Math.max(0, (await seen) - committed));
}

const filtered = await page.evaluate(async () => {
  const input = document.querySelector('input[type="search"]');
  const count = () => document.querySelector('.filters [role="status"]')?.textContent;
  const before = count();
  const from = performance.now();
  input.value = "web-1";
  input.dispatchEvent(new Event("input", { bubbles: true }));
  while (count() === before) await new Promise(requestAnimationFrame);
  return performance.now() - from;
});

// The slider is dragged from one end to the other. Frames are counted by the page.
await page.goto(`${origin}/ui/#/outage`);
const slider = page.getByRole("slider");
await slider.waitFor();
await page.waitForTimeout(15_000);
const box = await slider.boundingBox();
const frames = [];
for (let round = 0; round < DRAGS; round += 1) {
  await page.mouse.move(box.x + box.width - 4, box.y + box.height / 2);
  await page.mouse.down();
  await page.evaluate(() => {
    globalThis.frames = [];
    let last = performance.now();
    const note = (now) => {
      globalThis.frames.push(now - last);
      last = now;
      globalThis.noting = requestAnimationFrame(note);
    };
    globalThis.noting = requestAnimationFrame(note);
  });
  const steps = 120;
  for (let step = 1; step <= steps; step += 1) {
    await page.mouse.move(box.x + (box.width - 8) * (1 - step / steps) + 4, box.y + box.height / 2);
  }
  frames.push(
    ...(await page.evaluate(() => {
      cancelAnimationFrame(globalThis.noting);
      return globalThis.frames.slice(1);
    })),
  );
  await page.mouse.up();
  await page.keyboard.press("End");
  await page.waitForTimeout(2000);
}

/** Seconds of processor time that the server has used. */
const used = () => {
  const fields = readFileSync(`/proc/${server.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const file = (name) => readFileSync(join(certificates, name));
const [host, port] = server.match[1].split(":");
const scrape = () =>
  new Promise((resolve, reject) => {
    const [ca, cert, key] = ["ca.crt", "admin.crt", "admin.key"].map(file);
    const asked = request({ host, port, path: "/metrics", ca, cert, key }, (answer) => {
      let size = 0;
      answer.on("data", (piece) => (size += piece.length));
      answer.on("end", () => resolve(size));
    });
    asked.on("error", reject).end();
  });
const scrapes = [];
await page.close();
const before = used();
let metricsSize = 0;
for (let round = 0; round < SCRAPES; round += 1) {
  const from = performance.now();
  metricsSize = await scrape();
  scrapes.push(performance.now() - from);
}
const scrapeCpu = ((used() - before) / SCRAPES) * 1000;
const idle = [used(), Date.now()];
await new Promise((resolve) => setTimeout(resolve, 10_000));
const idleShare = ((used() - idle[0]) / ((Date.now() - idle[1]) / 1000)) * 100;

process.stdout.write(
  [
    `${workloads} workloads on ${clusters} clusters, the median of ${ROUNDS} loads`,
    `first contentful paint   ${told(painted)}`,
    `the table has numbers    ${told(shown)}`,
    `all figures of Fleet     ${told(counted)}`,
    `JavaScript heap          ${(heap / 1e6).toFixed(1)} MB`,
    `the page's own files     ${(transferred / 1e3).toFixed(0)} KB as transferred`,
    `a change on the screen   ${told(late)} after its answer, ${CHANGES} changes`,
    `a filter                 ${filtered.toFixed(0)} ms`,
    `frames while dragging    ${told(frames)} apart, ${frames.filter((it) => it > 34).length} of ${frames.length} later than 34 ms`,
    `a scrape of the metrics  ${told(scrapes)}, ${(metricsSize / 1e3).toFixed(0)} KB, ${scrapeCpu.toFixed(0)} ms of processor time with its handshake`,
    `the server without any   ${idleShare.toFixed(1)} % of a core`,
    "",
  ].join("\n"),
);
await browser.close();
await ui.stop();
await server.stop();
place.remove();
