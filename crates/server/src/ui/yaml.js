// @ts-check
/** Writes an object as YAML that can be pasted into a file. Texts are written as JSON strings where
 * a plain one could mean something else. */

const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*(%?)$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n|~)$/i;

/** @param {any} value @param {number} [depth] @returns {string} */
export function yaml(value, depth = 0) {
  const pad = "  ".repeat(depth);
  return Object.entries(value)
    .filter(([, it]) => it !== undefined)
    .map(([name, it]) => `${pad}${scalar(name)}:${below(it, depth)}`)
    .join("");
}

/** @param {any} value @param {number} depth @returns {string} */
function below(value, depth) {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) {
    if (value.length === 0) return " []\n";
    const entries = value.map((it) => {
      if (it === null || typeof it !== "object") return `${pad}- ${scalar(it)}\n`;
      if (Object.keys(it).length === 0) return `${pad}- {}\n`;
      return `${pad}- ${yaml(it, depth + 1).trimStart()}`;
    });
    return `\n${entries.join("")}`;
  }
  if (value === null || typeof value !== "object") return ` ${scalar(value)}\n`;
  return Object.keys(value).length === 0 ? " {}\n" : `\n${yaml(value, depth + 1)}`;
}

/** @param {any} value */
const scalar = (value) => {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !WORDS.test(value) ? value : JSON.stringify(value);
};
