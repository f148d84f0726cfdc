// A PostgreSQL server of the test's own, where its programs are found: in PG_BIN, where pg_config
// says, or in Debian's folders. In CI they have to be there.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const DEBIAN = "/usr/lib/postgresql";
const START_MS = 60_000;

function programs() {
  const debian = existsSync(DEBIAN) ? readdirSync(DEBIAN).map((it) => join(DEBIAN, it, "bin")) : [];
  const told = spawnSync("pg_config", ["--bindir"], { encoding: "utf8" }).stdout?.trim();
  return [process.env.PG_BIN, told, ...debian.toSorted().toReversed()].find(
    (it) => it && existsSync(join(it, "initdb")),
  );
}

/** PostgreSQL refuses to run as root. */
function otherUser() {
  if (process.getuid() !== 0) return {};
  const lines = readFileSync("/etc/passwd", "utf8").split("\n");
  const line = ["postgres:", "nobody:"].map((name) => lines.find((it) => it.startsWith(name)));
  const [, , uid, gid] = line.find(Boolean).split(":").map(Number);
  return { uid, gid };
}

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Starts a server; `null` where there is no PostgreSQL. */
export async function postgres() {
  const found = programs();
  if (!found) {
    if (process.env.CI) throw new Error("PostgreSQL is missing: .ci/tools installs it");
    return null;
  }
  const user = otherUser();
  const folder = mkdtempSync(join(tmpdir(), "ballast-postgres-"));
  if (user.uid) chownSync(folder, user.uid, user.gid);
  const options = { cwd: folder, stdio: "ignore", ...user };
  const data = join(folder, "data");
  const flags = ["-U", "ballast", "-A", "trust", "-E", "UTF8", "--no-locale", "-N", "-D", data];
  execFileSync(join(found, "initdb"), flags, options);
  const port = await freePort();
  const words = ["-D", data, "-k", folder, "-p", String(port), "-c", "fsync=off"];
  const server = spawn(
    join(found, "postgres"),
    [...words, "-c", "listen_addresses=127.0.0.1"],
    options,
  );
  const stop = () =>
    new Promise((resolve) => {
      const gone = () => (rmSync(folder, { recursive: true, force: true }), resolve(undefined));
      if (server.exitCode !== null) return gone();
      server.once("exit", gone);
      // At once, whoever is connected.
      server.kill("SIGINT");
    });
  const until = Date.now() + START_MS;
  for (;;) {
    try {
      execFileSync(join(found, "pg_isready"), ["-q", "-h", "127.0.0.1", "-p", String(port)]);
      break;
    } catch (error) {
      if (Date.now() < until && server.exitCode === null) continue;
      await stop();
      throw error;
    }
  }
  return { url: `postgres://ballast@127.0.0.1:${port}/postgres`, stop };
}
