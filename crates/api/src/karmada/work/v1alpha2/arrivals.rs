//! The annotation of a binding that says when its replicas came to each cluster, where
//! `status.lastScheduledTime` does not say so: `ballast.dev/arrivals` (RM3, RM8).
//!
//! A pass after an event writes its time even if it moves nothing. A promise counts from the write
//! that placed the replicas, so the pass writes down when that was. A write that places replicas on
//! a cluster also notes the pods there that belong to no binding: until a summary of the cluster is
//! newer than the report of the replicas, nothing else tells how much is used there. Both stand in
//! the write that they belong to, so they are there after a restart and an import, and beside a
//! Karmada, too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Pairs;
use ballast_k8s::Time;

pub const ARRIVALS: &str = "ballast.dev/arrivals";

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
        self.0.get(cluster).copied().unwrap_or_default()
    }

    /// Notes an arrival, if there is something to say about it.
    pub fn note(&mut self, cluster: &str, arrival: Arrival) {
        if arrival != Arrival::default() {
            self.0.insert(cluster.to_owned(), arrival);
        }
    }

    /// The value of the annotation. `None`: there is nothing to say.
    pub fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(self).expect("names and numbers can be written"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
