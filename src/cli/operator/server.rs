//! Requests to the server, and its errors.
//!
//! An error keeps the server's message, because it names the permission, the field and the value.
//! Errors that the user of the command line can correct are usage errors; all others are failures.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Mutex;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::CommonArgs;
use crate::cli::embedded::{self, Embedded, ProfileArgs, ServerKind};
use crate::cli::screen::Screen;
use ballast_k8s::Status;
use ballast_node::UsageError;
use ballast_node::kubeconfig::Connected;

/// Number of objects in one page of a list.
const PAGE_OBJECTS: usize = 500;
/// Maximum size of a response in bytes. A page of large objects takes a few megabytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Maximum length of a line of a watch: one object, which a server limits to 3 MiB.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// A server with the scope from the command line.
pub struct Server {
    connected: Connected,
    /// The embedded server, if the kubeconfig names a Karmada without Ballast.
    embedded: Option<Embedded>,
    /// `None`: all namespaces.
    pub namespace: Option<String>,
    /// The flags that give a suggested command the same scope: ` -A`, ` -n shop`, or nothing.
    pub scope: String,
    pub screen: Screen,
    /// The namespace from `-n`.
    named_namespace: Option<String>,
    /// Warnings that were printed, because a dry run and the following write have the same ones.
    warned: Mutex<BTreeSet<String>>,
}

/// The server rejected the request.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Refused(pub Box<Status>);

impl Refused {
    pub fn is(&self, code: u16) -> bool {
        self.0.code == code
    }
}

impl Server {
    /// Opens the server for a read-only command. If the kubeconfig names a Karmada without Ballast,
    /// an embedded server reads it and responds by these rules.
    pub async fn open(args: &CommonArgs, rules: ProfileArgs) -> anyhow::Result<Server> {
        let named = args.server.connect().await?;
        let embedded = match embedded::kind_of_server(&named).await? {
            ServerKind::Ballast => {
                rules.refuse_at(&named.url)?;
                None
            }
            ServerKind::Karmada => {
                let only = args.namespace.as_deref().or(Some(&*named.namespace)).filter(|_| !args.all_namespaces);
                Some(Embedded::start(named.clone(), rules, only).await?)
            }
        };
        let connected = embedded.as_ref().map_or(named, Embedded::connected);
        Ok(Server::of(args, connected, embedded))
    }

    /// Opens the server for a command that needs state stored by Ballast. `refusal` builds the
    /// error for a Karmada without Ballast from the URL and `what`.
    pub async fn open_keeping(
        args: &CommonArgs,
        what: &str,
        refusal: fn(&str, &str) -> UsageError,
    ) -> anyhow::Result<Server> {
        let (server, serves) = Server::open_named(args).await?;
        match serves {
            ServerKind::Ballast => Ok(server),
            ServerKind::Karmada => Err(refusal(&server.connected.url, what).into()),
        }
    }

    /// Opens the server for a request about the past, which requires Ballast.
    pub async fn open_past(args: &CommonArgs, rules: ProfileArgs) -> anyhow::Result<Server> {
        let server = Server::open_keeping(args, "--at", embedded::needs_past).await?;
        rules.refuse_at(&server.connected.url)?;
        Ok(server)
    }

    /// Opens the server that the kubeconfig names, and returns which kind it is.
    pub async fn open_named(args: &CommonArgs) -> anyhow::Result<(Server, ServerKind)> {
        let server = Server::open_any(args).await?;
        let serves = embedded::kind_of_server(&server.connected).await?;
        Ok((server, serves))
    }

    /// Opens the server that the kubeconfig names, whatever it serves. Sends no requests.
    pub async fn open_any(args: &CommonArgs) -> anyhow::Result<Server> {
        Ok(Server::of(args, args.server.connect().await?, None))
    }

    fn of(args: &CommonArgs, connected: Connected, embedded: Option<Embedded>) -> Server {
        let namespace = match (&args.namespace, args.all_namespaces) {
            (_, true) => None,
            (Some(namespace), _) => Some(namespace.clone()),
            (None, _) => Some(connected.namespace.clone()),
        };
        let scope = match (&args.namespace, args.all_namespaces) {
            (_, true) => " -A".to_owned(),
            (Some(namespace), _) => format!(" -n {namespace}"),
            (None, _) => String::new(),
        };
        let named_namespace = args.namespace.clone().filter(|_| !args.all_namespaces);
        let (screen, warned) = (Screen::of_stdout(args.no_color), Mutex::default());
        Server { connected, embedded, namespace, scope, screen, named_namespace, warned }
    }

    /// Rejects `-n` for a command that cannot be limited to a namespace. `why` contains the reason
    /// and the alternative.
    pub fn refuse_namespace(&self, why: &str) -> Result<(), UsageError> {
        match &self.named_namespace {
            None => Ok(()),
            Some(namespace) => Err(UsageError(format!("-n {namespace}: {why}"))),
        }
    }

    /// Returns the namespace from `-n`.
    pub fn named_namespace(&self) -> Option<&str> {
        self.named_namespace.as_deref()
    }

    /// Returns the path of a namespaced kind in the scope of the command.
    pub fn collection(&self, api: &str, resource: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{api}/namespaces/{}/{resource}", escaped(namespace)),
            None => format!("{api}/{resource}"),
        }
    }

    /// Returns whether an embedded server responds, which can move nothing.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.exchange(Method::GET, path, None, Vec::new()).await
    }

    /// Returns an object. `None` if it does not exist.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Option<T>> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(404)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists all objects of a collection, page by page. Also returns the revision of the first
    /// page.
    pub async fn list(&self, path: &str, selectors: &[(&str, &str)]) -> anyhow::Result<(Vec<Value>, String)> {
        let mut items = Vec::new();
        let revision = self.list_pages(path, selectors, |page| items.extend(page)).await?;
        Ok((items, revision))
    }

    /// Like `list`, but passes each page to `take`.
    pub async fn list_pages(
        &self,
        path: &str,
        selectors: &[(&str, &str)],
        mut take: impl FnMut(Vec<Value>),
    ) -> anyhow::Result<String> {
        let (mut revision, mut token) = (String::new(), String::new());
        loop {
            let limit = PAGE_OBJECTS.to_string();
            let paging = [("limit", &*limit), ("continue", &*token)];
            let given = selectors.iter().chain(&paging).filter(|(_, value)| !value.is_empty());
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
            let mut page: Value = self.get(&format!("{path}?{query}")).await?;
            if revision.is_empty() {
                revision = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            }
            if let Value::Array(found) = page["items"].take() {
                take(found);
            }
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                return Ok(revision);
            }
        }
    }

    pub async fn create<T: DeserializeOwned>(&self, path: &str, object: &impl Serialize) -> anyhow::Result<T> {
        self.exchange(Method::POST, &strict(path), Some("application/json"), serde_json::to_vec(object)?).await
    }

    pub async fn replace<T: DeserializeOwned>(&self, path: &str, object: &impl Serialize) -> anyhow::Result<T> {
        self.exchange(Method::PUT, &strict(path), Some("application/json"), serde_json::to_vec(object)?).await
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.exchange(Method::DELETE, path, None, Vec::new()).await
    }

    pub async fn merge_patch<T: DeserializeOwned>(&self, path: &str, patch: &Value) -> anyhow::Result<T> {
        self.exchange(Method::PATCH, &strict(path), Some("application/merge-patch+json"), serde_json::to_vec(patch)?)
            .await
    }

    /// Reads a watch until `seen` breaks, or returns `None` when the server ends it. The path has a
    /// query without `watch`.
    pub async fn watch<B>(
        &self,
        path: &str,
        mut seen: impl FnMut(&Value) -> anyhow::Result<ControlFlow<B>>,
    ) -> anyhow::Result<Option<B>> {
        let (status, mut body) = self.send(Method::GET, &format!("{path}&watch=1"), None, Vec::new()).await?;
        if !status.is_success() {
            return Err(self.refusal(status, &self.read(body).await?));
        }
        let mut waiting: Vec<u8> = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.context("the watch broke off")?.into_data() else { continue };
            waiting.extend_from_slice(&data);
            while let Some(end) = waiting.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).context("a watch event is not JSON")?;
                if event["type"] == "ERROR" {
                    let status = serde_json::from_value(event["object"].clone()).context("a watch failed")?;
                    return Err(Refused(Box::new(status)).into());
                }
                if let ControlFlow::Break(found) = seen(&event)? {
                    return Ok(Some(found));
                }
            }
            if waiting.len() > EVENT_BYTES_MAX {
                bail!("an event of the watch has more than {EVENT_BYTES_MAX} bytes");
            }
        }
        Ok(None)
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> anyhow::Result<T> {
        let (status, body) = self.send(method, path, content_type, body).await?;
        let answer = self.read(body).await?;
        if !status.is_success() {
            return Err(self.refusal(status, &answer));
        }
        let url = &self.connected.url;
        serde_json::from_slice(&answer).with_context(|| format!("failed to understand the answer of {url} to {path}"))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> anyhow::Result<(StatusCode, Body)> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json")
            .header("user-agent", concat!("ballast/", env!("CARGO_PKG_VERSION")));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Body::from(body))?;
        let answer = self.connected.send(request).await?;
        for warning in answer.headers().get_all("warning") {
            let text = warning_text(warning.to_str().unwrap_or_default());
            if self.warned.lock().expect("no panic while it is held").insert(text.clone()) {
                warn(&text);
            }
        }
        Ok((answer.status(), answer.into_body()))
    }

    async fn read(&self, body: Body) -> anyhow::Result<Bytes> {
        let read = tokio::time::timeout(self.connected.within, Limited::new(body, ANSWER_BYTES_MAX).collect());
        let read = read.await.context("the answer did not end in time")?;
        Ok(read.map_err(|error| anyhow::anyhow!("failed to read the answer: {error}"))?.to_bytes())
    }

    fn refusal(&self, status: StatusCode, answer: &[u8]) -> anyhow::Error {
        let url = &self.connected.url;
        let Ok(mut refused) = serde_json::from_slice::<Status>(answer) else {
            return match status {
                StatusCode::NOT_FOUND => anyhow::anyhow!("{url} does not serve ballast.dev: is it a Ballast server?"),
                status => anyhow::anyhow!("{url} answered {status}"),
            };
        };
        match refused.code {
            400 | 422 => UsageError(plain(&refused)).into(),
            401 => {
                refused.message = format!(
                    "{url} does not know the credentials of this kubeconfig (401 Unauthorized): renew those of its \
                     user, or choose another user with --context"
                );
                Refused(Box::new(refused)).into()
            }
            _ => Refused(Box::new(refused)).into(),
        }
    }
}

/// Prints a warning as kubectl does.
pub fn warn(text: &str) {
    // Standard error may be closed; the warning is then lost.
    let _ = writeln!(std::io::stderr(), "Warning: {text}");
}

/// Returns the path of a write that the server rejects if the object has unknown fields.
fn strict(path: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}fieldValidation=Strict")
}

/// Returns the text of a header such as `299 - "text"`. Quotes and backslashes in the text are
/// escaped.
fn warning_text(header: &str) -> String {
    let text = header.splitn(3, ' ').nth(2).unwrap_or(header);
    let Some(quoted) = text.strip_prefix('"') else { return text.to_owned() };
    let mut read = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => read.extend(letters.next()),
            letter => read.push(letter),
        }
    }
    read
}

/// Returns the error without field paths, because the program wrote the fields: only the values and
/// their faults.
fn plain(refused: &Status) -> String {
    let causes = refused.details.iter().flat_map(|details| &details.causes);
    let told: Vec<String> = causes.map(|cause| plain_cause(&cause.field, &cause.message)).collect();
    if told.is_empty() { refused.message.clone() } else { told.join("; ") }
}

fn plain_cause(field: &str, message: &str) -> String {
    let parts = message.strip_prefix("Invalid value: ").and_then(|rest| rest.split_once(": "));
    let Some((value, fault)) = parts else { return format!("{field}: {message}") };
    let value = value.trim_matches('"');
    let (fault, nearest) = fault.split_once("; the nearest known name is ").unwrap_or((fault, ""));
    let hint = match nearest.trim_matches('"') {
        "" => String::new(),
        nearest => format!("; did you mean {nearest}?"),
    };
    match fault {
        "no cluster has this name" => format!("no cluster {value}{hint}"),
        // These values are defaults and switches that the user has not typed.
        fault if ["true", "false", "NotRequired"].contains(&value) => format!("{field}: {fault}{hint}"),
        fault => format!("{value}: {fault}{hint} ({field})"),
    }
}

/// Escapes a segment of a path, or a value of a query. Names need no escaping, but typed text may.
pub fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cluster_is_told_without_the_field_that_the_program_wrote() {
        let message = "Invalid value: \"member-1\": no cluster has this name; the nearest known name is \"member1\"";
        assert_eq!(plain_cause("spec.suppose.clusters[0].name", message), "no cluster member-1; did you mean member1?");
        let message = "Invalid value: \"member-1\": no cluster has this name";
        assert_eq!(plain_cause("f", message), "no cluster member-1");
        assert_eq!(plain_cause("spec.mode", "Unsupported value: 1"), "spec.mode: Unsupported value: 1");
        let message = r#"Invalid value: "NotRequired": must be Required"#;
        assert_eq!(plain_cause("spec.approval", message), "spec.approval: must be Required");
    }

    #[test]
    fn a_warning_keeps_its_last_quote() {
        for (header, text) in [
            (
                r#"299 - "no cluster is \"membr1\"; the nearest is \"member1\"""#,
                r#"no cluster is "membr1"; the nearest is "member1""#,
            ),
            (r#"299 - "a \\ b" "Sat, 28 Nov 2026 21:48:03 GMT""#, r"a \ b"),
            ("299 - bare", "bare"),
            ("", ""),
        ] {
            assert_eq!(warning_text(header), text);
        }
    }

    #[test]
    fn a_write_is_strict_whatever_its_query() {
        assert_eq!(strict("/a"), "/a?fieldValidation=Strict");
        assert_eq!(strict("/a?dryRun=All"), "/a?dryRun=All&fieldValidation=Strict");
    }

    #[test]
    fn what_people_type_cannot_change_the_path() {
        assert_eq!(escaped("a b/../c?d=e"), "a%20b%2F..%2Fc%3Fd%3De");
    }
}
