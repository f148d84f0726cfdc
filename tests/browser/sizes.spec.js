// The page with fleets of 12, 45 and 1,000 clusters that have names as people give them, in trouble
// and in peace: nothing overflows, axe finds nothing, and what matters leads.
import { enter, expect, figure, secretOf, test as base, violations } from "./page.js";
import { fleet } from "./fleets.js";

const SIZES = [
  { clusters: 12, workloads: 120 },
  { clusters: 45, workloads: 500 },
  { clusters: 1000, workloads: 2000 },
];
const WIDTHS = [390, 1280, 2560];
const SCREENS = ["fleet", "placements", "outage", "rebalance", "whatif", "capacity"];
const CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters";
const PICTURES = process.env.PICTURES && process.env.PICTURES_IN;
const FLEET_REVIEWS = "/apis/ballast.dev/v1alpha1/fleetreviews";
const BANNER = "PRODUCTION";

/** What sticks out of the page or is cut without a sign of it. */
const cutOff = (page) =>
  page.evaluate(() => {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth)
      found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const box of document.querySelectorAll("main *, .top *")) {
      const { right, left, width } = box.getBoundingClientRect();
      const scrolls = box.closest(".scroll, .rows, .lanes, pre, svg, nav, select, .stack-area");
      if (!scrolls && width > 0 && (right > innerWidth + 1 || left < -1))
        found.push(box.outerHTML.slice(0, 140));
    }
    return found.slice(0, 5);
  });

for (const { clusters, workloads } of SIZES) {
  base.describe(`${clusters} clusters`, () => {
    /** @type {Awaited<ReturnType<typeof fleet>>} */
    let stage;
    const lost = clusters > 100 ? [0, 1, 3, 30, 31, 32] : [0, 1, 3];
    base.beforeAll(async () => {
      stage = await fleet({ clusters, workloads, uiFlags: ["--ui-banner", BANNER] });
      await stage.lose(lost);
    });
    base.afterAll(() => stage.stop());

    const open = async (page, hash) => {
      await page.goto(`${stage.origin}/ui/#/${hash}`);
      await expect(page.locator(".connection")).toContainText("live");
    };

    base(
      "what matters leads: lost clusters and missing replicas, by their names",
      async ({ page }) => {
        await enter(page, stage.entrance);
        await open(page, "fleet");
        const situation = page.locator(".situation");
        await expect(situation).toContainText(
          `${lost.length} of ${clusters.toLocaleString("en")} clusters lost`,
        );
        await expect(situation).toContainText(stage.name(lost[0]));
        await expect(situation).toContainText("replicas missing");
        const { items } = await stage.send("GET", CLUSTERS);
        const ready = items.filter((it) => it.status.conditions[0].status === "True").length;
        await expect(figure(page, "clusters ready")).toHaveText(
          `${ready.toLocaleString("en")} / ${clusters.toLocaleString("en")}`,
        );
        await expect(page.locator(".banner")).toHaveText(BANNER);
        // NP1: the page and the server count alike.
        const { status } = await stage.send("POST", FLEET_REVIEWS, {
          apiVersion: "ballast.dev/v1alpha1",
          kind: "FleetReview",
          spec: { limit: 0 },
        });
        const told = [status.replicas.missing, status.replicas.wanted];
        expect(told[0]).toBeGreaterThan(0);
        await expect(figure(page, "replicas missing")).toHaveText(
          told.map((it) => it.toLocaleString("en")).join(" / "),
        );
        // NG1: the metrics follow within seconds, however long the sweep for what is displaced takes.
        const measured = async () => {
          const text = await (
            await page.request.get(`${stage.origin}/metrics`, { headers: secretOf(stage.entrance) })
          ).text();
          return Number(/^ballast_fleet_replicas\{state="missing"\} (\d+)$/m.exec(text)?.[1]);
        };
        await expect.poll(measured).toBe(told[0]);
        // So does what will be evicted, with its time and rate, from the moment of the loss.
        const { foreseen, waiting } = status.evictions;
        expect(foreseen + waiting).toBeGreaterThan(0);
        await expect(situation).toContainText(
          `${(foreseen + waiting).toLocaleString("en")} evictions`,
        );
        await expect(situation).toContainText(/foreseen from \d\d:\d\d:\d\d if nothing changes/);
        await expect(situation).toContainText("the last begins in about");
        await expect(figure(page, "evictions foreseen")).toHaveText(foreseen.toLocaleString("en"));
        // The first cluster that is listed is one of those that are lost.
        const first =
          clusters > 24 ? page.locator(".grid .table-row").first() : page.locator(".tile").first();
        await expect(first).toContainText("Not ready");
        await page.locator(".situation a", { hasText: "clusters lost" }).click();
        await expect(
          page.getByText(`${lost.length} of ${clusters.toLocaleString("en")} clusters`, {
            exact: true,
          }),
        ).toBeVisible();
        await page.goBack();
        await expect(page).not.toHaveURL(/show=trouble/);
      },
    );

    base("names that do not fit keep their ends, and are told whole", async ({ page }) => {
      await enter(page, stage.entrance);
      await page.setViewportSize({ width: 280, height: 800 });
      await open(page, "fleet?show=trouble");
      const name = page.locator(clusters > 24 ? ".table-row bdi" : ".tile bdi").first();
      const whole = await name.getAttribute("data-tip");
      await expect(name).toHaveText(whole);
      await expect(name).toHaveClass(/is-cut/);
      const end = await name.evaluate((it) => getComputedStyle(it, "::after").content);
      const drawn = end.replaceAll('"', "");
      expect(drawn.length).toBeGreaterThan(3);
      expect(whole.endsWith(drawn)).toBe(true);
      // The browser's search finds it, although a part of it is not seen.
      expect(await page.evaluate((text) => globalThis.find(text), whole)).toBe(true);
      // NP1: it is copied in one piece.
      const copied = await name.evaluate((it) => {
        getSelection()?.selectAllChildren(it.closest("a, h3, .tile, .table-row") ?? it);
        return String(getSelection());
      });
      expect(copied).toContain(whole);
      expect(await name.evaluate((it) => it.scrollWidth - it.clientWidth)).toBeLessThanOrEqual(1);
    });

    for (const width of WIDTHS) {
      base(`at ${width} pixels nothing is cut off, and axe finds nothing`, async ({ page }) => {
        base.setTimeout(420_000);
        await enter(page, stage.entrance);
        await page.setViewportSize({ width, height: 900 });
        for (const screen of SCREENS) {
          await open(page, screen);
          await expect(page.locator("main h1")).toBeVisible();
          await page.waitForTimeout(600);
          expect(await cutOff(page), screen).toEqual([]);
          for (const colorScheme of ["light", "dark"]) {
            await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
            expect(await violations(page), `${screen} ${colorScheme}`).toEqual([]);
          }
        }
      });
    }

    base("pictures", async ({ page }) => {
      base.skip(!PICTURES, "PICTURES=1 takes them");
      await enter(page, stage.entrance);
      await page.emulateMedia({ reducedMotion: "reduce" });
      await page.setViewportSize({ width: 1280, height: 800 });
      for (const [name, hash] of Object.entries({
        fleet: "fleet",
        placements: "placements?show=missing",
        outage: "outage",
        ...(clusters === 45 ? { capacity: "capacity?of=nvidia.com%2Fgpu" } : {}),
      })) {
        await open(page, hash);
        if (name === "outage") {
          await expect(page.locator(".area").first()).toBeVisible();
          await expect(page.locator(".reading")).toHaveCount(0, { timeout: 120_000 });
        }
        await page.waitForTimeout(2500);
        await page.mouse.move(1, 1);
        await page.screenshot({ path: `${PICTURES}/${name}-${clusters}.png` });
      }
    });

    if (clusters === 45)
      base("the last cluster is within sixty stops of the tab key", async ({ page }) => {
        await enter(page, stage.entrance);
        for (const screen of ["fleet", "fleet?view=tiles", "placements", "outage", "capacity"]) {
          await open(page, screen);
          await expect(page.locator("main h1")).toBeVisible();
          await page.waitForTimeout(500);
          const stops = await page.evaluate(() => {
            const all = "a[href], button:not(:disabled), input, select, summary, [tabindex='0']";
            return [...document.querySelectorAll(all)].filter(
              (it) => it.tabIndex >= 0 && it.getClientRects().length > 0,
            ).length;
          });
          expect(stops, screen).toBeLessThanOrEqual(screen.includes("tiles") ? 90 : 60);
        }
      });
  });
}
