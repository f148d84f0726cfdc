//! The kinds of Ballast's own group: safe rebalancing.
//!
//! WorkloadRebalancer and RescheduleTask are triggers. The kinds of this group are for who answers
//! for what a trigger does: they show it before, bound it while it runs, say what came of it, and
//! take it back.

pub mod v1alpha1;

use ballast_resource::ResourceKind;

/// The kinds of this group, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![
        ResourceKind::of::<v1alpha1::ClusterMove>(),
        ResourceKind::of::<v1alpha1::ClusterRebalance>(),
        ResourceKind::of::<v1alpha1::LocalPlacementReview>(),
        ResourceKind::of::<v1alpha1::Move>(),
        ResourceKind::of::<v1alpha1::PlacementReview>(),
        ResourceKind::of::<v1alpha1::Rebalance>(),
        ResourceKind::of::<v1alpha1::RebalanceSchedule>(),
    ]
}
