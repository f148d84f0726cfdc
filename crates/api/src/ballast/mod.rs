//! The kinds of Ballast's own API group: safe rebalancing.
//!
//! WorkloadRebalancer and RescheduleTask trigger scheduling. The kinds of this group are for
//! operators responsible for the effects of a trigger: they preview the effects, bound them while
//! they happen, report the result, and undo it.

pub mod v1alpha1;

use ballast_resource::ResourceKind;

/// The kinds of this group, in the order of discovery.
pub fn rows() -> Vec<ResourceKind> {
    vec![
        ResourceKind::of::<v1alpha1::ClusterMove>(),
        ResourceKind::of::<v1alpha1::ClusterRebalance>(),
        ResourceKind::of::<v1alpha1::EvictionLimit>(),
        ResourceKind::of::<v1alpha1::FleetReview>(),
        ResourceKind::of::<v1alpha1::LocalFleetReview>(),
        ResourceKind::of::<v1alpha1::LocalPlacementReview>(),
        ResourceKind::of::<v1alpha1::Move>(),
        ResourceKind::of::<v1alpha1::PlacementReview>(),
        ResourceKind::of::<v1alpha1::Rebalance>(),
        ResourceKind::of::<v1alpha1::RebalanceSchedule>(),
    ]
}
