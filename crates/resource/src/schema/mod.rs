//! The structural schema of a kind, built once from its Rust type.
//!
//! One tree serves all code that needs the type of an object: `prune` (unknown fields), `default`,
//! `validate` (with the messages of Kubernetes), the OpenAPI documents, and the list and map
//! semantics of server-side apply. The Rust types are its only source. `lower` reads the schema
//! that utoipa derives from them, and `mark` has types for `#[schema(value_type = …)]` that express
//! semantics which utoipa lacks.
//!
//! *Invariants.* Fields keep the order in which the type declares them, which is the order of
//! errors. A valid object is walked without allocations. `metadata`, `apiVersion` and `kind` of the
//! root are the same for every kind (`meta`), whatever the type declares.
//!
//! Not supported: `oneOf`, `anyOf`, `not`, tuples and recursive types. A type with one of these
//! makes the program panic at start-up, with the name of the type. A unit test detects it earlier.

mod digest;
mod lacking;
mod lower;
pub mod mark;
pub mod meta;

mod prune;
mod unknown;
mod validate;

#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use ballast_k8s::FieldErrors;

pub use self::prune::Unknown;

/// The structural schema of a kind.
#[derive(Debug)]
pub struct Schema {
    root: Arc<Node>,
}

/// The schema of one value.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of its OpenAPI definition: the name of the Rust type for objects with fields, or a
    /// full name with dots. `None` if the node has no separate definition.
    pub definition: Option<Arc<str>>,
    pub description: Arc<str>,
    pub nullable: bool,
    /// `enum`. Empty if any value of the shape is allowed.
    pub one_of: Box<[Value]>,
    pub shape: Shape,
    /// Whether a node below has a default. Other nodes need not be walked for defaults.
    has_defaults: bool,
}

/// The type of a value, with the rules of that type.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Any JSON value, stored unchanged.
    Any,
    Object(Object),
    Array(Array),
    Text(Text),
    Integer(Integer),
    Number(Bounds),
    Boolean,
    /// `x-kubernetes-int-or-string`. The rules of text apply if it is text.
    IntOrString(Text),
}

/// The rules of an object: its declared fields, and whether it may have others.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// In the order of declaration.
    pub fields: Box<[Field]>,
    /// The first bytes of the field names, sorted, with the indexes of these fields.
    by_beginning: Box<[(u64, u16)]>,
    /// The indexes of the required fields.
    required: Box<[u16]>,
    /// `additionalProperties`.
    pub values: Option<Arc<Node>>,
    /// Whether undeclared fields are kept.
    pub preserve_unknown: bool,
    /// Whether this is a whole object of another kind. `apiVersion`, `kind` and `metadata` are
    /// among its fields.
    pub embedded: bool,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic: bool,
    /// `x-kubernetes-validations`: published, but not evaluated.
    pub rules: Box<[Value]>,
}

/// A declared field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: Arc<str>,
    /// The description of the field. Empty if the description of the type is enough.
    pub description: Arc<str>,
    pub required: bool,
    pub default: Option<Value>,
    pub node: Arc<Node>,
}

/// The rules of a list.
#[derive(Clone, Debug)]
pub struct Array {
    pub items: Arc<Node>,
    pub min_items: Option<usize>,
    pub max_items: Option<usize>,
    pub unique_items: bool,
    pub list_type: Option<ListType>,
    /// Whether validation accepts duplicates, because other code handles them.
    pub duplicates_pass: bool,
}

/// `x-kubernetes-list-type`, with the keys of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map(Box<[Arc<str>]>),
}

/// The rules of a string.
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
    /// Published, but not checked.
    Other(Arc<str>),
}

/// The rules of an integer.
#[derive(Clone, Debug)]
pub struct Integer {
    pub width: Width,
    pub bounds: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Int32,
    Int64,
    /// 64 bits, published without a format: Go's `int`.
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
    /// When the type uses something that a structural schema cannot represent.
    pub fn of<T: utoipa::ToSchema>() -> Schema {
        Schema { root: lower::root::<T>() }
    }

    /// Returns the schema of the whole object.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// Returns the node at a path of field names. Items of lists and values of maps take no path
    /// element.
    pub fn node(&self, path: &[&str]) -> Option<&Arc<Node>> {
        path.iter().try_fold(&self.root, |node, name| Some(&node.behind_lists().field(name)?.node))
    }

    /// Removes fields that the schema does not declare and returns their paths, sorted (FV5, FV7).
    /// Nulls without a meaning are removed silently, and 3.0 becomes 3 where an integer is
    /// expected.
    pub fn prune(&self, object: &mut Map<String, Value>) -> Unknown {
        prune::prune(&self.root, object)
    }

    /// Sets the schema's defaults. Runs after `prune` (AD4). The fields of an absent object stay
    /// absent.
    pub fn default(&self, object: &mut Map<String, Value>) {
        prune::default(&self.root, object);
    }

    /// Returns whether `default` would change the object with this text.
    pub fn lacks_defaults(&self, text: &[u8]) -> Result<bool, serde_json::Error> {
        lacking::lacks_defaults(&self.root, text)
    }

    /// Hashes the defaults that `default` sets, and nothing else of the schema.
    pub fn digest_defaults(&self, state: &mut impl Hasher) {
        digest::digest(&self.root, state);
    }

    /// Returns all faults, in the order of the fields (AD8). For a valid object the list is empty
    /// and nothing is allocated.
    pub fn validate(&self, object: &Map<String, Value>) -> FieldErrors {
        validate::validate(&self.root, object)
    }

    /// Returns the unknown fields below a member, such as `["spec"]`; `[]` is the whole object.
    /// Each fault names the nearest known field.
    pub fn unknown_fields(&self, object: &Map<String, Value>, member: &[&str]) -> FieldErrors {
        unknown::unknown_fields(&self.root, object, member)
    }

    /// Returns the faults of one member, if it had this value. `None` means that the member is
    /// removed.
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

    /// Returns the declared field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match &self.shape {
            Shape::Object(object) => object.field(name),
            _ => None,
        }
    }

    /// Returns the element type inside all nested lists and maps.
    fn behind_lists(&self) -> &Node {
        match &self.shape {
            Shape::Array(array) => array.items.behind_lists(),
            Shape::Object(Object { values: Some(values), fields, .. }) if fields.is_empty() => values.behind_lists(),
            _ => self,
        }
    }

    /// Returns whether null means absence here, and is removed.
    fn drops_null(&self) -> bool {
        !self.nullable && !matches!(self.shape, Shape::Any)
    }
}

impl Object {
    fn new(fields: Vec<Field>) -> Object {
        let places = || (0_u16..).zip(&fields);
        let mut by_beginning: Vec<_> = places().map(|(place, field)| (beginning(&field.name), place)).collect();
        by_beginning.sort_unstable();
        let required = places().filter(|(_, field)| field.required).map(|(place, _)| place).collect();
        Object { fields: fields.into(), by_beginning: by_beginning.into(), required, ..Object::default() }
    }

    /// Returns the declared field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.place(name).map(|place| &self.fields[place])
    }

    /// Returns the index of a declared field in `fields`. Each member of each written object is
    /// looked up several times, so the search compares numbers that are adjacent in memory, and
    /// then one name.
    fn place(&self, name: &str) -> Option<usize> {
        let wanted = beginning(name);
        let first = self.by_beginning.partition_point(|(beginning, _)| *beginning < wanted);
        let alike = self.by_beginning[first..].iter().take_while(|(beginning, _)| *beginning == wanted);
        alike.map(|(_, place)| usize::from(*place)).find(|place| *self.fields[*place].name == *name)
    }
}

/// Returns the first eight bytes of a name, which sort as the names do.
fn beginning(name: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}
