//! Says what a write would do before it is done (BD9): the planned status of a rebalance on its dry
//! run, and warnings about the two kinds of triggers.
//!
//! Nothing is written. A forecast is made on a thread beside those that serve, and a bounded number
//! at once. The triggers decide each binding by itself, so their forecast has no ledger.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::nearest::with_nearest;
use super::review::suppose::nearest_workload;
use super::review::told;
use crate::api::ballast::v1alpha1::{
    ClusterMove, ClusterRebalance, Limits, Mode, Move, MoveSpec, MoveStatus, Phase, REBALANCE_LABEL, Rebalance,
    RebalanceSpec, RebalanceStatus, Share,
};
use crate::api::conditions::{self, Told};
use crate::api::karmada::apps::v1alpha1::{ObjectReference, WorkloadRebalancer};
use crate::api::karmada::policy::v1alpha1::POLICIES;
use crate::api::karmada::task::v1alpha1::{RescheduleTask, RescheduleTaskSpec};
use crate::api::karmada::work::v1alpha2::{BINDINGS, key_of_workload};
use crate::clock::Clock;
use crate::engine::karmada::Profile;
use crate::k8s::{FieldErrors, FieldPath, GroupResource, Key, Status};
use crate::registry::{Asked, Client, Counsel};
use crate::resource::Resource;
use crate::scheduler::planning::{self, Case, Draft, How, Plan, Planner, Present, Proposal, Selection, shares};
use crate::watch::View;

/// Warnings of one kind that are given one by one. The rest is a number.
const LINES_MAX: usize = 10;
/// Entries of a RescheduleTask that are looked at for what they match. Each is a walk.
const ENTRIES_CHECKED_MAX: usize = 20;
/// Forecasts that are made at once.
const AT_ONCE_MAX: usize = 2;
/// When to come again, in seconds, where more are asked for.
const RETRY_SECONDS: u32 = 1;

/// The bindings that a RescheduleTask selects.
pub type SelectedBy = fn(RescheduleTaskSpec, &View) -> Vec<Key>;

/// What forecasts are made from.
pub struct Forecast {
    client: Client,
    clock: Arc<dyn Clock>,
    planner: Planner,
    turns: Arc<Semaphore>,
    selected_by: SelectedBy,
}

/// The counsels that forecast, by kind. The profile has to be that of the scheduler.
pub fn forecasts(
    client: Client,
    clock: Arc<dyn Clock>,
    profile: Profile,
    selected_by: SelectedBy,
) -> [(GroupResource, Arc<dyn Counsel>); 4] {
    let (planner, turns) = (Planner::new(profile), Arc::new(Semaphore::new(AT_ONCE_MAX)));
    let forecast = Arc::new(Forecast { client, clock, planner, turns, selected_by });
    let plans: Arc<dyn Counsel> = Arc::new(Plans(Arc::clone(&forecast)));
    [
        (resource_of::<Rebalance>(), Arc::clone(&plans)),
        (resource_of::<ClusterRebalance>(), plans),
        (resource_of::<WorkloadRebalancer>(), Arc::new(Rebalancers(Arc::clone(&forecast)))),
        (resource_of::<RescheduleTask>(), Arc::new(Tasks(forecast))),
    ]
}

fn resource_of<T: Resource>() -> GroupResource {
    GroupResource::intern(&format!("{}.{}", T::PLURAL, T::GROUP))
}

impl Forecast {
    fn present(&self) -> Present {
        self.planner.present(self.client.view(), self.clock.now())
    }

    fn turn(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.turns).try_acquire_owned().map_err(|_| Status::too_many_requests(RETRY_SECONDS))
    }
}

async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Status::internal("failed to make a forecast"))
}

/// Fills in the status of a rebalance's dry run.
struct Plans(Arc<Forecast>);

#[async_trait]
impl Counsel for Plans {
    async fn hear(
        &self,
        asked: &Asked<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if !asked.dry_run() || old.is_some() {
            return Ok(());
        }
        let spec: RebalanceSpec = part(object.get("spec"))?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let (group, kind) = (asked.row.group, asked.row.kind);
        let turn = self.0.turn()?;
        let present = self.0.present();
        let namespace = asked.namespace.to_owned();
        let made = beside(move || {
            let scope = Some(&*namespace).filter(|namespace| !namespace.is_empty());
            let made = planned(&present, &spec, scope);
            drop(turn);
            made
        });
        let status = made.await?.map_err(|errors| Status::invalid(group, kind, &name, &errors))?;
        let status = serde_json::to_value(status).map_err(Status::internal)?;
        object.insert("status".to_owned(), status);
        Ok(())
    }
}

fn part<T: DeserializeOwned>(value: Option<&Value>) -> Result<T, Status> {
    T::deserialize(value.unwrap_or(&Value::Null)).map_err(|error| Status::bad_request(error.to_string()))
}

/// The status of a rebalance that was planned, and has moved nothing.
fn planned(present: &Present, spec: &RebalanceSpec, scope: Option<&str>) -> Result<RebalanceStatus, FieldErrors> {
    let order = spec.rollout.order;
    let plan = match &spec.undo {
        Some(undo) => planning::plan_return(present, to_undo(&present.view, &undo.name, scope), order),
        None => {
            let selection = Selection::new(&spec.select, &spec.exclude, scope, &present.view)?;
            let cases = selection.find(present).map_err(|too_many| {
                let mut errors = FieldErrors::default();
                errors.invalid(&FieldPath::new("spec.select"), &spec.select, too_many);
                errors
            })?;
            planning::plan(present, cases, &How { mode: spec.mode, limits: spec.limits }, order)
        }
    };
    let Plan { summary, clusters, .. } = plan;
    let mut status = RebalanceStatus {
        phase: Some(Phase::Planned),
        planned_at: Some(present.now),
        planned_revision: Some(present.view.revision.to_string()),
        summary: Some(summary),
        clusters,
        ..RebalanceStatus::default()
    };
    let message = format!("{} workloads are selected, {} are to move", summary.selected, summary.to_move);
    let told = Told { type_: "Planned", status: "True", reason: "Planned", message: &message };
    conditions::set(&mut status.conditions, None, present.now, told);
    Ok(status)
}

/// The bindings that another rebalance has begun to move, each with where it was.
fn to_undo(view: &View, name: &str, scope: Option<&str>) -> Vec<(Case, Vec<Share>)> {
    #[derive(Deserialize)]
    struct AnyMove {
        spec: MoveSpec,
        #[serde(default)]
        status: MoveStatus,
    }
    // A namespaced rebalance and a cluster-wide one may have the same name.
    let owner = if scope.is_some() { Rebalance::KIND } else { ClusterRebalance::KIND };
    let kinds = [resource_of::<Move>(), resource_of::<ClusterMove>()];
    let objects = kinds.into_iter().take(if scope.is_some() { 1 } else { 2 }).flat_map(|kind| view.list(kind, scope));
    let is_of_it = |object: &AnyOwned| object.metadata.owner_references.iter().any(|known| known.kind == owner);
    objects
        .filter(|object| object.label(REBALANCE_LABEL) == Some(name))
        .filter_map(|object| {
            let text = object.text.content();
            serde_json::from_slice::<AnyOwned>(text).ok().filter(is_of_it)?;
            let moved: AnyMove = serde_json::from_slice(text).ok()?;
            moved.status.started_at?;
            let reference = &moved.spec.binding;
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            let kind = BINDINGS[usize::from(namespace.is_empty())];
            let key = Key::namespaced(kind, namespace, &*reference.name);
            let case = Case::find(view, &key).filter(|case| *case.object.uid == *reference.uid)?;
            Some((case, moved.spec.from))
        })
        .collect()
}

#[derive(Deserialize)]
struct AnyOwned {
    metadata: crate::api::meta::ObjectMeta,
}

/// Warns of what a WorkloadRebalancer would move, and of entries that match nothing.
struct Rebalancers(Arc<Forecast>);

#[async_trait]
impl Counsel for Rebalancers {
    async fn hear(
        &self,
        asked: &Asked<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if old.is_some() {
            return Ok(());
        }
        let workloads: Vec<ObjectReference> = part(object.get("spec").map(|spec| &spec["workloads"]))?;
        let warn = |lines: Vec<String>| lines.iter().for_each(|line| asked.caller.remarks.warn(line));
        if !asked.dry_run() {
            // This is short work: a long list is admitted beside the threads that serve already.
            warn(match_each(&self.0.client.view(), &workloads).1);
            return Ok(());
        }
        let turn = self.0.turn()?;
        let present = self.0.present();
        let lines = beside(move || {
            let (keys, mut lines) = match_each(&present.view, &workloads);
            lines.extend(would_move(&present, keys, turn));
            lines
        });
        warn(lines.await?);
        Ok(())
    }
}

/// The bindings of the workloads, and a warning for each workload that has none.
fn match_each(view: &View, workloads: &[ObjectReference]) -> (Vec<Key>, Vec<String>) {
    let (mut keys, mut lines) = (Vec::new(), Lines::default());
    for (index, workload) in workloads.iter().enumerate() {
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        let key = key_of_workload(&workload.kind, namespace, &workload.name);
        match view.get(&key) {
            Some(_) => keys.push(key),
            None => lines.add(|| unmatched(view, index, workload)),
        }
    }
    (keys, lines.finish())
}

fn unmatched(view: &View, index: usize, workload: &ObjectReference) -> String {
    let ObjectReference { kind, name, namespace, .. } = workload;
    let namespace = namespace.as_deref().unwrap_or_default();
    let what = format!("spec.workloads[{index}]: no binding of {}", named(kind, namespace, name));
    nearest_workload(what, view, namespace, kind, name)
}

/// Warns of what a RescheduleTask would move, and of entries that match nothing.
struct Tasks(Arc<Forecast>);

#[async_trait]
impl Counsel for Tasks {
    async fn hear(
        &self,
        asked: &Asked<'_>,
        object: &mut Map<String, Value>,
        _old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let spec: RescheduleTaskSpec = part(object.get("spec"))?;
        let turn = if asked.dry_run() { Some(self.0.turn()?) } else { None };
        let (present, selected_by) = (self.0.present(), self.0.selected_by);
        let lines = beside(move || {
            let mut lines = without_match(&present.view, &spec, selected_by);
            if let Some(turn) = turn {
                let keys = selected_by(spec, &present.view);
                lines.extend(would_move(&present, keys, turn));
            }
            lines
        });
        lines.await?.iter().for_each(|line| asked.caller.remarks.warn(line));
        Ok(())
    }
}

/// The entries that match no binding, each with the nearest known name.
fn without_match(view: &View, spec: &RescheduleTaskSpec, selected_by: SelectedBy) -> Vec<String> {
    let mut lines = Lines::default();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let matches = |spec: RescheduleTaskSpec| !selected_by(spec, view).is_empty();
    for (index, entry) in spec.target_ref_policy.iter().enumerate().take(ENTRIES_CHECKED_MAX) {
        let only = RescheduleTaskSpec { target_ref_policy: vec![entry.clone()], ..RescheduleTaskSpec::default() };
        let name = text(&entry.name);
        if !name.is_empty() && !matches(only) {
            lines.add(|| {
                let what = format!("spec.targetRefPolicy[{index}]: no binding is managed by a policy {name:?}");
                let policies = POLICIES.into_iter().flat_map(|kind| view.list(kind, None));
                with_nearest(what, &name, policies.map(|policy| &*policy.key.name))
            });
        }
    }
    for (index, entry) in spec.target_ref_resource.iter().enumerate().take(ENTRIES_CHECKED_MAX) {
        let only = RescheduleTaskSpec { target_ref_resource: vec![entry.clone()], ..RescheduleTaskSpec::default() };
        let (namespace, name) = (text(&entry.namespace), text(&entry.name));
        let is_usual = !name.is_empty() && view.get(&key_of_workload(&entry.kind, &namespace, &name)).is_some();
        if !is_usual && !matches(only) {
            lines.add(|| {
                let what = format!(
                    "spec.targetRefResource[{index}]: no binding of {}",
                    named(&entry.kind, &namespace, if name.is_empty() { "*" } else { &name })
                );
                nearest_workload(what, view, &namespace, &entry.kind, &name)
            });
        }
    }
    lines.finish()
}

/// What Fresh decisions about these bindings would move, each decided by itself.
fn would_move(present: &Present, keys: Vec<Key>, turn: OwnedSemaphorePermit) -> Vec<String> {
    let how = How { mode: Mode::Fresh, limits: Limits::default() };
    let mut draft = Draft::new(present);
    let mut lines = Lines::default();
    for case in keys.iter().filter_map(|key| present.case(key)) {
        let workload = &case.workload;
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        let subject = || named(&workload.kind, namespace, &workload.name);
        match draft.propose(&case, &how) {
            Proposal::Move { .. } if case.is_placement() => {
                lines.add(|| format!("{}: its clusters would be chosen afresh", subject()));
            }
            Proposal::Move { to, arrivals, .. } => lines.add(|| {
                let (from, to) = (told(&case.from()), told(&shares(&to)));
                format!("{}: {arrivals} replicas would move, {from} -> {to}", subject())
            }),
            Proposal::Unplaceable { message, .. } => {
                lines.add(|| format!("{}: fits nowhere and would stay: {message}", subject()));
            }
            Proposal::Stay { .. } => {}
        }
    }
    drop(turn);
    lines.finish()
}

fn named(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// A bounded number of lines.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    more: usize,
}

impl Lines {
    fn add(&mut self, line: impl FnOnce() -> String) {
        match self.lines.len() < LINES_MAX {
            true => self.lines.push(line()),
            false => self.more += 1,
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more", self.more));
        }
        self.lines
    }
}
