// How the screens look: accessible, without sideways scrolling on a phone, and as the pictures in
// docs/ui show. With PICTURES=1 the pictures are taken anew.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test } from "./page.js";

const AXE = createRequire(import.meta.url).resolve("axe-core");
const PICTURES = process.env.PICTURES_IN;
const SCREENS = {
  outage: "#/outage",
  fleet: "#/fleet",
  placements: "#/placements",
  workload: "#/workload/search/app-1-a-deployment",
  rebalance: "#/rebalance",
  whatif: "#/whatif",
  members: "#/members",
  health: "#/health",
};

for (const [name, hash] of Object.entries(SCREENS)) {
  for (const scheme of ["light", "dark"]) {
    test(`${name} in ${scheme}: axe finds nothing serious`, async ({ ui }) => {
      await ui.page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await ui.go(hash);
      await ui.page.waitForTimeout(700);
      // The page's policy forbids scripts that are added to it, so the browser itself runs axe.
      const session = await ui.page.context().newCDPSession(ui.page);
      await session.send("Runtime.evaluate", { expression: readFileSync(AXE, "utf8") });
      const { violations } = await ui.page.evaluate(() => globalThis.axe.run(document));
      const serious = violations.filter((it) => ["serious", "critical"].includes(it.impact));
      expect(serious.map((it) => `${it.id}: ${it.nodes.map((n) => n.html).slice(0, 3)}`)).toEqual(
        [],
      );
    });
  }

  test(`${name} fits a phone`, async ({ ui }) => {
    await ui.page.setViewportSize({ width: 390, height: 800 });
    await ui.go(hash);
    await ui.page.waitForTimeout(500);
    const wide = await ui.page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(390);
  });
}

test("every figure explains itself on hover and on focus", async ({ ui }) => {
  await ui.go("#/fleet");
  const figures = ui.page.locator(".figure");
  for (let i = 0; i < (await figures.count()); i += 1) {
    await figures.nth(i).focus();
    await expect(ui.page.getByRole("tooltip")).toBeVisible();
  }
  await ui.page.locator(".bar").first().hover();
  await expect(ui.page.getByRole("tooltip")).toContainText("are requested");
});

test("the page transfers little and loads nothing from elsewhere", async ({ ui }) => {
  const elsewhere = [];
  ui.page.on("request", (it) => it.url().startsWith(ui.origin) || elsewhere.push(it.url()));
  await ui.go("#/placements");
  const bytes = await ui.page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .filter((it) => it.name.includes("/ui/"))
      .reduce((sum, it) => sum + it.transferSize, 0),
  );
  expect(elsewhere).toEqual([]);
  expect(bytes).toBeLessThan(400 * 1024);
});

test("pictures", async ({ ui }) => {
  test.skip(!process.env.PICTURES, "PICTURES=1 takes them");
  await ui.page.emulateMedia({ reducedMotion: "reduce" });
  for (const [name, hash] of Object.entries(SCREENS)) {
    await ui.page.setViewportSize({ width: 1280, height: name === "outage" ? 860 : 800 });
    await ui.go(hash);
    // The log is read moment by moment.
    await ui.page.waitForTimeout(name === "outage" ? 12_000 : 2500);
    await ui.page.mouse.move(1, 1);
    await ui.page.screenshot({ path: `${PICTURES}/${name}.png` });
  }
});
