//! The operations of the API, derived from the rows: paths, methods, parameters, bodies and
//! responses. The names are those of Kubernetes (OA8, OA9, OA10, OA13, OA17).

use ballast_resource::schema::meta;
use ballast_resource::{Lifetime, ResourceKind};

/// One path with its methods.
pub struct Endpoint<'a> {
    pub path: String,
    /// The parameters that all methods share.
    pub parameters: Vec<&'static Parameter>,
    pub operations: Vec<Operation<'a>>,
}

pub struct Operation<'a> {
    /// In lower case.
    pub method: &'static str,
    pub id: String,
    pub tag: String,
    pub description: String,
    /// `x-kubernetes-action`. `None` for discovery.
    pub action: Option<&'static str>,
    /// The kind that the operation acts on.
    pub row: Option<&'a ResourceKind>,
    /// The kind to publish instead of the row's: that of the options of a connection (CP1).
    pub kind: Option<&'static str>,
    pub parameters: Vec<&'static Parameter>,
    pub body: Option<Body>,
    /// Status code, description, definition.
    pub answers: Vec<(u16, &'static str, Definition)>,
    /// The status codes of failures. The body of each is a Status.
    pub failures: &'static [u16],
    pub produces: &'static [&'static str],
}

pub struct Body {
    pub definition: Definition,
    pub required: bool,
    pub consumes: &'static [&'static str],
}

/// The type of a body or a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// The kind of the row.
    Object,
    /// The list kind of the row.
    List,
    Status,
    DeleteOptions,
    Patch,
    ApiVersions,
    ApiGroupList,
    ApiGroup,
    ApiResourceList,
    /// The document of `/version`.
    Info,
    /// The response of a member cluster.
    Text,
}

pub struct Parameter {
    pub name: &'static str,
    /// `path` or `query`.
    pub place: &'static str,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    pub description: &'static str,
}

/// The methods of `/proxy`, sorted (CP1).
const PROXY_METHODS: &[&str] = &["delete", "get", "head", "options", "patch", "post", "put"];
const ANY: &[&str] = &["*/*"];
const JSON_YAML: &[&str] = &["application/json", "application/yaml"];
/// The content type for bodies of tasks and reviews. YAML is accepted, too, but some client
/// generators support only one content type (CU4).
const JSON: &[&str] = &["application/json"];
const LISTS: &[&str] = &["application/json", "application/yaml", "application/json;stream=watch"];
/// The content types of a PATCH. Clients choose one of those published here (OA10).
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// Every status code that a request can fail with, and the reason in its Status.
pub const FAILURES: &[(u16, &str)] = &[
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (406, "NotAcceptable"),
    (409, "Conflict"),
    (410, "Expired"),
    (413, "RequestEntityTooLarge"),
    (415, "UnsupportedMediaType"),
    (422, "Invalid"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
];
const DISCOVERY_FAILURES: &[u16] = &[401, 403, 406, 429, 500, 503, 504];
const READ_FAILURES: &[u16] = &[400, 401, 403, 404, 406, 429, 500, 503, 504];
const LIST_FAILURES: &[u16] = &[400, 401, 403, 406, 410, 422, 429, 500, 503, 504];
const CREATE_FAILURES: &[u16] = &[400, 401, 403, 406, 409, 413, 415, 422, 429, 500, 503, 504];
const CHANGE_FAILURES: &[u16] = &[400, 401, 403, 404, 406, 409, 413, 415, 422, 429, 500, 503, 504];
const DELETE_COLLECTION_FAILURES: &[u16] = &[400, 401, 403, 406, 409, 410, 413, 415, 422, 429, 500, 503, 504];

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "query", kind, description }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "path", kind: "string", description }
}

const NAME: Parameter = path("name", "The name of the object.");
const NAMESPACE: Parameter = path("namespace", "The namespace of the objects.");
const PATH: Parameter = path("path", "The path at the server that the request is passed on to.");
const PRETTY: Parameter = query("pretty", "string", "If true, the answer is indented.");
const WRITE: &[Parameter] = &[
    query("dryRun", "string", "With the value All, nothing is stored. The answer is as if it were."),
    query(
        "fieldManager",
        "string",
        "The name of the manager that makes the change: printable, at most 128 characters.",
    ),
    query(
        "fieldValidation",
        "string",
        "What happens to unknown and duplicate fields: Ignore drops them, Warn (the default) says so, Strict refuses them.",
    ),
];
const FORCE: Parameter = query("force", "boolean", "Take over fields of other managers; for apply patches only.");
const DELETE: &[Parameter] = &[
    query("dryRun", "string", "With the value All, nothing is deleted. The answer is as if it were."),
    query("gracePeriodSeconds", "integer", "Seconds to wait before the object is deleted."),
    query("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    query("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
];
const CHOOSE: &[Parameter] = &[
    query("continue", "string", "The token of the previous chunk, to ask for the next one."),
    query("fieldSelector", "string", "Only objects whose fields match."),
    query("labelSelector", "string", "Only objects whose labels match."),
    query("limit", "integer", "The most objects in the answer, which says how to continue the list."),
    query("resourceVersion", "string", "The version that the answer must not be older than, or be exactly at."),
    query("resourceVersionMatch", "string", "How resourceVersion is meant: NotOlderThan or Exact."),
    query("sendInitialEvents", "boolean", "A watch begins with the present objects and a bookmark after them."),
    query("timeoutSeconds", "integer", "How long the request may last."),
];
const WATCH: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean", "A watch may send bookmarks."),
    query("watch", "boolean", "Keep the request open, and send each change as an event."),
];

/// Returns the endpoint `/apis/`.
pub fn groups<'a>() -> Vec<Endpoint<'a>> {
    let operation = discovery("getAPIVersions", "apis", "The groups that are served.", Definition::ApiGroupList);
    vec![Endpoint { path: "/apis/".to_owned(), parameters: Vec::new(), operations: vec![operation] }]
}

/// Returns the endpoint `/apis/{group}/`, or `/api/` for the core group. `all` contains the groups
/// that the server has.
pub fn group<'a>(name: &str, all: &[&str]) -> Vec<Endpoint<'a>> {
    if name.is_empty() {
        let versions = "The versions of the core group.";
        let operation = discovery("getCoreAPIVersions", "core", versions, Definition::ApiVersions);
        return vec![Endpoint { path: "/api/".to_owned(), parameters: Vec::new(), operations: vec![operation] }];
    }
    let words = distinct_identifier(name, all);
    let description = format!("The versions of {name}.");
    let operation =
        discovery(&format!("get{}APIGroup", upper_first(&words)), &words, &description, Definition::ApiGroup);
    vec![Endpoint { path: format!("/apis/{name}/"), parameters: Vec::new(), operations: vec![operation] }]
}

/// Returns the endpoint `/version/`.
pub fn version<'a>() -> Vec<Endpoint<'a>> {
    let operation = discovery("getCodeVersion", "version", "The version of the server.", Definition::Info);
    vec![Endpoint { path: "/version/".to_owned(), parameters: Vec::new(), operations: vec![operation] }]
}

/// Returns all endpoints below the group-version of `rows`.
pub fn version_of_group<'a>(rows: &[&'a ResourceKind]) -> Vec<Endpoint<'a>> {
    let Some(first) = rows.first() else { return Vec::new() };
    let id = format!("get{}APIResources", group_version(first));
    let description = format!("The resources of {}.", first.api_version());
    let resources = discovery(&id, &tag(first), &description, Definition::ApiResourceList);
    let path = format!("/{}/", first.root());
    let mut endpoints = vec![Endpoint { path, parameters: Vec::new(), operations: vec![resources] }];
    for row in rows {
        endpoints.extend(of_row(row));
    }
    endpoints
}

fn of_row(row: &ResourceKind) -> Vec<Endpoint<'_>> {
    let root = format!("/{}/", row.root());
    let (within, namespaced) = match row.is_namespaced() {
        true => (format!("{root}namespaces/{{namespace}}/{}", row.plural), vec![&NAMESPACE]),
        false => (format!("{root}{}", row.plural), Vec::new()),
    };
    let shared = |own: &[&'static Parameter]| [own, &namespaced, &[&PRETTY]].concat();
    if row.lifetime == Lifetime::Action {
        return vec![Endpoint { path: within, parameters: shared(&[]), operations: vec![create(row)] }];
    }
    let (mut collection, mut named) = (vec![list(row, "list", scope(row), "")], vec![read(row, "")]);
    if row.written_by_clients {
        collection.push(create(row));
        named.extend([replace(row, ""), patch(row, ""), delete(row)]);
    }
    collection.push(delete_collection(row));
    let mut endpoints = vec![
        Endpoint { path: within.clone(), parameters: shared(&[]), operations: collection },
        Endpoint { path: format!("{within}/{{name}}"), parameters: shared(&[&NAME]), operations: named },
    ];
    if row.status_subresource {
        endpoints.push(Endpoint {
            path: format!("{within}/{{name}}/status"),
            parameters: shared(&[&NAME]),
            operations: vec![read(row, "Status"), replace(row, "Status"), patch(row, "Status")],
        });
    }
    if let Some(kind) = row.proxy {
        let named = format!("{within}/{{name}}/proxy");
        let parameters = [&[&NAME], namespaced.as_slice()].concat();
        let connections =
            |suffix: &str| PROXY_METHODS.iter().map(|method| connect(row, kind, method, suffix)).collect();
        endpoints.push(Endpoint {
            path: format!("{named}/{{path}}"),
            parameters: [parameters.as_slice(), &[&PATH]].concat(),
            operations: connections("WithPath"),
        });
        endpoints.push(Endpoint { path: named, parameters, operations: connections("") });
    }
    if row.is_namespaced() {
        endpoints.push(Endpoint {
            path: format!("{root}{}", row.plural),
            parameters: vec![&PRETTY],
            operations: vec![list(row, "list", "", "ForAllNamespaces")],
        });
    }
    endpoints
}

fn list<'a>(row: &'a ResourceKind, verb: &str, scope: &str, suffix: &str) -> Operation<'a> {
    Operation {
        id: format!("{verb}{}{scope}{}{suffix}", group_version(row), row.kind),
        action: Some("list"),
        parameters: CHOOSE.iter().chain(WATCH).collect(),
        answers: vec![(200, "OK", Definition::List)],
        failures: LIST_FAILURES,
        produces: LISTS,
        ..operation(row, "get", format!("list or watch objects of kind {}", row.kind))
    }
}

fn create(row: &ResourceKind) -> Operation<'_> {
    let consumes = if row.lifetime == Lifetime::Action { JSON } else { JSON_YAML };
    Operation {
        id: id("create", row, ""),
        action: Some("post"),
        parameters: WRITE.iter().collect(),
        body: Some(Body { definition: Definition::Object, required: true, consumes }),
        // Ballast responds with 201. Kubernetes publishes all three codes.
        answers: vec![
            (200, "OK", Definition::Object),
            (201, "Created", Definition::Object),
            (202, "Accepted", Definition::Object),
        ],
        failures: CREATE_FAILURES,
        ..operation(row, "post", format!("create a {}", row.kind))
    }
}

fn delete_collection(row: &ResourceKind) -> Operation<'_> {
    Operation {
        // Kubernetes has no prefix "deletecollection": its ids have the form delete…Collection….
        id: format!("delete{}Collection{}{}", group_version(row), scope(row), row.kind),
        action: Some("deletecollection"),
        parameters: CHOOSE.iter().chain(DELETE).collect(),
        body: Some(Body { definition: Definition::DeleteOptions, required: false, consumes: JSON_YAML }),
        // Kubernetes publishes a Status here but responds with the list of deleted objects. Ballast
        // publishes the list.
        answers: vec![(200, "OK", Definition::List)],
        failures: DELETE_COLLECTION_FAILURES,
        ..operation(row, "delete", format!("delete objects of kind {}", row.kind))
    }
}

fn read<'a>(row: &'a ResourceKind, part: &str) -> Operation<'a> {
    Operation {
        id: id("read", row, part),
        action: Some("get"),
        answers: vec![(200, "OK", Definition::Object)],
        failures: READ_FAILURES,
        ..operation(row, "get", format!("read the specified {}{}", row.kind, of_status(part)))
    }
}

fn replace<'a>(row: &'a ResourceKind, part: &str) -> Operation<'a> {
    Operation {
        id: id("replace", row, part),
        action: Some("put"),
        parameters: WRITE.iter().collect(),
        body: Some(Body { definition: Definition::Object, required: true, consumes: JSON_YAML }),
        // Ballast never creates by PUT. Kubernetes publishes 201 also for kinds that it does not
        // create.
        answers: vec![(200, "OK", Definition::Object), (201, "Created", Definition::Object)],
        ..operation(row, "put", format!("replace the specified {}{}", row.kind, of_status(part)))
    }
}

fn patch<'a>(row: &'a ResourceKind, part: &str) -> Operation<'a> {
    Operation {
        id: id("patch", row, part),
        action: Some("patch"),
        parameters: WRITE.iter().chain([&FORCE]).collect(),
        body: Some(Body { definition: Definition::Patch, required: true, consumes: PATCHES }),
        // 201 is the status of a server-side apply that creates the object.
        answers: vec![(200, "OK", Definition::Object), (201, "Created", Definition::Object)],
        ..operation(row, "patch", format!("change parts of the specified {}{}", row.kind, of_status(part)))
    }
}

fn delete(row: &ResourceKind) -> Operation<'_> {
    Operation {
        id: id("delete", row, ""),
        action: Some("delete"),
        parameters: DELETE.iter().collect(),
        body: Some(Body { definition: Definition::DeleteOptions, required: false, consumes: JSON_YAML }),
        answers: vec![(200, "OK", Definition::Status), (202, "Accepted", Definition::Status)],
        ..operation(row, "delete", format!("delete a {}", row.kind))
    }
}

fn connect<'a>(row: &'a ResourceKind, kind: &'static str, method: &'static str, suffix: &str) -> Operation<'a> {
    Operation {
        id: format!("connect{}{}{}{}Proxy{suffix}", group_version(row), upper_first(method), scope(row), row.kind),
        action: Some("connect"),
        kind: Some(kind),
        answers: vec![(200, "OK", Definition::Text)],
        produces: ANY,
        ..operation(row, method, format!("connect {} requests to proxy of {}", method.to_ascii_uppercase(), row.kind))
    }
}

/// Returns the parts that operations on objects share. The caller sets `id`, `action` and
/// `answers`.
fn operation<'a>(row: &'a ResourceKind, method: &'static str, description: String) -> Operation<'a> {
    Operation {
        method,
        id: String::new(),
        tag: tag(row),
        description,
        action: None,
        row: Some(row),
        kind: None,
        parameters: Vec::new(),
        body: None,
        answers: Vec::new(),
        failures: CHANGE_FAILURES,
        produces: JSON_YAML,
    }
}

fn discovery<'a>(id: &str, tag: &str, description: &str, answer: Definition) -> Operation<'a> {
    Operation {
        method: "get",
        id: id.to_owned(),
        tag: tag.to_owned(),
        description: description.to_owned(),
        action: None,
        row: None,
        kind: None,
        parameters: Vec::new(),
        body: None,
        answers: vec![(200, "OK", answer)],
        failures: DISCOVERY_FAILURES,
        produces: JSON_YAML,
    }
}

fn id(verb: &str, row: &ResourceKind, part: &str) -> String {
    format!("{verb}{}{}{}{part}", group_version(row), scope(row), row.kind)
}

fn of_status(part: &str) -> &'static str {
    if part.is_empty() { "" } else { "'s status" }
}

fn scope(row: &ResourceKind) -> &'static str {
    if row.is_namespaced() { "Namespaced" } else { "" }
}

/// Returns a group-version in the form `WorkV1alpha2`.
fn group_version(row: &ResourceKind) -> String {
    format!("{}{}", upper_first(&identifier(row.group)), upper_first(row.version))
}

/// Returns a tag such as `work_v1alpha2`, from which generators derive class names (OA13).
fn tag(row: &ResourceKind) -> String {
    format!("{}_{}", identifier(row.group), row.version)
}

/// Returns the first label of a group: `work` for `work.karmada.io`, `core` for the core group.
fn identifier(group: &str) -> String {
    let label = match group.split('.').next() {
        None | Some("") => "core",
        Some(label) => label,
    };
    camel_case(label)
}

/// Returns the identifier of a group where no version follows it. Groups that share their first
/// label get all labels but the last: `clusterKarmada` for `cluster.karmada.io`. Operation ids must
/// be unique in a document (OA13), and generators reject a document with duplicates.
fn distinct_identifier(group: &str, all: &[&str]) -> String {
    let short = identifier(group);
    let is_shared = all.iter().any(|other| *other != group && identifier(other) == short);
    match group.rsplit_once('.').filter(|_| is_shared) {
        Some((labels, _)) => camel_case(labels),
        None => short,
    }
}

fn camel_case(text: &str) -> String {
    let mut words = text.split(['-', '.']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &upper_first(word))
}

fn upper_first(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

/// Returns the full name of a type that has the same name in every document. `None` for the types
/// of a row.
pub fn shared_name(definition: Definition) -> Option<String> {
    let name = match definition {
        Definition::Object | Definition::List => return None,
        Definition::Status => "Status",
        Definition::DeleteOptions => "DeleteOptions",
        Definition::Patch => "Patch",
        Definition::ApiVersions => "APIVersions",
        Definition::ApiGroupList => "APIGroupList",
        Definition::ApiGroup => "APIGroup",
        Definition::ApiResourceList => "APIResourceList",
        // Its schema is inlined.
        Definition::Text => return None,
        Definition::Info => return Some("io.k8s.apimachinery.pkg.version.Info".to_owned()),
    };
    Some(format!("{}.{name}", meta::META_V1))
}
