//! `metav1.Status`: the format of every failure on the wire (ER1-ER23).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FieldErrors, GroupResource};

/// A failure, or the result of a delete. Serializes as `kind: Status, apiVersion: v1` with
/// `metadata: {}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    kind: Kind,
    #[serde(rename = "apiVersion")]
    api_version: ApiVersion,
    metadata: Metadata,
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status code. Zero, which is absent on the wire, in the `Success` of a delete (VB5).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
    /// Whether the cause was logged already. Not on the wire.
    #[serde(skip)]
    pub is_logged: bool,
}

/// The constant `kind`. It and `ApiVersion` have one possible value and take no space: a `Status`
/// is the error type of most calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ApiVersion {
    #[serde(rename = "v1")]
    V1,
}

/// `metav1.ListMeta`, of which only the token is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// `metav1.StatusDetails`: the object and the causes of the failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource, or the kind for `Invalid` (ER6).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Also sent as the header `Retry-After` (ER23).
    #[serde(default, skip_serializing_if = "is_zero_seconds")]
    pub retry_after_seconds: u32,
}

/// One cause of a failure: for an invalid object, one invalid field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

fn is_zero_seconds(seconds: &u32) -> bool {
    *seconds == 0
}

impl Status {
    /// The reason of the cause if the requested resource version does not exist yet (CH8).
    pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Status {
        Status {
            kind: Kind::Status,
            api_version: ApiVersion::V1,
            metadata: Metadata::default(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code,
            is_logged: false,
        }
    }

    /// Marks the cause as logged, so that the server does not log it again.
    #[must_use]
    pub fn already_logged(mut self) -> Status {
        self.is_logged = true;
        self
    }

    /// Returns the response to a DELETE that removed its object (VB5).
    pub fn deleted(resource: GroupResource, name: &str, uid: &str) -> Status {
        let mut status = Status::failure(0, "", "");
        status.status = "Success".to_owned();
        status.with(Details { uid: uid.to_owned(), ..Details::of(resource, name) })
    }

    /// Returns a 400 (ER9).
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::failure(400, "BadRequest", message)
    }

    /// Returns a 401 (ER10).
    pub fn unauthorized() -> Status {
        Status::failure(401, "Unauthorized", "Unauthorized")
    }

    /// Returns a 403. `what` is the text after `is forbidden: ` (ER11).
    pub fn forbidden(resource: GroupResource, name: &str, what: &str) -> Status {
        let named = if name.is_empty() { resource.to_string() } else { format!("{resource} {name:?}") };
        let status = Status::failure(403, "Forbidden", format!("{named} is forbidden: {what}"));
        status.with(Details::of(resource, name))
    }

    /// Returns a 404 (ER1).
    pub fn not_found(resource: GroupResource, name: &str) -> Status {
        let status = Status::failure(404, "NotFound", format!("{resource} {name:?} not found"));
        status.with(Details::of(resource, name))
    }

    /// Returns a 409: an object of this name exists (ER2).
    pub fn already_exists(resource: GroupResource, name: &str) -> Status {
        let status = Status::failure(409, "AlreadyExists", format!("{resource} {name:?} already exists"));
        status.with(Details::of(resource, name))
    }

    /// Returns a 409: the write is based on a version that is not the newest (ER4).
    pub fn conflict(resource: GroupResource, name: &str) -> Status {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict_because(resource, name, why)
    }

    /// Returns a 409 with this reason in the message.
    pub fn conflict_because(resource: GroupResource, name: &str, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Status::failure(409, "Conflict", message).with(Details::of(resource, name))
    }

    /// Returns a 422 with one cause per reported error, and one with the number of the others (ER6,
    /// LI11). `errors` must not be empty.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &FieldErrors) -> Status {
        let more = Some(errors.more()).filter(|more| *more > 0).map(super::field_errors::and_more);
        let listed: Vec<String> = errors.iter().map(ToString::to_string).chain(more.clone()).collect();
        let listed = match listed.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.reason.to_owned(),
                message: error.body.clone(),
                field: error.path.to_string(),
            })
            .chain(more.map(|message| Cause { message, ..Cause::default() }))
            .collect();
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        Status::failure(422, "Invalid", format!("{qualified} {name:?} is invalid: {listed}")).with(details)
    }

    /// Returns a 405 (ER12).
    pub fn method_not_allowed(resource: GroupResource, verb: &str) -> Status {
        let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
        Status::failure(405, "MethodNotAllowed", message).with(Details::of(resource, ""))
    }

    /// Returns a 406 with the supported media types (ER13).
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::failure(406, "NotAcceptable", message)
    }

    /// Returns a 415 with the accepted media types (ER14).
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let list = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {list}");
        Status::failure(415, "UnsupportedMediaType", message)
    }

    /// Returns a 410: the requested revision is no longer in the log (RV9, WA5).
    pub fn expired(message: impl Into<String>) -> Status {
        Status::failure(410, "Expired", message)
    }

    /// Returns a 413 (ER16).
    pub fn too_large(limit_bytes: usize) -> Status {
        let message = format!("Request entity too large: limit is {limit_bytes}");
        Status::failure(413, "RequestEntityTooLarge", message)
    }

    /// Returns a 429 (ER17).
    pub fn too_many_requests(retry_after_seconds: u32) -> Status {
        let message = "Too many requests, please try again later.";
        Status::failure(429, "TooManyRequests", message).with(Details { retry_after_seconds, ..Details::default() })
    }

    /// Returns a 500. Clients see `error`, so it should name the failed step without internals.
    pub fn internal(error: impl fmt::Display) -> Status {
        let cause = Cause { message: error.to_string(), ..Cause::default() };
        Status::failure(500, "InternalError", format!("Internal error occurred: {error}"))
            .with(Details { causes: vec![cause], ..Details::default() })
    }

    /// Returns a 503 (ER22).
    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::failure(503, "ServiceUnavailable", message)
    }

    /// Returns a 504 (ER18).
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Status {
        Status::failure(504, "Timeout", format!("Timeout: {message}"))
            .with(Details { retry_after_seconds, ..Details::default() })
    }

    /// Replaces the details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Status {
        self.details = Some(Box::new(details));
        self
    }

    /// Returns whether one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Adds the token that continues an expired list (CH5).
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Status {
        self.metadata.continue_token = token;
        self
    }

    /// Marks the failure of a request after `done` of its `all` parts were stored. The message
    /// contains the numbers, and clients are not requested to retry.
    pub fn partly_done(mut self, done: usize, all: usize, what: &str) -> Status {
        if done > 0 {
            self.message.push_str(&format!("; {done} of {all} were {what} before"));
            self.details = self.details.map(|details| Box::new(Details { retry_after_seconds: 0, ..*details }));
        }
        self
    }

    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|&seconds| seconds > 0)
    }
}

impl Details {
    /// Creates the details of a failure of this object.
    pub fn of(resource: GroupResource, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: resource.group().to_owned(),
            kind: resource.resource().to_owned(),
            ..Details::default()
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::FieldPath;
    use super::*;

    const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");

    #[test]
    fn a_request_that_is_partly_done_is_not_to_be_repeated_by_itself() {
        let refused = || Status::too_many_requests(1);
        assert_eq!(refused().partly_done(0, 9, "marked"), refused());
        let partly = refused().partly_done(4, 9, "marked");
        assert!(partly.message.ends_with("; 4 of 9 were marked before"), "{}", partly.message);
        assert_eq!((partly.code, partly.retry_after_seconds()), (429, None));
    }

    #[test]
    fn er1_not_found_reads_as_kubernetes_writes_it() {
        assert_eq!(
            serde_json::to_value(Status::not_found(BINDINGS, "web")).unwrap(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "resourcebindings.work.karmada.io \"web\" not found", "reason": "NotFound",
                "details": {"name": "web", "group": "work.karmada.io", "kind": "resourcebindings"}, "code": 404,
            })
        );
    }

    #[test]
    fn er6_several_faults_are_listed_in_brackets_with_a_cause_each() {
        let mut errors = FieldErrors::default();
        errors.required(&FieldPath::new("spec.a"), "");
        errors.required(&FieldPath::new("spec.b"), "why");
        let status = Status::invalid("work.karmada.io", "ResourceBinding", "web", &errors);
        assert_eq!(
            status.message,
            "ResourceBinding.work.karmada.io \"web\" is invalid: \
             [spec.a: Required value, spec.b: Required value: why]"
        );
        assert_eq!(status.details.unwrap().causes[1].field, "spec.b");
    }

    #[test]
    fn vb5_the_success_of_a_delete_has_neither_code_nor_message() {
        let value = serde_json::to_value(Status::deleted(BINDINGS, "web", "u-1")).unwrap();
        assert_eq!(value["status"], "Success");
        assert_eq!(value["details"]["uid"], "u-1");
        assert!(value.get("code").is_none() && value.get("message").is_none() && value.get("reason").is_none());
    }
}
