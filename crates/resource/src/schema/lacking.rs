//! Detects whether a stored text lacks a default, without parsing it into a tree. Every object is
//! checked at start-up, and nearly none lacks one.
//!
//! *Invariant:* the result is true exactly when `prune::default` would change the object.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Node, Object, Shape};

pub(super) fn lacks_defaults(node: &Node, text: &[u8]) -> Result<bool, serde_json::Error> {
    let found = Cell::new(false);
    let look = Look { node: node.has_defaults.then_some(node), is_null_lacking: false, found: &found };
    look.deserialize(&mut serde_json::Deserializer::from_slice(text))?;
    Ok(found.get())
}

/// The check of one value.
#[derive(Clone, Copy)]
struct Look<'a> {
    /// `None` if nothing below has a default.
    node: Option<&'a Node>,
    is_null_lacking: bool,
    found: &'a Cell<bool>,
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Look<'a> {
    fn at(self, node: &'a Node) -> Look<'a> {
        Look { node: node.has_defaults.then_some(node), is_null_lacking: false, ..self }
    }

    fn fields<'de, A: MapAccess<'de>>(self, shape: &'a Object, mut map: A) -> Result<(), A::Error> {
        let mut missing = shape.fields.iter().filter(|field| field.default.is_some()).count();
        while let Some(Name(name)) = map.next_key()? {
            let look = match (shape.field(&name), shape.values.as_deref()) {
                (Some(field), _) => {
                    missing -= usize::from(field.default.is_some());
                    let is_null_lacking = field.default.is_some() && !field.node.nullable;
                    Look { is_null_lacking, ..self.at(&field.node) }
                }
                (None, Some(values)) => self.at(values),
                (None, None) => Look { node: None, is_null_lacking: false, ..self },
            };
            map.next_value_seed(look)?;
        }
        self.found.set(self.found.get() || missing > 0);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.node.is_none() && !self.is_null_lacking {
            return IgnoredAny::deserialize(deserializer).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.found.set(self.found.get() || self.is_null_lacking);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match self.node.map(|node| &node.shape) {
            Some(Shape::Object(shape)) => self.fields(shape, map),
            _ => IgnoredAny.visit_map(map).map(drop),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Some(Shape::Array(array)) = self.node.map(|node| &node.shape) else {
            return IgnoredAny.visit_seq(items).map(drop);
        };
        while items.next_element_seed(self.at(&array.items))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}
