//! A binding as plans use it: parsed once, and small, because a plan holds up to 100,000 of them.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use super::PlanningSnapshot;
use crate::move_annotation::MoveAnnotation;
use crate::{convert, together};
use ballast_api::ballast::v1alpha1::{BindingRef, MoveReason, Share, WorkloadRef};
use ballast_api::core::Toleration;
use ballast_api::fleet::placement::v1beta1::any::{self as fleet, PlacementKinds};
use ballast_api::karmada::work::v1alpha2::{
    AggregatedStatusItem, Aim, AnyBinding, BINDINGS, GracefulEvictionTask, Home, ResourceHealth, kind_of,
};
use ballast_engine::karmada::{Placement, Request, Requirements, Shared, Target, TargetIndex, WorkloadGroups};
use ballast_k8s::{Key, Object, read_json};
use ballast_watch::View;
use ballast_worker::placements;

/// A binding of the Karmada family, or a placement of the KubeFleet family.
#[derive(Clone, Debug)]
pub struct ParsedBinding {
    pub object: Arc<Object>,
    pub binding: BindingRef,
    pub workload: WorkloadRef,
    /// The request to the engine. For a KubeFleet placement, it contains only the present targets.
    pub request: Request,
    /// The former placement, if the binding lost targets and has not returned.
    pub home: Option<Box<Home>>,
    /// The last plan with an objective that has moved the binding. `has_stayed`: whether the
    /// binding still has the targets of that plan.
    pub aim: Option<Box<Aim>>,
    has_stayed: bool,
    /// The running rebalance that moves the binding: `clusterrebalances/<name>` or
    /// `rebalances/<namespace>/<name>`.
    pub moved_by: Option<Box<str>>,
    /// Clusters from which the binding is evicted only because of a taint.
    pub(super) evicted_by_taint: Box<[Box<str>]>,
    /// The tolerations of the placement, if any of them is limited in time.
    pub(super) limited: Box<[Toleration]>,
}

impl ParsedBinding {
    /// Returns the binding or placement of this key, or `None` if it does not exist or is invalid.
    pub fn find(view: &View, key: &Key) -> Option<ParsedBinding> {
        let object = view.get(key)?;
        match PlacementKinds::of(key.resource) {
            Some(kinds) => Some(ParsedBinding::of_placement(view, object, kinds)),
            None => ParsedBinding::of(object),
        }
    }

    /// Parses a binding. Returns `None` if the object is not a binding of the Karmada family, or is
    /// invalid. A binding that references a workload of another namespace has no effect, and is
    /// skipped (WH7).
    pub fn of(object: &Arc<Object>) -> Option<ParsedBinding> {
        Some(ParsedBinding::read(object)?.0)
    }

    /// Parses like `of`, and also returns the binding itself.
    pub fn read(object: &Arc<Object>) -> Option<(ParsedBinding, AnyBinding)> {
        if !BINDINGS.contains(&object.key.resource) {
            return None;
        }
        let binding: AnyBinding = read_json(&object.text.content()).ok()?;
        let workload = binding.spec.resource.clone().of_binding(&object.key.namespace)?;
        let request = convert::karmada::request(&binding.metadata, &binding.spec, &binding.status);
        let tasks = &binding.spec.graceful_eviction_tasks;
        let is_only_by_taint = |cluster: &&str| {
            tasks.iter().filter(|task| task.from_cluster == **cluster).all(GracefulEvictionTask::is_by_taint)
        };
        let left: BTreeSet<&str> = tasks.iter().map(|task| &*task.from_cluster).collect();
        let tolerations = binding.spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
        let is_limited = tolerations.iter().any(|toleration| toleration.toleration_seconds.is_some());
        let parsed = ParsedBinding {
            binding: reference(kind_of(object.key.resource), object),
            workload: WorkloadRef {
                api_version: workload.api_version,
                kind: workload.kind,
                namespace: workload.namespace,
                name: workload.name,
            },
            request,
            home: Home::of(&binding.metadata.annotations).map(Box::new),
            has_stayed: Aim::of(&binding).is_some(),
            aim: Aim::stored(&binding).map(Box::new),
            moved_by: MoveAnnotation::of(&binding.metadata.annotations).map(|it| it.by.into()),
            evicted_by_taint: left.into_iter().filter(is_only_by_taint).map(Box::from).collect(),
            limited: if is_limited { tolerations.into() } else { [].into() },
            object: Arc::clone(object),
        };
        Some((parsed, binding))
    }

    /// Shares equal placements and requirements with other bindings, to save memory and
    /// comparisons.
    pub(super) fn shared(mut self, common: &mut Common) -> ParsedBinding {
        share(&mut common.placements, &mut self.request.placement);
        share(&mut common.requirements, &mut self.request.requirements);
        self
    }

    /// Returns the binding with its time-limited tolerations made unlimited.
    #[must_use]
    pub fn tolerating_longer(&self) -> ParsedBinding {
        ParsedBinding { limited: [].into(), ..self.clone() }
    }

    /// Parses a placement of the KubeFleet family. It moves by a trigger, so only its present
    /// clusters are known.
    pub(super) fn of_placement(view: &View, object: &Arc<Object>, kinds: &PlacementKinds) -> ParsedBinding {
        let Key { namespace, name, .. } = &object.key;
        let bindings = placements::children(view, kinds.bindings, &object.key, &[]);
        let clusters: BTreeSet<String> = bindings
            .filter(|binding| !binding.deleting)
            .filter_map(|binding| Some(binding.typed::<fleet::AnyBinding>().ok()?.spec.target_cluster.clone()))
            .collect();
        let on = |cluster: &String| Target { name: cluster.as_str().into(), replicas: 0, components: Vec::new() };
        ParsedBinding {
            object: Arc::clone(object),
            binding: reference(kinds.kind, object),
            workload: WorkloadRef {
                api_version: fleet::API_VERSION.to_owned(),
                kind: kinds.kind.to_owned(),
                namespace: (!namespace.is_empty()).then(|| namespace.to_string()),
                name: name.to_string(),
            },
            request: Request {
                namespace: (&**namespace).into(),
                name: (&**name).into(),
                deleting: object.deleting,
                targets: clusters.iter().map(on).collect(),
                ..Request::default()
            },
            home: None,
            aim: None,
            has_stayed: false,
            moved_by: None,
            evicted_by_taint: [].into(),
            limited: [].into(),
        }
    }

    /// Returns whether this is a placement of the KubeFleet family. It moves by being triggered.
    pub fn is_placement(&self) -> bool {
        PlacementKinds::of(self.object.key.resource).is_some()
    }

    /// Returns whether the binding is in a workload group, so that other members restrict its
    /// targets.
    pub(super) fn is_grouped(&self) -> bool {
        self.request.groups != WorkloadGroups::default()
    }

    /// Returns whether the binding may fit later in a plan that refuses it now for this reason.
    pub(super) fn waits(&self, refused: MoveReason) -> bool {
        refused == MoveReason::NoRoom || self.is_grouped()
    }

    /// Returns whether a plan with an objective has set the present targets, for the present number
    /// of replicas.
    pub fn is_aimed(&self) -> bool {
        let there: i64 = self.request.targets.iter().map(|target| i64::from(target.replicas)).sum();
        let is_whole = !self.request.is_shared() || there == i64::from(self.request.replicas);
        self.has_stayed && is_whole
    }

    /// Returns the present targets of the workload, sorted by name.
    pub fn from(&self) -> Vec<Share> {
        shares(&self.request.targets)
    }

    /// Returns whether these are the present targets, in any order.
    pub fn is_at(&self, targets: &[Target]) -> bool {
        together::is_at(&self.request.targets, targets)
    }

    /// Returns the number of replicas that arrive at clusters with these targets.
    pub fn arrivals(&self, to: &[Target]) -> i64 {
        let present = TargetIndex::new(&self.request.targets);
        let more = |target: &Target| (i64::from(target.replicas) - present.replicas_on(&target.name)).max(0);
        to.iter().map(more).sum()
    }

    /// Returns the number of available replicas on a cluster: all, unless a report contains a lower
    /// number, and zero on a cluster that is not Ready.
    pub(super) fn available_on(&self, cluster: &str, reports: &Reports, unready: &BTreeSet<Arc<str>>) -> i64 {
        let there = self.request.replicas_on(cluster);
        if unready.contains(cluster) {
            return 0;
        }
        reports
            .0
            .iter()
            .find(|(name, _)| **name == *cluster)
            .map_or(there, |(_, told)| told.unwrap_or(there).min(there))
    }

    /// Returns the reports of the clusters. They are parsed only on demand.
    pub(super) fn reports(&self) -> Reports {
        let binding = read_json::<AnyBinding>(&self.object.text.content());
        let items = binding.map(|binding| binding.status.aggregated_status).unwrap_or_default();
        Reports(items.into_iter().map(|item| (item.cluster_name.as_str().into(), available(&item))).collect())
    }
}

/// The placements and requirements that bindings share.
#[derive(Default)]
pub(super) struct Common {
    placements: HashSet<Shared<Placement>>,
    requirements: HashSet<Shared<Requirements>>,
}

fn share<T: Eq + Hash>(known: &mut HashSet<Shared<T>>, own: &mut Option<Shared<T>>) {
    let Some(value) = own else { return };
    match known.get(value) {
        Some(same) => *value = same.clone(),
        None => drop(known.insert(value.clone())),
    }
}

/// The available replicas by cluster. `None`: the report has no number and is not unhealthy.
pub(super) struct Reports(Vec<(Box<str>, Option<i64>)>);

fn available(item: &AggregatedStatusItem) -> Option<i64> {
    let status = item.status.as_ref().map(|status| status.value()).unwrap_or_default();
    let number = ["availableReplicas", "readyReplicas"].iter().find_map(|field| status[*field].as_i64());
    number.or((item.health == Some(ResourceHealth::Unhealthy)).then_some(0))
}

fn reference(kind: &str, object: &Object) -> BindingRef {
    let Key { namespace, name, .. } = &object.key;
    BindingRef {
        kind: kind.to_owned(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_string()),
        name: name.to_string(),
        uid: object.uid.to_string(),
    }
}

/// Returns the targets in the form of moves, sorted by name.
pub fn shares(targets: &[Target]) -> Vec<Share> {
    let share = |target: &Target| Share { name: target.name.to_string(), replicas: target.replicas };
    let mut shares: Vec<Share> = targets.iter().map(share).collect();
    shares.sort_unstable();
    shares
}

impl PlanningSnapshot {
    /// Returns the binding or placement of this key in the view.
    pub fn find(&self, key: &Key) -> Option<ParsedBinding> {
        ParsedBinding::find(&self.view, key)
    }
}
