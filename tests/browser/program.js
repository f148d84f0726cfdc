// The program under test: started, waited for by what it prints, and ended by its id.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BALLAST = process.env.BALLAST ?? "ballast";

/**
 * Starts `ballast` and waits until its output has `ready`.
 * @param {string[]} words
 * @param {RegExp} ready
 * @param {{ within?: number, folder?: string }} [options]
 */
export function start(words, ready, { within = 60_000, folder = "." } = {}) {
  const child = spawn(BALLAST, words, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const running = {
    pid: child.pid,
    output: "",
    stop: (signal = "SIGINT") =>
      new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode) return resolve(undefined);
        child.once("exit", resolve);
        child.kill(signal);
      }),
  };
  const note = (piece) => (running.output += piece);
  child.stdout.on("data", note);
  child.stderr.on("data", note);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`not ready within ${within} ms: ${running.output}`));
    }, within);
    child.once("exit", (code) => {
      clearTimeout(late);
      reject(new Error(`ballast ended with ${code}: ${running.output}`));
    });
    child.stdout.on("data", () => {
      const match = ready.exec(running.output);
      if (!match) return;
      clearTimeout(late);
      resolve({ ...running, match, output: () => running.output });
    });
  });
}

/** A folder that is removed afterwards. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "ballast-page-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
