//! The annotation of a binding that was placed by a plan with an objective: `ballast.dev/objective`
//! (PL6).
//!
//! Such a placement serves all clusters together and may differ from the result of the binding's
//! own placement rules. While the binding's targets, replicas and placement rules stay unchanged,
//! it counts as neither displaced nor drifted. As soon as one of them changes, the annotation no
//! longer applies.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::AnyBinding;
use crate::Pairs;
use crate::ballast::v1alpha1::{FailureDomain, Goal, Objective, Share};
use ballast_k8s::Time;

pub const AIM: &str = "ballast.dev/objective";

/// Number of bytes of the hash that are stored: enough to distinguish two placements of one
/// binding.
const HASH_BYTES: usize = 8;

/// Time for which the annotation lists the clusters that plans moved replicas away from.
const LEFT_SECONDS: i64 = 24 * 60 * 60;
/// Maximum number of listed clusters.
const LEFT_MAX: usize = 16;

/// The objective and the targets of the plan that placed a binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Aim {
    pub goal: Goal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<FailureDomain>,
    /// The lowest gain of one replica that the plan moved. Later plans for the same objective
    /// require at least this gain, so that they do not continue where this plan stopped.
    #[serde(default)]
    pub least_gain: f64,
    /// Time at which the plan was made.
    pub planned_at: Time,
    /// Sorted by name.
    pub targets: Vec<Share>,
    /// Clusters that plans of the last day moved replicas away from, the latest last. Later plans
    /// prefer to move other workloads to these clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Hash of the placement rules.
    pub placement: String,
}

impl Aim {
    /// Returns the content of the annotation, whether or not it still applies. Returns `None` if it
    /// is absent or malformed.
    pub fn stored(binding: &AnyBinding) -> Option<Aim> {
        serde_json::from_str(binding.metadata.annotations.get(AIM)?).ok()
    }

    /// Returns the clusters that plans for the same objective moved replicas away from, or nothing
    /// if the last plan is more than a day older than `now`.
    pub fn left_lately(&self, now: Time) -> &[String] {
        let is_old = self.planned_at.plus_seconds(LEFT_SECONDS) < now;
        if is_old { &[] } else { &self.left }
    }

    /// Adds the clusters that this plan moves replicas away from to those of the plan `before`, if
    /// that plan had the same objective. `from` are the targets before this plan.
    #[must_use]
    pub fn leaving(self, before: Option<&Aim>, from: &[Share]) -> Aim {
        let before = before.filter(|aim| aim.is_like(&self));
        let mut left: Vec<String> = before.map_or(&[][..], |aim| aim.left_lately(self.planned_at)).to_vec();
        let on = |shares: &[Share], name: &str| {
            shares.iter().find(|share| share.name == name).map_or(0, |share| share.replicas)
        };
        for Share { name, replicas } in from {
            if on(&self.targets, name) < *replicas {
                left.retain(|known| known != name);
                left.push(name.clone());
            }
        }
        left.drain(..left.len().saturating_sub(LEFT_MAX));
        Aim { left, ..self }
    }

    /// Returns whether the plan had the same goal, resource and failure domain.
    pub fn is_for(&self, objective: &Objective) -> bool {
        self.goal == objective.goal && self.resource == objective.resource && self.by == objective.by
    }

    /// Returns whether both plans had the same goal, resource and failure domain.
    fn is_like(&self, other: &Aim) -> bool {
        self.goal == other.goal && self.resource == other.resource && self.by == other.by
    }

    /// Returns the content of the annotation if it still applies to the binding.
    pub fn of(binding: &AnyBinding) -> Option<Aim> {
        let aim = Aim::stored(binding)?;
        let mut targets: Vec<Share> = binding
            .spec
            .clusters
            .iter()
            .map(|target| Share { name: target.name.clone(), replicas: target.replicas.unwrap_or_default() })
            .collect();
        targets.sort_unstable();
        (aim.targets == targets && aim.placement == Aim::hash(binding)).then_some(aim)
    }

    /// Returns the hash of the binding's placement rules.
    pub fn hash(binding: &AnyBinding) -> String {
        let text = serde_json::to_string(&binding.spec.placement).unwrap_or_default();
        Sha256::digest(text).iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("names and numbers can be written")
    }

    /// Returns whether the annotation is present, even if it is malformed.
    pub fn is_on(annotations: &Pairs<String>) -> bool {
        annotations.contains_key(AIM)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(annotations: Value, replicas: i32, preference: &str) -> AnyBinding {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided",
                "replicaDivisionPreference": preference}},
            "clusters": [{"name": "m2", "replicas": replicas}, {"name": "m1", "replicas": 1}],
        }}))
        .unwrap()
    }

    #[test]
    fn pl3_what_plans_have_left_is_remembered_for_a_day() {
        let share = |name: &str, replicas| Share { name: name.to_owned(), replicas };
        let aim = |planned_at, targets: &[Share]| Aim {
            goal: Goal::Balance,
            resource: None,
            by: None,
            least_gain: 0.0,
            planned_at: Time::from_seconds(planned_at),
            targets: targets.to_vec(),
            left: Vec::new(),
            placement: String::new(),
        };
        let first = aim(0, &[share("m1", 1), share("m2", 3)]).leaving(None, &[share("m1", 4)]);
        assert_eq!(first.left, ["m1"]);
        let second = aim(3_600, &[share("m1", 1), share("m3", 3)]).leaving(Some(&first), &first.targets);
        assert_eq!(second.left, ["m1", "m2"]);
        let late = aim(3_600 + LEFT_SECONDS + 1, &[share("m4", 4)]).leaving(Some(&second), &second.targets);
        assert_eq!(late.left, ["m1", "m3"], "only what this plan leaves");
        let other = Aim { goal: Goal::Pack, ..aim(3_600, &[share("m3", 4)]) };
        assert_eq!(other.leaving(Some(&second), &second.targets).left, ["m1"], "a plan for something else");
    }

    #[test]
    fn pl6_it_counts_until_targets_replicas_or_placement_change() {
        let share = |name: &str, replicas| Share { name: name.to_owned(), replicas };
        let bare = binding(json!({}), 2, "Weighted");
        let aim = Aim {
            goal: Goal::Balance,
            resource: Some("cpu".to_owned()),
            by: None,
            least_gain: 0.25,
            planned_at: Time::from_seconds(7),
            targets: vec![share("m1", 1), share("m2", 2)],
            left: Vec::new(),
            placement: Aim::hash(&bare),
        };
        let annotations = json!({AIM: aim.text()});
        assert_eq!(Aim::of(&bare), None);
        assert_eq!(Aim::of(&binding(annotations.clone(), 2, "Weighted")), Some(aim));
        assert_eq!(Aim::of(&binding(annotations.clone(), 3, "Weighted")), None, "a replica more");
        assert_eq!(Aim::of(&binding(annotations, 2, "Aggregated")), None, "another placement");
        for odd in ["", "Balance", "{}", "[]"] {
            assert_eq!(Aim::of(&binding(json!({AIM: odd}), 2, "Weighted")), None, "{odd}");
        }
    }
}
