//! Structural schemas in the Kubernetes dialect of OpenAPI 3.0 and of Swagger 2.0.
//!
//! Swagger cannot express everything: nullable values and int-or-string are left untyped there, as
//! in Kubernetes (OA14).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use ballast_resource::ResourceKind;
use ballast_resource::schema::mark;
use ballast_resource::schema::meta::{self, META_V1};
use ballast_resource::schema::{Array, Bounds, Field, Format, ListType, Node, Object, Shape, Text, Width};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    V2,
    V3,
}

/// The definitions of one document. A definition is added when it is first referenced.
pub struct Schemas {
    dialect: Dialect,
    definitions: BTreeMap<String, Value>,
}

impl Schemas {
    pub fn new(dialect: Dialect) -> Schemas {
        Schemas { dialect, definitions: BTreeMap::new() }
    }

    pub fn into_definitions(self) -> BTreeMap<String, Value> {
        self.definitions
    }

    pub fn reference_to(&self, name: &str) -> Value {
        match self.dialect {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }

    /// Returns a reference to a kind under its full name. The definition has the extension by which
    /// clients find it (OA7).
    pub fn kind(&mut self, row: &ResourceKind) -> Value {
        self.kind_as(row, row.schema.root(), &object_name(row), row.kind)
    }

    /// Returns a reference to the list of a kind.
    pub fn list(&mut self, row: &ResourceKind) -> Value {
        let kind = format!("{}List", row.kind);
        let name = format!("{}.{kind}", row.openapi_package);
        let list = meta::list_of(&name, row.kind, row.schema.root().clone());
        self.kind(row);
        self.kind_as(row, &list, &name, &kind)
    }

    fn kind_as(&mut self, row: &ResourceKind, node: &Node, name: &str, kind: &str) -> Value {
        self.define(node, name, row.openapi_package);
        let kind = json!({"group": row.group, "version": row.version, "kind": kind});
        if let Some(definition) = self.definitions.get_mut(name) {
            definition["x-kubernetes-group-version-kind"] = json!([kind]);
        }
        self.reference_to(name)
    }

    /// Adds a type of `meta/v1`. `versions` contains the groups and versions that have it as a
    /// kind.
    pub fn shared(&mut self, node: &Node, kind: &str, versions: &[(&str, &str)]) {
        let name = format!("{META_V1}.{kind}");
        self.define(node, &name, META_V1);
        if let (false, Some(definition)) = (versions.is_empty(), self.definitions.get_mut(&name)) {
            let kinds =
                versions.iter().map(|(group, version)| json!({"group": group, "version": version, "kind": kind}));
            definition["x-kubernetes-group-version-kind"] = kinds.collect();
        }
    }

    pub fn insert(&mut self, name: &str, schema: Value) {
        self.definitions.insert(name.to_owned(), schema);
    }

    /// Adds a definition. `package` completes names without dots.
    fn define(&mut self, node: &Node, name: &str, package: &str) {
        if !self.definitions.contains_key(name) {
            // The name is inserted first, so that a recursive reference terminates.
            self.definitions.insert(name.to_owned(), Value::Null);
            let body = self.body(node, package);
            self.definitions.insert(name.to_owned(), body);
        }
    }

    fn node(&mut self, node: &Node, package: &str) -> Value {
        let Some(definition) = &node.definition else { return self.body(node, package) };
        let name = full_name(definition, package);
        self.define(node, &name, package);
        self.reference_to(&name)
    }

    fn field(&mut self, field: &Field, package: &str) -> Value {
        let mut schema = self.node(&field.node, package);
        let described = !field.description.is_empty();
        // OpenAPI 3.0 ignores siblings of a reference.
        if self.dialect == Dialect::V3 && schema.get("$ref").is_some() && (described || field.default.is_some()) {
            schema = json!({"allOf": [schema]});
        }
        if described {
            schema["description"] = (*field.description).into();
            self.tell_once(field, package);
        }
        // Some defaults of upstream are not in upstream's own enum. Validators reject such
        // documents, so these defaults are omitted.
        let in_enum = |default: &Value| field.node.one_of.is_empty() || field.node.one_of.contains(default);
        // Generators cannot build a typed value from `{}`, and omit fields with such defaults
        // (CU4).
        let is_empty = |default: &Value| default.as_object().is_some_and(Map::is_empty);
        let allowed = |default: &&Value| in_enum(default) && !is_empty(default);
        if let Some(default) = field.default.as_ref().filter(allowed) {
            schema["default"] = default.clone();
        }
        schema
    }

    /// Removes the description of a type if it equals that of a field, because `kubectl explain`
    /// prints both.
    fn tell_once(&mut self, field: &Field, package: &str) {
        let Some(definition) = &field.node.definition else { return };
        let definition = self.definitions.get_mut(&full_name(definition, package));
        if let Some(Value::Object(definition)) = definition
            && definition.get("description").and_then(Value::as_str) == Some(&*field.description)
        {
            definition.remove("description");
        }
    }

    fn body(&mut self, node: &Node, package: &str) -> Value {
        let mut schema = match &node.shape {
            Shape::Any => json!({mark::PRESERVE_UNKNOWN: true}),
            Shape::Object(object) => self.object(object, package),
            Shape::Array(array) => self.array(array, package),
            Shape::Text(text) => with_text(json!({"type": "string"}), text),
            Shape::Integer(integer) => {
                let format = if integer.width == Width::Int32 { "int32" } else { "int64" };
                with_bounds(json!({"type": "integer", "format": format}), &integer.bounds)
            }
            Shape::Number(bounds) => with_bounds(json!({"type": "number", "format": "double"}), bounds),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::IntOrString(text) if self.dialect == Dialect::V3 => {
                let either = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], mark::INT_OR_STRING: true});
                with_text(either, text)
            }
            Shape::IntOrString(_) => json!({mark::INT_OR_STRING: true}),
        };
        if !node.description.is_empty() {
            schema["description"] = (*node.description).into();
        }
        if !node.one_of.is_empty() {
            schema["enum"] = node.one_of.iter().cloned().collect();
        }
        match (node.nullable, self.dialect) {
            (true, Dialect::V3) => schema["nullable"] = true.into(),
            (true, Dialect::V2) => {
                schema.as_object_mut().map(|schema| schema.remove("type"));
            }
            _ => {}
        }
        schema
    }

    fn object(&mut self, object: &Object, package: &str) -> Value {
        let mut schema = json!({"type": "object"});
        let mut properties = Map::new();
        // An embedded object's `apiVersion`, `kind` and `metadata` are implied by its extension.
        let implied = |name: &str| object.embedded && ["apiVersion", "kind", "metadata"].contains(&name);
        for field in object.fields.iter().filter(|field| !implied(&field.name)) {
            properties.insert((*field.name).to_owned(), self.field(field, package));
        }
        let required = object.fields.iter().filter(|field| field.required && !implied(&field.name));
        let required: Vec<&str> = required.map(|field| &*field.name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if let Some(values) = &object.values {
            schema["additionalProperties"] = self.node(values, package);
        }
        for (set, name) in [(object.preserve_unknown, mark::PRESERVE_UNKNOWN), (object.embedded, mark::EMBEDDED)] {
            if set {
                schema[name] = true.into();
            }
        }
        if object.atomic {
            schema[mark::MAP_TYPE] = "atomic".into();
        }
        if !object.rules.is_empty() {
            schema[mark::RULES] = object.rules.to_vec().into();
        }
        schema
    }

    fn array(&mut self, array: &Array, package: &str) -> Value {
        let mut schema = json!({"type": "array", "items": self.node(&array.items, package)});
        if let Some(min) = array.min_items {
            schema["minItems"] = min.into();
        }
        if let Some(max) = array.max_items {
            schema["maxItems"] = max.into();
        }
        if array.unique_items {
            schema["uniqueItems"] = true.into();
        }
        match &array.list_type {
            None => {}
            Some(ListType::Atomic) => schema[mark::LIST_TYPE] = "atomic".into(),
            Some(ListType::Set) => schema[mark::LIST_TYPE] = "set".into(),
            Some(ListType::Map(keys)) => {
                schema[mark::LIST_TYPE] = "map".into();
                schema[mark::LIST_MAP_KEYS] = keys.iter().map(|key| Value::from(&**key)).collect();
            }
        }
        schema
    }
}

/// Returns the full name of a kind's definition (OA12).
pub fn object_name(row: &ResourceKind) -> String {
    format!("{}.{}", row.openapi_package, row.kind)
}

/// Completes a name by the package. A name with dots is already complete.
fn full_name(definition: &str, package: &str) -> String {
    if definition.contains('.') { definition.to_owned() } else { format!("{package}.{definition}") }
}

fn with_text(mut schema: Value, text: &Text) -> Value {
    match &text.format {
        None => {}
        Some(Format::DateTime) => schema["format"] = "date-time".into(),
        Some(Format::Other(name)) => schema["format"] = (**name).into(),
    }
    if let Some(min) = text.min_length {
        schema["minLength"] = min.into();
    }
    if let Some(max) = text.max_length {
        schema["maxLength"] = max.into();
    }
    if let Some(pattern) = &text.pattern {
        schema["pattern"] = pattern.as_str().into();
    }
    schema
}

fn with_bounds(mut schema: Value, bounds: &Bounds) -> Value {
    let number = |value: f64| if value.fract() == 0.0 { Value::from(value as i64) } else { Value::from(value) };
    if let Some(minimum) = bounds.minimum {
        schema["minimum"] = number(minimum);
    }
    if bounds.exclusive_minimum {
        schema["exclusiveMinimum"] = true.into();
    }
    if let Some(maximum) = bounds.maximum {
        schema["maximum"] = number(maximum);
    }
    if bounds.exclusive_maximum {
        schema["exclusiveMaximum"] = true.into();
    }
    schema
}
