//! Lowers the schemas that utoipa derives to structural schemas. Runs once per kind at start-up.
//!
//! utoipa writes OpenAPI 3.1, where an `Option` is a list of types with `null`, or a `oneOf` with
//! it. Kubernetes calls such a field optional, not nullable, so the null is dropped. References are
//! followed, and `allOf` (a flattened struct, or a reference with extensions) is merged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;
use utoipa::Number;
use utoipa::ToSchema;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{self as source, AdditionalProperties, ArrayItems, KnownFormat, SchemaFormat, Type};
use utoipa::openapi::{Ref, RefOr};

use super::mark::{EMBEDDED, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, NULLABLE, PRESERVE_UNKNOWN, RULES};
use super::meta::{object_meta, type_meta};
use super::{Array, Bounds, Field, Format, Integer, ListType, Node, Object, Shape, Text, Width};

/// Returns the schema of a kind: `apiVersion`, `kind` and `metadata`, which all kinds share, and
/// then the fields of its type.
pub(super) fn root<T: ToSchema>() -> Arc<Node> {
    let mut components = Vec::new();
    T::schemas(&mut components);
    let components = components.into_iter().collect();
    let mut lowering = Lowering { components, done: BTreeMap::new(), open: BTreeSet::new(), at: T::name().into() };
    let mut node = lowering.node(&T::schema()).node;
    let Shape::Object(object) = node.shape else { panic!("{}: a kind must be a struct", T::name()) };
    let own = object.fields.into_iter().filter(|field| !["apiVersion", "kind", "metadata"].contains(&&*field.name));
    let metadata = Field { required: false, ..object_meta_field() };
    let mut fields: Vec<Field> = type_meta(false).into_iter().chain([metadata]).collect();
    fields.extend(own);
    node.has_defaults = true;
    node.shape = Shape::Object(Object::new(fields));
    node.definition = Some(T::name().into());
    Arc::new(finish(node))
}

fn object_meta_field() -> Field {
    Field {
        name: "metadata".into(),
        description: "Standard object's metadata.".into(),
        required: false,
        default: None,
        node: object_meta(),
    }
}

struct Lowering {
    components: BTreeMap<String, RefOr<source::Schema>>,
    done: BTreeMap<String, Arc<Node>>,
    /// The references that are being followed. A reference to one of them is a recursion.
    open: BTreeSet<String>,
    /// The type and field that are being lowered, for error messages.
    at: String,
}

/// A node, and the properties that belong to its field rather than to its type.
struct Lowered {
    node: Node,
    description: Option<String>,
    default: Option<Value>,
}

impl Lowering {
    fn node(&mut self, schema: &RefOr<source::Schema>) -> Lowered {
        match schema {
            RefOr::Ref(reference) => self.reference(reference),
            RefOr::T(source::Schema::Object(object)) => self.object(object),
            RefOr::T(source::Schema::Array(array)) => self.array(array),
            RefOr::T(source::Schema::OneOf(one_of)) => {
                let real: Vec<_> = one_of.items.iter().filter(|item| !is_null(item)).collect();
                let [only] = real.as_slice() else { self.refuse("oneOf") };
                let mut lowered = self.node(only);
                lowered.describe(one_of.description.as_ref());
                lowered.default = one_of.default.clone().or(lowered.default);
                lowered
            }
            RefOr::T(source::Schema::AllOf(all_of)) => {
                let mut lowered = self.merged(&all_of.items);
                lowered.describe(all_of.description.as_ref());
                lowered.default = all_of.default.clone().or(lowered.default);
                self.mark(&mut lowered.node, all_of.extensions.as_ref());
                lowered
            }
            _ => self.refuse("anyOf"),
        }
    }

    fn reference(&mut self, reference: &Ref) -> Lowered {
        let name = reference.ref_location.rsplit('/').next().unwrap_or_default().to_owned();
        let node = match self.done.get(&name) {
            Some(done) => Node::clone(done),
            None => {
                let Some(component) = self.components.get(&name).cloned() else {
                    self.refuse(&format!("an unknown reference to {name}"))
                };
                if !self.open.insert(name.clone()) {
                    self.refuse(&format!("a recursive reference to {name}"));
                }
                let outer = std::mem::replace(&mut self.at, name.clone());
                let Lowered { mut node, description, .. } = self.node(&component);
                if let Some(description) = description.filter(|_| node.description.is_empty()) {
                    node.description = flowing(Some(&description));
                }
                self.at = outer;
                self.open.remove(&name);
                // A full name is always published. A short one is published if it is an object with
                // fields. A type from `mark` wraps a type that has its own name.
                let is_struct = matches!(&node.shape, Shape::Object(object) if !object.fields.is_empty());
                if node.definition.is_none() && (is_struct || is_full(&name)) {
                    node.definition = Some(name.as_str().into());
                }
                self.done.insert(name, Arc::new(node.clone()));
                node
            }
        };
        let description = (!reference.description.is_empty()).then(|| reference.description.clone());
        Lowered { node, description, default: reference.default.clone() }
    }

    /// Merges the items of an `allOf`. A single item is used unchanged. Several must be objects;
    /// their fields are joined in order.
    fn merged(&mut self, items: &[RefOr<source::Schema>]) -> Lowered {
        if let [only] = items {
            return self.node(only);
        }
        let mut fields = Vec::new();
        for item in items {
            match self.node(item).node.shape {
                Shape::Object(object) if object.values.is_none() => fields.extend(object.fields),
                _ => self.refuse("allOf of something that is no struct"),
            }
        }
        Lowered::plain(finish(Node::of(Shape::Object(Object::new(fields)))))
    }

    fn object(&mut self, object: &source::Object) -> Lowered {
        if object.multiple_of.is_some() || object.max_properties.is_some() || object.min_properties.is_some() {
            self.refuse("multipleOf, minProperties or maxProperties");
        }
        let shape = match self.sole_type(&object.schema_type) {
            _ if is_set(object.extensions.as_ref(), INT_OR_STRING) => Shape::IntOrString(self.text(object)),
            None => Shape::Any,
            Some(Type::Object) => Shape::Object(self.fields(object)),
            Some(Type::String) => Shape::Text(self.text(object)),
            Some(Type::Integer) => Shape::Integer(Integer { width: width(object), bounds: bounds(object) }),
            Some(Type::Number) => Shape::Number(bounds(object)),
            Some(Type::Boolean) => Shape::Boolean,
            Some(Type::Array | Type::Null) => self.refuse("an object schema of type array or null"),
        };
        let mut node = Node::of(shape);
        node.description = flowing(object.description.as_deref());
        node.one_of =
            object.enum_values.clone().unwrap_or_default().into_iter().filter(|value| !value.is_null()).collect();
        self.mark(&mut node, object.extensions.as_ref());
        let mut lowered = Lowered::plain(finish(node));
        lowered.default = object.default.clone();
        lowered
    }

    fn fields(&mut self, object: &source::Object) -> Object {
        let outer = self.at.clone();
        let mut fields = Vec::with_capacity(object.properties.len());
        for (name, schema) in &object.properties {
            self.at = format!("{outer}.{name}");
            let lowered = self.node(schema);
            fields.push(Field {
                name: name.as_str().into(),
                description: lowered
                    .description
                    .map_or_else(|| lowered.node.description.clone(), |text| flowing(Some(&text))),
                required: object.required.contains(name),
                default: lowered.default,
                node: Arc::new(lowered.node),
            });
        }
        self.at = outer;
        let mut lowered = Object::new(fields);
        match object.additional_properties.as_deref() {
            None | Some(AdditionalProperties::FreeForm(false)) => {}
            Some(AdditionalProperties::FreeForm(true)) => lowered.preserve_unknown = true,
            Some(AdditionalProperties::RefOr(values)) => lowered.values = Some(Arc::new(self.node(values).node)),
        }
        lowered
    }

    fn array(&mut self, array: &source::Array) -> Lowered {
        let ArrayItems::RefOrSchema(items) = &array.items else { self.refuse("an array without items") };
        let items = Arc::new(self.node(items).node);
        let mut node = Node::of(Shape::Array(Array {
            items,
            min_items: array.min_items,
            max_items: array.max_items,
            unique_items: array.unique_items,
            list_type: None,
            duplicates_pass: false,
        }));
        node.description = flowing(array.description.as_deref());
        self.mark(&mut node, array.extensions.as_ref());
        let mut lowered = Lowered::plain(finish(node));
        lowered.default = array.default.clone();
        lowered
    }

    fn text(&mut self, object: &source::Object) -> Text {
        let pattern = object.pattern.as_deref().map(|pattern| match Regex::new(pattern) {
            Ok(regex) => regex,
            Err(error) => self.refuse(&format!("an invalid pattern: {error}")),
        });
        let format = object.format.as_ref().map(|format| match format {
            SchemaFormat::KnownFormat(KnownFormat::DateTime) => Format::DateTime,
            SchemaFormat::Custom(name) if name == "date-time" => Format::DateTime,
            other => Format::Other(format_name(other).into()),
        });
        Text { format, min_length: object.min_length, max_length: object.max_length, pattern }
    }

    /// Applies the `x-kubernetes-*` extensions.
    fn mark(&mut self, node: &mut Node, extensions: Option<&Extensions>) {
        let Some(extensions) = extensions else { return };
        node.nullable |= is_set(Some(extensions), NULLABLE);
        match &mut node.shape {
            Shape::Array(array) => {
                let keys = || extensions.get(LIST_MAP_KEYS).and_then(Value::as_array).cloned().unwrap_or_default();
                array.list_type = match extensions.get(LIST_TYPE).and_then(Value::as_str) {
                    None => array.list_type.take(),
                    Some("atomic") => Some(ListType::Atomic),
                    Some("set") => Some(ListType::Set),
                    Some("map") => {
                        Some(ListType::Map(keys().iter().filter_map(Value::as_str).map(Arc::from).collect()))
                    }
                    Some(other) => self.refuse(&format!("list type {other}")),
                };
            }
            Shape::Object(object) => {
                object.preserve_unknown |= is_set(Some(extensions), PRESERVE_UNKNOWN);
                object.atomic |= extensions.get(MAP_TYPE).and_then(Value::as_str) == Some("atomic");
                if let Some(Value::Array(rules)) = extensions.get(RULES) {
                    object.rules = rules.as_slice().into();
                }
                if is_set(Some(extensions), EMBEDDED) && !object.embedded {
                    let meta = type_meta(true).into_iter().chain([object_meta_field()]);
                    let own = std::mem::take(&mut object.fields).into_iter().filter(|field| &*field.name != "metadata");
                    let fields = meta.chain(own).collect();
                    let preserve_unknown = object.preserve_unknown;
                    *object = Object { embedded: true, preserve_unknown, ..Object::new(fields) };
                }
            }
            _ => {}
        }
    }

    /// Returns the only type other than null, or `None` for any value.
    fn sole_type(&self, types: &source::SchemaType) -> Option<Type> {
        match types {
            source::SchemaType::AnyValue => None,
            source::SchemaType::Type(only) => Some(only.clone()),
            source::SchemaType::Array(several) => {
                let real: Vec<&Type> = several.iter().filter(|one| **one != Type::Null).collect();
                let [only] = real.as_slice() else { self.refuse("several types at once") };
                Some((*only).clone())
            }
        }
    }

    fn refuse(&self, what: &str) -> ! {
        panic!("{}: a structural schema cannot hold {what}", self.at)
    }
}

impl Lowered {
    fn plain(node: Node) -> Lowered {
        Lowered { node, description: None, default: None }
    }

    fn describe(&mut self, description: Option<&String>) {
        if let Some(description) = description {
            self.description = Some(description.clone());
        }
    }
}

/// Returns whether a name is full, such as `io.k8s.api.core.v1.Taint`.
/// `AtomicList_io.k8s.api.core.v1.Taint` is not: it is the name of a type from `mark`.
fn is_full(name: &str) -> bool {
    name.split_once('.').is_some_and(|(first, _)| first.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Joins the lines of a doc comment. Empty lines separate paragraphs.
fn flowing(text: Option<&str>) -> Arc<str> {
    let paragraphs = text.unwrap_or_default().split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n").into()
}

/// Records whether a node below has defaults.
fn finish(mut node: Node) -> Node {
    node.has_defaults = match &node.shape {
        Shape::Object(object) => {
            object.fields.iter().any(|field| field.default.is_some() || field.node.has_defaults)
                || object.values.as_ref().is_some_and(|values| values.has_defaults)
        }
        Shape::Array(array) => array.items.has_defaults,
        _ => false,
    };
    node
}

fn is_null(schema: &RefOr<source::Schema>) -> bool {
    matches!(schema, RefOr::T(source::Schema::Object(object)) if object.schema_type == source::SchemaType::Type(Type::Null))
}

fn is_set(extensions: Option<&Extensions>, name: &str) -> bool {
    extensions.and_then(|extensions| extensions.get(name)) == Some(&Value::Bool(true))
}

fn format_name(format: &SchemaFormat) -> String {
    match serde_json::to_value(format) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

fn width(object: &source::Object) -> Width {
    match object.format {
        Some(SchemaFormat::KnownFormat(KnownFormat::Int32)) => Width::Int32,
        Some(_) => Width::Int64,
        None => Width::Unstated,
    }
}

fn bounds(object: &source::Object) -> Bounds {
    let number = |number: &Option<Number>| {
        number.as_ref().map(|number| match *number {
            Number::Int(value) => value as f64,
            Number::UInt(value) => value as f64,
            Number::Float(value) => value,
        })
    };
    let (above, below) = (number(&object.exclusive_minimum), number(&object.exclusive_maximum));
    Bounds {
        minimum: above.or(number(&object.minimum)),
        exclusive_minimum: above.is_some(),
        maximum: below.or(number(&object.maximum)),
        exclusive_maximum: below.is_some(),
    }
}
