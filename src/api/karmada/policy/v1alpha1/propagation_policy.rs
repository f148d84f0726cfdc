//! PropagationPolicy: the rules by which objects of one namespace are placed. The spec is shared with its sibling.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::propagation_spec::{COLUMNS, PropagationSpec};
use crate::api::meta::ObjectMeta;
use crate::api::type_meta::{ApiVersion, Kind};
use crate::resource::{Column, Resource, Scope};

/// Says which objects of its namespace go to which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagationPolicy {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<PropagationPolicy>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<PropagationPolicy>,
    /// What every stored object says about itself.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is placed, and by which rules.
    pub spec: PropagationSpec,
}

impl Resource for PropagationPolicy {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "PropagationPolicy";
    const PLURAL: &'static str = "propagationpolicies";
    const SINGULAR: &'static str = "propagationpolicy";
    const SHORT_NAMES: &'static [&'static str] = &["pp"];
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] = COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.policy.v1alpha1";
}
