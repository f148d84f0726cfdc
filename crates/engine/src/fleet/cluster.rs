//! A member cluster as seen by the scheduler, and the set of all member clusters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::property::{ClusterProperty, Usage};
use ballast_k8s::{Quantity, Taint, Time, quantity};

/// Seconds for which a cluster stays eligible after its last heartbeat, or after it became
/// unhealthy.
const GRACE_SECONDS: i64 = 5 * 60;

/// Minutes that upstream reports for an event that never happened: its longest duration, 2⁶³-1
/// nanoseconds.
const NEVER_MINUTES: f64 = i64::MAX as f64 / 60e9;

/// A member cluster. Names and labels are few and are looked up often, so they are in sorted
/// slices, not in maps.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub name: Arc<str>,
    /// Whether the cluster is being deleted.
    pub leaving: bool,
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub taints: Vec<Taint>,
    /// The last report of the member agent. None: it has not reported yet.
    pub agent: Option<Agent>,
    pub properties: BTreeMap<Box<str>, Result<Quantity, quantity::Malformed>>,
    pub usage: BTreeMap<(Usage, Box<str>), Result<Quantity, quantity::Malformed>>,
    pub namespaces: Namespaces,
}

/// The last report of a member agent.
#[derive(Clone, Debug)]
pub struct Agent {
    pub heartbeat: Option<Time>,
    pub joined: bool,
    /// None: the agent has not reported its health.
    pub health: Option<Health>,
}

/// The health of a cluster, and since when it has had it.
#[derive(Clone, Debug)]
pub struct Health {
    pub healthy: bool,
    pub since: Option<Time>,
}

/// The namespaces of a cluster, as far as they are known.
#[derive(Clone, Debug)]
pub enum Namespaces {
    /// The cluster does not collect them, so any namespace may exist.
    NotCollected,
    /// The cluster collects them, but has not reported yet.
    Unavailable,
    /// Sorted.
    Known(Vec<Box<str>>),
}

/// The reason that no placement may use a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ineligible {
    Leaving,
    AgentOffline,
    /// Minutes since the last heartbeat.
    NoHeartbeat(f64),
    NotJoined,
    HealthUnknown,
    /// Minutes since the cluster became unhealthy.
    Unhealthy(f64),
}

impl Cluster {
    /// Checks whether placements may use the cluster at `now`. The error contains the reason if
    /// not.
    pub fn eligibility(&self, now: Time) -> Result<(), Ineligible> {
        if self.leaving {
            return Err(Ineligible::Leaving);
        }
        let agent = self.agent.as_ref().ok_or(Ineligible::AgentOffline)?;
        if is_overdue(agent.heartbeat, now) {
            return Err(Ineligible::NoHeartbeat(minutes_since(agent.heartbeat, now)));
        }
        if !agent.joined {
            return Err(Ineligible::NotJoined);
        }
        let health = agent.health.as_ref().ok_or(Ineligible::HealthUnknown)?;
        if !health.healthy && is_overdue(health.since, now) {
            return Err(Ineligible::Unhealthy(minutes_since(health.since, now)));
        }
        Ok(())
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(known, _)| known.as_ref().cmp(key)).ok()?;
        Some(&self.labels[found].1)
    }

    pub(super) fn find_property(&self, property: &ClusterProperty) -> Option<&Result<Quantity, quantity::Malformed>> {
        match property {
            ClusterProperty::Reported(name) => self.properties.get(name),
            ClusterProperty::Resource(key) => self.usage.get(key),
        }
    }
}

fn is_overdue(event: Option<Time>, now: Time) -> bool {
    event.is_none_or(|event| now.seconds() - event.seconds() > GRACE_SECONDS)
}

fn minutes_since(event: Option<Time>, now: Time) -> f64 {
    event.map_or(NEVER_MINUTES, |event| (now.seconds() - event.seconds()) as f64 / 60.0)
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Ineligible::Leaving {
            return f.write_str("cluster has left the fleet");
        }
        f.write_str("cluster is not connected to the fleet: ")?;
        match self {
            Ineligible::Leaving => unreachable!("said above"),
            Ineligible::AgentOffline => f.write_str("member agent not online yet"),
            Ineligible::NoHeartbeat(minutes) => {
                write!(f, "no recent heartbeat signals (last received {minutes:.2} minutes ago)")
            }
            Ineligible::NotJoined => f.write_str("member agent not joined yet"),
            Ineligible::HealthUnknown => f.write_str("health condition from member agent is not available"),
            Ineligible::Unhealthy(minutes) => {
                write!(f, "unhealthy for a prolonged period of time (last transitioned {minutes:.2} minutes ago)")
            }
        }
    }
}

/// All member clusters, by name. Clones share their data.
#[derive(Clone, Debug, Default)]
pub struct MemberClusters {
    clusters: imbl::OrdMap<Arc<str>, Arc<Cluster>>,
}

impl MemberClusters {
    pub fn upsert(&mut self, cluster: Cluster) {
        self.clusters.insert(Arc::clone(&cluster.name), Arc::new(cluster));
    }

    pub fn remove(&mut self, name: &str) {
        self.clusters.remove(name);
    }

    pub fn find(&self, name: &str) -> Option<&Cluster> {
        self.clusters.get(name).map(Arc::as_ref)
    }

    /// Iterates over all clusters in ascending order of names.
    pub fn iter(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters.values().map(Arc::as_ref)
    }

    pub fn len(&self) -> usize {
        self.clusters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }
}

impl FromIterator<Cluster> for MemberClusters {
    fn from_iter<I: IntoIterator<Item = Cluster>>(clusters: I) -> MemberClusters {
        let mut fleet = MemberClusters::default();
        clusters.into_iter().for_each(|cluster| fleet.upsert(cluster));
        fleet
    }
}
