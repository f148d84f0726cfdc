//! Sends the writes of workers upstream: a merge patch of the object, then one of its status, each
//! with the upstream version that it was decided on.
//!
//! The response is written to the local log before the write is acknowledged. If the second patch
//! fails, the result of the first one is in the log, and the caller gets the error: it decides
//! again, finds the status missing, and writes it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Map, Value, json};

use super::applier::{Change, Source};
use super::attached::{Access, Attached};
use super::patch::Changes;
use super::upstream_object::metadata;
use super::write_limits::IN_FLIGHT_MAX;
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_k8s::{GroupResource, Key, Object, Status};
use ballast_registry::{RemoteStore, RemoteWrite};
use ballast_resource::ResourceKind;

type Tree = Map<String, Value>;

/// The timeout of one upstream request. Upstream webhooks may be slow.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The limit of tries of one patch while the upstream is overloaded. Afterwards the caller tries
/// again, after its own pauses.
const TRIES_MAX: u32 = 4;
/// The pause before the second try, unless the upstream requests one. It doubles with each try.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
/// Bytes of a response body that are included in the error if it is not a Status.
const SHOWN_BYTES_MAX: usize = 256;

#[async_trait]
impl RemoteStore for Attached {
    fn keeps(&self, resource: GroupResource) -> bool {
        self.rows.contains_key(&resource)
    }

    fn url(&self) -> &str {
        &self.upstream.url
    }

    async fn write(&self, manager: &str, wanted: Vec<RemoteWrite>) -> Vec<Result<Arc<Object>, Status>> {
        // At most this many are polled at once; the semaphore limits those of several calls.
        stream::iter(wanted).map(|wanted| self.send(manager, wanted)).buffered(IN_FLIGHT_MAX).collect().await
    }
}

impl Attached {
    async fn send(&self, manager: &str, RemoteWrite { base, object }: RemoteWrite) -> Result<Arc<Object>, Status> {
        let key = base.key.clone();
        let sent = self.send_parts(manager, &base, &object).await;
        match &sent {
            Ok(_) => metrics::upstream_wrote("success"),
            Err(status) if matches!(status.code, 404 | 409) => {
                metrics::upstream_wrote("conflict");
                self.refresh(&base).await;
            }
            Err(status) if status.code == 429 || status.code >= 500 => {
                tracing::warn!(%key, %status, "failed to write to Karmada for now");
                metrics::upstream_wrote("unavailable");
            }
            Err(status) => {
                tracing::warn!(%key, %status, "failed to write to Karmada: refused");
                metrics::upstream_wrote("refused");
            }
        }
        sent
    }

    async fn send_parts(&self, manager: &str, base: &Arc<Object>, object: &Tree) -> Result<Arc<Object>, Status> {
        let key = &base.key;
        if self.access == Access::ReadOnly {
            let why = format!("this server only reads what is kept at {}", self.upstream.url);
            return Err(Status::forbidden(key.resource, &key.name, &why));
        }
        let row = self.rows.get(&key.resource).ok_or_else(|| Status::not_found(key.resource, &key.name))?;
        let known = self.applier.version(key, base.revision).await;
        let version = known.ok_or_else(|| Status::conflict(key.resource, &key.name))?;
        let before = base.value().map_err(Status::internal)?;
        let Changes { main, status } = Changes::between(&before, object);
        if main.is_empty() && status.is_empty() {
            return Ok(Arc::clone(base));
        }
        let _turn = self.limits.in_flight.acquire().await.map_err(Status::internal)?;
        let path = path(row, key, Some(manager));
        let mut written: Option<Tree> = None;
        if !main.is_empty() {
            written = Some(self.patch(&path(""), main, &version).await?);
        }
        let mut fault = None;
        if !status.is_empty() {
            let version = written.as_ref().map_or(&*version, |object| metadata(object, "resourceVersion")).to_owned();
            let mut body = Tree::new();
            body.insert("status".to_owned(), Value::Object(status));
            match self.patch(&path("/status"), body, &version).await {
                Ok(object) => written = Some(object),
                Err(status) => fault = Some(status),
            }
        }
        let taken = match written {
            Some(object) => self.applier.take(row, vec![Change::Put(object)], Source::Response).await,
            None => Ok(Default::default()),
        };
        match (fault, taken) {
            (Some(status), _) => Err(status),
            // Another client has written since. The caller sees that change as an event.
            (None, Ok(mut here)) => Ok(here.remove(key).unwrap_or_else(|| Arc::clone(base))),
            // The object is written upstream, and the watch will deliver it.
            (None, Err(error)) => Err(Status::unavailable(error.to_string())),
        }
    }

    /// Reads an object that another client has changed. The caller decides again at once, and would
    /// conflict again until the watch reports the change.
    async fn refresh(&self, base: &Arc<Object>) {
        let Some(row) = self.rows.get(&base.key.resource) else { return };
        let path = path(row, &base.key, None)("");
        let change = match self.ask(http::Request::get(path), Vec::new()).await {
            Ok(object) => Change::Put(object),
            Err(status) if status.code == 404 => Change::Deleted(base.value().unwrap_or_default()),
            Err(_) => return tokio::time::sleep(PAUSE_FIRST).await,
        };
        if self.applier.take(row, vec![change], Source::Response).await.is_err() {
            tokio::time::sleep(PAUSE_FIRST).await;
        }
    }

    /// Sends one patch, and retries while the upstream is overloaded. The version makes a
    /// repetition harmless: a patch that was already applied is a conflict.
    async fn patch(&self, path: &str, mut body: Tree, version: &str) -> Result<Tree, Status> {
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        let body = serde_json::to_vec(&body).map_err(Status::internal)?;
        let mut pause = PAUSE_FIRST;
        for attempt in 1.. {
            self.limits.wait_while_paused().await;
            let request = http::Request::patch(path).header(http::header::CONTENT_TYPE, MERGE_PATCH);
            let refused = match self.ask(request, body.clone()).await {
                Ok(object) => return Ok(object),
                Err(status) => status,
            };
            let asked = refused.retry_after_seconds().map(|seconds| Duration::from_secs(seconds.into()));
            if let Some(time) = asked {
                self.limits.pause_for(time);
            }
            let is_passing = matches!(refused.code, 429 | 502..=504);
            if !is_passing || attempt == TRIES_MAX {
                return Err(refused);
            }
            if asked.is_none() {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
        unreachable!("the last try returns")
    }

    /// Sends one request. Returns the object in the response.
    pub(super) async fn ask(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Tree, Status> {
        let request = request.header(http::header::ACCEPT, "application/json").body(Body::from(body));
        let request = request.map_err(Status::internal)?;
        let asked = async {
            let response = self.upstream.client.send(request).await?;
            let (head, body) = response.into_parts();
            Ok::<_, kube::Error>((head, body.collect().await?.to_bytes()))
        };
        let (head, answer) = match tokio::time::timeout(ANSWER_MAX, asked).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => {
                let why = telemetry::with_causes(&error);
                return Err(Status::unavailable(format!("failed to reach {}: {why}", self.upstream.url)));
            }
            Err(_) => {
                let why = format!("no answer from {} in {ANSWER_MAX:?}", self.upstream.url);
                return Err(Status::unavailable(why));
            }
        };
        if head.status.is_success() {
            return serde_json::from_slice(&answer)
                .map_err(|error| Status::internal(format!("{} answers with no object: {error}", self.upstream.url)));
        }
        let mut status = refusal(head.status.as_u16(), &answer);
        let seconds = head.headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(seconds) = seconds.filter(|_| status.retry_after_seconds().is_none()) {
            let mut details = status.details.take().unwrap_or_default();
            details.retry_after_seconds = seconds;
            status.details = Some(details);
        }
        Err(status)
    }
}

/// Returns the path of an object, and of its parts. `manager` is the field manager of the write.
fn path(row: &ResourceKind, key: &Key, manager: Option<&str>) -> impl Fn(&str) -> String + use<> {
    let place = match &*key.namespace {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let object = format!("/apis/{}/{}{place}/{}/{}", row.group, row.version, row.plural, key.name);
    let query = manager.map(|manager| format!("?fieldManager={manager}")).unwrap_or_default();
    move |part| format!("{object}{part}{query}")
}

/// Returns the error of the upstream, with the HTTP status code if it sent no Status.
///
/// A 404 means that the object is gone only if it names one. A kube-apiserver that has just started
/// responds with 404 to every path whose definition it has not loaded yet, which is temporary.
fn refusal(code: u16, answer: &[u8]) -> Status {
    let told = serde_json::from_slice::<Status>(answer).ok().filter(|status| status.code >= 400);
    let told = told.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&answer[..answer.len().min(SHOWN_BYTES_MAX)]);
        Status::failure(code, "", format!("HTTP {code}: {}", text.trim()))
    });
    let names_one = told.details.as_ref().is_some_and(|details| !details.name.is_empty());
    match told.code == 404 && !names_one {
        true => Status::unavailable(format!("the kind is not served there now: {}", told.message)),
        false => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_404_that_names_an_object_says_that_it_is_gone() {
        let gone = Status::not_found(crate::kinds::ATTACHED_KINDS[4], "web");
        assert_eq!(refusal(404, &serde_json::to_vec(&gone).unwrap()), gone);
        let unserved = Status::failure(404, "NotFound", "the server could not find the requested resource");
        for answer in [serde_json::to_vec(&unserved).unwrap(), b"404 page not found\n".to_vec()] {
            assert_eq!(refusal(404, &answer).code, 503);
        }
    }

    #[test]
    fn a_refusal_keeps_its_reason_and_a_strange_one_its_code() {
        let told = Status::failure(403, "QuotaExceeded", "no room");
        assert_eq!(refusal(403, &serde_json::to_vec(&told).unwrap()), told);
        let strange = refusal(502, b"<html>Bad Gateway</html>");
        assert_eq!((strange.code, strange.message.as_str()), (502, "HTTP 502: <html>Bad Gateway</html>"));
    }
}
