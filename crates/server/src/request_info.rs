//! Parses the method, path and query of a request into its verb, resource and options.
//!
//! Whether the group, version or kind exists is decided later: `dispatch` finds the row.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;

use ballast_auth::{Attributes, ResourceAttributes};
use ballast_k8s::{Query, Status};

/// The verb of a request for a resource, as in Kubernetes (AZ5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A method that no resource has.
    Unknown,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Unknown => "",
        }
    }

    pub fn is_read_only(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// A path below `/apis/{group}/{version}/`, or `/api/{version}/` for the core group. Absent parts
/// are empty strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    pub verb: Verb,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    /// The name in the path.
    pub name: String,
    pub subresource: String,
    /// The only name that the field selector of a collection allows. Authorization uses it (SE5).
    pub selected_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Resource(ResourcePath),
    /// Any other path, decoded segment by segment: health, discovery, OpenAPI, and unknown ones.
    Path(Vec<String>),
}

pub struct RequestInfo<'a> {
    pub method: &'a Method,
    /// The path as received, undecoded.
    pub path: &'a str,
    pub query: Query<'a>,
    pub target: Route,
}

impl<'a> RequestInfo<'a> {
    pub fn read(method: &'a Method, uri: &'a http::Uri) -> Result<RequestInfo<'a>, Status> {
        let path = uri.path();
        let query = Query::parse(uri.query().unwrap_or_default());
        // As upstream, a path that starts with two slashes is a different path, which no document
        // has.
        let segments = path
            .strip_prefix('/')
            .unwrap_or(path)
            .trim_end_matches('/')
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().map(Cow::into_owned))
            .collect::<Result<Vec<String>, _>>()
            .map_err(|_| Status::bad_request("the path is not valid UTF-8 once it is decoded"))?;
        let target = match resource_path(method, &segments, &query) {
            Some(resource) => Route::Resource(resource),
            None => Route::Path(segments),
        };
        Ok(RequestInfo { method, path, query, target })
    }

    pub fn is_watch(&self) -> bool {
        matches!(&self.target, Route::Resource(ResourcePath { verb: Verb::Watch, .. }))
    }

    /// Returns whether the request goes through the subresource `/proxy` of an object (CP1).
    pub fn is_proxied(&self) -> bool {
        matches!(&self.target, Route::Resource(path) if path.subresource == "proxy" && !path.name.is_empty())
    }

    /// Returns whether the request has no deadline (WA24, CP5).
    pub fn is_long_running(&self) -> bool {
        self.is_watch() || self.is_proxied()
    }

    /// Returns the undecoded path after a subresource: `/api/v1/pods`, or an empty text.
    pub fn beyond_subresource(&self) -> &'a str {
        let Route::Resource(path) = &self.target else { return "" };
        let root = if path.group.is_empty() { 2 } else { 3 };
        let namespace = if path.namespace.is_empty() { 0 } else { 2 };
        let resource_name_subresource = 3;
        let whole = self.path.strip_prefix('/').unwrap_or(self.path);
        let end = whole.match_indices('/').nth(root + namespace + resource_name_subresource - 1);
        end.map_or("", |(at, _)| &whole[at..])
    }

    pub fn is_read_only(&self) -> bool {
        match &self.target {
            Route::Resource(resource) => resource.verb.is_read_only(),
            Route::Path(_) => matches!(*self.method, Method::GET | Method::HEAD),
        }
    }

    /// Returns the attributes for authorization. `lower_method` is the method in lower case.
    pub fn attributes<'b>(&'b self, lower_method: &'b str) -> Attributes<'b> {
        let Route::Resource(path) = &self.target else {
            return Attributes::Path { verb: lower_method, path: self.path };
        };
        let selects = matches!(path.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let selector = |name| self.query.text(name).filter(|_| selects).unwrap_or_default();
        Attributes::Resource(ResourceAttributes {
            verb: path.verb.as_str(),
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: &path.namespace,
            name: if path.name.is_empty() { &path.selected_name } else { &path.name },
            field_selector: selector("fieldSelector"),
            label_selector: selector("labelSelector"),
        })
    }
}

fn resource_path(method: &Method, segments: &[String], query: &Query<'_>) -> Option<ResourcePath> {
    let (group, version, rest) = match segments {
        [apis, group, version, rest @ ..] if apis == "apis" => (group.as_str(), version, rest),
        [api, version, rest @ ..] if api == "api" => ("", version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        [namespaces, namespace, rest @ ..] if namespaces == "namespaces" && !rest.is_empty() => {
            (namespace.as_str(), rest)
        }
        rest => ("", rest),
    };
    let [resource, rest @ ..] = rest else { return None };
    if group.is_empty() && resource == "namespaces" {
        // This document exists for every name, and is not a kind.
        return None;
    }
    // As upstream, ignores segments after a subresource (VB9).
    let beyond = rest.len().saturating_sub(2);
    if segments[..segments.len() - beyond].iter().any(|segment| segment.contains('/')) {
        // Upstream splits the decoded path, so an encoded slash leads to another resource (VB20).
        return None;
    }
    let name = rest.first().cloned().unwrap_or_default();
    let subresource = rest.get(1).cloned().unwrap_or_default();
    let verb = verb_of(method, !name.is_empty(), query);
    let selected_name = match verb {
        Verb::List | Verb::Watch | Verb::DeleteCollection => selected_name(query),
        _ => None,
    };
    Some(ResourcePath {
        verb,
        group: group.to_owned(),
        version: version.clone(),
        namespace: namespace.to_owned(),
        resource: resource.clone(),
        name,
        subresource,
        selected_name: selected_name.unwrap_or_default(),
    })
}

fn verb_of(method: &Method, named: bool, query: &Query<'_>) -> Verb {
    match (method, named) {
        (&Method::GET | &Method::HEAD, true) => Verb::Get,
        (&Method::GET | &Method::HEAD, false) if query.boolean("watch") == Some(true) => Verb::Watch,
        (&Method::GET | &Method::HEAD, false) => Verb::List,
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        _ => Verb::Unknown,
    }
}

fn selected_name(query: &Query<'_>) -> Option<String> {
    let selector = query.first("fieldSelector")?;
    let name = selector.split(',').find_map(|part| part.strip_prefix("metadata.name="))?;
    Some(name.strip_prefix('=').unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(method: Method, uri: &str, look: impl FnOnce(&RequestInfo<'_>) -> T) -> T {
        look(&RequestInfo::read(&method, &uri.parse().unwrap()).unwrap())
    }

    fn resource(method: Method, uri: &str) -> (Verb, String) {
        with(method, uri, |info| match &info.target {
            Route::Resource(it) => {
                let parts = [&it.group, &it.version, &it.namespace, &it.resource, &it.name, &it.subresource];
                (it.verb, parts.map(String::as_str).join("|"))
            }
            Route::Path(path) => panic!("{path:?} is no resource"),
        })
    }

    #[test]
    fn resource_paths_name_group_version_namespace_resource_name_and_subresource() {
        for (method, uri, verb, expected) in [
            (Method::GET, "/apis/g/v1/things", Verb::List, "g|v1||things||"),
            (Method::GET, "/apis/g/v1/things/", Verb::List, "g|v1||things||"),
            (Method::HEAD, "/apis/g/v1/things/a", Verb::Get, "g|v1||things|a|"),
            (Method::PUT, "/apis/g/v1/namespaces/ns/things/a/status", Verb::Update, "g|v1|ns|things|a|status"),
            (Method::GET, "/apis/g/v1/namespaces/ns/things/a/status/x", Verb::Get, "g|v1|ns|things|a|status"),
            (Method::POST, "/apis/g/v1/namespaces/ns/things", Verb::Create, "g|v1|ns|things||"),
            (Method::DELETE, "/apis/g/v1/things", Verb::DeleteCollection, "g|v1||things||"),
            (Method::GET, "/apis/g/v1/things/a/proxy/b%2Fc", Verb::Get, "g|v1||things|a|proxy"),
            (Method::GET, "/apis/g/v1/namespaces", Verb::List, "g|v1||namespaces||"),
            (Method::GET, "/apis/g/v1/namespaces/ns", Verb::Get, "g|v1||namespaces|ns|"),
            (Method::OPTIONS, "/apis/g/v1/things", Verb::Unknown, "g|v1||things||"),
            (Method::GET, "/api/v1/events", Verb::List, "|v1||events||"),
            (Method::GET, "/api/v1/namespaces/ns/events/a", Verb::Get, "|v1|ns|events|a|"),
        ] {
            assert_eq!(resource(method, uri), (verb, expected.to_owned()), "{uri}");
        }
    }

    #[test]
    fn cp1_what_follows_a_proxy_is_kept_as_it_came() {
        for (uri, is_proxied, beyond) in [
            ("/apis/g/v1/things/a/proxy", true, ""),
            ("/apis/g/v1/things/a/proxy/", true, "/"),
            ("/apis/g/v1/things/a/proxy/api/v1/pods?watch=1", true, "/api/v1/pods"),
            ("//apis/g/v1/things/a/proxy/api/v1/pods?watch=1", false, ""),
            ("/apis/g/v1/things/a%2Fproxy/x", false, ""),
            ("/apis/g/v1/things/a/proxy%2Fx", false, ""),
            ("/apis/g/v1/things/a/proxy/x%2Fy//z/", true, "/x%2Fy//z/"),
            ("/apis/g/v1/namespaces/ns/things/a/proxy/x", true, "/x"),
            ("/api/v1/things/a/proxy/x", true, "/x"),
            ("/apis/g/v1/things/a/status/x", false, "/x"),
            ("/apis/g/v1/things/proxy", false, ""),
            ("/apis/g/v1", false, ""),
        ] {
            let found = with(Method::GET, uri, |info| (info.is_proxied(), info.beyond_subresource().to_owned()));
            assert_eq!(found, (is_proxied, beyond.to_owned()), "{uri}");
        }
        assert_eq!(resource(Method::GET, "/apis/g/v1/things/a/proxy/x?watch=1").0, Verb::Get);
        assert_eq!(resource(Method::OPTIONS, "/apis/g/v1/things/a/proxy").0, Verb::Unknown);
    }

    #[test]
    fn vb12_only_false_and_0_are_false() {
        for (uri, verb) in [
            ("/apis/g/v1/things?watch=", Verb::Watch),
            ("/apis/g/v1/things?watch", Verb::Watch),
            ("/apis/g/v1/things?watch=1&watch=0", Verb::Watch),
            ("/apis/g/v1/things?watch=yes", Verb::Watch),
            ("/apis/g/v1/things?watch=0", Verb::List),
            ("/apis/g/v1/things?watch=false", Verb::List),
            ("/apis/g/v1/things/a?watch=true", Verb::Get),
        ] {
            assert_eq!(resource(Method::GET, uri).0, verb, "{uri}");
        }
    }

    #[test]
    fn se5_a_field_selector_on_the_name_names_the_object_for_authorization() {
        let uri = "/apis/g/v1/things?fieldSelector=metadata.namespace%3Dx,metadata.name%3D%3Da";
        with(Method::GET, uri, |info| {
            let Attributes::Resource(attributes) = info.attributes("get") else { panic!("a resource is asked for") };
            assert_eq!((attributes.verb, attributes.name), ("list", "a"));
        });
    }

    #[test]
    fn other_paths_stay_paths() {
        for uri in [
            "/",
            "/apis",
            "/apis/g",
            "/apis/g/v1",
            "/healthz",
            "/openapi/v3/apis/g/v1",
            "/api/v1",
            "/api/v1/namespaces/a",
            "//apis/g/v1/things",
            "/apis/g/v1/things/a%2Fb",
            "/apis/g/v1/namespaces/a%2Fb/things",
            "/apis/g%2fv1/v1/things",
        ] {
            assert!(with(Method::GET, uri, |info| matches!(info.target, Route::Path(_))), "{uri}");
        }
        assert!(RequestInfo::read(&Method::GET, &"/apis/%ff".parse().unwrap()).is_err());
    }
}
