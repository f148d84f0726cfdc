//! `metav1.ObjectMeta`, `ListMeta` and `TypeMeta`: the part of every object that no kind owns.
//!
//! Pruned and type-checked like the rest of the tree. The rules beyond types (names, labels, immutable
//! fields) are the registry's.

use std::sync::{Arc, LazyLock};

use super::{Array, Bounds, Field, Format, Integer, ListType, Node, Object, Shape, Text, Width};

/// Where upstream's definitions of these types live (OA12).
pub const META_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// `apiVersion` and `kind`.
pub(super) fn type_meta(required: bool) -> [Field; 2] {
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
            field("annotations", "Free notes of tools and people; not for selection.", map_of_text()),
            field("creationTimestamp", "When the object was created. Set by the server.", time()),
            field("deletionGracePeriodSeconds", "Seconds left to end gracefully. Set by the server.", int64()),
            field("deletionTimestamp", "When the object is to be gone. Set by the server on a delete.", time()),
            field("finalizers", "Who has work left before the object may go.", list(text(), ListType::Set)),
            field("generateName", "The start of a name that the server completes when no name is given.", text()),
            field("generation", "Counts the changes of the desired state. Set by the server.", int64()),
            field("labels", "What selectors match.", map_of_text()),
            field("managedFields", "Who set which field, for server-side apply.", atomic_list(managed_fields_entry())),
            field("name", "Unique among the objects of its kind in its namespace. It cannot be changed.", text()),
            field("namespace", "The space in which the name is unique. It cannot be changed.", text()),
            field("ownerReferences", "The objects this one depends on.", owner_references()),
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
    static NODE: LazyLock<Arc<Node>> = LazyLock::new(|| {
        let fields = vec![
            field("continue", "Set when there is more: the token that fetches the next chunk.", text()),
            field("remainingItemCount", "How many items come after this chunk, where that is known.", int64()),
            field("resourceVersion", "The version of the collection that this list shows.", text()),
            field("selfLink", "No longer set by the system.", text()),
        ];
        definition("ListMeta", "Metadata of a list.", fields)
    });
    NODE.clone()
}

fn managed_fields_entry() -> Arc<Node> {
    let any = Object { preserve_unknown: true, ..Object::default() };
    let fields_v1 = Node { definition: Some("FieldsV1".into()), ..Node::of(Shape::Object(any)) };
    let fields = vec![
        field("apiVersion", "The version of the object that the fields are named by.", text()),
        field("fieldsType", "The format of the fields: FieldsV1.", text()),
        field("fieldsV1", "The set of fields, as a trie.", Arc::new(fields_v1)),
        field("manager", "Who manages the fields.", text()),
        field("operation", "Apply or Update.", text()),
        field("subresource", "The subresource that was written, if any.", text()),
        field("time", "When the set of fields last changed.", time()),
    ];
    definition("ManagedFieldsEntry", "The fields that one manager set in one way.", fields)
}

fn owner_references() -> Arc<Node> {
    let required = |name, description| Field { required: true, ..field(name, description, text()) };
    let boolean = || Arc::new(Node::of(Shape::Boolean));
    let fields = vec![
        required("apiVersion", "The API version of the owner."),
        field("blockOwnerDeletion", "The owner cannot go in the foreground before this reference does.", boolean()),
        field("controller", "The owner is the managing controller.", boolean()),
        required("kind", "The kind of the owner."),
        required("name", "The name of the owner."),
        required("uid", "The uid of the owner."),
    ];
    let owner = definition("OwnerReference", "Names an owner in the same namespace, or a cluster-scoped one.", fields);
    let Shape::Object(object) = &owner.shape else { unreachable!("just built as an object") };
    let owner = Node { shape: Shape::Object(Object { atomic: true, ..object.clone() }), ..Node::clone(&owner) };
    // A duplicate owner is merged with a warning, not refused (MD9), so this is no checked map.
    Arc::new(Node::of(Shape::Array(Array {
        items: Arc::new(owner),
        min_items: None,
        max_items: None,
        unique_items: false,
        list_type: None,
    })))
}

fn definition(name: &str, description: &str, fields: Vec<Field>) -> Arc<Node> {
    Arc::new(Node {
        definition: Some(name.into()),
        description: description.into(),
        ..Node::of(Shape::Object(Object::new(fields)))
    })
}

fn field(name: &str, description: &str, node: Arc<Node>) -> Field {
    Field { name: name.into(), description: description.into(), required: false, default: None, node }
}

fn text() -> Arc<Node> {
    Arc::new(Node::of(Shape::Text(Text::default())))
}

fn time() -> Arc<Node> {
    let text = Text { format: Some(Format::DateTime), ..Text::default() };
    Arc::new(Node::of(Shape::Text(text)))
}

fn int64() -> Arc<Node> {
    Arc::new(Node::of(Shape::Integer(Integer { width: Width::Int64, bounds: Bounds::default() })))
}

fn map_of_text() -> Arc<Node> {
    Arc::new(Node::of(Shape::Object(Object { values: Some(text()), ..Object::default() })))
}

fn list(items: Arc<Node>, list_type: ListType) -> Arc<Node> {
    let array = Array { items, min_items: None, max_items: None, unique_items: false, list_type: Some(list_type) };
    Arc::new(Node::of(Shape::Array(array)))
}

fn atomic_list(items: Arc<Node>) -> Arc<Node> {
    list(items, ListType::Atomic)
}
