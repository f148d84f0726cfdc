//! Parses a value only as far as a comparison needs it. If the type defines a value as one field, a
//! comparison only tests whether two values are equal. Equal texts are equal values, so such a
//! value stays text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::schema::{Schema, Shape};
use super::{Members, Parts, Type};

/// The name of a member. It is borrowed if it needs no decoding.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Schema {
    /// Returns the value of a member for `compare`, which finds the same differences between two
    /// such values as between the full values. `text` must be serialized as a tree is: sorted and
    /// without whitespace.
    pub fn comparable(&self, member: &[&str], text: &str) -> Value {
        comparable(self.type_of(member), text)
    }

    /// Returns whether a value with this text is one field, so that a comparison only tests whether
    /// it equals another one.
    pub fn is_one_field(&self, member: &[&str], text: &str) -> bool {
        matches!(parts(self.type_of(member), text), Parts::One)
    }

    fn type_of(&self, member: &[&str]) -> Type<'_> {
        member.iter().fold(Type::Known(self.root()), below)
    }
}

fn below<'a>(of: Type<'a>, name: &&str) -> Type<'a> {
    match of {
        Type::Known(node) => match &node.shape {
            Shape::Object(object) => Members::Known(object).of(name),
            _ => Type::Deduced,
        },
        Type::Deduced => Type::Deduced,
    }
}

fn parts<'a>(of: Type<'a>, text: &str) -> Parts<'a> {
    match text.as_bytes().first() {
        Some(b'{') => of.parts(&Value::Object(Map::new())),
        Some(b'[') => of.parts(&Value::Array(Vec::new())),
        _ => Parts::One,
    }
}

fn comparable(of: Type<'_>, text: &str) -> Value {
    match parts(of, text) {
        Parts::One if text.starts_with('n') => Value::Null,
        Parts::One => Value::from(text),
        Parts::Items(_) => serde_json::from_str(text).expect("the text of a JSON value"),
        Parts::Members(types) => {
            let members: BTreeMap<Name<'_>, &RawValue> = serde_json::from_str(text).expect("the text of a JSON object");
            let members = members.into_iter().map(|(Name(name), text)| {
                let value = comparable(types.of(&name), text.get());
                (name.into_owned(), value)
            });
            Value::Object(members.collect())
        }
    }
}
