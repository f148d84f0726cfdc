//! The structural schema of a kind, lowered once from its Rust type.
//!
//! One tree serves everything that asks what an object may hold: `prune` (unknown fields),
//! `default`, `validate` (Kubernetes' wording), the OpenAPI documents, and the list and map
//! semantics of server-side apply. The Rust types are its only source: `lower` reads what utoipa
//! derives for them, and `mark` holds the types that say in `#[schema(value_type = …)]` what utoipa
//! has no word for.
//!
//! Invariants: fields keep the order in which the type declares them, which is the order of errors;
//! an object that has nothing wrong with it is walked without allocating; `metadata`, `apiVersion`
//! and `kind` of the root are the same for every kind (`meta`), whatever the type says of them.
//!
//! Deliberately absent: `oneOf`, `anyOf`, `not`, tuples and recursive types. A type that derives
//! one of those stops the program at start-up with its name, which a unit test meets first.

mod lacking;
mod lower;
pub mod mark;
pub mod meta;

mod prune;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use crate::k8s::FieldErrors;

/// The structural schema of a kind.
#[derive(Debug)]
pub struct Schema {
    root: Arc<Node>,
}

/// What one value may be.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name that OpenAPI publishes it under: for objects with fields of their own the name of
    /// the Rust type, or a full name with dots.
    pub definition: Option<Arc<str>>,
    pub description: Arc<str>,
    pub nullable: bool,
    /// `enum`: empty when any value of the shape will do.
    pub one_of: Box<[Value]>,
    pub shape: Shape,
    /// Something below this node has a default: the others need not be walked for them.
    has_defaults: bool,
}

#[derive(Clone, Debug)]
pub enum Shape {
    /// Any JSON value, kept as it is.
    Any,
    Object(Object),
    Array(Array),
    Text(Text),
    Integer(Integer),
    Number(Bounds),
    Boolean,
    /// `x-kubernetes-int-or-string`; the rules of text hold for the text.
    IntOrString(Text),
}

#[derive(Clone, Debug, Default)]
pub struct Object {
    /// In the order of declaration.
    pub fields: Box<[Field]>,
    /// Places in `fields`, sorted by name.
    by_name: Box<[u16]>,
    /// `additionalProperties`.
    pub values: Option<Arc<Node>>,
    /// Fields that are not declared are kept.
    pub preserve_unknown: bool,
    /// A whole object of some other kind. Its `apiVersion`, `kind` and `metadata` are among the
    /// fields.
    pub embedded: bool,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic: bool,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: Arc<str>,
    /// Of the field, where the type's own description would say less.
    pub description: Arc<str>,
    pub required: bool,
    pub default: Option<Value>,
    pub node: Arc<Node>,
}

#[derive(Clone, Debug)]
pub struct Array {
    pub items: Arc<Node>,
    pub min_items: Option<usize>,
    pub max_items: Option<usize>,
    pub unique_items: bool,
    pub list_type: Option<ListType>,
    /// Duplicates are somebody else's to deal with: validation lets them pass.
    pub duplicates_pass: bool,
}

/// `x-kubernetes-list-type`, with the keys of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map(Box<[Arc<str>]>),
}

#[derive(Clone, Debug, Default)]
pub struct Text {
    pub format: Option<Format>,
    /// In characters, not bytes.
    pub min_length: Option<usize>,
    pub max_length: Option<usize>,
    pub pattern: Option<Regex>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    DateTime,
    /// Published, not checked.
    Other(Arc<str>),
}

#[derive(Clone, Debug)]
pub struct Integer {
    pub width: Width,
    pub bounds: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Int32,
    Int64,
    /// 64 bits without a format that says so: Go's `int`.
    Unstated,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
}

impl Schema {
    /// Lowers the schema that utoipa derives for `T`.
    ///
    /// # Panics
    /// When the type uses something that a structural schema cannot hold.
    pub fn of<T: utoipa::ToSchema>() -> Schema {
        Schema { root: lower::root::<T>() }
    }

    /// The whole object.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// The node of a path of field names; list items and map values are stepped into without being
    /// named.
    pub fn node(&self, path: &[&str]) -> Option<&Arc<Node>> {
        path.iter().try_fold(&self.root, |node, name| Some(&node.behind_lists().field(name)?.node))
    }

    /// Removes fields that the schema does not know and gives their paths, sorted (FV5, FV7). Nulls
    /// where null means nothing are removed silently, and 3.0 becomes 3 where an integer is meant.
    pub fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in the schema's defaults; runs after `prune` (AD4). The fields of an absent object
    /// stay absent.
    pub fn default(&self, object: &mut Map<String, Value>) {
        prune::default(&self.root, object);
    }

    /// Whether `default` would change the object with this text.
    pub fn lacks_defaults(&self, text: &[u8]) -> Result<bool, serde_json::Error> {
        lacking::lacks_defaults(&self.root, text)
    }

    /// All faults, in the order of the fields (AD8). Empty for a valid object, and then nothing was
    /// allocated.
    pub fn validate(&self, object: &Map<String, Value>) -> FieldErrors {
        validate::validate(&self.root, object)
    }

    /// The faults of one member, if it were `value`. `None` takes it away.
    pub fn validate_member(&self, member: &[&str], value: Option<&Value>) -> FieldErrors {
        validate::validate_member(&self.root, member, value)
    }
}

impl Node {
    fn of(shape: Shape) -> Node {
        Node {
            definition: None,
            description: Arc::from(""),
            nullable: false,
            one_of: Box::default(),
            shape,
            has_defaults: false,
        }
    }

    /// The declared field of this object.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match &self.shape {
            Shape::Object(object) => object.field(name),
            _ => None,
        }
    }

    /// Through items and map values to what they hold.
    fn behind_lists(&self) -> &Node {
        match &self.shape {
            Shape::Array(array) => array.items.behind_lists(),
            Shape::Object(Object { values: Some(values), fields, .. }) if fields.is_empty() => values.behind_lists(),
            _ => self,
        }
    }

    /// Null stands for absence here, and is removed.
    fn drops_null(&self) -> bool {
        !self.nullable && !matches!(self.shape, Shape::Any)
    }
}

impl Object {
    fn new(fields: Vec<Field>) -> Object {
        let mut by_name: Vec<u16> = (0..).take(fields.len()).collect();
        by_name.sort_by(|&a, &b| fields[usize::from(a)].name.cmp(&fields[usize::from(b)].name));
        Object { fields: fields.into(), by_name: by_name.into(), ..Object::default() }
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        let found = self.by_name.binary_search_by(|&place| (*self.fields[usize::from(place)].name).cmp(name)).ok()?;
        Some(&self.fields[usize::from(self.by_name[found])])
    }
}
