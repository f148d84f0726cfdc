// The rules for the page's scripts and for its tests.
import js from "@eslint/js";
import globals from "globals";
import lostSpaces from "./spaces.js";

export default [
  js.configs.recommended,
  {
    files: ["**/*.js"],
    languageOptions: { globals: globals.browser },
    plugins: { page: { rules: { "lost-spaces": lostSpaces } } },
    rules: {
      eqeqeq: "error",
      "no-console": ["error", { allow: ["error"] }],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-var": "error",
      "page/lost-spaces": "error",
      "prefer-const": "error",
    },
  },
  { files: ["tests/browser/**/*.js"], languageOptions: { globals: globals.node } },
  { ignores: ["**/vendor/**", "**/node_modules/**"] },
];
