//! Decides one case of Karmada's kinds, and reports it in the format of the vectors' `expect`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Case, Malformed, Options};
use ballast_api::ballast::v1alpha1::Share;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::policy::v1alpha1::Placement;
use ballast_api::karmada::work::v1alpha2::{
    ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus, TargetCluster,
};
use ballast_api::meta::ObjectMeta;
use ballast_engine::karmada::{self as engine, ClusterSet, Outcome, Pass, Request, Trace, Workloads};
use ballast_scheduler::convert::karmada as convert;

/// The binding after the pass.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub scheduled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<&'static str>,
    /// Sorted by name.
    pub clusters: Vec<ExpectedTarget>,
    pub condition: Option<ExpectedCondition>,
    pub affinity_name: String,
    pub last_scheduled_time_set: bool,
    pub last_scheduled_time_updated: bool,
    pub observed_generation: i64,
    pub applied_placement: &'static str,
    pub requeue: &'static str,
}

#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct ExpectedTarget {
    pub name: String,
    pub replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct TargetComponent {
    pub name: String,
    pub replicas: i32,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExpectedCondition {
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// Returns the result of a case, with the reasons if `explained`.
pub fn decide(case: &Case, options: &Options, explained: bool) -> Result<(Report, Option<Trace>), Malformed> {
    let (fleet, workloads, binding) = read(case)?;
    let request = binding.request();
    let profile = options.profile(&case.gates);
    let mut pass = Pass::new(&fleet, &workloads, &profile);
    if !explained {
        return Ok((binding.report(&pass.decide(&request)), None));
    }
    let (decision, trace) = pass.explain(&request);
    Ok((binding.report(&decision), Some(trace)))
}

/// Parses the clusters, workloads and binding of a case.
pub fn read(case: &Case) -> Result<(ClusterSet, Workloads, Binding), Malformed> {
    let mut fleet = ClusterSet::default();
    for (index, cluster) in case.clusters.iter().enumerate() {
        let cluster: Cluster = decode(case, &format!("clusters[{index}]"), cluster)?;
        fleet.upsert(convert::cluster(&cluster).0);
    }
    let mut workloads = Workloads::default();
    for (index, other) in case.others.iter().enumerate() {
        let request = Binding::decode(case, &format!("otherBindings[{index}]"), other)?.request();
        let Request { namespace, name, groups, targets, .. } = &request;
        workloads.upsert(namespace, name, groups, groups, targets);
    }
    let binding = Binding::decode(case, "binding", &case.binding)?;
    Ok((fleet, workloads, binding))
}

fn decode<T: DeserializeOwned>(case: &Case, what: &str, value: &Value) -> Result<T, Malformed> {
    T::deserialize(value).map_err(|error| Malformed { id: Some(case.id.clone()), why: format!("{what}: {error}") })
}

/// A binding of either kind.
pub struct Binding {
    pub metadata: ObjectMeta,
    pub spec: ResourceBindingSpec,
    pub status: ResourceBindingStatus,
}

impl Binding {
    fn decode(case: &Case, what: &str, value: &Value) -> Result<Binding, Malformed> {
        if value["kind"] == "ClusterResourceBinding" {
            let ClusterResourceBinding { metadata, spec, status, .. } = decode(case, what, value)?;
            return Ok(Binding { metadata, spec, status });
        }
        let ResourceBinding { metadata, spec, status, .. } = decode(case, what, value)?;
        Ok(Binding { metadata, spec, status })
    }

    /// Returns the targets of the binding, by name.
    pub fn targets(&self) -> Vec<ExpectedTarget> {
        let mut targets: Vec<ExpectedTarget> = self.spec.clusters.iter().map(ExpectedTarget::before).collect();
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        targets
    }

    pub fn request(&self) -> Request {
        convert::request(&self.metadata, &self.spec, &self.status)
    }

    pub fn report(&self, decision: &engine::Decision) -> Report {
        let skip = match decision.outcome {
            Outcome::Skipped(skip) => Some(skip.as_str()),
            _ => None,
        };
        let mut clusters: Vec<ExpectedTarget> = match decision.targets() {
            Some(targets) => targets.iter().map(ExpectedTarget::of).collect(),
            None => self.spec.clusters.iter().map(ExpectedTarget::before).collect(),
        };
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        let term = decision.term().or(self.status.scheduler_observed_affinity_name.as_deref());
        let observed = if decision.observes_generation() {
            self.metadata.generation
        } else {
            self.status.scheduler_observed_generation
        };
        Report {
            scheduled: decision.is_scheduled(),
            skip,
            clusters,
            condition: self.condition(decision),
            affinity_name: term.unwrap_or_default().to_owned(),
            last_scheduled_time_set: decision.is_success() || self.status.last_scheduled_time.is_some(),
            last_scheduled_time_updated: decision.is_success(),
            observed_generation: observed.unwrap_or_default(),
            applied_placement: self.applied_placement(decision),
            requeue: decision.requeue().as_str(),
        }
    }

    fn condition(&self, decision: &engine::Decision) -> Option<ExpectedCondition> {
        if let Some(condition) = decision.condition() {
            let status = if condition.status { "True" } else { "False" };
            return Some(ExpectedCondition {
                status: status.to_owned(),
                reason: condition.reason.to_owned(),
                message: condition.message.to_owned(),
            });
        }
        let before = self.status.conditions.iter().find(|condition| condition.type_ == "Scheduled")?;
        Some(ExpectedCondition {
            status: before.status.clone(),
            reason: before.reason.clone(),
            message: before.message.clone(),
        })
    }

    fn applied_placement(&self, decision: &engine::Decision) -> &'static str {
        if decision.applies_placement() {
            return "current";
        }
        let Some(applied) = self.metadata.annotations.get(convert::APPLIED_PLACEMENT) else { return "absent" };
        let applied: Option<Placement> = serde_json::from_str(applied).ok();
        if applied.is_some() && applied.as_ref() == self.spec.placement.as_deref() { "current" } else { "unchanged" }
    }
}

impl ExpectedTarget {
    fn of(target: &engine::Target) -> ExpectedTarget {
        let components = target
            .components
            .iter()
            .map(|component| TargetComponent { name: component.name.to_string(), replicas: component.replicas });
        ExpectedTarget { name: target.name.to_string(), replicas: target.replicas, components: components.collect() }
    }

    /// Returns a target without components.
    pub fn plain(share: Share) -> ExpectedTarget {
        ExpectedTarget { name: share.name, replicas: share.replicas, components: Vec::new() }
    }

    fn before(cluster: &TargetCluster) -> ExpectedTarget {
        let components = cluster
            .components
            .iter()
            .map(|component| TargetComponent { name: component.name.clone(), replicas: component.replicas });
        ExpectedTarget {
            name: cluster.name.clone(),
            replicas: cluster.replicas.unwrap_or_default(),
            components: components.collect(),
        }
    }
}
