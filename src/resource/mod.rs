//! A kind as one type-erased row. Routes, discovery, OpenAPI, Table columns, storage keys and
//! validation are derived from rows; nothing else switches on a kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::k8s::protobuf::Message;
use crate::k8s::{Extract, FieldErrors, GroupResource, Members, Object, Time};

pub mod schema;
mod typed;

pub use schema::Schema;
pub use typed::Comparison;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A printer column (TA2). `path` is kubectl's JSONPath
/// (`.status.conditions[?(@.type=="Ready")].status`). Two paths with a slash between them print a
/// kind and a name as kubectl writes them: `deployment/nginx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    pub path: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
    pub description: &'static str,
}

/// A column of the table that shows the kind in SQL. Every table has the namespace, the name, the
/// revision, the times and the whole object anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlColumn {
    /// A plain SQL name: lower-case letters, digits and underscores.
    pub name: &'static str,
    pub value: Extract,
}

impl SqlColumn {
    pub const fn field(name: &'static str, path: Members) -> SqlColumn {
        SqlColumn { name, value: Extract::Field(path) }
    }

    pub const fn condition(name: &'static str, kind: &'static str) -> SqlColumn {
        SqlColumn { name, value: Extract::Condition(kind) }
    }
}

/// What becomes of an object of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    Stored,
    /// Acts on create and is never stored (C1, DI6, VB24).
    Action,
}

/// A kind, implemented once per kind by its typed form.
pub trait Resource: Serialize + DeserializeOwned + utoipa::ToSchema + Send + Sync + 'static {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
    const SINGULAR: &'static str;
    const SHORT_NAMES: &'static [&'static str] = &[];
    const CATEGORIES: &'static [&'static str] = &[];
    const SCOPE: Scope;
    const LIFETIME: Lifetime = Lifetime::Stored;
    /// Whether `/status` is a subresource of its own (ST1-ST8).
    const STATUS_SUBRESOURCE: bool;
    const COLUMNS: &'static [Column] = &[];
    /// What people ask about most, as columns of the kind's SQL table.
    const SQL_COLUMNS: &'static [SqlColumn] = &[];
    /// Whether Tables show the name first; otherwise only with `-o wide`, for names that say
    /// nothing.
    const NAME_IS_SHOWN: bool = true;
    /// Fields that a field selector may name beside the object's name and namespace, as paths:
    /// `reason`, `involvedObject.kind` (SE3).
    const SELECTABLE_FIELDS: &'static [&'static str] = &[];
    /// Full name of the Go package upstream, reversed for OpenAPI definition names (OA12), for
    /// example `com.github.karmada-io.karmada.pkg.apis.work.v1alpha2`.
    const OPENAPI_PACKAGE: &'static str;

    /// How objects are read in Kubernetes' binary form, for kinds that stock clients send in no
    /// other.
    const PROTOBUF: Option<&'static Message> = None;

    /// Puts right what people are known to get wrong, before unknown fields are looked for, and
    /// says so in one sentence for each change: a warning, or under strict field validation the
    /// reason to refuse the object (mission C15). Runs on what a client sent, never on what Ballast
    /// writes itself.
    fn mend(_object: &mut Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    /// Defaults that a schema cannot say. Runs after pruning and schema defaults, before
    /// validation, when `metadata` already has its namespace and, for a new object, its uid.
    fn prepare(_object: &mut Map<String, Value>, _given: &Given<'_>) {}

    /// What is permitted and probably not meant, in a sentence each: warnings, whatever the field
    /// validation.
    fn advise(_object: &Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    /// Rules that a schema cannot say. Runs on the decoded object, after the schema found no fault.
    fn validate(_object: &Self, _old: Option<&Self>) -> FieldErrors {
        FieldErrors::default()
    }
}

/// What `prepare` may know beside the object itself.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The stored object, on an update.
    pub old: Option<&'a Map<String, Value>>,
    pub now: Time,
}

type Mend = fn(&mut Map<String, Value>) -> Vec<String>;
type Prepare = fn(&mut Map<String, Value>, &Given<'_>);
type Advise = fn(&Map<String, Value>) -> Vec<String>;
type Validate = fn(&Map<String, Value>, Option<&Map<String, Value>>) -> FieldErrors;

/// One row: a `Resource` with its type erased. A kind that is served in several versions has a row
/// for each; the first is the version that is stored.
#[derive(Clone)]
pub struct ResourceKind {
    pub group: &'static str,
    pub version: &'static str,
    pub stored_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub scope: Scope,
    pub lifetime: Lifetime,
    pub status_subresource: bool,
    pub columns: &'static [Column],
    pub sql_columns: &'static [SqlColumn],
    pub name_is_shown: bool,
    pub selectable_fields: &'static [&'static str],
    pub openapi_package: &'static str,
    pub protobuf: Option<&'static Message>,
    /// `<plural>.<group>`, without a dot in the core group.
    pub resource: GroupResource,
    pub schema: Arc<Schema>,
    pub mend: Mend,
    pub prepare: Prepare,
    pub advise: Advise,
    pub validate: Validate,
}

impl ResourceKind {
    /// Lowers the schema of `T`: milliseconds, once per kind at start-up.
    pub fn of<T: Resource>() -> ResourceKind {
        ResourceKind {
            group: T::GROUP,
            version: T::VERSION,
            stored_version: T::VERSION,
            kind: T::KIND,
            plural: T::PLURAL,
            singular: T::SINGULAR,
            short_names: T::SHORT_NAMES,
            categories: T::CATEGORIES,
            scope: T::SCOPE,
            lifetime: T::LIFETIME,
            status_subresource: T::STATUS_SUBRESOURCE,
            columns: T::COLUMNS,
            sql_columns: T::SQL_COLUMNS,
            name_is_shown: T::NAME_IS_SHOWN,
            selectable_fields: T::SELECTABLE_FIELDS,
            openapi_package: T::OPENAPI_PACKAGE,
            protobuf: T::PROTOBUF,
            resource: GroupResource::intern(format!("{}.{}", T::PLURAL, T::GROUP).trim_end_matches('.')),
            schema: Arc::new(Schema::of::<T>()),
            mend: T::mend,
            prepare: T::prepare,
            advise: T::advise,
            validate: validate::<T>,
        }
    }

    /// `work.karmada.io/v1alpha2`; `v1` in the core group.
    pub fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// Where the URLs of its group and version begin: `apis/work.karmada.io/v1alpha2`, `api/v1`.
    pub fn root(&self) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("{root}/{}", self.api_version())
    }

    /// The row of another version, whose objects differ in `apiVersion` and in nothing else.
    #[must_use]
    pub fn served_as(&self, version: &'static str, openapi_package: &'static str) -> ResourceKind {
        ResourceKind { version, openapi_package, ..self.clone() }
    }

    pub fn is_stored_version(&self) -> bool {
        self.version == self.stored_version
    }

    pub fn stored_api_version(&self) -> String {
        group_version(self.group, self.stored_version)
    }

    /// Writes stored objects in this version.
    pub fn wording(&self) -> Wording {
        let wanted = self.api_version();
        Wording { stored: (!self.is_stored_version()).then(|| self.stored_api_version()), wanted }
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// How stored objects are worded in the version that was asked for.
#[derive(Clone, Debug)]
pub struct Wording {
    /// The stored `apiVersion`; None if it is the one that is wanted.
    stored: Option<String>,
    wanted: String,
}

impl Wording {
    /// The object's bytes are sent as they are.
    pub fn is_verbatim(&self) -> bool {
        self.stored.is_none()
    }

    /// Adds the object.
    pub fn write(&self, object: &Object, out: &mut Vec<u8>) {
        match self.is_verbatim() {
            true => object.text.write(out),
            false => out.extend_from_slice(&self.of(object)),
        }
    }

    pub fn of(&self, object: &Object) -> Bytes {
        let whole = object.text.whole();
        let Some(stored) = &self.stored else { return whole };
        // Objects are written with their members in order, and `apiVersion` comes first.
        let head = |version: &str| format!(r#"{{"apiVersion":"{version}""#);
        if let Some(rest) = whole.strip_prefix(head(stored).as_bytes()) {
            return [head(&self.wanted).as_bytes(), rest].concat().into();
        }
        let Ok(mut tree) = serde_json::from_slice::<Map<String, Value>>(&whole) else { return whole };
        tree.insert("apiVersion".to_owned(), Value::from(self.wanted.as_str()));
        serde_json::to_vec(&tree).map_or(whole, Bytes::from)
    }
}

/// Decodes and asks the type. An object that its own schema let through but its type cannot hold is
/// a fault of ours, yet one that the caller can see and work around: it is reported on the object's
/// root.
fn validate<T: Resource>(object: &Map<String, Value>, old: Option<&Map<String, Value>>) -> FieldErrors {
    let typed = match T::deserialize(object) {
        Ok(typed) => typed,
        Err(error) => return FieldErrors::undecodable(&error),
    };
    // An old object that no longer decodes must not stop the update that mends it.
    let old = old.and_then(|old| T::deserialize(old).ok());
    T::validate(&typed, old.as_ref())
}

/// All rows, found by what a URL names.
pub struct Kinds {
    rows: Vec<Arc<ResourceKind>>,
    by_path: BTreeMap<(&'static str, &'static str, &'static str), usize>,
}

impl Kinds {
    pub fn new(rows: Vec<ResourceKind>) -> Kinds {
        let rows: Vec<Arc<ResourceKind>> = rows.into_iter().map(Arc::new).collect();
        let by_path = rows.iter().enumerate().map(|(i, row)| ((row.group, row.version, row.plural), i)).collect();
        Kinds { rows, by_path }
    }

    /// In the order of `api::kinds()`, which is the order of discovery.
    pub fn rows(&self) -> &[Arc<ResourceKind>] {
        &self.rows
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceKind>> {
        // The map's key is 'static; a shorter-lived key may still be compared with it.
        let by_path: &BTreeMap<(&str, &str, &str), usize> = &self.by_path;
        by_path.get(&(group, version, plural)).map(|&row| &self.rows[row])
    }
}
