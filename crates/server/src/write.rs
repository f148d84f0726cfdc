//! Decodes and admits the body of a write without delaying other requests.
//!
//! A body of megabytes takes tens of milliseconds, during which the thread could serve no other
//! requests, so large bodies run on a dedicated thread. Nearly all writes are small, and run on the
//! thread of their request.

use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::entrance::INLINE_BYTES_MAX;
use ballast_k8s::protobuf::Message;
use ballast_k8s::{self as k8s, GetOptions, Patch, Status, WriteOptions};
use ballast_registry::{Caller, Locator, MayCreate, Registry, Warnings, Written, answer_due, due_at};
use ballast_resource::ResourceKind;

/// Bytes of the body in an error: of a body that cannot be parsed (VB18), and characters of one
/// without a kind (VB15).
const SHOWN_BYTES_MAX: usize = 30;
const KINDLESS_CHARS_MAX: usize = 1024;

pub struct Write {
    pub verb: Verb,
    pub text: Bytes,
    pub options: WriteOptions,
}

#[derive(Clone, Copy)]
pub enum Verb {
    Create(BodyEncoding),
    Update(BodyEncoding),
    Patch(fn(&[u8]) -> Result<Patch, Status>),
    Apply(MayCreate),
}

/// The encoding of an object.
#[derive(Clone, Copy)]
pub enum BodyEncoding {
    Json,
    Yaml,
    Protobuf(&'static Message),
}

impl Write {
    /// Executes the write. Only an apply returns `None`: the object does not exist, and the caller
    /// must be authorized to create it first.
    pub async fn run(
        self,
        registry: &Arc<Registry>,
        caller: Caller<'_>,
        target: &Locator,
    ) -> Result<Option<Written>, Status> {
        if self.text.len().max(registry.stored_bytes(target)) <= INLINE_BYTES_MAX {
            return self.run_here(registry, caller, target).await;
        }
        let (registry, user, target) = (Arc::clone(registry), caller.user.clone(), target.clone());
        let (runtime, due) = (Handle::current(), answer_due());
        let work = move || {
            let warnings = Warnings::default();
            let caller = Caller { user: &user, warnings: &warnings };
            let outcome = runtime.block_on(due_at(due, self.run_here(&registry, caller, &target)));
            (outcome, warnings)
        };
        let (outcome, warnings) = on_own_thread(work).await?;
        caller.warnings.merge(&warnings);
        outcome
    }

    async fn run_here(
        self,
        registry: &Registry,
        caller: Caller<'_>,
        target: &Locator,
    ) -> Result<Option<Written>, Status> {
        let Write { verb, text, options } = self;
        match verb {
            Verb::Create(encoding) => {
                let body = encoding.object(&target.row, &text)?;
                registry.create(caller, target, body, &options).await.map(Some)
            }
            Verb::Update(encoding) => {
                let body = encoding.object(&target.row, &text)?;
                registry.update(caller, target, body, &options).await.map(Some)
            }
            Verb::Patch(read) => {
                let patch = match read(&text) {
                    Ok(patch) => patch,
                    Err(malformed) => {
                        // A missing object takes precedence over a malformed patch.
                        registry.get(target, &GetOptions::default()).await?;
                        return Err(malformed);
                    }
                };
                registry.patch(caller, target, patch, &options).await.map(Some)
            }
            Verb::Apply(may_create) => {
                let body = k8s::Body::from_yaml(&text);
                let body = body.map_err(|error| {
                    let step = match error {
                        k8s::Malformed::NoObject(_) => "error unmarshaling JSON: while decoding JSON: ",
                        k8s::Malformed::Unreadable(_) => "",
                    };
                    Status::bad_request(format!("error decoding YAML: {step}{error}"))
                })?;
                registry.apply(caller, target, body, &options, may_create).await
            }
        }
    }
}

/// Runs the work on a thread that ends with it. The trees of a large object take a hundred
/// megabytes for a moment, and the allocator keeps freed memory for as long as the thread lives.
/// The permits of large writes limit the number of threads.
async fn on_own_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    let (done, outcome) = oneshot::channel();
    let thread = thread::Builder::new().name("large-write".to_owned());
    let thread = thread.spawn(move || drop(done.send(work())));
    let thread = thread.map_err(|_| Status::unavailable("the server has no thread for a large object".to_owned()))?;
    match outcome.await {
        Ok(outcome) => Ok(outcome),
        // The thread has panicked, so it ends at once.
        Err(_) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Err(Status::internal("a large write has no outcome")),
        },
    }
}

impl BodyEncoding {
    pub fn read(self, text: &[u8]) -> Result<k8s::Body, k8s::Malformed> {
        match self {
            BodyEncoding::Json => k8s::Body::from_json(text),
            BodyEncoding::Yaml => k8s::Body::from_yaml(text),
            BodyEncoding::Protobuf(shape) => k8s::Body::from_protobuf(text, shape),
        }
    }

    /// Parses the object in a body, or returns why it is not of this kind. A body for a built-in
    /// kind of Kubernetes may omit its type, because the URL determines it (CU3).
    fn object(self, row: &ResourceKind, text: &[u8]) -> Result<k8s::Body, Status> {
        let kind = row.kind;
        let unrecognized = |why: String| {
            let shown = shown(text);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        };
        let unparsable = |why: &dyn Display| {
            unrecognized(match self {
                BodyEncoding::Json | BodyEncoding::Yaml => {
                    format!("couldn't get version/kind; json parse error: {why}")
                }
                BodyEncoding::Protobuf(_) => why.to_string(),
            })
        };
        let mut body = self.read(text).map_err(|error| match (self, &error) {
            (BodyEncoding::Yaml, k8s::Malformed::Unreadable(why)) => {
                unrecognized(why.trim_start_matches("error converting YAML to JSON: ").to_owned())
            }
            _ => unparsable(&error),
        })?;
        if let Some(fault) = k8s::type_meta_fault(&body.value) {
            return Err(unparsable(&fault));
        }
        row.fill_type_meta(&mut body.value);
        if body.value.get("kind").and_then(|kind| kind.as_str()).is_none_or(str::is_empty) {
            let whole: String = String::from_utf8_lossy(text).chars().take(KINDLESS_CHARS_MAX).collect();
            return Err(unrecognized(format!("Object 'Kind' is missing in '{whole}'")));
        }
        if row.is_built_in() {
            expect_registered(&body.value, row)?;
        }
        Ok(body)
    }
}

/// Rejects the body of another kind for a built-in kind of Kubernetes, which is decoded into its
/// own type (CU3). For custom resources, the kind is a field that is validated.
fn expect_registered(object: &Map<String, Value>, row: &ResourceKind) -> Result<(), Status> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    match kind == row.kind {
        true => Ok(()),
        false => Err(Status::bad_request(format!("no kind {kind:?} is registered for version {version:?}"))),
    }
}

/// Returns the beginning of a body as upstream shows it: text if it looks like an object, else
/// hexadecimal.
fn shown(text: &[u8]) -> String {
    let start = &text[..text.len().min(SHOWN_BYTES_MAX)];
    let more = if start.len() < text.len() { " ..." } else { "" };
    match start {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(start).into_owned() + more,
        _ => start.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The only thread of this runtime releases the work, so the work runs on another one.
    #[tokio::test]
    async fn the_work_on_a_large_object_leaves_the_serving_thread() {
        let (begun, begins) = oneshot::channel();
        let (go_on, goes_on) = mpsc::channel();
        let work = move || {
            begun.send(()).unwrap();
            goes_on.recv_timeout(Duration::from_secs(60))
        };
        let outcome = tokio::spawn(on_own_thread(work));
        begins.await.unwrap();
        go_on.send(()).unwrap();
        outcome.await.unwrap().unwrap().expect("the serving thread is free");
    }

    #[tokio::test]
    #[should_panic(expected = "too much")]
    async fn a_panic_of_the_work_is_the_caller_s() {
        let _ = on_own_thread(|| -> () { panic!("too much") }).await;
    }
}
