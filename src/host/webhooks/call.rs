//! One call of one webhook: AdmissionReview v1 out, its answer in.

use std::time::Instant;

use base64::Engine;
use serde_json::{Map, Value, json};

use super::hook::Hook;
use crate::k8s::{Patch, Status};
use crate::metrics;
use crate::registry::{Asked, Operation};

/// What is asked.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    pub asked: &'a Asked<'a>,
    pub object: Option<&'a Map<String, Value>>,
    pub old: Option<&'a Map<String, Value>>,
}

/// What a webhook that allowed it has to add.
#[derive(Debug, Default)]
pub struct Answer {
    pub warnings: Vec<String>,
    /// A JSON patch.
    pub patch: Option<Vec<u8>>,
}

impl Review<'_> {
    /// What match conditions may look at.
    pub fn variables(&self) -> Value {
        json!({"request": self.request(""), "object": self.object, "oldObject": self.old})
    }

    fn request(&self, uid: &str) -> Value {
        let Asked { caller, row, operation, namespace, name, subresource, dry_run } = *self.asked;
        let kind = json!({"group": row.group, "version": row.version, "kind": row.kind});
        let resource = json!({"group": row.group, "version": row.version, "resource": row.plural});
        let options = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut request = json!({
            "uid": uid, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "operation": operation.as_str(), "userInfo": caller.info(), "object": self.object,
            "oldObject": self.old, "dryRun": dry_run,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
        });
        for (member, value) in [
            ("name", name),
            ("namespace", namespace),
            ("subResource", subresource),
            ("requestSubResource", subresource),
        ] {
            if !value.is_empty() {
                request[member] = Value::from(value);
            }
        }
        request
    }
}

/// Asks, inside the webhook's own deadline. A failure is an error or an empty answer, as its policy says.
pub async fn call(hook: &Hook, review: &Review<'_>, step: &'static str) -> Result<Answer, Status> {
    if review.asked.dry_run && !hook.is_free_of_side_effects {
        return Err(Status::bad_request(format!("admission webhook {:?} does not support dry run", hook.name)));
    }
    let started = Instant::now();
    let answered = match tokio::time::timeout(hook.timeout, ask(hook, review)).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("failed to call webhook: no answer in {:?}", hook.timeout)),
    };
    let outcome = match answered {
        Ok(response) => read(hook, &response),
        Err(why) if hook.fails_closed => {
            tracing::warn!(webhook = hook.name, why, "a webhook failed, and with it the request");
            Err(hook.failure(&why))
        }
        Err(why) => {
            tracing::warn!(webhook = hook.name, why, "a webhook failed, which its policy ignores");
            Ok(Answer::default())
        }
    };
    metrics::webhook(&hook.name, step, outcome.is_err(), started.elapsed());
    outcome
}

async fn ask(hook: &Hook, review: &Review<'_>) -> Result<Value, String> {
    let way = hook.way.as_ref().map_err(String::clone)?;
    let uid = uuid::Uuid::new_v4().to_string();
    let body = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": review.request(&uid)});
    let request = http::Request::post(&way.path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|error| error.to_string())?;
    let failed = |error: kube::Error| format!("failed to call webhook: {}", crate::host::reviews::sentence(&error));
    let mut answer: Value = way.client.request(request).await.map_err(failed)?;
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

fn read(hook: &Hook, response: &Value) -> Result<Answer, Status> {
    let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let warnings = warnings.map(str::to_owned).collect();
    if response["allowed"] != true {
        return Err(denial(hook, &response["status"]));
    }
    let patch = match response["patch"].as_str() {
        None => None,
        Some(_) if response["patchType"] != "JSONPatch" => return Err(hook.failure("the patch is no JSONPatch")),
        Some(text) => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(patch) => Some(patch),
            Err(_) => return Err(hook.failure("the patch is no base64")),
        },
    };
    Ok(Answer { warnings, patch })
}

/// In kube-apiserver's words: the webhook's own code and reason, or 403.
fn denial(hook: &Hook, status: &Value) -> Status {
    let name = &hook.name;
    let message = match status["message"].as_str().or(status["reason"].as_str()) {
        Some(message) if !message.is_empty() => format!("admission webhook {name:?} denied the request: {message}"),
        _ => format!("admission webhook {name:?} denied the request without explanation"),
    };
    let code =
        status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    let mut refusal = Status::failure(code.unwrap_or(403), "Forbidden", message);
    if let Some(reason) = status["reason"].as_str().filter(|_| code.is_some()) {
        refusal.reason = reason.to_owned();
    }
    refusal
}

/// The object after a webhook's patch.
pub fn patched(hook: &Hook, object: &Map<String, Value>, patch: &[u8]) -> Result<Map<String, Value>, Status> {
    let applied = Patch::json(patch).and_then(|patch| patch.apply(object.clone()));
    applied.map_err(|status| hook.failure(&format!("its patch cannot be applied: {}", status.message)))
}
