// @ts-check
/**
 * Talks to the Kubernetes API: requests, watches, and the server's clock.
 *
 * The page came either from a server, which speaks HTTP/2 and wants a sign-in, or from
 * `ballast ui`, which signs in by itself and takes watches as WebSockets, because a browser opens
 * few HTTP/1.1 connections to one place.
 */

/**
 * What the place that serves the page says of it: the server, and what of the kubeconfig is used.
 * @typedef {{ through: "server" | "proxy", server?: string, context?: string, namespace?: string, banner?: string }} Surroundings
 */
/** @typedef {{ type: string, object: any }} WatchEvent */

/** What the API answered instead of what was asked for. */
export class ApiError extends Error {
  /**
   * @param {number} code the HTTP status; 0: there was no answer
   * @param {string} reason
   * @param {string} message
   */
  constructor(code, reason, message) {
    super(message);
    this.code = code;
    this.reason = reason;
  }

  /** Whether nobody has answered, so that another try may help. */
  get isAway() {
    return this.code === 0 || this.reason === "ServerUnreachable" || this.code === 503;
  }

  get isForbidden() {
    return this.code === 403;
  }
}

/** The longest line of a watch. An object has at most 3 MiB. */
const LINE_CHARS_MAX = 8 << 20;

/** @type {Surroundings} */
let surroundings = { through: "server" };
/** Kept in memory alone, and gone with the tab. */
let token = "";
/** By how much the server's clock is ahead of the browser's, in milliseconds. */
let ahead = 0;
/** @type {(() => void)[]} */
const unauthorized = [];

/**
 * The secret of a run of `ballast ui`. It is in the fragment of the address that its entrance leads
 * to, and kept in the storage of this origin, so that other tabs and a reload have it. A cookie
 * would be sent to all ports of the machine.
 */
const secret = takeSecret();

function takeSecret() {
  const key = "ballast-ui-secret";
  const given = /^#enter=([\w-]+)$/.exec(location.hash)?.[1];
  try {
    if (given) {
      localStorage.setItem(key, given);
      history.replaceState(null, "", location.pathname);
    }
    return given ?? localStorage.getItem(key) ?? "";
  } catch {
    // A browser that stores nothing: the secret lasts as long as the tab.
    return given ?? "";
  }
}

/** @returns {Record<string, string>} */
const secretHeaders = () => (secret ? { "x-ballast-ui-secret": secret } : {});

export async function findSurroundings() {
  const answer = await fetch("surroundings.json", { cache: "no-store", headers: secretHeaders() });
  if (!answer.ok) throw errorOf(await answer.json().catch(() => ({})), answer.status);
  surroundings = await answer.json();
  return surroundings;
}

export const where = () => surroundings;

let user = "";
/** The name of the user, as far as it is known. */
export const knownUser = () => user;

/** Asks the API who the user is. */
export async function whoAmI() {
  const kind = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const { status } = await post("/apis/authentication.k8s.io/v1/selfsubjectreviews", kind);
  user = typeof status?.userInfo?.username === "string" ? status.userInfo.username : "";
  return user;
}

/** @param {string} typed */
export function signIn(typed) {
  token = typed.trim();
}

/** @param {() => void} told is called when the API wants a sign-in */
export function onUnauthorized(told) {
  unauthorized.push(told);
}

/** The time of the server, in milliseconds. The browser's clock may be hours off. */
export const now = () => Date.now() + ahead;

/** @param {Headers} headers */
function readClock(headers) {
  const date = Date.parse(headers.get("date") ?? "");
  // The header has whole seconds, so smaller differences mean nothing.
  if (!Number.isNaN(date)) {
    const seen = date + 500 - Date.now();
    ahead = Math.abs(seen) < 1500 ? 0 : seen;
  }
}

/**
 * @param {any} status
 * @param {number} code
 */
function errorOf(status, code) {
  const message =
    typeof status?.message === "string" ? status.message : `the server answered ${code}`;
  return new ApiError(status?.code ?? code, status?.reason ?? "", message);
}

/** @param {AbortSignal | undefined} signal @param {unknown} cause */
function away(signal, cause) {
  if (signal?.aborted) return cause;
  return new ApiError(0, "NoAnswer", "the server does not answer");
}

/**
 * The API is beside the page, which is below `ui/`. A proxy may have both under a path of its own.
 * @param {string} path from the root of the server
 */
const beside = (path) => new URL(`..${path}`, import.meta.url);

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function send(path, options) {
  /** @type {Record<string, string>} */
  const headers = {
    accept: "application/json",
    ...secretHeaders(),
    .../** @type {any} */ (options.headers),
  };
  if (token) headers.authorization = `Bearer ${token}`;
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(beside(path), { cache: "no-store", ...options, headers });
  } catch (cause) {
    throw away(options.signal ?? undefined, cause);
  }
  readClock(answer.headers);
  if (answer.ok) return answer;
  if (answer.status === 401) unauthorized.forEach((told) => told());
  let status = {};
  try {
    status = await answer.json();
  } catch {
    // Some answers are text.
  }
  throw errorOf(status, answer.status);
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, signal) {
  const answer = await send(path, { signal });
  return read(() => answer.json(), signal);
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
export async function getText(path, signal) {
  const answer = await send(path, { signal, headers: { accept: "text/plain" } });
  return read(() => answer.text(), signal);
}

/**
 * @param {string} path
 * @param {any} object
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function post(path, object, signal) {
  const headers = { "content-type": "application/json" };
  const answer = await send(path, {
    method: "POST",
    headers,
    body: JSON.stringify(object),
    signal,
  });
  return read(() => answer.json(), signal);
}

/**
 * @param {string} path
 * @param {any} change a JSON merge patch
 * @returns {Promise<any>}
 */
export async function patch(path, change) {
  const headers = { "content-type": "application/merge-patch+json" };
  const answer = await send(path, { method: "PATCH", headers, body: JSON.stringify(change) });
  return read(() => answer.json());
}

/** @param {string} path @returns {Promise<any>} */
export async function remove(path) {
  const answer = await send(path, { method: "DELETE" });
  return read(() => answer.json());
}

/**
 * @template T
 * @param {() => Promise<T>} body
 * @param {AbortSignal} [signal]
 */
async function read(body, signal) {
  try {
    return await body();
  } catch (cause) {
    throw away(signal, cause);
  }
}

/**
 * Calls `seen` with each event of a watch, until the server ends it. Throws what went wrong.
 * @param {string} path with its query
 * @param {(event: WatchEvent) => void} seen
 * @param {AbortSignal} signal
 * @param {() => void} opened is called once the server has begun to answer
 */
export async function watch(path, seen, signal, opened) {
  const lines = new Lines(seen);
  if (surroundings.through === "proxy") return watchSocket(path, lines, signal, opened);
  const answer = await send(path, { signal });
  opened();
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const piece = await read(() => reader.read(), signal);
    if (piece.done) return;
    lines.add(decoder.decode(piece.value, { stream: true }));
  }
}

/**
 * @param {string} path
 * @param {Lines} lines
 * @param {AbortSignal} signal
 * @param {() => void} opened
 * @returns {Promise<void>}
 */
function watchSocket(path, lines, signal, opened) {
  return new Promise((resolve, reject) => {
    const address = new URL(path, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    // A page cannot set headers of a WebSocket.
    const socket = new WebSocket(address, ["ballast-ui", `ballast-ui.${secret}`]);
    let isOpen = false;
    let isAnswered = false;
    const stop = () => socket.close();
    signal.addEventListener("abort", stop, { once: true });
    socket.onopen = () => (isOpen = true);
    socket.onmessage = (message) => {
      try {
        lines.add(message.data);
        // The proxy's first line, an empty one, says that the server has begun to answer.
        if (!isAnswered) opened();
        isAnswered = true;
      } catch (cause) {
        reject(cause);
        socket.close();
      }
    };
    socket.onclose = (closed) => {
      signal.removeEventListener("abort", stop);
      // 1006: the connection was lost, and nobody said goodbye.
      if (isOpen && closed.code !== 1006) resolve();
      else reject(new ApiError(0, "NoAnswer", "the server does not answer"));
    };
  });
}

/** Puts the pieces of a watch together to lines, one event each. */
class Lines {
  #rest = "";
  #seen;

  /** @param {(event: WatchEvent) => void} seen */
  constructor(seen) {
    this.#seen = seen;
  }

  /** @param {string} text */
  add(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > LINE_CHARS_MAX)
      throw new ApiError(0, "TooLong", "an event is too long");
    for (const line of lines) {
      if (!line) continue;
      const event = JSON.parse(line);
      if (event.type === "ERROR") {
        if (event.object?.code === 401) unauthorized.forEach((told) => told());
        throw errorOf(event.object, event.object?.code ?? 500);
      }
      this.#seen(event);
    }
  }
}
