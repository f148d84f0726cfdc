//! Observations of a binding: the reports of its clusters, and the reason why it was superseded.
//! Pure.

use std::sync::Arc;

use crate::run::{self, ActiveMove};
use crate::settle::{ClusterReport, SettleLevel};
use ballast_api::ballast::v1alpha1::{MoveReason, SettleWhen, Share, ShareNow};
use ballast_api::karmada::work::v1alpha2::{AggregatedStatusItem, ResourceHealth};
use ballast_engine::karmada::{self as engine, ClusterSet, Profile, Request, Target};
use ballast_scheduler::move_annotation::Disturbance;

pub(super) fn settle_level(when: SettleWhen) -> SettleLevel {
    match when {
        SettleWhen::Scheduled => SettleLevel::Scheduled,
        SettleWhen::Applied => SettleLevel::Applied,
        SettleWhen::Healthy => SettleLevel::Healthy,
    }
}

/// Returns the reports of the clusters about a binding.
pub fn reports(items: &[AggregatedStatusItem]) -> Vec<ClusterReport<'_>> {
    items.iter().map(report_of).collect()
}

fn report_of(item: &AggregatedStatusItem) -> ClusterReport<'_> {
    let healthy = match item.health {
        Some(ResourceHealth::Healthy) => Some(true),
        Some(ResourceHealth::Unhealthy) => Some(false),
        Some(ResourceHealth::Unknown) | None => None,
    };
    ClusterReport {
        cluster: &item.cluster_name,
        applied: item.applied == Some(true),
        healthy,
        ready: item.ready_replicas(),
    }
}

pub(super) fn now(targets: &[Target], reports: &[ClusterReport<'_>]) -> Vec<ShareNow> {
    let ready = |name: &str| reports.iter().find(|report| report.cluster == name).and_then(|report| report.ready);
    let each = targets.iter().map(|target| ShareNow {
        name: target.name.to_string(),
        replicas: target.replicas,
        ready: ready(&target.name).map(|ready| i32::try_from(ready).unwrap_or(i32::MAX)),
    });
    let mut now: Vec<ShareNow> = each.collect();
    now.sort();
    now
}

pub(super) fn pairs(shares: &[Share]) -> Vec<(String, i64)> {
    shares.iter().map(|share| (share.name.clone(), i64::from(share.replicas))).collect()
}

pub(super) fn shares_at(at: &[(String, i64)]) -> Vec<Share> {
    let share = |(name, replicas): &(String, i64)| Share {
        name: name.clone(),
        replicas: i32::try_from(*replicas).unwrap_or(i32::MAX),
    };
    at.iter().map(share).collect()
}

/// Returns whether the placement no longer selects a cluster that receives replicas of the move.
pub(super) fn unselected(
    active: &ActiveMove,
    request: &Request,
    fleet: &ClusterSet,
    profile: &Profile,
) -> Option<Disturbance> {
    let arriving = run::arrivals(&active.from, &active.to).0;
    let is_left_out = |name: &&Arc<str>| {
        fleet.find(name).is_some_and(|cluster| engine::unselected(request, cluster, fleet, profile).is_some())
    };
    arriving.keys().find(is_left_out).map(|name| Disturbance::Unselected(name.to_string()))
}

pub(super) fn why_superseded(
    disturbance: Option<Disturbance>,
    request: &Request,
    moving: &ActiveMove,
) -> (MoveReason, String) {
    let disturbance = match disturbance {
        None | Some(Disturbance::TargetsChanged) if request.triggered_at >= Some(moving.started) => {
            Disturbance::Triggered
        }
        None => return (MoveReason::TriggeredMeanwhile, "another pass decided meanwhile".to_owned()),
        Some(disturbance) => disturbance,
    };
    let reason = match disturbance {
        Disturbance::ReplicasChanged { .. } => MoveReason::ReplicasChanged,
        Disturbance::ClusterLost(_) | Disturbance::Evicted(_) | Disturbance::Unselected(_) => MoveReason::ClusterLost,
        Disturbance::Triggered | Disturbance::PlacementChanged | Disturbance::TargetsChanged => {
            MoveReason::TriggeredMeanwhile
        }
    };
    (reason, disturbance.to_string())
}
