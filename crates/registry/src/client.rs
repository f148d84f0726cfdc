//! The in-process client of workers and actions: batches of changes in one transaction, admitted
//! like the writes of users.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::admit::{Admission, Author, Read};
use super::core::{Core, Registry};
use super::ownership::Record;
use super::part::Part;
use super::remote_store::{self, RemoteStore, RemoteWrite};
use super::stored::Stored;
use super::update_outcome::{self, Origin, UpdateOutcome};
use super::{commit, create, delete, edit, metadata, newest};
use ballast_k8s::{
    Body, DeleteOptions, Document, Edit, FieldValidation, GroupResource, Key, Object, Revision, Status, Time, User,
};
use ballast_resource::{Lifetime, ResourceKind};
use ballast_watch::{Atomicity, Cache, Draft, Expect, Fence, View, Write, WriteError};

/// Batches above this size take more than about two milliseconds and are admitted on a blocking
/// thread. For smaller batches, a thread with cold caches would take longer.
const ADMITTED_INLINE_MAX: usize = 128;

#[derive(Clone)]
pub struct Client {
    pub(super) core: Arc<Core>,
    pub(super) user: User,
    /// The user's name as it appears in managed fields, for example `ballast-scheduler`.
    pub(super) manager: Arc<str>,
    fence: Option<Fence>,
}

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Change {
    Create(Map<String, Value>),
    /// A new version of the object, of which only `part` is written. Its `metadata.resourceVersion`
    /// must be the stored one.
    Update {
        part: Part,
        object: Map<String, Value>,
    },
    /// Changes of members of the stored object. `base` must be its newest version. The edited
    /// members are validated by the schema only, so the kind's own rules must not depend on them.
    Edit {
        base: Arc<Object>,
        edits: Vec<Edit>,
    },
    /// Deletes the object at this revision, or at any revision if `None`.
    Delete {
        key: Key,
        revision: Option<Revision>,
    },
    /// A write of an internal object with a key of no kind that clients write. It is not admitted.
    Own(Write),
}

impl Registry {
    /// Returns a client for a worker that acts as this user.
    pub fn client(&self, user: User) -> Client {
        Client::new(Arc::clone(&self.core), user, self.fence.clone())
    }
}

impl Client {
    fn new(core: Arc<Core>, user: User, fence: Option<Fence>) -> Client {
        let manager = user.name.trim_start_matches("system:").replace(':', "-").into();
        Client { core, user, manager, fence }
    }

    /// Returns the user that this client writes as.
    pub fn user(&self) -> &User {
        &self.user
    }

    pub fn view(&self) -> Arc<View> {
        self.core.cache.view()
    }

    /// Returns a view that includes every write acknowledged before this call, by any replica
    /// (RE6).
    pub async fn newest(&self) -> Result<Arc<View>, Status> {
        newest::view(&self.core).await
    }

    pub fn cache(&self) -> &Cache {
        &self.core.cache
    }

    /// Returns whether objects of this kind are stored upstream. A batch with them is not a
    /// transaction.
    pub fn is_remote(&self, resource: GroupResource) -> bool {
        self.core.remote_store.get().is_some_and(|remote| remote.keeps(resource))
    }

    /// Admits all changes against one view and commits them in one transaction. The results are in
    /// the order of the changes.
    ///
    /// An update that changes nothing succeeds and writes nothing, as does a delete of an object
    /// that waits for its finalizers. The result of a delete is the object's last state. With
    /// `Atomicity::All`, one rejected change rejects all.
    ///
    /// Changes of kinds that are stored upstream are written there first, one by one. If one of
    /// them fails, `Atomicity::All` writes nothing locally, and reverts nothing upstream. Such
    /// objects can be changed, but not created or deleted.
    ///
    /// # Errors
    ///
    /// An outer error means that nothing was written at all.
    pub async fn batch(
        &self,
        changes: Vec<(GroupResource, Change)>,
        atomicity: Atomicity,
    ) -> Result<Vec<ChangeResult>, Status> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        match self.core.remote_store.get() {
            Some(remote) if changes.iter().any(|(resource, _)| remote.keeps(*resource)) => {
                self.batch_with_remote(remote, changes, atomicity).await
            }
            _ => self.batch_here(changes, atomicity).await,
        }
    }

    async fn batch_with_remote(
        &self,
        remote: &Arc<dyn RemoteStore>,
        changes: Vec<(GroupResource, Change)>,
        atomicity: Atomicity,
    ) -> Result<Vec<ChangeResult>, Status> {
        if self.fence.as_ref().is_some_and(|fence| !fence()) {
            return Err(commit::failure(WriteError::Fenced));
        }
        let view = self.core.cache.view();
        let (mut writes, mut here) = (Vec::new(), Vec::new());
        // For each change: whether its result comes from upstream, and the rejection, if already
        // known.
        let mut sources: Vec<(bool, Option<Status>)> = Vec::with_capacity(changes.len());
        for (resource, change) in changes {
            if !remote.keeps(resource) {
                here.push((resource, change));
                sources.push((false, None));
                continue;
            }
            let refused = match remote_write(&**remote, &view, resource, change) {
                Ok(write) => {
                    writes.push(write);
                    None
                }
                Err(status) => Some(status),
            };
            sources.push((true, refused));
        }
        let is_all = atomicity == Atomicity::All;
        let mut is_off = is_all && sources.iter().any(|(_, refused)| refused.is_some());
        let answers = match is_off {
            true => writes.iter().map(|write| Err(commit::not_tried(&write.base.key))).collect(),
            false => remote.write(&self.manager, writes).await,
        };
        is_off |= is_all && answers.iter().any(Result::is_err);
        let count = here.len();
        let outcomes = match is_off {
            true => here.iter().map(|(resource, change)| Err(commit::not_tried(&named(*resource, change)))).collect(),
            false if here.is_empty() => Vec::new(),
            // Something was written upstream, so each change has its own result.
            false => self.batch_here(here, atomicity).await.unwrap_or_else(|status| vec![Err(status); count]),
        };
        let (mut answers, mut outcomes) = (answers.into_iter(), outcomes.into_iter());
        let answer = |(is_remote, refused): (bool, Option<Status>)| match refused {
            Some(status) => Err(status),
            None => {
                let next = if is_remote { answers.next() } else { outcomes.next() };
                next.unwrap_or_else(|| Err(Status::internal("a change of a batch got no answer")))
            }
        };
        Ok(sources.into_iter().map(answer).collect())
    }

    async fn batch_here(
        &self,
        changes: Vec<(GroupResource, Change)>,
        atomicity: Atomicity,
    ) -> Result<Vec<ChangeResult>, Status> {
        let view = self.core.cache.view();
        let decided = if changes.len() <= ADMITTED_INLINE_MAX {
            decide_all(&self.core, &view, &self.manager, changes)
        } else {
            let (core, manager) = (Arc::clone(&self.core), Arc::clone(&self.manager));
            let work = tokio::task::spawn_blocking(move || decide_all(&core, &view, &manager, changes));
            work.await.map_err(|_| Status::internal("failed to admit a batch"))?
        };
        // The writer checks the fence, because a batch that was decided before the lease was lost
        // must not be stored after it.
        commit_all(&self.core, self.fence.clone(), decided, atomicity).await
    }
}

/// Returns the upstream write of a change.
fn remote_write(
    remote: &dyn RemoteStore,
    view: &View,
    resource: GroupResource,
    change: Change,
) -> Result<RemoteWrite, Status> {
    match change {
        Change::Edit { base, edits } => {
            let mut object = base.value().map_err(Status::internal)?;
            edits.iter().for_each(|edit| edit.apply(&mut object));
            Ok(RemoteWrite { base, object })
        }
        Change::Update { part, mut object } => {
            let key = named(resource, &Change::Create(object.clone()));
            let stored = find(view, &key)?;
            update_outcome::check_version(&stored, metadata::of(&object))?;
            let mut old = stored.object.value().map_err(Status::internal)?;
            let status = |tree: &mut Map<String, Value>| tree.remove("status");
            match part {
                Part::Whole => {}
                Part::Main => {
                    object.remove("status");
                    object.extend(status(&mut old).map(|status| ("status".to_owned(), status)));
                }
                Part::Status => {
                    let reported = status(&mut object);
                    old.remove("status");
                    old.extend(reported.map(|status| ("status".to_owned(), status)));
                    object = old;
                }
            }
            Ok(RemoteWrite { base: Arc::clone(&stored.object), object })
        }
        Change::Create(_) => Err(remote_store::written_elsewhere(remote, resource, "create")),
        Change::Delete { .. } => Err(remote_store::written_elsewhere(remote, resource, "delete")),
        Change::Own(_) => Err(remote_store::written_elsewhere(remote, resource, "write")),
    }
}

/// Returns the key of a change's object, for error messages. Parts of it may be empty.
fn named(resource: GroupResource, change: &Change) -> Key {
    match change {
        Change::Create(object) | Change::Update { object, .. } => {
            let metadata = metadata::of(object);
            let [namespace, name] = ["namespace", "name"].map(|member| metadata::text(metadata, member));
            Key::namespaced(resource, namespace, name)
        }
        Change::Edit { base, .. } => base.key.clone(),
        Change::Delete { key, .. } => key.clone(),
        Change::Own(write) => write.key.clone(),
    }
}

/// The decision on one change.
enum Decided {
    Write(Write),
    Nothing(Arc<Object>),
    Refused(Status),
}

/// The result of one change.
pub type ChangeResult = Result<Arc<Object>, Status>;

/// A decision with its key, which names the change in its rejection if it is not tried.
type Decision = (Key, Decided);

fn decide_all(core: &Core, view: &View, manager: &str, changes: Vec<(GroupResource, Change)>) -> Vec<Decision> {
    let mut batch = Batch { core, view, manager, now: core.clock.now(), known: edit::Known::default() };
    changes.into_iter().map(|(resource, change)| decide(&mut batch, resource, change)).collect()
}

/// The state that the decisions of one batch share.
struct Batch<'a> {
    core: &'a Core,
    view: &'a View,
    manager: &'a str,
    now: Time,
    known: edit::Known,
}

fn decide(batch: &mut Batch<'_>, resource: GroupResource, change: Change) -> Decision {
    let Batch { core, view, manager, now, ref mut known } = *batch;
    let row = core.rows.get(&resource);
    let change = match change {
        Change::Own(write) if row.is_none_or(|row| !row.written_by_clients) && write.key.resource == resource => {
            return (write.key.clone(), Decided::Write(write));
        }
        change => change,
    };
    let Some(row) = row.filter(|row| row.lifetime == Lifetime::Stored) else {
        let message = format!("objects of {resource} are not stored here");
        return (Key::cluster(resource, ""), Decided::Refused(Status::failure(405, "MethodNotAllowed", message)));
    };
    let admission = Admission { row, author: Author::Worker, field_validation: FieldValidation::Strict, now };
    let (key, decided) = match change {
        Change::Create(object) => (key_of(row, &object), decide_create(core, &admission, object)),
        Change::Update { part, object } => {
            let key = key_of(row, &object);
            let decided = decide_update(&admission, view, manager, &key, part, object);
            (key, decided)
        }
        Change::Edit { base, edits } => {
            (base.key.clone(), decide_edit(&admission, view, manager, &base, &edits, known))
        }
        Change::Delete { key, revision } => {
            let decided = decide_delete(view, row, &key, revision, now);
            (key, decided)
        }
        Change::Own(write) => {
            (write.key, Err(Status::internal(format!("{resource} is served, and has to be admitted"))))
        }
    };
    match decided {
        // Use the key of the write, because the name may just have been generated.
        Ok(Decided::Write(write)) => (write.key.clone(), Decided::Write(write)),
        Ok(decided) => (key, decided),
        Err(status) => (key, Decided::Refused(status)),
    }
}

fn key_of(row: &ResourceKind, object: &Map<String, Value>) -> Key {
    create::key_of(row, metadata::of(object))
}

fn decide_create(core: &Core, admission: &Admission<'_>, object: Map<String, Value>) -> Result<Decided, Status> {
    let Read { mut object, warnings: mut unheard, .. } = admission.read_strictly(Body::of(object))?;
    create::prepare(core, admission, &mut object, &mut unheard)?;
    let key = key_of(admission.row, &object);
    Ok(Decided::Write(Write { key, expect: Expect::Absent, draft: Draft::Put(Document::new(object)) }))
}

fn decide_update(
    admission: &Admission<'_>,
    view: &View,
    manager: &str,
    key: &Key,
    part: Part,
    object: Map<String, Value>,
) -> Result<Decided, Status> {
    if part == Part::Status && !admission.row.status_subresource {
        return Err(Status::not_found(key.resource, &key.name));
    }
    let Read { object, warnings: mut unheard, .. } = admission.read_strictly(Body::of(object))?;
    let mut stored = find(view, key)?;
    update_outcome::check_version(&stored, metadata::of(&object))?;
    let origin = Origin::Update { manager, record: Record::default() };
    let outcome = update_outcome::decide(admission, part, &mut stored, object, origin, &mut unheard)?;
    Ok(decided(stored, outcome))
}

fn decide_edit(
    admission: &Admission<'_>,
    view: &View,
    manager: &str,
    base: &Arc<Object>,
    edits: &[Edit],
    known: &mut edit::Known,
) -> Result<Decided, Status> {
    let key = &base.key;
    let stored = view.get(key).ok_or_else(|| Status::not_found(key.resource, &key.name))?;
    if stored.revision != base.revision {
        return Err(Status::conflict(key.resource, &key.name));
    }
    // The subscribers of the change will read it again.
    stored.text.unpack();
    let document = edit::document(admission, manager, stored, edits, known)?;
    debug_assert!(
        edit::is_what_an_update_does(admission, manager, stored, edits, document.as_ref()),
        "{key} {edits:?}"
    );
    Ok(match document {
        None => Decided::Nothing(Arc::clone(stored)),
        Some(document) => {
            let expect = Expect::At(stored.revision);
            Decided::Write(Write { key: key.clone(), expect, draft: Draft::Put(document) })
        }
    })
}

fn decide_delete(
    view: &View,
    row: &ResourceKind,
    key: &Key,
    revision: Option<Revision>,
    now: Time,
) -> Result<Decided, Status> {
    let stored = find(view, key)?;
    let resource_version = revision.map(|revision| revision.to_string());
    let options = DeleteOptions { resource_version, ..DeleteOptions::default() };
    delete::check_preconditions(row.kind, &stored.object, &options)?;
    let outcome = delete::decide(&stored, None, now);
    Ok(decided(stored, outcome))
}

fn find(view: &View, key: &Key) -> Result<Stored, Status> {
    let object = view.get(key).ok_or_else(|| Status::not_found(key.resource, &key.name))?;
    Stored::parse(Arc::clone(object))
}

fn decided(stored: Stored, outcome: UpdateOutcome) -> Decided {
    match update_outcome::write(&stored.object, outcome) {
        Some(write) => Decided::Write(write),
        None => Decided::Nothing(stored.object),
    }
}

async fn commit_all(
    core: &Core,
    fence: Option<Fence>,
    decisions: Vec<Decision>,
    atomicity: Atomicity,
) -> Result<Vec<ChangeResult>, Status> {
    let is_refused = |(_, decided): &Decision| matches!(decided, Decided::Refused(_));
    let is_off = atomicity == Atomicity::All && decisions.iter().any(is_refused);
    let mut writes = Vec::with_capacity(decisions.len());
    // `None` if the writer returns the result.
    let mut answers: Vec<(Key, Option<ChangeResult>)> = Vec::with_capacity(decisions.len());
    for (key, decided) in decisions {
        let answer = match decided {
            Decided::Refused(status) => Some(Err(status)),
            _ if is_off => Some(Err(commit::not_tried(&key))),
            Decided::Nothing(object) => Some(Ok(object)),
            Decided::Write(write) => {
                writes.push(write);
                None
            }
        };
        answers.push((key, answer));
    }
    let mut outcomes = match writes.is_empty() {
        true => Vec::new(),
        false => core.writer.commit_behind(fence, writes, atomicity).await.map_err(commit::failure)?,
    }
    .into_iter();
    let answer_of_writer = |key: &Key, outcome| match outcome {
        Some(outcome) => Result::map_err(outcome, |rejected| commit::refusal(key, rejected)),
        None => Err(Status::internal("the writer gave no answer")),
    };
    let answers = answers.into_iter();
    Ok(answers.map(|(key, answer)| answer.unwrap_or_else(|| answer_of_writer(&key, outcomes.next()))).collect())
}
