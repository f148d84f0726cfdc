// @ts-check
/**
 * Where in the page we are: the part of the address after `#`, with a path and a query. The moment
 * of the past that is shown is in the query of every screen, so that an address can be sent on (NP3).
 */
import { changedNow } from "./feed.js";

/** @returns {{ screen: string, rest: string[], query: URLSearchParams }} */
export function route() {
  const [path = "", query = ""] = location.hash.slice(1).split("?");
  const [screen = "", ...rest] = path.split("/").filter(Boolean).map(plain);
  return { screen: screen || "fleet", rest, query: new URLSearchParams(query) };
}

/** @param {string} text */
function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** An address of this page, at the moment that is shown. @param {string[]} path @param {Record<string, string>} [query] */
export function link(path, query = {}) {
  const at = route().query.get("at") ?? "";
  return address(path, { at, ...query });
}

/** @param {string[]} path @param {Record<string, string>} query */
function address(path, query) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${words && `?${words}`}`;
}

/** The address of a workload's screen. @param {{ namespace?: string, name: string }} binding */
export const workloadLink = ({ namespace, name }) => link(["workload", namespace || "-", name]);

/** The address of a rebalance. @param {{ namespace?: string, name: string }} metadata */
export const rebalanceLink = ({ namespace, name }) =>
  link(["rebalance", ...(namespace ? [namespace] : []), name]);

/**
 * Changes the query. What is chosen is a step that the browser's Back takes back. What is typed
 * letter by letter, or dragged, is not.
 * @param {Record<string, string>} query
 * @param {"step" | "typed"} how
 */
export function refine(query, how = "step") {
  const { screen, rest, query: now } = route();
  const next = address([screen, ...rest], { ...Object.fromEntries(now), ...query });
  if (next === location.hash) return;
  if (how === "step") history.pushState(null, "", next);
  else history.replaceState(null, "", next);
  changedNow();
}

addEventListener("hashchange", changedNow);
addEventListener("popstate", changedNow);
