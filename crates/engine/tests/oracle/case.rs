//! A test case: one small set of clusters with one binding. Each case serialises to one line of
//! JSON, so that failing cases can be stored.
//!
//! A replica requests one CPU and one pod, so the capacity of a cluster is one number.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// The origin of the case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    pub clusters: Vec<Place>,
    pub kind: Kind,
    pub replicas: i64,
    pub division: Division,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<Spread>,
    /// The affinity groups in order. Empty: every cluster is selected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tolerates: bool,
    /// The current targets. For a set of components, the number counts its pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<(String, i64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evicting: Vec<String>,
    /// The position of the group in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<usize>,
    /// Whether the placement has just been edited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Bounds on the replicas of a cluster that gets any (S7).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// `whenUnsatisfiable: ScheduleWhatFits` of the replicas.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub what_fits: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Place {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The value of a label of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tier: String,
    /// Replicas that fit in addition to the running ones.
    pub free: i64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Whether the cluster lacks the API of the workload.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_api: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A Deployment.
    #[default]
    Replicas,
    /// A ConfigMap.
    Object,
    /// A workload of two pod templates. `replicas` is the total number of pods.
    Set,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Division {
    #[default]
    Duplicated,
    Dynamic,
    Aggregated,
    /// Weights by cluster. Empty: all weights are equal.
    Static(Vec<(String, i64)>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub by: By,
    pub min: i64,
    /// 0: no maximum.
    pub max: i64,
    /// `whenUnsatisfiable: ScheduleAnyway`: the constraint is a preference.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anyway: bool,
}

/// An entry of `clusterBounds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    pub names: Vec<String>,
    pub min: i64,
    /// 0: no maximum.
    pub max: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    Cluster,
    Region,
    Zone,
    Provider,
    Tier,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub names: Vec<String>,
    /// Overflow tiers for replicas that do not fit in the group, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflow: Vec<Vec<String>>,
}

impl Case {
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a case has no map with other keys than strings")
    }

    pub fn read(line: &str) -> Case {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub fn place(&self, name: &str) -> Option<&Place> {
        self.clusters.iter().find(|place| place.name == name)
    }

    /// Returns the number of replicas of the workload on this cluster now.
    pub fn held(&self, name: &str) -> i64 {
        self.targets.iter().filter(|(target, _)| target == name).map(|(_, held)| *held).sum()
    }

    pub fn is_there(&self, name: &str) -> bool {
        self.targets.iter().any(|(target, _)| target == name)
    }

    /// Returns whether each selected cluster gets a full copy.
    pub fn is_copied(&self) -> bool {
        self.kind != Kind::Replicas || self.division == Division::Duplicated
    }

    /// Returns whether replicas are divided by free capacity.
    pub fn counts_room(&self) -> bool {
        matches!(self.division, Division::Dynamic | Division::Aggregated)
    }

    /// Returns whether a set of components must go to one cluster, so that capacity counts: due to
    /// a constraint, or because the selection names one cluster.
    pub fn is_one_set(&self, group: Option<usize>) -> bool {
        let one = |spread: &Spread| spread.by == By::Cluster && (spread.min, spread.max) == (1, 1);
        let constrained = self.spread.iter().any(|spread| one(spread) && !spread.anyway) && !self.ignores_spread();
        let named =
            group.is_some_and(|group| self.groups[group].names.len() == 1 && self.groups[group].overflow.is_empty());
        self.kind == Kind::Set && (constrained || named)
    }

    /// Returns whether spread constraints are ignored, as documented for static weights.
    pub fn ignores_spread(&self) -> bool {
        matches!(self.division, Division::Static(_))
    }

    /// Returns whether bounds apply and partial scheduling is possible.
    pub fn is_shared_by_room(&self) -> bool {
        self.kind == Kind::Replicas && self.counts_room()
    }

    pub fn is_zero(&self) -> bool {
        self.kind == Kind::Replicas && self.replicas == 0
    }
}

impl Place {
    /// Returns the cluster's group for a constraint. Empty: none.
    pub fn group(&self, by: By) -> &str {
        match by {
            By::Cluster => &self.name,
            By::Region => &self.region,
            By::Zone => &self.zone,
            By::Provider => &self.provider,
            By::Tier => &self.tier,
        }
    }
}
