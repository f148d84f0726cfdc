//! `/statusz` and `/flagz`: the version and flags of this process (CU2), for users with permission
//! to read these paths.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};

use super::codec::{self, Accepted, Encoding, PageForm, PageVersion};
use super::respond::{self, Response};
use ballast_k8s::{Status, Time};

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";
const NAME: &str = "ballast";

/// The description of a process.
pub struct ZPages {
    pub started: Time,
    /// The flags with their values, without secrets.
    pub flags: BTreeMap<String, String>,
}

impl ZPages {
    /// `paths` are the served paths. `version` is the document of `/version`.
    pub fn status(
        &self,
        headers: &HeaderMap,
        now: Time,
        paths: &[String],
        version: &Value,
    ) -> Result<Response, Status> {
        let form = codec::negotiate_page(headers, "Statusz")?;
        let seconds = (now.seconds() - self.started.seconds()).max(0);
        let text = |member: &str| version[member].as_str().unwrap_or_default();
        let emulated = format!("{}.{}", text("emulationMajor"), text("emulationMinor"));
        Ok(match form {
            PageForm::Object(encoding, version) => object(
                (encoding, version),
                "Statusz",
                [
                    ("startTime", self.started.to_string().into()),
                    ("uptimeSeconds", seconds.into()),
                    ("goVersion", text("goVersion").into()),
                    ("binaryVersion", env!("CARGO_PKG_VERSION").into()),
                    ("emulationVersion", emulated.into()),
                    ("paths", json!(paths)),
                ],
            ),
            PageForm::Text => {
                let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
                let lines = [
                    format!("Started: {}", self.started),
                    format!("Up: {hours} hr {minutes:02} min {:02} sec", seconds % 60),
                    format!("Go version: {}", text("goVersion")),
                    format!("Binary version: {}", env!("CARGO_PKG_VERSION")),
                    format!("Emulation version: {emulated}"),
                    format!("Paths: {}", paths.join(" ")),
                ];
                page("statusz", &lines)
            }
        })
    }

    pub fn flags(&self, headers: &HeaderMap) -> Result<Response, Status> {
        Ok(match codec::negotiate_page(headers, "Flagz")? {
            PageForm::Object(encoding, version) => object((encoding, version), "Flagz", [("flags", json!(self.flags))]),
            PageForm::Text => {
                let lines: Vec<String> = self.flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
                page("flagz", &lines)
            }
        })
    }
}

fn object<const N: usize>(
    (encoding, version): (Encoding, PageVersion),
    kind: &str,
    members: [(&str, Value); N],
) -> Response {
    let api_version = match version {
        PageVersion::V1beta1 => "config.k8s.io/v1beta1",
        PageVersion::V1alpha1 => "config.k8s.io/v1alpha1",
    };
    let head = [("kind", kind.into()), ("apiVersion", api_version.into()), ("metadata", json!({"name": NAME}))];
    let all = head.into_iter().chain(members).map(|(name, value)| (name.to_owned(), value));
    let all: Map<String, Value> = all.collect();
    let mut response = respond::value(StatusCode::OK, Accepted { encoding, ..Accepted::default() }, &all);
    if version == PageVersion::V1alpha1 {
        let page = kind.to_lowercase();
        let warning = format!("This version of the {page} endpoint is deprecated. Please use a newer version.");
        respond::warn(&mut response, &[warning]);
    }
    response
}

fn page(name: &str, lines: &[String]) -> Response {
    let mut text = format!("\n{NAME} {name}\n{WARNING}\n\n");
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    let mut response = respond::text(StatusCode::OK, text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
