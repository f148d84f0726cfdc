// What the tests share: a page that has entered, and the API through the same proxy.
import { test as base, expect } from "@playwright/test";

export { expect };

const REVIEWS = "/apis/ballast.dev/v1alpha1/placementreviews";

/** Opens the entrance, and waits until it has led on to the page. */
export const enter = async (page, entrance) => {
  await page.goto(entrance);
  await page.waitForURL("**/ui/**");
};

export const test = base.extend({
  /** The page of the outage, entered. `go` opens a screen, `get` and `review` ask the API. */
  ui: async ({ page }, use) => {
    const faults = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("dialog", (dialog) => {
      faults.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    const entrance = process.env.BALLAST_PAGE;
    const origin = new URL(entrance).origin;
    await enter(page, entrance);
    await use({
      page,
      origin,
      entrance,
      go: async (hash) => {
        await page.goto(`${origin}/ui/${hash}`);
        await expect(page.locator(".connection")).toContainText("live");
      },
      get: async (path) => {
        const answer = await page.request.get(origin + path);
        expect(answer.ok(), path).toBe(true);
        return answer.json();
      },
      send: (method, path, data, headers = {}) =>
        page.request.fetch(origin + path, { method, data, headers: { origin, ...headers } }),
      review: async (spec) => {
        const data = { apiVersion: "ballast.dev/v1alpha1", kind: "PlacementReview", spec };
        let answer;
        // Only so many reviews are answered at a time, and the page asks, too.
        for (let tries = 0; tries < 30; tries += 1) {
          answer = await page.request.post(origin + REVIEWS, { data, headers: { origin } });
          if (answer.status() !== 429) break;
          await page.waitForTimeout(200);
        }
        expect(answer.status()).toBe(201);
        return (await answer.json()).status;
      },
    });
    expect(faults).toEqual([]);
  },
});

/** The number that a figure shows. */
export const figure = (page, name) =>
  page
    .locator(".figure", { has: page.locator("span", { hasText: new RegExp(`^${name}`) }) })
    .locator("b")
    .first();
