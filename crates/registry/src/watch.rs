//! Watch: the changes of a collection, selected and in order, with bookmarks and an end (WA3-WA15).
//!
//! A watch is a cursor and costs nothing while no events arrive. A watch that starts before the
//! window of past events, or that falls out of it, first catches up from the log. If the log is
//! compacted beyond that point, it gets an error event and ends. The future of `next` is
//! cancel-safe.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::commit;
use super::core::Registry;
use super::list::{await_state, check_selectors, selected};
use super::locator::Locator;
use ballast_base::telemetry;
use ballast_k8s::{Document, FieldQuery, Key, ListOptions, Object, Parts, Revision, Selector, Status};
use ballast_watch::{Cache, CatchUpError, CatchUpRead, Event, EventKind, Expired, HistoryOf, Stale, Subscriber};

/// The interval between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time before its end at which a watch gets its last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The minimum timeout of a watch without one; the actual value is up to twice this (WA9).
const TIMEOUT_SECONDS_MIN: u64 = 1800;
/// The longest timeout, which keeps the arithmetic of times in range.
const TIMEOUT_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// An event as a watcher receives it.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    Added(Arc<Object>),
    Modified(Arc<Object>),
    /// The last state that the watcher received, at the revision of the change.
    Deleted(Arc<Object>),
    /// All events up to this revision were sent.
    Bookmark {
        revision: Revision,
        initial_events_end: bool,
    },
    /// The last event of the watch.
    Error(Status),
}

impl WatchEvent {
    /// Returns the type of the event on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            WatchEvent::Added(_) => "ADDED",
            WatchEvent::Modified(_) => "MODIFIED",
            WatchEvent::Deleted(_) => "DELETED",
            WatchEvent::Bookmark { .. } => "BOOKMARK",
            WatchEvent::Error(_) => "ERROR",
        }
    }

    /// Returns the size of the object in bytes. Zero if it is not known before serialization.
    pub fn size(&self) -> usize {
        match self {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => object.text.len(),
            WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => 0,
        }
    }
}

/// A running watch.
pub struct Watch {
    cache: Cache,
    filter: Filter,
    /// The objects at the start, for watches that start with the state.
    initial: std::vec::IntoIter<Arc<Object>>,
    ready: VecDeque<WatchEvent>,
    /// `None` once the watch has ended.
    source: Option<Source>,
    /// Whether the replica has lost the database for so long that watches end.
    outdated: watch::Receiver<bool>,
    bookmarks: bool,
    deadline: Instant,
    /// Fires at the next bookmark or at the deadline.
    timer: Pin<Box<Sleep>>,
}

/// The reason why a source has no more events.
enum SourceEnd {
    /// Events arrived faster than they were read. The log has the events after this revision.
    Behind(Revision),
    Over(Status),
}

/// The source of the events.
enum Source {
    Past(CatchUpRead),
    Live(Subscriber),
}

struct Filter {
    /// The scope of the log search: one key if the selectors allow no other.
    of: HistoryOf,
    namespace: Option<String>,
    labels: Selector,
    fields: FieldQuery,
}

impl Registry {
    pub async fn watch(&self, target: &Locator, options: &ListOptions) -> Result<Watch, Status> {
        target.allow("watch")?;
        check_selectors(target, options)?;
        let seconds = options.timeout_seconds.unwrap_or_else(|| {
            let spread = self.core.clock.random() % TIMEOUT_SECONDS_MIN;
            TIMEOUT_SECONDS_MIN + spread
        });
        let from = options.revision.filter(|&revision| revision > Revision::ZERO);
        // A watch without a revision starts with the state, requested or not (WA4).
        let starts_with_state = options.send_initial_events.unwrap_or(from.is_none());
        match from {
            None => await_state(&self.core, options.revision).await?,
            Some(revision) if options.send_initial_events == Some(true) => {
                await_state(&self.core, Some(revision)).await?;
            }
            Some(_) if self.core.cache.is_cut_off() => return Err(commit::try_again(Stale::Unreachable)),
            Some(_) => {}
        }
        let view = self.core.cache.view();
        let mut initial = Vec::new();
        let mut ready = VecDeque::new();
        let mut after = from.unwrap_or(view.revision);
        if starts_with_state {
            after = view.revision;
            initial = selected(&view, target, options, None).cloned().collect();
            if options.allow_bookmarks {
                ready.push_back(WatchEvent::Bookmark { revision: after, initial_events_end: true });
            }
        }
        let filter = Filter {
            of: history_of(target, &options.fields),
            namespace: target.namespace.clone(),
            labels: options.labels.clone(),
            fields: options.fields.clone(),
        };
        let source = match self.core.cache.subscribe_coalesced(target.row.resource, after) {
            Ok(subscriber) => Source::Live(subscriber),
            Err(_) => Source::Past(self.core.cache.catch_up_read(filter.of.clone(), after)),
        };
        let deadline = Instant::now() + Duration::from_secs(seconds.min(TIMEOUT_SECONDS_MAX));
        let mut watch = Watch {
            cache: self.core.cache.clone(),
            filter,
            initial: initial.into_iter(),
            ready,
            source: Some(source),
            outdated: self.core.cache.outdated(),
            bookmarks: options.allow_bookmarks,
            deadline,
            timer: Box::pin(tokio::time::sleep_until(deadline)),
        };
        watch.set_timer();
        Ok(watch)
    }
}

impl Watch {
    /// Returns the next event. `None` when the watch has ended.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if let Some(event) = self.pop() {
                return Some(event);
            }
            let source = self.source.as_mut()?;
            tokio::select! {
                biased;
                () = &mut self.timer => self.tick(),
                events = source.next() => self.take(events),
                () = becomes_true(&mut self.outdated) => self.take(Err(SourceEnd::Over(commit::try_again(Stale::Unreachable)))),
            }
        }
    }

    /// Returns the next event if one is available without waiting, so that a server can send
    /// several events together.
    pub fn next_ready(&mut self) -> Option<WatchEvent> {
        if let Some(event) = self.pop() {
            return Some(event);
        }
        if let Some(events) = self.source.as_mut()?.next().now_or_never() {
            self.take(events);
        }
        self.pop()
    }

    fn pop(&mut self) -> Option<WatchEvent> {
        self.initial.next().map(WatchEvent::Added).or_else(|| self.ready.pop_front())
    }

    fn take(&mut self, events: Result<Vec<Arc<Event>>, SourceEnd>) {
        match events {
            Ok(events) => self.ready.extend(events.iter().filter_map(|event| self.filter.shows(event))),
            Err(SourceEnd::Behind(after)) => {
                self.source = Some(Source::Past(self.cache.catch_up_read(self.filter.of.clone(), after)));
                return;
            }
            Err(SourceEnd::Over(status)) => {
                self.ready.push_back(WatchEvent::Error(status));
                self.source = None;
            }
        }
        if let Some(Source::Past(read)) = &self.source
            && let Some(subscriber) = read.join()
        {
            self.source = Some(Source::Live(subscriber));
        }
    }

    fn tick(&mut self) {
        if Instant::now() >= self.deadline {
            // Past events are sent before the end, also to a slow watcher.
            if let Some(events) = self.source.as_mut().and_then(|source| source.next().now_or_never()) {
                self.take(events);
            }
            self.source = None;
            return;
        }
        if let Some(source) = &self.source {
            let revision = source.position();
            self.ready.push_back(WatchEvent::Bookmark { revision, initial_events_end: false });
        }
        self.set_timer();
    }

    fn set_timer(&mut self) {
        let now = Instant::now();
        let last = self.deadline - BOOKMARK_BEFORE_END.min(self.deadline - now);
        let next = match self.bookmarks && last > now {
            true => last.min(now + BOOKMARK_EVERY),
            false => self.deadline,
        };
        self.timer.as_mut().reset(next);
    }
}

async fn becomes_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|it| *it).await.is_err() {
        // Unreachable: the cache holds the sender.
        std::future::pending().await
    }
}

impl Source {
    async fn next(&mut self) -> Result<Vec<Arc<Event>>, SourceEnd> {
        match self {
            Source::Live(subscriber) => subscriber.next().await.map_err(|_| SourceEnd::Behind(subscriber.given())),
            Source::Past(read) => read.next().await.map_err(|lost| match lost {
                CatchUpError::Expired(expired) => SourceEnd::Over(too_old(expired)),
                CatchUpError::Unreadable(error) => {
                    tracing::error!(error = telemetry::with_causes(&error), "a watch cannot catch up");
                    SourceEnd::Over(Status::unavailable("the past cannot be read now".to_owned()))
                }
            }),
        }
    }

    fn position(&self) -> Revision {
        match self {
            Source::Live(subscriber) => subscriber.position(),
            Source::Past(read) => read.position(),
        }
    }
}

/// Returns the key that the selectors of a watch fix, or else its kind.
fn history_of(target: &Locator, fields: &FieldQuery) -> HistoryOf {
    let resource = target.row.resource;
    let namespace = target.namespace.as_deref().or_else(|| fields.namespace());
    let key = fields.name().and_then(|name| match namespace {
        Some(namespace) => Some(Key::namespaced(resource, namespace, name)),
        None => (!target.row.is_namespaced()).then(|| Key::cluster(resource, name)),
    });
    key.map_or(HistoryOf::Kind(resource), HistoryOf::Key)
}

impl Filter {
    fn shows(&self, event: &Event) -> Option<WatchEvent> {
        let key = &event.object.key;
        let in_namespace = self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace);
        if key.resource != self.of.resource() || !in_namespace || !self.fields.matches_key(key) {
            return None;
        }
        let selects = |object: &Object| self.labels.matches(&*object.labels) && self.fields.matches(object);
        let previous = event.previous.as_ref().filter(|previous| selects(previous));
        let object = || Arc::clone(&event.object);
        match (event.kind, previous) {
            (EventKind::Deleted, Some(_)) => Some(WatchEvent::Deleted(object())),
            (EventKind::Deleted, None) => None,
            (_, None) => selects(&event.object).then(|| WatchEvent::Added(object())),
            (_, Some(_)) if selects(&event.object) => Some(WatchEvent::Modified(object())),
            // The object is no longer selected. This watcher receives it as deleted, in its last
            // selected state (WA8).
            (_, Some(previous)) => Some(WatchEvent::Deleted(at_revision(previous, event.revision))),
        }
    }
}

/// Returns the same content under another revision.
fn at_revision(object: &Arc<Object>, revision: Revision) -> Arc<Object> {
    // Objects in the cache have been parsed before, so this does not fail.
    let content = object.text.content();
    let Ok(parts) = Parts::read(&content) else { return Arc::clone(object) };
    let document = Document::edited(object, parts, object.text.managers().cloned(), object.generation);
    Arc::new(Object::of(object.key.clone(), revision, object.created, &document))
}

fn too_old(expired: Expired) -> Status {
    let Expired { asked, oldest } = expired;
    Status::expired(format!("too old resource version: {asked} ({oldest})"))
}
