//! Flags about the estimators in member clusters, with the names and defaults of Karmada's
//! scheduler (RM14).

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args};
use serde::Serialize;

use super::{Controllers, GoDuration};
use crate::UsageError;
use ballast_base::clock::Clock;
use ballast_estimator::{AddressFile, Addresses, EstimatorAccess, Estimators, ServiceNames, Services, TlsFiles};
use ballast_scheduler::RescueOptions;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct EstimatorArgs {
    /// Query the karmada-scheduler-estimator of each member cluster for the number of replicas that
    /// fit
    #[arg(long, env = "BALLAST_ENABLE_SCHEDULER_ESTIMATOR", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub enable_scheduler_estimator: bool,

    /// Do not query the estimators of clusters with syncMode Pull
    #[arg(long, value_name = "BOOL", env = "BALLAST_DISABLE_SCHEDULER_ESTIMATOR_IN_PULL_MODE", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub disable_scheduler_estimator_in_pull_mode: bool,

    /// Timeout of a request to an estimator. An estimator that exceeds it is ignored until it
    /// responds again
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_TIMEOUT", default_value = "3s")]
    pub scheduler_estimator_timeout: GoDuration,

    /// Namespace of the Services of estimators
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_SERVICE_NAMESPACE", default_value = "karmada-system")]
    pub scheduler_estimator_service_namespace: String,

    /// Prefix of the names of these Services; a dash and the name of the cluster follow
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_SERVICE_PREFIX", default_value = "karmada-scheduler-estimator")]
    pub scheduler_estimator_service_prefix: String,

    /// Port of these Services
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_PORT", default_value_t = 10352, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub scheduler_estimator_port: u16,

    /// Addresses of estimators, for hosts that cannot resolve the names of Services: a YAML file
    /// with `CLUSTER: HOST:PORT` lines. Clusters that it does not name have no estimator
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_ADDRESSES_FILE", value_name = "FILE")]
    pub scheduler_estimator_addresses_file: Option<PathBuf>,

    /// CA that verifies the certificates of estimators (PEM). Without it, and without
    /// --insecure-skip-estimator-verify, estimators are queried without TLS
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_CA_FILE", value_name = "FILE")]
    pub scheduler_estimator_ca_file: Option<PathBuf>,

    /// Client certificate for estimators (PEM)
    #[arg(
        long,
        env = "BALLAST_SCHEDULER_ESTIMATOR_CERT_FILE",
        value_name = "FILE",
        requires = "scheduler_estimator_key_file"
    )]
    pub scheduler_estimator_cert_file: Option<PathBuf>,

    /// Key of --scheduler-estimator-cert-file (PEM)
    #[arg(
        long,
        env = "BALLAST_SCHEDULER_ESTIMATOR_KEY_FILE",
        value_name = "FILE",
        requires = "scheduler_estimator_cert_file"
    )]
    pub scheduler_estimator_key_file: Option<PathBuf>,

    /// Accept every certificate of an estimator, without verification. For tests only
    #[arg(long, value_name = "BOOL", env = "BALLAST_INSECURE_SKIP_ESTIMATOR_VERIFY", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub insecure_skip_estimator_verify: bool,

    /// Send the workloads that are being placed to estimators, so that they find nodes for them.
    /// Only for estimators with the gate SchedulingOvercommitProtection: others ignore the list
    /// without an error, and return estimates that are too high
    #[arg(long, value_name = "BOOL", env = "BALLAST_SCHEDULER_ESTIMATOR_ASSUMED_WORKLOADS", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub scheduler_estimator_assumed_workloads: bool,

    /// How often the loop descheduler checks for replicas that their cluster cannot schedule
    #[arg(long, env = "BALLAST_DESCHEDULING_INTERVAL", default_value = "2m")]
    pub descheduling_interval: GoDuration,

    /// How long a replica has to be unschedulable before descheduler moves it
    #[arg(long, env = "BALLAST_UNSCHEDULABLE_THRESHOLD", default_value = "5m")]
    pub unschedulable_threshold: GoDuration,
}

impl EstimatorArgs {
    /// Returns the interval and threshold of the loop descheduler.
    pub fn rescue(&self) -> RescueOptions {
        RescueOptions { interval: self.descheduling_interval.0, threshold: self.unschedulable_threshold.0 }
    }

    /// Checks the flags of the loop descheduler.
    ///
    /// # Errors
    ///
    /// Returns an error if descheduler runs and no estimator is enabled, or its interval is zero.
    pub(super) fn settle(&self, controllers: &Controllers) -> Result<(), UsageError> {
        if !controllers.run("descheduler") {
            return Ok(());
        }
        let what = match self.enable_scheduler_estimator {
            false => "--controllers names descheduler, which needs --enable-scheduler-estimator",
            true if self.descheduling_interval.0.is_zero() => "--descheduling-interval 0s: give a time between rounds",
            true => return Ok(()),
        };
        Err(UsageError(what.to_owned()))
    }

    /// Opens the estimators that these flags configure. `None` if they are disabled. `services` is
    /// the API server that may know their Services.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be used, or if the timeout is zero.
    pub fn open(
        &self,
        services: Option<Box<dyn Services>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Estimators>, UsageError> {
        if !self.enable_scheduler_estimator {
            return Ok(None);
        }
        if self.scheduler_estimator_timeout.0.is_zero() {
            return Err(UsageError("--scheduler-estimator-timeout 0s: give estimators time to answer".to_owned()));
        }
        let addresses = match &self.scheduler_estimator_addresses_file {
            Some(path) => Addresses::File(
                AddressFile::open(path)
                    .map_err(|fault| UsageError(format!("--scheduler-estimator-addresses-file: {fault}")))?,
            ),
            None => {
                let names = ServiceNames {
                    namespace: self.scheduler_estimator_service_namespace.clone(),
                    prefix: self.scheduler_estimator_service_prefix.clone(),
                    port: self.scheduler_estimator_port,
                };
                Addresses::Services { names, services }
            }
        };
        let pair = self.scheduler_estimator_cert_file.clone().zip(self.scheduler_estimator_key_file.clone());
        let tls = TlsFiles {
            ca: self.scheduler_estimator_ca_file.clone(),
            identity: pair,
            skip_verify: self.insecure_skip_estimator_verify,
        };
        tls.check().map_err(|why| UsageError(format!("--scheduler-estimator-ca-file and its like: {why}")))?;
        let tells_assumed = self.scheduler_estimator_assumed_workloads;
        let reach = EstimatorAccess { addresses, tls, timeout: self.scheduler_estimator_timeout.0, tells_assumed };
        let asks_pull_mode = !self.disable_scheduler_estimator_in_pull_mode;
        Ok(Some(Estimators::new(reach, asks_pull_mode, Arc::clone(clock))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServeArgs;

    #[test]
    fn rm14_the_defaults_are_those_of_karmadas_scheduler() {
        let args = ServeArgs::default().estimators;
        assert!(!args.enable_scheduler_estimator && !args.disable_scheduler_estimator_in_pull_mode);
        assert!(!args.insecure_skip_estimator_verify && !args.scheduler_estimator_assumed_workloads);
        assert_eq!(args.scheduler_estimator_timeout.0.as_secs(), 3);
        assert_eq!(args.scheduler_estimator_service_namespace, "karmada-system");
        assert_eq!(args.scheduler_estimator_service_prefix, "karmada-scheduler-estimator");
        assert_eq!(args.scheduler_estimator_port, 10352);
        assert_eq!(args.rescue(), ballast_scheduler::RescueOptions::default());
    }
}
