//! The request as webhooks and policies receive it: `AdmissionRequest` of `admission.k8s.io/v1`
//! without its objects.

use serde_json::{Map, Value, json};

use ballast_registry::{AdmissionAttributes, Operation};
use ballast_resource::ResourceKind;

/// Returns the request in this version of its kind. Empty fields are absent.
pub fn admission_request(attributes: &AdmissionAttributes<'_>, row: &ResourceKind, uid: &str) -> Value {
    let AdmissionAttributes { caller, row: requested_row, operation, namespace, name, subresource, options, .. } =
        *attributes;
    let kind = |row: &ResourceKind| json!({"group": row.group, "version": row.version, "kind": row.kind});
    let resource = |row: &ResourceKind| json!({"group": row.group, "version": row.version, "resource": row.plural});
    let kind_of_options = match operation {
        Operation::Create => Some("CreateOptions"),
        Operation::Update => Some("UpdateOptions"),
        Operation::Delete => Some("DeleteOptions"),
        Operation::Connect => None,
    };
    let options = kind_of_options.map(|kind| {
        let mut options = options.to_json();
        options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
        options.insert("kind".to_owned(), kind.into());
        options
    });
    let mut request = json!({
        "uid": uid, "kind": kind(row), "resource": resource(row),
        "requestKind": kind(requested_row), "requestResource": resource(requested_row),
        "operation": operation.as_str(), "userInfo": caller.user.info(),
        "dryRun": attributes.dry_run(), "options": options,
    });
    for (member, value) in
        [("name", name), ("namespace", namespace), ("subResource", subresource), ("requestSubResource", subresource)]
    {
        if !value.is_empty() {
            request[member] = Value::from(value);
        }
    }
    request
}

/// Returns the object in this version of its kind.
pub fn worded(mut object: Map<String, Value>, row: &ResourceKind) -> Map<String, Value> {
    object.insert("apiVersion".to_owned(), row.api_version().into());
    object
}
