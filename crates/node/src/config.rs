//! The configuration of `serve`, with every default. A flag overrides the environment, and the
//! environment overrides the default. Nothing else reads the environment. Flags that other
//! extension API servers also have use the same name here.

mod attach;
mod audit;
mod database;
mod controllers;
mod estimators;
mod failover;
mod feature_gates;
pub mod file;
mod history;
mod identity;
mod inventory;
mod members;
mod replicas;
mod rollout_gates;
mod tracing;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{UsageError, features};
use ballast_api::ballast::v1alpha1::{ClusterRebalance, Rebalance};
#[cfg(feature = "attach")]
use ballast_attach::Access;
use ballast_base::telemetry;
use ballast_engine::karmada::Profile;
use ballast_k8s::{GroupResource, duration};
use ballast_rebalance::review::ReviewDetails;
use ballast_resource::Resource;
use ballast_store as store;

pub use self::tracing::{Export, TracingArgs};
pub use attach::AttachArgs;
pub use audit::AuditArgs;
pub use controllers::{CONTROLLERS, Controllers, ControllersArgs};
pub use database::DatabaseArgs;
pub use estimators::EstimatorArgs;
pub use failover::FailoverArgs;
pub use feature_gates::FeatureGatesArgs;
pub use history::{ByteCount, HistoryArgs};
pub use identity::{HostArgs, IdentityArgs};
pub use inventory::InventoryArgs;
pub use members::MembersArgs;
pub use replicas::ReplicaArgs;
pub use rollout_gates::RolloutGateArgs;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServeArgs {
    /// Address to listen on
    #[arg(long, env = "BALLAST_BIND_ADDRESS", default_value = "127.0.0.1")]
    pub bind_address: IpAddr,

    /// Port to serve HTTPS on; 0 picks a free one, which the ready line reports
    #[arg(long, env = "BALLAST_SECURE_PORT", default_value_t = 7443, allow_negative_numbers = true)]
    pub secure_port: u16,

    /// Where objects are stored: `sqlite://PATH`, `postgres://USER@HOST/DATABASE`, or `memory:` to
    /// lose them when the process ends
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    #[serde(serialize_with = "without_password")]
    pub database_url: String,

    #[command(flatten)]
    #[serde(flatten)]
    pub database: DatabaseArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub history: HistoryArgs,

    /// Folder of the development CA, serving and admin certificates, created at the first start
    #[arg(long, env = "BALLAST_CERT_DIR", default_value = "certs")]
    pub cert_dir: PathBuf,

    /// Serving certificate (PEM, leaf first) to use instead of the development one
    #[arg(long, env = "BALLAST_TLS_CERT_FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Key of --tls-cert-file (PEM)
    #[arg(long, env = "BALLAST_TLS_PRIVATE_KEY_FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    pub replicas: ReplicaArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub identity: IdentityArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub host: HostArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub attach: AttachArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub members: MembersArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub inventory: InventoryArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub estimators: EstimatorArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub audit: AuditArgs,

    /// Origins of other sites whose pages may send requests and read responses, as regular
    /// expressions from `^` or `//` to `$` or `:`. Default: none
    #[arg(long, env = "BALLAST_CORS_ALLOWED_ORIGINS", value_delimiter = ',')]
    pub cors_allowed_origins: Vec<String>,

    /// Text over every screen of the page, such as PRODUCTION, to distinguish servers
    #[arg(long, env = "BALLAST_UI_BANNER", value_parser = banner)]
    pub ui_banner: Option<String>,

    /// Maximum number of concurrent read requests. Users share the limit fairly; further requests
    /// are queued and then rejected with 429. Watches do not count
    #[arg(long, env = "BALLAST_MAX_REQUESTS_INFLIGHT", default_value_t = 400, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_requests_inflight: u32,

    /// Maximum number of concurrent write requests. Users share the limit fairly; further requests
    /// are queued and then rejected with 429
    #[arg(long, env = "BALLAST_MAX_MUTATING_REQUESTS_INFLIGHT", default_value_t = 200, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_mutating_requests_inflight: u32,

    /// Maximum bytes of the objects of one namespace, such as 256Mi. A write of a client that
    /// exceeds it is rejected with 403. Default: no limit
    #[arg(long, env = "BALLAST_MAX_NAMESPACE_BYTES", value_parser = history::namespace_bytes)]
    pub max_namespace_bytes: Option<ByteCount>,

    /// Probability that a request over HTTP/2 moves its client to a new connection, to spread
    /// clients over replicas: from 0 to 0.02
    #[arg(long, env = "BALLAST_GOAWAY_CHANCE", default_value = "0")]
    pub goaway_chance: GoawayChance,

    /// How long requests are still served after SIGTERM while `/readyz` fails, so that load
    /// balancers notice
    #[arg(long, env = "BALLAST_SHUTDOWN_DELAY_DURATION", default_value = "0s")]
    pub shutdown_delay_duration: GoDuration,

    /// Profile of decisions. `default`: a Fresh pass ignores the current placement. `karmada`:
    /// decides like Karmada's scheduler
    #[arg(long, env = "BALLAST_SCHEDULING_PROFILE", value_enum, default_value_t)]
    pub scheduling_profile: SchedulingProfile,

    /// How long the request of a RescheduleTask may mark bindings, at most 50s. The rest is marked
    /// after the response, and the response reports this
    #[arg(long, env = "BALLAST_RESCHEDULE_TASK_MARKING_DURATION", default_value = "30s")]
    pub reschedule_task_marking_duration: GoDuration,

    /// Details about clusters in a LocalPlacementReview. `full`: names and free capacity of all
    /// clusters. `own`: only of clusters that bindings of its namespace are placed on or may be
    /// placed on
    #[arg(long, env = "BALLAST_LOCAL_REVIEW_DETAILS", value_enum, default_value_t)]
    pub local_review_details: LocalReviewDetails,

    /// Kinds of rebalances that require approval by another user than their creator before anything
    /// moves: `clusterrebalances` (also those of schedules), `rebalances`
    #[arg(long, env = "BALLAST_REQUIRE_APPROVAL", value_name = "KINDS", value_delimiter = ',', value_enum)]
    pub require_approval: Vec<ApprovedKind>,

    /// Name of this scheduler. Bindings that name another scheduler are ignored
    #[arg(long, env = "BALLAST_SCHEDULER_NAME", default_value = "default-scheduler")]
    pub scheduler_name: String,

    /// Make each selected cluster that gets no replicas a target, too, so that a workload without
    /// replicas is propagated to all of them
    #[arg(long, value_name = "BOOL", env = "BALLAST_ENABLE_EMPTY_WORKLOAD_PROPAGATION", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub enable_empty_workload_propagation: bool,

    /// How long the capacity for a placement stays reserved if its cluster does not report the
    /// number of replicas (SchedulingOvercommitProtection)
    #[arg(long, env = "BALLAST_RESERVATION_TTL", default_value = "5m")]
    pub reservation_ttl: GoDuration,

    #[command(flatten)]
    #[serde(flatten)]
    pub gates: FeatureGatesArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub rollout_gates: RolloutGateArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub controllers: ControllersArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub failover: FailoverArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub tracing: TracingArgs,

    /// Format of the log lines on standard error
    #[arg(long, env = "BALLAST_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// Log verbosity: 0 logs little, 2 adds passes and requests, 6 adds the libraries
    #[arg(short = 'v', long = "v", env = "BALLAST_V", default_value_t = 0, allow_negative_numbers = true)]
    #[serde(rename = "v")]
    pub verbosity: u8,

    /// File with flags, in the form that --print-config prints. The command line and the
    /// environment override it
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Print the configuration that results from flags, environment and defaults, and exit
    #[arg(long)]
    #[serde(skip)]
    pub print_config: bool,
}

fn without_password<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&store::shown(url))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingProfile {
    #[default]
    Default,
    Karmada,
}

impl SchedulingProfile {
    /// Returns the profile with its own defaults.
    pub fn rules(self) -> Profile {
        match self {
            SchedulingProfile::Default => Profile::ours(),
            SchedulingProfile::Karmada => Profile::karmada(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalReviewDetails {
    #[default]
    Full,
    Own,
}

impl From<LocalReviewDetails> for ReviewDetails {
    fn from(details: LocalReviewDetails) -> ReviewDetails {
        match details {
            LocalReviewDetails::Full => ReviewDetails::Full,
            LocalReviewDetails::Own => ReviewDetails::Own,
        }
    }
}

/// A kind that `--require-approval` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum ApprovedKind {
    ClusterRebalances,
    Rebalances,
}

impl ApprovedKind {
    pub fn resource(self) -> GroupResource {
        match self {
            ApprovedKind::ClusterRebalances => ClusterRebalance::resource(),
            ApprovedKind::Rebalances => Rebalance::resource(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl From<LogFormat> for telemetry::LogFormat {
    fn from(format: LogFormat) -> telemetry::LogFormat {
        match format {
            LogFormat::Text => telemetry::LogFormat::Text,
            LogFormat::Json => telemetry::LogFormat::Json,
        }
    }
}

/// A duration in the format of Go and Kubernetes: `10s`, `1m30s`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// Approximately the maximum of Go's `time.Duration`. Adding it to the current time does not
    /// overflow.
    const MAX: Duration = Duration::from_secs(290 * 365 * 24 * 60 * 60);
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<GoDuration, String> {
        let read = duration::parse(text).filter(|it| !text.is_empty() && *it <= GoDuration::MAX).map(GoDuration);
        read.ok_or_else(|| "write a duration as 10s, 1m30s or 500ms, not negative, at most 290 years".to_owned())
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

impl Serialize for GoDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ServeArgs {
    /// Leaves ten seconds of a request's minute (LI1) for the last transaction and the response.
    const MARKING_MAX: Duration = Duration::from_secs(50);

    /// Returns the address and port to listen on.
    pub fn listen_address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }

    /// Returns all flags with their values, as `--print-config` prints them.
    pub fn flags(&self) -> BTreeMap<String, String> {
        let text = |value: Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text,
            Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
            value => value.to_string(),
        };
        let Ok(Value::Object(all)) = serde_json::to_value(self) else { return BTreeMap::new() };
        all.into_iter().map(|(name, value)| (name, text(value))).collect()
    }

    /// Rejects flags of features that this binary is built without.
    fn refuse_missing_features(&self) -> Result<(), UsageError> {
        for (is_given, feature, flag) in [
            (self.ui_banner.is_some(), features::PAGE, "--ui-banner"),
            (self.attach.attach.is_some(), features::ATTACH, "--attach"),
            (self.tracing.export().is_some(), features::OTLP, "--otlp-endpoint"),
        ] {
            if is_given {
                feature.needed_by(flag)?;
            }
        }
        Ok(())
    }

    /// Resolves flags that depend on each other. Returns an error if they contradict each other.
    pub fn settled(mut self) -> Result<ServeArgs, UsageError> {
        self.refuse_missing_features()?;
        if self.attach.attach.is_some() && self.controllers.beneath_karmada {
            let text = "--attach and --beneath-karmada exclude each other: with --attach the Karmada keeps its \
                        clusters and bindings, and with --beneath-karmada this server keeps them; leave one of the \
                        flags out";
            return Err(UsageError(text.to_owned()));
        }
        #[cfg(feature = "attach")]
        if self.attach.attach.is_some() {
            self.controllers.settle_attached(Access::ReadWrite)?;
        }
        self.controllers.settle(&mut self.failover)?;
        self.estimators.settle(&self.controllers.chosen()?)?;
        self.gates.settle(self.scheduling_profile);
        self.failover.settle(self.scheduling_profile);
        let marking = self.reschedule_task_marking_duration;
        if marking.0 > ServeArgs::MARKING_MAX {
            let max = GoDuration(ServeArgs::MARKING_MAX);
            return Err(UsageError(format!("--reschedule-task-marking-duration {marking}: give at most {max}")));
        }
        Ok(self)
    }
}

impl Default for ServeArgs {
    /// Returns the configuration of `ballast serve` without flags in an empty environment.
    fn default() -> ServeArgs {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            args: ServeArgs,
        }
        <Only as clap::Parser>::parse_from(["ballast"]).args
    }
}

/// Maximum length of a banner in characters. It is shown on one line at the top of the page.
const BANNER_MAX: usize = 80;

/// Parses the text of `--ui-banner`.
pub fn banner(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("give a text, such as PRODUCTION".to_owned()),
        text if text.chars().count() > BANNER_MAX => Err(format!("give at most {BANNER_MAX} letters")),
        text if text.chars().any(char::is_control) => Err("give one line of text".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Probability that a request moves its client to a new connection (CU5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GoawayChance(f64);

impl GoawayChance {
    /// kube-apiserver's bound. Above it, clients would mainly open connections.
    const MAX: f64 = 0.02;

    pub fn per_million(self) -> u32 {
        (self.0 * 1e6).round() as u32
    }
}

impl FromStr for GoawayChance {
    type Err = String;

    fn from_str(text: &str) -> Result<GoawayChance, String> {
        let chance = text.parse::<f64>().ok().filter(|chance| (0.0..=GoawayChance::MAX).contains(chance));
        chance.map(GoawayChance).ok_or_else(|| "give a number from 0 to 0.02, such as 0.001".to_owned())
    }
}

/// Parses a share, from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "give a number from 0 to 1, such as 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let args = ServeArgs::default();
        assert_eq!(args.listen_address().to_string(), "127.0.0.1:7443");
        assert_eq!(
            (args.database_url.as_str(), args.scheduling_profile),
            ("sqlite://ballast.db", SchedulingProfile::Default)
        );
    }
}
