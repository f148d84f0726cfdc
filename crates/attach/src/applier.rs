//! Writes upstream states to the log, and tracks the upstream version of each object. The applier
//! is the only writer of attached kinds.
//!
//! Objects are stored unchanged except for `metadata.managedFields`. The versions are kept in
//! memory. After a restart everything is listed again, and states that the log already holds are
//! not written again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::kinds::ATTACHED_KINDS;
use super::upstream_object::metadata;
use ballast_k8s::{Document, GroupResource, Key, Object, Revision};
use ballast_resource::ResourceKind;
use ballast_watch::{Atomicity, Cache, Draft, Expect, Write, WriteError, Writer};

type Tree = Map<String, Value>;

/// Objects in one transaction of the reflector: a page of a list.
pub const OBJECTS_PER_COMMIT_MAX: usize = 500;
/// How often a transaction is tried if the queue of the writer is full, or the store fails.
const TRIES_MAX: u32 = 8;
/// The pause before the second try. It doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// A change of one object.
pub enum Change {
    Put(Tree),
    /// The object was deleted upstream; its last known state.
    Deleted(Tree),
}

/// The source of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A list or a watch, which reports states in order.
    Reflector,
    /// The response to one of Ballast's own writes, which may arrive before or after its watch
    /// event.
    Response,
}

pub struct Applier {
    cache: Cache,
    writer: Writer,
    versions: BTreeMap<GroupResource, Mutex<Versions>>,
}

/// The known versions of one kind. The holder of the lock is the only writer of the kind.
type Versions = HashMap<Key, KnownVersion>;

/// The upstream version of a local object.
#[derive(Clone, Debug)]
struct KnownVersion {
    version: Box<str>,
    /// The local revision that holds that version.
    revision: Revision,
    /// The version is known from a response, so the reflector may still report older states.
    is_ahead: bool,
}

/// A change that is ready to be written.
struct Prepared {
    key: Key,
    version: Box<str>,
    uid: Box<str>,
    document: Document,
    is_gone: bool,
}

/// The effect of a change on one object.
enum Effect {
    /// The log already holds this version, or a newer one. Contains the object if it is exactly
    /// this version.
    None(Option<Arc<Object>>),
    Put,
    /// Another object of the same name replaces the stored one.
    Replace,
    Delete,
}

impl Applier {
    pub fn new(cache: Cache, writer: Writer) -> Applier {
        let versions = ATTACHED_KINDS.into_iter().map(|kind| (kind, Mutex::default())).collect();
        Applier { cache, writer, versions }
    }

    #[cfg(test)]
    pub fn view(&self) -> Arc<ballast_watch::View> {
        self.cache.view()
    }

    /// Returns the upstream version of the object at `revision`. `None` if that is not its newest
    /// revision.
    pub async fn version(&self, key: &Key, revision: Revision) -> Option<Box<str>> {
        let versions = self.versions.get(&key.resource)?.lock().await;
        let known = versions.get(key)?;
        (known.revision == revision).then(|| known.version.clone())
    }

    /// Writes changes of objects of one kind to the log. Returns, by key, the local objects that
    /// are at the passed version.
    ///
    /// # Errors
    ///
    /// If nothing could be written. The changes must then be passed in again.
    pub async fn take(
        &self,
        row: &Arc<ResourceKind>,
        changes: Vec<Change>,
        source: Source,
    ) -> Result<HashMap<Key, Arc<Object>>, WriteError> {
        let row = Arc::clone(row);
        let resource = row.resource;
        // A page of large objects takes milliseconds.
        let prepared = ballast_worker::run_blocking(move || prepare(&row, changes)).await.ok_or(WriteError::Closed)?;
        let Some(versions) = self.versions.get(&resource) else { return Ok(HashMap::new()) };
        let mut versions = versions.lock().await;
        let view = self.cache.view();
        let mut here = HashMap::new();
        let (mut writes, mut writing) = (Vec::new(), Vec::new());
        for change in &prepared {
            let state = view.get(&change.key);
            match effect_of(change, state, versions.get(&change.key), source) {
                Effect::None(object) => {
                    if let Some(object) = object {
                        let is_ahead = source == Source::Response;
                        versions.entry(object.key.clone()).or_insert_with(|| known(change, object.revision, is_ahead));
                        let known = versions.get_mut(&change.key).expect("it was just inserted");
                        known.version = change.version.clone();
                        here.insert(object.key.clone(), object);
                    }
                }
                Effect::Put => {
                    let expect = state.map_or(Expect::Absent, |object| Expect::At(object.revision));
                    writes.push(PlannedWrite { change, expect, is_removal: false });
                    writing.push(Some(change));
                }
                Effect::Replace => {
                    let expect = state.map_or(Expect::Absent, |object| Expect::At(object.revision));
                    writes.push(PlannedWrite { change, expect, is_removal: true });
                    writes.push(PlannedWrite { change, expect: Expect::Absent, is_removal: false });
                    writing.extend([None, Some(change)]);
                }
                Effect::Delete => {
                    let expect = state.map_or(Expect::Absent, |object| Expect::At(object.revision));
                    writes.push(PlannedWrite { change, expect, is_removal: true });
                    writing.push(Some(change));
                }
            }
        }
        if writes.is_empty() {
            return Ok(here);
        }
        let outcomes = self.commit(|| writes.iter().map(PlannedWrite::write).collect()).await?;
        for (change, outcome) in writing.into_iter().zip(outcomes) {
            match (change, outcome) {
                (None, Ok(_)) => {}
                (Some(change), Ok(_)) if change.is_gone => drop(versions.remove(&change.key)),
                (Some(change), Ok(object)) => {
                    versions.insert(object.key.clone(), known(change, object.revision, source == Source::Response));
                    here.insert(object.key.clone(), object);
                }
                (change, Err(rejected)) => {
                    // No other code writes these kinds. If it happens anyway, the next list repairs
                    // it.
                    tracing::error!(key = ?change.map(|change| &change.key), ?rejected, "the mirror was overtaken");
                }
            }
        }
        Ok(here)
    }

    /// Deletes local objects that are not in `listed`, because they are gone upstream. Returns
    /// their number.
    pub async fn prune(&self, kind: GroupResource, listed: &HashSet<Key>) -> Result<usize, WriteError> {
        let Some(versions) = self.versions.get(&kind) else { return Ok(0) };
        let mut versions = versions.lock().await;
        let view = self.cache.view();
        let gone: Vec<&Arc<Object>> = view.list(kind, None).filter(|object| !listed.contains(&object.key)).collect();
        for chunk in gone.chunks(OBJECTS_PER_COMMIT_MAX) {
            let write = |object: &&Arc<Object>| {
                let last: Tree = serde_json::from_slice(&object.text.whole()).unwrap_or_default();
                let draft = Draft::Delete(Document::new(last));
                Write { key: object.key.clone(), expect: Expect::At(object.revision), draft }
            };
            self.commit(|| chunk.iter().map(write).collect()).await?;
            chunk.iter().for_each(|object| drop(versions.remove(&object.key)));
        }
        Ok(gone.len())
    }

    /// Commits, and retries for a while if the queue of the writer is full or the store fails.
    async fn commit(
        &self,
        writes: impl Fn() -> Vec<Write>,
    ) -> Result<Vec<Result<Arc<Object>, ballast_watch::Rejected>>, WriteError> {
        let mut pause = PAUSE_FIRST;
        for _ in 1..TRIES_MAX {
            match self.writer.commit(writes(), Atomicity::Each).await {
                Err(WriteError::Busy | WriteError::Unavailable(_) | WriteError::InDoubt(_)) => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                answered => return answered,
            }
        }
        self.writer.commit(writes(), Atomicity::Each).await
    }
}

/// The write of a change.
struct PlannedWrite<'a> {
    change: &'a Prepared,
    expect: Expect,
    is_removal: bool,
}

impl PlannedWrite<'_> {
    fn write(&self) -> Write {
        let document = self.change.document.clone();
        let draft = if self.is_removal { Draft::Delete(document) } else { Draft::Put(document) };
        Write { key: self.change.key.clone(), expect: self.expect, draft }
    }
}

fn known(change: &Prepared, revision: Revision, is_ahead: bool) -> KnownVersion {
    KnownVersion { version: change.version.clone(), revision, is_ahead }
}

/// Returns the last change of each object, ready to be written.
fn prepare(row: &ResourceKind, changes: Vec<Change>) -> Vec<Prepared> {
    let mut last: BTreeMap<Key, Prepared> = BTreeMap::new();
    for change in changes {
        let (is_gone, mut object) = match change {
            Change::Put(object) => (false, object),
            Change::Deleted(object) => (true, object),
        };
        // The items of a list of an aggregated API server may lack their type.
        object.insert("apiVersion".to_owned(), row.api_version().into());
        object.insert("kind".to_owned(), row.kind.into());
        // Managed fields are only used upstream, and would take half of the memory.
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        let [namespace, name, uid, version] =
            ["namespace", "name", "uid", "resourceVersion"].map(|member| metadata(&object, member));
        let key = match row.is_namespaced() {
            true => Key::namespaced(row.resource, namespace, name),
            false => Key::cluster(row.resource, name),
        };
        let (version, uid) = (version.into(), uid.into());
        let document = Document::new(object);
        last.insert(key.clone(), Prepared { key, version, uid, document, is_gone });
    }
    last.into_values().collect()
}

/// Returns the effect of a change, given the local state and its known upstream version.
fn effect_of(change: &Prepared, state: Option<&Arc<Object>>, known: Option<&KnownVersion>, source: Source) -> Effect {
    let Some(state) = state else {
        // A response about an object that has since been deleted is ignored.
        return if change.is_gone || source == Source::Response { Effect::None(None) } else { Effect::Put };
    };
    let is_other = *change.uid != *state.uid;
    if change.is_gone {
        return if is_other { Effect::None(None) } else { Effect::Delete };
    }
    if let Some(known) = known {
        if known.version == change.version {
            return Effect::None(Some(Arc::clone(state)));
        }
        let may_be_late = source == Source::Response || known.is_ahead;
        if may_be_late && is_older(&change.version, &known.version) {
            return Effect::None(None);
        }
    }
    if is_other {
        return if source == Source::Response { Effect::None(None) } else { Effect::Replace };
    }
    match change.document.at(state.revision) == state.text {
        true => Effect::None(Some(Arc::clone(state))),
        false => Effect::Put,
    }
}

/// Returns whether one upstream version is older than another. Kubernetes specifies them as
/// increasing numbers; other forms are not comparable.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
