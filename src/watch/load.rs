//! Fills the cache at the start.
//!
//! The newest row of each key becomes the view, and the end of the log becomes the windows, so that
//! watches resume across a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::clock::Clock;
use crate::k8s::{Key, Object, Revision};
use crate::store::{Bounds, Change, Error, Operation, Replacement, Store};

use super::window::{Event, EventKind};
use super::{Cache, Limits, View};

/// Rows that are read at once, about two megabytes.
const PAGE_ROWS: usize = 1000;

pub(super) struct Loaded {
    pub cache: Cache,
    /// When the newest change was written, in milliseconds since 1970.
    pub time_ms: i64,
}

pub(super) async fn load(log: &Arc<dyn Store>, clock: &dyn Clock, limits: &Limits) -> Result<Loaded, Error> {
    let store = &**log;
    let bounds = store.bounds().await?;
    let mut view = View::empty_at(bounds.last);
    let mut time_ms = 0;
    let mut after = Revision::ZERO;
    loop {
        let page = store.page(bounds.last, after, PAGE_ROWS).await?;
        let is_last = page.len() < PAGE_ROWS;
        for change in page {
            after = change.revision;
            time_ms = change.time_ms.max(time_ms);
            view.insert(Arc::new(object(change)?));
        }
        if is_last {
            break;
        }
    }
    let (start, pages) = recent(store, bounds, limits).await?;
    let cache = Cache::new(view, start, Arc::downgrade(log), limits.clone());
    let view = cache.view();
    let mut known = Known { view: &view, recent: HashMap::new() };
    for page in pages {
        time_ms = page.last().map_or(time_ms, |last| last.time_ms.max(time_ms));
        known.learn_previous(store, &page).await?;
        let events: Vec<Arc<Event>> = page.into_iter().map(|change| known.event(change)).collect::<Result<_, _>>()?;
        cache.recall(&events, clock.now_ms());
    }
    Ok(Loaded { cache, time_ms })
}

/// The end of the log in pages, and the revision that it begins after. All kinds together get the
/// bounds of one window here, so the windows may be shorter after a restart, but never wrong.
async fn recent(
    store: &dyn Store,
    bounds: Bounds,
    limits: &Limits,
) -> Result<(Revision, VecDeque<Vec<Change>>), Error> {
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
    /// Fetches the states from before the window that the changes of a page replace.
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
        // A state is replaced only once, so it is not needed again.
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
        Ok(Arc::new(Event { revision, kind, object, previous, time_ms }))
    }
}

/// The key and the state that a row replaced; `None` where there was nothing before.
pub(super) fn before(row: Replacement) -> Result<(Key, Option<Object>), Error> {
    let Replacement { change, before } = row;
    let key = change.key.clone();
    match before {
        Some(text) => Ok((key, Some(object(Change { revision: change.previous, object: text, ..change })?))),
        None if change.previous == Revision::ZERO => Ok((key, None)),
        None => Err(missing(change.previous, change.previous)),
    }
}

/// The event of a row that was read together with the state that it replaced.
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
    Ok(Arc::new(Event { revision, kind: kind_of(operation), object, previous, time_ms }))
}

fn kind_of(operation: Operation) -> EventKind {
    match operation {
        Operation::Create => EventKind::Created,
        Operation::Update => EventKind::Updated,
        Operation::Delete => EventKind::Deleted,
    }
}

fn object(change: Change) -> Result<Object, Error> {
    let created = change.created;
    let decoded = Object::decode(change.key, change.revision, change.object);
    let mut object = decoded.map_err(|source| Error::Corrupt {
        advice: format!("{source}; restore the database from a backup"),
        source: Some(Arc::new(source)),
    })?;
    object.created = created;
    Ok(object)
}

fn missing(first: Revision, last: Revision) -> Error {
    let advice = format!("rows of the revisions {first} to {last} are missing; restore the database from a backup");
    Error::Corrupt { advice, source: None }
}
