//! Forecasts of writes (BD9): the planned status in the dry run of a rebalance, and warnings about
//! the moves of a WorkloadRebalancer or a RescheduleTask.
//!
//! Nothing is written. A bounded number of forecasts runs at once, on blocking threads. The
//! triggers decide each binding independently, so their forecast needs no capacity ledger.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::before::bindings_before;
use super::cordon;
use super::nameable::{MayList, Nameable};
use super::planned_moves::{self, PlanError};
use super::record::{AnyRebalance, Owner, listed};
use super::review::what_if::with_suggested_workload;
use super::suggestion::with_suggestion;
use super::takeover::take_over;
use super::undo_order::{self, UndoTurn};
use super::unknown_selection::{NamedSelection, unknown_undo};
use ballast_api::ballast::v1alpha1::{
    ClusterRebalance, Drain, Limits, Mode, Rebalance, RebalanceSchedule, SelectEntry, Undo,
};
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::apps::v1alpha1::{ObjectReference, WorkloadRebalancer};
use ballast_api::karmada::policy::v1alpha1::{POLICIES, ResourceSelector};
use ballast_api::karmada::task::v1alpha1::{RescheduleTask, RescheduleTaskSpec};
use ballast_api::karmada::work::v1alpha2::{PartialBinding, key_of_workload};
use ballast_api::tree;
use ballast_base::clock::Clock;
use ballast_base::places::{Bounds, Place, Places};
use ballast_engine::karmada::Profile;
use ballast_k8s::{GroupResource, Key, Status, User};
use ballast_registry::{AdmissionAttributes, Client, Validator};
use ballast_resource::Resource;
use ballast_scheduler::cause::counted;
use ballast_scheduler::planning::{PlanBuilder, PlanOptions, Planner, PlanningSnapshot, Proposal, shares};
use ballast_watch::View;

/// Maximum number of individual warnings of one kind. The rest is a number.
const LINES_MAX: usize = 10;
/// Entries of each list of a RescheduleTask that are checked for matches.
const ENTRIES_CHECKED_MAX: usize = 20;
/// Maximum number of concurrent forecasts.
const AT_ONCE_MAX: usize = 2;
/// Maximum number of queued forecasts, and their maximum wait. Each user has one at a time.
const WAITING_MAX: usize = 64;
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Maximum wait of a write for a permit to look up names.
const NAMES_WAIT_MAX: Duration = Duration::from_secs(1);

/// The selection of a RescheduleTask.
#[derive(Clone, Copy)]
pub struct TaskSelection {
    /// Returns the bindings that a task selects.
    pub selected: fn(&RescheduleTaskSpec, &View) -> Vec<Key>,
    /// Returns whether each of several tasks selects anything, with one walk over the bindings.
    pub selects_any: fn(&[RescheduleTaskSpec], &View) -> Vec<bool>,
}

/// The state for forecasts.
pub struct Forecast {
    client: Client,
    clock: Arc<dyn Clock>,
    planner: Planner,
    places: Arc<Places>,
    of_masters: Arc<Places>,
    tasks: TaskSelection,
    may_list: MayList,
}

/// Returns the validators with forecasts, by kind. The profile must be the scheduler's.
pub fn forecasts(
    client: Client,
    clock: Arc<dyn Clock>,
    profile: Profile,
    tasks: TaskSelection,
    may_list: MayList,
) -> [(GroupResource, Arc<dyn Validator>); 5] {
    let planner = Planner::new(profile);
    let places = |class| Places::new(Bounds::one_for_each(class, AT_ONCE_MAX, WAITING_MAX, WAIT_MAX));
    let (places, of_masters) = (places("forecast"), places("master_forecast"));
    let forecast = Arc::new(Forecast { client, clock, planner, places, of_masters, tasks, may_list });
    let plans: Arc<dyn Validator> = Arc::new(RebalanceForecast(Arc::clone(&forecast)));
    [
        (Rebalance::resource(), Arc::clone(&plans)),
        (ClusterRebalance::resource(), plans),
        (RebalanceSchedule::resource(), Arc::new(ScheduleNames(Arc::clone(&forecast)))),
        (WorkloadRebalancer::resource(), Arc::new(RebalancerForecast(Arc::clone(&forecast)))),
        (RescheduleTask::resource(), Arc::new(TaskForecast(forecast))),
    ]
}

impl Forecast {
    fn present(&self) -> PlanningSnapshot {
        self.planner.present(self.client.cache(), self.clock.now())
    }

    /// Warns of unknown names in a specification with a selection. If no permit is free in time,
    /// names that require reading bindings are not checked, so that a write does not wait for
    /// warnings.
    async fn warn_of_names(
        &self,
        attributes: &AdmissionAttributes<'_>,
        spec: Option<&Value>,
        at: &'static str,
        nameable: &Nameable,
    ) -> Result<(), Status> {
        let Some(spec) = spec else { return Ok(()) };
        let entries =
            |list: &str| tree::decoded::<Option<Vec<SelectEntry>>>(spec.get(list)).map(Option::unwrap_or_default);
        let (select, exclude) = (entries("select")?, entries("exclude")?);
        let (view, scope, nameable) = (self.client.view(), attributes.namespace.to_owned(), nameable.clone());
        let undo_names = nameable.clone();
        let unknown = move |view: &View, is_quick: bool| {
            let scope = Some(&*scope).filter(|scope| !scope.is_empty());
            let (select, exclude, nameable) = (&*select, &*exclude, &nameable);
            let named = NamedSelection { at, select, exclude, scope, with_clusters: true, nameable };
            (!is_quick || !named.needs_walk(view)).then(|| named.unknown(view))
        };
        let mut warnings = unknown(&view, true);
        if warnings.is_none()
            && let Ok(Ok(place)) = tokio::time::timeout(NAMES_WAIT_MAX, self.place(attributes.caller.user)).await
        {
            let view = Arc::clone(&view);
            warnings = on_blocking_thread(move || {
                let warnings = unknown(&view, false);
                drop(place);
                warnings
            })
            .await?;
        }
        let own = match attributes.row.resource == RebalanceSchedule::resource() {
            true => Key::cluster(ClusterRebalance::resource(), ""),
            false => Key::namespaced(attributes.row.resource, attributes.namespace, attributes.name),
        };
        let undo: Option<Undo> = tree::decoded(spec.get("undo").filter(|it| !it.is_null()))?;
        let undone = undo.and_then(|undo| unknown_undo(&view, &own, &undo, at, &undo_names));
        warnings.unwrap_or_default().iter().chain(&undone).for_each(|line| attributes.caller.warnings.warn(line));
        Ok(())
    }

    /// Returns the kinds of which hints for the user may contain names.
    async fn nameable(&self, attributes: &AdmissionAttributes<'_>) -> Nameable {
        Nameable::for_write(&self.may_list, attributes).await
    }

    async fn place(&self, user: &User) -> Result<Place, Status> {
        let places = if user.is_master() { &self.of_masters } else { &self.places };
        Ok(places.enter(&user.name, 1).await?)
    }
}

/// Runs `work` on a blocking thread. A panic fails this request only.
async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Status::internal("failed to make a forecast"))
}

/// Fills in the inherited fields of an undo, and the status of a rebalance's dry run.
struct RebalanceForecast(Arc<Forecast>);

#[async_trait]
impl Validator for RebalanceForecast {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if old.is_some() {
            return Ok(());
        }
        let own = Key::namespaced(attributes.row.resource, attributes.namespace, attributes.name);
        let nameable = self.0.nameable(attributes).await;
        self.0.warn_of_names(attributes, object.get("spec"), "spec", &nameable).await?;
        if let Some(spec) = tree::object(object, &["spec"]) {
            take_over(&self.0.client.view(), &own, spec);
        }
        let undo: Option<Undo> =
            tree::decoded(object.get("spec").and_then(|spec| spec.get("undo")).filter(|it| !it.is_null()))?;
        let ends_first = undo.and_then(|undo| {
            let owner = Owner { key: own.clone(), uid: String::new() };
            match undo_order::turn(&self.0.client.view(), &owner, &undo) {
                UndoTurn::Wait { message, .. } => Some(message),
                UndoTurn::Plan => None,
            }
        });
        ends_first.iter().for_each(|line| attributes.caller.warnings.warn(line));
        let drain: Option<Drain> =
            tree::decoded(object.get("spec").and_then(|spec| spec.get("drain")).filter(|it| !it.is_null()))?;
        if let Some(drain) = drain {
            let errors = cordon::check(&self.0.client.view(), &drain, &nameable);
            if !errors.is_empty() {
                let row = attributes.row;
                return Err(Status::invalid(row.group, row.kind, attributes.name, &errors));
            }
        }
        if !attributes.dry_run() {
            return Ok(());
        }
        let rebalance = AnyRebalance::deserialize(&*object).map_err(|error| Status::bad_request(error.to_string()))?;
        let name = rebalance.metadata.name.clone().unwrap_or_default();
        let key = Key::namespaced(attributes.row.resource, attributes.namespace, name);
        let owner = Owner { key, uid: rebalance.metadata.uid.clone().unwrap_or_default() };
        let place = self.0.place(attributes.caller.user).await?;
        let present = rebalance.present(self.0.present());
        let before = match &rebalance.spec.before {
            Some(before) => Some(bindings_before(&self.0.client, before, present.now).await),
            None => None,
        };
        let status = on_blocking_thread(move || {
            let made = match before.transpose() {
                Ok(before) => planned_moves::make(&present, before.as_deref(), &owner, &rebalance),
                Err(error) => Err(PlanError::new("Expired", error.message())),
            };
            drop(place);
            let generation = rebalance.metadata.generation.unwrap_or_default();
            let mut status =
                planned_moves::status(&rebalance, generation, made.as_ref(), (present.view.revision, present.now));
            // Nothing will have moved, so the planned figure is reported.
            if let (Some(shown), Some(planned)) = (&mut status.objective, made.ok().and_then(|made| made.objective)) {
                shown.moved = planned.moved;
            }
            let planned = status.conditions.iter_mut().find(|it| it.type_ == "Planned");
            if let (Some(planned), Some(first)) = (planned, ends_first) {
                planned.message = format!("{}; {first}", planned.message);
            }
            status
        });
        let status = serde_json::to_value(status.await?).map_err(Status::internal)?;
        object.insert("status".to_owned(), status);
        Ok(())
    }
}

/// Warns of unknown names in the template of a schedule.
struct ScheduleNames(Arc<Forecast>);

#[async_trait]
impl Validator for ScheduleNames {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let template = |object: &Map<String, Value>| object.get("spec")?.get("template")?.get("spec").cloned();
        let new = template(object);
        // A controller that rewrites the schedule gets no new warnings.
        if old.is_some_and(|old| template(old) == new) {
            return Ok(());
        }
        let nameable = self.0.nameable(attributes).await;
        self.0.warn_of_names(attributes, new.as_ref(), "spec.template.spec", &nameable).await
    }
}

/// Warns of the moves of a WorkloadRebalancer, and of entries that match nothing.
struct RebalancerForecast(Arc<Forecast>);

#[async_trait]
impl Validator for RebalancerForecast {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        if old.is_some() {
            return Ok(());
        }
        let workloads: Vec<ObjectReference> = tree::decoded(object.get("spec").map(|spec| &spec["workloads"]))?;
        let nameable = self.0.nameable(attributes).await;
        let warn = |lines: Vec<String>| lines.iter().for_each(|line| attributes.caller.warnings.warn(line));
        if !attributes.dry_run() {
            // This is short work: a long list is checked on the serving thread.
            warn(match_each(&self.0.client.view(), &workloads, &nameable).1);
            return Ok(());
        }
        let place = self.0.place(attributes.caller.user).await?;
        let present = self.0.present();
        let lines = on_blocking_thread(move || {
            let (keys, mut lines) = match_each(&present.view, &workloads, &nameable);
            lines.extend(would_move(&present, keys, place));
            lines
        });
        warn(lines.await?);
        Ok(())
    }
}

/// Returns the bindings of the workloads, and a warning for each workload without one.
fn match_each(view: &View, workloads: &[ObjectReference], nameable: &Nameable) -> (Vec<Key>, Vec<String>) {
    let (mut keys, mut lines) = (Vec::new(), Lines::default());
    for (index, workload) in workloads.iter().enumerate() {
        match find(view, workload) {
            Some(key) => keys.push(key),
            None => lines.add(|| unmatched(view, index, workload, nameable)),
        }
    }
    (keys, lines.finish())
}

/// Returns the binding of a workload, or the named placement of the KubeFleet family.
fn find(view: &View, workload: &ObjectReference) -> Option<Key> {
    let ObjectReference { api_version, kind, name, namespace } = workload;
    let namespace = namespace.as_deref().unwrap_or_default();
    if let Some(key) = trigger::placement_named(api_version, kind, namespace, name) {
        return view.get(&key).map(|_| key);
    }
    let key = key_of_workload(kind, namespace, name);
    let content = view.get(&key)?.text.content();
    // An invalid binding is counted as failed; the entry itself is correct.
    let binds =
        |partial: PartialBinding<'_>| partial.workload(&key).is_none_or(|it| it.is_named(api_version, kind, name));
    PartialBinding::of(&content).map_or(true, binds).then_some(key)
}

fn unmatched(view: &View, index: usize, workload: &ObjectReference, nameable: &Nameable) -> String {
    let ObjectReference { api_version, kind, name, namespace } = workload;
    let namespace = namespace.as_deref().unwrap_or_default();
    let what = format!("spec.workloads[{index}]: no binding of {}", named(kind, namespace, name));
    let key = key_of_workload(kind, namespace, name);
    let other = view.get(&key).filter(|_| nameable.has(key.resource)).map(|object| object.text.content());
    let other = other.as_deref().and_then(|content| PartialBinding::of(content).ok()?.workload(&key));
    if let Some(other) = other {
        let other = format!("{} {} of {}", other.kind, other.name, other.api_version);
        return format!("{what} of {api_version}; the binding of that name is for {other}");
    }
    with_suggested_workload(what, view, namespace, kind, name, nameable)
}

/// Warns of the moves of a RescheduleTask, and of entries that match nothing.
struct TaskForecast(Arc<Forecast>);

#[async_trait]
impl Validator for TaskForecast {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        _old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let spec: RescheduleTaskSpec = tree::decoded(object.get("spec"))?;
        let place = if attributes.dry_run() { Some(self.0.place(attributes.caller.user).await?) } else { None };
        let (present, tasks) = (self.0.present(), self.0.tasks);
        let nameable = self.0.nameable(attributes).await;
        let lines = on_blocking_thread(move || {
            let mut lines = without_match(&present.view, &spec, tasks, &nameable);
            if let Some(place) = place {
                let keys = (tasks.selected)(&spec, &present.view);
                lines.extend(would_move(&present, keys, place));
            }
            lines
        });
        lines.await?.iter().for_each(|line| attributes.caller.warnings.warn(line));
        Ok(())
    }
}

/// Returns the entries that match no binding, each with the nearest known name.
fn without_match(view: &View, spec: &RescheduleTaskSpec, tasks: TaskSelection, nameable: &Nameable) -> Vec<String> {
    fn text(field: &Option<String>) -> &str {
        field.as_deref().unwrap_or_default()
    }
    let is_usual = |entry: &ResourceSelector| {
        let name = text(&entry.name);
        !name.is_empty() && view.get(&key_of_workload(&entry.kind, text(&entry.namespace), name)).is_some()
    };
    let policies = spec.target_ref_policy.iter().enumerate().take(ENTRIES_CHECKED_MAX);
    let policies: Vec<_> = policies.filter(|(_, entry)| !text(&entry.name).is_empty()).collect();
    let resources = spec.target_ref_resource.iter().enumerate().take(ENTRIES_CHECKED_MAX);
    let resources: Vec<_> = resources.filter(|(_, entry)| !is_usual(entry)).collect();
    let alone = policies.iter().map(|(_, entry)| RescheduleTaskSpec {
        target_ref_policy: vec![(*entry).clone()],
        ..RescheduleTaskSpec::default()
    });
    let alone = alone.chain(resources.iter().map(|(_, entry)| RescheduleTaskSpec {
        target_ref_resource: vec![(*entry).clone()],
        ..RescheduleTaskSpec::default()
    }));
    let found = (tasks.selects_any)(&Vec::from_iter(alone), view);
    let (by_policy, by_resource) = found.split_at(policies.len());
    let mut lines = Lines::default();
    for ((index, entry), _) in policies.iter().zip(by_policy).filter(|(_, found)| !**found) {
        lines.add(|| {
            let name = text(&entry.name);
            let what = format!("spec.targetRefPolicy[{index}]: no binding is managed by a policy {name:?}");
            let kinds = POLICIES.into_iter().filter(|kind| nameable.has(*kind));
            let policies = kinds.flat_map(|kind| view.list(kind, None));
            with_suggestion(what, name, policies.map(|policy| &*policy.key.name))
        });
    }
    for ((index, entry), _) in resources.iter().zip(by_resource).filter(|(_, found)| !**found) {
        lines.add(|| {
            let (namespace, name) = (text(&entry.namespace), text(&entry.name));
            let shown = if name.is_empty() { "*" } else { name };
            let what =
                format!("spec.targetRefResource[{index}]: no binding of {}", named(&entry.kind, namespace, shown));
            with_suggested_workload(what, view, namespace, &entry.kind, name, nameable)
        });
    }
    lines.finish()
}

/// Returns the moves that Fresh decisions about these bindings would make. With reservations, each
/// decision accounts for earlier ones.
fn would_move(present: &PlanningSnapshot, keys: Vec<Key>, place: Place) -> Vec<String> {
    let how = PlanOptions { mode: Mode::Fresh, limits: Limits::default() };
    let mut draft = PlanBuilder::new(present);
    // A builder without the reservations of earlier decisions.
    let mut alone = present.profile.reserves.then(|| PlanBuilder::new(present));
    let mut lines = Lines::default();
    let cases = Vec::from_iter(keys.iter().filter_map(|key| present.find(key)));
    let sketched = draft.sketch(&cases);
    for (case, sketch) in cases.into_iter().zip(sketched) {
        let workload = &case.workload;
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        let subject = || named(&workload.kind, namespace, &workload.name);
        match draft.propose_triggered(&case, sketch) {
            Proposal::Move { .. } if case.is_placement() => {
                lines.add(|| format!("{}: its clusters would be chosen afresh", subject()));
            }
            Proposal::Move { to, arrivals, .. } => {
                draft.give_away(&case, &to);
                lines.add(|| {
                    let (from, to) = (listed(&case.from()), listed(&shares(&to)));
                    format!("{}: {} would move, {from} -> {to}", subject(), counted(arrivals, "replica"))
                });
            }
            Proposal::Unplaceable { message, .. } => {
                lines.add(|| format!("{}: fits nowhere and would stay: {message}", subject()));
            }
            Proposal::Stay { .. } => {
                let would_move = |alone: &mut PlanBuilder| matches!(alone.propose(&case, &how), Proposal::Move { .. });
                if alone.as_mut().is_some_and(would_move) {
                    lines.add(|| format!("{}: would stay, because those before it take the room", subject()));
                }
            }
        }
    }
    drop(place);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_first_are_told_and_the_rest_are_counted() {
        let mut lines = Lines::default();
        (0..LINES_MAX + 2).for_each(|number| lines.add(|| format!("line {number}")));
        let told = lines.finish();
        assert_eq!((told.len(), &*told[0], &*told[LINES_MAX - 1]), (LINES_MAX + 1, "line 0", "line 9"));
        assert!(told[LINES_MAX].contains('2'), "{told:?}");
    }
}
