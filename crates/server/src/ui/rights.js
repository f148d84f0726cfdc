// @ts-check
/** What the user may do, as the API says. */
import * as api from "./api.js";
import * as model from "./model.js";
import { currentMoment, onlyNamespace } from "./state.js";
import { useEffect, useState } from "./vendor/preact-htm/standalone.js";

/**
 * Whether the user may do something to rebalances, of a namespace or of the fleet.
 * @param {string} verb @param {string} [namespace]
 */
export const useMay = (verb, namespace = onlyNamespace()) =>
  useRight(verb, namespace ? "rebalances" : "clusterrebalances", namespace);

/** Whether the user may set the rate of evictions. */
export const useMayLimit = () => useRight("create", "evictionlimits", "");

/**
 * @param {string} verb @param {string} resource @param {string} namespace
 * @returns {{ allowed: boolean, why: string }}
 */
function useRight(verb, resource, namespace) {
  const [answer, tell] = useState({ allowed: true, why: "" });
  useEffect(() => {
    const attributes = { verb, group: "ballast.dev", resource, namespace: namespace || undefined };
    const question = {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: attributes },
    };
    api
      .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question)
      .then(({ status }) =>
        tell({
          allowed: status?.allowed === true,
          why: model.text(status?.reason) || `the right to ${verb} ${resource} is missing`,
        }),
      )
      // Where it cannot be asked, trying tells.
      .catch(() => tell({ allowed: true, why: "" }));
  }, [verb, resource, namespace]);
  return answer;
}

/** Why something cannot be done now. Empty: it can. @param {{ allowed: boolean, why: string }} may */
export function refusal(may) {
  if (currentMoment()) return "The past cannot be changed: go back to now first.";
  return may.allowed ? "" : `You may not: ${may.why}`;
}
