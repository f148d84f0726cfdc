//! Decides the snapshots of a placement: of the policy in force, and of the resources to place.
//! Pure.
//!
//! A policy that differs in more than its number of clusters gets a new snapshot. A different
//! number alone changes an annotation of the current snapshot, so that nothing moves needlessly
//! (R176). A trigger creates a new snapshot of the same policy. The bindings of the former snapshot
//! are compared with it, and moved as the strategy allows. Old snapshots are kept up to the
//! placement's limit.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use ballast_api::fleet::placement::v1beta1::names::{
    IS_LATEST_LABEL, NUMBER_OF_CLUSTERS, PARENT_LABEL, PLACEMENT_CLEANUP, PLACEMENT_GENERATION, POLICY_INDEX_LABEL,
    RESOURCE_INDEX_LABEL, is_latest,
};
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::fleet::placement::v1beta1::{
    AnyPlacement, AnyPolicySnapshot, AnyResourceSnapshot, PlacementPolicy, PlacementType, ResourceSnapshotSpec,
    SchedulingPolicySnapshotSpec,
};
use ballast_api::meta::ObjectMeta;

const REVISION_HISTORY_LIMIT: usize = 10;
const RESOURCE_HASH: &str = "kubernetes-fleet.io/resource-hash";
const NUMBER_OF_RESOURCE_SNAPSHOTS: &str = "kubernetes-fleet.io/number-of-resource-snapshots";

/// A placement and its snapshots, in any order.
#[derive(Clone, Copy)]
pub struct ObservedPlacement<'a> {
    pub placement: &'a AnyPlacement,
    pub policies: &'a [AnyPolicySnapshot],
    pub resources: &'a [AnyResourceSnapshot],
    /// Whether a policy snapshot has that name, including snapshots without a label, which a
    /// client may have removed.
    pub is_taken: &'a dyn Fn(&str) -> bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ObjectWrite<T> {
    Create(T),
    Update(T),
    /// The object with this name.
    Delete(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementPlan {
    /// The placement's finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
    pub policies: Vec<ObjectWrite<AnyPolicySnapshot>>,
    pub resources: Vec<ObjectWrite<AnyResourceSnapshot>>,
}

pub fn plan(observed: &ObservedPlacement<'_>) -> PlacementPlan {
    let placement = observed.placement;
    let finalizers = &placement.metadata.finalizers;
    let is_held = finalizers.iter().any(|finalizer| finalizer == PLACEMENT_CLEANUP);
    if placement.metadata.deletion_timestamp.is_some() {
        return clear_away(observed, is_held);
    }
    let mut plan = PlacementPlan {
        policies: policies(placement, observed.policies, observed.is_taken),
        resources: resources(placement, observed.resources),
        ..PlacementPlan::default()
    };
    if !is_held {
        plan.finalizers = Some([finalizers.as_slice(), &[PLACEMENT_CLEANUP.to_owned()]].concat());
    }
    plan
}

/// Deletes the snapshots first, then the cleanup finalizer.
fn clear_away(observed: &ObservedPlacement<'_>, is_held: bool) -> PlacementPlan {
    let mut plan = PlacementPlan::default();
    plan.policies.extend(observed.policies.iter().map(|snapshot| ObjectWrite::Delete(name(&snapshot.metadata))));
    plan.resources.extend(observed.resources.iter().map(|snapshot| ObjectWrite::Delete(name(&snapshot.metadata))));
    if is_held && plan.policies.is_empty() && plan.resources.is_empty() {
        let mut finalizers = observed.placement.metadata.finalizers.clone();
        finalizers.retain(|finalizer| finalizer != PLACEMENT_CLEANUP);
        plan.finalizers = Some(finalizers);
    }
    plan
}

fn policies(
    placement: &AnyPlacement,
    known: &[AnyPolicySnapshot],
    is_taken: &dyn Fn(&str) -> bool,
) -> Vec<ObjectWrite<AnyPolicySnapshot>> {
    let policy = placement.spec.policy.as_ref();
    let hash = policy_hash(policy);
    let mut by_index: Vec<&AnyPolicySnapshot> = known.iter().collect();
    by_index.sort_by_key(|snapshot| index(&snapshot.metadata, POLICY_INDEX_LABEL));
    let mut writes = Vec::new();
    // The newest snapshot with this policy is in force, unless a trigger came since. After a crash,
    // two snapshots may be marked as the latest.
    let current = by_index.iter().rposition(|snapshot| {
        let metadata = &snapshot.metadata;
        is_latest(metadata) && snapshot.spec.policy_hash == hash && trigger::is_served(&placement.metadata, metadata)
    });
    for (position, snapshot) in by_index.iter().enumerate() {
        let mut mended = AnyPolicySnapshot::clone(snapshot);
        if Some(position) == current {
            annotate(&mut mended.metadata, placement);
        } else if is_latest(&snapshot.metadata) {
            mended.metadata.labels.insert(IS_LATEST_LABEL.to_owned(), "false".to_owned());
        }
        if mended != **snapshot {
            writes.push(ObjectWrite::Update(mended));
        }
    }
    if current.is_some() {
        return writes;
    }
    // Keeps the number of snapshots within the limit. The oldest are deleted, so their labels need
    // no correction.
    let limit = placement.spec.revision_history_limit.and_then(|limit| usize::try_from(limit).ok());
    let surplus = (by_index.len() + 1).saturating_sub(limit.unwrap_or(REVISION_HISTORY_LIMIT));
    for snapshot in &by_index[..surplus.min(by_index.len())] {
        let name = name(&snapshot.metadata);
        writes.retain(
            |write| !matches!(write, ObjectWrite::Update(mended) if mended.metadata.name.as_ref() == Some(&name)),
        );
        writes.push(ObjectWrite::Delete(name));
    }
    let next = by_index.last().map_or(0, |snapshot| index(&snapshot.metadata, POLICY_INDEX_LABEL) + 1);
    let named = |index: u64| format!("{}-{index}", name(&placement.metadata));
    let next = (next..).find(|index| !is_taken(&named(*index))).unwrap_or(next);
    let mut created = AnyPolicySnapshot {
        metadata: child(placement, named(next), POLICY_INDEX_LABEL, next),
        spec: SchedulingPolicySnapshotSpec { policy: policy.cloned(), policy_hash: hash },
        ..AnyPolicySnapshot::default()
    };
    annotate(&mut created.metadata, placement);
    trigger::serve(&placement.metadata, &mut created.metadata);
    writes.push(ObjectWrite::Create(created));
    writes
}

/// Sets the generation of the placement and the desired number of clusters.
fn annotate(metadata: &mut ObjectMeta, placement: &AnyPlacement) {
    let generation = placement.metadata.generation.unwrap_or_default();
    metadata.annotations.insert(PLACEMENT_GENERATION.to_owned(), generation.to_string());
    let policy = placement.spec.policy.as_ref();
    let number = policy.filter(|policy| policy.placement_type == Some(PlacementType::PickN));
    if let Some(number) = number.and_then(|policy| policy.number_of_clusters) {
        metadata.annotations.insert(NUMBER_OF_CLUSTERS.to_owned(), number.to_string());
    }
}

/// Returns the writes of resource snapshots. The resources are stored elsewhere, and their
/// snapshots come from there. Until then, an empty snapshot stands in, so that bindings can be
/// rolled out.
fn resources(placement: &AnyPlacement, known: &[AnyResourceSnapshot]) -> Vec<ObjectWrite<AnyResourceSnapshot>> {
    let mut by_index: Vec<&AnyResourceSnapshot> = known.iter().collect();
    by_index.sort_by_key(|snapshot| index(&snapshot.metadata, RESOURCE_INDEX_LABEL));
    let Some(newest) = by_index.last() else {
        let name = format!("{}-0-snapshot", name(&placement.metadata));
        let mut metadata = child(placement, name, RESOURCE_INDEX_LABEL, 0);
        metadata.annotations =
            [(RESOURCE_HASH.to_owned(), hex(b"[]")), (NUMBER_OF_RESOURCE_SNAPSHOTS.to_owned(), "1".to_owned())].into();
        let spec = ResourceSnapshotSpec { selected_resources: Vec::new() };
        return vec![ObjectWrite::Create(AnyResourceSnapshot { metadata, spec, ..AnyResourceSnapshot::default() })];
    };
    // The parts of one snapshot share its index, and only the first is marked as the latest. It may
    // arrive after the others. Once it is there, a lost mark does not stop the rollout.
    let newest = index(&newest.metadata, RESOURCE_INDEX_LABEL);
    let first = format!("{}-{newest}-snapshot", name(&placement.metadata));
    let is_newest = |metadata: &ObjectMeta| index(metadata, RESOURCE_INDEX_LABEL) == newest;
    let is_claimed = by_index.iter().any(|each| is_newest(&each.metadata) && is_latest(&each.metadata));
    let mended = by_index.iter().filter_map(|snapshot| {
        let metadata = &snapshot.metadata;
        let should_be = is_newest(metadata) && (is_latest(metadata) || (!is_claimed && name(metadata) == first));
        let mut mended = AnyResourceSnapshot::clone(snapshot);
        mended.metadata.labels.insert(IS_LATEST_LABEL.to_owned(), should_be.to_string());
        (should_be != is_latest(metadata)).then_some(ObjectWrite::Update(mended))
    });
    mended.collect()
}

fn child(placement: &AnyPlacement, name: String, index_label: &str, index: u64) -> ObjectMeta {
    let parent = placement.metadata.name.clone().unwrap_or_default();
    let labels = [(PARENT_LABEL, parent), (IS_LATEST_LABEL, "true".to_owned()), (index_label, index.to_string())];
    ObjectMeta {
        name: Some(name),
        namespace: placement.metadata.namespace.clone(),
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        ..ObjectMeta::default()
    }
}

/// Computes the SHA-256 of the policy without its number of clusters, in hexadecimal, in base64.
pub fn policy_hash(policy: Option<&PlacementPolicy>) -> String {
    let policy = policy.map(|policy| PlacementPolicy { number_of_clusters: None, ..policy.clone() });
    let text = serde_json::to_vec(&policy).expect("a policy can be written as JSON");
    STANDARD.encode(hex(&text))
}

fn hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn index(metadata: &ObjectMeta, label: &str) -> u64 {
    metadata.labels.get(label).and_then(|index| index.parse().ok()).unwrap_or_default()
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn placement(generation: i64, policy: Value) -> AnyPlacement {
        serde_json::from_value(json!({
            "metadata": {"name": "crp", "generation": generation, "finalizers": [PLACEMENT_CLEANUP]},
            "spec": {"resourceSelectors": [], "policy": policy, "revisionHistoryLimit": 2},
        }))
        .unwrap()
    }

    fn pick_n(number: i32, key: &str) -> Value {
        json!({"placementType": "PickN", "numberOfClusters": number,
               "topologySpreadConstraints": [{"topologyKey": key}]})
    }

    /// Returns the policy snapshots after the plan was carried out.
    fn run(placement: &AnyPlacement, known: &[AnyPolicySnapshot]) -> Vec<AnyPolicySnapshot> {
        let mut snapshots = known.to_vec();
        let plan = plan(&ObservedPlacement { placement, policies: known, resources: &[], is_taken: &|_| false });
        for write in plan.policies {
            match write {
                ObjectWrite::Create(snapshot) => snapshots.push(snapshot),
                ObjectWrite::Update(mended) => {
                    let known = snapshots.iter_mut().find(|known| known.metadata.name == mended.metadata.name);
                    *known.unwrap() = mended;
                }
                ObjectWrite::Delete(gone) => snapshots.retain(|known| known.metadata.name.as_ref() != Some(&gone)),
            }
        }
        snapshots
    }

    fn names(snapshots: &[AnyPolicySnapshot]) -> Vec<String> {
        let text = |metadata: &ObjectMeta| name(metadata) + if is_latest(metadata) { "!" } else { "" };
        snapshots.iter().map(|snapshot| text(&snapshot.metadata)).collect()
    }

    #[test]
    fn r176_another_number_is_an_annotation_and_another_policy_a_snapshot() {
        let first = run(&placement(1, pick_n(2, "region")), &[]);
        assert_eq!(names(&first), ["crp-0!"]);
        let scaled = run(&placement(2, pick_n(3, "region")), &first);
        assert_eq!(names(&scaled), ["crp-0!"]);
        let (three, two) = ("3".to_owned(), "2".to_owned());
        let annotations = &scaled[0].metadata.annotations;
        assert_eq!(
            (annotations.get(NUMBER_OF_CLUSTERS), annotations.get(PLACEMENT_GENERATION)),
            (Some(&three), Some(&two))
        );
        let changed = run(&placement(3, pick_n(3, "zone")), &scaled);
        assert_eq!(names(&changed), ["crp-0", "crp-1!"]);
        assert_eq!(names(&run(&placement(3, pick_n(3, "zone")), &changed)), names(&changed));
    }

    #[test]
    fn old_snapshots_go_beyond_the_limit() {
        let mut snapshots = Vec::new();
        for (generation, key) in (1..).zip(["a", "b", "c", "d"]) {
            snapshots = run(&placement(generation, pick_n(1, key)), &snapshots);
        }
        assert_eq!(names(&snapshots), ["crp-2", "crp-3!"]);
    }

    #[test]
    fn a_policy_that_comes_back_is_a_new_snapshot() {
        let mut snapshots = Vec::new();
        for (generation, key) in (1..).zip(["a", "b", "a"]) {
            snapshots = run(&placement(generation, pick_n(1, key)), &snapshots);
        }
        assert_eq!(names(&snapshots), ["crp-1", "crp-2!"]);
    }

    #[test]
    fn of_two_snapshots_in_force_the_newest_stays() {
        let first = run(&placement(1, pick_n(1, "a")), &[]);
        let mut second = first[0].clone();
        second.metadata.name = Some("crp-1".to_owned());
        second.metadata.labels.insert(POLICY_INDEX_LABEL.to_owned(), "1".to_owned());
        let mended = run(&placement(1, pick_n(1, "a")), &[first[0].clone(), second]);
        assert_eq!(names(&mended), ["crp-0", "crp-1!"]);
    }

    #[test]
    fn a_name_that_is_taken_is_passed_over() {
        let (placement, is_taken) = (placement(1, pick_n(1, "a")), |name: &str| ["crp-0", "crp-1"].contains(&name));
        let plan =
            plan(&ObservedPlacement { placement: &placement, policies: &[], resources: &[], is_taken: &is_taken });
        let [ObjectWrite::Create(made)] = plan.policies.as_slice() else { panic!("{:?}", plan.policies) };
        assert_eq!((name(&made.metadata), index(&made.metadata, POLICY_INDEX_LABEL)), ("crp-2".to_owned(), 2));
    }

    #[test]
    fn a_placement_lets_go_when_its_snapshots_are_gone() {
        let mut placement = placement(1, Value::Null);
        let policies = run(&placement, &[]);
        placement.metadata.deletion_timestamp = Some("2026-03-01T12:00:00Z".parse().unwrap());
        let plan_with = |policies: &[_]| {
            plan(&ObservedPlacement { placement: &placement, policies, resources: &[], is_taken: &|_| false })
        };
        let first = plan_with(&policies);
        assert_eq!((first.policies, first.finalizers), (vec![ObjectWrite::Delete("crp-0".to_owned())], None));
        assert_eq!(plan_with(&[]), PlacementPlan { finalizers: Some(Vec::new()), ..PlacementPlan::default() });
    }

    #[test]
    fn resources_stand_in_until_somebody_gives_them() {
        let placement = placement(1, Value::Null);
        let resources_with = |resources: &[_]| {
            plan(&ObservedPlacement { placement: &placement, policies: &[], resources, is_taken: &|_| false }).resources
        };
        let first = resources_with(&[]);
        let [ObjectWrite::Create(empty)] = first.as_slice() else { panic!("{first:?}") };
        let mut given = empty.clone();
        given.metadata.labels.insert(RESOURCE_INDEX_LABEL.to_owned(), "1".to_owned());
        let known = [empty.clone(), given];
        let then = resources_with(&known);
        let [ObjectWrite::Update(stale)] = then.as_slice() else { panic!("{then:?}") };
        assert!(!is_latest(&stale.metadata) && index(&stale.metadata, RESOURCE_INDEX_LABEL) == 0);
    }

    #[test]
    fn the_first_part_of_the_newest_resources_claims_to_be_the_latest() {
        let placement = placement(1, Value::Null);
        let look = |resources: &[AnyResourceSnapshot]| {
            plan(&ObservedPlacement { placement: &placement, policies: &[], resources, is_taken: &|_| false }).resources
        };
        let Some(ObjectWrite::Create(first)) = look(&[]).pop() else { panic!("it is made") };
        let mut part = first.clone();
        part.metadata.name = Some("crp-0-1".to_owned());
        part.metadata.labels.remove(IS_LATEST_LABEL);
        let mut silenced = first.clone();
        silenced.metadata.labels.insert(IS_LATEST_LABEL.to_owned(), "false".to_owned());
        assert_eq!(look(&[silenced, part.clone()]), [ObjectWrite::Update(first.clone())]);
        assert_eq!(look(&[first, part.clone()]), []);
        assert_eq!(look(&[part]), []);
    }
}
