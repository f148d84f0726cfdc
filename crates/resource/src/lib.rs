//! Type-erased descriptions of the kinds of the API. Routes, discovery, OpenAPI, Table columns, SQL
//! columns, storage keys and validation are all derived from them. No other code depends on the
//! name of a kind.
//!
//! Each module uses only modules above it in this list.
//!
//! - `schema`: the structural schema of a kind, derived from its Rust type
//! - `typed`: values and their fields, for server-side apply

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use ballast_k8s::protobuf::Message;
use ballast_k8s::{FieldErrors, GroupResource, JsonColumn, MemberPath, Object, Time};

pub mod schema;
mod typed;

pub use schema::Schema;
pub use typed::Comparison;

/// Whether objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A printer column (TA2). `path` is kubectl's JSONPath
/// (`.status.conditions[?(@.type=="Ready")].status`), and a cell shows its first match. Four forms
/// extend kubectl's syntax:
///
/// - `.involvedObject.kind/.involvedObject.name`: two paths with a slash show a kind and a name as
///   kubectl writes them, `deployment/nginx`.
/// - `.spec.clusters[*].name:.replicas`: a list of items with a name and a number,
///   `member1:2,member2:2`. An item without the number, or with 0, shows its name alone.
/// - `#.status.list[?(@.result=="Failed")]`: the number of matching values.
/// - `%missing`: a value that the server computes under this name (`registry::Computed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    pub path: &'static str,
    /// 0: always shown. 1: shown with `-o wide`.
    pub priority: i32,
    pub description: &'static str,
}

/// A column of the kind's SQL table. Every table has columns for the namespace, the name, the
/// revision, the times and the whole object already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlColumn {
    /// A plain SQL name: lower-case letters, digits and underscores.
    pub name: &'static str,
    pub value: JsonColumn,
}

impl SqlColumn {
    /// Returns a column with the value at a path.
    pub const fn field(name: &'static str, path: MemberPath) -> SqlColumn {
        SqlColumn { name, value: JsonColumn::Field(path) }
    }

    /// Returns a column with the status of the condition of this type.
    pub const fn condition(name: &'static str, kind: &'static str) -> SqlColumn {
        SqlColumn { name, value: JsonColumn::Condition(kind) }
    }
}

/// Whether objects of a kind are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    Stored,
    /// The kind acts when an object is created, and stores nothing (C1, DI6, VB24).
    Action,
}

/// The verbs in the order in which Kubernetes lists them for custom resources.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const READ_VERBS: &[&str] = &["deletecollection", "get", "list", "watch"];
const ACTION_VERBS: &[&str] = &["create"];

/// A kind of the API, implemented by its typed form.
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
    /// Whether creating an object is a query that changes nothing. Every replica serves it, not
    /// only the leader (RE6).
    const ONLY_ASKS: bool = false;
    /// Whether clients write objects of the kind. If not, only workers do. Clients may still delete
    /// a collection of them, to clean up.
    const WRITTEN_BY_CLIENTS: bool = true;
    /// Whether the kind has the subresource `/status` (ST1-ST8).
    const STATUS_SUBRESOURCE: bool;
    /// The kind that discovery reports for the subresource `/proxy`, which forwards requests to the
    /// system that the object represents (CP1). `None`: the kind has no such subresource.
    const PROXY: Option<&'static str> = None;
    const COLUMNS: &'static [Column] = &[];
    /// The fields that users query most, as columns of the kind's SQL table.
    const SQL_COLUMNS: &'static [SqlColumn] = &[];
    /// Whether Tables show the name. If not, they show it with `-o wide` only, for names that mean
    /// nothing to users.
    const NAME_IS_SHOWN: bool = true;
    /// The fields that a field selector may use in addition to the object's name and namespace, as
    /// paths: `reason`, `involvedObject.kind` (SE3).
    const SELECTABLE_FIELDS: &'static [&'static str] = &[];
    /// The full name of upstream's Go package, reversed as in OpenAPI definition names (OA12), for
    /// example `com.github.karmada-io.karmada.pkg.apis.work.v1alpha2`.
    const OPENAPI_PACKAGE: &'static str;

    /// The fields of objects in the protobuf encoding of Kubernetes, for kinds that stock clients
    /// send in no other encoding.
    const PROTOBUF: Option<&'static Message> = None;

    /// Returns the name in keys: `clusters.cluster.karmada.io`, or the plural alone in the core
    /// group.
    fn resource() -> GroupResource {
        GroupResource::intern(format!("{}.{}", Self::PLURAL, Self::GROUP).trim_end_matches('.'))
    }

    /// Corrects known mistakes of users, before unknown fields are pruned. Returns one sentence for
    /// each change: a warning, or under strict field validation the reason to refuse the object
    /// (C15). Runs on bodies of clients only, never on objects that Ballast writes itself.
    fn mend(_object: &mut Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    /// Finds faults that are visible only in the body of a client, because pruning removes them.
    /// Runs on bodies of clients after `mend` and before pruning, whatever the field validation.
    fn inspect(_schema: &Schema, _object: &Map<String, Value>) -> Inspection {
        Inspection::default()
    }

    /// Restores members of `before` that a client dropped because it read the object without
    /// knowing every field and wrote back the rest. Runs when a client replaces a whole object, and
    /// after external webhooks.
    fn restore(_object: &mut Map<String, Value>, _before: &Map<String, Value>) {}

    /// Sets defaults that a schema cannot express. Runs after pruning and schema defaults and
    /// before validation. At that point `metadata` has its namespace and, for a new object, its
    /// uid.
    fn prepare(_object: &mut Map<String, Value>, _given: &Given<'_>) {}

    /// Warns about content that is allowed but probably a mistake, in one sentence each, whatever
    /// the field validation.
    fn advise(_object: &Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    /// Checks rules that a schema cannot express. Runs on the decoded object, after the schema has
    /// found no fault.
    fn validate(_object: &Self, _old: Option<&Self>) -> FieldErrors {
        FieldErrors::default()
    }
}

/// The context of `prepare`. 174 Whether a client of the API wrote the object, rather than a
/// component of Ballast.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The stored object, on an update.
    pub old: Option<&'a Map<String, Value>>,
    pub now: Time,
    /// Whether a client of the API wrote the object, and not a part of Ballast.
    pub is_by_client: bool,
}

/// The findings of a kind in the body of a client.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Faults for which the object is refused, unless the stored object has the same ones.
    pub errors: FieldErrors,
    pub warnings: Vec<String>,
}

impl Inspection {
    /// Removes the findings that `known`, the inspection of the stored object, contains as well.
    #[must_use]
    pub fn without(self, known: &Inspection) -> Inspection {
        let warnings = self.warnings.into_iter().filter(|warning| !known.warnings.contains(warning)).collect();
        Inspection { errors: self.errors.without(&known.errors), warnings }
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }
}

type Mend = fn(&mut Map<String, Value>) -> Vec<String>;
type Inspect = fn(&Schema, &Map<String, Value>) -> Inspection;
type Restore = fn(&mut Map<String, Value>, &Map<String, Value>);
type Prepare = fn(&mut Map<String, Value>, &Given<'_>);
type Advise = fn(&Map<String, Value>) -> Vec<String>;
type Validate = fn(&Map<String, Value>, Option<&Map<String, Value>>) -> FieldErrors;

/// A `Resource` with its type erased. A kind that is served in several versions has one for each of
/// them; the first version is the stored one.
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
    pub only_asks: bool,
    pub written_by_clients: bool,
    pub status_subresource: bool,
    pub proxy: Option<&'static str>,
    pub columns: &'static [Column],
    pub sql_columns: &'static [SqlColumn],
    pub name_is_shown: bool,
    pub selectable_fields: &'static [&'static str],
    pub openapi_package: &'static str,
    pub protobuf: Option<&'static Message>,
    /// `<plural>.<group>`; the plural alone in the core group.
    pub resource: GroupResource,
    pub schema: Arc<Schema>,
    pub mend: Mend,
    pub inspect: Inspect,
    pub restore: Restore,
    pub prepare: Prepare,
    pub advise: Advise,
    pub validate: Validate,
}

impl ResourceKind {
    /// Builds the description of `T`. This lowers its schema, which takes milliseconds, once per
    /// kind at start-up.
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
            only_asks: T::ONLY_ASKS,
            written_by_clients: T::WRITTEN_BY_CLIENTS,
            status_subresource: T::STATUS_SUBRESOURCE,
            proxy: T::PROXY,
            columns: T::COLUMNS,
            sql_columns: T::SQL_COLUMNS,
            name_is_shown: T::NAME_IS_SHOWN,
            selectable_fields: T::SELECTABLE_FIELDS,
            openapi_package: T::OPENAPI_PACKAGE,
            protobuf: T::PROTOBUF,
            resource: T::resource(),
            schema: Arc::new(Schema::of::<T>()),
            mend: T::mend,
            inspect: T::inspect,
            restore: T::restore,
            prepare: T::prepare,
            advise: T::advise,
            validate: validate::<T>,
        }
    }

    /// Returns the API version: `work.karmada.io/v1alpha2`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// Returns the path prefix of the group and version: `apis/work.karmada.io/v1alpha2`, `api/v1`.
    pub fn root(&self) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("{root}/{}", self.api_version())
    }

    /// Returns the same kind in another version. Its objects differ in `apiVersion` only.
    #[must_use]
    pub fn served_as(&self, version: &'static str, openapi_package: &'static str) -> ResourceKind {
        ResourceKind { version, openapi_package, ..self.clone() }
    }

    /// Returns whether objects are stored in this version.
    pub fn is_stored_version(&self) -> bool {
        self.version == self.stored_version
    }

    /// Returns the `apiVersion` of stored objects.
    pub fn stored_api_version(&self) -> String {
        group_version(self.group, self.stored_version)
    }

    /// Returns the conversion of stored objects to this version.
    pub fn wording(&self) -> Wording {
        let wanted = self.api_version();
        Wording { stored: (!self.is_stored_version()).then(|| self.stored_api_version()), wanted }
    }

    /// Returns the verbs that the kind supports.
    pub fn verbs(&self) -> &'static [&'static str] {
        match self.lifetime {
            Lifetime::Action => ACTION_VERBS,
            Lifetime::Stored if self.written_by_clients => VERBS,
            Lifetime::Stored => READ_VERBS,
        }
    }

    /// Returns whether this is a kind of Kubernetes itself. Its typed clients leave out
    /// `apiVersion` and `kind`.
    pub fn is_built_in(&self) -> bool {
        self.group.is_empty() || self.group.ends_with(".k8s.io")
    }

    /// Adds the `apiVersion` and `kind` that clients of built-in kinds leave out, because the URL
    /// specifies them (CU3).
    pub fn fill_type_meta(&self, object: &mut Map<String, Value>) {
        let members = [("kind", self.kind.to_owned()), ("apiVersion", self.api_version())];
        for (name, text) in members.into_iter().filter(|_| self.is_built_in()) {
            if object.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                object.insert(name.to_owned(), text.into());
            }
        }
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

/// The conversion of stored objects to the requested version.
#[derive(Clone, Debug)]
pub struct Wording {
    /// The stored `apiVersion`. `None` if it is the requested one.
    stored: Option<String>,
    wanted: String,
}

impl Wording {
    /// Returns whether objects are sent as they are stored.
    pub fn is_verbatim(&self) -> bool {
        self.stored.is_none()
    }

    /// Appends the object to `out`.
    pub fn write(&self, object: &Object, out: &mut Vec<u8>) {
        match self.is_verbatim() {
            true => object.text.write(out),
            false => out.extend_from_slice(&self.of(object)),
        }
    }

    /// Returns the text of an object in the requested version.
    pub fn of(&self, object: &Object) -> Bytes {
        let whole = object.text.whole();
        let Some(stored) = &self.stored else { return whole };
        // The members of stored objects are sorted, so `apiVersion` comes first.
        let head = |version: &str| format!(r#"{{"apiVersion":"{version}""#);
        if let Some(rest) = whole.strip_prefix(head(stored).as_bytes()) {
            return [head(&self.wanted).as_bytes(), rest].concat().into();
        }
        let Ok(mut tree) = serde_json::from_slice::<Map<String, Value>>(&whole) else { return whole };
        tree.insert("apiVersion".to_owned(), Value::from(self.wanted.as_str()));
        serde_json::to_vec(&tree).map_or(whole, Bytes::from)
    }
}

/// Decodes the object and checks the rules of its type. If the schema accepted an object that the
/// type cannot decode, that is a bug of Ballast. It is still reported as a fault of the object's
/// root, so that the client sees it and can work around it.
fn validate<T: Resource>(object: &Map<String, Value>, old: Option<&Map<String, Value>>) -> FieldErrors {
    let typed = match T::deserialize(object) {
        Ok(typed) => typed,
        Err(error) => return FieldErrors::undecodable(&error),
    };
    // A stored object that can no longer be decoded must not block the update that repairs it.
    let old = old.and_then(|old| T::deserialize(old).ok());
    T::validate(&typed, old.as_ref())
}

/// All kinds, indexed by the group, version and plural of a URL.
pub struct Kinds {
    rows: Vec<Arc<ResourceKind>>,
    by_path: BTreeMap<(&'static str, &'static str, &'static str), usize>,
}

impl Kinds {
    /// Indexes the kinds and keeps their order.
    pub fn new(rows: Vec<ResourceKind>) -> Kinds {
        let rows: Vec<Arc<ResourceKind>> = rows.into_iter().map(Arc::new).collect();
        let by_path = rows.iter().enumerate().map(|(i, row)| ((row.group, row.version, row.plural), i)).collect();
        Kinds { rows, by_path }
    }

    /// Returns all kinds in the order of `api::kinds()`, which is the order of discovery.
    pub fn rows(&self) -> &[Arc<ResourceKind>] {
        &self.rows
    }

    /// Returns the kind at a URL.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceKind>> {
        // The keys of the map are `'static`; this coercion allows lookups with shorter lifetimes.
        let by_path: &BTreeMap<(&str, &str, &str), usize> = &self.by_path;
        by_path.get(&(group, version, plural)).map(|&row| &self.rows[row])
    }
}
