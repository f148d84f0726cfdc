// @ts-check
/** Numbers, times and colours in the form in which people read them. */

const whole = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const abridged = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const minuteTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayMinute = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
const fullTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** @param {number} n */
export const number = (n) => whole.format(n);
/** @param {number} n */
export const compact = (n) => (Math.abs(n) < 10_000 ? whole.format(n) : abridged.format(n));
/** @param {number} ms */
export const clock = (ms) => clockTime.format(ms);
/** @param {number} ms */
export const minute = (ms) => minuteTime.format(ms);
/** @param {number} ms */
export const dayTime = (ms) => dayMinute.format(ms).replace(",", "");
/** @param {number} ms */
export const dateTime = (ms) => fullTime.format(ms);
/** The zone that times are told in, as `Europe/Berlin, UTC+1`. */
export function zone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const minutes = -new Date().getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const offset = `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
  return timeZone ? `${timeZone.replace(/_/g, " ")}, ${offset}` : offset;
}
/**
 * A part of a whole in whole percents, and below one percent in tenths. What is not all and not
 * nothing is not told as that.
 * @param {number} part @param {number} all
 */
export function percent(part, all) {
  if (all <= 0 || part <= 0) return "0 %";
  const share = (part / all) * 100;
  if (share < 0.1) return "less than 0.1 %";
  if (share < 0.95) return `${share.toFixed(1)} %`;
  return `${part >= all ? Math.round(share) : Math.min(99, Math.round(share))} %`;
}
/** The part of a capacity that is taken: more than there is, is more than 100 %. @param {number} part @param {number} all */
export const fullness = (part, all) =>
  // Sums of fractions may be off by a little.
  part > all * (1 + 1e-9)
    ? `${Math.max(101, Math.round((part / all) * 100))} %`
    : percent(Math.min(part, all), all);
/** @param {number} n */
export const signed = (n) => (n > 0 ? `+${whole.format(n)}` : `−${whole.format(-n)}`);
/** @param {number} n @param {string} one @param {string} [many] */
export const counted = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

/** Words for a state of several, or of one: `is unschedulable`, `are unschedulable`, `cannot move`. @param {number} n @param {string} state */
export const agreeing = (n, state) =>
  state.startsWith("cannot") ? state : `${n === 1 ? "is" : "are"} ${state}`;

/** Units of the figures of objectives: what a figure is multiplied with, and its words. @type {Record<string, [number, string, string]>} */
const FIGURES = {
  ShareOfCapacity: [100, "% of capacity", "% of capacity"],
  Clusters: [1, "cluster", "clusters"],
  CostPerHour: [1, "an hour", "an hour"],
  Replicas: [1, "replica", "replicas"],
};

/** A figure of an objective with its unit, as the commands print it. @param {unknown} n @param {unknown} unit */
export function figure(n, unit) {
  const value = typeof n === "number" ? n : 0;
  const [times, one, many] = FIGURES[String(unit)] ?? [1, "", ""];
  return `${decimal.format(value * times)} ${value * times === 1 ? one : many}`.trim();
}

/** A number with up to four digits after the point. @param {number} n */
export const fraction = (n) => decimal.format(n);

/** How long, as in `kubectl get`: `42s`, `3m5s`, `2h`. @param {number} ms */
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes}m${seconds % 60 ? `${seconds % 60}s` : ""}`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

/** Bytes in binary units. @param {number} n */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const step = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(n) / 10));
  const value = n / 2 ** (10 * step);
  return `${value >= 100 || step === 0 ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}

/** A resource without its domain, as `gpu` of `nvidia.com/gpu`. @param {string} name */
export const resource = (name) => name.split("/").pop() ?? name;

/** An amount of a resource. @param {string} resource @param {number} n */
export function amount(resource, n) {
  if (/memory|storage/.test(resource)) return bytes(n);
  return number(Math.abs(n) >= 100 ? Math.round(n) : Math.round(n * 10) / 10);
}

/** At most so many letters of a name. Its end stays, as that is where names differ. @param {string} name @param {number} letters */
export function cut(name, letters) {
  if (name.length <= letters) return name;
  const head = Math.max(1, Math.floor((letters - 1) / 2));
  return `${name.slice(0, head)}…${name.slice(name.length - Math.max(1, letters - 1 - head))}`;
}

/**
 * Names without the words that all of them begin and end with, so that what differs is seen.
 * @param {string[]} names @returns {Map<string, string>}
 */
export function distinct(names) {
  const split = names.map((it) => it.split("-"));
  const least = Math.min(...split.map((it) => it.length));
  /** @param {(words: string[], i: number) => string | undefined} at */
  const shared = (at) => {
    let n = 0;
    while (n < least - 1 && split.every((it) => at(it, n) === at(split[0] ?? [], n))) n += 1;
    return n;
  };
  if (names.length < 3) return new Map(names.map((it) => [it, it]));
  const head = shared((it, i) => it[i]);
  const tail = Math.min(
    least - 1 - head,
    shared((it, i) => it[it.length - 1 - i]),
  );
  return new Map(
    names.map((it, i) => {
      const own = split[i] ?? [];
      const middle = own.slice(head, own.length - tail).join("-");
      return [it, `${head ? "…" : ""}${middle}${tail ? "…" : ""}`];
    }),
  );
}

/**
 * Why a workload has no placement, in the words of who runs it. The scheduler's own message is told
 * where it explains itself: on the workload's screen.
 * @param {string} message
 */
export function shortage(message) {
  const [, needed] = /^(\d+\/\d+ clusters are available: )?([^;]*)/s.exec(message)?.slice(1) ?? [];
  if (/available replicas.* (is|are) not enough/.test(message))
    return "not enough free capacity on the clusters that it may use";
  const rest = (needed ?? message).replace(/\.$/, "");
  return rest && rest !== message ? `no cluster fits: ${rest}` : message;
}

/** Letters of a sentence that others stand beside. */
const SENTENCE = 180;
/** A sentence that may be long. @param {string} text */
export const short = (text) => (text.length > SENTENCE ? `${text.slice(0, SENTENCE)}…` : text);

/**
 * Moves places apart so that each is at least `gap` after the one before it, in their order, and all
 * of them are within the bounds as far as these have room.
 * @param {number[]} places in order @param {number} gap @param {number} least @param {number} most
 */
export function apart(places, gap, least, most) {
  const found = [...places];
  for (let i = 0; i < found.length; i += 1)
    found[i] = Math.max(found[i] ?? 0, i === 0 ? least : (found[i - 1] ?? 0) + gap);
  for (let i = found.length - 1; i >= 0; i -= 1)
    found[i] = Math.min(found[i] ?? 0, i === found.length - 1 ? most : (found[i + 1] ?? 0) - gap);
  return found;
}

/** The names of a few, and how many more there are. @param {string[]} names @param {number} [most] */
export const few = (names, most = 3) =>
  names.length <= most + 1
    ? names.join(", ")
    : `${names.slice(0, most).join(", ")} and ${number(names.length - most)} more`;

/** A quiet colour for the n-th of several clusters: neighbours are easy to tell apart. @param {number} n */
export const hue = (n) => `var(--series-${n % 12})`;
