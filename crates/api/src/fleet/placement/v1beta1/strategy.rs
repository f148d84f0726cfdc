//! The rollout strategy: the pace of the rollout, and the way in which resources are applied,
//! deleted and reported.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use ballast_resource::schema::mark::INT_OR_STRING;

/// The strategy of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// Component that carries out the rollout.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(default = "RollingUpdate")]
    pub type_: Option<RolloutStrategyType>,
    /// Pace of the rollout, for `RollingUpdate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateConfig>,
    /// Way of applying resources on clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// Handling of resources on clusters when the placement is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,
    /// Reporting of the status of resources on clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// The component that carries out a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RolloutStrategyType {
    /// The rollout controller updates cluster by cluster, within bounds.
    #[default]
    RollingUpdate,
    /// An external program carries out the rollout. This type cannot be changed back.
    External,
}

/// The pace of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateConfig {
    /// Maximum number of clusters that may lack the resources at a time: a number, or a percentage
    /// rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "25%")]
    pub max_unavailable: Option<IntOrPercent>,
    /// Maximum number of clusters above the requested number that may have the resources at a time:
    /// a number, or a percentage rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "25%")]
    pub max_surge: Option<IntOrPercent>,
    /// Seconds after which resources count as available if their availability cannot be observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>, minimum = 0, default = 60)]
    pub unavailable_period_seconds: Option<i64>,
}

/// A number, or a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    Number(i64),
    Text(String),
}

impl PartialSchema for IntOrPercent {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .pattern(Some("^((100|[0-9]{1,2})%|[0-9]+)$"))
            .extensions(Some(Extensions::builder().add(INT_OR_STRING, true).build()))
            .into()
    }
}

impl ToSchema for IntOrPercent {
    fn name() -> Cow<'static, str> {
        "IntOrPercent".into()
    }
}

/// The way of applying resources on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyStrategy {
    /// Comparison of two versions of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "PartialComparison")]
    pub comparison_option: Option<ComparisonOption>,
    /// Condition under which a resource is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Always")]
    pub when_to_apply: Option<WhenToApply>,
    /// Method of applying.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(default = "ClientSideApply")]
    pub type_: Option<ApplyStrategyType>,
    /// Whether resources are applied that have other owners as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_co_ownership: Option<bool>,
    /// Settings for server-side apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,
    /// Condition under which an existing resource is taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Always")]
    pub when_to_take_over: Option<WhenToTakeOver>,
}

/// The comparison of two versions of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ComparisonOption {
    /// Only the fields that are set in the placement are compared.
    PartialComparison,
    /// All fields are compared.
    FullComparison,
}

/// The condition under which a resource is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum WhenToApply {
    Always,
    /// The resource was not changed on the cluster.
    IfNotDrifted,
}

/// The method of applying a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ApplyStrategyType {
    ClientSideApply,
    ServerSideApply,
    /// The resource is not applied. Differences are only reported.
    ReportDiff,
}

/// Settings for server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSideApplyConfig {
    /// Whether conflicts are overridden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// The condition under which an existing resource is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum WhenToTakeOver {
    Always,
    /// The existing resource does not differ.
    IfNoDiff,
    Never,
}

/// The handling of resources on clusters when the placement is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteStrategy {
    /// Whether the resources are deleted with the placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Delete")]
    pub propagation_policy: Option<DeletePropagationPolicy>,
}

/// Whether resources on clusters are deleted with their placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeletePropagationPolicy {
    /// The resources are kept.
    Abandon,
    /// The resources are deleted.
    Delete,
}

/// The reporting of the status of resources on clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportBackStrategy {
    /// Type of the reporting.
    #[serde(rename = "type")]
    #[schema(default = "Disabled")]
    pub type_: ReportBackStrategyType,
    /// Destination of the status, for `Mirror`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}

/// The type of the status reporting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ReportBackStrategyType {
    #[default]
    Disabled,
    Mirror,
}

/// The destination of reported status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ReportBackDestination {
    /// The original resource.
    OriginalResource,
    /// The Work that contains the resource.
    #[serde(rename = "WorkAPI")]
    WorkApi,
}
