//! Labels, annotations, finalizers and names that connect the objects of a placement.

use crate::meta::ObjectMeta;
use ballast_k8s::GroupResource;
use ballast_resource::SqlColumn;

/// Label of bindings and snapshots: the name of their placement, of either scope.
pub const PARENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";
/// SQL column with the placement of a binding or snapshot.
pub(super) const PLACEMENT_COLUMN: SqlColumn = SqlColumn::field("placement", &["metadata", "labels", PARENT_LABEL]);
/// Label of snapshots: `true` on the active one.
pub const IS_LATEST_LABEL: &str = "kubernetes-fleet.io/is-latest-snapshot";
/// Label of policy snapshots: the index, which counts up from 0.
pub const POLICY_INDEX_LABEL: &str = "kubernetes-fleet.io/policy-index";
/// Label of resource snapshots: the index, which counts up from 0.
pub const RESOURCE_INDEX_LABEL: &str = "kubernetes-fleet.io/resource-index";

/// Annotation of a policy snapshot: the number of clusters that its placement currently requests.
pub const NUMBER_OF_CLUSTERS: &str = "kubernetes-fleet.io/number-of-clusters";
/// Annotation of a policy snapshot: the generation of the placement that it was created for.
pub const PLACEMENT_GENERATION: &str = "kubernetes-fleet.io/CRP-generation";
/// Annotation of an Unscheduled binding: its previous state.
pub const PREVIOUS_STATE: &str = "kubernetes-fleet.io/previous-binding-state";

/// Finalizer of a placement: the scheduler has to remove its bindings first.
pub const SCHEDULER_CLEANUP: &str = "kubernetes-fleet.io/scheduler-cleanup";
/// Finalizer of a placement: its controller has to remove its snapshots first.
pub const PLACEMENT_CLEANUP: &str = "kubernetes-fleet.io/crp-cleanup";
/// Finalizer of a binding: the scheduler has to handle its deletion first.
pub const SCHEDULER_FINALIZER: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";

/// The clusters that placements can select.
pub const MEMBER_CLUSTERS: GroupResource = GroupResource::new("memberclusters.cluster.kubernetes-fleet.io");

/// Maximum length of the part of a binding's name that comes from its placement. The next constant
/// is the maximum for its cluster.
const PLACEMENT_PART_MAX: usize = 26;
const CLUSTER_PART_MAX: usize = 27;

/// Returns whether the snapshot with this metadata is labelled as the latest one.
pub fn is_latest(metadata: &ObjectMeta) -> bool {
    metadata.labels.get(IS_LATEST_LABEL).is_some_and(|value| value == "true")
}

/// Returns the prefix of the names of all bindings of a placement. Names of bindings of other
/// placements may have it too, so callers check the label.
pub fn binding_prefix(placement: &str) -> &str {
    part(placement, PLACEMENT_PART_MAX)
}

/// Returns the name of a binding: `<placement>-<cluster>-<8 hex digits>`, at most 63 characters
/// (R168).
pub fn binding_name(placement: &str, cluster: &str, chance: u64) -> String {
    let suffix = chance & u64::from(u32::MAX);
    format!("{}-{}-{suffix:08x}", part(placement, PLACEMENT_PART_MAX), part(cluster, CLUSTER_PART_MAX))
}

/// Truncates a name to `max` characters. The result does not end with a dash or a dot, because the
/// value of a label must not.
fn part(name: &str, max: usize) -> &str {
    let end = name.char_indices().map(|(index, _)| index).nth(max).unwrap_or(name.len());
    name[..end].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r168_names_fit_into_a_label_and_keep_their_prefix() {
        assert_eq!(binding_name("crp-1", "aks-member-1", 0x2f8f_e606), "crp-1-aks-member-1-2f8fe606");
        let (placement, cluster) = ("p".repeat(25) + "-more", "c".repeat(63));
        let name = binding_name(&placement, &cluster, u64::MAX);
        assert_eq!(name, format!("{}-{}-ffffffff", "p".repeat(25), "c".repeat(27)));
        assert!(name.len() <= 63 && name.starts_with(binding_prefix(&placement)));
    }
}
