//! Flags about authentication, authorization and the host cluster, with the names that extension
//! API servers share.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::GoDuration;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct IdentityArgs {
    /// CAs (PEM) of client certificates, instead of the development CA or the host cluster's
    #[arg(long, env = "BALLAST_CLIENT_CA_FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// CAs (PEM) of front proxies, which name the user in headers. Default: the CAs of the host
    /// cluster
    #[arg(long, env = "BALLAST_REQUESTHEADER_CLIENT_CA_FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,

    /// Allowed common names of front proxies. Default: every certificate of their CA
    #[arg(
        long,
        env = "BALLAST_REQUESTHEADER_ALLOWED_NAMES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file"
    )]
    pub requestheader_allowed_names: Vec<String>,

    /// Headers that name the user, in order of preference
    #[arg(
        long,
        env = "BALLAST_REQUESTHEADER_USERNAME_HEADERS",
        value_delimiter = ',',
        default_value = "x-remote-user"
    )]
    pub requestheader_username_headers: Vec<String>,

    /// Headers that contain the user's uid
    #[arg(long, env = "BALLAST_REQUESTHEADER_UID_HEADERS", value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,

    /// Headers that name the user's groups
    #[arg(long, env = "BALLAST_REQUESTHEADER_GROUP_HEADERS", value_delimiter = ',', default_value = "x-remote-group")]
    pub requestheader_group_headers: Vec<String>,

    /// Prefixes of headers that contain extra fields of the user
    #[arg(
        long,
        env = "BALLAST_REQUESTHEADER_EXTRA_HEADERS_PREFIX",
        value_delimiter = ',',
        default_value = "x-remote-extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,

    /// Bearer tokens of a standalone server: lines of `sha256:HASH,USER,UID,"GROUPS"`
    #[arg(long, env = "BALLAST_TOKEN_AUTH_FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Accept requests without a credential as system:anonymous. Default: only behind a host
    /// cluster
    #[arg(long, env = "BALLAST_ANONYMOUS_AUTH", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub anonymous_auth: Option<bool>,

    /// Authorization policy (YAML) of a standalone server. Without it, members of system:masters
    /// may do everything, and others may only read discovery and review their own permissions
    #[arg(long, env = "BALLAST_AUTHORIZATION_POLICY_FILE")]
    pub authorization_policy_file: Option<PathBuf>,

    /// Paths that every client may read; a `*` at the end includes the paths below
    #[arg(
        long,
        env = "BALLAST_AUTHORIZATION_ALWAYS_ALLOW_PATHS",
        value_delimiter = ',',
        default_values_t = ballast_auth::OPEN_PATHS.map(str::to_owned)
    )]
    pub authorization_always_allow_paths: Vec<String>,
}

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostArgs {
    /// Kubeconfig of the host cluster, which reviews tokens and accesses, and configures the front
    /// proxies
    #[arg(long, env = "BALLAST_KUBECONFIG", conflicts_with = "in_cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// Use the cluster that this process runs in as the host cluster
    #[arg(long, env = "BALLAST_IN_CLUSTER")]
    pub in_cluster: bool,

    /// Kubeconfig for token reviews, instead of --kubeconfig
    #[arg(long, env = "BALLAST_AUTHENTICATION_KUBECONFIG")]
    pub authentication_kubeconfig: Option<PathBuf>,

    /// Kubeconfig for access reviews, instead of --kubeconfig
    #[arg(long, env = "BALLAST_AUTHORIZATION_KUBECONFIG", conflicts_with = "authorization_policy_file")]
    pub authorization_kubeconfig: Option<PathBuf>,

    /// Do not read kube-system/extension-apiserver-authentication; use the flags only
    #[arg(long, env = "BALLAST_AUTHENTICATION_SKIP_LOOKUP")]
    pub authentication_skip_lookup: bool,

    /// Start even if that ConfigMap cannot be read, and read it as soon as possible
    #[arg(long, env = "BALLAST_AUTHENTICATION_TOLERATE_LOOKUP_FAILURE")]
    pub authentication_tolerate_lookup_failure: bool,

    /// Refuse to create objects in namespaces that are missing in the host cluster or terminating
    #[arg(long, env = "BALLAST_NAMESPACE_LIFECYCLE", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub namespace_lifecycle: bool,

    /// Call the host cluster's admission webhooks with rules that match the kinds served here
    #[arg(long, env = "BALLAST_ADMISSION_WEBHOOKS", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub admission_webhooks: bool,

    /// Evaluate the host cluster's validating and mutating admission policies that match the kinds
    /// served here
    #[arg(long, env = "BALLAST_ADMISSION_POLICIES", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub admission_policies: bool,

    /// Call validating webhooks and evaluate validating policies that match updates of bindings
    /// also for placements of the scheduler and of rebalances, before they are committed
    #[arg(long, value_name = "BOOL", env = "BALLAST_ADMISSION_WEBHOOKS_FOR_WORKERS", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub admission_webhooks_for_workers: bool,

    /// Post events to the host cluster
    #[arg(long, env = "BALLAST_HOST_EVENTS", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub host_events: bool,

    /// Run the workers only while holding a lease of the host cluster. A replica without the lease
    /// serves requests and stands by. Replicas that share a database write in the term of the lease
    #[arg(long, env = "BALLAST_LEADER_ELECT", num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Other replicas take over the lease after this time without a renewal, in whole seconds
    #[arg(long, env = "BALLAST_LEADER_ELECT_LEASE_DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: GoDuration,

    /// The holder gives up after this time without a renewal; less than the lease duration
    #[arg(long, env = "BALLAST_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s")]
    pub leader_elect_renew_deadline: GoDuration,

    /// Time between two attempts to acquire or renew the lease; less than the renew deadline
    #[arg(long, env = "BALLAST_LEADER_ELECT_RETRY_PERIOD", default_value = "2s")]
    pub leader_elect_retry_period: GoDuration,

    /// Name of the lease
    #[arg(long, env = "BALLAST_LEADER_ELECT_RESOURCE_NAME", default_value = "ballast")]
    pub leader_elect_resource_name: String,

    /// Namespace of the lease
    #[arg(long, env = "BALLAST_LEADER_ELECT_RESOURCE_NAMESPACE", default_value = "ballast-system")]
    pub leader_elect_resource_namespace: String,

    /// How long the response to a TokenReview is cached
    #[arg(long, env = "BALLAST_AUTHENTICATION_TOKEN_WEBHOOK_CACHE_TTL", default_value = "10s")]
    pub authentication_token_webhook_cache_ttl: GoDuration,

    /// How long a SubjectAccessReview that allows is cached
    #[arg(long, env = "BALLAST_AUTHORIZATION_WEBHOOK_CACHE_AUTHORIZED_TTL", default_value = "10s")]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,

    /// How long a SubjectAccessReview that denies is cached
    #[arg(long, env = "BALLAST_AUTHORIZATION_WEBHOOK_CACHE_UNAUTHORIZED_TTL", default_value = "10s")]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
}
