//! Request bodies: reads JSON and YAML into a tree, and collects duplicate keys (FV6).
//!
//! The tree keeps the last of several equal keys, as Kubernetes does. Strict validation must report
//! the duplicates, so they are collected while reading. `yaml` reads YAML, and `repair` replaces
//! invalid Unicode. A body is one object: several YAML documents are refused. Depth and size are
//! bounded.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Result as JsonResult, Value};

use super::field_errors::{TOLD_MAX, and_more, shown_name};
use super::json_fault::json_fault;
use super::repair::read_repaired;
use super::yaml;

/// Lists with at least this many items return their spare capacity, which may be half of their
/// memory.
const SHRUNK_ITEMS_MIN: usize = 1024;

/// A decoded request body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    pub value: Map<String, Value>,
    /// Keys that occur more than once, in the order of the text, at most `TOLD_MAX`.
    pub duplicates: Vec<Duplicate>,
    /// Number of duplicates that are not in `duplicates`.
    pub more_duplicates: usize,
}

/// A repeated key. Displays as the warning for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duplicate {
    Json { path: String },
    Yaml { line: u64, key: String },
}

/// The error for a body that is not an object. Displays the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0}")]
    Unreadable(String),
    /// The body is valid JSON or YAML, but not an object.
    #[error("json: cannot unmarshal {0} into Go value of type map[string]interface {{}}")]
    NoObject(&'static str),
}

impl Body {
    /// Returns a body that was not parsed from text, so it has no duplicates.
    pub fn of(value: Map<String, Value>) -> Body {
        Body { value, ..Body::default() }
    }

    pub fn from_json(text: &[u8]) -> Result<Body, Malformed> {
        read_repaired(text, read_json).map_err(|error| Malformed::Unreadable(json_fault(&error)))?.body()
    }

    /// Parses YAML. JSON is valid YAML and is parsed as JSON, unless a key occurs twice: the YAML
    /// warning includes the line.
    pub fn from_yaml(text: &[u8]) -> Result<Body, Malformed> {
        if text.trim_ascii_start().first() == Some(&b'{')
            && let Ok(tree) = read_json(text)
            && let Ok(body) = tree.body()
            && body.duplicates.is_empty()
        {
            return Ok(body);
        }
        let text = std::str::from_utf8(text).map_err(|_| Malformed::Unreadable("yaml: invalid UTF-8".to_owned()))?;
        let (value, repeated, more_duplicates) = yaml::read(text)
            .map_err(|why| Malformed::Unreadable(format!("error converting YAML to JSON: yaml: {why}")))?;
        let duplicates = repeated.into_iter().map(|it| Duplicate::Yaml { line: it.line, key: it.key });
        ReadTree { value, duplicates: duplicates.collect(), more_duplicates }.body()
    }

    /// Returns the errors that strict validation reports: one per key for JSON, one for all keys of
    /// YAML.
    pub fn strict_faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = Vec::new();
        let mut lines = String::new();
        for duplicate in &self.duplicates {
            match duplicate {
                Duplicate::Json { .. } => faults.push(duplicate.to_string()),
                Duplicate::Yaml { .. } => lines.push_str(&format!("\n  {duplicate}")),
            }
        }
        let more = Some(self.more_duplicates).filter(|more| *more > 0).map(and_more);
        if !lines.is_empty() {
            more.iter().for_each(|more| lines.push_str(&format!("\n  {more}")));
            faults.push(format!("yaml: unmarshal errors:{lines}"));
        } else {
            faults.extend(more);
        }
        faults
    }

    /// Returns the warnings about repeated keys.
    pub fn duplicate_warnings(&self) -> Vec<String> {
        let more = Some(self.more_duplicates).filter(|more| *more > 0).map(and_more);
        self.duplicates.iter().map(ToString::to_string).chain(more).collect()
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Duplicate::Json { path } => write!(f, "duplicate field {path:?}"),
            Duplicate::Yaml { line, key } => write!(f, "line {line}: key {key:?} already set in map"),
        }
    }
}

/// A parsed tree, with the keys that occur more than once in the text.
struct ReadTree {
    value: Value,
    duplicates: Vec<Duplicate>,
    /// Number of duplicates that are not in `duplicates`.
    more_duplicates: usize,
}

impl ReadTree {
    /// Converts the tree to a body. Null counts as an object without members, as upstream.
    fn body(self) -> Result<Body, Malformed> {
        match self.value {
            Value::Object(value) => {
                Ok(Body { value, duplicates: self.duplicates, more_duplicates: self.more_duplicates })
            }
            Value::Null => Ok(Body::default()),
            other => Err(Malformed::NoObject(type_of(&other))),
        }
    }
}

fn read_json(text: &[u8]) -> JsonResult<ReadTree> {
    let reading = Reading::default();
    // As in `read::read_json`, the encoding is checked once.
    let value = match std::str::from_utf8(text) {
        Ok(text) => reading.whole(&mut serde_json::Deserializer::from_str(text)),
        Err(_) => reading.whole(&mut serde_json::Deserializer::from_slice(text)),
    }?;
    let (duplicates, more_duplicates) = (reading.duplicates.into_inner(), reading.more_duplicates.get());
    Ok(ReadTree { value, duplicates, more_duplicates })
}

/// Returns an error if `apiVersion` or `kind` of a body is not a string.
pub fn type_meta_fault(body: &Map<String, Value>) -> Option<String> {
    let is_fault = |value: &&Value| !value.is_null() && !value.is_string();
    let (name, other) =
        ["apiVersion", "kind"].into_iter().find_map(|name| Some((name, body.get(name).filter(is_fault)?)))?;
    Some(format!("json: cannot unmarshal {} into Go struct field .{name} of type string", type_of(other)))
}

/// Returns the JSON type of a value, as Go's decoder names it.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The path of the value being read, as a linked list on the stack.
#[derive(Clone, Copy)]
enum Chain<'a> {
    Root,
    Key(&'a Chain<'a>, &'a str),
    Index(&'a Chain<'a>, usize),
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chain::Root => Ok(()),
            Chain::Key(Chain::Root, key) => f.write_str(&shown_name(key)),
            Chain::Key(parent, key) => write!(f, "{parent}.{}", shown_name(key)),
            Chain::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Default)]
struct Reading {
    duplicates: RefCell<Vec<Duplicate>>,
    more_duplicates: Cell<usize>,
}

impl Reading {
    fn tree<'a>(&'a self, at: &'a Chain<'a>) -> Tree<'a> {
        Tree { reading: self, at }
    }

    /// Parses a text that consists of exactly one value.
    fn whole<'de, R: serde_json::de::Read<'de>>(&self, from: &mut serde_json::Deserializer<R>) -> JsonResult<Value> {
        let value = self.tree(&Chain::Root).deserialize(&mut *from)?;
        from.end().map(|()| value)
    }

    /// Records a repeated key. The key's text is built only while fewer than `TOLD_MAX` are
    /// recorded (LI11).
    fn note(&self, duplicate: impl FnOnce() -> Duplicate) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() >= TOLD_MAX {
            self.more_duplicates.set(self.more_duplicates.get() + 1);
            return;
        }
        let duplicate = duplicate();
        if !duplicates.contains(&duplicate) {
            duplicates.push(duplicate);
        }
    }
}

/// Deserializes one value and records its duplicate keys.
#[derive(Clone, Copy)]
struct Tree<'a> {
    reading: &'a Reading,
    at: &'a Chain<'a>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a JSON number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.reading.tree(&Chain::Index(self.at, list.len())))? {
            list.push(item);
        }
        if list.len() >= SHRUNK_ITEMS_MIN {
            list.shrink_to_fit();
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                self.reading.note(|| Duplicate::Json { path: Chain::Key(self.at, &key).to_string() });
            }
            let value = entries.next_value_seed(self.reading.tree(&Chain::Key(self.at, &key)))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
