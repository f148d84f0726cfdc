// Health of several replicas over one PostgreSQL: who leads, and who has fallen silent.
import { join } from "node:path";
import { enter, expect, test } from "./page.js";
import { postgres } from "./postgres.js";
import { folder, start } from "./program.js";

const PICTURES = process.env.PICTURES && process.env.PICTURES_IN;

test("health: who leads, who follows, and who has fallen silent", async ({ page }) => {
  const database = await postgres();
  test.skip(!database, "there is no PostgreSQL here");
  const place = folder();
  const words = ["serve", "--secure-port", "0", "--database-url", database.url];
  const running = [];
  try {
    for (let i = 0; i < 3; i += 1) {
      const ready = /ready at https:\/\/(\S+) /;
      running.push(await start(words, ready, { folder: place.path }));
    }
    // The kubeconfig names the replica that started last. The first one leads.
    const kubeconfig = join(place.path, "certs/admin.kubeconfig");
    const ui = await start(["ui", "--kubeconfig", kubeconfig], /is at (\S+)/);
    const [first, , last] = running.map(({ match }) => match[1]);
    const leader = running[0];
    running.push(ui);
    await enter(page, ui.match[1]);
    await page.goto(`${new URL(ui.match[1]).origin}/ui/#/health`);
    const replicas = page.locator(".replicas");
    const row = (address) => replicas.locator("tbody tr", { hasText: address });
    await expect(replicas.locator("tbody tr")).toHaveCount(3);
    await expect(replicas.locator(".sentence")).toContainText(`at ${first} leads, in term 1.`);
    await expect(row(first).locator(".chip")).toHaveText("leads");
    await expect(row(last).locator(".chip")).toHaveText("follows");
    await expect(row(last)).toContainText("answers here");
    await expect(row(first)).not.toContainText("answers here");
    await expect(row(first).locator(".number").first()).toHaveText(/^[\d,]+ ms$/);
    await expect(row(first).locator(".number").last()).toHaveText(/^\ds ago$/);

    const tops = await row(first)
      .locator("th, td")
      .evaluateAll((cells) => cells.map((it) => it.getBoundingClientRect().top));
    expect(new Set(tops).size, `the cells of a row are in one line: ${tops}`).toBe(1);

    await leader.stop("SIGKILL");
    await expect(row(first).locator(".chip")).toHaveText("silent");
    await expect(replicas.locator(".sentence")).not.toContainText(first);
    await expect(replicas.locator(".sentence")).toContainText("leads, in term");
    await expect(replicas.getByText("leads", { exact: true })).toHaveCount(1);
    if (PICTURES) {
      await page.setViewportSize({ width: 1280, height: 640 });
      // Rates need two looks.
      await page.waitForTimeout(7000);
      await page.mouse.move(1, 1);
      await page.screenshot({ path: `${PICTURES}/health-replicas.png` });
    }

    await page.setViewportSize({ width: 390, height: 800 });
    await expect(row(first)).toBeVisible();
    const edges = await replicas
      .locator("tbody th, td")
      .evaluateAll((cells) => cells.map((it) => it.getBoundingClientRect().right));
    expect(Math.max(...edges)).toBeLessThanOrEqual(390);
  } finally {
    for (const it of running.reverse()) await it.stop("SIGKILL");
    await database.stop();
    place.remove();
  }
});
