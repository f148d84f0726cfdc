//! The author of an EvictionLimit: an annotation names the authenticated user that last changed its
//! spec. Clients cannot set it in any other way. 33 Sets the annotation to `user` if the spec
//! changes, otherwise to the stored author.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::{EvictionLimit, SET_BY};
use ballast_k8s::{GroupResource, Status};
use ballast_registry::{AdmissionAttributes, Validator};
use ballast_resource::Resource;

/// Returns the validator that records the author, and its kind.
pub fn eviction_author() -> (GroupResource, Arc<dyn Validator>) {
    (EvictionLimit::resource(), Arc::new(EvictionAuthor))
}

struct EvictionAuthor;

#[async_trait]
impl Validator for EvictionAuthor {
    async fn validate(
        &self,
        write: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        record_author(&write.caller.user.name, object, old);
        Ok(())
    }
}

/// Sets the annotation: to `user` where the spec changes, else to the stored author.
fn record_author(user: &str, object: &mut Map<String, Value>, old: Option<&Map<String, Value>>) {
    let stored = old.filter(|old| old.get("spec") == object.get("spec"));
    let author = match stored {
        Some(old) => old.get("metadata").and_then(|metadata| metadata["annotations"].get(SET_BY)).cloned(),
        None => Some(user.into()),
    };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    let Some(annotations) = annotations.as_object_mut() else { return };
    match author {
        Some(author) => annotations.insert(SET_BY.to_owned(), author),
        None => annotations.remove(SET_BY),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_author_is_the_user_who_last_changed_the_spec() {
        let limit = |rate: &str, author: Value| {
            let object = json!({"metadata": {"name": "fleet", "annotations": {SET_BY: author}},
                "spec": {"bindingsPerSecond": rate}});
            object.as_object().cloned().unwrap()
        };
        let author = |user: &str, mut object: Map<String, Value>, old: Option<&Map<String, Value>>| {
            record_author(user, &mut object, old);
            object["metadata"]["annotations"][SET_BY].clone()
        };
        let stored = limit("5", json!("otto"));
        assert_eq!(author("otto", limit("5", json!("somebody")), None), "otto");
        assert_eq!(author("eve", limit("5", json!("eve")), Some(&stored)), "otto", "the spec is as before");
        assert_eq!(author("ann", limit("0", json!("otto")), Some(&stored)), "ann");
        let mut bare = limit("5", json!("x"));
        bare["metadata"] = json!({"name": "fleet"});
        record_author("otto", &mut bare, None);
        assert_eq!(bare["metadata"]["annotations"][SET_BY], "otto");
    }
}
