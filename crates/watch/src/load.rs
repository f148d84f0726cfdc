//! Fills the cache: at the start, and when the log was compacted beyond the view of a follower.
//!
//! The newest row of each key becomes the view, and the end of the log becomes the windows, so that
//! watches resume across a restart.
//!
//! Other processes may commit and compact meanwhile. The state is read as of one revision, and the
//! follower reads later changes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use ballast_k8s::{DecodeError, Decoder, Object, Revision};
use ballast_store::{Bounds, Change, Error, Operation, Replacement, Span, Store, Tip};

use super::packer::Packer;
use super::window::{Event, EventKind};
use super::{Limits, View};

/// Rows per page, about four megabytes.
const PAGE_ROWS: usize = 1000;
/// Pages of a reader that are decoded in parallel.
const DECODERS_MAX: usize = 2;
/// Revisions that one of several readers takes at a time.
const PART_REVISIONS: i64 = 64 * 1024;

pub(super) struct Loaded {
    pub view: View,
    /// The events that the windows remember, oldest first.
    pub events: Vec<Arc<Event>>,
    /// The revision after which `events` starts.
    pub start: Revision,
    /// When the newest change was written, in milliseconds since 1970.
    pub time_ms: i64,
    /// The log at the revision of the view.
    pub tip: Tip,
}

pub(super) async fn load(store: &dyn Store, limits: &Limits) -> Result<Loaded, Error> {
    loop {
        let before = store.tip(Revision::ZERO).await?;
        let bounds = before.bounds;
        let found = load_at(store, bounds, limits).await;
        let tip = store.tip(bounds.last).await?;
        // The leader may compact the part that is being read.
        if found.is_err() && tip.bounds.compacted > bounds.compacted {
            continue;
        }
        // The database may lose changes meanwhile. Pages from before and after the loss are
        // inconsistent.
        let is_one_history = tip.bounds.last >= bounds.last
            && (tip.timeline, tip.lift) == (before.timeline, before.lift)
            && found.as_ref().is_ok_and(|found| found.newest.is_none() || found.newest == tip.own);
        if !is_one_history && (found.is_ok() || tip.bounds.last < bounds.last || tip.timeline != before.timeline) {
            tokio::task::yield_now().await;
            continue;
        }
        let LoadedParts { view, events, start, time_ms, .. } = found?;
        return Ok(Loaded { view, events, start, time_ms, tip });
    }
}

struct LoadedParts {
    view: View,
    events: Vec<Arc<Event>>,
    start: Revision,
    time_ms: i64,
    /// The last row of the log, if it was read as a row.
    newest: Option<Change>,
}

async fn load_at(store: &dyn Store, bounds: Bounds, limits: &Limits) -> Result<LoadedParts, Error> {
    let found = Mutex::new(Found { view: View::empty_at(bounds.last), time_ms: 0 });
    let parts = Mutex::new(Parts::of(bounds.last, store.readers()));
    let readers = (0..store.readers()).map(|_| read_parts(store, bounds.last, &parts, &found));
    futures_util::future::try_join_all(readers).await?;
    let Found { view, time_ms } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let RecentEvents { start, events, newest } = recent(store, &view, bounds, limits).await?;
    let newest_ms = events.last().map_or(time_ms, |last| last.time_ms.max(time_ms));
    Ok(LoadedParts { view, events, start, time_ms: newest_ms, newest })
}

/// The objects that the readers have found so far.
struct Found {
    view: View,
    time_ms: i64,
}

/// The parts of the log that no reader has taken yet.
struct Parts {
    next: Revision,
    last: Revision,
    /// Revisions per part.
    length: i64,
}

impl Parts {
    /// Splits the log into parts; a single reader gets the whole log as one part.
    fn of(last: Revision, readers: usize) -> Parts {
        let length = if readers > 1 { PART_REVISIONS } else { last.0 };
        Parts { next: Revision::ZERO, last, length }
    }

    fn take(&mut self) -> Option<Span> {
        let after = self.next;
        self.next = self.last.min(Revision(after.0.saturating_add(self.length)));
        (after < self.last).then_some(Span { after, through: self.next })
    }

    /// Skips all revisions before `first`, which have no rows.
    fn skip_to(&mut self, first: Revision) {
        self.next = self.next.max(Revision(first.0 - 1));
    }
}

/// Reads parts of the log until none is left. Pages are decoded while the next one is read.
async fn read_parts(store: &dyn Store, at: Revision, parts: &Mutex<Parts>, found: &Mutex<Found>) -> Result<(), Error> {
    let mut decoders = Decoders::default();
    let insert = |objects: Vec<Arc<Object>>| {
        let mut found = held(found);
        objects.into_iter().for_each(|object| found.view.insert(object));
    };
    while let Some(Span { mut after, through }) = { held(parts).take() } {
        let mut page = store.page(at, after, PAGE_ROWS).await?;
        loop {
            let is_last = page.len() < PAGE_ROWS || page.last().is_none_or(|last| last.revision >= through);
            if let Some(beyond) = page.iter().position(|state| state.revision > through) {
                // These rows belong to the next non-empty part.
                held(parts).skip_to(page[beyond].revision);
                page.truncate(beyond);
            } else if page.len() < PAGE_ROWS {
                // These are the last rows. After them, a bumped log has a long gap.
                held(parts).skip_to(at.next());
            }
            if let Some(last) = page.last() {
                after = last.revision;
                let mut found = held(found);
                found.time_ms = found.time_ms.max(last.time_ms);
            }
            let next = async {
                match is_last {
                    true => Ok(Vec::new()),
                    false => store.page(at, after, PAGE_ROWS).await,
                }
            };
            let (next, objects) = tokio::join!(next, decoders.take(page));
            insert(objects?);
            page = next?;
            if is_last {
                break;
            }
        }
    }
    while let Some(objects) = decoders.next().await {
        insert(objects?);
    }
    Ok(())
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no holder of this lock can panic")
}

type Decoded = Result<Vec<Arc<Object>>, Error>;

/// Decodes pages on blocking threads. The objects are packed at once: objects that a start reads
/// are idle, and a million unpacked objects would temporarily take twice the memory.
#[derive(Default)]
struct Decoders {
    /// In the order of the pages.
    busy: VecDeque<JoinHandle<(Decoded, Tools)>>,
    idle: Vec<Tools>,
}

#[derive(Default)]
struct Tools {
    decoder: Decoder,
    packer: Packer,
}

impl Decoders {
    /// Starts decoding a page, and returns the objects of an earlier one.
    async fn take(&mut self, page: Vec<Change>) -> Decoded {
        let done = if self.busy.len() < DECODERS_MAX { None } else { self.next().await };
        let mut tools = self.idle.pop().unwrap_or_default();
        self.busy.push_back(spawn_blocking(move || {
            let decoded = page.into_iter().map(|change| {
                let created = change.created;
                let decoded = tools.decoder.decode(change.key, change.revision, change.object);
                let object = made(decoded, created)?;
                tools.packer.pack(&object);
                Ok(Arc::new(object))
            });
            (decoded.collect(), tools)
        }));
        done.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Returns the objects of the oldest outstanding page.
    async fn next(&mut self) -> Option<Decoded> {
        let done = match self.busy.pop_front()?.await.map_err(JoinError::try_into_panic) {
            Ok((decoded, tools)) => {
                self.idle.push(tools);
                decoded
            }
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(stopped)) => {
                Err(Error::Unavailable { action: "failed to read the objects", source: Arc::new(stopped) })
            }
        };
        Some(done)
    }
}

/// The events at the end of the log, the revision after which they start, and the last row.
struct RecentEvents {
    start: Revision,
    events: Vec<Arc<Event>>,
    newest: Option<Change>,
}

async fn recent(store: &dyn Store, view: &View, bounds: Bounds, limits: &Limits) -> Result<RecentEvents, Error> {
    let (start, pages) = pages(store, bounds, limits).await?;
    let newest = pages.back().and_then(|page| page.last().cloned());
    let mut known = Known { view, recent: HashMap::new() };
    let mut events = Vec::new();
    for page in pages {
        known.learn_previous(store, &page).await?;
        for change in page {
            events.push(known.event(change)?);
        }
    }
    Ok(RecentEvents { start, events, newest })
}

/// Reads the end of the log in pages, and returns them with the revision after which they start.
/// All kinds together get the bounds of one window here, so the windows may be shorter after a
/// restart, but never wrong.
async fn pages(store: &dyn Store, bounds: Bounds, limits: &Limits) -> Result<(Revision, VecDeque<Vec<Change>>), Error> {
    let (mut start, mut rows, mut bytes) = (bounds.last, 0, 0);
    let mut pages = VecDeque::new();
    while start > bounds.compacted && rows < limits.window_events_max && bytes < limits.window_bytes_max {
        let wanted = PAGE_ROWS.min(limits.window_events_max - rows);
        let after = bounds.compacted.max(Revision(start.0 - wanted as i64));
        // The page next to the compacted part is shorter, because the rows after it were read.
        let page = store.changes(after, (start.0 - after.0) as usize).await?;
        // After the compacted part, every revision has a row.
        let there = page.iter().map(|change| change.revision.0);
        if !there.eq(after.0 + 1..=start.0) {
            return Err(missing(after, start));
        }
        rows += page.len();
        bytes += page.iter().map(|change| change.object.len()).sum::<usize>();
        pages.push_front(page);
        start = after;
    }
    Ok((start, pages))
}

/// Objects by revision, so that an event, the next event of the key and the view share them.
struct Known<'a> {
    view: &'a View,
    recent: HashMap<Revision, Arc<Object>>,
}

impl Known<'_> {
    /// Reads the states from before the window that the changes of a page replace.
    async fn learn_previous(&mut self, store: &dyn Store, page: &[Change]) -> Result<(), Error> {
        let Some(first) = page.first().map(|change| change.revision) else { return Ok(()) };
        let replaced = page.iter().map(|change| change.previous);
        let unknown: Vec<Revision> = replaced
            .filter(|previous| *previous > Revision::ZERO && *previous < first && !self.recent.contains_key(previous))
            .collect();
        for change in store.rows(&unknown).await? {
            let object = object(change)?;
            self.recent.insert(object.revision, Arc::new(object));
        }
        Ok(())
    }

    fn event(&mut self, change: Change) -> Result<Arc<Event>, Error> {
        let (revision, time_ms) = (change.revision, change.time_ms);
        // A state is replaced only once and not needed again.
        let previous = match change.previous {
            Revision::ZERO => None,
            previous => Some(self.recent.remove(&previous).ok_or_else(|| missing(previous, previous))?),
        };
        let kind = kind_of(change.operation);
        let object = match self.view.get(&change.key) {
            Some(newest) if newest.revision == revision => newest.clone(),
            _ => Arc::new(object(change)?),
        };
        if kind != EventKind::Deleted {
            self.recent.insert(revision, object.clone());
        }
        Ok(Arc::new(Event::new(revision, kind, object, previous, time_ms)))
    }
}

/// Converts a row that was read together with the state that it replaced.
pub(super) fn event_of(row: Replacement) -> Result<Arc<Event>, Error> {
    let Replacement { change, before } = row;
    let Change { revision, previous, time_ms, operation, .. } = change;
    let before = match before {
        Some(object) => Some(Change { revision: previous, object, ..change.clone() }),
        None if previous == Revision::ZERO => None,
        None => return Err(missing(previous, previous)),
    };
    let previous = before.map(object).transpose()?.map(Arc::new);
    let object = Arc::new(object(change)?);
    Ok(Arc::new(Event::new(revision, kind_of(operation), object, previous, time_ms)))
}

/// Converts the change that directly follows a view.
pub(super) fn next_event(view: &View, change: Change) -> Result<Arc<Event>, Error> {
    let previous = view.get(&change.key).cloned();
    let replaced = previous.as_ref().map_or(Revision::ZERO, |previous| previous.revision);
    if change.revision != view.revision.next() || change.previous != replaced {
        return Err(missing(view.revision.next(), change.revision));
    }
    let (revision, time_ms, kind) = (change.revision, change.time_ms, kind_of(change.operation));
    Ok(Arc::new(Event::new(revision, kind, Arc::new(object(change)?), previous, time_ms)))
}

fn kind_of(operation: Operation) -> EventKind {
    match operation {
        Operation::Create => EventKind::Created,
        Operation::Update => EventKind::Updated,
        Operation::Delete => EventKind::Deleted,
    }
}

pub(super) fn object(change: Change) -> Result<Object, Error> {
    made(Object::decode(change.key, change.revision, change.object), change.created)
}

fn made(decoded: Result<Object, DecodeError>, created: Revision) -> Result<Object, Error> {
    let mut object = decoded.map_err(|source| Error::Corrupt {
        advice: format!(
            "{source}; restore the database from a backup, or set this row aside and lose it \
             (`ballast serve --quarantine {}`)",
            source.key
        ),
        source: Some(Arc::new(source)),
    })?;
    object.created = created;
    Ok(object)
}

fn missing(first: Revision, last: Revision) -> Error {
    let advice = format!("rows of the revisions {first} to {last} are missing; restore the database from a backup");
    Error::Corrupt { advice, source: None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use ballast_k8s::{GroupResource, Key};
    use ballast_store::{MemoryStore, REVISION_BUMP_MAX, Term};

    const KIND: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

    fn change(revision: i64, name: i64, previous: i64, created: i64) -> Change {
        let name = format!("member-{name:04}");
        Change {
            revision: Revision(revision),
            key: Key::cluster(KIND, name.as_str()),
            operation: if previous == 0 { Operation::Create } else { Operation::Update },
            created: Revision(created),
            previous: Revision(previous),
            time_ms: revision,
            object: json!({"metadata": {"name": name}, "revision": revision}).to_string().into(),
        }
    }

    /// Creates a log of 3,000 objects of which the first half was updated, followed by a revision
    /// gap.
    async fn log() -> MemoryStore {
        let store = MemoryStore::new();
        let created = (1..=3_000).map(|number| change(number, number, 0, number));
        let updated = (1..=1_500).map(|number| change(3_000 + number, number, number, number));
        let changes: Vec<Change> = created.chain(updated).collect();
        store.commit(Term::default(), &changes).await.unwrap();
        store.bump_revision(Term::default(), Revision(1_000_000)).await.unwrap();
        let after = (1..=10).map(|number| change(1_000_000 + number, 5_000 + number, 0, 1_000_000 + number));
        store.commit(Term::default(), &after.collect::<Vec<_>>()).await.unwrap();
        store
    }

    #[tokio::test]
    async fn several_readers_find_what_one_finds() {
        let store = log().await;
        let at = store.bounds().await.unwrap().last;
        let whole = load(&store, &Limits::default()).await.unwrap();
        assert_eq!((whole.view.count(KIND, None), whole.time_ms), (3_010, at.0));
        for length in [100, 700, 1_000, 2_999, 1 << 40] {
            let found = Mutex::new(Found { view: View::empty_at(at), time_ms: 0 });
            let parts = Mutex::new(Parts { next: Revision::ZERO, last: at, length });
            let readers = (0..3).map(|_| read_parts(&store, at, &parts, &found));
            futures_util::future::try_join_all(readers).await.unwrap();
            let found = found.into_inner().unwrap();
            let texts = |view: &View| -> Vec<_> { view.list(KIND, None).map(|object| object.text.whole()).collect() };
            assert_eq!(texts(&found.view), texts(&whole.view), "parts of {length} revisions");
            assert_eq!(found.time_ms, at.0);
        }
    }

    #[tokio::test]
    async fn readers_end_where_the_rows_end() {
        let store = log().await;
        let at = REVISION_BUMP_MAX;
        store.bump_revision(Term::default(), at).await.unwrap();
        let found = Mutex::new(Found { view: View::empty_at(at), time_ms: 0 });
        let parts = Mutex::new(Parts { next: Revision::ZERO, last: at, length: 100 });
        let readers = (0..3).map(|_| read_parts(&store, at, &parts, &found));
        let reading = futures_util::future::try_join_all(readers);
        // Walking the gap part by part would take years.
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        read.expect("nobody walks through the gap").unwrap();
        let found = found.into_inner().unwrap();
        assert_eq!((found.view.count(KIND, None), found.time_ms), (3_010, 1_000_010));
    }
}
