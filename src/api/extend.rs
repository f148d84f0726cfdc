//! Schemas built by hand, for the few types that need what utoipa's attributes cannot say: extensions on
//! lists, and on objects as a whole (`x-kubernetes-list-type`, `x-kubernetes-map-type`).
//!
//! utoipa hands the attributes of a list on to its items, and drops extensions on references.

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
use utoipa::openapi::{Ref, RefOr, Schema};

/// A definition that others refer to, as utoipa collects them.
pub type Named = (String, RefOr<Schema>);

/// The schema of `T` for use in a property: inline for what has no name of its own, else a reference.
pub fn of<T: ToSchema>(description: &str) -> RefOr<Schema> {
    match T::schema() {
        RefOr::T(Schema::Object(mut object)) if !is_definition::<T>() => {
            object.description = Some(description.to_owned());
            RefOr::T(Schema::Object(object))
        }
        _ => {
            let mut reference = Ref::from_schema_name(T::name());
            description.clone_into(&mut reference.description);
            RefOr::Ref(reference)
        }
    }
}

/// Adds `T` and what it refers to.
pub fn refer_to<T: ToSchema>(schemas: &mut Vec<Named>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// Primitives and maps of them are written in place; everything else has a definition.
fn is_definition<T: ToSchema>() -> bool {
    let name = T::name();
    !matches!(name.as_ref(), "String" | "i64" | "i32" | "bool" | "BTreeMap")
}

pub struct List {
    list: ArrayBuilder,
    extensions: Extensions,
}

pub fn list_of<T: ToSchema>() -> List {
    let items = if is_definition::<T>() { RefOr::Ref(Ref::from_schema_name(T::name())) } else { T::schema() };
    List { list: ArrayBuilder::new().items(items), extensions: Extensions::default() }
}

impl List {
    #[must_use]
    pub fn description(mut self, text: &str) -> List {
        self.list = self.list.description(Some(text));
        self
    }

    #[must_use]
    pub fn list_type(self, kind: &str) -> List {
        self.extension("x-kubernetes-list-type", kind)
    }

    #[must_use]
    pub fn extension(mut self, name: &str, value: impl Into<Value>) -> List {
        self.extensions.insert(name.to_owned(), value.into());
        self
    }
}

impl From<List> for RefOr<Schema> {
    fn from(list: List) -> RefOr<Schema> {
        list.list.extensions(Some(list.extensions)).into()
    }
}

pub struct Object {
    object: ObjectBuilder,
}

pub fn object(description: &str) -> Object {
    Object { object: ObjectBuilder::new().description(Some(description)) }
}

impl Object {
    #[must_use]
    pub fn map_type(mut self, kind: &str) -> Object {
        let extensions = Extensions::builder().add("x-kubernetes-map-type", kind).build();
        self.object = self.object.extensions(Some(extensions));
        self
    }

    #[must_use]
    pub fn property(mut self, name: &str, schema: impl Into<RefOr<Schema>>) -> Object {
        self.object = self.object.property(name, schema);
        self
    }

    #[must_use]
    pub fn required(mut self, name: &str, schema: impl Into<RefOr<Schema>>) -> Object {
        self.object = self.object.property(name, schema).required(name);
        self
    }

    pub fn build(self) -> RefOr<Schema> {
        self.object.into()
    }
}
