// Plays the outage once for all tests: `ballast demo --ui`, as a newcomer starts it.
import { start } from "./program.js";

export default async function outage() {
  const demo = await start(["demo", "--ui"], /The page: (\S+)[\s\S]*stay until Ctrl-C/, {
    within: 240_000,
  });
  process.env.BALLAST_PAGE = demo.match[1];
  return () => demo.stop();
}
