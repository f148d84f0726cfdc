//! Assembles the server: the registry of the served kinds, and the background workers.
//!
//! `ballast serve` and the tests call the same functions, so a test runs the same code as a user.
//! They differ only in arguments: the store below the cache, the clock, and the authorizer.

use std::sync::Arc;

use super::config::{ApprovedKind, Controllers, ServeArgs};
use ballast_actions::{
    self as actions, CarriedFields, ClientChanges, FleetReviews, MarkingLimits, NoExecuteTaints, RescheduleIntents,
    RescheduleTasks,
};
use ballast_api as api;
use ballast_api::ballast::v1alpha1::{
    FleetReview, LocalFleetReview, LocalPlacementReview, PlacementReview, REQUIRE_APPROVAL,
};
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::policy::v1alpha1::{ClusterTaintPolicy, POLICIES};
use ballast_api::karmada::task::v1alpha1::RescheduleTask;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_auth::{Attributes, Authorizer, Permission, ResourceAttributes};
use ballast_base::clock::Clock;
use ballast_controllers::{self as controllers, FailoverOptions};
use ballast_engine::karmada::Profile;
use ballast_host::{Host, HostInventory, Namespaces};
use ballast_inventory::Inventory;
use ballast_k8s::User;
use ballast_quota::Quotas;
use ballast_rebalance::forecast::{TaskSelection, forecasts};
use ballast_rebalance::gates::address::AllowedAddress;
use ballast_rebalance::gates::{GateAddresses, GateClient};
use ballast_rebalance::nameable::MayList;
use ballast_rebalance::review::{PlacementReviews, ReviewDetails};
use ballast_rebalance::schedule::Schedules;
use ballast_rebalance::{PlacementNames, Rebalances};
use ballast_registry::{Action, Client, Registry, Validator};
use ballast_resource::{Kinds, Resource};
use ballast_scheduler::{Descheduler, FleetMetrics, FleetScheduler, RescueOptions, Scheduler};
use ballast_watch::{Cache, CommitHookFactory, CommitHooks, Writer};
use ballast_worker::Work;
use ballast_worker::events::{Events, Recorder, Sink, StoredEvents};

/// Returns all kinds that a server with these flags serves.
pub fn all_kinds(args: &ServeArgs) -> Kinds {
    let kinds = if args.host.is_given() { api::kinds() } else { api::standalone_kinds() };
    match args.inventory.cluster_inventory_namespace {
        Some(_) => api::with_inventory(&kinds),
        None => kinds,
    }
}

/// Returns the registry of `kinds`, with the actions of the kinds that are not stored.
///
/// `authorizer` evaluates access reviews and decides which users may approve a rebalance. `profile`
/// is the scheduler's: placement reviews use it, and it specifies whether quotas are enforced.
pub fn registry(
    kinds: Arc<Kinds>,
    cache: Cache,
    writer: Writer,
    authorizer: &Arc<Authorizer>,
    clock: &Arc<dyn Clock>,
    recorder: &Recorder,
    profile: &Profile,
) -> Registry {
    if profile.federated_quotas {
        writer.set_commit_hooks(Arc::new(Quotas));
    }
    let registry = Registry::new(kinds, cache, writer, Arc::clone(clock));
    let marks = marks(&registry);
    let mut registry = with_marking(registry, marks, clock, recorder, MarkingLimits::default());
    registry = with_reviews(registry, clock, profile, ReviewDetails::Full);
    registry = with_fleet_counts(registry, clock, &FailoverOptions::default());
    for (kind, action) in actions::reviews(authorizer) {
        registry = registry.with_action(kind, action);
    }
    for (kind, validator) in actions::approvals(authorizer) {
        registry = registry.with_validator(kind, validator);
    }
    let (kind, author) = actions::eviction_author();
    registry = registry.with_validator(kind, author);
    let carried: Arc<dyn Validator> = Arc::new(CarriedFields::new(registry.client(User::component("carried-fields"))));
    let changes: Arc<dyn Validator> = Arc::new(ClientChanges::new(Arc::clone(clock)));
    for kind in BINDINGS {
        registry = registry.with_validator(kind, Arc::clone(&carried)).with_validator(kind, Arc::clone(&changes));
    }
    let client = registry.client(User::component("unknown-names"));
    let names: Arc<dyn Validator> = Arc::new(PlacementNames::new(client, may_list(authorizer)));
    for kind in BINDINGS.into_iter().chain(POLICIES) {
        registry = registry.with_validator(kind, Arc::clone(&names));
    }
    // This is the last step, because a refused request needs no forecast.
    let client = registry.client(User::component("forecast"));
    let tasks = TaskSelection { selected: actions::selected, selects_any: actions::selects_any };
    let may_list = may_list(authorizer);
    for (kind, validator) in forecasts(client, Arc::clone(clock), profile.clone(), tasks, may_list) {
        registry = registry.with_validator(kind, validator);
    }
    registry
}

/// Returns a function that decides, by the rights of the requester, which names hints may contain.
fn may_list(authorizer: &Arc<Authorizer>) -> MayList {
    let authorizer = Arc::clone(authorizer);
    Arc::new(move |user, kind, namespace| {
        let authorizer = Arc::clone(&authorizer);
        Box::pin(async move {
            let attributes = Attributes::Resource(ResourceAttributes {
                verb: "list",
                group: kind.group(),
                version: "*",
                resource: kind.resource(),
                namespace: &namespace,
                ..ResourceAttributes::default()
            });
            matches!(authorizer.decide(&user, &attributes).await, Permission::Allow(_))
        })
    })
}

/// Registers the commit hooks that maintain derived objects: the usage of quotas, and the
/// inventory. Must be called before `registry`.
pub fn commit_hooks(writer: &Writer, profile: &Profile, inventory: Option<Inventory>) -> Option<Inventory> {
    let quotas = profile.federated_quotas.then(|| Arc::new(Quotas) as Arc<dyn CommitHookFactory>);
    let told = inventory.clone().map(|inventory| Arc::new(inventory) as Arc<dyn CommitHookFactory>);
    // Quotas refuse writes, so they are first.
    let hooks: Vec<Arc<dyn CommitHookFactory>> = quotas.into_iter().chain(told).collect();
    if !hooks.is_empty() {
        writer.set_commit_hooks(Arc::new(CommitHooks(hooks)));
    }
    inventory
}

/// Adds placement reviews to a registry. `details` specifies which facts about clusters a
/// LocalPlacementReview contains.
pub fn with_reviews(
    mut registry: Registry,
    clock: &Arc<dyn Clock>,
    profile: &Profile,
    details: ReviewDetails,
) -> Registry {
    let client = registry.client(User::component("placement-review"));
    let reviews = PlacementReviews::new(client, Arc::clone(clock), profile.clone()).with_local_details(details);
    let reviews: Arc<dyn Action> = Arc::new(reviews);
    for kind in [PlacementReview::resource(), LocalPlacementReview::resource()] {
        registry = registry.with_action(kind, Arc::clone(&reviews));
    }
    registry
}

/// Adds the counts of unavailable clusters to reviews and table columns. `failover` must equal the
/// options of the workers.
pub fn with_fleet_counts(registry: Registry, clock: &Arc<dyn Clock>, failover: &FailoverOptions) -> Registry {
    let client = registry.client(User::component("fleet-review"));
    let reviews = Arc::new(FleetReviews::new(client, Arc::clone(clock), failover.forecast_rules()));
    registry
        .with_computed(Cluster::resource(), reviews.clone())
        .with_action(FleetReview::resource(), reviews.clone())
        .with_action(LocalFleetReview::resource(), reviews)
}

/// Restricts gates to these addresses.
pub fn with_gates(mut registry: Registry, allow: &[AllowedAddress]) -> Registry {
    for (kind, validator) in GateAddresses::validators(allow) {
        registry = registry.with_validator(kind, validator);
    }
    registry
}

/// Returns the client that marks bindings for a RescheduleTask. Must be called before the registry
/// gets its fence, because a standby also marks when it receives the request.
pub fn marks(registry: &Registry) -> Client {
    registry.client(User::component("reschedule-task"))
}

/// Sets how RescheduleTasks mark bindings. The rest of a task is stored through the registry's
/// fence, because a standby has no worker that would finish it.
pub fn with_marking(
    registry: Registry,
    marks: Client,
    clock: &Arc<dyn Clock>,
    recorder: &Recorder,
    marking: MarkingLimits,
) -> Registry {
    let intents = self::marks(&registry);
    let tasks = RescheduleTasks::new(marks, Arc::clone(clock), recorder, marking).with_intents(intents);
    registry.with_action(RescheduleTask::resource(), Arc::new(tasks))
}

/// Requires that rebalances of these kinds are approved by another user than their creator. In
/// `namespaces` with a certain label, all rebalances require approval.
pub fn with_four_eyes(mut registry: Registry, required: &[ApprovedKind], namespaces: Option<Namespaces>) -> Registry {
    let marked = namespaces.map(|known| -> actions::MarkedNamespaces {
        Arc::new(move |namespace| {
            let (known, namespace) = (known.clone(), namespace.to_owned());
            Box::pin(async move { known.has_label(&namespace, REQUIRE_APPROVAL, "true").await })
        })
    });
    for (kind, validator) in actions::four_eyes(&required.iter().map(|kind| kind.resource()).collect(), marked) {
        registry = registry.with_validator(kind, validator);
    }
    registry
}

/// Rejects policies that set NoExecute taints.
pub fn without_no_execute_taints(registry: Registry) -> Registry {
    let kind = ClusterTaintPolicy::resource();
    registry.with_validator(kind, Arc::new(NoExecuteTaints))
}

/// Options of the workers besides the registry.
#[derive(Clone)]
pub struct WorkerOptions {
    /// The recorder of the registry. Its actions and the workers share the record of which object
    /// requested which pass.
    pub recorder: Recorder,
    pub profile: Profile,
    pub failover: FailoverOptions,
    pub controllers: Controllers,
    pub rescue: RescueOptions,
    /// The limits for finishing RescheduleTasks that their requests could not finish.
    pub marking: MarkingLimits,
    /// The inventory that publishes clusters and placements, if enabled, and the host cluster that
    /// it is copied into.
    pub inventory: Option<(Inventory, Option<Host>)>,
    /// The destinations of events besides the store.
    pub sinks: Vec<Arc<dyn Sink>>,
    /// The client that queries the gates of rollouts.
    pub gates: Arc<dyn GateClient>,
}

/// Returns the enabled background workers, not yet running.
pub fn workers(registry: &Arc<Registry>, clock: &Arc<dyn Clock>, options: WorkerOptions) -> Vec<Box<dyn Work>> {
    let WorkerOptions { recorder, profile, failover, controllers, rescue, marking, sinks: further, gates, .. } =
        options;
    let client = |name: &str| registry.client(User::component(name));
    let rules = failover.forecast_rules();
    let mut workers = controllers::karmada(registry, clock, &recorder, &profile, failover);
    if profile.federated_quotas {
        workers.push(Box::new(controllers::Recount::new(client("quota"))));
    }
    if let Some((inventory, host)) = options.inventory {
        workers.push(Box::new(controllers::Retell::new(client("inventory"), inventory)));
        let copied = host.map(|host| HostInventory::new(client("inventory"), host));
        workers.extend(copied.map(|copied| Box::new(copied) as Box<dyn Work>));
    }
    // No flag turns this worker off, because it finishes tasks that were accepted.
    workers.push(Box::new(RescheduleIntents::new(client("reschedule-task"), &recorder, marking)));
    workers.push(Box::new(FleetMetrics::new(client("census"), Arc::clone(clock), profile.clone(), rules)));
    let rebalances = Rebalances::new(client("rebalance"), Arc::clone(clock), profile.clone(), &recorder);
    let rebalances = rebalances.with_gates(gates);
    let rescuer = Descheduler::new(client("descheduler"), Arc::clone(clock), profile.clone(), &recorder, rescue);
    workers.push(Box::new(rescuer));
    workers.push(Box::new(Scheduler::new(client("scheduler"), Arc::clone(clock), profile, &recorder)));
    workers.push(Box::new(rebalances));
    workers.extend(controllers::fleet(registry, clock));
    workers.push(Box::new(Schedules::new(client("rebalance-schedule"), Arc::clone(clock), &recorder)));
    workers.push(Box::new(FleetScheduler::new(client("fleet-scheduler"), Arc::clone(clock), &recorder)));
    let events = client("events");
    let mut sinks: Vec<Arc<dyn Sink>> = vec![Arc::new(StoredEvents::new(events.clone()))];
    sinks.extend(further);
    workers.push(Box::new(Events::new(recorder, sinks, events, Arc::clone(clock))));
    // `policy` copies whole placements to bindings, and `own-fields` only what Karmada's detector
    // leaves out.
    let is_left_to_policy = |name: &str| name == "own-fields" && controllers.run("policy");
    workers.retain(|work| controllers.run(work.name()) && !is_left_to_policy(work.name()));
    workers
}
