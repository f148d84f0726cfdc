// One browser, one worker: the tests share a server that plays an outage.
import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: ".",
  outputDir: "results",
  workers: 1,
  forbidOnly: true,
  // A machine that does other work needs several times as long as a quiet one.
  timeout: 180_000,
  expect: { timeout: 45_000 },
  reporter: [["list"]],
  globalSetup: "./outage.js",
  use: {
    viewport: { width: 1280, height: 900 },
    ignoreHTTPSErrors: true,
    trace: "retain-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      // The tests run as root in containers, where the sandbox cannot.
      args: [
        "--no-sandbox",
        // With PAGE_FILES the browser does not know that the page comes from this machine.
        ...(process.env.PAGE_FILES ? ["--disable-features=LocalNetworkAccessChecks"] : []),
      ],
    },
  },
});
