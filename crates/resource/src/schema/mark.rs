//! Types that exist only to be named in `#[schema(value_type = …)]`, for semantics that utoipa
//! cannot express.
//!
//! utoipa silently drops `extensions(…)` from lists, maps and references, so types express the list
//! and map semantics of Kubernetes:
//!
//! ```ignore
//! #[schema(value_type = AtomicList<String>)]           values: Vec<String>
//! #[schema(value_type = MapList<Condition>)]           conditions: Vec<Condition> // Keyed
//! #[schema(value_type = Option<Atomic<LabelSelector>>)] label_selector: Option<LabelSelector>
//! #[schema(value_type = BTreeMap<String, Quantity>)]   capacity: BTreeMap<String, String>
//! #[schema(value_type = Option<Opaque>)]               status: Option<Map<String, Value>>
//! #[schema(value_type = Option<DateTime>)]             finish_time: Option<Time>
//! ```
//!
//! `Option` in the `value_type` keeps a field optional; a list or map is optional through
//! `#[serde(default)]`. utoipa ignores `min_items` and `max_items` on fields of these types, so
//! none of them supports these bounds.

use std::marker::PhantomData;

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{AllOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, Ref, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

pub const LIST_TYPE: &str = "x-kubernetes-list-type";
pub const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
pub const MAP_TYPE: &str = "x-kubernetes-map-type";
pub const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
pub const RULES: &str = "x-kubernetes-validations";
pub const EMBEDDED: &str = "x-kubernetes-embedded-resource";
pub const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Ballast's own extension, which is never published: `nullable` of OpenAPI 3.0. An `Option` alone
/// is optional, not nullable.
pub const NULLABLE: &str = "x-ballast-nullable";

/// A list that is replaced as a whole.
pub struct AtomicList<T>(PhantomData<T>);

/// A list of scalars without duplicates.
pub struct SetList<T>(PhantomData<T>);

/// A list that identifies its items by the values of `T::KEYS`.
pub struct MapList<T>(PhantomData<T>);

/// The members that identify the items of a `MapList`.
pub trait Keyed {
    const KEYS: &'static [&'static str];
}

/// An object that is replaced as a whole.
pub struct Atomic<T>(PhantomData<T>);

/// An object that never changes. The rule is published, and the code of the kind enforces it.
pub struct Immutable<T>(PhantomData<T>);

/// A value that may be null, where null has its own meaning.
pub struct Nullable<T>(PhantomData<T>);

/// An object with arbitrary fields, which are kept.
pub struct Opaque;

/// A whole object of another kind. `apiVersion` and `kind` are required, and all other fields are
/// kept.
pub struct Embedded;

/// RFC 3339, in whole seconds.
pub struct DateTime;

pub struct IntOrString;

/// `resource.Quantity`: `500m`, `2Gi`, 4.
pub struct Quantity;

const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
);

/// Implements the schema of a generic type. This is the only use of utoipa's hidden
/// `ComposeSchema`. The derive macro expands a field of a type with arguments to that trait, and
/// utoipa has no public equivalent (decision 0005).
#[macro_export]
macro_rules! generic_schema {
    ($mark:ident<$t:ident $(: $bound:ident)?> => $schema:expr) => {
        impl<$t: utoipa::ToSchema $(+ $bound)?> utoipa::__dev::ComposeSchema for $mark<$t> {
            fn compose(
                _: Vec<utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>>,
            ) -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $schema
            }
        }

        impl<$t: utoipa::ToSchema $(+ $bound)?> utoipa::ToSchema for $mark<$t> {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($mark).into()
            }

            fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
                schemas.push(($t::name().into_owned(), <$t as utoipa::PartialSchema>::schema()));
                $t::schemas(schemas);
            }
        }
    };
}
pub use generic_schema;

generic_schema!(AtomicList<T> => list::<T>(extensions([(LIST_TYPE, json!("atomic"))])));
generic_schema!(SetList<T> => list::<T>(extensions([(LIST_TYPE, json!("set"))])));
generic_schema!(
    MapList<T: Keyed> => list::<T>(extensions([(LIST_TYPE, json!("map")), (LIST_MAP_KEYS, json!(T::KEYS))]))
);
generic_schema!(Atomic<T> => marked::<T>(extensions([(MAP_TYPE, json!("atomic"))])));
generic_schema!(Immutable<T> => marked::<T>(extensions([(
    RULES,
    json!([{"message": format!("{} is immutable", T::name()), "rule": "self == oldSelf"}]),
)])));
generic_schema!(Nullable<T> => marked::<T>(extensions([(NULLABLE, json!(true))])));

impl PartialSchema for Opaque {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().extensions(Some(extensions([(PRESERVE_UNKNOWN, json!(true))]))).into()
    }
}

impl PartialSchema for Embedded {
    fn schema() -> RefOr<Schema> {
        let marks = extensions([(EMBEDDED, json!(true)), (PRESERVE_UNKNOWN, json!(true))]);
        ObjectBuilder::new().extensions(Some(marks)).into()
    }
}

impl PartialSchema for DateTime {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl PartialSchema for IntOrString {
    fn schema() -> RefOr<Schema> {
        let marks = extensions([(INT_OR_STRING, json!(true))]);
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).extensions(Some(marks)).into()
    }
}

impl PartialSchema for Quantity {
    fn schema() -> RefOr<Schema> {
        let marks = extensions([(INT_OR_STRING, json!(true))]);
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).pattern(Some(QUANTITY)).extensions(Some(marks)).into()
    }
}

impl ToSchema for Opaque {}
impl ToSchema for Embedded {}
impl ToSchema for DateTime {}
impl ToSchema for IntOrString {}
impl ToSchema for Quantity {}

fn extensions<const N: usize>(marks: [(&str, Value); N]) -> Extensions {
    marks.into_iter().collect()
}

fn list<T: ToSchema>(marks: Extensions) -> RefOr<Schema> {
    ArrayBuilder::new().items(by_name::<T>()).extensions(Some(marks)).into()
}

fn marked<T: ToSchema>(marks: Extensions) -> RefOr<Schema> {
    AllOfBuilder::new().item(by_name::<T>()).extensions(Some(marks)).into()
}

/// Returns the schema of a map from text to `V`.
pub fn map_to<V: ToSchema>() -> RefOr<Schema> {
    ObjectBuilder::new().additional_properties(Some(by_name::<V>())).into()
}

/// Returns a reference if the type is an object with fields, so that it is published under its
/// name. Otherwise returns the schema itself.
fn by_name<T: ToSchema>() -> RefOr<Schema> {
    match T::schema() {
        RefOr::T(Schema::Object(object)) if object.properties.is_empty() => RefOr::T(Schema::Object(object)),
        _ => RefOr::Ref(Ref::from_schema_name(T::name())),
    }
}
