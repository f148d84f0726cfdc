// What a night brings beside the outage: names of any script and length, a server that goes away
// under each screen, and two servers beside each other.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { enter, expect, figure, test, violations } from "./page.js";
import { fleet } from "./fleets.js";
import { folder, start } from "./program.js";

const BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/web/resourcebindings";
const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";
const NAMES = {
  long: "n".repeat(240) + "-the-very-end",
  "right-to-left": "שלום-مرحبا",
  "left-to-right again": "‮evil‬",
  emoji: "🚀👩‍👩‍👧-web",
  markup: `<img src=x onerror="document.title='struck'">&lt;b&gt;`,
};
const SCREENS = [
  "fleet",
  "placements",
  "outage",
  "rebalance",
  "whatif",
  "capacity",
  "members",
  "health",
  "workload/ads/api-0-deployment",
];

test("names of 253 letters, from right to left, with emoji and with markup", async ({ page }) => {
  const stage = await fleet({ clusters: 3, workloads: 6 });
  try {
    const region = NAMES["right-to-left"];
    await stage.send("PATCH", `${CLUSTERS}/${stage.name(0)}`, { spec: { region } });
    await stage.send("PATCH", `${CLUSTERS}/${stage.name(1)}`, { spec: { region: NAMES.markup } });
    await stage.send("PATCH", `${CLUSTERS}/${stage.name(2)}`, { spec: { region: NAMES.emoji } });
    for (const [kind, name] of Object.entries(NAMES))
      await stage.send("POST", BINDINGS, {
        apiVersion: "work.karmada.io/v1alpha2",
        kind: "ResourceBinding",
        metadata: { name: kind === "long" ? name : `a-${kind.replaceAll(" ", "-")}` },
        spec: {
          resource: { apiVersion: "apps/v1", kind: "Deployment", namespace: "web", name },
          schedulerName: "by-hand",
          replicas: 2,
          clusters: [{ name: stage.name(0), replicas: 2 }],
        },
      });
    await stage.lose([0]);
    await enter(page, stage.entrance);
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      for (const screen of [...SCREENS, `workload/web/${NAMES.long}`, "workload/web/a-markup"]) {
        await page.goto(`${stage.origin}/ui/#/${screen}`);
        await expect(page.locator(".connection")).toContainText("live");
        await expect(page.getByRole("heading", { level: 1 }).first()).toBeVisible();
        await expect(page.getByText("This screen has failed")).toHaveCount(0);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        expect(wide, `${screen} at ${width}`).toBeLessThanOrEqual(width);
      }
    }
    await page.goto(`${stage.origin}/ui/#/placements?ns=web`);
    for (const name of Object.values(NAMES))
      await expect(page.locator(`bdi[data-tip=${JSON.stringify(name)}]`).first()).toHaveText(name);
    await page.goto(`${stage.origin}/ui/#/fleet`);
    for (const name of [region, NAMES.markup, NAMES.emoji])
      await expect(page.getByText(name, { exact: true }).first()).toBeVisible();
    expect(await page.locator("img:not([src='icon.svg'])").count()).toBe(0);
    expect(await page.title()).not.toContain("struck");
    expect(await violations(page)).toEqual([]);
  } finally {
    await stage.stop();
  }
});

test("a server that goes away under each screen: what was known stays, and says so", async ({
  context,
}) => {
  const stage = await fleet({ clusters: 12, workloads: 60 });
  try {
    await stage.lose([0, 1]);
    const tabs = [];
    for (const screen of SCREENS) {
      const page = await context.newPage();
      await enter(page, stage.entrance);
      await page.goto(`${stage.origin}/ui/#/${screen}`);
      await expect(page.locator(".connection")).toContainText("live");
      await expect(page.getByRole("heading", { level: 1 }).first()).toBeVisible();
      tabs.push({ screen, page });
    }
    await expect(tabs[0].page.locator(".situation")).toContainText("2 of 12 clusters lost");
    await stage.kill();
    for (const { screen, page } of tabs) {
      await expect(page.locator(".connection"), screen).toContainText("reconnecting");
      await expect(page.getByRole("heading", { level: 1 }).first(), screen).toBeVisible();
      await expect(page.getByText("This screen has failed"), screen).toHaveCount(0);
      expect(await violations(page), screen).toEqual([]);
    }
    const [fleetTab] = tabs;
    await expect(fleetTab.page.locator(".situation")).toContainText("2 of 12 clusters lost");
    // Who opens the Outage screen now is not told that clusters are well.
    await fleetTab.page.goto(`${stage.origin}/ui/#/outage`);
    await expect(fleetTab.page.getByText("The past cannot be read")).toBeVisible();
    await expect(fleetTab.page.getByText(/\d well/)).toHaveCount(0);
  } finally {
    await stage.stop();
  }
});

test("a log whose watch is refused draws no cluster as well", async ({ page }) => {
  const stage = await fleet({ clusters: 45, workloads: 60 });
  try {
    await stage.lose([0, 1]);
    await page.routeWebSocket(/\/clusters\?watch=1/, (socket) => socket.close());
    await enter(page, stage.entrance);
    await page.goto(`${stage.origin}/ui/#/outage`);
    await expect(page.getByText("The past cannot be read")).toBeVisible();
    await expect(page.getByText(/\d well/)).toHaveCount(0);
  } finally {
    await stage.stop();
  }
});

test("two servers beside each other: each says what it is, over the page and in its questions", async ({
  context,
}) => {
  const stages = [];
  try {
    for (const banner of ["STAGING", "PRODUCTION"])
      stages.push({
        banner,
        stage: await fleet({ clusters: 3, workloads: 12, uiFlags: ["--ui-banner", banner] }),
      });
    for (const { banner, stage } of stages) {
      const page = await context.newPage();
      await enter(page, stage.entrance);
      await page.goto(`${stage.origin}/ui/#/rebalance`);
      await expect(page.locator(".banner")).toHaveText(banner);
      await page.getByPlaceholder("choose one").fill(stage.name(0));
      await page.getByPlaceholder("choose one").press("Enter");
      await page.getByRole("button", { name: "Drain…" }).click();
      const dialog = page.getByRole("dialog");
      await expect(dialog.locator(".confirm-where")).toContainText(banner);
      await expect(dialog.locator(".confirm-where")).toContainText("as ballast-admin");
      await expect(dialog.getByRole("button", { name: `Drain ${stage.name(0)}` })).toBeVisible();
      // Who only presses Enter changes nothing.
      await expect(dialog.getByRole("button", { name: "Cancel" })).toBeFocused();
      await page.keyboard.press("Enter");
      await expect(dialog).toHaveCount(0);
      const runs = await stage.send("GET", "/apis/ballast.dev/v1alpha1/clusterrebalances");
      expect(runs.items).toEqual([]);
    }
  } finally {
    for (const { stage } of stages) await stage.stop();
  }
});

test("who may read nothing is told so on each screen, and sees no zero for it", async ({
  page,
}) => {
  const place = folder();
  const token = "a-token-without-rights";
  const digest = createHash("sha256").update(token).digest("hex");
  writeFileSync(join(place.path, "tokens"), `sha256:${digest},nobody,1,"nobodies"\n`);
  const server = await start(
    ["serve", "--secure-port", "0", "--database-url", "memory:"].concat([
      "--token-auth-file",
      join(place.path, "tokens"),
    ]),
    /ready at (https:\S+) /,
    { folder: place.path },
  );
  try {
    await page.goto(`${server.match[1]}/ui/#/fleet`);
    await page.getByLabel("Bearer token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    for (const screen of SCREENS.slice(0, -1)) {
      await page.goto(`${server.match[1]}/ui/#/${screen}`);
      await expect(page.getByText(/You may not read/).first(), screen).toBeVisible();
      await expect(page.getByText("All is well"), screen).toHaveCount(0);
      for (const figure of await page.locator(".figure").allTextContents())
        expect(figure, screen).not.toMatch(/^\s*0\b/);
    }
  } finally {
    await server.stop();
    place.remove();
  }
});

test("a user of one namespace sees what is down there, and no green where it is not known", async ({
  page,
}) => {
  const place = folder();
  const token = "a-token-of-a-developer";
  const digest = createHash("sha256").update(token).digest("hex");
  const [tokens, policy, config] = ["tokens", "policy", "config"].map((it) => join(place.path, it));
  writeFileSync(tokens, `sha256:${digest},dev,1,"developers"\n`);
  const all = `verbs: ["*"], apiGroups: ["*"], resources: ["*"]`;
  writeFileSync(policy, `rules:\n- {groups: [developers], namespaces: [web], ${all}}\n`);
  const flags = ["--token-auth-file", tokens, "--authorization-policy-file", policy];
  const stage = await fleet({ clusters: 45, workloads: 120, flags });
  let ui;
  try {
    await stage.lose([0, 1, 2, 3]);
    const admin = readFileSync(stage.kubeconfig, "utf8");
    const address = /server: *"?(https:[^"\s]+)/.exec(admin)[1];
    const ca = join(stage.kubeconfig, "../ca.crt");
    writeFileSync(
      config,
      JSON.stringify({
        apiVersion: "v1",
        kind: "Config",
        "current-context": "dev",
        clusters: [{ name: "b", cluster: { server: address, "certificate-authority": ca } }],
        users: [{ name: "dev", user: { token } }],
        contexts: [{ name: "dev", context: { cluster: "b", user: "dev", namespace: "web" } }],
      }),
    );
    ui = await start(["ui", "--kubeconfig", config], /is at (\S+)/, { folder: place.path });
    const { status } = await stage.send(
      "POST",
      "/apis/ballast.dev/v1alpha1/namespaces/web/localfleetreviews",
      { apiVersion: "ballast.dev/v1alpha1", kind: "LocalFleetReview" },
    );
    const { replicas, clusterCounts } = status;
    expect(replicas.missing).toBeGreaterThan(0);
    expect(clusterCounts.lost).toBeGreaterThan(0);
    await enter(page, ui.match[1]);
    const origin = new URL(ui.match[1]).origin;
    await expect(figure(page, "replicas missing")).toHaveText(
      `${replicas.missing} / ${replicas.wanted}`,
    );
    await expect(figure(page, "clusters ready")).toHaveText(
      `${clusterCounts.total - clusterCounts.lost} / ${clusterCounts.total}`,
    );
    await expect(page.locator(".situation")).toContainText(`${clusterCounts.lost} of`);
    await page.goto(`${origin}/ui/#/placements?view=list`);
    await expect(page.locator(".table-foot, .rows").first()).toContainText(
      String(replicas.missing),
    );
    await page.goto(`${origin}/ui/#/outage`);
    await expect(page.getByText("Clusters over time: no access")).toBeVisible();
    await expect(page.getByText(/\d well/)).toHaveCount(0);
    // Which clusters were lost at a past moment is not known.
    const past = new Date(Date.now() - 1000).toISOString().replace(/\.\d+/, "");
    await page.goto(`${origin}/ui/#/fleet?at=${past}`);
    await expect(page.locator(".past")).toContainText("As it was at");
    await expect(figure(page, "replicas missing")).toHaveText("no access");
    await expect(page.getByText("All is well")).toHaveCount(0);
    await page.goto(`${origin}/ui/#/placements?view=list&at=${past}`);
    await expect(page.getByText("no access").first()).toBeVisible();
  } finally {
    await ui?.stop();
    await stage.stop();
    place.remove();
  }
});

test("a displaced workload waits for its lost cluster, and a run that moves it is not offered again", async ({
  page,
}) => {
  const stage = await fleet({ clusters: 2, workloads: 0, flags: ["--resource-eviction-rate=100"] });
  const [home, other] = [stage.name(0), stage.name(1)];
  const path = `${BINDINGS.replace("/web/", "/default/")}/w-deployment`;
  const at = async (count) => {
    await expect
      .poll(async () => ((await stage.send("GET", path)).spec.clusters ?? []).length)
      .toBe(count);
    // The agents report that all of it runs where it is placed.
    const { clusters } = (await stage.send("GET", path)).spec;
    const aggregatedStatus = clusters.map(({ name, replicas }) => ({
      clusterName: name,
      applied: true,
      health: "Healthy",
      status: { replicas, readyReplicas: replicas, availableReplicas: replicas },
    }));
    await stage.send("PATCH", `${path}/status`, { status: { aggregatedStatus } });
  };
  const taint = (taints) => stage.send("PATCH", `${CLUSTERS}/${home}`, { spec: { taints } });
  try {
    await stage.send("POST", BINDINGS.replace("/web/", "/default/"), {
      apiVersion: "work.karmada.io/v1alpha2",
      kind: "ResourceBinding",
      metadata: { name: "w-deployment", namespace: "default" },
      spec: {
        resource: { apiVersion: "apps/v1", kind: "Deployment", name: "w", namespace: "default" },
        replicas: 4,
        replicaRequirements: { resourceRequest: { cpu: "1" } },
        placement: {
          replicaScheduling: {
            replicaSchedulingType: "Divided",
            replicaDivisionPreference: "Weighted",
            weightPreference: { dynamicWeight: "AvailableReplicas" },
          },
        },
      },
    });
    await at(2);
    await taint([{ key: "x", effect: "NoExecute" }]);
    await at(1);
    await stage.lose([0]);
    await enter(page, stage.entrance);
    const situation = page.locator(".situation");
    await expect(situation).toContainText(
      `1 workload displaced: cannot return yet, waits for ${home}.`,
    );
    await expect(figure(page, "unschedulable")).toHaveText("0");
    await page.goto(`${stage.origin}/ui/#/rebalance`);
    await expect(figure(page, "cannot return yet")).toHaveText("1");
    await expect(page.getByRole("button", { name: /^Start: move/ })).toHaveCount(0);

    await taint([]);
    await stage.recover([0]);
    await expect(page.getByRole("button", { name: /^Start: move 1 workload/ })).toBeVisible();
    await stage.send("POST", "/apis/ballast.dev/v1alpha1/clusterrebalances", {
      apiVersion: "ballast.dev/v1alpha1",
      kind: "ClusterRebalance",
      metadata: { name: "home" },
      spec: {
        select: [{ displaced: true }],
        mode: "AsBefore",
        rollout: { strategy: "SurgeFirst" },
      },
    });
    // The new replicas are not ready yet, so all of the old ones are still there.
    await expect(page.locator("main section").first()).toContainText("home");
    await expect(figure(page, "being moved")).toHaveText("1");
    await expect(page.getByText("clusterrebalance home is moving it")).toBeVisible();
    await expect(page.getByRole("button", { name: /^Start: move/ })).toHaveCount(0);
    await expect(page.locator(".flows")).toHaveCount(0);
    await page.goto(`${stage.origin}/ui/#/fleet`);
    await expect(situation).toContainText("1 workload displaced: being moved.");
    expect((await stage.send("GET", path)).spec.clusters.map((it) => it.name).sort()).toEqual(
      [home, other].sort(),
    );
  } finally {
    await stage.stop();
  }
});
