//! An element, which is one step of a path, in the format of `fieldsV1`: `f:spec`,
//! `k:{"name":"web"}`, `v:"tcp"`, `i:3`.
//!
//! *Invariant:* an element has one spelling, so two elements are equal exactly if their texts are
//! equal. The keys of an item are sorted, and values are compact JSON.

use std::fmt;

use serde_json::{Map, Value};

/// One step of a path, in its wire format.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(Box<str>);

impl Element {
    /// Creates the element of an object member.
    pub fn field(name: &str) -> Element {
        Element(format!("f:{name}").into())
    }

    /// Creates the element of a list item that is identified by the values of these members.
    pub fn keys(keys: Map<String, Value>) -> Element {
        Element(format!("k:{}", Value::Object(keys)).into())
    }

    /// Creates the element of an item of a set.
    pub fn value(value: &Value) -> Element {
        Element(format!("v:{value}").into())
    }

    /// Parses an element. Returns `None` if the text is not a valid element.
    pub(super) fn parse(text: &str) -> Option<Element> {
        let (kind, rest) = text.split_at_checked(2)?;
        match kind {
            "f:" => Some(Element(text.into())),
            "k:" => match serde_json::from_str(rest).ok()? {
                Value::Object(keys) => Some(Element::keys(keys)),
                _ => None,
            },
            "v:" => Some(Element::value(&serde_json::from_str(rest).ok()?)),
            "i:" => rest.parse::<u32>().ok().map(|index| Element(format!("i:{index}").into())),
            _ => None,
        }
    }

    /// Returns the name of the member if the element is a member of an object.
    pub fn as_field(&self) -> Option<&str> {
        self.0.strip_prefix("f:")
    }

    pub fn is_field(&self, name: &str) -> bool {
        self.as_field() == Some(name)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Displays the element as conflict messages do: `.spec`, `[name="web"]`, `[="tcp"]`, `[3]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, rest) = self.0.split_at(2);
        match kind {
            "f:" => write!(f, ".{rest}"),
            "v:" => write!(f, "[={rest}]"),
            "k:" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
            _ => write!(f, "[{rest}]"),
        }
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
