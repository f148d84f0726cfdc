//! Cluster: a member cluster, with its connection, resources and state.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::cluster_rules;
use super::cluster_status::ClusterStatus;
use crate::core::{Quantity, Taint};
use crate::lean::Pairs;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Resource, Scope, SqlColumn};

kind! {
    /// A member cluster, with its connection, resources and state.
    pub struct Cluster {
        /// Connection to the cluster, its location, its taints and its resource models.
        #[schema(default = json!({}))]
        pub spec: ClusterSpec,
        /// State of the cluster, as last reported.
        #[serde(default)]
        #[schema(default = json!({}))]
        pub status: ClusterStatus,
    }
}

impl Resource for Cluster {
    const GROUP: &'static str = "cluster.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
    const SINGULAR: &'static str = "cluster";
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const PROXY: Option<&'static str> = Some("ClusterProxyOptions");
    const COLUMNS: &'static [Column] = &[
        Column {
            name: "Version",
            kind: "string",
            path: ".status.kubernetesVersion",
            priority: 0,
            description: "Kubernetes version of the member cluster.",
        },
        Column {
            name: "Mode",
            kind: "string",
            path: ".spec.syncMode",
            priority: 0,
            description: "How changes reach the member cluster: Push or Pull.",
        },
        Column {
            name: "Ready",
            kind: "string",
            path: r#".status.conditions[?(@.type=="Ready")].status"#,
            priority: 0,
            description: "Whether the member cluster answers and is healthy.",
        },
        Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
        Column {
            name: "Zones",
            kind: "string",
            path: ".spec.zones",
            priority: 1,
            description: "Zones that the member cluster spans.",
        },
        Column {
            name: "Region",
            kind: "string",
            path: ".spec.region",
            priority: 1,
            description: "Region that the member cluster is in.",
        },
        Column {
            name: "Provider",
            kind: "string",
            path: ".spec.provider",
            priority: 1,
            description: "Cloud provider of the member cluster.",
        },
        Column {
            name: "API-Endpoint",
            kind: "string",
            path: ".spec.apiEndpoint",
            priority: 1,
            description: "Address of the member cluster's API server.",
        },
        Column {
            name: "Proxy-URL",
            kind: "string",
            path: ".spec.proxyURL",
            priority: 1,
            description: "Proxy on the way to the member cluster.",
        },
        Column {
            name: "Replicas",
            kind: "string",
            path: "%ready",
            priority: 1,
            description: "Replicas that are ready there, and that are wanted there.",
        },
        Column {
            name: "Missing",
            kind: "integer",
            path: "%missing",
            priority: 1,
            description: "Replicas that are wanted there and not ready, or whose cluster is not reachable.",
        },
    ];
    const SQL_COLUMNS: &'static [SqlColumn] = &[SqlColumn::condition("ready", "Ready")];
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.cluster.v1alpha1";

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        cluster_rules::prepare(object, given);
    }

    fn validate(object: &Cluster, _old: Option<&Cluster>) -> FieldErrors {
        cluster_rules::check(object)
    }
}

/// The connection to a cluster, its location, its taints and its resource models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Identity of the cluster, usually the UID of its `kube-system` namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Direction in which changes are synchronized: `Push` or `Pull`.
    #[schema(default = "")]
    pub sync_mode: String,
    /// Address of the cluster's API server: `https://host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_endpoint: Option<String>,
    /// Secret with the credentials for the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// Secret with the token of the impersonator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    /// Whether the cluster's certificate is not verified. This is unsafe.
    #[serde(default, rename = "insecureSkipTLSVerification", skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verification: Option<bool>,
    /// Proxy between the control plane and the cluster.
    #[serde(default, rename = "proxyURL", skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Headers for the proxy.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub proxy_header: Pairs<String>,
    /// Cloud provider of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Region that the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Zone of a cluster in one zone. Superseded by `zones`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Zones that the cluster spans.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Taints of the cluster. They repel workloads that do not tolerate them.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Classes by which nodes are counted. A class is a range of resources.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub resource_models: Vec<ResourceModel>,
}

/// A reference to a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalSecretReference {
    /// Namespace of the secret.
    #[schema(default = "")]
    pub namespace: String,
    /// Name of the secret.
    #[schema(default = "")]
    pub name: String,
}

/// A class of nodes, defined by ranges of their resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceModel {
    /// Rank of the class. Ranks count up from 0.
    #[schema(default = 0)]
    pub grade: i32,
    /// Range of each resource in the class.
    pub ranges: Vec<ResourceModelRange>,
}

/// The range of one resource in a class, from `min` up to, but not including, `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceModelRange {
    /// Name of the resource.
    #[schema(default = "")]
    pub name: String,
    /// Smallest amount in the class.
    #[schema(value_type = String)]
    pub min: Quantity,
    /// Smallest amount above the class.
    #[schema(value_type = String)]
    pub max: Quantity,
}
