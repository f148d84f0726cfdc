//! The documents that describe what is served: discovery and OpenAPI. They are made at the start
//! and need no store.

use axum::body::Body;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::codec::{self, Accepted, Answer, Representation};
use super::request_info::RequestInfo;
use super::respond::{self, Response};
use super::zpages::ZPages;
use ballast_k8s::{Details, Status, Time};
use ballast_registry::{Discovery, OpenApi, Published};
use ballast_resource::Kinds;

const JSON: &str = "application/json";
const SWAGGER_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const SWAGGER_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// All documents, ready to be sent.
pub struct Documents {
    discovery: Discovery,
    openapi: OpenApi,
    zpages: Option<ZPages>,
}

impl Documents {
    pub fn of(kinds: &Kinds) -> Documents {
        Documents { discovery: Discovery::new(kinds), openapi: OpenApi::new(kinds), zpages: None }
    }

    /// Adds the pages about this process.
    #[must_use]
    pub fn with_zpages(self, zpages: ZPages) -> Documents {
        Documents { zpages: Some(zpages), ..self }
    }

    fn status(&self, zpages: &ZPages, headers: &HeaderMap, now: Time) -> Result<Response, Status> {
        let read = |document: &Published| serde_json::from_slice::<Value>(&document.body).unwrap_or_default();
        let paths: Vec<String> =
            serde_json::from_value(read(self.discovery.paths())["paths"].take()).unwrap_or_default();
        zpages.status(headers, now, &paths, &read(self.discovery.version()))
    }

    /// Serves a path that is neither a resource nor a probe; `None` if there is no such document.
    pub(super) fn answer(
        &self,
        headers: &HeaderMap,
        info: &RequestInfo<'_>,
        segments: &[&str],
        now: Time,
    ) -> Option<Result<Response, Status>> {
        let Documents { discovery, openapi, zpages } = self;
        let takes_aggregated = || codec::takes(headers, "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList");
        let response = match *segments {
            [""] => legacy(discovery.paths(), headers),
            ["api"] if takes_aggregated() => Ok(aggregated(discovery.core_aggregated(), headers)),
            ["apis"] if takes_aggregated() => Ok(aggregated(discovery.aggregated(), headers)),
            ["api"] => legacy(discovery.core(), headers),
            ["apis"] => legacy(discovery.groups(), headers),
            ["apis", group] => legacy(discovery.group(group)?, headers),
            ["apis", group, version] => legacy(discovery.resources(group, version)?, headers),
            ["api", version] => legacy(discovery.resources("", version)?, headers),
            ["version"] => {
                let user_agent = headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
                legacy(discovery.version_for(user_agent.unwrap_or_default()), headers)
            }
            ["statusz"] => self.status(zpages.as_ref()?, headers, now),
            ["flagz"] => zpages.as_ref()?.flags(headers),
            ["openapi", "v2"] => swagger(openapi, headers),
            ["api", "v1", "namespaces", name] => namespace(name, headers),
            // The aggregator requests it without `Accept`, so the header is ignored (AG13).
            ["openapi", "v3"] => Ok(revalidated(openapi.index(), headers, JSON)),
            ["openapi", "v3", ref path @ ..] => {
                let path = path.join("/");
                let document = openapi.document(&path)?;
                match info.query.text("hash") {
                    Some(hash) if hash != document.hash => Ok(redirect(&path, document)),
                    Some(_) => openapi_document(document, headers).map(|response| immutable_for_a_year(response, now)),
                    None => openapi_document(document, headers),
                }
            }
            _ => return None,
        };
        Some(match matches!(*info.method, Method::GET | Method::HEAD) {
            true => response,
            false => Err(method_not_allowed()),
        })
    }
}

/// Namespaces are not stored here, so every name exists. If an object is not found, kubectl reads
/// its namespace, and without this document it would report that the namespace is missing.
fn namespace(name: &str, headers: &HeaderMap) -> Result<Response, Status> {
    let accepted = codec::negotiate(headers, Answer::Object)
        .map(|accepted| Accepted { representation: Representation::Object, ..accepted })?;
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name},
        "status": {"phase": "Active"}});
    Ok(respond::value(StatusCode::OK, accepted, &namespace))
}

pub fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    Status::failure(405, "MethodNotAllowed", message).with(Details::default())
}

fn legacy(document: &Published, headers: &HeaderMap) -> Result<Response, Status> {
    let accepted = codec::negotiate(headers, Answer::Plain)?;
    respond::stored(StatusCode::OK, accepted, &document.body)
}

/// Clients recognize aggregated discovery by the three parameters of the media type (DI7).
fn aggregated(document: &Published, headers: &HeaderMap) -> Response {
    revalidated(document, headers, AGGREGATED)
}

/// Clients request the binary form by its old name, and expect the new one in the response (OA5).
fn swagger(openapi: &OpenApi, headers: &HeaderMap) -> Result<Response, Status> {
    match codec::preferred(headers, &[JSON, SWAGGER_PROTOBUF, SWAGGER_PROTOBUF_OLD]) {
        Some(JSON) => Ok(revalidated(openapi.swagger(), headers, JSON)),
        Some(_) => Ok(revalidated(openapi.swagger_protobuf(), headers, SWAGGER_PROTOBUF)),
        None => Err(Status::not_acceptable(&[JSON, SWAGGER_PROTOBUF])),
    }
}

fn openapi_document(document: &Published, headers: &HeaderMap) -> Result<Response, Status> {
    match codec::preferred(headers, &[JSON]) {
        Some(_) => Ok(revalidated(document, headers, JSON)),
        None => Err(Status::not_acceptable(&[JSON])),
    }
}

/// Redirects a client with an old index. This is the only redirect of an API path (AG7, OA3).
fn redirect(path: &str, document: &Published) -> Response {
    let mut response = http::Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    set(&mut response, header::LOCATION, &format!("/openapi/v3/{path}?hash={}", document.hash));
    response
}

/// Marks the response as immutable: the hash in the URL identifies the content, so clients may
/// cache it without revalidation (OA3).
fn immutable_for_a_year(mut response: Response, now: Time) -> Response {
    const YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;
    response.headers_mut().remove(header::CACHE_CONTROL);
    set(&mut response, header::CACHE_CONTROL, "public, immutable");
    if let Ok(moment) = jiff::Timestamp::from_second(now.plus_seconds(YEAR_SECONDS).seconds()) {
        set(&mut response, header::EXPIRES, &moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    }
    response
}

/// Returns a document that clients cache and revalidate (DI9).
fn revalidated(document: &Published, headers: &HeaderMap, content_type: &'static str) -> Response {
    let etag = document.etag();
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = match known.is_some_and(|known| known.split(',').any(|tag| tag.trim() == etag)) {
        true => {
            let mut response = http::Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => {
            let accepted = Accepted { gzip: codec::takes_gzip(headers), ..Accepted::default() };
            let mut response = respond::document(StatusCode::OK, accepted, document.body.clone());
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            response
        }
    };
    set(&mut response, header::ETAG, &etag);
    set(&mut response, header::VARY, "Accept");
    set(&mut response, header::CACHE_CONTROL, "public");
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).expect("names of groups, hexadecimal digits and fixed words");
    response.headers_mut().append(name, value);
}
