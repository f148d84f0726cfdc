//! One audit event. The task of the request collects it, and the thread of the log formats it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde_json::{Map, Value, json};

use super::policy::{Scope, Stage};
use crate::request_info::RequestInfo;
use ballast_auth::{Attributes, Permission, ResourceAttributes};
use ballast_k8s::User;
use ballast_registry::Warnings;

/// The parts of a request that an event is made of.
pub struct Request<'a> {
    pub id: &'a HeaderValue,
    /// In lower case.
    pub method: &'a str,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub info: &'a RequestInfo<'a>,
    pub peer: Option<IpAddr>,
    pub user: Option<&'a Arc<User>>,
    /// The user that is impersonated, if any.
    pub acting_as: Option<&'a Arc<User>>,
    pub permission: Option<&'a Permission>,
    pub warnings: &'a Warnings,
    pub body: Option<&'a Bytes>,
    pub received_ms: i64,
    pub now_ms: i64,
    pub stage: Stage,
}

/// An event before it is formatted.
pub struct Entry {
    pub stage: Stage,
    pub now_ms: i64,
    pub code: Option<u16>,
    pub answer: Option<Bytes>,
    id: String,
    uri: String,
    verb: String,
    object: Option<Value>,
    user: Option<Arc<User>>,
    acting_as: Option<Arc<User>>,
    permission: Option<Permission>,
    admission_annotations: BTreeMap<String, String>,
    body: Option<Bytes>,
    source_ips: Vec<String>,
    user_agent: String,
    received_ms: i64,
}

impl Entry {
    pub fn new(request: Request<'_>) -> Entry {
        let Request { id, method, uri, headers, info, peer, received_ms, now_ms, stage, .. } = request;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let (verb, object) = match info.attributes(method) {
            Attributes::Path { verb, .. } => (verb.to_owned(), None),
            Attributes::Resource(asked) => (asked.verb.to_owned(), Some(reference(&asked))),
        };
        Entry {
            stage,
            now_ms,
            code: None,
            answer: None,
            id: text(id),
            uri: uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string),
            verb,
            object,
            user: request.user.cloned(),
            acting_as: request.acting_as.cloned(),
            permission: request.permission.cloned(),
            admission_annotations: request.warnings.annotations(),
            body: request.body.cloned(),
            source_ips: source_ips(headers, peer),
            user_agent: headers.get(header::USER_AGENT).map(text).unwrap_or_default(),
            received_ms,
        }
    }

    /// Returns the event as `audit.k8s.io/v1` JSON, without line breaks.
    pub(super) fn line(&self, scope: Scope) -> String {
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": scope.level.as_str(),
            "auditID": self.id,
            "stage": self.stage.as_str(),
            "requestURI": self.uri,
            "verb": self.verb,
            "user": self.user.as_deref().map_or_else(|| json!({}), User::info),
            "sourceIPs": self.source_ips,
            "requestReceivedTimestamp": micro_time(self.received_ms),
            "stageTimestamp": micro_time(self.now_ms),
        });
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                event[name] = value;
            }
        };
        put("impersonatedUser", self.acting_as.as_deref().map(User::info));
        put("userAgent", (!self.user_agent.is_empty()).then(|| Value::from(self.user_agent.as_str())));
        put("objectRef", self.object.clone());
        let answer = self.answer.as_ref().and_then(|answer| read(answer, scope));
        put("responseStatus", self.code.map(|code| response_status(code, answer.as_ref())));
        if scope.wants_question() {
            put("requestObject", self.body.as_ref().and_then(|body| read(body, scope)));
        }
        if scope.wants_answer() {
            put("responseObject", answer);
        }
        put(
            "annotations",
            self.permission.as_ref().map(|permission| annotations(permission, &self.admission_annotations)),
        );
        event.to_string()
    }
}

fn reference(asked: &ResourceAttributes<'_>) -> Value {
    let ResourceAttributes { group, version, resource, subresource, namespace, name, .. } = *asked;
    let named = [
        ("resource", resource),
        ("namespace", namespace),
        ("name", name),
        ("apiGroup", group),
        ("apiVersion", version),
        ("subresource", subresource),
    ];
    let present = named.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(present.map(|(name, value)| (name.to_owned(), Value::from(value))).collect())
}

/// Returns the addresses of a request, the client first. As upstream, it includes the addresses
/// that proxies claim: no decision depends on them.
fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let claimed = forwarded.flat_map(|list| list.split(',')).map(str::trim);
    let real = headers.get("x-real-ip").and_then(|value| value.to_str().ok()).map(str::trim);
    let mut ips: Vec<String> = Vec::new();
    for ip in claimed.chain(real).filter_map(|text| text.parse::<IpAddr>().ok()).chain(peer) {
        let ip = ip.to_string();
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    ips
}

fn response_status(code: u16, answer: Option<&Value>) -> Value {
    let mut status = json!({"metadata": {}, "code": code});
    if let Some(answer) = answer.filter(|answer| answer["kind"] == "Status") {
        for name in ["status", "message", "reason", "details"] {
            if let Some(value) = answer.get(name) {
                status[name] = value.clone();
            }
        }
    }
    status
}

fn annotations(permission: &Permission, of_admission: &BTreeMap<String, String>) -> Value {
    let mut annotations = json!(of_admission);
    let (decision, reason) = match permission {
        Permission::Allow(reason) => ("allow", reason),
        Permission::Deny(reason) => ("forbid", reason),
        Permission::Failed(_) => return annotations,
    };
    annotations["authorization.k8s.io/decision"] = Value::from(decision);
    annotations["authorization.k8s.io/reason"] = Value::from(reason.as_str());
    annotations
}

/// Returns a body as JSON; `None` if it is neither JSON nor YAML.
fn read(body: &Bytes, scope: Scope) -> Option<Value> {
    let mut value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_str(std::str::from_utf8(body).ok()?).ok()?,
    };
    if scope.omit_managed_fields {
        without_managed_fields(&mut value);
    }
    (!value.is_null()).then_some(value)
}

fn without_managed_fields(value: &mut Value) {
    fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
        object.get_mut("metadata")?.as_object_mut()
    }
    if let Some(metadata) = metadata(value) {
        metadata.remove("managedFields");
    }
    for item in value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(metadata) = metadata(item) {
            metadata.remove("managedFields");
        }
    }
}

fn micro_time(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
