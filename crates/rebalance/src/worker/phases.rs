//! The number of rebalances in each phase, for the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use ballast_api::ballast::v1alpha1::Phase;
use ballast_base::metrics;
use ballast_k8s::Object;

const PHASES: [Phase; 6] =
    [Phase::Planning, Phase::Planned, Phase::Running, Phase::Paused, Phase::Completed, Phase::Aborted];

/// The counts by phase. A change of a rebalance adds its new phase and subtracts the old one.
#[derive(Default)]
pub struct Phases(BTreeMap<&'static str, i64>);

#[derive(Deserialize)]
struct PartialRebalance {
    #[serde(default)]
    status: PartialStatus,
}

#[derive(Default, Deserialize)]
struct PartialStatus {
    phase: Option<Phase>,
}

impl Phases {
    pub fn count_all<'a>(&mut self, all: impl Iterator<Item = &'a Arc<Object>>) {
        self.0.clear();
        all.for_each(|object| self.add(object, 1));
        self.publish();
    }

    pub fn count(&mut self, before: Option<&Object>, after: Option<&Object>) {
        before.into_iter().for_each(|object| self.add(object, -1));
        after.into_iter().for_each(|object| self.add(object, 1));
        self.publish();
    }

    fn add(&mut self, object: &Object, count: i64) {
        *self.0.entry(phase_of(object).as_str()).or_default() += count;
    }

    fn publish(&self) {
        for phase in PHASES.map(Phase::as_str) {
            metrics::rebalances(phase, self.0.get(phase).copied().unwrap_or_default());
        }
    }
}

/// Returns the phase; a rebalance without a status is in the first phase.
fn phase_of(rebalance: &Object) -> Phase {
    let partial = serde_json::from_slice::<PartialRebalance>(&rebalance.text.content());
    partial.ok().and_then(|partial| partial.status.phase).unwrap_or(Phase::Planning)
}
