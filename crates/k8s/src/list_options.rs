//! The options of a LIST or WATCH (`metav1.ListOptions`), parsed from a query string and validated
//! (RV10-RV15, CH4, CH8, WA13), and the continue token of a list.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use serde::{Deserialize, Serialize};

use super::json_fault::json_fault;
use super::query::Query;
use super::{FieldErrors, FieldPath, FieldQuery, Revision, Selector, Status, label_query};

/// The options of a LIST or WATCH. The default selects all objects in the newest state.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub labels: Selector,
    pub fields: FieldQuery,
    /// `None` requests the newest state, zero any state.
    pub revision: Option<Revision>,
    pub revision_match: Option<RevisionMatch>,
    /// `None` means no limit.
    pub limit: Option<usize>,
    pub continue_token: Option<String>,
    pub watch: bool,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    /// Duration of a watch.
    pub timeout_seconds: Option<u64>,
}

/// `resourceVersionMatch`: the state that a list with a `resourceVersion` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionMatch {
    Exact,
    NotOlderThan,
}

/// The options of a GET: the state must not be older than this revision (RV1-RV3).
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions {
    pub revision: Option<Revision>,
}

impl GetOptions {
    /// Parses the options. The error is a 400.
    pub fn from_query(query: &Query<'_>) -> Result<GetOptions, Status> {
        Ok(GetOptions { revision: query.text("resourceVersion").map(parse_revision).transpose()? })
    }
}

impl ListOptions {
    /// Parses and validates the options. The error is a 400, or a 422 if they contradict each
    /// other.
    pub fn from_query(query: &Query<'_>) -> Result<ListOptions, Status> {
        let labels = query.text("labelSelector").map(label_query::parse).transpose().map_err(Status::bad_request)?;
        let fields = query.text("fieldSelector").map(FieldQuery::parse).transpose().map_err(Status::bad_request)?;
        let limit = query.integer("limit")?.filter(|&limit| limit > 0);
        let timeout = query.integer("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        let revision_match = checked_match(query)?;
        let options = ListOptions {
            labels: labels.unwrap_or_default(),
            fields: fields.unwrap_or_default(),
            revision: query.text("resourceVersion").map(parse_revision).transpose()?,
            revision_match,
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            continue_token: query.text("continue").map(str::to_owned),
            watch: query.boolean("watch").unwrap_or(false),
            allow_bookmarks: query.boolean("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.boolean("sendInitialEvents"),
            timeout_seconds: timeout.filter(|&seconds| seconds > 0),
        };
        if !options.watch && options.continue_token.is_some() && options.revision.is_some_and(|r| r != Revision::ZERO) {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        Ok(options)
    }
}

/// Parses a `resourceVersion`. The error is that of RV15.
pub fn parse_revision(text: &str) -> Result<Revision, Status> {
    Revision::parse(text).ok_or_else(|| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let fault = if is_number { "value out of range" } else { "invalid syntax" };
        let why = format!("strconv.ParseUint: parsing {text:?}: {fault}");
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {}: {why}",
            serde_json::Value::from(text)
        ))
    })
}

fn checked_match(query: &Query<'_>) -> Result<Option<RevisionMatch>, Status> {
    let watch = query.boolean("watch").unwrap_or(false);
    let initial = query.first("sendInitialEvents").is_some();
    let text = query.text("resourceVersionMatch");
    let path = FieldPath::new("resourceVersionMatch");
    let mut errors = FieldErrors::default();
    let found = match text {
        Some("Exact") => Some(RevisionMatch::Exact),
        Some("NotOlderThan") => Some(RevisionMatch::NotOlderThan),
        _ => None,
    };
    if watch {
        if initial && found != Some(RevisionMatch::NotOlderThan) {
            errors.forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if query.text("continue").is_some() && matches!(query.text("resourceVersion"), None | Some("0")) {
            // Upstream treats a watch without a revision as one that begins with the initial
            // events.
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if let Some(text) = text {
            if !initial {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.forbidden(&path, why);
            }
            if found != Some(RevisionMatch::NotOlderThan) {
                errors.not_supported(&path, text, &["NotOlderThan"]);
            }
        }
    } else {
        if let Some(text) = text {
            let revision = query.text("resourceVersion");
            if revision.is_none() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if query.text("continue").is_some() {
                errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
            }
            if found.is_none() {
                errors.not_supported(&path, text, &["Exact", "NotOlderThan", ""]);
            }
            if found == Some(RevisionMatch::Exact) && revision == Some("0") {
                errors.forbidden(&path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
        }
        if initial {
            errors.forbidden(&FieldPath::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
    }
    match errors.is_empty() {
        true => Ok(found),
        false => Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors)),
    }
}

/// The position at which a list continues: the last object, and the revision of the state (CH3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// `None` means the newest state at the time of the request (CH5, CH6).
    pub revision: Option<Revision>,
    pub namespace: String,
    pub name: String,
    /// Number of objects that follow, if the previous page computed it. They are then not counted
    /// again.
    pub remaining: Option<Remaining>,
}

/// The number of objects of a collection that follow a token, in the state of its revision.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Remaining {
    /// The counted collection. A request for another one must not use the count.
    pub of: String,
    pub count: usize,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<Remaining>,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
const INCONSISTENT: i64 = -1;

impl ContinueToken {
    /// Serializes the token. The text is opaque to clients.
    pub fn encode(&self) -> String {
        let start = match self.namespace.as_str() {
            "" => format!("/{}\0", self.name),
            namespace => format!("/{namespace}/{}\0", self.name),
        };
        let rv = self.revision.map_or(INCONSISTENT, |revision| revision.0);
        let wire = Wire { v: TOKEN_VERSION.to_owned(), rv, start, remaining: self.remaining.clone() };
        let json = serde_json::to_vec(&wire);
        URL_SAFE_NO_PAD.encode(json.expect("strings and numbers always serialize"))
    }

    /// Parses a token. `namespaced` is the scope of the kind, which determines the format of the
    /// key in the token.
    pub fn decode(text: &str, namespaced: bool) -> Result<ContinueToken, Status> {
        let invalid =
            |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let json = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
            };
            invalid(&format!("illegal base64 data at input byte {at}"))
        })?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|error| invalid(&json_fault(&error)))?;
        if wire.v != TOKEN_VERSION {
            return Err(invalid(&format!("server does not recognize this encoded version {}", wire.v)));
        }
        let revision = match wire.rv {
            INCONSISTENT => None,
            rv if rv > 0 => Some(Revision(rv)),
            _ => return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
        };
        let start = wire.start.strip_prefix('/').and_then(|start| start.strip_suffix('\0'));
        let start = start.ok_or_else(|| invalid("incorrect encoded start key"))?;
        let (namespace, name) = match namespaced {
            true => start.split_once('/').ok_or_else(|| invalid("incorrect encoded start key"))?,
            false => ("", start),
        };
        let suspicious = |part: &str| matches!(part, "." | "..") || part.contains('/');
        if suspicious(namespace) || suspicious(name) || name.is_empty() || (namespaced && namespace.is_empty()) {
            return Err(invalid(&wire.start));
        }
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(ContinueToken { revision, namespace, name, remaining: wire.remaining })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Result<ListOptions, Status> {
        ListOptions::from_query(&Query::parse(query))
    }

    #[test]
    fn rv10_to_rv14_and_wa13_what_does_not_go_together_is_422() {
        let cases = [
            ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
            ("resourceVersionMatch=foo&resourceVersion=1", "supported values: \"Exact\", \"NotOlderThan\", \"\""),
            ("resourceVersionMatch=Exact&resourceVersion=0", "\"exact\" is forbidden for resourceVersion \"0\""),
            (
                "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
                "resourceVersionMatch is forbidden when continue is provided",
            ),
            ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
            (
                "watch=1&sendInitialEvents=false",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            ("watch=1&continue=x", "resourceVersionMatch is forbidden when continue is provided"),
            (
                "watch=1&resourceVersionMatch=NotOlderThan",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ];
        for (query, sentence) in cases {
            let status = options(query).unwrap_err();
            assert_eq!(status.code, 422, "{query}");
            assert!(status.message.starts_with("ListOptions.meta.k8s.io \"\" is invalid: "), "{}", status.message);
            assert!(status.message.ends_with(sentence), "{}", status.message);
        }
    }

    #[test]
    fn rv15_a_revision_is_a_number() {
        let status = options("resourceVersion=abc").unwrap_err();
        assert_eq!(
            (status.code, &*status.message),
            (
                400,
                "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \
                 \"abc\": invalid syntax"
            )
        );
    }

    #[test]
    fn rv15_a_revision_beyond_all_numbers_is_named_as_such() {
        let status = options("resourceVersion=99999999999999999999").unwrap_err();
        assert!(status.message.ends_with("value out of range"), "{}", status.message);
    }

    #[test]
    fn ch4_a_token_carries_its_own_revision() {
        let status = options("continue=x&resourceVersion=5").unwrap_err();
        assert_eq!(status.message, "specifying resource version is not allowed when using continue");
        assert!(options("continue=x&resourceVersion=0").is_ok());
    }

    #[test]
    fn ch8_no_limit_below_one() {
        assert_eq!(options("limit=-1").unwrap().limit, None);
        assert_eq!(options("limit=0").unwrap().limit, None);
        assert_eq!(options("limit=7").unwrap().limit, Some(7));
    }

    #[test]
    fn ch3_tokens_round_trip_and_tampering_is_refused() {
        let remaining = Some(Remaining { of: "pods/shop".into(), count: 9 });
        let token =
            ContinueToken { revision: Some(Revision(7)), namespace: "shop".into(), name: "web".into(), remaining };
        assert_eq!(ContinueToken::decode(&token.encode(), true).unwrap(), token);
        let token = ContinueToken { revision: None, namespace: String::new(), name: "web".into(), remaining: None };
        assert_eq!(ContinueToken::decode(&token.encode(), false).unwrap(), token);

        let forged = |json: &str| ContinueToken::decode(&URL_SAFE_NO_PAD.encode(json), true).unwrap_err();
        for json in [
            r#"{"v":"meta.k8s.io/v1","rv":1,"start":"/../x\u0000"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":1,"start":"/a/b/c\u0000"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/b"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":0,"start":"/a/b\u0000"}"#,
            r#"{"v":"v2","rv":1,"start":"/a/b\u0000"}"#,
            "{}",
        ] {
            let status = forged(json);
            assert_eq!(status.code, 400, "{json}");
            let expected = "invalid continue token: continue key is not valid: ";
            assert!(status.message.starts_with(expected), "{}", status.message);
        }
        assert_eq!(ContinueToken::decode("%%%", true).unwrap_err().code, 400);
    }
}
