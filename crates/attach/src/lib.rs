//! Beside a Karmada: its API server keeps clusters, bindings and policies, and Ballast schedules
//! them from a reflector.
//!
//! - `reflector` lists and watches what is kept there (`ATTACHED_KINDS`), with kube's watchers.
//! - `applier` writes it into the log here, and knows which version upstream each object here is.
//! - `upstream_writes` carries Ballast's own writes there: the spec first, then the status.
//! - `events` tells there what became of bindings.
//! - `patch` says what such a write changes, and `upstream_object` is an object as it came.
//!
//! *Invariants:*
//! - Only the applier writes these kinds here, and it writes them as they are upstream: uid, times,
//!   generation, and fields that no schema here knows; only managed fields are left out. An
//!   unchanged object is not written.
//! - Every write names the version upstream that it was decided on. So nothing that others wrote
//!   meanwhile is lost, and the decision is made again.
//! - An own write is in the view here before it is acknowledged, so no decision follows from the
//!   state before it. Its echo brings nothing new.
//! - A write that was cut off after its first half is finished by the next pass. What is missing
//!   then is the status, and with it the answer to a trigger: the pass is repeated, never lost.

mod upstream_object;
mod events;
mod upstream_writes;
mod applier;
mod reflector;
mod patch;
mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use ballast_base::metrics;
use ballast_k8s::GroupResource;
use ballast_resource::{Kinds, ResourceKind};
use ballast_watch::{Cache, Writer};

use applier::Applier;
use progress::ProgressReporter;
use upstream_writes::WriteLimits;

pub use events::UpstreamEvents;
pub use progress::Progress;

/// The kinds whose home is the API server that Ballast is attached to: what scheduling and reviews
/// read.
pub const ATTACHED_KINDS: [GroupResource; 5] = [
    GroupResource::new("clusters.cluster.karmada.io"),
    GroupResource::new("clusterpropagationpolicies.policy.karmada.io"),
    GroupResource::new("propagationpolicies.policy.karmada.io"),
    GroupResource::new("clusterresourcebindings.work.karmada.io"),
    GroupResource::new("resourcebindings.work.karmada.io"),
];

/// The longest that an upstream which asks for a pause is left alone. It may be restarted sooner
/// than it thinks.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// An API server to attach to.
#[derive(Clone)]
pub struct Upstream {
    pub client: Client,
    /// For messages.
    pub url: String,
}

/// What Ballast may do upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    /// Every write to a kind that is kept there is refused here.
    ReadOnly,
}

/// How much of the upstream is reflected. By default all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReflectorScope {
    /// Of the kinds that have namespaces, only what is in this one. `None`: what is in any.
    pub namespace: Option<String>,
    /// Kinds that are left out. Here they look as if there were none.
    pub without: BTreeSet<GroupResource>,
}

/// The API server that Ballast is attached to: the reflector of what it keeps, and the way back.
pub struct Attached {
    upstream: Upstream,
    access: Access,
    scope: ReflectorScope,
    rows: BTreeMap<GroupResource, Arc<ResourceKind>>,
    applier: Applier,
    limits: WriteLimits,
    reporter: ProgressReporter,
}

impl Attached {
    /// Does nothing until `run` is called. `cache` and `writer` are those of the log here, which
    /// no other process may write to.
    pub fn new(
        upstream: Upstream,
        access: Access,
        scope: ReflectorScope,
        kinds: &Kinds,
        cache: Cache,
        writer: Writer,
    ) -> Attached {
        let attached =
            kinds.rows().iter().filter(|row| row.is_stored_version() && ATTACHED_KINDS.contains(&row.resource));
        let rows: BTreeMap<_, _> = attached.map(|row| (row.resource, Arc::clone(row))).collect();
        let reflected = rows.keys().filter(|kind| !scope.without.contains(*kind)).copied().collect();
        metrics::upstream_synced(false);
        Attached {
            upstream,
            access,
            scope,
            rows,
            applier: Applier::new(cache, writer),
            limits: WriteLimits::default(),
            reporter: ProgressReporter::of(reflected),
        }
    }

    /// Whether the upstream wants to be left alone for a while.
    fn is_paused(&self) -> bool {
        self.limits.is_paused()
    }

    /// The upstream, for messages.
    fn url(&self) -> &str {
        &self.upstream.url
    }

    /// How far the reflector is.
    pub fn progress(&self) -> Progress {
        self.reporter.progress()
    }
}
