//! Stores entries of `metadata.managedFields` once for all rows. They would be more than half of a
//! row, although, except for their times, they are equal for all objects that the same programs
//! have written in the same way. The table `words` contains each such entry without its time. A row
//! contains the ids of its entries and its own times.
//!
//! *Invariants.* Splitting and joining an object restores it byte by byte. An entry is stored in
//! the transaction of the first row that needs it, or before it. Entries are never removed, and
//! their number is bounded; an entry beyond the bound stays in its row.
//!
//! After a failed commit, its new entries may or may not be stored. They keep their ids, and the
//! next commit stores them if they are missing.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use foldhash::fast::RandomState;
use memchr::memmem::Finder;
use sqlx::Error;
use sqlx::sqlite::SqliteConnection;

use super::packed_rows::unpack;
use crate::Change;
use crate::rows::{Cells, Objects};
use ballast_k8s::Key;

/// Maximum number of interned entries. A fleet has a few hundred.
const INTERNED_MAX: usize = 16_384;
/// Maximum size of an interned entry. Longer ones stay in their rows.
const ENTRY_BYTES_MAX: usize = 16 << 10;
/// Maximum size of all interned entries, in memory and in the file.
const ALL_BYTES_MAX: usize = 16 << 20;
/// Maximum number of candidates: entries that were seen on one object.
const CANDIDATES_MAX: usize = 16_384;
/// An object with more entries is stored unsplit.
const ENTRIES_PER_OBJECT_MAX: usize = 64;

const HEAD: &[u8] = b"\"managedFields\":[";
const TIME: &[u8] = b",\"time\":\"";
const TIME_LEN: usize = "2006-01-02T15:04:05Z".len();
const AFTER_TIME: &[u8] = b"\"}";
/// The end of the list. Another member always follows.
const TAIL: &[u8] = b"],";

static HEADS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(HEAD));
static TIMES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(TIME));

#[derive(Default)]
pub(super) struct InternedEntries {
    ids: HashMap<Arc<str>, i64, RandomState>,
    texts: HashMap<i64, Arc<str>, RandomState>,
    /// Entries with an id that are not known to be stored.
    unstored: Vec<(i64, Arc<str>)>,
    last: i64,
    bytes: usize,
    random: RandomState,
    /// Hashes of entries without an id, each with the hash of the key of the first object that has
    /// it. An entry gets an id when a second object has it.
    candidates: HashMap<u64, u64, RandomState>,
}

/// An object in its stored form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplitText {
    pub object: String,
    pub managers: Option<String>,
}

impl SplitText {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.object.len() + self.managers.as_ref().map_or(0, String::len)
    }
}

/// An entry found in an object: the part up to its time, and the time.
type Found<'a> = (&'a str, &'a str);

impl InternedEntries {
    pub async fn load(connection: &mut SqliteConnection) -> Result<InternedEntries, Error> {
        let rows: Vec<(i64, String)> = sqlx::query_as("SELECT id, text FROM words").fetch_all(connection).await?;
        let mut interned = InternedEntries::default();
        for (id, text) in rows {
            interned.learn(id, text.into());
        }
        Ok(interned)
    }

    fn learn(&mut self, id: i64, text: Arc<str>) {
        self.last = self.last.max(id);
        self.bytes += text.len();
        self.ids.insert(Arc::clone(&text), id);
        self.texts.insert(id, text);
    }

    /// Splits the objects of the changes for storage. The first rows with a new entry keep it.
    pub fn split(&mut self, changes: &[Change]) -> Result<Vec<SplitText>, Error> {
        let split = |change: &Change| {
            let text = std::str::from_utf8(&change.object).map_err(|error| Error::Encode(Box::new(error)))?;
            let split_text = self.split_text(&change.key, text);
            Ok(split_text.unwrap_or_else(|| SplitText { object: text.to_owned(), managers: None }))
        };
        changes.iter().map(split).collect()
    }

    fn split_text(&mut self, key: &Key, text: &str) -> Option<SplitText> {
        let (at, entries, end) = find(text)?;
        let mut managers = format!("[{at}");
        let mut are_known = true;
        for (entry, time) in entries {
            // Registers all entries as seen, even if the first one is new.
            match self.id(key, entry) {
                Some(id) if are_known => write!(managers, ",{id},\"{time}\"").expect("writing to a String cannot fail"),
                _ => are_known = false,
            }
        }
        managers.push(']');
        let object = || [&text[..at], &text[end..]].concat();
        are_known.then(|| SplitText { object: object(), managers: Some(managers) })
    }

    /// Returns the id of an entry. A new one gets an id when a second object has it.
    fn id(&mut self, key: &Key, entry: &str) -> Option<i64> {
        if let Some(id) = self.ids.get(entry) {
            return Some(*id);
        }
        let has_room = self.ids.len() < INTERNED_MAX && self.bytes + entry.len() <= ALL_BYTES_MAX;
        if entry.len() > ENTRY_BYTES_MAX || !has_room {
            return None;
        }
        if self.candidates.len() >= CANDIDATES_MAX {
            self.candidates.clear();
        }
        let whose = self.random.hash_one(key);
        let first = *self.candidates.entry(self.random.hash_one(entry)).or_insert(whose);
        if first == whose {
            return None;
        }
        let (id, text): (i64, Arc<str>) = (self.last + 1, entry.into());
        self.learn(id, Arc::clone(&text));
        self.unstored.push((id, text));
        Some(id)
    }

    /// Returns the entries that rows refer to and that may not be stored.
    pub fn unstored(&self) -> Vec<(i64, Arc<str>)> {
        self.unstored.clone()
    }

    /// Records that all entries are stored.
    pub fn mark_stored(&mut self) {
        self.unstored.clear();
    }

    #[cfg(test)]
    pub fn mark_unstored(&mut self) {
        self.unstored = self.texts.iter().map(|(id, text)| (*id, Arc::clone(text))).collect();
    }

    /// Restores a split object. `None` if `managers` does not belong to this object.
    fn join(&self, object: &str, managers: &str) -> Option<Bytes> {
        let mut parts = managers.strip_prefix('[')?.strip_suffix(']')?.split(',');
        let (before, after) = object.split_at_checked(parts.next()?.parse().ok()?)?;
        let (mut entries, mut length) = (Vec::new(), object.len() + HEAD.len() + TAIL.len());
        while let Some(id) = parts.next() {
            let entry = self.texts.get(&id.parse().ok()?)?;
            let time = parts.next()?.strip_prefix('"')?.strip_suffix('"')?;
            length += usize::from(!entries.is_empty()) + entry.len() + time.len() + AFTER_TIME.len();
            entries.push((entry, time));
        }
        let mut whole = Vec::with_capacity(length);
        whole.extend_from_slice(before.as_bytes());
        whole.extend_from_slice(HEAD);
        for (number, (entry, time)) in entries.into_iter().enumerate() {
            if number > 0 {
                whole.push(b',');
            }
            whole.extend_from_slice(entry.as_bytes());
            whole.extend_from_slice(time.as_bytes());
            whole.extend_from_slice(AFTER_TIME);
        }
        whole.extend_from_slice(TAIL);
        whole.extend_from_slice(after.as_bytes());
        Some(whole.into())
    }
}

/// Finds `managedFields` in an object: its start, its entries, and its end. `None` if it is not
/// formatted as Ballast writes it.
fn find(text: &str) -> Option<(usize, Vec<Found<'_>>, usize)> {
    let bytes = text.as_bytes();
    let at = HEADS.find(bytes)?;
    // Otherwise it is the end of a longer name.
    if !matches!(bytes[..at].last()?, b'{' | b',') {
        return None;
    }
    let (mut entries, mut begin) = (Vec::new(), at + HEAD.len());
    while entries.len() < ENTRIES_PER_OBJECT_MAX {
        let time = begin + TIMES.find(&bytes[begin..])? + TIME.len();
        let rest = bytes[time..].get(TIME_LEN..)?.strip_prefix(AFTER_TIME)?;
        entries.push((text.get(begin..time)?, text.get(time..time + TIME_LEN).filter(|time| is_time(time))?));
        if let Some(after) = rest.strip_prefix(TAIL) {
            return Some((at, entries, text.len() - after.len()));
        }
        begin = text.len() - rest.strip_prefix(b",")?.len();
    }
    None
}

/// Returns whether the text can be written between quotes without escapes.
fn is_time(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'T' | b'Z'))
}

/// Reads objects from three columns: `object`, `managers` and `packed`.
impl Objects for std::sync::RwLock<InternedEntries> {
    const COLUMNS: usize = 3;

    fn read(&self, row: &impl Cells, place: usize) -> Result<Bytes, Error> {
        let packed = row.bytes(place + 2)?.map(unpack).transpose();
        let unpacked = packed.map_err(|error| Error::Decode(Box::new(error)))?;
        let object = match &unpacked {
            Some(object) => object,
            None => row.text(place)?,
        };
        let Some(managers) = row.optional_text(place + 1)? else {
            return Ok(Bytes::copy_from_slice(object.as_bytes()));
        };
        let interned = self.read().expect("no holder of this lock can panic");
        let whole = interned.join(object, managers);
        whole.ok_or_else(|| Error::Decode(format!("{managers} are no managers of this object").into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Operation;
    use ballast_k8s::{GroupResource, Revision};

    const PODS: GroupResource = GroupResource::new("pods");

    fn change(name: &str, text: &str) -> Change {
        Change {
            revision: Revision(1),
            key: Key::namespaced(PODS, "shop", name),
            operation: Operation::Create,
            created: Revision(1),
            previous: Revision::ZERO,
            time_ms: 0,
            object: Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    fn split(interned: &mut InternedEntries, name: &str, text: &str) -> SplitText {
        interned.split(&[change(name, text)]).unwrap().remove(0)
    }

    fn joined(interned: &InternedEntries, split_text: &SplitText) -> Bytes {
        match &split_text.managers {
            Some(managers) => interned.join(&split_text.object, managers).expect("what was split can be joined"),
            None => Bytes::copy_from_slice(split_text.object.as_bytes()),
        }
    }

    fn object(name: &str, entries: &[(&str, &str)]) -> String {
        let entry = |(manager, time): &(&str, &str)| format!(r#"{{"manager":"{manager}","time":"{time}"}}"#);
        let entries: Vec<String> = entries.iter().map(entry).collect();
        format!(r#"{{"metadata":{{"managedFields":[{}],"name":"{name}"}}}}"#, entries.join(","))
    }

    const MORNING: &str = "2026-11-24T08:00:00Z";
    const NOON: &str = "2026-11-24T12:00:00Z";

    #[test]
    fn the_words_of_two_objects_are_kept_once() {
        let mut interned = InternedEntries::default();
        let text = object("a", &[("kubectl", MORNING), ("ballast", NOON)]);
        for _ in 0..2 {
            let split_text = split(&mut interned, "a", &text);
            assert_eq!(
                split_text,
                SplitText { object: text.clone(), managers: None },
                "no other object has its entries"
            );
        }
        let text = object("b", &[("kubectl", NOON), ("ballast", MORNING)]);
        let split_text = split(&mut interned, "b", &text);
        assert_eq!(split_text.object, r#"{"metadata":{"name":"b"}}"#);
        let expected = format!(r#"[13,1,"{NOON}",2,"{MORNING}"]"#);
        assert_eq!(split_text.managers.as_deref(), Some(&*expected));
        assert_eq!(joined(&interned, &split_text), text);
        let numbers: Vec<i64> = interned.unstored().iter().map(|(id, _)| *id).collect();
        assert_eq!(numbers, [1, 2]);
        interned.mark_stored();
        let split_text = split(&mut interned, "a", &text);
        assert_eq!((joined(&interned, &split_text), interned.unstored()), (text.into(), Vec::new()));
    }

    #[test]
    fn what_others_write_in_another_way_stays_whole() {
        let entry = format!(r#"{{"manager":"m","time":"{MORNING}"}}"#);
        for text in [
            r#"{"metadata":{"name":"a"}}"#.to_owned(),
            r#"{"metadata":{"managedFields":[],"name":"a"}}"#.to_owned(),
            r#"{"metadata":{"managedFields":[{"manager":"m"}],"name":"a"}}"#.to_owned(),
            // Nothing follows.
            format!(r#"{{"metadata":{{"managedFields":[{entry}]}}}}"#),
            format!(r#"{{"metadata":{{"managedFields":[{entry},{{"manager":"m"}}],"name":"a"}}}}"#),
            // Another name.
            format!(r#"{{"\"managedFields":[{entry}],"name":"a"}}"#),
            object("a", &[("m", "2026-11-24T08:00:0éZ")]),
            object("a", &[("m", "2026-11-24T08:00:00\"")]),
            object("a", &vec![("m", MORNING); ENTRIES_PER_OBJECT_MAX + 1]),
            object("a", &[(&"m".repeat(ENTRY_BYTES_MAX), MORNING)]),
        ] {
            let mut interned = InternedEntries::default();
            for name in ["a", "b", "c"] {
                assert_eq!(split(&mut interned, name, &text), SplitText { object: text.clone(), managers: None });
            }
        }
    }

    #[test]
    fn words_have_bounds() {
        let mut interned = InternedEntries::default();
        let text = |number: usize| object("a", &[(&format!("{number}{}", "m".repeat(ENTRY_BYTES_MAX / 2)), NOON)]);
        for number in 0..2 * ALL_BYTES_MAX / ENTRY_BYTES_MAX + 2 {
            for name in ["a", "b"] {
                split(&mut interned, name, &text(number));
            }
        }
        assert!(
            interned.bytes <= ALL_BYTES_MAX && interned.bytes > ALL_BYTES_MAX - ENTRY_BYTES_MAX,
            "{}",
            interned.bytes
        );
        assert!(split(&mut interned, "c", &text(0)).managers.is_some(), "what is known stays known");
    }

    #[test]
    fn a_row_that_does_not_fit_its_words_is_noticed() {
        let mut interned = InternedEntries::default();
        interned.learn(7, r#"{"manager":"m","time":""#.into());
        let fits = interned.join("{,}", &format!(r#"[1,7,"{NOON}"]"#));
        assert_eq!(fits.unwrap(), format!(r#"{{"managedFields":[{{"manager":"m","time":"{NOON}"}}],,}}"#));
        for managers in ["", "[]", "[9]", "[x]", "[1,8,\"\"]", "[1,7]", "[1,7,2026]", "[1,7,\"2026\""] {
            assert_eq!(interned.join("{,}", managers), None, "{managers}");
        }
        assert_eq!(interned.join("é", "[1]"), None, "in the middle of a letter");
    }

    proptest! {
        /// No text is changed by splitting and joining, whatever its format.
        #[test]
        fn what_is_parted_and_joined_is_the_same(pieces in prop::collection::vec(0usize..12, 0..40)) {
            let pieces: String = pieces
                .into_iter()
                .map(|piece| {
                    ["{", ",", "é", "}", "\"a\":1", "\"", "[1]"].get(piece).copied().unwrap_or(match piece {
                        7 => "{\"managedFields\":[",
                        8 => "{\"m\":1,\"time\":\"2026-11-24T08:00:00Z\"}",
                        9 => "{\"n\":1,\"time\":\"2026-11-24T12:00:00Z\"},",
                        10 => ",\"time\":\"",
                        _ => "],",
                    })
                })
                .collect();
            let mut interned = InternedEntries::default();
            for name in ["a", "b", "c"] {
                let split_text = split(&mut interned, name, &pieces);
                prop_assert_eq!(joined(&interned, &split_text), pieces.as_bytes());
            }
        }
    }
}
