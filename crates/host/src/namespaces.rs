//! Namespaces of the host cluster. Nothing is created in a namespace that is missing or terminating
//! (AD2).

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::connect::Host;
use super::first_read::FirstRead;
use super::pauses::Pauses;
use super::reviews;
use ballast_base::log_limit::LogLimit;
use ballast_base::telemetry;
use ballast_k8s::{Cause, Details, GroupResource, Status};

/// The time to look up a namespace that the watch has not delivered (yet).
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// What is known about a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    is_terminating: bool,
    labels: BTreeMap<String, String>,
    /// The object as policies see it.
    object: Arc<Value>,
}

/// Clones share their content.
#[derive(Clone)]
pub struct Namespaces {
    api: Api<Namespace>,
    known: Arc<RwLock<HashMap<String, Known>>>,
    first_read: Arc<FirstRead>,
}

impl Namespaces {
    /// Starts without namespaces. `follow` reads and watches them.
    pub fn new(host: &Host) -> Namespaces {
        Namespaces {
            api: Api::all(host.client.clone()),
            known: Arc::default(),
            first_read: Arc::new(FirstRead::new(false)),
        }
    }

    /// Watches the host cluster for as long as it is polled.
    pub async fn follow(self) {
        let mut listed: HashMap<String, Known> = HashMap::new();
        let failures = LogLimit::new();
        let mut events = pin!(watcher(self.api.clone(), watcher::Config::default()).backoff(Pauses::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(namespace)) => {
                    listed.insert(namespace.name_any(), known(&namespace));
                }
                Ok(Event::InitDone) => {
                    *self.write() = std::mem::take(&mut listed);
                    self.first_read.end();
                }
                Ok(Event::Apply(namespace)) => {
                    self.write().insert(namespace.name_any(), known(&namespace));
                }
                Ok(Event::Delete(namespace)) => {
                    self.write().remove(&namespace.name_any());
                }
                Err(error) => {
                    if failures.pass().is_some() {
                        tracing::warn!(error = telemetry::with_causes(&error), "failed to watch namespaces");
                    }
                }
            }
        }
    }

    /// Refuses the creation of an object in a namespace that is missing or terminating.
    pub async fn may_create(&self, resource: GroupResource, namespace: &str, name: &str) -> Result<(), Status> {
        let found = self.read().get(namespace).cloned();
        // The namespace may be newer than the last event of the watch.
        let found = match found {
            Some(found) => found,
            None => self.look_up(namespace).await?,
        };
        match found.is_terminating {
            true => Err(terminating(resource, namespace, name)),
            false => Ok(()),
        }
    }

    /// Done when the namespaces have been read once. Before that, none of their labels are known.
    pub(super) fn first_read(&self) -> &FirstRead {
        &self.first_read
    }

    pub(super) fn labels(&self, namespace: &str) -> BTreeMap<String, String> {
        self.read().get(namespace).map(|known| known.labels.clone()).unwrap_or_default()
    }

    /// Whether a namespace is known to have a label.
    pub fn has_label(&self, namespace: &str, label: &str, value: &str) -> bool {
        self.read().get(namespace).and_then(|known| known.labels.get(label)).is_some_and(|it| it == value)
    }

    /// The namespace as policies see it.
    pub(super) async fn object(&self, namespace: &str) -> Result<Arc<Value>, Status> {
        let found = self.read().get(namespace).map(|known| Arc::clone(&known.object));
        match found {
            Some(found) => Ok(found),
            None => self.look_up(namespace).await.map(|known| known.object),
        }
    }

    async fn look_up(&self, namespace: &str) -> Result<Known, Status> {
        let found = match tokio::time::timeout(LOOKUP_MAX, self.api.get_opt(namespace)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(unknown(namespace, &reviews::sentence(&error))),
            Err(_) => return Err(unknown(namespace, "no answer in time")),
        };
        let found = found.ok_or_else(|| Status::not_found(GroupResource::intern("namespaces"), namespace))?;
        Ok(known(&found))
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<String, Known>> {
        self.known.read().expect("no panic while it is held")
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, Known>> {
        self.known.write().expect("no panic while it is held")
    }
}

fn known(namespace: &Namespace) -> Known {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_terminating = phase == Some("Terminating") || namespace.metadata.deletion_timestamp.is_some();
    let mut shown = namespace.clone();
    shown.metadata.managed_fields = None;
    shown.metadata.owner_references = None;
    let mut object = serde_json::to_value(shown).unwrap_or_default();
    // As upstream, the object has no type.
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, _| !matches!(name.as_str(), "kind" | "apiVersion"));
    }
    Known { is_terminating, labels: namespace.labels().clone(), object: Arc::new(object) }
}

/// The refusal, in kube-apiserver's words (AD2).
fn terminating(resource: GroupResource, namespace: &str, name: &str) -> Status {
    let message = format!(
        "{resource} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is \
         being terminated"
    );
    let cause = Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    let details = Details { causes: vec![cause], ..Details::of(resource, name) };
    Status::failure(403, "Forbidden", message).with(details)
}

/// The namespace could not be looked up. The creation is refused (it fails closed).
fn unknown(namespace: &str, why: &str) -> Status {
    tracing::error!(namespace, why, "failed to look for a namespace");
    Status::failure(
        500,
        "InternalError",
        format!("Internal error occurred: namespace {namespace:?} could not be looked up"),
    )
}
