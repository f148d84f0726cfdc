//! Differences of a server that is attached to a Karmada (`attach`): the kinds it serves, the
//! workers that run, and the flags it cannot be combined with.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use serde_json::{Map, Value};
use tokio::task::JoinHandle;

use super::UsageError;
use super::config::{AttachArgs, ServeArgs};
use super::kubeconfig::KubeconfigArgs;
use ballast_api::ballast::v1alpha1::{ClusterRebalance, Rebalance, RebalanceSchedule};
pub use ballast_attach::Progress;
use ballast_attach::{ATTACHED_KINDS, Access, Attached, ReflectorScope, Upstream, UpstreamEvents};
use ballast_engine::karmada::Profile;
use ballast_k8s::Status;
use ballast_registry::{AdmissionAttributes, Registry, Validator};
use ballast_resource::{Kinds, Resource, ResourceKind};
use ballast_server::{Check, Counts};
use ballast_store as store;
use ballast_watch::{Cache, Writer};
use ballast_worker::events::Sink;

/// The API server that this server is attached to, and the access to it.
pub struct Attachment {
    pub upstream: Upstream,
    pub access: Access,
    pub scope: ReflectorScope,
}

impl Attachment {
    /// Connects to the API server that the flags name. `None` without `--attach`.
    pub async fn from_flags(args: &ServeArgs) -> anyhow::Result<Option<Attachment>> {
        let Some(file) = &args.attach.attach else { return Ok(None) };
        let named = KubeconfigArgs { kubeconfig: Some(file.clone()), ..KubeconfigArgs::default() };
        let connected = named.connect().await?;
        let upstream = Upstream { client: connected.client, url: connected.url };
        Ok(Some(Attachment { upstream, access: Access::ReadWrite, scope: ReflectorScope::default() }))
    }

    /// Checks that the other flags can be combined with `--attach`.
    pub fn check(&self, args: &ServeArgs) -> Result<(), UsageError> {
        if store::is_server(&args.database_url) {
            let what = "--attach: each server keeps a mirror of its own, so use a database of its own: `memory:` or \
                        `sqlite://PATH`";
            return Err(UsageError(what.to_owned()));
        }
        Ok(())
    }

    /// Returns a client of the API server that this server is attached to.
    pub fn client(&self) -> Client {
        self.upstream.client.clone()
    }

    /// Starts the reflector.
    pub fn start(self, kinds: &Kinds, cache: &Cache, writer: &Writer) -> RunningReflector {
        let Attachment { upstream, access, scope } = self;
        tracing::info!(home = upstream.url, ?access, "attached");
        let attached = Arc::new(Attached::new(upstream, access, scope, kinds, cache.clone(), writer.clone()));
        let task = tokio::spawn(Arc::clone(&attached).run());
        RunningReflector { progress: attached.progress(), attached, access, task }
    }
}

/// A running reflector.
pub struct RunningReflector {
    pub attached: Arc<Attached>,
    pub access: Access,
    pub progress: Progress,
    pub task: JoinHandle<()>,
}

impl RunningReflector {
    /// Returns the sink that posts events upstream, if it is enabled.
    pub fn events(&self, args: &AttachArgs) -> Option<Arc<dyn Sink>> {
        let is_wanted = args.attach_events && self.access == Access::ReadWrite;
        is_wanted.then(|| Arc::new(UpstreamEvents::new(Arc::clone(&self.attached))) as Arc<dyn Sink>)
    }
}

/// Turns the registry into the registry of an attached server, which writes attached kinds
/// upstream.
///
/// A read-only server rejects rebalances, because no worker would carry them out. Without a
/// reflector the registry is unchanged.
pub fn attach(
    registry: Registry,
    reflector: Option<RunningReflector>,
) -> (Registry, Option<Progress>, Option<JoinHandle<()>>) {
    let Some(RunningReflector { attached, access, progress, task }) = reflector else {
        return (registry, None, None);
    };
    let registry = registry.with_remote_store(attached);
    if access == Access::ReadWrite {
        return (registry, Some(progress), Some(task));
    }
    let moved: Arc<dyn Validator> = Arc::new(RefuseRebalances);
    let registry = [Rebalance::resource(), ClusterRebalance::resource(), RebalanceSchedule::resource()]
        .into_iter()
        .fold(registry, |registry, kind| registry.with_validator(kind, Arc::clone(&moved)));
    (registry, Some(progress), Some(task))
}

/// Rejects rebalances except dry runs, which move nothing.
struct RefuseRebalances;

#[async_trait]
impl Validator for RefuseRebalances {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        _: &mut Map<String, Value>,
        _: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if attributes.dry_run() {
            return Ok(());
        }
        let why = "this server only reads what is kept elsewhere, so it carries out no rebalance: `ballast serve \
                   --attach` does";
        Err(Status::forbidden(attributes.row.resource, attributes.name, why))
    }
}

/// Returns the kinds of an attached server: those stored upstream, and Ballast's own. Other kinds
/// of Karmada's groups are not served, because this server does not have their objects.
pub fn kinds(kinds: &Kinds) -> Kinds {
    let is_served = |row: &&Arc<ResourceKind>| {
        let is_karmadas = row.group.ends_with("karmada.io") && row.group != "task.karmada.io";
        !is_karmadas || ATTACHED_KINDS.contains(&row.resource)
    };
    Kinds::new(kinds.rows().iter().filter(is_served).map(|row| (**row).clone()).collect())
}

/// Returns the profile of an attached server.
///
/// Karmada's webhooks enforce the quotas. A binding that no policy manages any more keeps its
/// placement: when a policy is deleted, Karmada's detector removes the labels and leaves the
/// placement.
pub fn profile(profile: Profile) -> Profile {
    Profile { federated_quotas: false, unmanaged: false, ..profile }
}

/// Returns a readiness check that fails until everything was listed once. Until then, objects may
/// be missing.
pub fn check(progress: Progress) -> Check {
    Check::new("karmada", Counts::Ready, move || {
        if progress.is_synced() {
            return Ok(());
        }
        let missing: Vec<&str> = progress.missing().into_iter().map(|kind| kind.as_str()).collect();
        let why = progress.fault().map(|fault| format!("; {fault}")).unwrap_or_default();
        Err(format!("not listed yet: {}{why}", missing.join(", ")))
    })
}
