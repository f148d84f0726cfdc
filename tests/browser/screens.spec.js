// Each screen against a server that has played an outage: its numbers are the API's.
import { expect, figure, secretOf, test } from "./page.js";

const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BINDINGS = "/apis/work.karmada.io/v1alpha2/resourcebindings";
const REBALANCES = "/apis/ballast.dev/v1alpha1/clusterrebalances";

test("fleet: tiles and figures are the API's numbers", async ({ ui }) => {
  await ui.go("#/fleet");
  const [clusters, bindings] = [await ui.get(CLUSTERS), await ui.get(BINDINGS)];
  const { summary } = await ui.review({ select: [{ displaced: true }], limit: 0 });
  await expect(ui.page.locator(".tile")).toHaveCount(clusters.items.length);
  await expect(figure(ui.page, "clusters ready")).toHaveText(
    `${clusters.items.length} / ${clusters.items.length}`,
  );
  await expect(figure(ui.page, "scheduled")).toHaveText(String(bindings.items.length));
  await expect(figure(ui.page, "displaced")).toHaveText(String(summary.selected));
  expect(summary.selected).toBeGreaterThan(0);
  const on = (name) =>
    bindings.items
      .flatMap((it) => it.spec.clusters ?? [])
      .filter((it) => it.name === name)
      .reduce((sum, it) => sum + it.replicas, 0);
  for (const name of ["member2", "member7"]) {
    const tile = ui.page.locator(".tile", {
      has: ui.page.getByRole("heading", { name, exact: true }),
    });
    await expect(tile.locator("dd").first()).toHaveText(String(on(name)));
  }
});

test("placements: cells are the bindings' targets, and few rows are in the document", async ({
  ui,
}) => {
  await ui.go("#/placements");
  const bindings = await ui.get(BINDINGS);
  await expect(ui.page.getByRole("status").filter({ hasText: "300 workloads" })).toBeVisible();
  expect(bindings.items.length).toBe(300);
  expect(await ui.page.locator(".table-row").count()).toBeLessThan(60);
  const one = bindings.items.find(
    (it) => it.metadata.name === "app-1-a-deployment" && it.metadata.namespace === "shop",
  );
  await ui.page.getByRole("searchbox").fill("shop/Deployment/app-1-a");
  const row = ui.page.locator(".table-row");
  await expect(row).toHaveCount(1);
  const shown = (await row.locator(".cell.number").allTextContents()).filter(Boolean);
  expect(shown).toEqual(one.spec.clusters.map((it) => String(it.replicas)));
  await ui.page.getByRole("searchbox").fill("");
  await ui.page.getByRole("button", { name: "displaced", exact: true }).click();
  const { summary } = await ui.review({ select: [{ displaced: true }], limit: 0 });
  await expect(ui.page.getByText(`${summary.selected} of 300 workloads`)).toBeVisible();
});

test("placements: the keyboard moves, tells and opens", async ({ ui }) => {
  await ui.go("#/placements");
  await ui.page.getByRole("grid").focus();
  await ui.page.keyboard.press("ArrowDown");
  await ui.page.keyboard.press("ArrowRight");
  await expect(ui.page.locator(".table-row.active")).toHaveAttribute("aria-rowindex", "3");
  await expect(ui.page.locator(".legend [aria-live]")).toContainText("member1");
  await ui.page.keyboard.press("Enter");
  await expect(ui.page.getByRole("heading", { name: "Why here, and why not there" })).toBeVisible();
});

test("outage: the slider goes back, and every screen with it", async ({ ui }) => {
  await ui.go("#/outage");
  await expect(ui.page.locator(".chronicle")).toContainText("member1, member4 were lost");
  await expect(ui.page.locator(".area").first()).toBeVisible();
  // One mark for each second in which evictions ended.
  await expect(ui.page.locator(".lane-evicted").first()).toBeVisible();
  const lost = ui.page.locator(".chronicle li", { hasText: "member4 were lost" });
  await lost.getByRole("button").click();
  await expect(ui.page.locator(".past")).toContainText("As it was at");
  await expect(figure(ui.page, "clusters ready")).toHaveText("10 / 12");
  await ui.page.getByRole("link", { name: "Fleet", exact: true }).click();
  const tile = ui.page.locator(".tile", {
    has: ui.page.getByRole("heading", { name: "member4", exact: true }),
  });
  await expect(tile).toContainText("Not ready");
  await ui.page.getByRole("link", { name: "Outage", exact: true }).click();
  const slider = ui.page.getByRole("slider");
  const before = await slider.inputValue();
  await slider.focus();
  await ui.page.keyboard.press("ArrowRight");
  await expect(slider).toHaveValue(String(Number(before) + 1));
  const time = `${new Date((Number(before) + 1) * 1000).toISOString().slice(0, 19)}Z`;
  const { summary } = await ui.review({
    select: [{ all: true }],
    mode: "AsIs",
    limit: 0,
    asOf: { time },
  });
  await expect(figure(ui.page, "workloads")).toHaveText(String(summary.selected));
  await ui.page
    .getByRole("banner")
    .or(ui.page.locator(".past"))
    .getByRole("button", { name: "Back to now" })
    .first()
    .click();
  await expect(ui.page.locator(".past")).toHaveCount(0);
  await expect(figure(ui.page, "clusters ready")).toHaveText("12 / 12");
});

test("workload: the table is the review's trace, and the history has its causes", async ({
  ui,
}) => {
  await ui.go("#/workload/search/app-1-a-deployment");
  const select = [
    { apiVersion: "apps/v1", kind: "Deployment", namespace: "search", name: "app-1-a" },
  ];
  const { moves } = await ui.review({ select, mode: "AsIs", explain: "Full" });
  const clusters = moves[0].trace.attempts.at(-1).clusters;
  await expect(ui.page.locator("tbody tr")).toHaveCount(clusters.length);
  const away = clusters.find((it) => it.out && it.filters.some((f) => f.objection === it.out));
  const row = ui.page.locator("tbody tr", {
    has: ui.page.getByRole("rowheader", { name: away.name, exact: true }),
  });
  const { detail } = away.filters.find((it) => it.objection === away.out);
  await expect(row).toContainText(detail ?? away.out);
  await expect(ui.page.locator(".chronicle")).toContainText("because it was evicted from member1");
  await ui.page.getByRole("button", { name: "decided afresh" }).click();
  await expect(ui.page.locator(".sentence")).toContainText("Decided afresh it would move");
});

test("what if: without a cluster, the plan is the review's", async ({ ui }) => {
  await ui.go("#/whatif");
  const item = ui.page.locator(".supposed li", {
    has: ui.page.getByText("member2", { exact: true }),
  });
  await item.getByRole("button", { name: "Simulate loss" }).click();
  const suppose = { clusters: [{ name: "member2", absent: true }] };
  const { summary } = await ui.review({
    select: [{ all: true }],
    mode: "Steady",
    suppose,
    limit: 0,
  });
  expect(summary.toMove).toBeGreaterThan(0);
  await expect(figure(ui.page, "workloads move")).toHaveText(String(summary.toMove));
  await expect(figure(ui.page, "replicas move")).toHaveText(String(summary.replicasToMove));
  await item.getByRole("button", { name: "Keep" }).click();
  await ui.page
    .locator(".supposed li")
    .first()
    .getByRole("button", { name: "Add one like it" })
    .click();
  await expect(ui.page.locator(".supposed .new")).toContainText("new, like member1");
  await expect(ui.page.locator(".panel h2").first()).toBeVisible();
});

test("health: the version, the queues and who leads are the server's", async ({ ui }) => {
  await ui.go("#/fleet");
  await ui.go("#/health");
  const version = await ui.get("/version");
  await expect(figure(ui.page, "version")).toHaveText(version.gitVersion);
  await expect(ui.page.getByRole("rowheader", { name: "scheduler", exact: true })).toBeVisible();
  const metrics = await (
    await ui.page.request.get(`${ui.origin}/metrics`, { headers: secretOf(ui.entrance) })
  ).text();
  const keeper = /ballast_store_info\{back_end="(\w+)"\} 1/.exec(metrics)[1];
  const told = keeper === "memory" ? "in memory" : keeper;
  await expect(ui.page.locator(".replicas")).toContainText(`One server, ${told}. It leads`);
});

test("fleet placements: states are the bindings'", async ({ ui }) => {
  const member = (name) => ({
    apiVersion: "cluster.kubernetes-fleet.io/v1beta1",
    kind: "MemberCluster",
    metadata: { name },
    spec: { identity: { kind: "User", name: "agent", apiGroup: "rbac.authorization.k8s.io" } },
  });
  await ui.go("#/members");
  await expect(ui.page.getByText("There is no ClusterResourcePlacement")).toBeVisible();
  for (const name of ["east", "west"]) {
    const made = await ui.send(
      "POST",
      "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
      member(name),
    );
    expect(made.status()).toBe(201);
  }
  const placement = {
    apiVersion: "placement.kubernetes-fleet.io/v1beta1",
    kind: "ClusterResourcePlacement",
    metadata: { name: "shop" },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }],
      policy: { placementType: "PickFixed", clusterNames: ["east"] },
    },
  };
  const made = await ui.send(
    "POST",
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements",
    placement,
  );
  expect(made.status()).toBe(201);
  const row = ui.page.locator("tbody tr", { hasText: "shop" });
  await expect(row).toContainText("PickFixed");
  await expect(ui.page.getByRole("columnheader", { name: "west" })).toBeVisible();
  await ui.send(
    "DELETE",
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/shop",
  );
});

test("rebalance: the preview is the review's, and the run brings everything home", async ({
  ui,
}) => {
  await ui.go("#/rebalance");
  const { summary, clusters } = await ui.review({ select: [{ displaced: true }], limit: 0 });
  await expect(figure(ui.page, "workloads move")).toHaveText(String(summary.toMove));
  await expect(figure(ui.page, "replicas move")).toHaveText(String(summary.replicasToMove));
  const one = clusters.find((it) => it.before !== it.planned);
  const bar = ui.page.locator(".before-after li", {
    has: ui.page.getByText(one.name, { exact: true }),
  });
  await expect(bar).toContainText(String(one.planned));
  await ui.page.getByRole("textbox", { name: "name" }).fill("from-test");
  await ui.page.getByRole("button", { name: /^Start/ }).click();
  // It asks once, with the numbers of the plan and the name of the server.
  const dialog = ui.page.getByRole("dialog");
  await expect(dialog).toContainText(`${summary.replicasToMove} change their cluster`);
  await expect(dialog.locator(".confirm-where")).toContainText("127.0.0.1");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(dialog).toHaveCount(0);
  await ui.page.getByRole("button", { name: /^Start/ }).click();
  await dialog.getByRole("button", { name: /^Start/ }).click();
  await expect(ui.page.getByRole("heading", { name: "from-test" })).toBeVisible();
  await expect(ui.page.locator(".head .chip")).toHaveText("Completed", { timeout: 90_000 });
  const done = await ui.get(`${REBALANCES}/from-test`);
  await expect(figure(ui.page, "moved")).toHaveText(String(done.status.summary.settled));
  await ui.go("#/fleet");
  await expect(figure(ui.page, "displaced")).toHaveText("0");
  await ui.go("#/rebalance");
  await expect(ui.page.getByText("Nothing is displaced")).toBeVisible();
});

// api-10: as behind `kubectl proxy --api-prefix`, Rancher or an Ingress with a path.
test("under a path of a proxy, the page asks the server that is behind it", async ({ ui }) => {
  const prefix = "/k8s/clusters/c1";
  const elsewhere = [];
  ui.page.on("request", (request) => {
    // The page that was entered before may still be asking.
    if (!request.frame().url().includes(prefix)) return;
    const { pathname } = new URL(request.url());
    if (!pathname.startsWith(prefix)) elsewhere.push(pathname);
  });
  await ui.page.route(`**${prefix}/**`, async (route) => {
    const url = new URL(route.request().url());
    // A watch never ends, and the lists are enough here.
    if (url.searchParams.has("watch")) return route.abort();
    url.pathname = url.pathname.slice(prefix.length);
    await route.fulfill({ response: await route.fetch({ url: url.toString() }) });
  });
  await ui.page.goto(`${ui.origin}${prefix}/ui/#/fleet`);
  const clusters = await ui.get(CLUSTERS);
  await expect(ui.page.locator(".tile")).toHaveCount(clusters.items.length);
  expect(elsewhere).toEqual([]);
  // Requests that are under way end with the page.
  await ui.page.unrouteAll({ behavior: "ignoreErrors" });
});
