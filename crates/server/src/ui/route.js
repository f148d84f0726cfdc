// @ts-check
/** Where in the page we are: the part of the address after `#`, with a path and a query. */
import { changed } from "./feed.js";

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

/** @param {string[]} path @param {Record<string, string>} [query] */
export function link(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${words && `?${words}`}`;
}

/** The address of a workload's screen. @param {{ namespace?: string, name: string }} binding */
export const workloadLink = ({ namespace, name }) => link(["workload", namespace || "-", name]);

/** Changes the query without a step in the browser's history. @param {Record<string, string>} query */
export function refine(query) {
  const { screen, rest, query: now } = route();
  history.replaceState(null, "", link([screen, ...rest], { ...Object.fromEntries(now), ...query }));
  changed();
}

addEventListener("hashchange", changed);
