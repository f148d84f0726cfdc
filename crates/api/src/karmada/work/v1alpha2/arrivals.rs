//! The annotation of a binding that records when its replicas were assigned to each cluster, if
//! that differs from `status.lastScheduledTime`: `ballast.dev/arrivals` (RM3, RM8).
//!
//! A scheduling pass after an event updates `lastScheduledTime` even if it moves nothing, but a
//! reservation starts with the write that assigned the replicas. So the pass records the time of
//! that write. A write that assigns replicas to a cluster also records the number of pods there
//! that belong to no binding: until a summary of the cluster is newer than the report of the
//! replicas, no other source shows the capacity that they use. Both are part of the write that they
//! describe, so they survive a restart and an import, and work attached to Karmada as well.
//!
//! A client that assigns replicas itself does not set `status.lastScheduledTime`, so the API server
//! records the time of its write.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Pairs;
use crate::tree::{self, Object};
use ballast_k8s::Time;
use ballast_resource::Given;

pub const ARRIVALS: &str = "ballast.dev/arrivals";

/// Maximum number of clusters with separate entries. Above it, all clusters share one entry,
/// because the size of an object's annotations is limited.
const NOTED_MAX: usize = 500;
/// The key of the entry for all clusters without a separate one. No cluster can have this name.
const OTHERS: &str = "*";

/// The assignment of replicas to one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Arrival {
    /// Time of the assignment. `None`: `status.lastScheduledTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Number of pods on the cluster at that time, without pods that bindings report.
    #[serde(skip_serializing_if = "is_zero")]
    pub foreign: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The recorded assignments by cluster. Default values are not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArrivalNotes(BTreeMap<String, Arrival>);

impl ArrivalNotes {
    /// Reads the annotation. It counts as empty if it is absent or malformed.
    pub fn of(annotations: &Pairs<String>) -> ArrivalNotes {
        annotations.get(ARRIVALS).map(|text| ArrivalNotes::read(text)).unwrap_or_default()
    }

    /// Parses a value of the annotation. A malformed value counts as empty.
    pub fn read(text: &str) -> ArrivalNotes {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub fn on(&self, cluster: &str) -> Arrival {
        self.0.get(cluster).or_else(|| self.0.get(OTHERS)).copied().unwrap_or_default()
    }

    /// Records an arrival, unless it has only default values.
    pub fn note(&mut self, cluster: &str, arrival: Arrival) {
        if arrival != Arrival::default() {
            self.0.insert(cluster.to_owned(), arrival);
        }
    }

    /// Returns the value of the annotation, or `None` if it would be empty. For more than
    /// `NOTED_MAX` clusters it contains only the latest time, so that their reservations last too
    /// long rather than too short.
    pub fn text(&self) -> Option<String> {
        let text = |notes: &ArrivalNotes| serde_json::to_string(notes).expect("names and numbers can be written");
        if self.0.len() <= NOTED_MAX {
            return (!self.0.is_empty()).then(|| text(self));
        }
        let at = self.0.values().filter_map(|arrival| arrival.at).max()?;
        let others = Arrival { at: Some(at), foreign: 0 };
        Some(text(&ArrivalNotes([(OTHERS.to_owned(), others)].into())))
    }
}

/// Records the arrival of replicas that a client assigns to clusters with this write. Their
/// reservation starts now, and not with the last scheduling pass (RM3).
pub fn note_by_client(binding: &mut Object, given: &Given<'_>) {
    let Some(old) = given.old.filter(|_| given.is_by_client) else { return };
    let (assigned, before) = (in_spec(binding, "clusters"), in_spec(old, "clusters"));
    if assigned == before {
        return;
    }
    // Replicas that return to a cluster during their eviction have not left it.
    let leaving = replicas_by(in_spec(old, "gracefulEvictionTasks"), "fromCluster");
    let mut had = replicas_by(before, "name");
    for (cluster, replicas) in leaving {
        let known = had.entry(cluster).or_default();
        *known = replicas.max(*known);
    }
    let assigned = replicas_by(assigned, "name");
    let grows = |(cluster, replicas): (&String, &i64)| had.get(cluster).is_none_or(|had| had < replicas);
    if !assigned.iter().any(grows) {
        return;
    }
    let known = binding.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(ARRIVALS)?.as_str());
    let known = known.map(ArrivalNotes::read).unwrap_or_default();
    let mut notes = ArrivalNotes::default();
    for (cluster, replicas) in &assigned {
        let was = known.on(cluster);
        notes.note(cluster, Arrival { at: if grows((cluster, replicas)) { Some(given.now) } else { was.at }, ..was });
    }
    if let (Some(text), Some(annotations)) = (notes.text(), tree::object_or_new(binding, &["metadata", "annotations"]))
    {
        annotations.insert(ARRIVALS.to_owned(), text.into());
    }
}

pub(super) fn in_spec<'a>(binding: &'a Object, name: &str) -> Option<&'a Value> {
    binding.get("spec")?.get(name)
}

/// Returns the replicas of each entry of a list, by cluster. Malformed entries are skipped;
/// validation rejects them.
pub(super) fn replicas_by(list: Option<&Value>, name: &str) -> BTreeMap<String, i64> {
    let entry = |entry: &Value| {
        Some((entry.get(name)?.as_str()?.to_owned(), entry.get("replicas").and_then(Value::as_i64).unwrap_or_default()))
    };
    list.and_then(Value::as_array).into_iter().flatten().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-11-28T10:00:00Z";

    /// Returns the annotation that is recorded when `new` replaces `old`.
    fn noted(is_by_client: bool, old: &Value, new: &Value) -> Value {
        let tree = |spec: &Value| Object::from_iter([("spec".to_owned(), spec.clone())]);
        let (old, mut new) = (tree(old), tree(new));
        note_by_client(&mut new, &Given { old: Some(&old), now: NOW.parse().unwrap(), is_by_client });
        let text = new.get("metadata").map(|metadata| metadata["annotations"][ARRIVALS].as_str().unwrap().to_owned());
        text.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default()
    }

    #[test]
    fn rm3_a_client_that_assigns_replicas_begins_their_promise() {
        let old = json!({"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}],
            "gracefulEvictionTasks": [{"fromCluster": "m3", "replicas": 4}]});
        let to = |clusters: Value| {
            let mut spec = old.clone();
            spec["clusters"] = clusters;
            spec
        };
        let grown = to(json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 1},
            {"name": "m3", "replicas": 4}, {"name": "m4", "replicas": 1}]));
        assert_eq!(noted(true, &old, &grown), json!({"m1": {"at": NOW}, "m4": {"at": NOW}}));
        // A pass records the arrival of its replicas itself.
        assert_eq!(noted(false, &old, &grown), Value::Null);
        // Entries of clusters that are no longer targets are removed.
        let mut noted_before = grown.clone();
        noted_before["clusters"] = json!([{"name": "m5", "replicas": 1}]);
        let tree = |spec: &Value, notes: Value| {
            json!({"spec": spec, "metadata": {"annotations": {ARRIVALS: notes.to_string()}}})
                .as_object()
                .unwrap()
                .clone()
        };
        let known = json!({"m4": {"at": "2026-11-28T09:00:00Z"}, "m5": {"foreign": 3}});
        let (before, mut after) = (tree(&grown, known.clone()), tree(&noted_before, known));
        note_by_client(&mut after, &Given { old: Some(&before), now: NOW.parse().unwrap(), is_by_client: true });
        assert_eq!(after["metadata"]["annotations"][ARRIVALS], json!({"m5": {"at": NOW, "foreign": 3}}).to_string());
        for nothing_new in [json!([{"name": "m1", "replicas": 1}]), json!(null), json!([{"name": "m3", "replicas": 4}])]
        {
            assert_eq!(noted(true, &old, &to(nothing_new.clone())), Value::Null, "{nothing_new}");
        }
    }

    #[test]
    fn rm3_many_clusters_share_one_note() {
        let arrival = |second: i64| Arrival { at: Some(Time::from_seconds(second)), foreign: 7 };
        let noted = |count: usize| {
            let mut notes = ArrivalNotes::default();
            (0..count).for_each(|number| notes.note(&format!("m{number:060}"), arrival(number as i64)));
            notes.text().unwrap()
        };
        let (few, many) = (noted(NOTED_MAX), noted(50_000));
        assert!(few.len() < 80_000 && many.len() < 100, "{} {many}", few.len());
        assert_eq!(ArrivalNotes::read(&few).on(&format!("m{:060}", 3)), arrival(3));
        assert_eq!(ArrivalNotes::read(&few).on("m1"), Arrival::default());
        assert_eq!(ArrivalNotes::read(&many).on("m1"), Arrival { foreign: 0, ..arrival(49_999) });
    }

    #[test]
    fn rm3_what_was_written_is_read_and_what_makes_no_sense_says_nothing() {
        let mut arrivals = ArrivalNotes::default();
        assert_eq!(arrivals.text(), None);
        arrivals.note("m1", Arrival { at: Some(Time::from_seconds(5)), foreign: 0 });
        arrivals.note("m2", Arrival { at: None, foreign: 7 });
        arrivals.note("m3", Arrival::default());
        let text = arrivals.text().unwrap();
        assert_eq!(text, r#"{"m1":{"at":"1970-01-01T00:00:05Z"},"m2":{"foreign":7}}"#);
        assert_eq!(ArrivalNotes::read(&text), arrivals);
        for odd in ["", "m1", "[]", r#"{"m1": 7}"#, r#"{"m1": {"at": "soon"}}"#] {
            assert_eq!(ArrivalNotes::read(odd), ArrivalNotes::default(), "{odd}");
        }
    }
}
