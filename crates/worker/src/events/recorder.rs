//! The recorder: a handle for every component that records events, and the short queue behind it.
//!
//! Notes about requesters of placements (`Note::is_about_requester`) have a separate capacity in
//! the queue, and are taken first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use super::plan::{Note, Severity};
use super::trigger_tracker::{Summary, TriggerTracker};
use ballast_base::clock::Clock;
use ballast_k8s::Time;

/// Maximum number of waiting notes about requesters. Further ones are dropped.
const ABOUT_REQUESTERS_WAITING_MAX: usize = 1_000;
/// The number of other waiting notes from which on normal notes are dropped.
const NORMAL_WAITING_MAX: usize = 1_000;
/// The number of other waiting notes from which on warnings are dropped.
const WAITING_MAX: usize = 2_000;

/// Clones share one queue. Each may record under another component name.
#[derive(Clone)]
pub struct Recorder {
    waiting: Arc<Mutex<Waiting>>,
    clock: Arc<dyn Clock>,
    source: Arc<str>,
    triggers: TriggerTracker,
}

#[derive(Default)]
struct Waiting {
    about_requesters: VecDeque<Note>,
    others: VecDeque<Note>,
}

impl Recorder {
    pub fn new(clock: Arc<dyn Clock>) -> Recorder {
        Recorder { waiting: Arc::default(), clock, source: "ballast".into(), triggers: TriggerTracker::default() }
    }

    /// Returns a recorder with the same queue under the name of another component:
    /// `default-scheduler`.
    #[must_use]
    pub fn named(&self, source: &str) -> Recorder {
        Recorder { source: source.into(), ..self.clone() }
    }

    /// Returns the tracker of requested triggers.
    pub fn triggers(&self) -> &TriggerTracker {
        &self.triggers
    }

    /// Records the summary of the passes that an object requested.
    pub fn record_summary(&self, summary: Option<Summary>) {
        let Some(Summary { about, fits_everywhere, message }) = summary else { return };
        let severity = if fits_everywhere { Severity::Normal } else { Severity::Warning };
        tracing::info!(kind = about.kind, namespace = about.namespace, name = about.name, "{message}");
        self.record(Note::new(self, (*about).clone(), severity, "RescheduleAnswered", message));
    }

    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns whether a normal note about a binding or workload would be queued. Check this first
    /// if a note is costly to create.
    pub fn has_room(&self) -> bool {
        self.lock().others.len() < NORMAL_WAITING_MAX
    }

    /// Records a note, or drops it if the queue is full.
    pub fn record(&self, note: Note) {
        let mut waiting = self.lock();
        let (queue, room) = match (note.is_about_requester(), note.severity) {
            (true, _) => (&mut waiting.about_requesters, ABOUT_REQUESTERS_WAITING_MAX),
            (false, Severity::Normal) => (&mut waiting.others, NORMAL_WAITING_MAX),
            (false, Severity::Warning) => (&mut waiting.others, WAITING_MAX),
        };
        if queue.len() < room {
            queue.push_back(note);
        }
    }

    /// Takes the oldest notes, at most `limit`. Notes about requesters are taken first.
    pub(super) fn take(&self, limit: usize) -> Vec<Note> {
        let mut waiting = self.lock();
        let count = waiting.about_requesters.len().min(limit);
        let mut taken: Vec<Note> = waiting.about_requesters.drain(..count).collect();
        let count = waiting.others.len().min(limit - count);
        taken.extend(waiting.others.drain(..count));
        taken
    }

    /// Puts notes that no sink accepted back to the front, up to the capacity.
    pub(super) fn put_back(&self, notes: Vec<Note>) {
        let mut waiting = self.lock();
        for note in notes.into_iter().rev() {
            let (queue, room) = match note.is_about_requester() {
                true => (&mut waiting.about_requesters, ABOUT_REQUESTERS_WAITING_MAX),
                false => (&mut waiting.others, WAITING_MAX),
            };
            if queue.len() < room {
                queue.push_front(note);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ObjectReference;
    use ballast_base::clock::ManualClock;

    impl Waiting {
        fn len(&self) -> usize {
            self.about_requesters.len() + self.others.len()
        }
    }

    fn recorder() -> Recorder {
        Recorder::new(ManualClock::at(Time::from_seconds(100)))
    }

    fn note(recorder: &Recorder, severity: Severity) -> Note {
        Note::new(recorder, ObjectReference::default(), severity, "Reason", "message".to_owned())
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_warnings_find_room_longer() {
        let recorder = recorder();
        for _ in 0..WAITING_MAX {
            recorder.record(note(&recorder, Severity::Normal));
        }
        assert!(!recorder.has_room());
        assert_eq!(recorder.lock().len(), NORMAL_WAITING_MAX);
        for _ in 0..WAITING_MAX {
            recorder.record(note(&recorder, Severity::Warning));
        }
        assert_eq!(recorder.lock().len(), WAITING_MAX);
        let taken = recorder.take(10);
        assert_eq!(taken.len(), 10);
        recorder.put_back(taken);
        assert_eq!(recorder.lock().len(), WAITING_MAX);
    }

    fn about_task(recorder: &Recorder) -> Note {
        let about = ObjectReference {
            api_version: Some("task.karmada.io/v1alpha1".to_owned()),
            kind: Some("RescheduleTask".to_owned()),
            ..ObjectReference::default()
        };
        Note { about, ..note(recorder, Severity::Normal) }
    }

    #[test]
    fn a_queue_full_of_other_news_takes_what_a_requester_waits_for_and_gives_it_first() {
        let recorder = recorder();
        for _ in 0..WAITING_MAX {
            recorder.record(note(&recorder, Severity::Warning));
        }
        recorder.record(about_task(&recorder));
        let taken = recorder.take(2);
        assert_eq!(taken.iter().map(Note::is_about_requester).collect::<Vec<_>>(), [true, false]);
        recorder.put_back(taken);
        assert_eq!(recorder.lock().len(), WAITING_MAX + 1);
        assert!(recorder.take(1)[0].is_about_requester(), "also after it was given back");
    }

    #[test]
    fn news_about_requesters_has_a_bound_too_and_takes_no_room_from_the_rest() {
        let recorder = recorder();
        for _ in 0..2 * ABOUT_REQUESTERS_WAITING_MAX {
            recorder.record(about_task(&recorder));
        }
        assert_eq!(recorder.lock().len(), ABOUT_REQUESTERS_WAITING_MAX);
        recorder.put_back(vec![about_task(&recorder)]);
        assert_eq!(recorder.lock().len(), ABOUT_REQUESTERS_WAITING_MAX);
        assert!(recorder.has_room());
        assert_eq!(recorder.take(10).len(), 10);
    }
}
