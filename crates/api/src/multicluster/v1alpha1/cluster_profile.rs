//! ClusterProfile: a cluster of the fleet, for programs that do not know its manager. Only Ballast
//! writes it.

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
        /// Display name of the cluster, and the program that manages it.
        pub spec: ClusterProfileSpec,
        /// The state of the cluster.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ClusterProfileStatus,
    }
}

/// Display name of a cluster, and the program that manages it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// Display name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Program that manages the cluster. It never changes.
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
    /// Version of the cluster.
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
    /// Older name of `accessProviders`.
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
    /// Value of the property.
    #[schema(min_length = 1, max_length = 1024)]
    pub value: String,
    /// Time at which the value was observed on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
}

/// A way to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccessProvider {
    /// Name of the provider.
    pub name: String,
    /// Connection to the cluster, as in a kubeconfig.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub cluster: ClientCluster,
}

/// The connection to a cluster, as in a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ClientCluster {
    /// Address of the API server: `https://host:port`.
    pub server: String,
    /// Name in the certificate of the server, if it is not the host of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Whether the certificate of the server is not verified. This is unsafe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// File with the CA of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// CA of the server, in base64.
    #[schema(format = Byte)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// Proxy between the client and the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Whether responses are not compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_compression: Option<bool>,
    /// Further information for clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<Extension>)]
    pub extensions: Vec<Extension>,
}

/// An extension of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Extension {
    /// Name of the extension.
    pub name: String,
    /// Content of the extension.
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
