//! `apps.karmada.io/v1alpha1`

mod workload_rebalancer;

pub use workload_rebalancer::{
    ObjectReference, ObservedWorkload, REFERENCED_BINDING_NOT_FOUND, RebalanceResult, WorkloadRebalancer,
    WorkloadRebalancerSpec, WorkloadRebalancerStatus,
};
