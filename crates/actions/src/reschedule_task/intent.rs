//! The intent of a RescheduleTask: the bindings that are still to be marked, as one object in the
//! log. The intent survives a crash and a change of the leader, and is copied, backed up and
//! compacted like any other object.
//!
//! *Invariant:* each transaction that marks bindings for an intent also moves the intent past them.
//! So no binding is marked twice for one task, and none is left out.
//!
//! The key of the intent belongs to no served kind, so requests do not see it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::selection::{Selection, kinds};
use ballast_api::karmada::task::v1alpha1::RescheduleTaskSpec;
use ballast_k8s::{Document, GroupResource, Key, Object, Revision, Status, Time};
use ballast_registry::Change;
use ballast_watch::{Draft, Expect, View, Write};
use ballast_worker::events::ObjectReference;

pub(super) const INTENTS: GroupResource = GroupResource::new("rescheduleintents.internal.ballast.dev");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Intent {
    /// The task, for events.
    pub about: ObjectReference,
    pub spec: RescheduleTaskSpec,
    /// The creation time of the task: the trigger timestamp of all its marks.
    pub asked: Time,
    /// The revision of the view that the task selected from. Later bindings are not marked.
    through: i64,
    /// The number of bindings that the task selected then.
    pub selected: usize,
    /// All bindings up to this one were tried, in the order of `Selection::after`.
    after: Option<Position>,
    /// The number of tried bindings that are marked.
    pub marked: usize,
    /// The number of tried bindings that refused their mark.
    pub refused: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Position {
    resource: String,
    namespace: String,
    name: String,
}

/// The reason why a stored intent cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("it goes on after a {0}, which no task selects")]
    NoSuchKind(String),
}

impl Intent {
    /// Creates the intent to mark the selection of `spec` at this revision.
    pub fn new(about: ObjectReference, spec: RescheduleTaskSpec, asked: Time, through: Revision) -> Intent {
        let (selected, marked, refused) = (0, 0, 0);
        Intent { about, spec, asked, through: through.0, selected, after: None, marked, refused }
    }

    pub fn read(object: &Object) -> Result<Intent, Unusable> {
        let intent: Intent = serde_json::from_slice(&object.text.content())?;
        // From an unknown position it would start over, and mark bindings twice.
        match &intent.after {
            Some(Position { resource, .. }) if kinds().all(|kind| kind.as_str() != resource) => {
                Err(Unusable::NoSuchKind(resource.clone()))
            }
            _ => Ok(intent),
        }
    }

    /// Returns the next bindings to mark, at most `limit`. Fewer than `limit` are the last ones.
    ///
    /// The selection is evaluated on `view`: bindings that are no longer selected are skipped.
    pub fn next(&self, view: &View, limit: usize) -> Vec<Key> {
        let position = self.after.as_ref().map(|Position { resource, namespace, name }| {
            Key::namespaced(GroupResource::intern(resource), namespace.as_str(), name.as_str())
        });
        let selection = Selection::new(&self.spec, view);
        let left = selection.after(view, position.as_ref()).filter(|object| object.created.0 <= self.through);
        left.take(limit).map(|object| object.key.clone()).collect()
    }

    /// Records that all bindings up to this key were tried.
    pub fn pass(&mut self, last: &Key, marked: usize, refused: usize) {
        let Key { resource, namespace, name } = last;
        let position =
            Position { resource: resource.to_string(), namespace: namespace.to_string(), name: name.to_string() };
        self.after = Some(position);
        self.marked += marked;
        self.refused += refused;
    }

    /// Returns the write that stores the intent for the first time, under a unique name.
    pub fn begin(&self, name: &str) -> Result<(GroupResource, Change), Status> {
        let key = Key::cluster(INTENTS, name);
        self.write(key, Expect::Absent, Draft::Put)
    }

    /// Returns the write that replaces the stored intent.
    pub fn put(&self, stored: &Object) -> Result<(GroupResource, Change), Status> {
        self.write(stored.key.clone(), Expect::At(stored.revision), Draft::Put)
    }

    /// Returns the write that deletes the stored intent.
    pub fn end(&self, stored: &Object) -> Result<(GroupResource, Change), Status> {
        self.write(stored.key.clone(), Expect::At(stored.revision), Draft::Delete)
    }

    fn write(
        &self,
        key: Key,
        expect: Expect,
        draft: impl FnOnce(Document) -> Draft,
    ) -> Result<(GroupResource, Change), Status> {
        let Value::Object(mut tree) = serde_json::to_value(self).map_err(Status::internal)? else {
            return Err(Status::internal("an intent is no object"));
        };
        let name = Value::from(&*key.name);
        tree.insert("metadata".to_owned(), Value::Object(Map::from_iter([("name".to_owned(), name)])));
        Ok((INTENTS, Change::Own(Write { key, expect, draft: draft(Document::new(tree)) })))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use ballast_api::karmada::task::v1alpha1::PolicySelector;
    use ballast_api::karmada::work::v1alpha2::BINDINGS;

    fn object(kind: GroupResource, name: &str, created: i64) -> Arc<Object> {
        let text = json!({"metadata": {"name": name}, "spec": {}}).to_string();
        let mut object = Object::decode(Key::cluster(kind, name), Revision(created), text.into()).unwrap();
        object.created = Revision(created);
        Arc::new(object)
    }

    fn everything() -> Intent {
        let spec = RescheduleTaskSpec { target_ref_policy: vec![PolicySelector::default()], ..Default::default() };
        Intent::new(ObjectReference::default(), spec, Time::from_seconds(5), Revision(10))
    }

    #[test]
    fn an_intent_goes_through_all_kinds_in_order_and_leaves_what_is_younger() {
        let [first, second] = BINDINGS;
        let view = View::of([
            object(second, "a", 3),
            object(first, "b", 10),
            object(first, "a", 1),
            object(first, "c", 11),
            object(second, "b", 4),
        ]);
        let mut intent = everything();
        let mut seen = Vec::new();
        loop {
            let next = intent.next(&view, 2);
            seen.extend(next.iter().map(|key| (key.resource, key.name.to_string())));
            let Some(last) = next.last() else { break };
            intent.pass(last, next.len(), 0);
        }
        let expected = [(first, "a"), (first, "b"), (second, "a"), (second, "b")];
        assert_eq!(seen, expected.map(|(kind, name)| (kind, name.to_owned())));
        assert_eq!(intent.marked, 4);
    }

    #[test]
    fn an_intent_is_read_as_it_was_written_and_never_begins_anew() {
        let stored = |intent: &Intent| {
            let text = serde_json::to_vec(&json!(intent)).unwrap();
            let mut tree: Value = serde_json::from_slice(&text).unwrap();
            tree["metadata"] = json!({"name": "i"});
            Object::decode(Key::cluster(INTENTS, "i"), Revision(1), tree.to_string().into()).unwrap()
        };
        let mut intent = everything();
        assert_eq!(Intent::read(&stored(&intent)).unwrap(), intent);
        intent.pass(&Key::namespaced(BINDINGS[0], "a", "b"), 2, 1);
        assert_eq!(Intent::read(&stored(&intent)).unwrap(), intent);
        intent.pass(&Key::cluster(GroupResource::new("nothing.example.com"), "b"), 2, 1);
        let unusable = Intent::read(&stored(&intent)).unwrap_err().to_string();
        assert_eq!(unusable, "it goes on after a nothing.example.com, which no task selects");
    }
}
