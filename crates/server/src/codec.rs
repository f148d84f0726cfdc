//! Content negotiation: chooses the representation of a response by `Accept` (CT1-CT4, PM4, WA22).
//! `content_type` reads the media type of a body.
//!
//! `Accept` is interpreted as in kube-apiserver: of the items, ordered by q, the first served one
//! wins. A client that lists protobuf or CBOR first and JSON second gets JSON.

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderMap, HeaderName};

use ballast_k8s::Status;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Json,
    Yaml,
}

impl Encoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => JSON,
            Encoding::Yaml => YAML,
        }
    }
}

/// The representation of an object or a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Representation {
    #[default]
    Object,
    /// A `Table` of this version of `meta.k8s.io`.
    Table(MetaVersion),
    /// `PartialObjectMetadata`, or its list for a list.
    Metadata(MetaVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The content of a response, which determines its possible representations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Object,
    List,
    Watch,
    /// An object that has no table or metadata, such as the result of an action.
    Plain,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    pub encoding: Encoding,
    pub representation: Representation,
    /// Whether large responses may be compressed.
    pub gzip: bool,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const TEXT: &str = "text/plain";

/// Returns the representation that the client prefers, or a 406 if none is served.
pub fn negotiate(headers: &HeaderMap, answer: Answer) -> Result<Accepted, Status> {
    let served: &[(Encoding, &str)] = match answer {
        Answer::Watch => &[(Encoding::Json, JSON)],
        _ => &[(Encoding::Json, JSON), (Encoding::Yaml, YAML)],
    };
    let gzip = answer != Answer::Watch && takes_gzip(headers);
    if asks_for_nothing(headers) {
        return Ok(Accepted { gzip, ..Accepted::default() });
    }
    let items = items(headers);
    for item in &items {
        for (encoding, name) in served {
            if item.names(name)
                && let Some(representation) = item.representation(answer)
            {
                return Ok(Accepted { encoding: *encoding, representation, gzip });
            }
        }
    }
    if answer == Answer::List
        && items.iter().any(|item| matches!(item.representation(Answer::Object), Some(Representation::Metadata(_))))
    {
        let message = "you requested PartialObjectMetadata, but the requested object is a list \
                       (*unstructured.UnstructuredList)";
        return Err(Status::failure(406, "NotAcceptable", message));
    }
    // For YAML, upstream reports that it cannot be streamed. Otherwise it lists the served types.
    if answer == Answer::Watch && items.iter().any(|item| item.names(YAML)) {
        return Err(Status::not_acceptable(&["application/json;stream=watch"]));
    }
    Err(Status::not_acceptable(&[JSON, YAML]))
}

/// Returns the encoding of an error: YAML if it was requested, else JSON (ER24).
pub fn negotiate_error(headers: &HeaderMap) -> Encoding {
    let items = items(headers);
    let named = items.iter().find_map(|item| {
        [(Encoding::Json, JSON), (Encoding::Yaml, YAML)].into_iter().find(|(_, name)| item.names(name))
    });
    named.map_or(Encoding::Json, |(encoding, _)| encoding)
}

/// Returns whether any item names documents of this group, version and kind (`g`, `v`, `as`),
/// regardless of its rank. Aggregated discovery is chosen this way (DI12).
pub fn takes(headers: &HeaderMap, group: &str, version: &str, kind: &str) -> bool {
    items(headers).iter().any(|item| {
        let wanted = [("g", group), ("v", version), ("as", kind)];
        item.names(JSON) && wanted.iter().all(|(name, value)| item.param(name) == Some(*value))
    })
}

/// The form of a z-page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageForm {
    Text,
    /// As an object of `config.k8s.io`.
    Object(Encoding, PageVersion),
}

/// A version of `config.k8s.io`. The versions differ only in their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageVersion {
    V1beta1,
    /// Deprecated.
    V1alpha1,
}

/// Returns the form of a z-page. It is an object only for clients that name its kind with group and
/// version; a 406 if no form fits (CU2).
pub fn negotiate_page(headers: &HeaderMap, kind: &str) -> Result<PageForm, Status> {
    if asks_for_nothing(headers) {
        return Ok(PageForm::Text);
    }
    let is_given = |item: &AcceptItem<'_>, name: &str| item.param(name).is_some_and(|value| !value.is_empty());
    for item in items(headers).iter().filter(|item| !is_given(item, "stream") && !is_given(item, "sv")) {
        let object = match (item.param("g"), item.param("v"), item.param("as")) {
            (None, None, None) if item.names(TEXT) => return Ok(PageForm::Text),
            (Some("config.k8s.io"), Some("v1beta1"), Some(name)) if name == kind => PageVersion::V1beta1,
            (Some("config.k8s.io"), Some("v1alpha1"), Some(name)) if name == kind => PageVersion::V1alpha1,
            _ => continue,
        };
        for (encoding, name) in [(Encoding::Json, JSON), (Encoding::Yaml, YAML)] {
            if item.names(name) {
                return Ok(PageForm::Object(encoding, object));
            }
        }
    }
    Err(Status::not_acceptable(&[JSON, YAML, TEXT]))
}

/// Returns the served media type that the client prefers, for documents that are not objects.
pub fn preferred<'a>(headers: &HeaderMap, served: &[&'a str]) -> Option<&'a str> {
    if asks_for_nothing(headers) {
        return served.first().copied();
    }
    items(headers).iter().find_map(|item| served.iter().copied().find(|name| item.names(name)))
}

/// Returns whether an item of `Accept` requests indented text.
pub fn wants_pretty(headers: &HeaderMap) -> bool {
    unranked_items(headers, &ACCEPT).any(|item| item.names(JSON) && matches!(item.param("pretty"), Some("1" | "true")))
}

/// Returns whether the client accepts gzip, and does not exclude it with `q=0` (CT7).
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    unranked_items(headers, &ACCEPT_ENCODING).any(|item| item.kind.eq_ignore_ascii_case("gzip") && item.q > 0.0)
}

/// Returns whether `Accept` is missing or empty. A header without a single valid media type
/// requests a type that is not served.
fn asks_for_nothing(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().all(|value| value.as_bytes().trim_ascii().is_empty())
}

/// One item of an `Accept` header or a similar one.
#[derive(Debug)]
struct AcceptItem<'a> {
    /// A media type such as `application/json` or `*/*`; in other headers a bare token.
    kind: &'a str,
    params: Vec<(&'a str, &'a str)>,
    q: f32,
}

impl<'a> AcceptItem<'a> {
    fn read(text: &'a str) -> AcceptItem<'a> {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let mut item = AcceptItem { kind, params: vec![], q: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match key.trim() {
                "q" => item.q = value.parse().unwrap_or(1.0),
                key => item.params.push((key, value)),
            }
        }
        item
    }

    /// Returns whether the item matches the media type. As upstream, the comparison is
    /// case-sensitive.
    fn names(&self, media_type: &str) -> bool {
        match self.kind.split_once('/') {
            Some(("*", "*")) => true,
            Some((kind, "*")) => media_type.split('/').next() == Some(kind),
            None => self.kind == "*",
            _ => self.kind == media_type,
        }
    }

    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Returns the representation that this item requests, if the response can have it.
    fn representation(&self, answer: Answer) -> Option<Representation> {
        if self.param("stream").is_some_and(|stream| stream != "watch") {
            return None;
        }
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        if (kind, group, version) == (None, None, None) {
            return Some(Representation::Object);
        }
        let version = match (group, version) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1beta1,
            _ => return None,
        };
        match (kind?, answer) {
            ("Table", Answer::Object | Answer::List | Answer::Watch) => Some(Representation::Table(version)),
            ("PartialObjectMetadata", Answer::Object | Answer::Watch) => Some(Representation::Metadata(version)),
            ("PartialObjectMetadataList", Answer::List) => Some(Representation::Metadata(version)),
            _ => None,
        }
    }
}

/// Returns the items of `Accept`, best first. Items with the same q keep their order, wildcards
/// last.
fn items(headers: &HeaderMap) -> Vec<AcceptItem<'_>> {
    let mut items: Vec<AcceptItem<'_>> = unranked_items(headers, &ACCEPT).collect();
    let wildness = |item: &AcceptItem<'_>| match item.kind {
        "*" => 2,
        kind => kind.matches('*').count(),
    };
    items.sort_by(|a, b| b.q.total_cmp(&a.q).then(wildness(a).cmp(&wildness(b))));
    items
}

fn unranked_items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = AcceptItem<'a>> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|part| !part.is_empty()).map(AcceptItem::read)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        }
        headers
    }

    fn chosen(accept: &str, answer: Answer) -> Option<(Encoding, Representation)> {
        negotiate(&headers(accept), answer).ok().map(|accepted| (accepted.encoding, accepted.representation))
    }

    #[test]
    fn ct1_ct2_ct3_json_is_the_default_and_what_is_not_served_is_passed_over() {
        use Encoding::{Json, Yaml};
        for (accept, expected) in [
            ("", Some(Json)),
            ("*/*", Some(Json)),
            ("application/*", Some(Json)),
            ("application/json;charset=utf-8", Some(Json)),
            ("application/yaml", Some(Yaml)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Json)),
            ("application/cbor, */*", Some(Json)),
            ("application/json;q=0.1, application/yaml", Some(Yaml)),
            ("*/*, application/yaml", Some(Yaml)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/cbor", None),
            ("text/html", None),
            ("application/json;stream=watch", Some(Json)),
            ("application/json;stream=other", None),
            ("*", Some(Json)),
            ("text/html, *", Some(Json)),
            ("APPLICATION/JSON", None),
            ("application/json;AS=Table;v=v1;g=meta.k8s.io", None),
            ("application/json;v=v1", None),
            ("application/json;as=Table", None),
            (",", None),
            (" ", Some(Json)),
        ] {
            assert_eq!(chosen(accept, Answer::Object).map(|it| it.0), expected, "{accept}");
        }
        assert_eq!(chosen("application/yaml", Answer::Watch), None);
        assert_eq!(chosen("application/json;stream=watch", Answer::Watch), Some((Json, Representation::Object)));
    }

    #[test]
    fn ta1_pm4_tables_and_metadata_are_chosen_where_they_fit() {
        use MetaVersion::{V1, V1beta1};
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;\
                       g=meta.k8s.io,application/json";
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1";
        for (accept, answer, expected) in [
            (kubectl, Answer::List, Some(Representation::Table(V1))),
            (kubectl, Answer::Watch, Some(Representation::Table(V1))),
            (kubectl, Answer::Plain, Some(Representation::Object)),
            (metadata, Answer::List, Some(Representation::Metadata(V1))),
            (single, Answer::Object, Some(Representation::Metadata(V1beta1))),
            (single, Answer::List, None),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", Answer::Plain, None),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", Answer::List, None),
        ] {
            assert_eq!(chosen(accept, answer).map(|it| it.1), expected, "{accept} {answer:?}");
        }
    }

    #[test]
    fn pm2_wa22_er13_a_refusal_says_what_could_be_had() {
        let refusal = |accept: &str, answer| negotiate(&headers(accept), answer).unwrap_err().message;
        let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert!(refusal(single, Answer::List).starts_with("you requested PartialObjectMetadata, but the requested"));
        assert!(refusal("application/yaml", Answer::Watch).ends_with("are accepted: application/json;stream=watch"));
        assert!(refusal("text/html", Answer::Watch).ends_with("are accepted: application/json, application/yaml"));
    }

    #[test]
    fn er24_errors_are_json_unless_yaml_comes_first() {
        assert_eq!(negotiate_error(&headers("application/json;as=Table;v=v1;g=meta.k8s.io")), Encoding::Json);
        assert_eq!(negotiate_error(&headers("text/html")), Encoding::Json);
        assert_eq!(negotiate_error(&headers("application/yaml")), Encoding::Yaml);
    }

    #[test]
    fn ct7_gzip_must_be_offered() {
        for (value, expected) in [("gzip, deflate, br", true), ("gzip;q=0", false), ("identity", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(takes_gzip(&headers), expected, "{value}");
        }
    }
}
