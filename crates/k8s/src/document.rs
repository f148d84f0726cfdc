//! An object to be written to the log: its text with a gap for the revision, which is known only
//! when the writer numbers the change (decision 0002).
//!
//! *Invariant:* the head equals the result of `Object::decode` for the text, so the text is never
//! decoded.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::{Map, Value};

use super::object::{Head, shared_labels};
use super::text::Record;
use super::{Key, Managers, Object, Parts, Revision, Text};

/// An object, serialized except for its `metadata.resourceVersion`. Setting it copies bytes and
/// parses nothing.
#[derive(Clone, Debug)]
pub struct Document {
    before: Bytes,
    after: Bytes,
    /// The managed fields, inserted between `before` and `after`.
    record: Option<Record>,
    head: Head,
}

/// Placeholders for the revision and the managers. User data cannot contain them: the control
/// character would be escaped there, and the key makes them unique.
const REVISION_HOLE: &str = "\u{1}ballast:revision\u{1}";
const RECORD_HOLE: &str = "\u{1}ballast:record\u{1}";
/// The placeholders in serialized form.
const REVISION_TEXT: &str = r#""\u0001ballast:revision\u0001""#;
const RECORD_TEXT: &str = r#""\u0001ballast:record\u0001""#;

/// Initial capacity for the text of a typical object without its managers.
const CONTENT_BYTES: usize = 2 * 1024;
/// Number of bytes by which an edit typically lengthens an object.
const EDITED_BYTES_MORE: usize = 512;

impl Document {
    /// Serializes `object`. Its `metadata.resourceVersion` is replaced; a missing `metadata` is
    /// added.
    pub fn new(object: Map<String, Value>) -> Document {
        Document::managed(object, None)
    }

    /// Serializes `object` like `new`. If `managers` is given, they replace those in the tree.
    pub fn managed(mut object: Map<String, Value>, managers: Option<Managers>) -> Document {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if !metadata.is_object() {
            *metadata = Value::Object(Map::new());
        }
        metadata["resourceVersion"] = Value::from(REVISION_HOLE);
        let in_tree = || metadata["managedFields"].as_array().map(|list| Managers::of(list));
        let managers = managers.or_else(in_tree);
        if managers.is_some() {
            metadata["managedFields"] = Value::from(RECORD_HOLE);
        }
        let head = Head::of(metadata);
        let mut json = Vec::with_capacity(CONTENT_BYTES);
        serde_json::to_writer(&mut json, &object).expect("a tree of JSON values always serializes");
        Document::with_holes(json, managers, head)
    }

    /// Returns the document of `object` with new content, managers and generation. The labels in
    /// `parts` must equal those of `object`.
    pub fn edited(object: &Object, mut parts: Parts<'_>, managers: Option<Managers>, generation: i64) -> Document {
        if generation != object.generation {
            parts.set(&["metadata", "generation"], Some(generation.to_string().into()));
        }
        parts.set(&["metadata", "resourceVersion"], Some(REVISION_TEXT.into()));
        if managers.is_some() {
            parts.set(&["metadata", "managedFields"], Some(RECORD_TEXT.into()));
        }
        let mut json = Vec::with_capacity(object.text.content_len() + EDITED_BYTES_MORE);
        parts.write(&mut json);
        let Object { uid, labels, deleting, .. } = object;
        let (uid, labels) = (Arc::clone(uid), Arc::clone(labels));
        Document::with_holes(json, managers, Head { uid, labels, generation, deleting: *deleting })
    }

    /// Splits a text at the placeholder of `metadata.resourceVersion`, and at that of
    /// `metadata.managedFields` if there are managers.
    fn with_holes(mut json: Vec<u8>, managers: Option<Managers>, head: Head) -> Document {
        // Members are sorted, so the revision follows the managers.
        const RECORD: &str = "\"managedFields\":\"\\u0001ballast:record\\u0001\",";
        const REVISION: &str = "\"resourceVersion\":\"\\u0001ballast:revision\\u0001\"";
        const PREFIX: &[u8] = b"\"resourceVersion\":\"";
        static RECORDS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(RECORD));
        static REVISIONS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(REVISION));
        let record = managers.map(|managers| {
            let at = RECORDS.find(&json).expect("the hole was just written");
            json.drain(at..at + RECORD.len());
            Record { at, managers }
        });
        let from = record.as_ref().map_or(0, |record| record.at);
        let hole = from + REVISIONS.find(&json[from..]).expect("the hole was just written");
        let json = Bytes::from(json);
        let (before, after) = (json.slice(..hole + PREFIX.len()), json.slice(hole + REVISION.len() - 1..));
        Document { before, after, record, head }
    }

    /// Returns the complete text with this revision.
    pub fn at(&self, revision: Revision) -> Text {
        let revision = revision.to_string();
        let content = [&self.before[..], revision.as_bytes(), &self.after[..]].concat();
        Text::new(content.into(), self.record.clone())
    }

    /// Returns the length of the text without the digits of the revision and the managers.
    pub fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the length of the text with the managers, without the digits of the revision.
    pub fn whole_len(&self) -> usize {
        self.len() + self.record.as_ref().map_or(0, |record| record.managers.len())
    }
}

impl Object {
    /// Creates the object that the document becomes at this revision. Parses nothing: the head of
    /// the document equals the decoded one.
    pub fn of(key: Key, revision: Revision, created: Revision, document: &Document) -> Object {
        let mut object = Object::with(key, revision, document.head.clone(), document.at(revision));
        object.created = created;
        object
    }
}

impl Head {
    fn of(metadata: &Value) -> Head {
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
        Head {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            labels: shared_labels(labels.collect()),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            deleting: !metadata["deletionTimestamp"].is_null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Edit, GroupResource, Key};
    use super::*;

    fn document(object: Value) -> Document {
        let Value::Object(object) = object else { panic!("not an object") };
        Document::new(object)
    }

    #[test]
    fn a_document_takes_its_revision_without_being_parsed_again() {
        let json = document(json!({"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"a": "\u{1}"}}));
        let value: Value = serde_json::from_slice(&json.at(Revision(42)).whole()).unwrap();
        assert_eq!(value, json!({"metadata": {"name": "web", "resourceVersion": "42"}, "spec": {"a": "\u{1}"}}));
    }

    #[test]
    fn the_head_is_what_decoding_would_find() {
        for metadata in [
            json!({}),
            json!({"uid": "u", "generation": 3, "labels": {"b": "2", "a": "1"}, "deletionTimestamp": null}),
            json!({"managedFields": [{"manager": "me", "time": "2024-01-01T00:00:00Z"}, {}], "name": "n"}),
            json!({"deletionTimestamp": "2024-01-01T00:00:00Z", "labels": {"a/b": "\"\u{e9}\""}}),
        ] {
            let document = document(json!({"metadata": metadata}));
            let key = Key::cluster(GroupResource::new("clusters.cluster.karmada.io"), "m1");
            let decoded = Object::decode(key.clone(), Revision(5), document.at(Revision(5)).whole()).unwrap();
            let made = Object::of(key, Revision(5), Revision(5), &document);
            assert_eq!((&made.uid, &made.labels), (&decoded.uid, &decoded.labels));
            assert_eq!((made.generation, made.deleting), (decoded.generation, decoded.deleting));
            assert_eq!(made.text, decoded.text);
        }
    }

    #[test]
    fn an_edited_object_keeps_its_head_but_for_the_generation() {
        let whole = document(
            json!({"metadata": {"generation": 3, "labels": {"a": "1"}, "managedFields": [{"manager": "me"}], "uid": "u"}, "spec": {}}),
        );
        let key = Key::cluster(GroupResource::new("clusters.cluster.karmada.io"), "m1");
        let object = Object::of(key.clone(), Revision(5), Revision(5), &whole);
        let content = object.text.content();
        let mut parts = Parts::read(&content).unwrap();
        assert!(parts.edit(&Edit::set(&["spec", "x"], 1)));
        let edited = Object::of(
            key.clone(),
            Revision(6),
            Revision(5),
            &Document::edited(&object, parts, object.text.managers().cloned(), 4),
        );
        let decoded = Object::decode(key, Revision(6), edited.text.whole()).unwrap();
        assert_eq!((edited.generation, &edited.uid, &edited.labels), (4, &decoded.uid, &decoded.labels));
        assert_eq!(decoded.generation, 4);
        let expected = r#"{"metadata":{"generation":4,"labels":{"a":"1"},"managedFields":[{"manager":"me"}],"resourceVersion":"6","uid":"u"},"spec":{"x":1}}"#;
        assert_eq!(std::str::from_utf8(&edited.text.whole()).unwrap(), expected);
    }
}
