//! Converts a note into an event: its name, and a new event or a higher count of an existing one.
//! Pure.
//!
//! The name is derived from the content, so the same note finds its event again, even after a
//! restart, and two writers cannot create two events for it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Recorder, reasons};
use ballast_api::core::{EVENTS, NAMESPACE_OF_CLUSTER_SCOPED, ObjectReference};
use ballast_k8s::{Key, Time};

/// Maximum length of a message. A result over a thousand clusters would be too long to read.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Maximum length of an event's name before the dot and the sixteen digits.
const NAME_BYTES_MAX: usize = 253 - 17;
/// The minimum interval for counting an event that is only repeated.
const REPEATED_EVERY_SECONDS: i64 = 5 * 60;
/// How long an event is kept after its last occurrence.
const KEPT_SECONDS: i64 = 60 * 60;
/// Group and kind of the objects that request placements.
const REQUESTERS: [(&str, &str); 5] = [
    ("task.karmada.io", "RescheduleTask"),
    ("apps.karmada.io", "WorkloadRebalancer"),
    ("ballast.dev", "Rebalance"),
    ("ballast.dev", "ClusterRebalance"),
    ("ballast.dev", "RebalanceSchedule"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// An occurrence to be recorded as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The object that the event is about.
    pub about: ObjectReference,
    pub severity: Severity,
    /// The machine-readable reason: one of `REASONS`.
    pub reason: &'static str,
    /// A sentence, for people.
    pub message: String,
    /// The component that reports it.
    pub source: Arc<str>,
    pub at: Time,
    pub count: i32,
    /// Whether nothing has changed, and the note only keeps its event alive.
    pub is_repeated: bool,
}

impl Note {
    pub fn new(
        recorder: &Recorder,
        about: ObjectReference,
        severity: Severity,
        reason: &'static str,
        mut message: String,
    ) -> Note {
        // The tests of this crate use reasons that are not listed.
        debug_assert!(cfg!(test) || reasons::is_listed(reason), "{reason} is missing in events::REASONS");
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        let source = Arc::clone(recorder.source());
        Note { about, severity, reason, message, source, at: recorder.now(), count: 1, is_repeated: false }
    }

    /// Returns whether the note is about an object that requested placements. Such notes are few,
    /// and a user waits for them. So they have a separate capacity, unlike the notes about bindings
    /// and workloads, of which one requester may cause very many.
    pub fn is_about_requester(&self) -> bool {
        let ObjectReference { api_version, kind, .. } = &self.about;
        is_requester(api_version.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or_default())
    }

    /// Returns the key of the event.
    pub fn key(&self) -> Key {
        fn text(field: &Option<String>) -> &str {
            field.as_deref().unwrap_or_default()
        }
        let ObjectReference { api_version, kind, namespace, name, uid, .. } = &self.about;
        let content = [
            text(api_version),
            text(kind),
            text(namespace),
            text(name),
            text(uid),
            self.severity.as_str(),
            self.reason,
            &self.message,
            &self.source,
        ];
        let mut digest = Sha256::new();
        for part in content {
            digest.update(part);
            digest.update([0]);
        }
        let digits: String = digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        // Names of roles may contain characters that are invalid in names of events.
        let stem: String = text(name)
            .chars()
            .take(NAME_BYTES_MAX)
            .map(|letter| match letter.to_ascii_lowercase() {
                known @ ('a'..='z' | '0'..='9' | '-' | '.') => known,
                _ => '-',
            })
            .collect();
        let stem = stem.trim_matches(['-', '.']);
        let namespace = match text(namespace) {
            "" => NAMESPACE_OF_CLUSTER_SCOPED,
            namespace => namespace,
        };
        let event = format!("{stem}.{digits}");
        Key::namespaced(EVENTS, namespace, event.trim_start_matches('.'))
    }

    /// Adds another occurrence of the same note.
    pub fn absorb(&mut self, later: &Note) {
        self.count = self.count.saturating_add(later.count);
        self.at = self.at.max(later.at);
        self.is_repeated &= later.is_repeated;
    }
}

fn is_requester(api_version: &str, kind: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| REQUESTERS.contains(&(group, kind)))
}

/// Returns whether an event is about a requester; see [`Note::is_about_requester`].
pub(super) fn is_about_requester(event: &Map<String, Value>) -> bool {
    let Some(about) = event.get("involvedObject") else { return false };
    let text = |field: &str| about[field].as_str().unwrap_or_default();
    is_requester(text("apiVersion"), text("kind"))
}

/// Creates the event for a first note.
pub fn event(note: &Note, key: &Key) -> Map<String, Value> {
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": &*key.name, "namespace": &*key.namespace},
        "involvedObject": note.about,
        "reason": note.reason, "message": note.message, "type": note.severity.as_str(),
        "source": {"component": &*note.source},
        "reportingComponent": &*note.source, "reportingInstance": "",
        "firstTimestamp": note.at, "lastTimestamp": note.at, "count": note.count,
    });
    match event {
        Value::Object(event) => event,
        _ => unreachable!("written as an object above"),
    }
}

/// Returns the event with a higher count; `None` if that is not worth a write.
pub fn counted(mut event: Map<String, Value>, note: &Note) -> Option<Map<String, Value>> {
    let last = last_seen(&event);
    if note.is_repeated && last.is_some_and(|last| note.at < last.plus_seconds(REPEATED_EVERY_SECONDS)) {
        return None;
    }
    let count = event.get("count").and_then(Value::as_i64).unwrap_or(1).saturating_add(i64::from(note.count));
    event.insert("count".to_owned(), Value::from(count.min(i64::from(i32::MAX))));
    let at = last.map_or(note.at, |last| last.max(note.at));
    event.insert("lastTimestamp".to_owned(), Value::from(at.to_string()));
    // The version of the object is not part of the key, because kubectl does not select events by
    // it. It is updated here.
    if let (Some(version), Some(Value::Object(involved))) =
        (&note.about.resource_version, event.get_mut("involvedObject"))
    {
        involved.insert("resourceVersion".to_owned(), Value::from(version.as_str()));
    }
    Some(event)
}

/// Returns the seconds until the event expires; 0 if it has expired. For an event without a
/// `lastTimestamp`, the time counts from its creation.
pub fn seconds_left(event: &Map<String, Value>, now: Time) -> i64 {
    let created = event.get("metadata").and_then(|metadata| metadata["creationTimestamp"].as_str()?.parse().ok());
    let seen: Option<Time> = last_seen(event).max(created);
    seen.map_or(0, |seen| seen.plus_seconds(KEPT_SECONDS).seconds() - now.seconds()).max(0)
}

fn last_seen(event: &Map<String, Value>) -> Option<Time> {
    event.get("lastTimestamp")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_base::clock::ManualClock;

    fn note(at: i64, message: &str) -> Note {
        let recorder = Recorder::new(ManualClock::at(Time::from_seconds(at))).named("default-scheduler");
        let about = ObjectReference {
            kind: Some("ClusterRole".to_owned()),
            name: Some("System:Admin".to_owned()),
            ..ObjectReference::default()
        };
        Note::new(&recorder, about, Severity::Normal, "ScheduleBindingSucceed", message.to_owned())
    }

    #[test]
    fn the_same_news_has_the_same_key_and_other_news_another() {
        let key = note(1, "done").key();
        assert_eq!(key, note(2, "done").key());
        assert_ne!(key, note(1, "failed").key());
        assert_eq!(&*key.namespace, "default", "of an object without a namespace");
        assert!(key.name.starts_with("system-admin."), "{key}");
    }

    #[test]
    fn r74_what_happens_again_is_counted() {
        let first = note(100, "done");
        let known = event(&first, &first.key());
        assert_eq!((&known["count"], &known["lastTimestamp"]), (&json!(1), &json!("1970-01-01T00:01:40Z")));
        let again = counted(known, &note(131, "done")).unwrap();
        assert_eq!((&again["count"], &again["firstTimestamp"]), (&json!(2), &json!("1970-01-01T00:01:40Z")));
        assert_eq!(again["lastTimestamp"], json!("1970-01-01T00:02:11Z"));
    }

    #[test]
    fn what_is_only_repeated_is_counted_every_five_minutes() {
        let known = event(&note(100, "no room"), &note(100, "no room").key());
        let repeated = |at| Note { is_repeated: true, ..note(at, "no room") };
        assert_eq!(counted(known.clone(), &repeated(399)), None);
        assert_eq!(counted(known, &repeated(400)).unwrap()["count"], json!(2));
    }

    #[test]
    fn an_event_goes_an_hour_after_it_last_happened() {
        let known = event(&note(100, "done"), &note(100, "done").key());
        assert_eq!(seconds_left(&known, Time::from_seconds(100)), 3_600);
        assert_eq!(seconds_left(&known, Time::from_seconds(3_700)), 0);
    }

    #[test]
    fn only_those_who_ask_for_placements_are_requesters() {
        for (api_version, kind, expected) in [
            ("task.karmada.io/v1alpha1", "RescheduleTask", true),
            ("apps.karmada.io/v1alpha1", "WorkloadRebalancer", true),
            ("ballast.dev/v1alpha1", "Rebalance", true),
            ("ballast.dev/v1alpha1", "ClusterRebalance", true),
            ("ballast.dev/v1alpha1", "RebalanceSchedule", true),
            ("ballast.dev/v1alpha1", "Move", false),
            ("work.karmada.io/v1alpha2", "ResourceBinding", false),
            ("apps/v1", "Deployment", false),
            ("example.com/v1", "Rebalance", false),
            ("v1", "RescheduleTask", false),
            ("", "", false),
        ] {
            let mut note = note(1, "done");
            note.about.api_version = Some(api_version.to_owned());
            note.about.kind = Some(kind.to_owned());
            assert_eq!(note.is_about_requester(), expected, "{api_version} {kind}");
            assert_eq!(
                is_about_requester(&event(&note, &note.key())),
                expected,
                "the event about {api_version} {kind}"
            );
        }
        assert!(!is_about_requester(&Map::new()));
    }

    #[test]
    fn a_long_message_is_cut_between_letters() {
        assert_eq!(note(1, &"é".repeat(2_000)).message.len(), MESSAGE_BYTES_MAX);
    }
}
