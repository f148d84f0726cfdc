//! Decides whether a Cluster carries the finalizer. Pure.

use ballast_k8s::Key;

/// Upstream's finalizer, under its upstream name, because Karmada's cluster controller waits for
/// the same.
pub const FINALIZER: &str = "karmada.io/cluster-controller";

#[derive(Clone, Copy, Debug)]
pub struct ObservedCluster<'a> {
    pub is_deleting: bool,
    pub finalizers: &'a [String],
    /// A binding that is still placed on the cluster.
    pub holder: Option<&'a Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalizerPlan {
    Keep,
    /// Replace the finalizers of the cluster by these.
    Write(Vec<String>),
    /// Wait for a binding to leave the cluster, which is being deleted.
    Wait,
}

pub fn plan(observed: ObservedCluster<'_>) -> FinalizerPlan {
    let ObservedCluster { is_deleting, finalizers, holder } = observed;
    let has_finalizer = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    match (is_deleting, has_finalizer, holder) {
        (false, false, _) => FinalizerPlan::Write(finalizers.iter().cloned().chain([FINALIZER.to_owned()]).collect()),
        (true, true, None) => {
            FinalizerPlan::Write(finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect())
        }
        (true, true, Some(_)) => FinalizerPlan::Wait,
        (false, true, _) | (true, false, _) => FinalizerPlan::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::karmada::work::v1alpha2::key_of_workload;

    fn check(is_deleting: bool, finalizers: &[&str], is_held: bool, expected: FinalizerPlan) {
        let finalizers: Vec<String> = finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
        let holder = key_of_workload("Deployment", "shop", "web");
        let holder = is_held.then_some(&holder);
        assert_eq!(plan(ObservedCluster { is_deleting, finalizers: &finalizers, holder }), expected);
    }

    fn write(finalizers: &[&str]) -> FinalizerPlan {
        FinalizerPlan::Write(finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect())
    }

    #[test]
    fn every_cluster_has_the_finalizer_once() {
        check(false, &["other"], false, write(&["other", FINALIZER]));
        check(false, &[FINALIZER], true, FinalizerPlan::Keep);
    }

    #[test]
    fn a_deleted_cluster_loses_it_when_no_binding_is_placed_there() {
        check(true, &["other", FINALIZER], true, FinalizerPlan::Wait);
        check(true, &["other", FINALIZER], false, write(&["other"]));
        check(true, &["other"], true, FinalizerPlan::Keep);
    }
}
