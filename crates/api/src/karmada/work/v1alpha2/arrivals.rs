//! The annotation of a binding that says when its replicas came to each cluster, where
//! `status.lastScheduledTime` does not say so: `ballast.dev/arrivals` (RM3, RM8).
//!
//! A pass after an event writes its time even if it moves nothing. A promise counts from the write
//! that placed the replicas, so the pass writes down when that was. A write that places replicas on
//! a cluster also notes the pods there that belong to no binding: until a summary of the cluster is
//! newer than the report of the replicas, nothing else tells how much is used there. Both stand in
//! the write that they belong to, so they are there after a restart and an import, and beside a
//! Karmada, too.
//!
//! A client that assigns replicas itself writes no `status.lastScheduledTime`. So the API server
//! writes down when that was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Pairs;
use crate::tree::{self, Object};
use ballast_k8s::Time;
use ballast_resource::Given;

pub const ARRIVALS: &str = "ballast.dev/arrivals";

/// More clusters than this share one note, because an object's annotations are bounded.
const NOTED_MAX: usize = 500;
/// The clusters that have no note of their own. No cluster has this name.
const OTHERS: &str = "*";

/// How replicas came to one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Arrival {
    /// When. `None`: `status.lastScheduledTime` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// The pods that were on the cluster then, without those that bindings report.
    #[serde(skip_serializing_if = "is_zero")]
    pub foreign: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The arrivals on each cluster that there is something to say about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArrivalNotes(BTreeMap<String, Arrival>);

impl ArrivalNotes {
    /// What the annotation says. One that cannot be read says nothing.
    pub fn of(annotations: &Pairs<String>) -> ArrivalNotes {
        annotations.get(ARRIVALS).map(|text| ArrivalNotes::read(text)).unwrap_or_default()
    }

    /// What this value of the annotation says.
    pub fn read(text: &str) -> ArrivalNotes {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub fn on(&self, cluster: &str) -> Arrival {
        self.0.get(cluster).or_else(|| self.0.get(OTHERS)).copied().unwrap_or_default()
    }

    /// Notes an arrival, if there is something to say about it.
    pub fn note(&mut self, cluster: &str, arrival: Arrival) {
        if arrival != Arrival::default() {
            self.0.insert(cluster.to_owned(), arrival);
        }
    }

    /// The value of the annotation. `None`: there is nothing to say. Of too many clusters it says
    /// only the last time: their promises last longer, rather than too short.
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

/// Notes when a client brings replicas to a cluster with this write: their promise begins now, and
/// not with the pass before it (RM3).
pub fn note_by_client(binding: &mut Object, given: &Given<'_>) {
    let Some(old) = given.old.filter(|_| given.is_by_client) else { return };
    let (assigned, before) = (in_spec(binding, "clusters"), in_spec(old, "clusters"));
    if assigned == before {
        return;
    }
    // What comes back before it has left was there all the time.
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

/// The replicas of each entry of a list, by cluster. Entries that cannot be read are left out: the
/// API server refuses them.
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

    /// What is noted when the old targets become the new ones.
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
        // A pass says itself when its replicas come.
        assert_eq!(noted(false, &old, &grown), Value::Null);
        // What is known of clusters that are left goes.
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
