// How the screens look: accessible, without sideways scrolling on a phone, and as the pictures in
// docs/ui show. With PICTURES=1 the pictures are taken anew.
import { enter, expect, figure, test, violations } from "./page.js";
import { start } from "./program.js";

const PICTURES = process.env.PICTURES_IN;
const SCREENS = {
  outage: "#/outage",
  fleet: "#/fleet",
  placements: "#/placements",
  workload: "#/workload/search/app-1-a-deployment",
  rebalance: "#/rebalance",
  whatif: "#/whatif",
  capacity: "#/capacity",
  members: "#/members",
  health: "#/health",
};

for (const [name, hash] of Object.entries(SCREENS)) {
  for (const scheme of ["light", "dark"]) {
    test(`${name} in ${scheme}: axe finds nothing`, async ({ ui }) => {
      await ui.page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await ui.go(hash);
      await ui.page.waitForTimeout(700);
      expect(await violations(ui.page)).toEqual([]);
    });
  }
}

for (const [name, hash] of Object.entries({ ...SCREENS, run: "#/rebalance/home" })) {
  test(`${name} fits a phone, and nothing is cut off`, async ({ ui }) => {
    await ui.page.setViewportSize({ width: 390, height: 800 });
    await ui.go(hash);
    if (name === "whatif")
      await ui.page.getByRole("button", { name: "Simulate loss" }).first().click();
    if (["rebalance", "run", "whatif"].includes(name))
      await expect(ui.page.locator(".move-row").first()).toBeVisible();
    await ui.page.waitForTimeout(500);
    const wide = await ui.page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(390);
    // What ends beyond its box can be scrolled to, ends in dots, or is cut.
    const cut = await ui.page.evaluate(() => {
      const found = [];
      for (const box of document.querySelectorAll("main *")) {
        const style = getComputedStyle(box);
        const clips = ["hidden", "clip"].includes(style.overflowX);
        if (clips && style.textOverflow !== "ellipsis" && box.scrollWidth > box.clientWidth + 1)
          found.push(box.outerHTML.slice(0, 120));
        const scrolls = box.closest(".scroll, .rows, pre, svg");
        const { right, width } = box.getBoundingClientRect();
        if (!scrolls && width > 0 && right > innerWidth + 1)
          found.push(box.outerHTML.slice(0, 120));
      }
      for (const row of document.querySelectorAll(".move-row, .figure"))
        if (row.scrollWidth > row.clientWidth + 1 || row.scrollHeight > row.clientHeight + 1)
          found.push(row.outerHTML.slice(0, 120));
      return found;
    });
    expect(cut).toEqual([]);
  });
}

// A button that moves away under the pointer is missed, or another one is hit.
for (const name of ["fleet", "workload", "rebalance", "whatif"]) {
  test(`${name} stays in its place when the server answers late`, async ({ ui }) => {
    const { page } = ui;
    let answer;
    const held = new Promise((resolve) => (answer = resolve));
    await page.route("**/placementreviews", async (route) => {
      await held;
      await route.continue().catch(() => {});
    });
    await ui.go(SCREENS[name]);
    if (name !== "fleet") await expect(page.locator(".awaited")).toBeVisible();
    await page.evaluate(() => {
      globalThis.moved = 0;
      const count = (list) => {
        for (const { value, sources } of list.getEntries())
          if (sources.some((it) => it.previousRect.height > 0)) globalThis.moved += value;
      };
      new PerformanceObserver(count).observe({ type: "layout-shift" });
    });
    const answered = page.waitForResponse("**/placementreviews");
    answer();
    await answered;
    await expect(page.locator(".awaited")).toHaveCount(0);
    // What has moved is counted after the next picture.
    await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
    );
    await page.waitForTimeout(200);
    // What browsers call good.
    expect(await page.evaluate(() => globalThis.moved)).toBeLessThan(0.1);
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
  await expect(ui.page.getByRole("tooltip")).toContainText(" promised, ");
});

// Numbers stand alone in their element; what is a sentence says what it counts.
test("every number on every screen explains itself", async ({ ui }) => {
  for (const [name, hash] of Object.entries({ ...SCREENS, run: "#/rebalance/home" })) {
    await ui.go(hash);
    if (name === "whatif")
      await ui.page.getByRole("button", { name: "Simulate loss" }).first().click();
    await expect(ui.page.locator("main h1")).toBeVisible();
    await ui.page.waitForLoadState("networkidle").catch(() => {});
    const bare = await ui.page.evaluate(() => {
      const NUMBER = /^[+−-]?\d[\d.,]*\s?([KMGTP]?i?B|ms|[smhdy]|\/s|%)?$/;
      const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
      const found = [];
      while (texts.nextNode()) {
        const at = texts.currentNode.parentElement;
        const isTold = at.closest("[data-tip], [title], .axis-name, time, pre");
        if (NUMBER.test(at.textContent.trim()) && !isTold) found.push(at.outerHTML.slice(0, 120));
      }
      return found;
    });
    expect(bare, name).toEqual([]);
  }
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
  expect(bytes).toBeLessThan(500 * 1024);
});

test("pictures", async ({ ui }) => {
  test.skip(!process.env.PICTURES, "PICTURES=1 takes them");
  await ui.page.emulateMedia({ reducedMotion: "reduce" });
  const { members: _ofAnotherStory, capacity: _ofLargerFleets, ...screens } = SCREENS;
  screens.placements = "#/placements?show=displaced";
  for (const [name, hash] of Object.entries(screens)) {
    await ui.page.setViewportSize({ width: 1280, height: name === "outage" ? 860 : 800 });
    await ui.go(hash);
    if (name === "whatif") {
      await ui.page.locator(".supposed button").nth(2).click();
      await expect(figure(ui.page, "workloads move")).toBeVisible();
    }
    // The log is read moment by moment, and rates need two looks.
    await ui.page.waitForTimeout(name === "outage" ? 12_000 : 7000);
    await ui.page.mouse.move(1, 1);
    await ui.page.screenshot({ path: `${PICTURES}/${name}.png` });
  }
});

test("the picture of Fleet's placements", async ({ page }) => {
  test.skip(!process.env.PICTURES, "PICTURES=1 takes them");
  const demo = await start(
    ["demo", "--ui", "--story", "fleet"],
    /The page: (\S+)[\s\S]*stay until Ctrl-C/,
    { within: 240_000 },
  );
  try {
    await page.emulateMedia({ reducedMotion: "reduce" });
    await page.setViewportSize({ width: 1280, height: 800 });
    await enter(page, demo.match[1]);
    await page.goto(`${new URL(demo.match[1]).origin}/ui/#/members`);
    await expect(page.locator("tbody tr")).not.toHaveCount(0);
    await page.mouse.move(1, 1);
    await page.screenshot({ path: `${PICTURES}/members.png` });
  } finally {
    await demo.stop();
  }
});
