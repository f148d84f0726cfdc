//! Copies the inventory into the host cluster (IV6), where programs such as Argo CD and Kueue read
//! it.
//!
//! The host serves the group, which also contains ServiceExport and ServiceImport; so the objects
//! are stored in its CRDs, if they are installed.
//!
//! The log is the source of the copies, and this loop follows it. Objects in the host that another
//! program has created are not modified, whatever their name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{StreamExt, stream};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connect::Host;
use super::reviews::sentence;
use ballast_api::multicluster::v1alpha1::{API_VERSION, CLUSTER_PROFILES, PLACEMENT_DECISIONS};
use ballast_base::log_limit::LogLimit;
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::Client;
use ballast_watch::{Event, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Maximum number of objects that are copied concurrently. The host cluster has other clients.
const IN_FLIGHT: usize = 16;
/// Number of objects in one batch: a few rounds of requests.
const BATCH: usize = 64;
/// Timeout of one request.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Time for which the result of the check for the CRDs is cached.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Delay before a write that the host rejected is retried.
const REFUSED_MS: i64 = 60_000;
/// The key of the work that removes obsolete copies. No object has it.
const SWEEP: GroupResource = GroupResource::new("sweep.inventory.ballast.dev");
const MANAGER: &str = "ballast";
/// The label that distinguishes copies from objects of other programs.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

static TOLD: LogLimit = LogLimit::new();

/// Copies the profiles and decisions of the log into the host cluster.
pub struct HostInventory {
    client: Client,
    copier: Arc<Copier>,
}

impl HostInventory {
    pub fn new(client: Client, host: Host) -> HostInventory {
        HostInventory { client, copier: Arc::new(Copier { host, known: Mutex::default() }) }
    }
}

impl Work for HostInventory {
    fn name(&self) -> &'static str {
        "host-inventory"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![CLUSTER_PROFILES, PLACEMENT_DECISIONS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        let told = self.interest().into_iter().flat_map(|kind| view.list(kind, None));
        told.for_each(|object| queue.mark(object.key.clone(), 0));
        queue.mark(Key::cluster(SWEEP, ""), 0);
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        queue.mark(event.object.key.clone(), 0);
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (view, copier) = (self.client.view(), Arc::clone(&self.copier));
        async move {
            let has_crds = copier.has_crds().await;
            let work = |key: Key| {
                let (view, copier) = (&view, &copier);
                async move {
                    let next = match has_crds {
                        true => copier.follow(view, &key).await,
                        false => Next::After(REFUSED_MS),
                    };
                    KeyOutcome::new(key, next)
                }
            };
            let outcomes = stream::iter(keys).map(work).buffer_unordered(IN_FLIGHT).collect().await;
            BatchOutcome { outcomes, ..BatchOutcome::default() }
        }
        .boxed()
    }
}

struct Copier {
    host: Host,
    /// Whether the host has the CRDs, and when that was checked.
    known: Mutex<Option<(bool, Instant)>>,
}

/// The reason why an object was not copied.
enum Failure {
    /// The host did not respond, or is busy.
    Unavailable(String),
    /// Retrying soon would not help.
    Refused(String),
}

impl Copier {
    /// Returns whether the host serves the two kinds. Logs once if it does not.
    async fn has_crds(&self) -> bool {
        let known = *self.known();
        if let Some((has, at)) = known
            && at.elapsed() < LOOK_EVERY
        {
            return has;
        }
        let asked = self.host.client.list_api_group_resources(API_VERSION);
        let has = match tokio::time::timeout(CALL_MAX, asked).await {
            Ok(Ok(list)) => [CLUSTER_PROFILES, PLACEMENT_DECISIONS]
                .iter()
                .all(|kind| list.resources.iter().any(|resource| resource.name == kind.resource())),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => false,
            // The state is unknown. The copies themselves fail, and are retried.
            Ok(Err(_)) | Err(_) => return known.is_none_or(|(has, _)| has),
        };
        match (known, has) {
            (None | Some((true, _)), false) => tracing::warn!(
                group_version = API_VERSION,
                "the host cluster does not have the CRDs clusterprofiles and placementdecisions, so the inventory is \
                 not told: install those of kubernetes-sigs/cluster-inventory-api"
            ),
            (Some((false, _)), true) => tracing::info!("the host cluster has the CRDs of the inventory now"),
            _ => {}
        }
        *self.known() = Some((has, Instant::now()));
        has
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<(bool, Instant)>> {
        self.known.lock().expect("no panic while it is held")
    }

    /// Makes the host's object equal to the object in the view.
    async fn follow(&self, view: &View, key: &Key) -> Next {
        let done = match (key.resource == SWEEP, view.get(key)) {
            (true, _) => self.sweep(view).await,
            (false, Some(object)) => self.copy(object).await,
            (false, None) => self.remove(key).await,
        };
        let (why, next) = match done {
            Ok(()) => return Next::Done,
            Err(Failure::Unavailable(why)) => (why, Next::Retry),
            Err(Failure::Refused(why)) => (why, Next::After(REFUSED_MS)),
        };
        if TOLD.pass().is_some() {
            tracing::warn!(%key, why, "an object of the inventory is not told in the host cluster");
        }
        next
    }

    fn api(&self, key: &Key) -> Api<DynamicObject> {
        Api::namespaced_with(self.host.client.clone(), &key.namespace, &resource(key.resource))
    }

    async fn copy(&self, object: &Object) -> Result<(), Failure> {
        let (key, api) = (&object.key, self.api(&object.key));
        let unreadable = |_| Failure::Refused("it cannot be read".to_owned());
        let mut tree = object.value().map_err(unreadable)?;
        let status = tree.remove("status");
        let there = within(api.get_opt(&key.name)).await?;
        if there.as_ref().is_some_and(|there| !is_copy(there)) {
            let why = "another program has made an object of this name there; it stays as it is";
            return Err(Failure::Refused(why.to_owned()));
        }
        let kind = tree.get("kind").cloned().unwrap_or_default();
        let mut labels = tree["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
        let named = json!({"name": &*key.name, "namespace": &*key.namespace});
        let mut metadata = named.clone();
        metadata["labels"] = Value::Object(labels);
        tree.insert("metadata".to_owned(), metadata);
        let params = PatchParams::apply(MANAGER).force();
        within(api.patch(&key.name, &params, &Patch::Apply(&Value::Object(tree)))).await?;
        if let Some(status) = status {
            let body = json!({"apiVersion": API_VERSION, "kind": kind, "metadata": named, "status": status});
            within(api.patch_status(&key.name, &params, &Patch::Apply(&body))).await?;
        }
        Ok(())
    }

    async fn remove(&self, key: &Key) -> Result<(), Failure> {
        let api = self.api(key);
        match within(api.get_opt(&key.name)).await? {
            Some(there) if is_copy(&there) => delete(&api, &key.name).await,
            _ => Ok(()),
        }
    }

    /// Removes the copies of objects that no longer exist, because this process may have missed
    /// deletions.
    async fn sweep(&self, view: &View) -> Result<(), Failure> {
        for kind in [CLUSTER_PROFILES, PLACEMENT_DECISIONS] {
            let all: Api<DynamicObject> = Api::all_with(self.host.client.clone(), &resource(kind));
            let params = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGER}"));
            for there in within(all.list(&params)).await?.items.iter().filter(|there| is_copy(there)) {
                let key = Key::namespaced(kind, there.namespace().unwrap_or_default(), there.name_any());
                if view.get(&key).is_none() {
                    delete(&self.api(&key), &key.name).await?;
                }
            }
        }
        Ok(())
    }
}

fn resource(kind: GroupResource) -> ApiResource {
    let (name, plural) = match kind {
        CLUSTER_PROFILES => ("ClusterProfile", "clusterprofiles"),
        _ => ("PlacementDecision", "placementdecisions"),
    };
    let (group, version) = API_VERSION.split_once('/').expect("a group and a version");
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, name), plural)
}

fn is_copy(there: &DynamicObject) -> bool {
    there.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER)
}

async fn delete(api: &Api<DynamicObject>, name: &str) -> Result<(), Failure> {
    match within(api.delete(name, &DeleteParams::default())).await {
        Err(Failure::Refused(_)) if within(api.get_opt(name)).await?.is_none() => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Returns the response of the host cluster, with a timeout.
async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(CALL_MAX, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code < 500 && status.code != 429 && status.code != 409 => {
            Err(Failure::Refused(format!("{} {}: {}", status.code, status.reason, status.message)))
        }
        Ok(Err(error)) => Err(Failure::Unavailable(sentence(&error))),
        Err(_) => Err(Failure::Unavailable("the host cluster did not answer in time".to_owned())),
    }
}
