//! An object in the cache: the bytes that LIST and WATCH send, the metadata for selectors, and, for
//! kinds that workers read, the typed form, decoded once.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::flag::{Flag, Flags};
use super::pool::Pool;
use super::typed_forms::{Form, LargeForm, SMALL_BYTES_MAX};
use super::{Key, Revision, Text, read_json};

/// Pairs of a name and a value, sorted.
pub(super) type LabelPairs = [(Box<str>, Box<str>)];

static NAMESPACES: Pool<str> = Pool::new();
static LABELS: Pool<LabelPairs> = Pool::new();

/// One immutable version of an object, shared by the cache, watchers and workers.
#[derive(Debug)]
pub struct Object {
    pub key: Key,
    /// The revision of the change that created this version, which is `metadata.resourceVersion` in
    /// the text.
    pub revision: Revision,
    /// The revision of the change that created the object.
    pub created: Revision,
    pub uid: Arc<str>,
    /// Sorted by key. Objects with equal labels usually share them.
    pub labels: Arc<LabelPairs>,
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set: the object waits for its finalizers.
    pub deleting: bool,
    pub text: Text,
    flags: Flags,
    typed: OnceLock<Form>,
}

/// The parsed metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub uid: Arc<str>,
    /// Sorted by key.
    pub labels: Arc<LabelPairs>,
    pub generation: i64,
    pub deleting: bool,
}

/// The error for bytes that are not a valid object.
#[derive(Debug, thiserror::Error)]
#[error("failed to decode {key} at revision {revision}")]
pub struct DecodeError {
    pub key: Key,
    pub revision: Revision,
    #[source]
    pub source: serde_json::Error,
}

impl Object {
    /// Parses the metadata of `json`, which must be a Kubernetes object. `created` is set to this
    /// revision. The caller corrects it if the object is older.
    pub fn decode(key: Key, revision: Revision, json: Bytes) -> Result<Object, DecodeError> {
        let read: Read<'_> = match read_json(&json) {
            Ok(read) => read,
            Err(source) => return Err(DecodeError { key, revision, source }),
        };
        let text = Text::split(json.clone(), read.metadata.managed_fields);
        Ok(Object::with(key, revision, read.metadata.into_head(), text))
    }

    pub(super) fn with(key: Key, revision: Revision, head: Head, text: Text) -> Object {
        let Head { uid, labels, generation, deleting } = head;
        let key = shared_namespace(key);
        let (created, flags, typed) = (revision, Flags::default(), OnceLock::new());
        Object { key, revision, created, uid, labels, generation, deleting, text, flags, typed }
    }

    /// Returns the value of this label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&self.labels[found].1)
    }

    /// Returns whether the content contains the flag's word. The content is searched once for each
    /// flag.
    pub fn has(&self, flag: &Flag) -> bool {
        self.flags.has(flag, &self.text)
    }

    /// Returns the object as a tree, without its managers. It is parsed at each call, so only code
    /// that changes the object should call this.
    pub fn value(&self) -> Result<Map<String, Value>, DecodeError> {
        read_json(&self.text.content()).map_err(|source| self.undecodable(source))
    }

    /// Returns the typed form, decoded at the first call and cached. The form of a large text is
    /// decoded again once it is evicted from the cache of large forms (`typed_forms`). A kind has
    /// one typed form: calls with a second type decode each time.
    pub fn typed<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, DecodeError> {
        let known = self.typed.get();
        let large = known.and_then(|known| known.downcast_ref::<LargeForm>());
        let known = large.map_or_else(|| known.cloned(), LargeForm::get);
        if let Some(typed) = known.and_then(|known| known.downcast::<T>().ok()) {
            return Ok(typed);
        }
        let typed: Arc<T> = Arc::new(read_json(&self.text.content()).map_err(|source| self.undecodable(source))?);
        if self.text.content_len() > SMALL_BYTES_MAX {
            let form: Form = typed.clone();
            let kept = self.typed.get_or_init(|| Arc::new(LargeForm::default()) as Form);
            if let Some(large) = kept.downcast_ref::<LargeForm>() {
                large.set(&form, self.text.content_len());
            }
            return Ok(typed);
        }
        let kept = self.typed.get_or_init(|| typed.clone());
        Ok(Arc::clone(kept).downcast::<T>().unwrap_or(typed))
    }

    fn undecodable(&self, source: serde_json::Error) -> DecodeError {
        DecodeError { key: self.key.clone(), revision: self.revision, source }
    }
}

/// Replaces the name of the namespace by the copy that objects of that namespace share.
fn shared_namespace(key: Key) -> Key {
    Key { namespace: NAMESPACES.share(key.namespace), ..key }
}

/// Larger sets of labels are not shared, because the pool keeps the latest ones in memory.
const SHARED_LABELS_MAX: usize = 16;

pub(super) fn shared_labels(labels: Arc<LabelPairs>) -> Arc<LabelPairs> {
    if labels.len() > SHARED_LABELS_MAX { labels } else { LABELS.share(labels) }
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    metadata: ReadMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadMetadata<'a> {
    #[serde(default, borrow)]
    pub name: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    uid: std::borrow::Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    labels: Labels,
    #[serde(default, borrow)]
    pub managed_fields: Option<&'a RawValue>,
}

impl ReadMetadata<'_> {
    pub fn into_head(self) -> Head {
        let pairs = self.labels.0.into_iter().map(|(name, value)| (name.into(), value.into()));
        let mut labels: Vec<(Box<str>, Box<str>)> = pairs.collect();
        labels.sort_unstable();
        Head {
            uid: self.uid.into(),
            labels: shared_labels(labels.into()),
            generation: self.generation,
            deleting: self.deletion_timestamp.is_some(),
        }
    }
}

/// A JSON object of strings, stored as pairs. Labels are few, and a map would take more memory than
/// their text.
#[derive(Default)]
struct Labels(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_unit<E>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or_default());
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Labels(pairs))
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::GroupResource;
    use super::*;
    use crate::{Dictionaries, Document};

    fn key() -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web")
    }

    #[test]
    fn metadata_is_read_and_labels_are_sorted() {
        let json = br#"{"metadata":{"uid":"u","generation":3,"deletionTimestamp":"x","labels":{"b":"2","a":"1"}}}"#;
        let object = Object::decode(key(), Revision(1), Bytes::from_static(json)).unwrap();
        assert_eq!((object.generation, object.deleting, &*object.uid), (3, true, "u"));
        assert_eq!((object.label("a"), object.label("b"), object.label("c")), (Some("1"), Some("2"), None));
    }

    #[test]
    fn a_flag_says_whether_its_word_is_in_the_content() {
        static FLAGS: [Flag; 3] = [Flag::new(0, "moving"), Flag::new(3, "resting"), Flag::new(7, "spec")];
        let json = br#"{"metadata":{"annotations":{"moving":""}},"spec":{}}"#;
        let object = Object::decode(key(), Revision(1), Bytes::from_static(json)).unwrap();
        for _ in 0..2 {
            assert_eq!(FLAGS.each_ref().map(|flag| object.has(flag)), [true, false, true]);
        }
        let mut dictionaries = Dictionaries::default();
        object.text.pack(&mut dictionaries);
        assert_eq!(FLAGS.each_ref().map(|flag| object.has(flag)), [true, false, true]);
    }

    #[test]
    fn flags_take_no_memory() {
        use std::any::Any;
        #[allow(dead_code)]
        struct WithoutFlags {
            key: Key,
            revisions: [Revision; 2],
            uid: Arc<str>,
            labels: Arc<LabelPairs>,
            generation: i64,
            deleting: bool,
            text: Text,
            typed: OnceLock<Arc<dyn Any + Send + Sync>>,
        }
        assert_eq!(size_of::<Object>(), size_of::<WithoutFlags>());
    }

    #[test]
    fn the_typed_form_is_decoded_once() {
        let object = Object::decode(key(), Revision(1), Bytes::from_static(br#"{"metadata":{}}"#)).unwrap();
        let first = object.typed::<Value>().unwrap();
        let second = object.typed::<Value>().unwrap();
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn the_typed_form_of_a_large_text_is_kept_while_it_is_new() {
        let json = format!(r#"{{"metadata":{{}},"spec":"{}"}}"#, "x".repeat(SMALL_BYTES_MAX));
        let object = Object::decode(key(), Revision(1), json.into()).unwrap();
        let first = object.typed::<Value>().unwrap();
        assert!(Arc::ptr_eq(&first, &object.typed::<Value>().unwrap()));
        assert!(object.typed.get().is_some_and(|kept| kept.downcast_ref::<LargeForm>().is_some()));
    }

    #[test]
    fn objects_share_what_they_have_alike() {
        let json = |name: &str| {
            let managers = r#""managedFields":[{"manager":"m","operation":"Update","time":"2026-11-23T07:00:00Z"}]"#;
            let text = format!(r#"{{"metadata":{{"labels":{{"app":"web"}},{managers},"name":"{name}"}}}}"#);
            let key = Key::namespaced(key().resource, String::from("shop"), name);
            Object::decode(key, Revision(1), text.into()).unwrap()
        };
        let (one, other) = (json("a"), json("b"));
        assert!(Arc::ptr_eq(&one.key.namespace, &other.key.namespace));
        assert!(Arc::ptr_eq(&one.labels, &other.labels));
        assert!(one.text.managers().unwrap().is_shared_with(other.text.managers().unwrap()));
        let Value::Object(tree) = serde_json::from_slice(&one.text.whole()).unwrap() else { panic!("an object") };
        let written = Object::of(key(), Revision(2), Revision(1), &Document::new(tree));
        assert!(Arc::ptr_eq(&one.key.namespace, &written.key.namespace));
        assert!(Arc::ptr_eq(&one.labels, &written.labels));
        assert!(one.text.managers().unwrap().is_shared_with(written.text.managers().unwrap()));
    }

    #[test]
    fn bytes_that_are_no_object_are_an_error_with_the_key() {
        let error = Object::decode(key(), Revision(9), Bytes::from_static(b"[]")).unwrap_err();
        assert!(error.to_string().contains("resourcebindings.work.karmada.io/shop/web at revision 9"));
    }
}
