// A page of another site, in a browser that has the administrator's certificate (WH1).
import { expect, test } from "@playwright/test";
import { createServer } from "node:http";
import { join } from "node:path";
import { folder, start } from "./program.js";

const REBALANCES = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const APPROVED = {
  apiVersion: "ballast.dev/v1alpha1",
  kind: "ClusterRebalance",
  metadata: { generateName: "evil-" },
  spec: { select: [{ all: true }], approval: "Required", approved: true },
};

/** Another site: `localhost` is another one than 127.0.0.1. */
async function otherSite(own) {
  const page = `<!doctype html><title>evil</title><a href="${own}/ui/">a link</a>`;
  const server = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end(page);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://localhost:${address.port}/`, close: () => server.close() };
}

test("a page of another site does nothing with the browser's certificate", async ({ browser }) => {
  const place = folder();
  const words = ["serve", "--secure-port", "0", "--database-url", "memory:"];
  const server = await start(words, /ready at (https:\/\/\S+) /, { folder: place.path });
  const own = server.match[1];
  const site = await otherSite(own);
  const certificate = {
    origin: own,
    certPath: join(place.path, "certs/admin.crt"),
    keyPath: join(place.path, "certs/admin.key"),
  };
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    clientCertificates: [certificate],
  });
  try {
    const page = await context.newPage();
    const answers = [];
    page.on("response", (answer) => {
      if (answer.url().startsWith(own)) answers.push([answer.request().method(), answer.status()]);
    });
    /** A POST without a Content-Type, for which a browser asks no permission. */
    const post = (url, text) =>
      fetch(url, {
        method: "POST",
        mode: "no-cors",
        credentials: "include",
        body: new Blob([text]),
      })
        .then(() => "sent")
        .catch(String);
    const send = (url) =>
      page.evaluate(
        ([code, to, text]) => new Function(`return (${code})`)()(to, text),
        [post.toString(), url, JSON.stringify(APPROVED)],
      );

    await page.goto(site.url);
    expect(await send(own + REBALANCES)).toBe("sent");
    const proxied = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/pods";
    expect(await send(own + proxied)).toBe("sent");
    await expect
      .poll(() => answers)
      .toEqual([
        ["POST", 403],
        ["POST", 403],
      ]);

    // A link to the page works, and the page acts with the same certificate.
    await page.getByText("a link").click();
    await expect(page.locator(".connection")).toContainText("live");
    const seen = await page.evaluate((path) => fetch(path).then((it) => it.json()), REBALANCES);
    expect([seen.kind, seen.items]).toEqual(["ClusterRebalanceList", []]);
    const headers = { "content-type": "application/json" };
    const made = await page.evaluate(
      ([path, init]) => fetch(path, init).then((it) => it.status),
      /** @type {[string, RequestInit]} */ ([
        REBALANCES,
        { method: "POST", headers, body: JSON.stringify(APPROVED) },
      ]),
    );
    expect(made).toBe(201);
  } finally {
    await context.close();
    site.close();
    await server.stop("SIGKILL");
    place.remove();
  }
});
