//! The types of `meta/v1`, which belong to no kind. `ObjectMeta` is part of every object. The
//! others are the types of requests and responses, and every OpenAPI document contains them (OA12).
//!
//! `ObjectMeta` is pruned and its types are checked like the rest of an object. The registry checks
//! all further rules (names, labels, immutable fields).

use std::sync::{Arc, LazyLock};

use super::{Array, Bounds, Field, Format, Integer, ListType, Node, Object, Shape, Text, Width};

/// The package of upstream's definitions of these types (OA12).
pub const META_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns the fields `apiVersion` and `kind`.
pub fn type_meta(required: bool) -> [Field; 2] {
    let field = |name: &str, description: &str| Field { required, ..field(name, description, text()) };
    [
        field("apiVersion", "The group and version that define this representation of the object."),
        field("kind", "The kind of the object, in CamelCase. It cannot be changed."),
    ]
}

/// `metav1.ObjectMeta`.
pub fn object_meta() -> Arc<Node> {
    static NODE: LazyLock<Arc<Node>> = LazyLock::new(|| {
        let fields = vec![
            field("annotations", "Key-value pairs for tools and people. Selectors cannot match them.", map_of_text()),
            field("creationTimestamp", "When the object was created. Set by the server.", time()),
            field("deletionGracePeriodSeconds", "Seconds left to end gracefully. Set by the server.", int64()),
            field("deletionTimestamp", "When the object is due to be removed. Set by the server on a delete.", time()),
            field(
                "finalizers",
                "Names of the programs that must finish their work before the object is removed.",
                finalizers(),
            ),
            field("generateName", "The beginning of a name that the server completes if no name is given.", text()),
            field("generation", "Counts the changes of the desired state. Set by the server.", int64()),
            field("labels", "Key-value pairs that selectors can match.", map_of_text()),
            field("managedFields", "Which manager set which field, for server-side apply.", managed_fields()),
            field("name", "Unique among the objects of its kind in its namespace. It cannot be changed.", text()),
            field("namespace", "The namespace in which the name is unique. It cannot be changed.", text()),
            field("ownerReferences", "The objects that this one depends on.", owner_references()),
            field("resourceVersion", "The version of the object, opaque; for optimistic concurrency.", text()),
            field("selfLink", "No longer set by the system.", text()),
            field("uid", "Unique in time and space. Set by the server.", text()),
        ];
        definition("ObjectMeta", "Metadata that all stored objects have.", fields)
    });
    NODE.clone()
}

/// `metav1.ListMeta`.
pub fn list_meta() -> Arc<Node> {
    let fields = vec![
        field("continue", "The token that fetches the next chunk. Absent if there is none.", text()),
        field("remainingItemCount", "How many items follow this chunk, if that is known.", int64()),
        field("resourceVersion", "The version of the collection that this list shows.", text()),
        field("selfLink", "No longer set by the system.", text()),
    ];
    definition("ListMeta", "Metadata of a list.", fields)
}

/// `metav1.DeleteOptions`.
pub fn delete_options() -> Arc<Node> {
    let preconditions = vec![
        field("resourceVersion", "The version that the object must have.", text()),
        field("uid", "The uid that the object must have.", text()),
    ];
    let preconditions = definition("Preconditions", "What must hold before an object is deleted.", preconditions);
    let [api_version, kind] = type_meta(false);
    let fields = vec![
        api_version,
        field("dryRun", "With the value All, nothing is stored.", list(text())),
        field("gracePeriodSeconds", "Seconds to wait before the object is deleted.", int64()),
        kind,
        field("orphanDependents", "Deprecated: use propagationPolicy.", boolean()),
        field("preconditions", "What must hold. Otherwise the delete is refused with 409.", preconditions),
        field("propagationPolicy", "What happens to dependents: Orphan, Background or Foreground.", text()),
    ];
    definition("DeleteOptions", "How an object is to be deleted.", fields)
}

/// `metav1.Status`.
pub fn status() -> Arc<Node> {
    let cause = vec![
        field("field", "The field that is at fault, as a path.", text()),
        field("message", "The cause in words.", text()),
        field("reason", "The cause in one word for programs.", text()),
    ];
    let cause = definition("StatusCause", "One cause of a failure.", cause);
    let details = vec![
        field("causes", "What is wrong, fault by fault.", list(cause)),
        field("group", "The group of the resource.", text()),
        field("kind", "The resource, or for invalid objects the kind.", text()),
        field("name", "The name of the object.", text()),
        field("retryAfterSeconds", "When to try again.", int32()),
        field("uid", "The uid of the object.", text()),
    ];
    let details = definition("StatusDetails", "More about an outcome.", details);
    let [api_version, kind] = type_meta(false);
    let fields = vec![
        api_version,
        field("code", "The HTTP status code.", int32()),
        field("details", "More, by reason.", details),
        kind,
        field("message", "What happened, in words.", text()),
        field("metadata", "Metadata of a list.", list_meta()),
        field("reason", "Why, in one word for programs.", text()),
        field("status", "Success or Failure.", text()),
    ];
    definition("Status", "The outcome of a request that has no object to show.", fields)
}

/// `metav1.Patch`.
pub fn patch() -> Arc<Node> {
    let any = Object { preserve_unknown: true, ..Object::default() };
    named("Patch", "A patch, in the form that the content type names.", Shape::Object(any))
}

/// `metav1.WatchEvent`.
pub fn watch_event() -> Arc<Node> {
    let any = Object { preserve_unknown: true, ..Object::default() };
    let object = Node { definition: None, ..Node::of(Shape::Object(any)) };
    let fields = vec![
        required("object", "The object after the change; for DELETED its last state.", Arc::new(object)),
        required("type", "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.", text()),
    ];
    definition("WatchEvent", "One change, as a watch sends it.", fields)
}

/// `metav1.APIResourceList`.
pub fn api_resource_list() -> Arc<Node> {
    let resource = vec![
        field("categories", "Groups of resources that this one belongs to, such as all.", list(text())),
        field("group", "The group, if it is not that of the list.", text()),
        required("kind", "The kind of the objects.", text()),
        required("name", "The plural name, with the subresource after a slash.", text()),
        required("namespaced", "Whether the objects live in namespaces.", boolean()),
        field("shortNames", "Shorter names.", list(text())),
        required("singularName", "The singular name.", text()),
        field("storageVersionHash", "Changes when the stored version does.", text()),
        required("verbs", "The verbs that the resource supports.", list(text())),
        field("version", "The version, if it is not that of the list.", text()),
    ];
    let resource = definition("APIResource", "A resource and what can be done with it.", resource);
    let [api_version, kind] = type_meta(false);
    let fields = vec![
        api_version,
        required("groupVersion", "The group and version.", text()),
        kind,
        required("resources", "The resources of the group and version.", list(resource)),
    ];
    definition("APIResourceList", "The resources of a group and version.", fields)
}

/// `metav1.APIGroup`.
pub fn api_group() -> Arc<Node> {
    let version = vec![
        required("groupVersion", "The group and version.", text()),
        required("version", "The version alone.", text()),
    ];
    let version = definition("GroupVersionForDiscovery", "A version of a group.", version);
    let [api_version, kind] = type_meta(false);
    let fields = vec![
        api_version,
        kind,
        required("name", "The name of the group.", text()),
        field("preferredVersion", "The version that the server would choose.", version.clone()),
        field("serverAddressByClientCIDRs", "Addresses of the server.", list(server_address())),
        required("versions", "The versions of the group.", list(version)),
    ];
    definition("APIGroup", "A group and its versions.", fields)
}

fn server_address() -> Arc<Node> {
    let fields = vec![
        required("clientCIDR", "The clients that should use the address.", text()),
        required("serverAddress", "The address.", text()),
    ];
    definition("ServerAddressByClientCIDR", "Which clients should use which address.", fields)
}

/// `metav1.APIVersions`.
pub fn api_versions() -> Arc<Node> {
    let [api_version, kind] = type_meta(false);
    let fields = vec![
        api_version,
        kind,
        required("serverAddressByClientCIDRs", "Addresses of the server.", list(server_address())),
        required("versions", "The versions.", list(text())),
    ];
    definition("APIVersions", "The versions of the core group.", fields)
}

/// `metav1.APIGroupList`.
pub fn api_group_list() -> Arc<Node> {
    let [api_version, kind] = type_meta(false);
    let groups = Field { required: true, ..field("groups", "The groups.", list(api_group())) };
    definition("APIGroupList", "The groups that are served.", vec![api_version, groups, kind])
}

/// Returns the list type of a kind, published under the definition `name`.
pub fn list_of(name: &str, kind: &str, items: Arc<Node>) -> Arc<Node> {
    let [api_version, kind_field] = type_meta(false);
    let fields = vec![
        api_version,
        Field { required: true, ..field("items", "The objects.", list(items)) },
        kind_field,
        field("metadata", "Metadata of the list.", list_meta()),
    ];
    let description = format!("A list of objects of kind {kind}.");
    Arc::new(Node {
        definition: Some(name.into()),
        description: description.into(),
        ..Node::of(Shape::Object(Object::new(fields)))
    })
}

fn managed_fields() -> Arc<Node> {
    let any = Object { preserve_unknown: true, ..Object::default() };
    let fields_v1 = named("FieldsV1", "A set of fields, as a trie of names.", Shape::Object(any));
    let fields = vec![
        field("apiVersion", "The API version that the field names belong to.", text()),
        field("fieldsType", "The format of the fields: FieldsV1.", text()),
        field("fieldsV1", "The set of fields, as a trie.", fields_v1),
        field("manager", "The name of the manager.", text()),
        field("operation", "Apply or Update.", text()),
        field("subresource", "The subresource that was written, if any.", text()),
        field("time", "When the set of fields last changed.", time()),
    ];
    let entry = definition("ManagedFieldsEntry", "The fields that one manager set in one way.", fields);
    typed_list(entry, ListType::Atomic)
}

fn owner_references() -> Arc<Node> {
    let required = |name, description| Field { required: true, ..field(name, description, text()) };
    let fields = vec![
        required("apiVersion", "The API version of the owner."),
        field(
            "blockOwnerDeletion",
            "A foreground deletion of the owner waits until this reference is removed.",
            boolean(),
        ),
        field("controller", "The owner is the managing controller.", boolean()),
        required("kind", "The kind of the owner."),
        required("name", "The name of the owner."),
        required("uid", "The uid of the owner."),
    ];
    let owner = Object { atomic: true, ..Object::new(fields) };
    let description = "Names an owner in the same namespace, or a cluster-scoped one.";
    let items = named("OwnerReference", description, Shape::Object(owner));
    let list_type = Some(ListType::Map(["uid".into()].into()));
    // Duplicate owners are merged with a warning, not refused (MD9).
    Arc::new(Node::of(Shape::Array(Array { duplicates_pass: true, ..plain_array(items, list_type) })))
}

fn definition(name: &str, description: &str, fields: Vec<Field>) -> Arc<Node> {
    named(name, description, Shape::Object(Object::new(fields)))
}

fn named(name: &str, description: &str, shape: Shape) -> Arc<Node> {
    let definition = Some(format!("{META_V1}.{name}").into());
    Arc::new(Node { definition, description: description.into(), ..Node::of(shape) })
}

fn field(name: &str, description: &str, node: Arc<Node>) -> Field {
    Field { name: name.into(), description: description.into(), required: false, default: None, node }
}

fn required(name: &str, description: &str, node: Arc<Node>) -> Field {
    Field { required: true, ..field(name, description, node) }
}

fn text() -> Arc<Node> {
    Arc::new(Node::of(Shape::Text(Text::default())))
}

fn time() -> Arc<Node> {
    let text = Text { format: Some(Format::DateTime), ..Text::default() };
    named("Time", "RFC 3339 in whole seconds, UTC.", Shape::Text(text))
}

fn boolean() -> Arc<Node> {
    Arc::new(Node::of(Shape::Boolean))
}

fn int32() -> Arc<Node> {
    Arc::new(Node::of(Shape::Integer(Integer { width: Width::Int32, bounds: Bounds::default() })))
}

fn int64() -> Arc<Node> {
    Arc::new(Node::of(Shape::Integer(Integer { width: Width::Int64, bounds: Bounds::default() })))
}

fn map_of_text() -> Arc<Node> {
    Arc::new(Node::of(Shape::Object(Object { values: Some(text()), ..Object::default() })))
}

fn list(items: Arc<Node>) -> Arc<Node> {
    array(items, None)
}

/// Returns the type of `finalizers`: a set in which upstream accepts duplicates.
fn finalizers() -> Arc<Node> {
    Arc::new(Node::of(Shape::Array(Array { duplicates_pass: true, ..plain_array(text(), Some(ListType::Set)) })))
}

fn typed_list(items: Arc<Node>, list_type: ListType) -> Arc<Node> {
    array(items, Some(list_type))
}

fn array(items: Arc<Node>, list_type: Option<ListType>) -> Arc<Node> {
    Arc::new(Node::of(Shape::Array(plain_array(items, list_type))))
}

fn plain_array(items: Arc<Node>, list_type: Option<ListType>) -> Array {
    Array { items, min_items: None, max_items: None, unique_items: false, list_type, duplicates_pass: false }
}
