//! Decodes the objects of a log one after the other. Most have the same `managedFields` as an
//! earlier object. The decoder then compares them instead of parsing them, and parses only the
//! metadata of the rest.
//!
//! *Invariant:* for a text that Ballast wrote, the result equals that of `Object::decode`. For any
//! other text it is equal, except that an error behind the metadata may be missed.

use std::fmt;

use bytes::Bytes;
use memchr::memmem;
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::object::{DecodeError, Object, ReadMetadata};
use super::text::{HEAD, Managers, Record, Text};
use super::{Key, Revision};

/// Number of earlier records that a new one is compared with. Few programs write to a fleet.
const KNOWN_MAX: usize = 8;
/// The beginning of the member that follows `managedFields` in the metadata of every object.
const NAME: &str = "\"name\":\"";

/// A decoder that remembers the `managedFields` of earlier objects.
#[derive(Default)]
pub struct Decoder {
    /// The most recently used record is first.
    known: Vec<Managers>,
}

impl Decoder {
    /// Decodes an object like `Object::decode`.
    pub fn decode(&mut self, key: Key, revision: Revision, json: Bytes) -> Result<Object, DecodeError> {
        if let Some((at, content)) = self.cut(&json)
            && let Some(metadata) = metadata_before(&content, at)
        {
            let metadata = metadata.into_head();
            let record = Record { at, managers: self.known[0].clone() };
            return Ok(Object::with(key, revision, metadata, Text::new(content.into(), Some(record))));
        }
        let object = Object::decode(key, revision, json)?;
        if let Some(managers) = object.text.managers() {
            self.known.insert(0, managers.clone());
            self.known.truncate(KNOWN_MAX);
        }
        Ok(object)
    }

    /// Removes known `managedFields` from a text, and returns their position and the remaining
    /// text. The matching record becomes the first of `known`. Returns `None` if no record matches.
    fn cut(&mut self, json: &[u8]) -> Option<(usize, Vec<u8>)> {
        let at = memmem::find(json, HEAD)?;
        let record = &json[at..];
        let met = |(place, known): (usize, &Managers)| known.like(record).map(|found| (place, found));
        let (place, (managers, length)) = self.known.iter().enumerate().find_map(met)?;
        self.known[..=place].rotate_right(1);
        self.known[0] = managers;
        Some((at, [&json[..at], &record[length..]].concat()))
    }
}

/// Parses the metadata of an object in which the member `name` begins at `name_at`. The text behind
/// the metadata is not parsed.
fn metadata_before(content: &[u8], name_at: usize) -> Option<ReadMetadata<'_>> {
    let text = std::str::from_utf8(content).ok()?;
    let is_whole = text.ends_with('}') && text.get(name_at..)?.starts_with(NAME);
    let mut found = None;
    // The visitor stops behind the metadata. The parser reports that as an error, which is ignored.
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(UntilMetadata(&mut found));
    let metadata = found.filter(|_| is_whole)?;
    let begin = metadata.name.as_ptr().addr().checked_sub(content.as_ptr().addr())?;
    (begin == name_at + NAME.len() && metadata.managed_fields.is_none()).then_some(metadata)
}

struct UntilMetadata<'de, 'm>(&'m mut Option<ReadMetadata<'de>>);

impl<'de> Visitor<'de> for UntilMetadata<'de, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<&str>()? {
            if name == "metadata" {
                *self.0 = Some(map.next_value()?);
                break;
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::GroupResource;
    use super::*;

    fn key(name: &str) -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", name)
    }

    fn record(seconds: usize) -> Value {
        let time = |second: usize| format!("2026-11-23T07:00:{second:02}Z");
        json!([
            {"fieldsV1": {"f:spec": {"f:a\"": {}}}, "manager": "one", "operation": "Update", "time": time(seconds)},
            {"manager": "two", "operation": "Update", "subresource": "status", "time": time(seconds + 1)},
            {"manager": "three", "operation": "Apply"},
        ])
    }

    fn assert_same(decoder: &mut Decoder, text: &str) {
        let json = Bytes::copy_from_slice(text.as_bytes());
        let expected = Object::decode(key("web"), Revision(7), json.clone()).unwrap();
        let object = decoder.decode(key("web"), Revision(7), json).unwrap();
        assert_eq!(object.text, expected.text, "{text}");
        assert_eq!(object.text.whole(), text.as_bytes());
        assert_eq!((&object.key, object.revision, object.created), (&expected.key, Revision(7), Revision(7)));
        assert_eq!((&object.uid, &object.labels), (&expected.uid, &expected.labels));
        assert_eq!((object.generation, object.deleting), (expected.generation, expected.deleting));
    }

    #[test]
    fn an_object_like_those_before_is_decoded_as_any_other() {
        let mut decoder = Decoder::default();
        for number in 0..30 {
            let metadata = json!({
                "annotations": {"note": "\"managedFields\":[{\"manager\":\"é\"}],"}, "generation": number,
                "labels": {"b": "2", "a": "\"1\""}, "managedFields": record(number), "name": format!("web-{number}"),
                "resourceVersion": "7", "uid": format!("u-{number}"),
            });
            let object = json!({"kind": "K", "metadata": metadata, "spec": {"clusters": [{"name": "m"}]}});
            assert_same(&mut decoder, &object.to_string());
            assert_eq!(decoder.known.len(), 1, "the words are those of the first one");
        }
    }

    #[test]
    fn any_other_text_is_decoded_too() {
        let mut decoder = Decoder::default();
        let record = record(0).to_string();
        let usual = format!(r#"{{"metadata":{{"managedFields":{record},"name":"web","uid":"u"}},"spec":{{}}}}"#);
        assert_same(&mut decoder, &usual);
        for text in [
            // A record outside of the metadata, also as a name.
            format!(r#"{{"data":{{"managedFields":{record},"name":"web"}},"metadata":{{"name":"web","uid":"u"}}}}"#),
            format!(r#"{{"metadata":{{"uid":"u"}},"spec":{{"managedFields":{record},"name":"web"}}}}"#),
            format!(r#"{{"metadata":{{"ownerReferences":[{{"managedFields":{record},"name":"a"}}],"name":"web"}}}}"#),
            // Another member follows, or none.
            format!(r#"{{"metadata":{{"managedFields":{record},"namespace":"shop","name":"web"}}}}"#),
            format!(r#"{{"metadata":{{"name":"web","managedFields":{record}}}}}"#),
            // A second record, an unknown operation, blanks, an invalid time.
            format!(r#"{{"metadata":{{"name":"web"}},"spec":{{"managedFields":{record},"name":"web"}}}}"#),
            usual.replace("three", "four"),
            usual.replace(":{}}}", ": {} } }"),
            usual.replace("07:00:00Z", "yesterday"),
        ] {
            assert_same(&mut decoder, &text);
            assert_same(&mut decoder, &usual);
        }
    }

    #[test]
    fn a_text_that_was_cut_off_is_refused() {
        let mut decoder = Decoder::default();
        let text = format!(r#"{{"metadata":{{"managedFields":{},"name":"web"}},"spec":{{"a":1}}}}"#, record(0));
        assert_same(&mut decoder, &text);
        for end in [2, 5, 20] {
            let part = Bytes::copy_from_slice(&text.as_bytes()[..text.len() - end]);
            assert!(decoder.decode(key("web"), Revision(7), part).is_err());
        }
    }
}
