//! The source of an import: an API server, or files that an export has written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use super::comparison::{Comparing, Comparison, StoredState};
use super::kinds::Versions;
use super::{Tree, files, metadata};
use crate::cli::operator::CommonArgs;
use crate::cli::operator::server::{Refused, Server};
use ballast_k8s::{GroupResource, Key, Revision};
use ballast_node::UsageError;
use ballast_resource::ResourceKind;
use ballast_store::{REVISION_BUMP_MAX, REVISIONS_SKIPPED};

/// The highest revision that a log can be lifted above.
const SEEN_MAX: i64 = REVISION_BUMP_MAX.0 - REVISIONS_SKIPPED;
/// Maximum number of displayed characters of an unparsable version.
const SHOWN_MAX: usize = 40;

/// Maximum number of restarts of a list that took longer than the server keeps its revision (410).
const LIST_TRIES: usize = 3;

pub enum Source {
    Api(Box<Api>),
    Files(Files),
}

/// The highest revision that clients of the source may have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRevisions {
    pub latest: Revision,
    /// A version that is not a number in Ballast's format, so it cannot be compared.
    pub strange: Option<String>,
}

impl SeenRevisions {
    fn note(&mut self, version: &str) {
        match version.parse::<i64>() {
            Ok(version) if (0..=SEEN_MAX).contains(&version) => self.latest = self.latest.max(Revision(version)),
            _ if version.is_empty() => {}
            _ => drop(self.strange.get_or_insert_with(|| version.chars().take(SHOWN_MAX).collect())),
        }
    }
}

/// An API server, and the kinds that it serves.
pub struct Api {
    pub server: Server,
    served: BTreeSet<(&'static str, &'static str, &'static str)>,
    seen: SeenRevisions,
}

/// The objects of files, by kind.
pub struct Files {
    by_kind: BTreeMap<GroupResource, Vec<Tree>>,
    /// Objects of kinds that are not imported, counted by kind.
    left: BTreeMap<String, usize>,
    seen: SeenRevisions,
}

impl Api {
    /// Queries the served kinds. A group that does not respond is an error, because its objects
    /// would seem to be deleted.
    pub async fn open(args: &CommonArgs, kinds: &[Versions]) -> anyhow::Result<Api> {
        let server = Server::open_any(args).await?;
        let groups: Value = server.get("/apis").await?;
        let mut offered = BTreeSet::new();
        for group in list(&groups["groups"]) {
            for version in list(&group["versions"]) {
                offered.insert(version["groupVersion"].as_str().unwrap_or_default().to_owned());
            }
        }
        let rows = || kinds.iter().flat_map(|kind| kind.all());
        let wanted: BTreeSet<String> = rows().map(|row| row.api_version()).collect();
        let mut served = BTreeSet::new();
        for group_version in wanted.intersection(&offered) {
            let resources: Value = server.get(&format!("/apis/{group_version}")).await.with_context(|| {
                format!("{group_version} is announced and not answered (does an APIService point to a server that is stopped?)")
            })?;
            let names: BTreeSet<&str> =
                list(&resources["resources"]).filter_map(|resource| resource["name"].as_str()).collect();
            for row in rows().filter(|row| row.api_version() == *group_version && names.contains(row.plural)) {
                served.insert((row.group, row.version, row.plural));
            }
        }
        Ok(Api { server, served, seen: SeenRevisions::default() })
    }

    /// Returns the version of a kind to use there: preferably the one that is stored here.
    pub fn version<'a>(&self, kind: &'a Versions) -> Option<&'a ResourceKind> {
        let mut rows = kind.all().iter().map(|row| &**row);
        rows.find(|row| self.served.contains(&(row.group, row.version, row.plural)))
    }

    /// Lists all objects of a kind, in all namespaces, page by page.
    pub async fn list(&self, row: &ResourceKind) -> anyhow::Result<Vec<Tree>> {
        let path = format!("/{}/{}", row.root(), row.plural);
        let mut tries = 0;
        let items = loop {
            tries += 1;
            match self.server.list(&path, &[]).await {
                Ok((items, _)) => break items,
                Err(error) if tries < LIST_TRIES && is_expired(&error) => {}
                Err(error) => return Err(error.context(format!("failed to list {}", row.resource))),
            }
        };
        items.into_iter().map(|item| object(item).with_context(|| format!("{} at {path}", row.resource))).collect()
    }

    /// Compares page by page, so that at most one page is in memory.
    async fn compare(
        &mut self,
        row: &ResourceKind,
        stored: &ResourceKind,
        here: &HashMap<Key, StoredState>,
    ) -> anyhow::Result<Comparison> {
        let path = format!("/{}/{}", row.root(), row.plural);
        let mut tries = 0;
        loop {
            tries += 1;
            let mut comparing = Comparing::begin(stored, here);
            let seen = &mut self.seen;
            let pages = self.server.list_pages(&path, &[], |page| {
                // An item that is not an object has no name, and is rejected.
                let trees = page.into_iter().map(|item| object(item).unwrap_or_default());
                trees.for_each(|object| {
                    seen.note(metadata(&object, "resourceVersion"));
                    add(&mut comparing, object);
                });
            });
            match pages.await {
                Ok(version) => {
                    self.seen.note(&version);
                    return Ok(comparing.end());
                }
                Err(error) if tries < LIST_TRIES && is_expired(&error) => {}
                Err(error) => return Err(error.context(format!("failed to list {}", row.resource))),
            }
        }
    }
}

fn is_expired(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(410))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn object(value: Value) -> anyhow::Result<Tree> {
    match value {
        Value::Object(tree) => Ok(tree),
        _ => bail!("an item of the list is no object"),
    }
}

impl Files {
    /// Reads a file, a folder of files, or standard input (`-`).
    pub fn read(path: &Path, kinds: &[Versions]) -> anyhow::Result<Files> {
        let mut read = Files { by_kind: BTreeMap::new(), left: BTreeMap::new(), seen: SeenRevisions::default() };
        files::read(path, &mut |object| read.take(object, kinds))?;
        if read.by_kind.is_empty() {
            let what = format!("{} has no object of a kind that is imported", path.display());
            return Err(UsageError(what).into());
        }
        Ok(read)
    }

    fn take(&mut self, object: Tree, kinds: &[Versions]) {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let is_it = |row: &ResourceKind| row.kind == kind && row.api_version() == api_version;
        match kinds.iter().find(|versions| versions.all().iter().any(|row| is_it(row))) {
            Some(versions) => {
                self.seen.note(metadata(&object, "resourceVersion"));
                self.by_kind.entry(versions.resource()).or_default().push(object);
            }
            None => *self.left.entry(format!("{kind} of {api_version}")).or_default() += 1,
        }
    }
}

impl Source {
    /// Compares the objects of a kind with the states of a log. `None` if the source does not have
    /// the kind.
    pub async fn compare(
        &mut self,
        kind: &Versions,
        here: &HashMap<Key, StoredState>,
    ) -> anyhow::Result<Option<Comparison>> {
        match self {
            Source::Files(files) => Ok(files.by_kind.remove(&kind.resource()).map(|objects| {
                let mut comparing = Comparing::begin(kind.stored(), here);
                objects.into_iter().for_each(|object| add(&mut comparing, object));
                comparing.end()
            })),
            Source::Api(api) => match api.version(kind) {
                Some(row) => Ok(Some(api.compare(row, kind.stored(), here).await?)),
                None => Ok(None),
            },
        }
    }

    /// Returns the ClusterProfiles of the source.
    pub async fn profiles(&mut self, kind: &Versions) -> anyhow::Result<Vec<Tree>> {
        match self {
            Source::Files(files) => Ok(files.by_kind.remove(&kind.resource()).unwrap_or_default()),
            Source::Api(api) => match api.version(kind) {
                Some(row) => api.list(row).await,
                None => bail!("the source serves no {}", kind.resource()),
            },
        }
    }

    /// Returns the revisions seen so far.
    pub fn seen(&self) -> &SeenRevisions {
        match self {
            Source::Api(api) => &api.seen,
            Source::Files(files) => &files.seen,
        }
    }

    /// Returns whether a kind that the source does not have should be reported.
    pub fn tells_what_is_not_served(&self) -> bool {
        matches!(self, Source::Api(_))
    }

    /// Returns sentences about kinds that were omitted.
    pub fn left_out(&self) -> Vec<String> {
        match self {
            Source::Api(_) => Vec::new(),
            Source::Files(files) => files
                .left
                .iter()
                .map(|(kind, count)| format!("Left out, because it is not served here: {count} {kind}"))
                .collect(),
        }
    }
}

/// Adds an object, unless its deletion is pending without finalizers: nothing would complete the
/// deletion here.
fn add(comparing: &mut Comparing<'_>, object: Tree) {
    if !is_gone(&object) {
        comparing.add(object);
    }
}

/// Returns whether an object is being deleted and waits for no finalizer.
fn is_gone(object: &Tree) -> bool {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    !metadata(object, "deletionTimestamp").is_empty() && finalizers.is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_waits_for_its_end_is_gone() {
        let is_gone = |metadata: Value| is_gone(json!({ "metadata": metadata }).as_object().unwrap());
        assert!(is_gone(json!({"deletionTimestamp": "2024-01-01T00:00:00Z"})));
        assert!(!is_gone(json!({"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]})));
        assert!(!is_gone(json!({"name": "x"})));
    }
}
