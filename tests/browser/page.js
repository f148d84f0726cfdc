// What the tests share: a page that has entered, and the API through the same proxy.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { test as base, expect } from "@playwright/test";

export { expect };

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core"), "utf8");
const REVIEWS = "/apis/ballast.dev/v1alpha1/placementreviews";

/** Where the page's files are taken from, if not from the program. */
const FILES = process.env.PAGE_FILES && resolve(process.env.ROOT ?? ".", process.env.PAGE_FILES);
const TYPES = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  svg: "image/svg+xml",
};

/** Answers for the page's files with those of the repository, under the program's own policy. */
async function fromDisk(page) {
  if (!FILES) return;
  await page.route("**/ui/**", async (route) => {
    const path = new URL(route.request().url()).pathname.replace(/^.*\/ui\//, "") || "index.html";
    if (!existsSync(join(FILES, path))) return route.fallback();
    const contentType = TYPES[path.split(".").at(-1)] ?? "text/plain";
    await route.fulfill({ path: join(FILES, path), contentType, headers: POLICY });
  });
}
const POLICY = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "require-trusted-types-for 'script'; trusted-types 'none'",
};

/** Opens the entrance, and waits until it has led on to the page. */
export const enter = async (page, entrance) => {
  await fromDisk(page);
  await page.goto(entrance);
  await page.waitForURL("**/ui/**");
};

/** The headers with the secret of `ballast ui`, for requests that a test sends by itself. */
export const secretOf = (entrance) => ({ "x-ballast-ui-secret": entrance.split("/enter/")[1] });

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
    const own = { origin, ...secretOf(entrance) };
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
        const answer = await page.request.get(origin + path, { headers: own });
        expect(answer.ok(), path).toBe(true);
        return answer.json();
      },
      send: (method, path, data, headers = {}) =>
        page.request.fetch(origin + path, { method, data, headers: { ...own, ...headers } }),
      review: async (spec) => {
        const data = { apiVersion: "ballast.dev/v1alpha1", kind: "PlacementReview", spec };
        let answer;
        // Only so many reviews are answered at a time, and the page asks, too.
        for (let tries = 0; tries < 30; tries += 1) {
          answer = await page.request.post(origin + REVIEWS, { data, headers: own });
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

/** What axe finds on a page. */
export async function violations(page) {
  // The page's policy forbids scripts that are added to it, so the browser itself runs axe.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: AXE });
  await session.detach();
  const found = await page.evaluate(() => globalThis.axe.run(document));
  return found.violations.map(
    (it) => `${it.id} (${it.impact}): ${it.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3)}`,
  );
}
