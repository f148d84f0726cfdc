//! Reads the states of a log and writes to it while no server uses it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Context;

use super::Tree;
use super::comparison::{Fingerprint, StoredState};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding};
use ballast_k8s::{Document, GroupResource, Key, Revision};
use ballast_store::{Bounds, Change, Error, OfflineLog, Operation, Store};

/// Number of rows in one read, about two megabytes.
const PAGE_ROWS: usize = 1000;
/// Rows and bytes of one commit. An aborted import has written complete commits.
const COMMIT_ROWS: usize = 1000;
const COMMIT_BYTES: usize = 4 << 20;

/// The content of a log.
#[derive(Debug)]
pub struct States {
    pub bounds: Bounds,
    /// The time of the newest change, in milliseconds since 1970.
    pub time_ms: i64,
    pub by_key: HashMap<Key, StoredState>,
}

impl States {
    pub async fn read(store: &dyn Store) -> anyhow::Result<States> {
        let bounds = store.bounds().await?;
        let last = bounds.last;
        let mut states = States { bounds, time_ms: 0, by_key: HashMap::new() };
        // A deletion is not a state, and may be the newest change.
        states.time_ms = store.rows(&[last]).await?.first().map_or(0, |change| change.time_ms);
        each_state(store, last, |change| {
            let object = tree(&change)?;
            let Change { revision, created, key, time_ms, .. } = change;
            states.time_ms = states.time_ms.max(time_ms);
            states.by_key.insert(key, StoredState { revision, created, digest: Fingerprint::of(&object) });
            Ok(())
        })
        .await?;
        Ok(states)
    }
}

/// Returns all objects of a log at one revision, by kind and in the order of their names.
pub async fn objects(store: &dyn Store) -> anyhow::Result<HashMap<GroupResource, Vec<Tree>>> {
    let last = store.bounds().await?.last;
    let mut all: HashMap<GroupResource, Vec<(Key, Tree)>> = HashMap::new();
    each_state(store, last, |change| {
        let object = tree(&change)?;
        all.entry(change.key.resource).or_default().push((change.key, object));
        Ok(())
    })
    .await?;
    let sorted = all.into_iter().map(|(resource, mut objects)| {
        objects.sort_by(|(one, _), (other, _)| one.cmp(other));
        (resource, objects.into_iter().map(|(_, object)| object).collect())
    });
    Ok(sorted.collect())
}

/// Returns the objects of a cluster-scoped kind, by name.
pub async fn objects_of(store: &dyn Store, resource: GroupResource) -> anyhow::Result<BTreeMap<String, Tree>> {
    let last = store.bounds().await?.last;
    let mut found = BTreeMap::new();
    each_state(store, last, |change| {
        if change.key.resource == resource {
            found.insert(change.key.name.to_string(), tree(&change)?);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Returns the names of the clusters that bindings are placed on.
pub async fn clusters_in_use(store: &dyn Store) -> anyhow::Result<BTreeSet<String>> {
    let last = store.bounds().await?.last;
    let mut found = BTreeSet::new();
    each_state(store, last, |change| {
        if BINDINGS.contains(&change.key.resource)
            && let Ok(binding) = PartialBinding::of(&change.object)
        {
            found.extend(binding.spec.clusters().iter().map(|target| target.name.to_string()));
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

async fn each_state(
    store: &dyn Store,
    at: Revision,
    mut take: impl FnMut(Change) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut after = Revision::ZERO;
    loop {
        let page = store.page(at, after, PAGE_ROWS).await?;
        let is_last = page.len() < PAGE_ROWS;
        after = page.last().map_or(after, |change| change.revision);
        page.into_iter().try_for_each(&mut take)?;
        if is_last {
            return Ok(());
        }
    }
}

/// Returns the objects with these revisions.
pub async fn at(store: &dyn Store, revisions: &[Revision]) -> anyhow::Result<HashMap<Revision, Tree>> {
    let mut found = HashMap::new();
    for page in revisions.chunks(PAGE_ROWS) {
        for change in store.rows(page).await? {
            found.insert(change.revision, tree(&change)?);
        }
    }
    Ok(found)
}

fn tree(change: &Change) -> anyhow::Result<Tree> {
    serde_json::from_slice(&change.object)
        .with_context(|| format!("{} at revision {} is no object; restore a backup", change.key, change.revision))
}

/// A change to write.
#[derive(Debug)]
pub enum Write {
    Put(Key, Option<StoredState>, Document),
    /// With the last state.
    Remove(Key, StoredState, Document),
}

/// Writes the changes in order, in commits of bounded size. Returns the revision of the last one.
pub async fn write(log: &OfflineLog, states: &States, writes: Vec<Write>, now_ms: i64) -> Result<Revision, Error> {
    let (mut last, time_ms) = (states.bounds.last, states.time_ms.max(now_ms));
    let (mut group, mut bytes) = (Vec::new(), 0);
    for write in writes {
        last = last.next();
        let (key, operation, before, document) = match write {
            Write::Put(key, None, document) => (key, Operation::Create, None, document),
            Write::Put(key, Some(before), document) => (key, Operation::Update, Some(before), document),
            Write::Remove(key, before, document) => (key, Operation::Delete, Some(before), document),
        };
        let object = document.at(last).whole();
        bytes += object.len();
        let created = before.map_or(last, |before| before.created);
        let previous = before.map_or(Revision::ZERO, |before| before.revision);
        group.push(Change { revision: last, key, operation, created, previous, time_ms, object });
        if group.len() >= COMMIT_ROWS || bytes >= COMMIT_BYTES {
            log.commit(&group).await?;
            (group, bytes) = (Vec::new(), 0);
        }
    }
    if !group.is_empty() {
        log.commit(&group).await?;
    }
    Ok(last)
}
