//! Loops that turn what users ask for into changes of other objects. Each is a `mod.rs` that observes and
//! applies, and a `plan.rs` that decides (pure).
//!
//! Controllers know neither the scheduler nor each other: they meet in objects. They write through the
//! registry's client, so validation and generations hold for them too. Each write names the revision that
//! the plan was made from; on conflict the plan is thrown away and made again.

mod conditions;
mod failover;
mod member_cluster;
mod placement;
mod placements;
mod policy;
mod rebalancer;
mod rollout;
mod ttl;

use std::sync::Arc;

use crate::clock::Clock;
use crate::k8s::{GroupResource, Status, User};
use crate::registry::{Atomicity, Change, Client, Registry};
use crate::worker::Work;

pub use failover::Failover;
pub use member_cluster::MemberClusters;
pub use placements::Placements;
pub use policy::Policies;
pub use rebalancer::Rebalancer;
pub use ttl::Ttl;

const WORKLOAD_REBALANCERS: GroupResource = GroupResource::new("workloadrebalancers.apps.karmada.io");
const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

/// The controllers of the Karmada family, each under an identity of its own. Hand them to `worker::Workers::spawn`.
pub fn karmada(registry: &Arc<Registry>, clock: &Arc<dyn Clock>) -> Vec<Box<dyn Work>> {
    let client = |name: &str| -> Client { registry.client(User::component(name)) };
    vec![
        Box::new(Rebalancer::new(client("rebalancer"), Arc::clone(clock))),
        Box::new(Ttl::new(client("ttl"), Arc::clone(clock))),
        Box::new(Failover::new(client("failover"), Arc::clone(clock))),
        Box::new(Policies::new(client("policy"))),
    ]
}

/// The controllers of the Fleet family.
pub fn fleet(registry: &Arc<Registry>, clock: &Arc<dyn Clock>) -> Vec<Box<dyn Work>> {
    let placements = |name, look| -> Box<dyn Work> {
        Box::new(Placements::new(name, look, registry.client(User::component(name)), Arc::clone(clock)))
    };
    let clusters = MemberClusters::new(registry.client(User::component("member-cluster")), Arc::clone(clock));
    vec![placements("placement", placement::look), placements("rollout", rollout::look), Box::new(clusters)]
}

/// A batch of one.
async fn commit_one(client: &Client, change: (GroupResource, Change)) -> Result<(), Status> {
    let outcomes = client.batch(vec![change], Atomicity::Each).await?;
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}
