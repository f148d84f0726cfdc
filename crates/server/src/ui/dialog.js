// @ts-check
/** Asks once before something is changed, and says where: the wrong server is hard to press on. */
import * as api from "./api.js";
import { html, useEffect, useRef } from "./vendor/preact-htm/standalone.js";

/**
 * A question over the page. Escape and Cancel leave everything as it is.
 * @param {{ title: string, yes: string, tone?: string, isDisabled?: boolean, onYes: () => void, onNo: () => void, children?: any }} given
 */
export function Confirm({
  title,
  yes,
  tone = "primary",
  isDisabled = false,
  onYes,
  onNo,
  children,
}) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    box.current?.showModal();
  }, []);
  const { server = location.origin, context, banner } = api.where();
  const user = api.knownUser();
  return html`<dialog class="confirm" ref=${box} aria-labelledby="confirm" onCancel=${onNo}>
    <h2 id="confirm">${title}</h2>
    ${children}
    <p class="confirm-where">
      ${banner && html`<b class="banner-word">${banner}</b>`}
      <span
        >on <b>${context || server}</b>${context && html` <span class="muted">${server}</span>`}${
          user && html` <span class="muted">as ${user}</span>`
        }</span
      >
    </p>
    <div class="row">
      <button class=${tone} disabled=${isDisabled} onClick=${onYes}>${yes}</button>
      <button autofocus onClick=${onNo}>Cancel</button>
    </div>
  </dialog>`;
}
