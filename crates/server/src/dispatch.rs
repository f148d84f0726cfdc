//! Selects the handler of a request: health, a document, or a verb of a kind.

use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::app::App;
use super::entrance::Entrance;
use super::request_info::{RequestInfo, ResourcePath, Route, Verb};
use super::respond::{self, Response};
use super::verbs::Call;
use super::{documents, health, measure, proxy};
use ballast_k8s::{Details, Status, User};
use ballast_registry::{self as registry, Warnings};
use ballast_resource::{Lifetime, ResourceKind};

/// Answers a request that is authorized.
pub async fn dispatch(
    app: &App,
    (user, warnings): (&User, &Warnings),
    parts: &Parts,
    info: &RequestInfo<'_>,
    entrance: &Entrance<'_>,
) -> Result<Response, Status> {
    match &info.target {
        Route::Path(_) => path(app, parts, info),
        Route::Resource(path) => {
            let Some(row) = app.registry.kinds().find(&path.group, &path.version, &path.resource) else {
                return Ok(respond::page_not_found());
            };
            resource(app, (user, warnings), parts, info, path, row, entrance).await
        }
    }
}

/// Returns whether the request is a POST that changes nothing, such as an access review.
pub fn only_asks(app: &App, info: &RequestInfo<'_>) -> bool {
    let Route::Resource(path) = &info.target else { return false };
    let row = app.registry.kinds().find(&path.group, &path.version, &path.resource);
    row.is_some_and(|row| row.only_asks)
}

/// Answers a path that is no resource: health, discovery, OpenAPI, version.
pub fn path(app: &App, parts: &Parts, info: &RequestInfo<'_>) -> Result<Response, Status> {
    let Route::Path(segments) = &info.target else { return Ok(respond::page_not_found()) };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let found = match *segments.as_slice() {
        [probe @ ("healthz" | "livez" | "readyz")] => health(app, probe, None, info),
        [probe @ ("healthz" | "livez" | "readyz"), check] => health(app, probe, Some(check), info),
        ["metrics"] if *info.method == Method::GET => Some(measure::answer(&app.registry)),
        ref other => app.documents.answer(&parts.headers, info, other, app.clock.now()).transpose()?,
    };
    Ok(found.unwrap_or_else(respond::page_not_found))
}

fn health(app: &App, probe: &str, check: Option<&str>, info: &RequestInfo<'_>) -> Option<Response> {
    health::answer(&app.checks, app.shutdown.has_begun(), probe, check, &info.query)
}

async fn resource(
    app: &App,
    (user, warnings): (&User, &Warnings),
    parts: &Parts,
    info: &RequestInfo<'_>,
    path: &ResourcePath,
    row: &Arc<ResourceKind>,
    entrance: &Entrance<'_>,
) -> Result<Response, Status> {
    let across_namespaces = matches!(path.verb, Verb::List | Verb::Watch);
    let is_misplaced = match row.is_namespaced() {
        true => path.namespace.is_empty() && !across_namespaces,
        false => !path.namespace.is_empty(),
    };
    if is_misplaced {
        return Ok(respond::page_not_found());
    }
    let status = match path.subresource.as_str() {
        "" => false,
        "status" if row.status_subresource => true,
        "proxy" if row.proxy.is_some() && info.is_proxied() => false,
        "scale" => return Err(no_scale(row)),
        _ => return Err(Status::not_found(row.resource, &path.name)),
    };
    if let Some(why) = unusable(&path.name) {
        return Err(Status::bad_request(format!("Name parameter invalid: {:?}: {why}", path.name)));
    }
    if row.lifetime == Lifetime::Action && (path.verb != Verb::Create || !path.name.is_empty()) {
        return Err(no_such_verb_of_an_action(path));
    }
    if path.name.is_empty() && matches!(path.verb, Verb::Update | Verb::Patch) {
        return Err(Status::bad_request("name must be provided"));
    }
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let target =
        registry::Locator { row: row.clone(), namespace: text(&path.namespace), name: text(&path.name), status };
    if info.is_proxied() {
        let Some(proxy) = &app.proxy else { return Err(Status::not_found(row.resource, &path.name)) };
        let (caller, body) = (registry::Caller { user, warnings }, entrance.take_body());
        return proxy::answer(proxy, (&app.registry, &app.shutdown), caller, parts, info, &target, body).await;
    }
    // A verb that the kind does not have has no handler, whatever its body is.
    target.allow(path.verb.as_str())?;
    let call = Call { app, user, warnings, parts, query: &info.query, target, entrance };
    match path.verb {
        Verb::Get => call.get().await,
        Verb::Update => call.update().await,
        Verb::Patch => call.patch().await,
        Verb::List => call.list().await,
        Verb::Watch => call.watch().await,
        Verb::Create => call.create().await,
        Verb::Delete => call.delete().await,
        Verb::DeleteCollection => call.delete_collection().await,
        Verb::Unknown => Err(Status::method_not_allowed(row.resource, "")),
    }
}

/// Why no object can have this name: a URL with it would be ambiguous (VB20).
fn unusable(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Returns kube-apiserver's error for a kind that only supports `create` (VB8). `kubectl scale`
/// requests it. Replicas follow the workload, so a binding has no scale.
fn no_scale(row: &ResourceKind) -> Status {
    let resource = row.resource;
    let instead = match row.kind.ends_with("Binding") {
        true => "; scale the workload that the binding is for, or patch spec.replicas of the binding",
        false => "",
    };
    let message = format!("{resource} cannot be scaled: it has no subresource scale{instead}");
    Status::failure(404, "NotFound", message).with(Details { group: row.group.to_owned(), ..Details::default() })
}

fn no_such_verb_of_an_action(path: &ResourcePath) -> Status {
    match path.name.is_empty() {
        true => documents::method_not_allowed(),
        false => Status::failure(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default()),
    }
}
