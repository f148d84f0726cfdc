//! The text of an object, with `metadata.managedFields` stored separately. Workers read objects
//! without it. The objects of a fleet were written by the same few managers in the same way, so the
//! common parts of their entries are stored once, and each object needs little more than the times.
//!
//! The rest of a text is compressed once the object is idle (`pack`).
//!
//! *Invariant:* joining restores the original text.

use std::sync::Arc;

use bytes::Bytes;
use internment::ArcIntern;
use serde_json::Value;
use serde_json::value::RawValue;

use super::content::Content;
use super::packed::Dictionaries;
use super::pool::Pool;
use super::read_json;

pub(super) const HEAD: &[u8] = b"\"managedFields\":[";
const TAIL: &[u8] = b"],";
/// The last member of an entry.
const TIME: &str = ",\"time\":\"";
pub(super) const TIME_LEN: usize = "2006-01-02T15:04:05Z".len();
const AFTER_TIME: &str = "\"}";

static RECORDS: Pool<[Entry]> = Pool::new();
/// Longer records are not shared, because the pool keeps the latest ones in memory.
const SHARED_ENTRIES_MAX: usize = 16;

/// The text of an object. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    content: Content,
    record: Option<Record>,
}

/// The managers, and their position in the text. Another member always follows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub at: usize,
    pub managers: Managers,
}

/// `metadata.managedFields`. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(Arc<[Entry]>);

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    /// The entry up to its time, or the whole entry if it does not end with one.
    pub interned: ArcIntern<str>,
    pub time: Option<[u8; TIME_LEN]>,
}

impl Text {
    pub(super) fn new(content: Bytes, record: Option<Record>) -> Text {
        Text { content: Content::new(content), record }
    }

    /// Splits the managers from `json`, of which `record` is a slice. They stay in the text if
    /// Ballast does not write their format.
    pub(super) fn split(json: Bytes, record: Option<&RawValue>) -> Text {
        let split = || {
            let list = record?.get();
            let managers = Managers::read(list)?;
            let begin = list.as_ptr().addr().checked_sub(json.as_ptr().addr())?;
            let (at, end) = (begin.checked_sub(HEAD.len() - 1)?, begin + list.len() + 1);
            let record = Record { at, managers };
            let content = [json.get(..at)?, json.get(end..)?].concat();
            let text = Text::new(content.into(), Some(record));
            (text.whole() == json).then_some(text)
        };
        split().unwrap_or_else(|| Text::new(json.clone(), None))
    }

    /// Returns the object without its managers. Callers should keep the result while they borrow
    /// from it: if the text is packed, each call makes a copy.
    pub fn content(&self) -> Bytes {
        self.content.bytes()
    }

    /// Calls `look` with the object without its managers, without cloning the bytes.
    pub fn with_content<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        self.content.with(look)
    }

    /// Returns the size of `content` in bytes.
    pub fn content_len(&self) -> usize {
        self.content.len()
    }

    /// Returns whether the text is compressed.
    pub fn is_packed(&self) -> bool {
        self.content.is_packed()
    }

    /// Compresses the text of an idle object: it takes less memory, and each later read takes more
    /// time.
    pub fn pack(&self, dictionaries: &mut Dictionaries) {
        self.content.pack(dictionaries);
    }

    /// Undoes `pack`. For texts that will be read several times soon.
    pub fn unpack(&self) {
        self.content.unpack();
    }

    /// Returns the managed fields. `None` if the object has none, or if they are part of the
    /// content.
    pub fn managers(&self) -> Option<&Managers> {
        self.record.as_ref().map(|record| &record.managers)
    }

    /// Returns the complete object in its wire format.
    pub fn whole(&self) -> Bytes {
        if self.record.is_none() {
            return self.content();
        }
        let mut whole = Vec::with_capacity(self.len());
        self.write(&mut whole);
        whole.into()
    }

    /// Appends the complete object to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.content.with(|content| match &self.record {
            None => out.extend_from_slice(content),
            Some(Record { at, managers }) => {
                let (before, after) = content.split_at(*at);
                out.extend_from_slice(before);
                managers.write(out);
                out.extend_from_slice(after);
            }
        });
    }

    /// Returns the size of the complete object in bytes.
    pub fn len(&self) -> usize {
        self.content_len() + self.managers().map_or(0, Managers::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Managers {
    /// Parses this list, which is the value of `metadata.managedFields`.
    pub fn of(list: &[Value]) -> Managers {
        // `Value::to_string` writes each token separately, and takes several times as long.
        let text = |entry| serde_json::to_string(entry).expect("a tree of JSON values always serializes");
        Managers::shared(list.iter().map(|entry| Entry::of(&text(entry))).collect())
    }

    /// Creates a record with one entry, given as compact JSON with sorted members.
    pub fn of_text(entry: &str) -> Managers {
        Managers::shared(Arc::from([Entry::of(entry)]))
    }

    fn read(list: &str) -> Option<Managers> {
        let entries: Vec<&RawValue> = serde_json::from_str(list).ok()?;
        Some(Managers::shared(entries.into_iter().map(|entry| Entry::of(entry.get())).collect()))
    }

    /// Returns the record at the beginning of a text, and its length, if it equals this record
    /// apart from the times.
    pub(super) fn like(&self, text: &[u8]) -> Option<(Managers, usize)> {
        let mut rest = text.strip_prefix(HEAD)?;
        let mut times = Vec::with_capacity(self.0.len());
        for (index, entry) in self.0.iter().enumerate() {
            if index > 0 {
                rest = rest.strip_prefix(b",")?;
            }
            rest = rest.strip_prefix(entry.interned.as_bytes())?;
            let time = entry.time.map(|_| rest.split_first_chunk::<TIME_LEN>());
            if let Some(found) = time {
                let (time, after) = found?;
                rest = after.strip_prefix(AFTER_TIME.as_bytes())?;
                let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
                times.push(Some(*time).filter(|time| time.iter().all(is_plain))?);
            }
        }
        let length = text.len() - rest.strip_prefix(TAIL)?.len();
        let are_known = self.0.iter().filter_map(|entry| entry.time).eq(times.iter().copied());
        let mut times = times.into_iter();
        let managers = match are_known {
            true => self.clone(),
            false => {
                let entry = |known: &Entry| Entry {
                    interned: known.interned.clone(),
                    time: known.time.and_then(|_| times.next()),
                };
                self.0.iter().map(entry).collect()
            }
        };
        Some((managers, length))
    }

    /// Creates a record, sharing the memory of an equal one. Objects that the same programs wrote
    /// in the same seconds have equal records.
    fn shared(entries: Arc<[Entry]>) -> Managers {
        let is_short = entries.len() <= SHARED_ENTRIES_MAX;
        Managers(if is_short { RECORDS.share(entries) } else { entries })
    }

    /// Returns the value of `metadata.managedFields`, parsed at each call.
    pub fn values(&self) -> Vec<Value> {
        let mut text = Vec::new();
        let parse = |entry: &Entry| {
            text.clear();
            entry.write(&mut text);
            read_json(&text).expect("made of the text of a JSON value")
        };
        self.0.iter().map(parse).collect()
    }

    #[cfg(test)]
    pub(super) fn is_shared_with(&self, other: &Managers) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(HEAD);
        for (index, entry) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            entry.write(out);
        }
        out.extend_from_slice(TAIL);
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        let commas = self.0.len().saturating_sub(1);
        HEAD.len() + self.0.iter().map(Entry::len).sum::<usize>() + commas + TAIL.len()
    }
}

impl FromIterator<Entry> for Managers {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Managers {
        Managers::shared(entries.into_iter().collect())
    }
}

impl Entry {
    fn of(text: &str) -> Entry {
        let timed = || {
            let rest = text.strip_suffix(AFTER_TIME)?;
            let (interned, time) = rest.split_at_checked(rest.len().checked_sub(TIME_LEN)?)?;
            interned
                .ends_with(TIME)
                .then_some(Entry { interned: ArcIntern::from(interned), time: time.as_bytes().try_into().ok() })
        };
        timed().unwrap_or_else(|| Entry { interned: ArcIntern::from(text), time: None })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.interned.as_bytes());
        if let Some(time) = &self.time {
            out.extend_from_slice(time);
            out.extend_from_slice(AFTER_TIME.as_bytes());
        }
    }

    fn len(&self) -> usize {
        self.interned.len() + self.time.map_or(0, |time| time.len() + AFTER_TIME.len())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }

    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, rename = "managedFields")]
        managed_fields: Option<&'a RawValue>,
    }

    fn split(json: &str) -> Text {
        let whole: Whole<'_> = serde_json::from_str(json).unwrap();
        // The managers must be slices of the same bytes that are split.
        let bytes = Bytes::copy_from_slice(json.as_bytes());
        let there: Whole<'_> = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(whole.metadata.managed_fields.is_some(), there.metadata.managed_fields.is_some());
        Text::split(bytes.clone(), there.metadata.managed_fields)
    }

    fn entry(manager: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:a\"": {}}}, "time": time})
    }

    #[test]
    fn the_record_is_taken_out_and_put_back() {
        let record = json!([entry("a", "2026-11-21T19:12:32Z"), entry("b", "2026-11-21T19:12:33Z"), {"manager": "c"}]);
        let json = json!({"metadata": {"labels": {}, "managedFields": record, "name": "n"}, "spec": 1}).to_string();
        let text = split(&json);
        assert_eq!(&text.content()[..], br#"{"metadata":{"labels":{},"name":"n"},"spec":1}"#);
        assert_eq!((text.whole().as_ref(), text.len()), (json.as_bytes(), json.len()));
        let packed = text.clone();
        packed.pack(&mut Dictionaries::default());
        assert_eq!(packed, text);
        assert_eq!(Value::from(text.managers().unwrap().values()), record);
        assert_eq!(text.managers().unwrap(), &Managers::of(record.as_array().unwrap()));
    }

    #[test]
    fn records_that_differ_in_their_times_share_their_words() {
        let [one, two] =
            ["2026-11-21T19:12:32Z", "2027-01-01T00:00:00Z"].map(|time| Entry::of(&entry("a", time).to_string()));
        assert_ne!(one.time, two.time);
        assert_eq!(one.interned.as_ptr(), two.interned.as_ptr());
    }

    #[test]
    fn any_text_stays_as_it_is() {
        for json in [
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"managedFields":[],"name":"n"}}"#,
            r#"{"metadata":{"managedFields":null,"name":"n"}}"#,
            r#"{"metadata":{"managedFields":[{}],"name":"n"}}"#,
            // Texts that Ballast does not write: no following member, blanks, not a list, an
            // invalid time.
            r#"{"metadata":{"managedFields":[{"a":1}]}}"#,
            r#"{"metadata":{"managedFields": [ {"a":1} , {} ],"name":"n"}}"#,
            r#"{"metadata":{"managedFields":[{"a":1} ,{}],"name":"n"}}"#,
            r#"{"metadata":{"managedFields":{"a":1},"name":"n"}}"#,
            r#"{"metadata":{"managedFields":[{"a":1,"time":"yesterday, or so, ok."}],"name":"n"}}"#,
            r#"{"metadata":{"managedFields":["é","\",\"time\":\"2026-11-21T19:12:32Z"],"name":"n"}}"#,
        ] {
            let text = split(json);
            assert_eq!((text.whole().as_ref(), text.len()), (json.as_bytes(), json.len()));
        }
    }
}
