// A fleet that is kept in shape: What if opens with what each loss would strand, a plan towards a
// goal is the review's and runs as it was shown, and a run says which gate it waits for.
import { enter, expect, figure, test as base } from "./page.js";
import { fleet, storm } from "./fleets.js";

const CLUSTERS = 3;
const BOUND = 2;
const BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
const OURS = "/apis/ballast.dev/v1alpha1";
const NOBODY = "http://127.0.0.1:1/";

/** A Deployment of four replicas that is divided by room, on all clusters or on one. */
const binding = (name, clusterNames) => ({
  apiVersion: "work.karmada.io/v1alpha2",
  kind: "ResourceBinding",
  metadata: { name: `${name}-deployment`, namespace: "shop" },
  spec: {
    resource: { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name, uid: name },
    replicas: 4,
    replicaRequirements: { resourceRequest: { cpu: "500m", memory: "256Mi" } },
    placement: {
      clusterAffinity: clusterNames && { clusterNames },
      replicaScheduling: {
        replicaSchedulingType: "Divided",
        replicaDivisionPreference: "Weighted",
        weightPreference: { dynamicWeight: "AvailableReplicas" },
      },
    },
  },
});

base.describe("a fleet in shape", () => {
  /** @type {Awaited<ReturnType<typeof fleet>>} */
  let stage;
  base.beforeAll(async () => {
    stage = await fleet({
      clusters: CLUSTERS,
      workloads: 0,
      flags: ["--gate-address-allow", `${NOBODY}check`],
    });
    await storm(6, (n) => stage.send("POST", BINDINGS, binding(`app-${n}`)));
    await storm(BOUND, (n) => stage.send("POST", BINDINGS, binding(`only-${n}`, [stage.name(1)])));
    await expect
      .poll(async () => {
        const { items } = await stage.send("GET", BINDINGS);
        return items.filter((it) => it.spec.clusters?.length).length;
      })
      .toBe(6 + BOUND);
  });
  base.afterAll(() => stage.stop());

  const open = async (page, hash) => {
    await enter(page, stage.entrance);
    await page.goto(`${stage.origin}/ui/#/${hash}`);
    await expect(page.locator(".connection")).toContainText("live");
  };
  const reviewed = async (spec) =>
    (
      await stage.send("POST", `${OURS}/placementreviews`, {
        apiVersion: "ballast.dev/v1alpha1",
        kind: "PlacementReview",
        spec,
      })
    ).status;

  base("what if opens with what each loss would strand, the worst first", async ({ page }) => {
    await open(page, "whatif");
    const { survival } = await reviewed({ select: [{ all: true }], survive: { by: "Cluster" } });
    expect(survival[0].name).toBe(stage.name(1));
    const rows = page.locator(".heat tbody tr");
    await expect(rows).toHaveCount(CLUSTERS);
    await expect(page.locator(".heat tbody th .name-cut")).toHaveText(
      survival.map((it) => it.name),
    );
    await expect(rows.first()).toContainText("worst");
    await expect(rows.first().locator("td").first()).toHaveText(
      String(survival[0].strandedReplicas),
    );
    await expect(rows.first().locator("td.hot").first()).toHaveText(
      `${Math.round(survival[0].share.cpu * 100)} %`,
    );
    // A click shows who.
    await rows.first().getByRole("button").click();
    await expect(page.locator(".who")).toContainText(survival[0].first.join(", "));
    await expect(page.locator(".who")).toContainText("Room left in the rest: cpu");
    await page.getByRole("button", { name: "region", exact: true }).click();
    await expect(page.locator(".heat thead th").first()).toHaveText("region");
    await page.getByRole("button", { name: "cluster", exact: true }).click();
    await rows.first().getByRole("button").click();
    await page.getByRole("button", { name: "Simulate this loss" }).click();
    await expect(page.locator(".supposed .absent")).toContainText(stage.name(1));
    await expect(figure(page, "unschedulable")).toHaveText(String(survival[0].strandedWorkloads));
  });

  base(
    "a plan towards a goal is the review's, and its run says which gate it waits for",
    async ({ page }) => {
      await open(page, "rebalance");
      await page.locator(".shape").getByRole("button", { name: "pack" }).click();
      const objective = { goal: "Pack", worth: 0.5 };
      const { summary, objective: told } = await reviewed({ select: [{ all: true }], objective });
      expect(told.after).toBeLessThan(told.before);
      const clusters = (n) => `${n} ${n === 1 ? "cluster" : "clusters"}`;
      const shape = page.locator(".shape");
      await expect(figure(page, "objective")).toHaveText(
        `${clusters(told.before)} → ${clusters(told.after)}`,
      );
      await expect(figure(page, "bound")).toHaveText(clusters(told.bound));
      await expect(figure(page, "workloads move")).toHaveText(String(summary.toMove));
      // A budget of nothing moves nothing.
      await shape.getByLabel("budget").fill("0");
      await expect(shape).toContainText("Nothing to gain");
      await shape.getByLabel("budget").fill("");
      await shape.getByLabel("name").fill("packed");
      await shape.getByRole("button", { name: /^Start: move/ }).click();
      await page
        .getByRole("dialog")
        .getByRole("button", { name: /^Start: move/ })
        .click();
      await page.waitForURL("**/rebalance/packed");
      await expect(page.locator(".facts")).toContainText("Pack");
      await expect(figure(page, "objective")).toHaveText(
        `${clusters(told.before)} → ${clusters(told.after)}`,
      );
      const made = await stage.send("GET", `${OURS}/clusterrebalances/packed`);
      expect(made.spec.expectPlan).toBe(made.status.planHash);
      await expect(page.getByRole("main")).toContainText("Completed");

      // A run whose gate never answers says which one it waits for.
      await stage.send("POST", `${OURS}/clusterrebalances`, {
        apiVersion: "ballast.dev/v1alpha1",
        kind: "ClusterRebalance",
        metadata: { name: "gated" },
        spec: {
          select: [{ all: true }],
          objective: { goal: "Balance", worth: 0 },
          rollout: {
            maxConcurrent: 1,
            gates: [{ name: "smoke", webhook: { url: `${NOBODY}check` } }],
          },
        },
      });
      await open(page, "rebalance/gated");
      await expect(page.locator(".conditions")).toContainText(
        /Waiting for a gate: wave 1 waits for smoke/,
      );
      const facts = page.locator(".facts");
      await expect(facts).toContainText(/gate smoke\s*\S+ left, then the rebalance is aborted/);

      // What is in progress comes before what could be planned.
      await open(page, "rebalance");
      const first = page.locator("main section").first();
      await expect(first).toContainText("In progress");
      await expect(first).toContainText("gated");
      await expect(first).not.toContainText("packed");

      // The times of a paused run stand still.
      await stage.send("PATCH", `${OURS}/clusterrebalances/gated`, { spec: { paused: true } });
      await open(page, "rebalance/gated");
      await expect(page.locator("h1 + .chip")).toContainText("Paused");
      await expect(facts).toContainText("ran until the pause");
      await expect(facts).not.toContainText(/running for|time left|left, then/);
      await stage.send("PATCH", `${OURS}/clusterrebalances/gated`, { spec: { abort: true } });

      // What has been taken back is no longer in force.
      await stage.send("POST", `${OURS}/clusterrebalances`, {
        apiVersion: "ballast.dev/v1alpha1",
        kind: "ClusterRebalance",
        metadata: { name: "packed-undo" },
        spec: { undo: { name: "packed" } },
      });
      await open(page, "rebalance/packed");
      await expect(page.locator("h1 + .chip")).toContainText("Completed, undone");
      await expect(figure(page, "objective, undone")).toHaveText(clusters(told.before));
      await expect(page.getByRole("button", { name: "Undo…" })).toHaveCount(0);
    },
  );
});
