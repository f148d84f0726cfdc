//! Namespaces of the host cluster. Nothing is created in a namespace that is missing or terminating
//! (AD2).
//!
//! *Invariant:* a namespace that the watch has not delivered is read from the host cluster, as
//! kube-apiserver does. A lookup that fails is an error, and never a namespace without labels.

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
use super::pauses::Pauses;
use super::reviews;
use ballast_base::log_limit::LogLimit;
use ballast_base::telemetry;
use ballast_k8s::{Cause, Details, GroupResource, Status};

/// Timeout for looking up a namespace that the watch has not delivered (yet).
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// A namespace of the host cluster.
#[derive(Debug)]
pub(super) struct Known {
    is_terminating: bool,
    pub(super) labels: BTreeMap<String, String>,
    /// The object as policies see it.
    pub(super) object: Arc<Value>,
}

/// The namespaces of the host cluster. Clones share their content.
#[derive(Clone)]
pub struct Namespaces {
    api: Api<Namespace>,
    known: Arc<RwLock<HashMap<String, Arc<Known>>>>,
    /// Limits the log lines about failed lookups. Each write can cause one.
    failed_lookups: Arc<LogLimit>,
}

impl Namespaces {
    /// Returns an empty set. `follow` reads and watches the namespaces.
    pub fn new(host: &Host) -> Namespaces {
        Namespaces {
            api: Api::all(host.client.clone()),
            known: Arc::default(),
            failed_lookups: Arc::new(LogLimit::new()),
        }
    }

    /// Watches the host cluster until it is dropped.
    pub async fn follow(self) {
        let mut listed: HashMap<String, Arc<Known>> = HashMap::new();
        let failures = LogLimit::new();
        let mut events = pin!(watcher(self.api.clone(), watcher::Config::default()).backoff(Pauses::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(namespace)) => {
                    listed.insert(namespace.name_any(), known(&namespace));
                }
                Ok(Event::InitDone) => *self.write() = std::mem::take(&mut listed),
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

    /// Rejects the creation of an object in a namespace that is missing or terminating.
    pub async fn may_create(&self, resource: GroupResource, namespace: &str, name: &str) -> Result<(), Status> {
        match self.get(namespace).await?.is_terminating {
            true => Err(terminating(resource, namespace, name)),
            false => Ok(()),
        }
    }

    /// Returns whether a namespace has a label. A namespace that does not exist has none.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace could not be looked up.
    pub async fn has_label(&self, namespace: &str, label: &str, value: &str) -> Result<bool, Status> {
        match self.get(namespace).await {
            Ok(known) => Ok(known.labels.get(label).is_some_and(|it| it == value)),
            Err(missing) if missing.code == 404 => Ok(false),
            Err(failed) => Err(failed),
        }
    }

    /// Returns a namespace from the watch, or else from the host cluster, because it may be newer
    /// than the last event of the watch.
    ///
    /// # Errors
    ///
    /// Returns 404 if the namespace does not exist, and 500 if it could not be looked up.
    pub(super) async fn get(&self, namespace: &str) -> Result<Arc<Known>, Status> {
        match self.delivered(namespace) {
            Some(known) => Ok(known),
            None => self.look_up(namespace).await,
        }
    }

    /// Returns a namespace if the watch has delivered it.
    pub(super) fn delivered(&self, namespace: &str) -> Option<Arc<Known>> {
        self.known.read().expect("no panic while it is held").get(namespace).cloned()
    }

    async fn look_up(&self, namespace: &str) -> Result<Arc<Known>, Status> {
        let found = match tokio::time::timeout(LOOKUP_MAX, self.api.get_opt(namespace)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(self.unknown(namespace, &reviews::sentence(&error))),
            Err(_) => return Err(self.unknown(namespace, "no answer in time")),
        };
        let found = found.ok_or_else(|| Status::not_found(GroupResource::intern("namespaces"), namespace))?;
        Ok(known(&found))
    }

    /// Returns the error of a namespace that could not be looked up. The write is rejected (it
    /// fails closed).
    fn unknown(&self, namespace: &str, why: &str) -> Status {
        if let Some(left_out) = self.failed_lookups.pass() {
            tracing::error!(namespace, why, left_out, "failed to look up a namespace, so a write is refused");
        }
        let message = format!("Internal error occurred: namespace {namespace:?} could not be looked up");
        Status::failure(500, "InternalError", message)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, Arc<Known>>> {
        self.known.write().expect("no panic while it is held")
    }
}

fn known(namespace: &Namespace) -> Arc<Known> {
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
    Arc::new(Known { is_terminating, labels: namespace.labels().clone(), object: Arc::new(object) })
}

/// Returns the error for a terminating namespace, with kube-apiserver's text (AD2).
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
