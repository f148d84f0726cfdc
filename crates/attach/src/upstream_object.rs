//! An object as it came from the upstream: the whole tree, so that a field that no schema here
//! knows stays.

use std::borrow::Cow;

use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use ballast_resource::ResourceKind;

/// The tree, and the metadata that kube's watcher needs.
#[derive(Clone, Debug)]
pub struct UpstreamObject {
    pub object: Map<String, Value>,
    meta: ObjectMeta,
}

/// Returns a member of the metadata. Empty if it is absent.
pub fn metadata<'a>(object: &'a Map<String, Value>, member: &str) -> &'a str {
    let value = object.get("metadata").and_then(|metadata| metadata.get(member));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// How kube names the kind of this row, in the version that is stored here.
pub fn api_resource(row: &ResourceKind) -> ApiResource {
    ApiResource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        api_version: row.api_version(),
        kind: row.kind.to_owned(),
        plural: row.plural.to_owned(),
    }
}

impl<'de> Deserialize<'de> for UpstreamObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpstreamObject, D::Error> {
        let object = Map::deserialize(deserializer)?;
        let member = |name: &str| Some(metadata(&object, name).to_owned()).filter(|text| !text.is_empty());
        let meta = ObjectMeta {
            name: member("name"),
            namespace: member("namespace"),
            resource_version: member("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(UpstreamObject { object, meta })
    }
}

impl kube::Resource for UpstreamObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        kind.api_version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
