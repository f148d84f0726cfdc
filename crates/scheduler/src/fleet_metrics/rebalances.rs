//! Publishes the time since which rebalances are in their phases, the last progress of running
//! ones, and overdue schedules.

use std::collections::HashMap;

use serde::Deserialize;

use ballast_api::ballast::v1alpha1::{Phase, RebalanceSchedule, RebalanceStatus};
use ballast_base::metrics;
use ballast_k8s::{GroupResource, Key, Object, Revision, Time};
use ballast_watch::View;

const REBALANCES: [GroupResource; 2] =
    [GroupResource::new("rebalances.ballast.dev"), GroupResource::new("clusterrebalances.ballast.dev")];
const SCHEDULES: GroupResource = GroupResource::new("rebalanceschedules.ballast.dev");

/// The phases of rebalances that are not finished.
const OPEN: [Phase; 4] = [Phase::Planning, Phase::Planned, Phase::Running, Phase::Paused];

/// The last observed state of unfinished rebalances.
#[derive(Default)]
pub struct RebalanceTimes {
    known: HashMap<Key, Known>,
    /// The finished rebalances, which are not parsed again.
    over: HashMap<Key, Revision>,
}

struct Known {
    revision: Revision,
    phase: Phase,
    since: Time,
    /// Moves that have ended, and replicas that have moved.
    done: i64,
    progressed: Time,
}

#[derive(Deserialize)]
struct Partial {
    #[serde(default)]
    status: RebalanceStatus,
}

impl RebalanceTimes {
    pub fn tell(&mut self, view: &View, now: Time) {
        for object in REBALANCES.into_iter().flat_map(|kind| view.list(kind, None)) {
            self.look(object, now);
        }
        self.known.retain(|key, _| view.get(key).is_some());
        self.over.retain(|key, _| view.get(key).is_some());
        for phase in OPEN {
            let oldest = self.known.values().filter(|known| known.phase == phase).map(|known| known.since).min();
            metrics::rebalance_since(phase.as_str(), oldest.map_or(0, Time::seconds));
        }
        let running = self.known.values().filter(|known| known.phase == Phase::Running);
        metrics::rebalance_progress(running.map(|known| known.progressed).min().map_or(0, Time::seconds));
        metrics::schedule_due(next_due(view).map_or(0, Time::seconds));
    }

    fn look(&mut self, object: &Object, now: Time) {
        let is_seen = |revision: &Revision| *revision == object.revision;
        if self.over.get(&object.key).is_some_and(is_seen)
            || self.known.get(&object.key).is_some_and(|known| is_seen(&known.revision))
        {
            return;
        }
        let read = serde_json::from_slice::<Partial>(&object.text.content());
        let status = read.map(|partial| partial.status).unwrap_or_default();
        if status.is_finished() {
            self.known.remove(&object.key);
            self.over.insert(object.key.clone(), object.revision);
            return;
        }
        let phase = status.phase.unwrap_or(Phase::Planning);
        let summary = status.summary.unwrap_or_default();
        let done = summary.settled + summary.failed + summary.superseded + summary.replicas_moved;
        let before = self.known.get(&object.key);
        let since = match before.filter(|known| known.phase == phase) {
            Some(known) => known.since,
            None => match phase {
                Phase::Planned => status.planned_at.unwrap_or(now),
                Phase::Running => status.started_at.unwrap_or(now),
                _ => now,
            },
        };
        // The end of the last move before the server started is not known.
        let progressed = match before {
            Some(known) if known.phase == phase && known.done == done => known.progressed,
            _ => now,
        };
        let known = Known { revision: object.revision, phase, since: since.min(now), done, progressed };
        self.known.insert(object.key.clone(), known);
    }
}

/// Returns the earliest time at which a schedule creates its next ClusterRebalance.
fn next_due(view: &View) -> Option<Time> {
    let schedules = view.list(SCHEDULES, None).filter_map(|object| object.typed::<RebalanceSchedule>().ok());
    schedules.filter(|it| !it.spec.suspend).filter_map(|it| it.status.next_schedule_time).min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn view(revision: i64, status: &Value) -> View {
        let tree = json!({"metadata": {"name": "home"}, "spec": {}, "status": status});
        let key = Key::cluster(REBALANCES[1], "home");
        View::of([Arc::new(Object::decode(key, Revision(revision), tree.to_string().into()).unwrap())])
    }

    #[test]
    fn ng3_a_phase_begins_when_the_status_says_and_progress_is_what_changes_the_counts() {
        let at = |seconds| Time::from_seconds(seconds);
        let mut times = RebalanceTimes::default();
        let planned = json!({"phase": "Planned", "plannedAt": at(100)});
        times.tell(&view(1, &planned), at(130));
        let known = |times: &RebalanceTimes| {
            let known = times.known.values().next().unwrap();
            (known.phase, known.since, known.progressed)
        };
        assert_eq!(known(&times), (Phase::Planned, at(100), at(130)));
        let running = |settled: i64| json!({"phase": "Running", "startedAt": at(140), "summary": {"settled": settled}});
        times.tell(&view(2, &running(0)), at(141));
        times.tell(&view(3, &running(0)), at(200));
        assert_eq!(known(&times), (Phase::Running, at(140), at(141)), "a write is no progress");
        times.tell(&view(4, &running(1)), at(300));
        assert_eq!(known(&times).2, at(300));
        times.tell(&view(5, &json!({"phase": "Completed"})), at(400));
        assert!(times.known.is_empty() && times.over.len() == 1);
        times.tell(&View::of([]), at(500));
        assert!(times.over.is_empty());
    }
}
