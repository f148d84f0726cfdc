//! Beside a Karmada: its API server keeps clusters, bindings and policies, and Ballast schedules
//! them from a mirror.
//!
//! - `mirror` lists and watches what is kept there (`HOMED`), with kube's watchers.
//! - `ledger` writes it into the log here, and knows which version at home each object here is.
//! - `home` carries Ballast's own writes there: the spec first, then the status.
//! - `events` tells there what became of bindings.
//! - `patch` says what such a write changes, and `arrival` is an object as it came.
//!
//! *Invariants:*
//! - Only the ledger writes these kinds here, and it writes them as they are at home: uid, times,
//!   generation, and fields that no schema here knows; only managed fields are left out. An
//!   unchanged object is not written.
//! - Every write names the version at home that it was decided on. So nothing that others wrote
//!   meanwhile is lost, and the decision is made again.
//! - An own write is in the view here before it is acknowledged, so no decision follows from the
//!   state before it. Its echo brings nothing new.
//! - A write that was cut off after its first half is finished by the next pass. What is missing
//!   then is the status, and with it the answer to a trigger: the pass is repeated, never lost.

mod arrival;
mod events;
mod home;
mod ledger;
mod mirror;
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

use home::Outbox;
use ledger::Ledger;
use progress::Reports;

pub use events::HomeEvents;
pub use progress::Progress;

/// The kinds whose home is the API server that Ballast is attached to: what scheduling and reviews
/// read.
pub const HOMED: [GroupResource; 5] = [
    GroupResource::new("clusters.cluster.karmada.io"),
    GroupResource::new("clusterpropagationpolicies.policy.karmada.io"),
    GroupResource::new("propagationpolicies.policy.karmada.io"),
    GroupResource::new("clusterresourcebindings.work.karmada.io"),
    GroupResource::new("resourcebindings.work.karmada.io"),
];

/// The longest that a home which asks for a pause is left alone. It may be restarted sooner than
/// it thinks.
const REST_MAX: Duration = Duration::from_secs(30);

/// An API server to attach to.
#[derive(Clone)]
pub struct Place {
    pub client: Client,
    /// For messages.
    pub url: String,
}

/// What Ballast may do at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    /// Every write to a kind that is kept there is refused here.
    ReadOnly,
}

/// How much of the home is mirrored. By default all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Of the kinds that have namespaces, only what is in this one. `None`: what is in any.
    pub namespace: Option<String>,
    /// Kinds that are left out. Here they look as if there were none.
    pub without: BTreeSet<GroupResource>,
}

/// The API server that Ballast is attached to: the mirror of what it keeps, and the way back.
pub struct Attached {
    place: Place,
    access: Access,
    reach: Reach,
    rows: BTreeMap<GroupResource, Arc<ResourceKind>>,
    ledger: Ledger,
    outbox: Outbox,
    reports: Reports,
}

impl Attached {
    /// Does nothing until `follow` is called. `cache` and `writer` are those of the log here, which
    /// no other process may write to.
    pub fn new(place: Place, access: Access, reach: Reach, kinds: &Kinds, cache: Cache, writer: Writer) -> Attached {
        let homed = kinds.rows().iter().filter(|row| row.is_stored_version() && HOMED.contains(&row.resource));
        let rows: BTreeMap<_, _> = homed.map(|row| (row.resource, Arc::clone(row))).collect();
        let mirrored = rows.keys().filter(|kind| !reach.without.contains(*kind)).copied().collect();
        metrics::home_in_step(false);
        Attached {
            place,
            access,
            reach,
            rows,
            ledger: Ledger::new(cache, writer),
            outbox: Outbox::default(),
            reports: Reports::of(mirrored),
        }
    }

    /// Whether the home wants to be left alone for a while.
    fn is_resting(&self) -> bool {
        self.outbox.is_resting()
    }

    /// The home, for messages.
    fn url(&self) -> &str {
        &self.place.url
    }

    /// How far the mirror is.
    pub fn progress(&self) -> Progress {
        self.reports.progress()
    }
}
