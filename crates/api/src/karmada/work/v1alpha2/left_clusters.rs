//! The annotation of a binding that was removed from deleted clusters: `ballast.dev/left-clusters`.
//!
//! One write removes the binding from a deleted cluster at once, and a later one assigns its
//! replicas to other clusters. The annotation provides the second write, and the history, with the
//! reason for the missing replicas (T3). The pass that assigns them removes it. Karmada has no such
//! annotation (D88).

use serde::{Deserialize, Serialize};

use crate::lean::Pairs;
use ballast_k8s::Time;

/// The name of the annotation.
pub const LEFT_CLUSTERS: &str = "ballast.dev/left-clusters";

/// Maximum number of clusters in the annotation. Messages name at most five.
const NAMES_MAX: usize = 20;

/// The content of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftClusters {
    /// Time at which the last of them was left.
    pub at: Time,
    /// The clusters, in the order in which they were left.
    pub clusters: Vec<String>,
}

impl LeftClusters {
    /// Reads the annotation, or returns `None` if it is absent or malformed.
    pub fn of(annotations: &Pairs<String>) -> Option<LeftClusters> {
        serde_json::from_str(annotations.get(LEFT_CLUSTERS)?).ok()
    }

    /// Returns the annotation after a binding has left the clusters `left` as well.
    #[must_use]
    pub fn after<'c>(known: Option<LeftClusters>, left: impl Iterator<Item = &'c str>, now: Time) -> LeftClusters {
        let mut clusters = known.map(|known| known.clusters).unwrap_or_default();
        for cluster in left {
            if clusters.len() < NAMES_MAX && !clusters.iter().any(|known| known == cluster) {
                clusters.push(cluster.to_owned());
            }
        }
        LeftClusters { at: now, clusters }
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and times can be written")
    }
}
