// What the person on call does: holds evictions with a reason, looks at the minute of the loss, and
// finds a name on the screen.
import { enter, expect, figure, test } from "./page.js";
import { fleet } from "./fleets.js";

const LIMIT = "/apis/ballast.dev/v1alpha1/evictionlimits/fleet";
const stamp = (ms = Date.now()) => `${new Date(ms).toISOString().slice(0, 19)}Z`;
/** Past moments are told apart by their second. */
const nextSecond = () => new Promise((resolve) => setTimeout(resolve, 1100));

test("evictions are held on the page: who, why and until when, then and now", async ({ page }) => {
  const stage = await fleet({ clusters: 3, workloads: 30, isCalm: true });
  try {
    await stage.lose([0]);
    await nextSecond();
    const before = stamp();
    await nextSecond();
    await enter(page, stage.entrance);
    await page.goto(`${stage.origin}/ui/#/fleet`);
    const situation = page.locator(".situation");
    await situation.getByRole("button", { name: "Hold…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("note").fill("network, INC-4711");
    await dialog.getByRole("button", { name: "Hold", exact: true }).click();
    const told = /on hold by the EvictionLimit until .*, set by ballast-admin: network, INC-4711/;
    await expect(situation).toContainText(told);
    const limit = await stage.send("GET", LIMIT);
    expect(limit.spec.bindingsPerSecond).toBe("0");
    expect(limit.metadata.annotations["ballast.dev/set-by"]).toBe("ballast-admin");
    await nextSecond();
    const held = stamp();
    await nextSecond();
    // Another one changes it by a command: the page shows it without a click.
    await stage.send("PATCH", LIMIT, { spec: { bindingsPerSecond: "3", note: "let go" } });
    await expect(situation).toContainText(/rate of 3 a second.*: let go/);
    await situation.getByRole("button", { name: "Clear…" }).click();
    await dialog.getByRole("button", { name: "Clear" }).click();
    await expect(situation).toContainText("a rate of 0.5 a second");
    await expect(situation.getByRole("button", { name: "Clear…" })).toHaveCount(0);
    // A past moment shows the rate that was in force.
    await page.goto(`${stage.origin}/ui/#/fleet?at=${held}`);
    await expect(page.locator(".past")).toBeVisible();
    await expect(situation).toContainText(told);
    await expect(situation.getByRole("button")).toHaveCount(0);
    await page.goto(`${stage.origin}/ui/#/fleet?at=${before}`);
    await expect(situation).toContainText("a rate of 0.5 a second");
    await expect(situation).not.toContainText("on hold");
  } finally {
    await stage.stop();
  }
});

test("missing replicas begin at the second of the loss, and are the number of the tile", async ({
  page,
}) => {
  const stage = await fleet({ clusters: 12, workloads: 120, isCalm: true });
  try {
    await new Promise((resolve) => setTimeout(resolve, 8000));
    await stage.lose([0, 1]);
    await new Promise((resolve) => setTimeout(resolve, 4000));
    await enter(page, stage.entrance);
    await page.goto(`${stage.origin}/ui/#/outage`);
    await expect(page.locator(".area.missing")).toHaveAttribute("data-tip", /Missing: \d/);
    await expect(page.locator(".reading")).toHaveCount(0);
    const missing = await figure(page, "replicas missing").textContent();
    const [, number] = /^([\d,]+) \//.exec(missing);
    expect(Number(number.replace(",", ""))).toBeGreaterThan(0);
    await expect(page.locator(".area.missing")).toHaveAttribute(
      "data-tip",
      `Missing: ${number} replicas at the end`,
    );
    // The hatch begins where the first lane becomes red.
    const { hatch, lane, second } = await page.evaluate(() => {
      const area = document.querySelector(".area.missing");
      const width = Number(area.ownerSVGElement.getAttribute("width"));
      const runs = area.getAttribute("d").split("Z").filter(Boolean);
      let from = Infinity;
      // While the fleet was set up, replicas were missing until their first report.
      let isMissing = false;
      for (const run of runs) {
        const points = run
          .replace("M", "")
          .split("L")
          .map((it) => it.split(" ").map(Number));
        for (let i = 0; i < points.length / 2; i += 1) {
          const below = points[points.length - 1 - i];
          const wasMissing = isMissing;
          isMissing = below[1] - points[i][1] > 0.5;
          if (isMissing && !wasMissing) from = points[i][0];
        }
      }
      const slider = document.querySelector("input[type=range]");
      const lost = [...document.querySelectorAll(".lane-part.bad")];
      const left = Math.min(...lost.map((it) => parseFloat(it.style.left)));
      return {
        hatch: from,
        lane: (left / 100) * width,
        second: width / (Number(slider.max) - Number(slider.min)),
      };
    });
    expect(Math.abs(hatch - lane)).toBeLessThanOrEqual(second + 1);
    // The range can be chosen.
    await page.getByRole("button", { name: "15 min" }).click();
    await expect(page).toHaveURL(/range=15m/);
    await page.getByRole("button", { name: "all", exact: true }).click();
    await expect(page.locator(".area.missing")).toHaveAttribute(
      "data-tip",
      `Missing: ${number} replicas at the end`,
    );
    // Keys that lead to screens work while the slider has the focus.
    await page.getByRole("slider").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("h");
    await expect(page).toHaveURL(/#\/health/);
  } finally {
    await stage.stop();
  }
});

test("names of 45 clusters are found by the browser's search, and whole where there is room", async ({
  page,
}) => {
  const stage = await fleet({ clusters: 45, workloads: 200 });
  try {
    await page.setViewportSize({ width: 1440, height: 900 });
    await enter(page, stage.entrance);
    for (const screen of ["fleet", "placements", "outage"]) {
      await page.goto(`${stage.origin}/ui/#/${screen}`);
      const name = page.locator("main .name-cut").first();
      await expect(name).toBeVisible();
      const whole = await name.getAttribute("data-tip");
      expect(
        await page.evaluate((text) => globalThis.find(text, false, false, true), whole),
        screen,
      ).toBe(true);
    }
    await page.goto(`${stage.origin}/ui/#/placements`);
    await expect(page.locator(".table-row").first()).toBeVisible();
    await expect(page.locator(".table-row .row-link .name-cut").first()).toBeVisible();
    await expect(page.locator(".table-row .row-link .is-cut")).toHaveCount(0);
    await expect(page.locator(".table-row .place .is-cut")).toHaveCount(0);
  } finally {
    await stage.stop();
  }
});

test("the server's banner is over the page of ballast ui, which may have its own", async ({
  page,
}) => {
  const flags = ["--ui-banner", "OF THE SERVER"];
  for (const uiFlags of [[], ["--ui-banner", "OWN"]]) {
    const stage = await fleet({ clusters: 1, workloads: 0, flags, uiFlags });
    try {
      await enter(page, stage.entrance);
      await expect(page.locator(".banner")).toHaveText(uiFlags[1] ?? "OF THE SERVER");
    } finally {
      await stage.stop();
    }
  }
});
