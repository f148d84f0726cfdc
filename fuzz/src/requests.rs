//! Fuzzes all of a request except its body: path, query, options of every verb, continue tokens,
//! and the headers that choose the form of the answer. Each is understood or refused with a 4xx
//! status.

use ballast::k8s::{ContinueToken, DeleteOptions, GetOptions, ListOptions, Query, Status, WriteOptions};
use ballast::server::codec::{self, Answer};
use ballast::server::content_type;
use ballast::server::request_info::RequestInfo;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Uri};

use super::tape::Tape;

const PATH: [&str; 16] = [
    "/",
    "apis",
    "api",
    "v1",
    "work.karmada.io",
    "namespaces",
    "shop",
    "resourcebindings",
    "status",
    "%2F",
    "%ff",
    "..",
    "watch",
    "openapi",
    "healthz",
    "a",
];
const QUERY: [&str; 30] = [
    "watch",
    "=",
    "&",
    "1",
    "0",
    "true",
    "x",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "Exact",
    "NotOlderThan",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "labelSelector",
    "fieldSelector",
    "metadata.name%3Da",
    "dryRun",
    "All",
    "fieldManager",
    "fieldValidation",
    "Strict",
    "propagationPolicy",
    "Orphan",
    "9223372036854775808",
    "-1",
    "%",
    "+",
];
const ACCEPTS: [&str; 22] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "application/*",
    ",",
    ";",
    "q=",
    "0.5",
    "1e9",
    "NaN",
    "as=Table",
    "as=PartialObjectMetadataList",
    "g=meta.k8s.io",
    "v=v1",
    "v=v1beta1",
    "stream=watch",
    "gzip",
    "q=0",
    " ",
    "\"",
    "profile=nopeer",
];

pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    headers(&mut tape);
    token(&mut tape);
    uri(&mut tape);
    as_it_came(input);
}

/// Takes the whole input as each of the texts that a client can choose freely.
fn as_it_came(input: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(input) {
        let names = [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE];
        negotiated(&names.map(|name| (name, value.clone())).into_iter().collect());
    }
    let text = String::from_utf8_lossy(input);
    options(&text);
    for namespaced in [true, false] {
        continued(&text, namespaced);
    }
    if let Ok(uri) = text.parse::<Uri>() {
        understood(&uri);
    }
}

fn headers(tape: &mut Tape<'_>) {
    let mut headers = HeaderMap::new();
    for name in [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE] {
        let text = tape.some(9, |tape| tape.pick(&ACCEPTS)).concat();
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.append(name, value);
        }
    }
    negotiated(&headers);
}

fn negotiated(headers: &HeaderMap) {
    for answer in [Answer::Object, Answer::List, Answer::Watch, Answer::Plain] {
        if let Err(status) = codec::negotiate(headers, answer) {
            assert_eq!(status.code, 406);
        }
    }
    let _ = (codec::negotiate_error(headers), codec::takes_gzip(headers));
    let _ = (content_type::object(headers), content_type::patch(headers));
    let _ = codec::takes(headers, "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList");
}

fn token(tape: &mut Tape<'_>) {
    let namespaced = tape.one_in(2);
    let text = String::from_utf8_lossy(tape.rest());
    for text in [&*text, &base64_of(&text)] {
        continued(text, namespaced);
    }
}

fn continued(text: &str, namespaced: bool) {
    match ContinueToken::decode(text, namespaced) {
        Ok(token) => {
            let again = ContinueToken::decode(&token.encode(), namespaced).expect("what was made can be read");
            assert_eq!((again.namespace, again.name), (token.namespace, token.name));
        }
        Err(status) => refused(&status),
    }
}

/// A continue token for this key, as a client could forge it.
fn base64_of(key: &str) -> String {
    use base64::Engine;
    let json = serde_json::json!({"v": "meta.k8s.io/v1", "rv": 7, "start": format!("/{key}\0")}).to_string();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json)
}

fn uri(tape: &mut Tape<'_>) {
    let path = tape.some(8, |tape| tape.pick(&PATH)).join("/");
    let query = match tape.one_in(4) {
        true => String::from_utf8_lossy(tape.rest()).into_owned(),
        false => tape.some(16, |tape| tape.pick(&QUERY)).concat(),
    };
    options(&query);
    if let Ok(uri) = format!("/{path}?{query}").parse::<Uri>() {
        understood(&uri);
    }
}

fn understood(uri: &Uri) {
    for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        match RequestInfo::read(&method, uri) {
            Ok(info) => {
                let _ = (info.is_watch(), info.is_read_only(), info.attributes("get"));
            }
            Err(status) => refused(&status),
        }
    }
}

fn options(query: &str) {
    let query = Query::parse(query);
    let outcomes = [
        GetOptions::from_query(&query).err(),
        ListOptions::from_query(&query).err(),
        WriteOptions::from_query("PatchOptions", &query).and_then(|options| options.require_manager()).err(),
        WriteOptions::refuse_force(&query).err(),
        DeleteOptions::from_query_and_body(&query, None).err(),
    ];
    outcomes.iter().flatten().for_each(refused);
}

fn refused(status: &Status) {
    assert!((400..500).contains(&status.code), "{status:?}");
}
