//! Sends events about bindings upstream, where users look for them.
//!
//! Writes of bindings have priority, so a round writes few events, warnings first. Waiting events
//! are merged, and their number is limited; a normal event above the limit is not sent upstream.
//!
//! An event is created, and its count is patched when it occurs again. Nothing is read, so only
//! `create` and `patch` must be allowed. The counts are cached; after a restart, the response to a
//! patch contains them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use http::Method;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::attached::Attached;
use super::upstream_writes::MERGE_PATCH;
use ballast_k8s::{Key, Status};
use ballast_worker::events::{Note, Severity, Sink, counted, event};

type Tree = Map<String, Value>;

/// Events per round. A round runs each second.
const ROUND_EVENTS_MAX: usize = 20;
/// The time for one round. Events that are not written by then wait for the next one.
const ROUND_MAX: Duration = Duration::from_secs(2);
const IN_FLIGHT_MAX: usize = 4;
/// The limit of waiting events above which normal events are dropped.
const NORMAL_WAITING_MAX: usize = 1_000;
/// The limit of waiting events above which warnings are dropped.
const WAITING_MAX: usize = 2_000;
/// Additional events about the objects that requested placements.
const ABOUT_REQUESTERS_WAITING_MAX: usize = 1_000;
/// The limit of cached event counts. At the limit, the cache is cleared.
const KNOWN_MAX: usize = 4_000;
/// The pause after the upstream has denied writing events.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(10 * 60);
/// Groups whose objects are stored locally. Events about them are not sent upstream.
const OWN_GROUPS: [&str; 2] = ["ballast.dev", "task.karmada.io"];
const OWN_FAMILY: &str = "kubernetes-fleet.io";

/// Writes events to the API server that Ballast is attached to.
pub struct UpstreamEvents {
    attached: Arc<Attached>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Key, Note>,
    /// Counts and last times of events upstream.
    known: HashMap<Key, Tree>,
    forbidden_until: Option<Instant>,
    is_told: bool,
}

impl State {
    fn is_forbidden(&self) -> bool {
        self.forbidden_until.is_some_and(|until| Instant::now() < until)
    }

    fn enqueue(&mut self, key: Key, note: Note) {
        let room = match note.severity {
            // Few, and guaranteed to be delivered.
            _ if note.is_about_requester() => WAITING_MAX + ABOUT_REQUESTERS_WAITING_MAX,
            Severity::Normal => NORMAL_WAITING_MAX,
            Severity::Warning => WAITING_MAX,
        };
        let has_room = self.waiting.len() < room;
        match self.waiting.get_mut(&key) {
            Some(known) => known.absorb(&note),
            None if has_room => drop(self.waiting.insert(key, note)),
            None => {}
        }
    }

    /// Returns the events of the next round: events about requesters first, then warnings, then the
    /// oldest.
    fn next_round(&mut self) -> Vec<(Key, Note)> {
        let rank = |note: &Note| (!note.is_about_requester(), note.severity == Severity::Normal, note.at);
        let mut order: Vec<_> = self.waiting.iter().map(|(key, note)| (rank(note), key.clone())).collect();
        order.sort();
        order.truncate(ROUND_EVENTS_MAX);
        order.into_iter().filter_map(|(_, key)| self.waiting.remove_entry(&key)).collect()
    }

    fn remember(&mut self, key: &Key, event: &Tree) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let counts = ["count", "lastTimestamp"].into_iter();
        let counts = counts.filter_map(|name| Some((name.to_owned(), event.get(name)?.clone())));
        self.known.insert(key.clone(), counts.collect());
    }
}

impl UpstreamEvents {
    pub fn new(attached: Arc<Attached>) -> UpstreamEvents {
        UpstreamEvents { attached, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No update of the state can be left incomplete by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, key: &Key, note: &Note) -> Result<(), Status> {
        let known = self.state().known.get(key).cloned();
        let known = match known {
            Some(known) => known,
            None => match self.create(key, note).await {
                // The event is from before a restart. The response contains its count.
                Err(status) if status.code == 409 => self.patch(key, json!({"lastTimestamp": note.at})).await?,
                created => return created,
            },
        };
        let Some(now) = counted(known.clone(), note) else {
            self.state().remember(key, &known);
            return Ok(());
        };
        let part = |name: &str| now.get(name).cloned().unwrap_or_default();
        match self.patch(key, json!({"count": part("count"), "lastTimestamp": part("lastTimestamp")})).await {
            Ok(event) => self.state().remember(key, &event),
            // The event has expired after an hour.
            Err(status) if status.code == 404 => {
                self.state().known.remove(key);
                self.create(key, note).await?;
            }
            Err(status) => return Err(status),
        }
        Ok(())
    }

    async fn create(&self, key: &Key, note: &Note) -> Result<(), Status> {
        let body = serde_json::to_vec(&event(note, key)).map_err(Status::internal)?;
        let request = http::Request::builder().method(Method::POST).uri(collection(key));
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        let event = self.attached.ask(request, body).await?;
        self.state().remember(key, &event);
        Ok(())
    }

    async fn patch(&self, key: &Key, change: Value) -> Result<Tree, Status> {
        let body = serde_json::to_vec(&change).map_err(Status::internal)?;
        let request = http::Request::patch(format!("{}/{}", collection(key), key.name));
        self.attached.ask(request.header(http::header::CONTENT_TYPE, MERGE_PATCH), body).await
    }

    /// Returns whether to try again later.
    fn is_late(&self, key: &Key, refused: &Status) -> bool {
        if refused.code == 403 && !is_ending(refused) {
            let mut state = self.state();
            state.forbidden_until = Some(Instant::now() + FORBIDDEN_PAUSE);
            if !std::mem::replace(&mut state.is_told, true) {
                let home = self.attached.url();
                tracing::warn!(
                    karmada = home,
                    why = refused.message,
                    "events are kept here only, because Karmada refuses them: apply \
                     deploy/beside-karmada/attached.yaml there, or turn them off with --attach-events=false"
                );
            }
            return false;
        }
        let is_passing = refused.code == 429 || refused.code >= 500;
        tracing::debug!(%key, status = %refused, is_passing, "failed to write an event to Karmada");
        is_passing
    }
}

#[async_trait]
impl Sink for UpstreamEvents {
    fn name(&self) -> &'static str {
        "home"
    }

    async fn post(&self, notes: Vec<Note>) -> Vec<Note> {
        let round = {
            let mut state = self.state();
            if state.is_forbidden() {
                return Vec::new();
            }
            notes.into_iter().filter(is_for_upstream).for_each(|note| state.enqueue(note.key(), note));
            // If the upstream requests a pause, events are the first to wait.
            if self.attached.is_paused() { Vec::new() } else { state.next_round() }
        };
        let end = Instant::now() + ROUND_MAX;
        let written = stream::iter(round).map(|(key, note)| async move {
            let is_late = match tokio::time::timeout_at(end, self.write(&key, &note)).await {
                Ok(Ok(())) => false,
                Ok(Err(refused)) => self.is_late(&key, &refused),
                Err(_) => true,
            };
            is_late.then_some((key, note))
        });
        let late: Vec<Option<(Key, Note)>> = written.buffer_unordered(IN_FLIGHT_MAX).collect().await;
        let mut state = self.state();
        late.into_iter().flatten().for_each(|(key, note)| state.enqueue(key, note));
        if state.is_forbidden() {
            state.waiting.clear();
        }
        Vec::new()
    }

    fn has_more(&self) -> bool {
        !self.state().waiting.is_empty()
    }
}

fn collection(key: &Key) -> String {
    format!("/api/v1/namespaces/{}/events", key.namespace)
}

/// Returns whether an event is about an object that is stored upstream: a binding, or its workload.
fn is_for_upstream(note: &Note) -> bool {
    let group = note.about.api_version.as_deref().and_then(|version| version.split_once('/')).map(|(group, _)| group);
    group.is_none_or(|group| !OWN_GROUPS.contains(&group) && !group.ends_with(OWN_FAMILY))
}

/// Returns whether the rejection is due to a terminating namespace, and not to missing permissions.
fn is_ending(refused: &Status) -> bool {
    let mut causes = refused.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::Time;
    use ballast_worker::events::ObjectReference;

    fn note(name: &str, at: i64, severity: Severity) -> Note {
        let about = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        let (message, source) = (String::new(), "ballast".into());
        Note { about, severity, reason: "R", message, source, at: Time::from_seconds(at), count: 1, is_repeated: false }
    }

    fn enqueue(state: &mut State, note: Note) {
        state.enqueue(note.key(), note);
    }

    #[test]
    fn warnings_go_first_and_find_room_longer_and_what_happens_again_is_merged() {
        let mut state = State::default();
        for number in 0..WAITING_MAX {
            enqueue(&mut state, note(&format!("n{number}"), number as i64, Severity::Normal));
        }
        assert_eq!(state.waiting.len(), NORMAL_WAITING_MAX);
        enqueue(&mut state, note("n0", 5_000, Severity::Normal));
        enqueue(&mut state, note("w", 9_000, Severity::Warning));
        let round = state.next_round();
        assert_eq!((round.len(), state.waiting.len()), (ROUND_EVENTS_MAX, NORMAL_WAITING_MAX + 1 - ROUND_EVENTS_MAX));
        let names: Vec<&str> = round.iter().map(|(_, note)| note.about.name.as_deref().unwrap()).collect();
        assert_eq!(names[..3], ["w", "n1", "n2"], "then what has waited longest");
        for number in 0..WAITING_MAX {
            enqueue(&mut state, note(&format!("v{number}"), 1, Severity::Warning));
        }
        assert_eq!(state.waiting.len(), WAITING_MAX);
        let twice = state.waiting.values().find(|note| note.about.name.as_deref() == Some("n0")).unwrap();
        assert_eq!((twice.count, twice.at), (2, Time::from_seconds(5_000)));
    }

    #[test]
    fn only_what_is_kept_at_home_is_told_there() {
        let of = |api_version: &str| {
            let mut note = note("x", 1, Severity::Normal);
            note.about.api_version = Some(api_version.to_owned());
            is_for_upstream(&note)
        };
        assert!(of("work.karmada.io/v1alpha2") && of("apps/v1") && of("v1"));
        assert!(!of("ballast.dev/v1alpha1") && !of("task.karmada.io/v1alpha1"));
        assert!(!of("placement.kubernetes-fleet.io/v1"));
    }
}
