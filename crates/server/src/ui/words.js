// @ts-check
/** Numbers, times and colours in the form in which people read them. */

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const fullTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** @param {number} n */
export const number = (n) => whole.format(n);
/** @param {number} n */
export const compact = (n) => (Math.abs(n) < 10_000 ? whole.format(n) : short.format(n));
/** @param {number} ms */
export const clock = (ms) => clockTime.format(ms);
/** @param {number} ms */
export const dateTime = (ms) => fullTime.format(ms);
/** @param {number} n @param {string} one @param {string} [many] */
export const counted = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

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

/** An amount of a resource. @param {string} resource @param {number} n */
export function amount(resource, n) {
  if (/memory|storage/.test(resource)) return bytes(n);
  return Number.isInteger(n) ? number(n) : String(Math.round(n * 10) / 10);
}

/** At most so many letters of a name. Its end stays, as that is where names differ. @param {string} name @param {number} letters */
export function cut(name, letters) {
  if (name.length <= letters) return name;
  const head = Math.max(1, Math.floor((letters - 1) / 2));
  return `${name.slice(0, head)}…${name.slice(name.length - Math.max(1, letters - 1 - head))}`;
}

/** A quiet colour for the n-th of several clusters: neighbours are easy to tell apart. @param {number} n */
export const hue = (n) => `var(--series-${n % 12})`;
