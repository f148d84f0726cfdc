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
    /// Ask the karmada-scheduler-estimator of each member cluster how many replicas fit
    #[arg(long, env = "BALLAST_ENABLE_SCHEDULER_ESTIMATOR", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub enable_scheduler_estimator: bool,

    /// Do not ask the estimators of clusters whose syncMode is Pull
    #[arg(long, value_name = "BOOL", env = "BALLAST_DISABLE_SCHEDULER_ESTIMATOR_IN_PULL_MODE", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub disable_scheduler_estimator_in_pull_mode: bool,

    /// How long an estimator may take to answer. One that takes longer is left out until it answers
    /// again
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_TIMEOUT", default_value = "3s")]
    pub scheduler_estimator_timeout: GoDuration,

    /// Namespace of the Services of estimators
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_SERVICE_NAMESPACE", default_value = "karmada-system")]
    pub scheduler_estimator_service_namespace: String,

    /// What the names of these Services begin with; a dash and the name of the cluster follow
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_SERVICE_PREFIX", default_value = "karmada-scheduler-estimator")]
    pub scheduler_estimator_service_prefix: String,

    /// Port of these Services
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_PORT", default_value_t = 10352, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub scheduler_estimator_port: u16,

    /// Where estimators listen, for hosts that cannot resolve the names of Services: a YAML file
    /// with `CLUSTER: HOST:PORT` lines. Clusters that it does not name have no estimator
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_ADDRESSES_FILE", value_name = "FILE")]
    pub scheduler_estimator_addresses_file: Option<PathBuf>,

    /// CA that the certificates of estimators are checked with (PEM). Without it, and without
    /// --insecure-skip-estimator-verify, estimators are asked without TLS
    #[arg(long, env = "BALLAST_SCHEDULER_ESTIMATOR_CA_FILE", value_name = "FILE")]
    pub scheduler_estimator_ca_file: Option<PathBuf>,

    /// Certificate that estimators see (PEM)
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

    /// Accept every certificate of an estimator. For tests: whoever answers is believed
    #[arg(long, value_name = "BOOL", env = "BALLAST_INSECURE_SKIP_ESTIMATOR_VERIFY", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub insecure_skip_estimator_verify: bool,

    /// Tell estimators what is on its way to their clusters, so that they find nodes for it. Only
    /// for estimators with the gate SchedulingOvercommitProtection: others ignore it, do not say
    /// so, and answer too high
    #[arg(long, value_name = "BOOL", env = "BALLAST_SCHEDULER_ESTIMATOR_ASSUMED_WORKLOADS", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub scheduler_estimator_assumed_workloads: bool,

    /// How often the loop descheduler looks for replicas that their cluster cannot schedule
    #[arg(long, env = "BALLAST_DESCHEDULING_INTERVAL", default_value = "2m")]
    pub descheduling_interval: GoDuration,

    /// How long a replica has to be unschedulable before descheduler moves it
    #[arg(long, env = "BALLAST_UNSCHEDULABLE_THRESHOLD", default_value = "5m")]
    pub unschedulable_threshold: GoDuration,
}

impl EstimatorArgs {
    /// When the loop descheduler moves what.
    pub fn rescue(&self) -> RescueOptions {
        RescueOptions { interval: self.descheduling_interval.0, threshold: self.unschedulable_threshold.0 }
    }

    /// # Errors
    ///
    /// If descheduler runs, and has nobody to ask, or no pause.
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

    /// The estimators that these flags name. `None`: none is asked. `services` is the API server
    /// that may know their Services.
    ///
    /// # Errors
    ///
    /// A file cannot be used, or no time is left to answer.
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
