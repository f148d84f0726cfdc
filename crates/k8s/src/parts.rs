//! Changes single members of an object without parsing the rest. Text outside of the paths to the
//! changed members is copied.
//!
//! *Invariant:* members are written sorted by name and without blanks, as a tree is written. Equal
//! objects have equal texts, so texts can be compared.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Walk;

/// Initial capacity for members. Most objects have no more.
const MEMBERS_USUAL: usize = 8;

/// A member of an object, and its new value.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// The names from the root: `["spec", "clusters"]`.
    pub member: &'static [&'static str],
    /// `None` removes the member.
    pub value: Option<EditValue>,
}

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub enum EditValue {
    Tree(Value),
    /// JSON that was serialized from the kind's own type, so it matches the schema. For values that
    /// are too large to be converted to a tree.
    Text(Arc<str>),
}

impl Edit {
    /// Creates an edit that sets a member.
    pub fn set(member: &'static [&'static str], value: impl Into<Value>) -> Edit {
        Edit::to(member, Some(value.into()))
    }

    /// Creates an edit that sets a member, or removes it if `value` is `None`.
    pub fn to(member: &'static [&'static str], value: Option<Value>) -> Edit {
        Edit { member, value: value.map(EditValue::Tree) }
    }

    /// Creates an edit that sets a member to a typed value. The value must serialize its members
    /// sorted by name, as a tree does.
    pub fn write(member: &'static [&'static str], value: &impl Serialize) -> Result<Edit, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        debug_assert!(
            serde_json::from_str::<Value>(&text).is_ok_and(|tree| EditValue::Tree(tree).text() == text),
            "sorted"
        );
        Ok(Edit { member, value: Some(EditValue::Text(text.into())) })
    }

    /// Creates an edit that removes a member.
    pub fn remove(member: &'static [&'static str]) -> Edit {
        Edit { member, value: None }
    }

    /// Applies the same change to a tree.
    pub fn apply(&self, tree: &mut Map<String, Value>) {
        let Some((last, way)) = self.member.split_last() else { return };
        let mut object = tree;
        for &name in way {
            if self.value.is_none() && !object.get(name).is_some_and(Value::is_object) {
                return;
            }
            let child = object.entry(name).or_insert(Value::Null);
            if !child.is_object() {
                *child = Value::Object(Map::new());
            }
            object = child.as_object_mut().expect("made an object above");
        }
        match &self.value {
            Some(value) => object.insert((*last).to_owned(), value.tree()),
            None => object.remove(*last),
        };
    }
}

impl EditValue {
    /// Converts the value to a tree.
    pub fn tree(&self) -> Value {
        match self {
            EditValue::Tree(tree) => tree.clone(),
            EditValue::Text(text) => serde_json::from_str(text).expect("written as JSON"),
        }
    }

    fn text(&self) -> String {
        match self {
            // `Value::to_string` writes each token separately, and takes several times as long.
            EditValue::Tree(tree) => serde_json::to_string(tree).expect("a tree of JSON values always serializes"),
            EditValue::Text(text) => (**text).to_owned(),
        }
    }
}

/// An object's text, split into members along the paths that are changed.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    /// Sorted by name, each name once.
    members: Vec<(Name<'a>, Part<'a>)>,
}

/// The name of a member. It is borrowed if it contains no escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug)]
enum Part<'a> {
    Text(Cow<'a, str>),
    Open(Parts<'a>),
}

/// Parses the value of a member, given its path and its text.
type Read<'r> = &'r dyn Fn(&[&str], &str) -> Value;

/// A summary of some members, which is compared before their values are (`Parts::outline`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline(Vec<Seen>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// An object on the path to a member, with its number of members. The number is capped at one
    /// more than the members that are compared.
    Members(usize),
    Absent,
    Null,
    /// A value that is an atomic field.
    One,
    Whole(Box<str>),
}

impl<'a> Parts<'a> {
    /// Splits an object's text into its members. Their values stay text.
    pub fn read(json: &'a [u8]) -> Result<Parts<'a>, serde_json::Error> {
        Parts::read_for(json, &[])
    }

    /// Splits an object's text like `read`. The objects on the paths to these members are split in
    /// the same pass.
    pub fn read_for(json: &'a [u8], members: &[&[&str]]) -> Result<Parts<'a>, serde_json::Error> {
        Walk::or_parse(json, |walk| Parts::scan(walk, members, 0))
    }

    /// Splits the next object. The first `depth` names of all `members` are equal, and are the path
    /// to this object.
    fn scan(walk: &mut Walk<'a>, members: &[&[&str]], depth: usize) -> Option<Parts<'a>> {
        let mut parts = Parts { members: Vec::with_capacity(MEMBERS_USUAL) };
        walk.members(|walk, name| {
            let leads_on = |member: &&[&str]| member.len() > depth + 1 && member[depth] == name;
            let part = if walk.is_at_object() && members.iter().any(leads_on) {
                let below: Vec<_> = members.iter().copied().filter(leads_on).collect();
                Part::Open(Parts::scan(walk, &below, depth + 1)?)
            } else {
                Part::Text(Cow::Borrowed(walk.value()?))
            };
            parts.members.push((Name(Cow::Borrowed(name)), part));
            Some(())
        })?;
        Some(parts)
    }

    /// Returns the present values of these members as a tree. In each object on the paths, one
    /// nameless member represents all others, so that an object with other members does not look
    /// empty. `read` parses the value of a member. The objects on the paths are split into members,
    /// and stay split.
    pub fn sketch(&mut self, members: &[&[&str]], read: Read<'_>) -> Map<String, Value> {
        self.sketch_below(members, 0, read)
    }

    /// Returns the sketch of one object. The first `depth` names of all `members` are equal, and
    /// are the path to this object.
    fn sketch_below(&mut self, members: &[&[&str]], depth: usize, read: Read<'_>) -> Map<String, Value> {
        let mut sketch = Map::new();
        let is_asked_for = |name: &Name<'_>| members.iter().any(|member| member.get(depth) == Some(&&*name.0));
        if !self.members.iter().all(|(name, _)| is_asked_for(name)) {
            sketch.insert(String::new(), Value::Null);
        }
        for &member in members {
            let Some(&name) = member.get(depth).filter(|name| !sketch.contains_key(**name)) else { continue };
            let Ok(at) = self.find(name) else { continue };
            let below: Vec<_> = members.iter().copied().filter(|member| member.get(depth) == Some(&name)).collect();
            let is_asked_whole = below.iter().any(|member| member.len() == depth + 1);
            let part = &mut self.members[at].1;
            // Only an object has members.
            let child = if is_asked_whole { None } else { part.open() };
            let value = match child {
                Some(child) => Value::Object(child.sketch_below(&below, depth + 1, read)),
                None => read(&member[..=depth], &part.text()),
            };
            sketch.insert(name.to_owned(), value);
        }
        sketch
    }

    /// Summarizes these members: whether each is present, and the kind of its value. If two changes
    /// of the same members have equal outlines before and after, their sketches differ in the same
    /// way. `is_one` returns whether a list or an object with this text is an atomic field. The
    /// objects on the paths are split into members, and stay split.
    pub fn outline(&mut self, members: &[&[&str]], is_one: &dyn Fn(&[&str], &str) -> bool) -> Outline {
        let mut seen = Vec::with_capacity(members.iter().map(|member| member.len() + 1).sum());
        for member in members {
            self.outline_below(member, 0, members.len(), is_one, &mut seen);
        }
        Outline(seen)
    }

    fn outline_below(
        &mut self,
        member: &[&str],
        depth: usize,
        asked: usize,
        is_one: &dyn Fn(&[&str], &str) -> bool,
        seen: &mut Vec<Seen>,
    ) {
        seen.push(Seen::Members(self.members.len().min(asked + 1)));
        let Some(at) = member.get(depth).and_then(|name| self.find(name).ok()) else {
            return seen.push(Seen::Absent);
        };
        let (part, depth) = (&mut self.members[at].1, depth + 1);
        if depth < member.len()
            && let Some(child) = part.open()
        {
            return child.outline_below(member, depth, asked, is_one, seen);
        }
        let text = part.text();
        seen.push(match text.as_bytes().first() {
            Some(b'n') => Seen::Null,
            Some(b'{' | b'[') if !is_one(&member[..depth], &text) => Seen::Whole(text.into()),
            _ => Seen::One,
        });
    }

    /// Sets or removes a member. Returns whether that changed anything. A value on the path that is
    /// not an object is replaced by one.
    pub fn edit(&mut self, edit: &Edit) -> bool {
        self.set(edit.member, edit.value.as_ref().map(EditValue::text).map(Cow::Owned))
    }

    pub(super) fn set(&mut self, member: &[&str], text: Option<Cow<'a, str>>) -> bool {
        let Some((&name, rest)) = member.split_first() else { return false };
        let known = self.find(name);
        if !rest.is_empty() {
            let child = match known {
                Ok(at) => self.members[at].1.open_or_replace(text.is_some()),
                Err(_) if text.is_none() => None,
                Err(at) => Some(self.insert(at, name, Part::Open(Parts::default()))).and_then(Part::open),
            };
            return child.is_some_and(|child| child.set(rest, text));
        }
        match (known, text) {
            (Ok(at), None) => {
                self.members.remove(at);
                true
            }
            (Err(_), None) => false,
            (Ok(at), Some(text)) => {
                let part = &mut self.members[at].1;
                let is_change = !matches!(part, Part::Text(known) if *known == text);
                *part = Part::Text(text);
                is_change
            }
            (Err(at), Some(text)) => {
                self.insert(at, name, Part::Text(text));
                true
            }
        }
    }

    /// Returns the index of the member. The error is the index at which it would be inserted.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.members.binary_search_by(|(known, _)| (*known.0).cmp(name))
    }

    fn insert(&mut self, at: usize, name: &str, part: Part<'a>) -> &mut Part<'a> {
        self.members.insert(at, (Name(Cow::Owned(name.to_owned())), part));
        &mut self.members[at].1
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (name, part)) in self.members.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            name.write(out);
            out.push(b':');
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Open(parts) => parts.write(out),
            }
        }
        out.push(b'}');
    }
}

impl Name<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Cow::Borrowed(name) => {
                out.push(b'"');
                out.extend_from_slice(name.as_bytes());
                out.push(b'"');
            }
            Cow::Owned(name) => serde_json::to_writer(out, name).expect("writing to memory cannot fail"),
        }
    }
}

impl<'a> Part<'a> {
    /// Splits the object into members. Returns `None` if the value is not an object, or if an
    /// earlier edit has set it.
    fn open(&mut self) -> Option<&mut Parts<'a>> {
        if let Part::Text(Cow::Borrowed(text)) = self {
            *self = Part::Open(Parts::read(text.as_bytes()).ok()?);
        }
        match self {
            Part::Open(parts) => Some(parts),
            Part::Text(_) => None,
        }
    }

    /// Splits the object into members, like `open`. With `is_wanted`, a value that cannot be split
    /// is replaced by an empty object.
    fn open_or_replace(&mut self, is_wanted: bool) -> Option<&mut Parts<'a>> {
        if self.open().is_none() && is_wanted {
            *self = Part::Open(Parts::default());
        }
        self.open()
    }
}

impl Part<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Part::Text(text) => Cow::Borrowed(text),
            Part::Open(parts) => {
                let mut text = Vec::new();
                parts.write(&mut text);
                Cow::Owned(String::from_utf8(text).expect("made of texts"))
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parts<'a>, D::Error> {
        struct Members<'a>(PhantomData<Parts<'a>>);

        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Parts<'a>;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts<'a>, A::Error> {
                let mut members: Vec<(Name<'a>, Part<'a>)> = Vec::with_capacity(MEMBERS_USUAL);
                let mut is_sorted = true;
                while let Some((name, part)) = map.next_entry()? {
                    is_sorted &= members.last().is_none_or(|(last, _)| *last < name);
                    members.push((name, part));
                }
                if !is_sorted {
                    // Of several members with the same name, the last one counts, as in a tree.
                    members = members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
                }
                Ok(Parts { members })
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part<'a>, D::Error> {
        let text: &'a RawValue = Deserialize::deserialize(deserializer)?;
        Ok(Part::Text(Cow::Borrowed(text.get())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BINDING: &str =
        r#"{"kind":"K","metadata":{"annotations":{"a\"b":"1"},"name":"web"},"spec":{"a":1,"c":[{"x":2}]}}"#;

    /// Returns the text after the edits, and whether each edit changed anything. The edits of a
    /// tree must give the same result.
    fn edited(text: &str, edits: &[Edit]) -> (String, Vec<bool>) {
        let members: Vec<_> = edits.iter().map(|edit| edit.member).collect();
        let in_turn = edited_of(Parts::read(text.as_bytes()).unwrap(), text, edits);
        assert_eq!(in_turn, edited_of(Parts::read_for(text.as_bytes(), &members).unwrap(), text, edits));
        in_turn
    }

    fn edited_of(mut parts: Parts<'_>, text: &str, edits: &[Edit]) -> (String, Vec<bool>) {
        let changed = edits.iter().map(|edit| parts.edit(edit)).collect();
        let mut out = Vec::new();
        parts.write(&mut out);
        let out = String::from_utf8(out).unwrap();
        let mut tree: Map<String, Value> = serde_json::from_str(text).unwrap();
        edits.iter().for_each(|edit| edit.apply(&mut tree));
        assert_eq!(out, Value::Object(tree).to_string());
        (out, changed)
    }

    #[test]
    fn every_form_of_an_object_is_taken_apart() {
        for (text, written) in [
            (r#"{}"#, r#"{}"#),
            (r#"{"a":{"b":1},"c":[]}"#, r#"{"a":{"b":1},"c":[]}"#),
            (r#"{"b":1,"a":{"y":1,"x":2}}"#, r#"{"a":{"x":2,"y":1},"b":1}"#),
            (r#"{"a":{"b":1},"a":{"c":2}}"#, r#"{"a":{"c":2}}"#),
            (r#" { "a" : { "b" : 1.5 } } "#, r#"{"a":{"b":1.5}}"#),
            (r#"{"\u0061":{"b":1}}"#, r#"{"a":{"b":1}}"#),
        ] {
            let mut parts = Parts::read_for(text.as_bytes(), &[&["a", "b"]]).unwrap();
            let mut out = Vec::new();
            let _ = parts.outline(&[&["a", "b"]], &|_, _| true);
            parts.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), written, "{text}");
        }
        for text in [r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":}"#, r#"[]"#, ""] {
            assert!(Parts::read_for(text.as_bytes(), &[]).is_err(), "{text}");
        }
    }

    #[test]
    fn members_are_set_and_added_in_their_order() {
        let edits = [
            Edit::set(&["spec", "b"], json!({"z": 1, "y": null})),
            Edit::set(&["spec", "a"], 2),
            Edit::set(&["metadata", "annotations", "new"], "é\""),
            Edit::set(&["status", "deep", "er"], true),
            Edit::write(&["status", "written"], &["a"]).unwrap(),
        ];
        let (text, changed) = edited(BINDING, &edits);
        let expected = r#"{"kind":"K","metadata":{"annotations":{"a\"b":"1","new":"é\""},"name":"web"},"spec":{"a":2,"b":{"y":null,"z":1},"c":[{"x":2}]},"status":{"deep":{"er":true},"written":["a"]}}"#;
        assert_eq!((text.as_str(), changed), (expected, vec![true; 5]));
    }

    #[test]
    fn what_is_as_it_should_be_is_no_change() {
        let edits = [
            Edit::set(&["spec", "c"], json!([{"x": 2}])),
            Edit::remove(&["spec", "nothing"]),
            Edit::remove(&["status", "nothing"]),
            Edit::remove(&["kind", "nothing"]),
        ];
        assert_eq!(edited(BINDING, &edits), (BINDING.to_owned(), vec![false; 4]));
    }

    #[test]
    fn a_sketch_has_the_members_asked_for_and_a_sign_of_the_others() {
        let members: [&[&str]; 4] = [&["spec", "c"], &["spec", "gone", "deep"], &["metadata", "name"], &["kind", "x"]];
        let read = |_: &[&str], text: &str| serde_json::from_str(text).unwrap();
        let mut parts = Parts::read(BINDING.as_bytes()).unwrap();
        let expected = json!({"kind": "K", "metadata": {"": null, "name": "web"}, "spec": {"": null, "c": [{"x": 2}]}});
        assert_eq!(Value::Object(parts.sketch(&members, &read)), expected);
        // The same for parts that are split already.
        parts.edit(&Edit::set(&["spec", "a"], 2));
        assert_eq!(Value::Object(parts.sketch(&members, &read)), expected);
        parts.edit(&Edit::remove(&["spec", "a"]));
        assert_eq!(
            parts.sketch(&[&["spec", "c"]], &read),
            *json!({"": null, "spec": {"c": [{"x": 2}]}}).as_object().unwrap()
        );
    }

    #[test]
    fn an_outline_tells_what_is_there_and_not_which_value() {
        let members: [&[&str]; 2] = [&["spec", "a"], &["spec", "c"]];
        let outline = |text: &str| {
            let is_one = |member: &[&str], _: &str| member != ["spec", "c"];
            Parts::read(text.as_bytes()).unwrap().outline(&members, &is_one)
        };
        let seen = outline(r#"{"spec":{"a":1,"c":[1]},"x":3,"y":4}"#);
        assert_eq!(seen, outline(r#"{"spec":{"a":"one","c":[1]},"x":{},"y":[]}"#));
        for other in [
            r#"{"spec":{"a":1,"c":[2]},"x":3,"y":4}"#,
            r#"{"spec":{"a":null,"c":[1]},"x":3,"y":4}"#,
            r#"{"spec":{"c":[1]},"x":3,"y":4}"#,
            r#"{"spec":{"a":1,"b":1,"c":[1]},"x":3,"y":4}"#,
            r#"{"spec":{"a":1,"c":[1]}}"#,
            r#"{"spec":7,"x":3,"y":4}"#,
        ] {
            assert_ne!(seen, outline(other), "{other}");
        }
    }

    #[test]
    fn what_is_taken_away_leaves_the_object_around_it() {
        let (text, changed) = edited(r#"{"spec":{"a":1},"x":3}"#, &[Edit::remove(&["spec", "a"])]);
        assert_eq!((text.as_str(), changed), (r#"{"spec":{},"x":3}"#, vec![true]));
        let (text, _) = edited(r#"{"x":3}"#, &[Edit::set(&["x", "y"], 1)]);
        assert_eq!(text, r#"{"x":{"y":1}}"#);
    }
}
