//! How a decision is carried out: the pace of the rollout, and how resources are applied, deleted
//! and reported.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use ballast_resource::schema::mark::INT_OR_STRING;

/// How decisions are carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// What carries out the decisions.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(default = "RollingUpdate")]
    pub type_: Option<RolloutStrategyType>,
    /// The pace, for `RollingUpdate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateConfig>,
    /// How resources are applied on clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// What happens to resources on clusters when the placement is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,
    /// Whether the status of resources on clusters is reported back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// What carries out the decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RolloutStrategyType {
    /// The rollout controller, cluster by cluster within bounds.
    #[default]
    RollingUpdate,
    /// An external program. It cannot be changed back.
    External,
}

/// The pace of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateConfig {
    /// How many clusters may lack the resources at a time: a number, or a percentage rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "25%")]
    pub max_unavailable: Option<IntOrPercent>,
    /// How many clusters above the wanted number may have the resources at a time: a number, or a
    /// percentage rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "25%")]
    pub max_surge: Option<IntOrPercent>,
    /// Seconds after which resources count as available if their availability cannot be observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<isize>, minimum = 0, default = 60)]
    pub unavailable_period_seconds: Option<i64>,
}

/// A number, or a percentage of one.
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

/// How resources are applied on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyStrategy {
    /// How two versions of a resource are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "PartialComparison")]
    pub comparison_option: Option<ComparisonOption>,
    /// When a resource is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Always")]
    pub when_to_apply: Option<WhenToApply>,
    /// The way of applying.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(default = "ClientSideApply")]
    pub type_: Option<ApplyStrategyType>,
    /// Whether resources are applied that others own too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_co_ownership: Option<bool>,
    /// Settings for server-side apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,
    /// When a present resource is taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Always")]
    pub when_to_take_over: Option<WhenToTakeOver>,
}

/// How two versions of a resource are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ComparisonOption {
    /// By the fields that are set in the placement.
    PartialComparison,
    /// By all fields.
    FullComparison,
}

/// When a resource is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum WhenToApply {
    Always,
    /// Only if the resource was not changed on the cluster.
    IfNotDrifted,
}

/// The way in which a resource is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ApplyStrategyType {
    ClientSideApply,
    ServerSideApply,
    /// Not applied: differences are only reported.
    ReportDiff,
}

/// Settings for server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSideApplyConfig {
    /// Whether apply overrides conflicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// When a present resource is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum WhenToTakeOver {
    Always,
    /// If it does not differ.
    IfNoDiff,
    Never,
}

/// What happens to resources on clusters when the placement is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteStrategy {
    /// Whether they are deleted with the placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Delete")]
    pub propagation_policy: Option<DeletePropagationPolicy>,
}

/// Whether resources on clusters are deleted with their placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeletePropagationPolicy {
    /// They are kept.
    Abandon,
    /// They are deleted.
    Delete,
}

/// Whether the status of resources on clusters is reported back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportBackStrategy {
    /// The way of reporting.
    #[serde(rename = "type")]
    #[schema(default = "Disabled")]
    pub type_: ReportBackStrategyType,
    /// The destination, for `Mirror`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}

/// The way of reporting status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ReportBackStrategyType {
    #[default]
    Disabled,
    Mirror,
}

/// Where status is reported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ReportBackDestination {
    /// The resource that it is the status of.
    OriginalResource,
    /// The Work that contains the resource.
    #[serde(rename = "WorkAPI")]
    WorkApi,
}
