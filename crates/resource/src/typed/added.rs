//! Writes the fields of a new object directly in their wire form. A create by a client records all
//! of them, and does not need the set for anything else.
//!
//! *Invariant:* the text is the wire form of the fields that `compare` with an empty object adds.

use serde_json::Value;

use super::super::schema::Schema;
use super::{Items, Members, Parts, Tree, Type};
use ballast_k8s::fields::{FieldSet, FieldsText};

/// The initial capacity of the text: the size for a usual object, in bytes.
const TEXT_BYTES: usize = 2 * 1024;

impl Schema {
    /// Returns the fields of a new object as `fieldsV1`, without the paths in `apart` and without
    /// the members for which `reaches` is false. Returns `None` if nothing is left.
    pub fn added_text(&self, object: &Tree, apart: &FieldSet, reaches: impl Fn(&str) -> bool) -> Option<String> {
        let mut out = FieldsText::with_capacity(TEXT_BYTES);
        let reached = object.iter().filter(|(name, _)| reaches(name));
        members(&mut out, self.members(), reached, Some(apart));
        out.finish()
    }
}

fn members<'v>(
    out: &mut FieldsText,
    types: Members<'_>,
    object: impl Iterator<Item = (&'v String, &'v Value)>,
    apart: Option<&FieldSet>,
) {
    for (name, value) in object {
        let (is_apart, apart_below) = apart.and_then(|apart| apart.find(name)).unzip();
        let open = out.field(name, is_apart != Some(true));
        below(out, types.of(name), value, apart_below);
        out.close(open);
    }
}

/// Writes the fields below a value.
fn below(out: &mut FieldsText, of: Type<'_>, value: &Value, apart: Option<&FieldSet>) {
    match (of.parts(value), value) {
        (Parts::Members(types), Value::Object(object)) => members(out, types, object.iter(), apart),
        (Parts::Items(types), Value::Array(list)) => items(out, types, list),
        _ => {}
    }
}

fn items(out: &mut FieldsText, types: Items<'_>, list: &[Value]) {
    for (element, places) in &types.index(list).by_name {
        let open = out.item(element, true);
        // Duplicates form one field.
        if let [only] = places.as_slice() {
            below(out, types.node(), only, None);
        }
        out.close(open);
    }
}
