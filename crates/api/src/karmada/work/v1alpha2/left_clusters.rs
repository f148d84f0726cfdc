//! The annotation of a binding that has left deleted clusters: `ballast.dev/left-clusters`.
//!
//! A binding leaves a deleted cluster at once, in one write, and finds another place in the next
//! one. The annotation tells the second write, and the history, why replicas are missing (T3). The
//! pass that places them removes it. Karmada has no such annotation (D88).

use serde::{Deserialize, Serialize};

use crate::lean::Pairs;
use ballast_k8s::Time;

/// The name of the annotation.
pub const LEFT_CLUSTERS: &str = "ballast.dev/left-clusters";

/// The most clusters that the annotation names. A sentence names five.
const NAMES_MAX: usize = 20;

/// What the annotation says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftClusters {
    /// When the last of them was left.
    pub at: Time,
    /// The clusters, in the order in which they were left.
    pub clusters: Vec<String>,
}

impl LeftClusters {
    /// `None`: there is no such annotation, or it cannot be read.
    pub fn of(annotations: &Pairs<String>) -> Option<LeftClusters> {
        serde_json::from_str(annotations.get(LEFT_CLUSTERS)?).ok()
    }

    /// The annotation after these clusters were left, too.
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

    /// The value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and times can be written")
    }
}
