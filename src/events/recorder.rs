//! The recorder: a handle for every component that records events, and the short queue behind it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use super::asks::{Asks, Summary};
use super::plan::{Note, Severity};
use crate::clock::Clock;
use crate::k8s::Time;

/// News that waits. What is normal is dropped from here on,
const NORMAL_WAITING_MAX: usize = 1_000;
/// and warnings from here on.
const WAITING_MAX: usize = 2_000;

/// Clones share one queue. Each may record under another name.
#[derive(Clone)]
pub struct Recorder {
    waiting: Arc<Mutex<VecDeque<Note>>>,
    clock: Arc<dyn Clock>,
    source: Arc<str>,
    asks: Asks,
}

impl Recorder {
    pub fn new(clock: Arc<dyn Clock>) -> Recorder {
        Recorder { waiting: Arc::default(), clock, source: "ballast".into(), asks: Asks::default() }
    }

    /// The same queue, under the name of this component: `default-scheduler`.
    #[must_use]
    pub fn named(&self, source: &str) -> Recorder {
        Recorder { source: source.into(), ..self.clone() }
    }

    /// Who asked for which fresh placement.
    pub fn asks(&self) -> &Asks {
        &self.asks
    }

    /// Records what the passes that an object asked for came to.
    pub fn summed_up(&self, summary: Option<Summary>) {
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

    /// Whether a normal note would find room. Ask first where a note is costly to make.
    pub fn has_room(&self) -> bool {
        self.lock().len() < NORMAL_WAITING_MAX
    }

    /// Records a note. One that finds no room is dropped.
    pub fn record(&self, note: Note) {
        let mut waiting = self.lock();
        let room = match note.severity {
            Severity::Normal => NORMAL_WAITING_MAX,
            Severity::Warning => WAITING_MAX,
        };
        if waiting.len() < room {
            waiting.push_back(note);
        }
    }

    /// Takes the oldest notes, at most `limit`.
    pub(super) fn take(&self, limit: usize) -> Vec<Note> {
        let mut waiting = self.lock();
        let count = waiting.len().min(limit);
        waiting.drain(..count).collect()
    }

    /// Puts back notes that no sink took, in front, as far as there is room.
    pub(super) fn put_back(&self, notes: Vec<Note>) {
        let mut waiting = self.lock();
        for note in notes.into_iter().rev() {
            if waiting.len() < WAITING_MAX {
                waiting.push_front(note);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Note>> {
        self.waiting.lock().expect("no holder of this lock can panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::events::ObjectReference;

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
}
