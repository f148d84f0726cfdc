// What goes wrong around the page: markup in names, a server that leaves, rights that are missing,
// clocks that are off, and requests that are not the page's.
import { request as raw } from "node:http";
import { copyFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { enter, expect, figure, secretOf, test } from "./page.js";
import { folder, start } from "./program.js";

const BINDINGS = "/apis/work.karmada.io/v1alpha2";
const NASTY = `<img src=x onerror="alert(1)">&lt;b&gt;`;

const binding = (name, resource) => ({
  apiVersion: "work.karmada.io/v1alpha2",
  kind: "ResourceBinding",
  metadata: { name, namespace: "shop", labels: { nasty: "yes" } },
  spec: {
    resource: { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", ...resource },
    replicas: 2,
  },
});

test("markup in names is text", async ({ ui }) => {
  const path = `${BINDINGS}/namespaces/shop/resourcebindings`;
  const made = await ui.send("POST", path, binding("nasty", { name: NASTY }));
  expect(made.status()).toBe(201);
  await ui.go("#/placements?q=nasty");
  await expect(ui.page.locator(".table-row")).toContainText(NASTY);
  await ui.page.locator(".table-row").hover();
  await ui.page.locator(".table-row").click();
  await expect(ui.page.getByRole("heading", { level: 1 })).toContainText(NASTY);
  expect(await ui.page.locator("img:not([src='icon.svg'])").count()).toBe(0);
  await ui.send("DELETE", `${path}/nasty`);
  await expect(ui.page.getByText("There is no binding shop/nasty")).toBeVisible();
});

test("objects that are half filled, or of another shape, break no screen", async ({ ui }) => {
  const odd = [
    { metadata: { name: "bare" } },
    {
      metadata: { name: "odd", namespace: "shop", labels: ["a"], managedFields: {} },
      spec: "text",
      status: 7,
    },
    {
      metadata: { name: "odder", namespace: "shop", annotations: 1, creationTimestamp: 5 },
      spec: {
        clusters: [null, { name: 3 }, "x", { name: "m" }],
        gracefulEvictionTasks: [{}],
        replicas: "many",
        resource: [],
        taints: [{}],
        zones: "z",
        policy: 4,
        targetCluster: {},
        clusterDecision: 4,
        rebalance: {},
        workload: 3,
        from: 3,
        to: [{}],
        undo: 3,
      },
      status: {
        conditions: [{}, null, { type: "Ready" }],
        aggregatedStatus: [null, {}],
        resourceSummary: { allocatable: { cpu: {}, memory: "12Xx" } },
        placementStatuses: [{}],
        summary: [],
        clusters: [{}],
        phase: {},
      },
    },
  ];
  await ui.page.route(/\/apis\/[^?]*\?limit=500/, (route) =>
    route.fulfill({
      json: { kind: "OddList", metadata: { resourceVersion: "1" }, items: odd },
    }),
  );
  // What was listed before is forgotten.
  await ui.page.goto("about:blank");
  for (const screen of [
    "fleet",
    "placements",
    "outage",
    "rebalance",
    "rebalance/odd",
    "rebalance/odder",
    "whatif",
    "members",
    "workload/shop/odd",
    "workload/shop/odder",
    "workload/-/bare",
  ]) {
    await ui.page.goto(`${ui.origin}/ui/#/${screen}`);
    await expect(ui.page.getByRole("heading", { level: 1 }).first()).toBeVisible();
    await expect(ui.page.getByText("This screen has failed")).toHaveCount(0);
  }
});

test("a change is on the screen soon after its commit", async ({ ui }) => {
  await ui.go("#/placements?q=quick");
  await expect(ui.page.getByText("No workload fits these filters")).toBeVisible();
  const path = `${BINDINGS}/namespaces/shop/resourcebindings`;
  await ui.send("POST", path, binding("quick", { name: "quick" }));
  await expect(ui.page.locator(".table-row")).toHaveCount(1);
  await ui.send("DELETE", `${path}/quick`);
  await expect(ui.page.locator(".table-row")).toHaveCount(0);
});

test("several tabs stay live", async ({ ui, context }) => {
  await ui.go("#/fleet");
  for (const hash of ["#/rebalance", "#/outage", "#/placements"]) {
    const tab = await context.newPage();
    await tab.goto(`${ui.origin}/ui/${hash}`);
    await expect(tab.locator(".connection")).toContainText("live");
  }
  await ui.page.reload();
  await expect(ui.page.locator(".connection")).toContainText("live");
});

test("a browser whose clock is hours off shows the server's time", async ({ ui }) => {
  await ui.page.addInitScript(() => {
    const now = Date.now.bind(Date);
    Date.now = () => now() - 5 * 60 * 60 * 1000;
  });
  await ui.go("#/outage");
  const slider = ui.page.getByRole("slider");
  await expect
    .poll(async () => Math.abs(Number(await slider.getAttribute("max")) - Date.now() / 1000))
    .toBeLessThan(10);
  await expect(ui.page.locator(".chronicle")).toContainText("member1, member4 were lost");
});

test("the proxy refuses what is not the page's, and says so", async ({ ui }) => {
  const secret = secretOf(ui.entrance);
  // A cookie would be sent to servers on other ports of this machine.
  expect(await ui.page.context().cookies()).toEqual([]);
  const { host, port } = new URL(ui.origin);
  const ask = (path, headers) =>
    new Promise((resolve, reject) => {
      const asked = raw({ host: "127.0.0.1", port, path, headers }, (answer) => {
        let text = "";
        answer.on("data", (piece) => (text += piece));
        answer.on("end", () => resolve({ code: answer.statusCode, text }));
      });
      asked.on("error", reject).end();
    });
  expect((await ask("/version", { host, ...secret })).code).toBe(200);
  expect((await ask("/ui/", { host })).code).toBe(200);
  for (const [path, headers, reason] of [
    ["/version", { host: `evil.example:${port}`, ...secret }, "ForeignHost"],
    ["/version", { host, ...secret, origin: "http://evil.example" }, "ForeignOrigin"],
    ["/version", { host, ...secret, "sec-fetch-site": "cross-site" }, "ForeignOrigin"],
    ["/version", { host }, "NoSecret"],
    [
      "/version",
      { host, cookie: `ballast-ui-${port}=${secret["x-ballast-ui-secret"]}` },
      "NoSecret",
    ],
    ["/ui/surroundings.json", { host }, "NoSecret"],
    ["/etc/passwd", { host, ...secret }, "OutsideApi"],
    ["/apis/%2e%2e/version", { host, ...secret }, "OutsideApi"],
  ]) {
    const answer = await ask(path, headers);
    expect([answer.code, JSON.parse(answer.text).reason], path).toEqual([403, reason]);
  }
});

test("a server that leaves and comes back with a new log", async ({ page }) => {
  const place = folder();
  const serve = (port) =>
    start(
      ["serve", "--secure-port", port, "--database-url", "memory:"],
      /ready at https:\/\/127\.0\.0\.1:(\d+)/,
      { folder: place.path },
    );
  let server = await serve("0");
  const port = server.match[1];
  const ui = await start(
    ["ui", "--kubeconfig", join(place.path, "certs/admin.kubeconfig")],
    /is at (\S+)/,
  );
  try {
    await enter(page, ui.match[1]);
    const cluster = (name) => ({
      apiVersion: "cluster.karmada.io/v1alpha1",
      kind: "Cluster",
      metadata: { name },
      spec: { syncMode: "Push" },
    });
    const { origin } = new URL(ui.match[1]);
    const join = async (name) => {
      const made = await page.request.post(`${origin}/apis/cluster.karmada.io/v1alpha1/clusters`, {
        data: cluster(name),
        headers: { origin, ...secretOf(ui.match[1]) },
      });
      expect(made.status()).toBe(201);
    };
    await expect(page.getByText("No cluster has joined yet")).toBeVisible();
    await join("first");
    await join("second");
    await expect(page.locator(".tile")).toHaveCount(2);
    await server.stop("SIGKILL");
    await expect(page.locator(".connection")).toContainText("reconnecting");
    await expect(page.locator(".tile")).toHaveCount(2);
    server = await serve(port);
    await join("third");
    await expect(page.locator(".connection")).toContainText("live", { timeout: 30_000 });
    await expect(page.locator(".tile")).toHaveCount(1);
    await expect(page.locator(".tile")).toContainText("third");
  } finally {
    await ui.stop();
    await server.stop();
    place.remove();
  }
});

test("a log that has come further than the old one is not taken for it", async ({ page }) => {
  const place = folder();
  const serve = (port, database) =>
    start(
      ["serve", "--secure-port", port, "--database-url", database],
      /ready at https:\/\/127\.0\.0\.1:(\d+)/,
      { folder: place.path },
    );
  const kubeconfig = join(place.path, "certs/admin.kubeconfig");
  const open = async () => {
    const ui = await start(["ui", "--kubeconfig", kubeconfig], /is at (\S+)/);
    await enter(page, ui.match[1]);
    return ui;
  };
  const joins = async (ui, name) => {
    const { origin } = new URL(ui.match[1]);
    const data = {
      apiVersion: "cluster.karmada.io/v1alpha1",
      kind: "Cluster",
      metadata: { name },
      spec: { syncMode: "Push" },
    };
    const made = await page.request.post(`${origin}/apis/cluster.karmada.io/v1alpha1/clusters`, {
      data,
      headers: { origin, ...secretOf(ui.match[1]) },
    });
    expect(made.status()).toBe(201);
  };
  const tile = (name) =>
    page.locator(".tile", { has: page.getByRole("heading", { name, exact: true }) });
  // The new log is made first, and is further than the old one will be.
  let server = await serve("0", "sqlite://new.db");
  const port = server.match[1];
  let ui = await open();
  for (let i = 1; i <= 12; i += 1) await joins(ui, `new${i}`);
  await ui.stop();
  await server.stop();
  server = await serve(port, "sqlite://old.db");
  ui = await open();
  try {
    await expect(page.getByText("No cluster has joined yet")).toBeVisible();
    await joins(ui, "old1");
    await joins(ui, "old2");
    await expect(page.locator(".tile")).toHaveCount(2);
    await server.stop("SIGKILL");
    await expect(page.locator(".connection")).toContainText("reconnecting");
    server = await serve(port, "sqlite://new.db");
    await expect(page.locator(".connection")).toContainText("live", { timeout: 60_000 });
    await expect(page.locator(".tile")).toHaveCount(12);
    await expect(tile("new1")).toBeVisible();
    await expect(tile("old1")).toHaveCount(0);
    // The same log again: nothing is lost, and nothing is listed twice.
    await server.stop("SIGKILL");
    await expect(page.locator(".connection")).toContainText("reconnecting");
    server = await serve(port, "sqlite://new.db");
    await joins(ui, "new13");
    await expect(page.locator(".tile")).toHaveCount(13, { timeout: 60_000 });
    // A log from a backup has the same objects, and has come as far by another way.
    await server.stop();
    copyFileSync(join(place.path, "new.db"), join(place.path, "backup.db"));
    server = await serve(port, "sqlite://new.db");
    await joins(ui, "lost");
    await expect(tile("lost")).toBeVisible({ timeout: 60_000 });
    await server.stop("SIGKILL");
    server = await serve("0", "sqlite://backup.db");
    const other = await start(["ui", "--kubeconfig", kubeconfig], /is at (\S+)/);
    await joins(other, "found");
    await other.stop();
    await server.stop();
    server = await serve(port, "sqlite://backup.db");
    await expect(tile("found")).toBeVisible({ timeout: 60_000 });
    await expect(tile("lost")).toHaveCount(0);
    await expect(page.locator(".tile")).toHaveCount(14);
  } finally {
    await ui.stop();
    await server.stop();
    place.remove();
  }
});

test("who may only read one namespace signs in and reads that one", async ({ page }) => {
  const place = folder();
  const token = "a-token-of-this-test";
  writeFileSync(
    join(place.path, "tokens"),
    `sha256:${createHash("sha256").update(token).digest("hex")},reader,1,"readers"\n`,
  );
  const kinds = ["resourcebindings", "moves", "rebalances", "localplacementreviews"];
  writeFileSync(
    join(place.path, "policy"),
    `rules:\n- {groups: [readers], verbs: [get, list, watch, create], apiGroups: ["*"], resources: ${JSON.stringify(kinds)}, namespaces: [shop]}\n`,
  );
  const flags = [
    "--token-auth-file",
    join(place.path, "tokens"),
    "--authorization-policy-file",
    join(place.path, "policy"),
  ];
  const server = await start(
    ["serve", "--secure-port", "0", "--database-url", "memory:", ...flags],
    /ready at (https:\S+) /,
    { folder: place.path },
  );
  const admin = await start(
    ["ui", "--kubeconfig", join(place.path, "certs/admin.kubeconfig")],
    /is at (\S+)/,
  );
  try {
    const { origin } = new URL(admin.match[1]);
    const headers = { origin, ...secretOf(admin.match[1]) };
    for (const namespace of ["shop", "bank"]) {
      const data = {
        ...binding("web", { name: `web-of-${namespace}` }),
        metadata: { name: "web", namespace },
      };
      data.spec.resource.namespace = namespace;
      const path = `${origin}${BINDINGS}/namespaces/${namespace}/resourcebindings`;
      expect((await page.request.post(path, { data, headers })).status()).toBe(201);
      const rebalance = {
        apiVersion: "ballast.dev/v1alpha1",
        kind: "Rebalance",
        metadata: { name: `home-of-${namespace}`, namespace },
        spec: { select: [{ all: true }] },
      };
      const rebalances = `${origin}/apis/ballast.dev/v1alpha1/namespaces/${namespace}/rebalances`;
      const made = await page.request.post(rebalances, { data: rebalance, headers });
      expect(made.status()).toBe(201);
    }
    const refused = await page.goto(`${server.match[1]}/apis/work.karmada.io`);
    expect(refused.status()).toBe(401);
    await page.goto(`${server.match[1]}/ui/#/placements`);
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await page.getByLabel("Bearer token").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("alert")).toContainText("does not know this token");
    await page.getByLabel("Bearer token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByText("You may not read resource bindings.")).toBeVisible();
    await page.getByPlaceholder("namespace", { exact: true }).fill("shop");
    await page.getByRole("button", { name: "Read", exact: true }).click();
    await expect(page.locator(".table-row")).toHaveCount(1);
    await expect(page.locator(".table-row")).toContainText("web-of-shop");
    await expect(page.getByText("You may not read clusters.")).toBeVisible();
    await page.getByRole("link", { name: "Rebalance", exact: true }).click();
    await expect(page.locator(".runs li")).toHaveCount(1);
    await page.getByRole("link", { name: "home-of-shop" }).click();
    await expect(page.getByRole("heading", { name: "home-of-shop" })).toBeVisible();
    expect(
      await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie])),
    ).not.toContain(token);
    // Each screen says which right is missing, and shows the rest.
    for (const [screen, missing, rest] of [
      ["Outage", ["clusters", "events"], page.locator(".stack-label", { hasText: "replicas" })],
      ["What if", ["clusters"], page.getByRole("button", { name: "by itself" })],
      ["Fleet placements", ["Fleet placements"], page.getByRole("heading", { level: 1 })],
      ["Fleet", ["clusters", "cluster resource bindings"], figure(page, "scheduled")],
    ]) {
      await page.getByRole("link", { name: screen, exact: true }).click();
      for (const kind of missing)
        await expect(page.getByText(`You may not read ${kind}`).first()).toBeVisible();
      await expect(rest).toBeVisible();
    }
    await page.getByRole("link", { name: "Health" }).click();
    await expect(page.getByText("You may not read the metrics")).toBeVisible();
    await page.getByRole("link", { name: "Fleet", exact: true }).click();
    await expect(figure(page, "clusters ready")).toBeVisible();
  } finally {
    await admin.stop();
    await server.stop();
    place.remove();
  }
});
