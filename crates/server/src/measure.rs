//! `/metrics`, and the labels under which a request is counted.
//!
//! *Invariant:* a client cannot create new series. A request for an unknown kind is counted without
//! its names (ME5).

use http::{HeaderMap, Method, StatusCode, header};

use super::request_info::{RequestInfo, Route, Verb};
use super::respond::{self, Response};
use ballast_base::metrics;
use ballast_registry::Registry;
use ballast_resource::{Kinds, Lifetime};

/// Returns the labels of a request.
pub fn request<'a>(kinds: &'a Kinds, info: &RequestInfo<'_>, headers: &HeaderMap) -> metrics::Request<'a> {
    let dry_run = info.query.first("dryRun").is_some_and(|value| value == "All");
    let Route::Resource(path) = &info.target else {
        return metrics::Request { verb: method(info.method), dry_run, ..metrics::Request::default() };
    };
    let verb = match path.verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch if is_apply(headers) => "APPLY",
        Verb::Patch => "PATCH",
        // As in kube-apiserver, there is no DELETECOLLECTION: the scope distinguishes them (ME4).
        Verb::Delete | Verb::DeleteCollection => "DELETE",
        Verb::Unknown => "OTHER",
    };
    let Some(row) = kinds.find(&path.group, &path.version, &path.resource) else {
        return metrics::Request { verb, dry_run, ..metrics::Request::default() };
    };
    let scope = match (path.name.is_empty(), path.namespace.is_empty()) {
        (false, _) => "resource",
        // An object that is created has a name, at least in the body.
        _ if path.verb == Verb::Create => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    let (verb, subresource) = match path.subresource.as_str() {
        "status" => (verb, "status"),
        // kube-apiserver counts all methods of a connection as one verb.
        "proxy" if row.proxy.is_some() => ("CONNECT", "proxy"),
        _ => (verb, ""),
    };
    let (group, resource) = (row.resource.group(), row.resource.resource());
    metrics::Request { verb, dry_run, group, version: row.version, resource, subresource, scope }
}

fn is_apply(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"application/apply-patch"))
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}

/// Returns all metrics, including gauges that are read from the state (ME1).
pub fn answer(registry: &Registry) -> Response {
    let view = registry.cache().view();
    let lag = registry.cache().lag();
    metrics::lag(lag.revisions, lag.time);
    metrics::namespace_bytes_max(view.namespace_bytes_max());
    for row in registry.kinds().rows().iter().filter(|row| row.lifetime == Lifetime::Stored) {
        metrics::objects(row.resource.group(), row.resource.resource(), view.count(row.resource, None));
    }
    respond::with_type(StatusCode::OK, metrics::CONTENT_TYPE, metrics::text())
}
