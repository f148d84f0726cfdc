//! One call of one webhook: sends an AdmissionReview v1 and parses the response.

use std::time::Instant;

use base64::Engine;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::hook::Hook;
use crate::request::{admission_request, worded};
use ballast_base::metrics;
use ballast_base::outgoing::{self, Outgoing};
use ballast_k8s::{Details, Patch, Status};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

type Tree = Map<String, Value>;

/// The review sent to a webhook. Objects are in their stored version.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    pub attributes: &'a AdmissionAttributes<'a>,
    /// The version of the kind that the webhook's rules name.
    pub row: &'a ResourceKind,
    pub object: Option<&'a Tree>,
    pub old: Option<&'a Tree>,
}

/// The result of a call that did not deny the request.
#[derive(Debug)]
pub enum Answer {
    /// The call failed, and the webhook's failure policy is `Ignore`.
    Failed,
    Allowed {
        patch: Option<Vec<u8>>,
    },
}

impl Review<'_> {
    /// Returns the variables of match conditions.
    pub fn variables(&self) -> Value {
        let mut request = self.request("");
        let [object, old] = ["object", "oldObject"].map(|name| request[name].take());
        json!({"request": request, "object": object, "oldObject": old})
    }

    fn request(&self, uid: &str) -> Value {
        let mut request = admission_request(self.attributes, self.row, uid);
        request["object"] = self.worded(self.object);
        request["oldObject"] = self.worded(self.old);
        request
    }

    fn worded(&self, object: Option<&Tree>) -> Value {
        object.map_or(Value::Null, |object| Value::Object(worded(object.clone(), self.row)))
    }
}

/// Calls a webhook within its own timeout. A failed call is an error, or `Answer::Failed` if the
/// failure policy is `Ignore`.
pub async fn call(hook: &Hook, review: &Review<'_>, step: &'static str) -> Result<Answer, Status> {
    if review.attributes.dry_run() && !hook.supports_dry_run {
        return Err(Status::bad_request(format!("admission webhook {:?} does not support dry run", hook.name)));
    }
    // If the concurrency limit rejects the call, it does not count as failed: the failure policy
    // might then let the write pass.
    let _slot = outgoing::connect(Outgoing::Webhook, &review.attributes.caller.user.name).await?;
    let started = Instant::now();
    let answered = match tokio::time::timeout(hook.timeout, ask(hook, review)).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("failed to call webhook: no answer in {:?}", hook.timeout)),
    };
    let outcome = match answered {
        Ok(response) => {
            pass_on(hook, review.attributes, &response);
            read(hook, &response)
        }
        Err(why) => {
            tell_failure(hook, &why);
            if hook.fails_closed { Err(hook.failure(&why)) } else { Ok(Answer::Failed) }
        }
    };
    metrics::webhook(&hook.name, review.attributes.operation.as_str(), step, outcome.is_err(), started.elapsed());
    outcome
}

/// Logs a failed call. Log lines are rate-limited; the metric counts each call.
fn tell_failure(hook: &Hook, why: &str) {
    let Some(left_out) = hook.told.pass() else { return };
    let webhook = &hook.name;
    match hook.fails_closed {
        true => tracing::warn!(webhook, why, left_out, "the call of a webhook failed, so the request is refused"),
        false => {
            tracing::warn!(webhook, why, left_out, "the call of a webhook failed; its failure policy ignores that");
        }
    }
}

async fn ask(hook: &Hook, review: &Review<'_>) -> Result<Value, String> {
    let endpoint = hook.endpoint.as_ref().map_err(String::clone)?;
    let uid = uuid::Uuid::new_v4().to_string();
    let body = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": review.request(&uid)});
    let request = http::Request::post(&endpoint.path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|error| error.to_string())?;
    let failed = |error: kube::Error| format!("failed to call webhook: {}", crate::reviews::sentence(&error));
    let mut answer: Value = endpoint.client.request(request).await.map_err(failed)?;
    if answer["kind"] != "AdmissionReview" || answer["apiVersion"] != "admission.k8s.io/v1" {
        return Err("expected response of admission.k8s.io/v1, Kind=AdmissionReview".to_owned());
    }
    let response = answer["response"].take();
    match (response["uid"] == *uid, response["allowed"].is_boolean()) {
        (true, true) => Ok(response),
        (false, _) => Err("the response's uid is not the request's".to_owned()),
        (true, false) => Err("the response does not say whether it is allowed".to_owned()),
    }
}

/// Records the webhook's warnings and audit annotations, whatever it decided.
fn pass_on(hook: &Hook, attributes: &AdmissionAttributes<'_>, response: &Value) {
    for warning in response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        attributes.caller.warnings.warn(warning);
    }
    for (key, value) in response["auditAnnotations"].as_object().into_iter().flatten() {
        if let Some(value) = value.as_str() {
            attributes.caller.warnings.annotate(format!("{}/{key}", hook.name), value.to_owned());
        }
    }
}

fn read(hook: &Hook, response: &Value) -> Result<Answer, Status> {
    if response["allowed"] != true {
        return Err(denial(hook, &response["status"]));
    }
    let patch = match response["patch"].as_str() {
        None => None,
        Some(_) if response["patchType"] != "JSONPatch" => return Err(hook.failure("the patch is not a JSONPatch")),
        Some(text) => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(patch) => Some(patch),
            Err(_) => return Err(hook.failure("the patch is not base64")),
        },
    };
    Ok(Answer::Allowed { patch })
}

/// Returns the denial with kube-apiserver's text and the webhook's code, reason and details. The
/// code is 400 if the webhook returns none, or one that is not an error.
fn denial(hook: &Hook, status: &Value) -> Status {
    const CODES: std::ops::Range<u64> = 400..600;
    let name = &hook.name;
    let reason = status["reason"].as_str().unwrap_or_default();
    let message = match (status["message"].as_str().unwrap_or_default(), reason) {
        ("", "") => format!("admission webhook {name:?} denied the request without explanation"),
        ("", why) | (why, _) => format!("admission webhook {name:?} denied the request: {why}"),
    };
    let code = status["code"].as_u64().filter(|code| CODES.contains(code)).and_then(|code| u16::try_from(code).ok());
    let refusal = Status::failure(code.unwrap_or(400), reason, message);
    match Details::deserialize(&status["details"]) {
        Ok(details) => refusal.with(details),
        Err(_) => refusal,
    }
}

/// Applies a webhook's patch to the stored object. The patch is relative to the version that was
/// sent to the webhook.
pub fn patched(hook: &Hook, review: &Review<'_>, object: Tree, patch: &[u8]) -> Result<Tree, Status> {
    let worded = worded(object, review.row);
    let applied = Patch::json(patch).and_then(|patch| patch.apply(worded));
    let mut applied =
        applied.map_err(|status| hook.failure(&format!("its patch cannot be applied: {}", status.message)))?;
    // A patch that changes the version makes a different object, which the registry rejects.
    if applied.get("apiVersion").is_some_and(|it| *it == review.row.api_version()) {
        applied.insert("apiVersion".to_owned(), review.row.stored_api_version().into());
    }
    Ok(applied)
}
