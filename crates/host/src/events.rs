//! Posts events to the host cluster, so that they can be read with kubectl.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Map, Value};

use super::connect::Host;
use super::reviews;
use ballast_worker::events::{Note, Sink, counted, event};

/// Timeout of one round. Events that are not posted by then wait for the next round.
const ROUND_MAX: Duration = Duration::from_secs(5);

/// Posts events to the host cluster.
pub struct HostEvents {
    host: Host,
}

/// The result of posting an event.
enum Posted {
    Done,
    /// The host cluster is busy or not reachable: retry later.
    Later,
}

impl HostEvents {
    pub fn new(host: Host) -> HostEvents {
        HostEvents { host }
    }

    async fn post_one(&self, note: &Note) -> Posted {
        let key = note.key();
        let api: Api<Event> = Api::namespaced(self.host.client.clone(), &key.namespace);
        let params = PostParams::default();
        let posted = match api.get_opt(&key.name).await {
            Ok(None) => match read(event(note, &key)) {
                Some(event) => api.create(&params, &event).await,
                None => return Posted::Done,
            },
            Ok(Some(known)) => match tree(&known).and_then(|known| counted(known, note)).and_then(read) {
                Some(event) => api.replace(&key.name, &params, &event).await,
                None => return Posted::Done,
            },
            Err(error) => Err(error),
        };
        match posted {
            Ok(_) => Posted::Done,
            // Forbidden, no such namespace, or another replica was faster. Retrying would not help.
            Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
                tracing::debug!(code = status.code, message = status.message, "the host cluster refused an event");
                Posted::Done
            }
            Err(error) => {
                tracing::debug!(error = reviews::sentence(&error), "failed to post an event");
                Posted::Later
            }
        }
    }
}

#[async_trait]
impl Sink for HostEvents {
    fn name(&self) -> &'static str {
        "host"
    }

    async fn post(&self, notes: Vec<Note>) -> Vec<Note> {
        let end = tokio::time::Instant::now() + ROUND_MAX;
        let mut notes = notes.into_iter();
        while let Some(note) = notes.next() {
            match tokio::time::timeout_at(end, self.post_one(&note)).await {
                Ok(Posted::Done) => {}
                // The remaining events would fail too.
                Ok(Posted::Later) | Err(_) => return std::iter::once(note).chain(notes).collect(),
            }
        }
        Vec::new()
    }
}

fn read(event: Map<String, Value>) -> Option<Event> {
    let read = serde_json::from_value(Value::Object(event));
    read.inspect_err(|error| tracing::debug!(%error, "failed to convert an event for the host cluster")).ok()
}

fn tree(event: &Event) -> Option<Map<String, Value>> {
    match serde_json::to_value(event).ok()? {
        Value::Object(tree) => Some(tree),
        _ => None,
    }
}
