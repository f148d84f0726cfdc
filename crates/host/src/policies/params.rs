//! Parameter objects of policies: any kind of the host cluster, listed and watched while a policy
//! with a binding names it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, SelectorExt};
use kube::discovery::{Scope, pinned_kind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::connect::Host;
use crate::first_read::FirstRead;
use crate::pauses::Pauses;
use crate::rules::selector;
use ballast_base::log_limit::LogLimit;
use ballast_base::telemetry;
use ballast_policies::{ParamKind, ParamRef};

/// Timeout for the first list of a kind, as in kube-apiserver.
const FIRST_LIST_MAX: Duration = Duration::from_secs(1);
/// Timeout for looking up an object that the watch has not delivered (yet).
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// Pause before the discovery of a kind is retried.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(2);

/// The objects of one kind.
#[derive(Default)]
struct Objects {
    known: RwLock<BTreeMap<(String, String), Arc<Value>>>,
    first_read: FirstRead,
    /// Set when the kind has been found.
    found: OnceLock<(ApiResource, bool)>,
}

/// The objects of all kinds that policies name.
pub struct Params {
    host: Host,
    kinds: Mutex<BTreeMap<ParamKind, Arc<Objects>>>,
    wanted: tokio::sync::watch::Sender<BTreeSet<ParamKind>>,
}

/// The parameter object of a policy. `None`: the policy is evaluated without one.
pub type Param = Option<Arc<Value>>;

impl Params {
    pub fn new(host: Host) -> Params {
        Params { host, kinds: Mutex::default(), wanted: tokio::sync::watch::Sender::default() }
    }

    /// Watches these kinds from now on, and no others.
    pub fn want(&self, wanted: BTreeSet<ParamKind>) {
        let mut kinds = self.kinds.lock().expect("no panic while it is held");
        kinds.retain(|kind, _| wanted.contains(kind));
        for kind in &wanted {
            kinds.entry(kind.clone()).or_default();
        }
        drop(kinds);
        self.wanted.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
    }

    /// Watches the wanted kinds until it is dropped.
    pub async fn follow(&self) {
        let mut wanted = self.wanted.subscribe();
        let mut tasks = JoinSet::new();
        let mut running = BTreeMap::new();
        loop {
            let kinds = self.kinds.lock().expect("no panic while it is held").clone();
            running.retain(|kind, task: &mut tokio::task::AbortHandle| {
                let is_wanted = kinds.contains_key(kind);
                if !is_wanted {
                    task.abort();
                }
                is_wanted
            });
            for (kind, objects) in kinds {
                running
                    .entry(kind)
                    .or_insert_with_key(|kind| tasks.spawn(follow_kind(self.host.clone(), kind.clone(), objects)));
            }
            while tasks.try_join_next().is_some() {}
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the objects that a binding names, for a write in this namespace. `None` if there are
    /// none and the binding allows that.
    ///
    /// # Errors
    ///
    /// Returns kube-apiserver's message.
    pub async fn collect(
        &self,
        kind: Option<&ParamKind>,
        reference: Option<&ParamRef>,
        namespace: &str,
    ) -> Result<Vec<Param>, String> {
        let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
        let shown = format!("&ParamKind{{APIVersion:{},Kind:{},}}", kind.api_version, kind.kind);
        let objects = self.kinds.lock().expect("no panic while it is held").get(kind).cloned();
        let objects = objects.ok_or_else(|| format!("paramKind kind `{shown}` not known"))?;
        if tokio::time::timeout(FIRST_LIST_MAX, objects.first_read.done()).await.is_err() {
            return Err(match objects.found.get() {
                Some(_) => format!("paramKind kind `{shown}` not yet synced to use for admission"),
                None => format!("paramKind kind `{shown}` not known"),
            });
        }
        let Some((resource, is_namespaced)) = objects.found.get() else {
            return Err(format!("paramKind kind `{shown}` not known"));
        };
        let place = match (*is_namespaced, reference.namespace.as_str(), namespace) {
            (true, "", "") => {
                let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.to_owned());
            }
            (true, "", namespace) | (true, namespace, _) => namespace,
            (false, "", _) => "",
            (false, ..) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
        };
        let found: Vec<Param> = match (reference.name.as_str(), &reference.selector) {
            ("", None) => return Err("one of name or selector must be provided".to_owned()),
            ("", Some(selector)) => objects.selected(place, selector)?.into_iter().map(Some).collect(),
            (name, _) => match objects.named(place, name) {
                Some(object) => vec![Some(object)],
                None => self.look_up(resource, place, name).await?.into_iter().map(Some).collect(),
            },
        };
        let is_denied = reference.parameter_not_found_action.as_deref() == Some("Deny");
        match found.is_empty() && is_denied {
            true => Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()),
            false => Ok(found),
        }
    }

    /// Reads an object that the watch has not delivered. It may be newer than the last event.
    async fn look_up(&self, resource: &ApiResource, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, String> {
        let client = self.host.client.clone();
        let api: Api<DynamicObject> = match namespace {
            "" => Api::all_with(client, resource),
            namespace => Api::namespaced_with(client, namespace, resource),
        };
        match tokio::time::timeout(LOOKUP_MAX, api.get_opt(name)).await {
            Ok(Ok(found)) => Ok(found.map(|object| shown(object, resource))),
            Ok(Err(error)) => Err(crate::reviews::sentence(&error)),
            Err(_) => Err(format!("no answer in {LOOKUP_MAX:?}")),
        }
    }
}

impl Objects {
    fn named(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let known = self.known.read().expect("no panic while it is held");
        known.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn selected(&self, namespace: &str, wanted: &Value) -> Result<Vec<Arc<Value>>, String> {
        let wanted: LabelSelector = serde_json::from_value(wanted.clone()).map_err(|error| error.to_string())?;
        let wanted = selector(Some(wanted))?;
        let known = self.known.read().expect("no panic while it is held");
        let is_selected =
            |object: &Value| object.as_object().is_some_and(|it| wanted.matches(&crate::rules::labels(it)));
        let in_place = known.iter().filter(|((place, _), object)| place == namespace && is_selected(object));
        Ok(in_place.map(|(_, object)| Arc::clone(object)).collect())
    }
}

async fn follow_kind(host: Host, kind: ParamKind, objects: Arc<Objects>) {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
    let gvk = GroupVersionKind::gvk(group, version, &kind.kind);
    let mut is_told = false;
    let resource = loop {
        match pinned_kind(&host.client, &gvk).await {
            Ok((resource, capabilities)) => {
                let _found_once = objects.found.set((resource.clone(), capabilities.scope == Scope::Namespaced));
                break resource;
            }
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    let error = telemetry::with_causes(&error);
                    tracing::warn!(%kind, error, "failed to find a kind that configures policies");
                }
                tokio::time::sleep(DISCOVERY_PAUSE).await;
            }
        }
    };
    let api: Api<DynamicObject> = Api::all_with(host.client.clone(), &resource);
    let (mut listed, failures) = (BTreeMap::new(), LogLimit::new());
    let key = |object: &DynamicObject| (object.namespace().unwrap_or_default(), object.name_any());
    let mut events = pin!(watcher(api, watcher::Config::default()).backoff(Pauses::default()));
    while let Some(event) = events.next().await {
        let write = || objects.known.write().expect("no panic while it is held");
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => drop(listed.insert(key(&object), shown(object, &resource))),
            Ok(Event::InitDone) => {
                *write() = std::mem::take(&mut listed);
                objects.first_read.end();
            }
            Ok(Event::Apply(object)) => drop(write().insert(key(&object), shown(object, &resource))),
            Ok(Event::Delete(object)) => drop(write().remove(&key(&object))),
            Err(error) => {
                if failures.pass().is_some() {
                    let error = telemetry::with_causes(&error);
                    tracing::warn!(%kind, error, "failed to watch objects that configure policies");
                }
            }
        }
    }
}

/// Returns the object as a value for expressions.
fn shown(mut object: DynamicObject, resource: &ApiResource) -> Arc<Value> {
    object.metadata.managed_fields = None;
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = Value::from(resource.api_version.as_str());
    value["kind"] = Value::from(resource.kind.as_str());
    Arc::new(value)
}
