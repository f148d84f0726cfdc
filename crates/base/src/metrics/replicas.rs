//! The replicas that share a log, from the last reports that this one received.
//!
//! The series are rebuilt on each request for metrics, so a removed replica leaves none, and
//! silence grows also while the database is unreachable.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};

/// The last report of a replica.
#[derive(Clone, Debug)]
pub struct Replica {
    pub name: String,
    /// The address at which the others reach it, `host:port`.
    pub address: String,
    /// The version of the replica's program.
    pub version: String,
    /// Whether it is this process.
    pub is_here: bool,
    /// Whether it leads.
    pub leads: bool,
    /// The changes that its view is known to lack.
    pub missing: u64,
    /// The time since its view was last known to be the newest.
    pub lag: Duration,
    /// The time since its last report, when this process read it.
    pub silent: Duration,
}

/// The metric families of replicas, and the reports that they show.
#[derive(Clone)]
pub struct Replicas {
    info: IntGaugeVec,
    leads: IntGaugeVec,
    missing: IntGaugeVec,
    lag: GaugeVec,
    silence: GaugeVec,
    heard: Arc<Mutex<Heard>>,
}

/// The last reports, and when they were received.
type Heard = Option<(Instant, Vec<Replica>)>;

impl Replicas {
    pub fn new() -> Result<Replicas, prometheus::Error> {
        let gauges = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &["name"]);
        let seconds = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &["name"]);
        let info = Opts::new("ballast_replica_info", "The replicas that share the log; here is the one that is asked.");
        Ok(Replicas {
            info: IntGaugeVec::new(info, &["name", "address", "version", "here"])?,
            leads: gauges("ballast_replica_leads", "Whether the replica holds the lease.")?,
            missing: gauges("ballast_replica_missing_revisions", "Changes of the log that the replica knows to miss.")?,
            lag: seconds(
                "ballast_replica_lag_seconds",
                "The time since the replica's state was last known to be the newest, as it said.",
            )?,
            silence: seconds("ballast_replica_silence_seconds", "How long the replica has said nothing.")?,
            heard: Arc::default(),
        })
    }

    /// Sets the reports that were just received. The caller bounds their number.
    pub fn set(&self, replicas: Vec<Replica>) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), replicas));
    }

    fn families(&self) -> [&dyn Collector; 5] {
        [&self.info, &self.leads, &self.missing, &self.lag, &self.silence]
    }
}

impl Collector for Replicas {
    fn desc(&self) -> Vec<&Desc> {
        self.families().into_iter().flat_map(|it| it.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Held until the end: another request must not reset the metrics that this one reads.
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        for family in [&self.info, &self.leads, &self.missing] {
            family.reset();
        }
        self.lag.reset();
        self.silence.reset();
        for (told, replica) in heard.iter().flat_map(|(told, replicas)| replicas.iter().map(move |it| (told, it))) {
            let Replica { name, address, version, is_here, leads, missing, lag, silent } = replica;
            let here = if *is_here { "true" } else { "false" };
            self.info.with_label_values(&[name, address, version, here]).set(1);
            self.leads.with_label_values(&[name]).set(i64::from(*leads));
            self.missing.with_label_values(&[name]).set(i64::try_from(*missing).unwrap_or(i64::MAX));
            self.lag.with_label_values(&[name]).set(lag.as_secs_f64());
            self.silence.with_label_values(&[name]).set((*silent + told.elapsed()).as_secs_f64());
        }
        self.families().into_iter().flat_map(|it| it.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, silent: Duration) -> Replica {
        let (address, version) = (format!("{name}:7443"), "0.1.0".to_owned());
        let is_here = name == "anna";
        Replica { name: name.into(), address, version, is_here, leads: is_here, missing: 3, lag: silent, silent }
    }

    fn text(replicas: &Replicas) -> String {
        // Like a request: a registry omits families without series.
        let registry = prometheus::Registry::new();
        registry.register(Box::new(replicas.clone())).unwrap();
        prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn me5_who_has_gone_leaves_no_series_and_who_is_silent_stays_so() {
        let replicas = Replicas::new().unwrap();
        assert!(!text(&replicas).contains("ballast_replica_leads{"), "nothing was heard yet");
        replicas.set(vec![replica("anna", Duration::ZERO), replica("bert", Duration::from_secs(40))]);
        let both = text(&replicas);
        for line in [
            "ballast_replica_info{address=\"anna:7443\",here=\"true\",name=\"anna\",version=\"0.1.0\"} 1",
            "ballast_replica_leads{name=\"anna\"} 1",
            "ballast_replica_leads{name=\"bert\"} 0",
            "ballast_replica_missing_revisions{name=\"bert\"} 3",
            "ballast_replica_lag_seconds{name=\"bert\"} 40",
        ] {
            assert!(both.lines().any(|it| it == line), "{line} is missing in:\n{both}");
        }
        let silence = both.lines().find_map(|it| it.strip_prefix("ballast_replica_silence_seconds{name=\"bert\"} "));
        assert!(silence.unwrap().parse::<f64>().unwrap() >= 40.0, "{both}");
        replicas.set(vec![replica("anna", Duration::ZERO)]);
        assert!(!text(&replicas).contains("bert"));
    }
}
