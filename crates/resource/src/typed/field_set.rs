//! The fields of a value, which its manager owns when it applies the value.

use serde_json::Value;

use super::super::schema::Schema;
use super::{Members, Parts, Tree, Type};
use ballast_k8s::fields::{Element, FieldSet};

impl Schema {
    /// Returns the fields of an object. A struct itself is not a field; an entry of a map is.
    pub fn fields_of(&self, object: &Tree) -> FieldSet {
        members(self.members(), object)
    }

    /// Returns the set with the structs that contain its members, so that removing all fields of a
    /// struct removes the struct.
    pub fn with_structs(&self, set: &FieldSet) -> FieldSet {
        with_structs(Some(Parts::Members(self.members())), set)
    }
}

fn members(types: Members<'_>, object: &Tree) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in object {
        let (is_leaf, below) = fields(types.of(name), value);
        let is_empty = value.is_null() || value.as_object().is_some_and(Tree::is_empty);
        set.put(Element::field(name), is_leaf || is_empty || !types.is_declared(name), below);
    }
    set
}

/// Returns whether the value is one field, and otherwise its fields.
fn fields(of: Type<'_>, value: &Value) -> (bool, FieldSet) {
    match (of.parts(value), value) {
        (Parts::Members(types), Value::Object(object)) => (false, members(types, object)),
        (Parts::Items(items), Value::Array(list)) => {
            let index = items.index(list);
            let mut set = FieldSet::default();
            for element in &index.order {
                let below = match index.get(element) {
                    [only] => fields(items.node(), only).1,
                    // Duplicates cannot be distinguished, so they form one field.
                    _ => FieldSet::default(),
                };
                set.put(element.clone(), true, below);
            }
            (false, set)
        }
        _ => (true, FieldSet::default()),
    }
}

fn with_structs(parts: Option<Parts<'_>>, set: &FieldSet) -> FieldSet {
    let mut all = FieldSet::default();
    for (element, member, below) in set.iter() {
        let (is_struct, next) = match (parts, element.as_field()) {
            (Some(Parts::Members(types)), Some(name)) => (types.is_declared(name), types.find(name).map(shape_of)),
            (Some(Parts::Items(items)), None) => (false, Some(shape_of(items.node()))),
            _ => (false, None),
        };
        all.put(element.clone(), member || (is_struct && !below.is_empty()), with_structs(next, below));
    }
    all
}

/// Returns the parts of a type without a value. The paths below a field are assumed to match its
/// type.
fn shape_of(of: Type<'_>) -> Parts<'_> {
    match of {
        Type::Deduced => Parts::Members(Members::Deduced),
        Type::Known(node) => match &node.shape {
            super::Shape::Array(_) => of.parts(&Value::Array(Vec::new())),
            super::Shape::Any => Parts::Members(Members::Deduced),
            _ => of.parts(&Value::Object(Tree::new())),
        },
    }
}
