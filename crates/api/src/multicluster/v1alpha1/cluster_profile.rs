//! ClusterProfile: a cluster of the fleet, for programs that do not know who manages it. Only
//! Ballast writes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::free_form::FreeForm;
use crate::meta::Condition;
use crate::type_meta::kind;
use ballast_k8s::Time;
use ballast_resource::schema::mark::{AtomicList, Immutable, Keyed, MapList};
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// A cluster of the fleet.
    pub struct ClusterProfile {
        /// What the cluster is called, and which program manages it.
        pub spec: ClusterProfileSpec,
        /// The state of the cluster.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ClusterProfileStatus,
    }
}

/// What the cluster is called, and which program manages it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The program that manages the cluster. It never changes.
    #[schema(value_type = Immutable<ClusterManager>)]
    pub cluster_manager: ClusterManager,
}

/// A program that manages clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterManager {
    /// Name of the program.
    pub name: String,
}

/// The state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileStatus {
    /// Conditions of the cluster. `ControlPlaneHealthy` is one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
    /// The version of the cluster.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub version: ClusterVersion,
    /// Properties of the cluster, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Property>)]
    pub properties: Vec<Property>,
    /// Ways to reach the cluster, by the name of the plugin that has the credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<AccessProvider>)]
    pub access_providers: Vec<AccessProvider>,
    /// The older name of `accessProviders`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<AccessProvider>)]
    pub credential_providers: Vec<AccessProvider>,
}

/// The version of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterVersion {
    /// Version of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// A property of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Property {
    /// Name of the property.
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    /// Its value.
    #[schema(min_length = 1, max_length = 1024)]
    pub value: String,
    /// When the value was observed on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
}

/// A way to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccessProvider {
    /// Name of the provider.
    pub name: String,
    /// The cluster, as in a kubeconfig.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub cluster: ClientCluster,
}

/// A cluster as in a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClientCluster {
    /// Address of the API server: `https://host:port`.
    pub server: String,
    /// The name that the certificate of the server has, if it is not the host of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Whether the certificate of the server is not verified. This is unsafe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// A file with the CA of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// The CA of the server, in base64.
    #[schema(format = Byte)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// The proxy on the way to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Whether answers are not compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_compression: Option<bool>,
    /// What else a client knows of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<Extension>)]
    pub extensions: Vec<Extension>,
}

/// An extension of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Extension {
    /// Name of the extension.
    pub name: String,
    /// What it says.
    pub extension: FreeForm,
}

impl Keyed for Property {
    const KEYS: &'static [&'static str] = &["name"];
}

impl Keyed for AccessProvider {
    const KEYS: &'static [&'static str] = &["name"];
}

impl Resource for ClusterProfile {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "ClusterProfile";
    const PLURAL: &'static str = "clusterprofiles";
    const SINGULAR: &'static str = "clusterprofile";
    const SCOPE: Scope = Scope::Namespaced;
    const WRITTEN_BY_CLIENTS: bool = false;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] =
        &[Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" }];
    const SQL_COLUMNS: &'static [SqlColumn] = &[
        SqlColumn::field("manager", &["spec", "clusterManager", "name"]),
        SqlColumn::condition("healthy", super::CONTROL_PLANE_HEALTHY),
        SqlColumn::field("version", &["status", "version", "kubernetes"]),
    ];
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;
}
