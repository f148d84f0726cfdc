//! FleetReview and LocalFleetReview, and the columns of clusters with the same numbers (NG1). All
//! come from `census`.
//!
//! *Invariant:* a review reads one view and writes nothing. The columns of a watch are at most a
//! second old: counting for each event would cost more than the events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::{
    AsOf, ClusterCounts, ClusterReadiness, EvictionCounts, FleetReviewSpec, FleetReviewStatus, GROUP, NamespaceCounts,
    RateFrom, RegionCounts, ReplicaCounts,
};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_api::{core, tree};
use ballast_base::clock::Clock;
use ballast_base::places::{Bounds, Places};
use ballast_census::{
    Backlog, CLUSTERS, Census, EVICTION_LIMITS, FleetTally, ForecastRules, RateInForce, RateSource, ReplicaTally,
};
use ballast_k8s::{FieldErrors, FieldPath, Object, Quantity, Status, Time, User};
use ballast_registry::{Action, Client, Computed};
use ballast_watch::View;
use ballast_worker::run_blocking;

/// The maximum age of the numbers in the columns of a watch.
const COLUMNS_AGE_MAX_MS: i64 = 1_000;

/// The number of concurrent and of waiting reviews of the past, and the longest wait. Each holds a
/// separate state.
const PAST_AT_ONCE_MAX: usize = 2;
const PAST_WAITING_MAX: usize = 64;
const PAST_WAIT_MAX: Duration = Duration::from_secs(15);

/// Counts the fleet for reviews and columns.
pub struct FleetReviews {
    client: Client,
    clock: Arc<dyn Clock>,
    census: Arc<Census>,
    rules: ForecastRules,
    /// The numbers in the columns, and the time at which they were counted.
    columns: Mutex<Option<(i64, Arc<FleetTally>)>>,
    past: Arc<Places>,
}

impl FleetReviews {
    /// Creates the action. `rules` must equal those of the controllers that evict.
    pub fn new(client: Client, clock: Arc<dyn Clock>, rules: ForecastRules) -> FleetReviews {
        let census = Census::of(client.cache());
        let bounds = Bounds::one_for_each("past_fleet_review", PAST_AT_ONCE_MAX, PAST_WAITING_MAX, PAST_WAIT_MAX);
        FleetReviews { client, clock, census, rules, columns: Mutex::default(), past: Places::new(bounds) }
    }

    /// Returns the state at the past moment that a review names, and its time.
    async fn past_state(&self, as_of: &AsOf) -> Result<Result<(Arc<View>, Time), FieldErrors>, Status> {
        if as_of.revision.is_some() == as_of.time.is_some() {
            let mut errors = FieldErrors::default();
            errors.required(&FieldPath::new("spec.asOf"), "exactly one of revision and time must be given");
            return Ok(Err(errors));
        }
        let kinds: Vec<_> = BINDINGS.into_iter().chain([CLUSTERS, EVICTION_LIMITS]).collect();
        let cache = self.client.cache();
        cache.state_as_of(&kinds, as_of.revision.as_deref(), as_of.time, self.clock.now()).await
    }

    fn newest(&self) -> Arc<FleetTally> {
        self.census.count(&self.client.view(), self.rules, self.clock.now())
    }
}

#[async_trait]
impl Action for FleetReviews {
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        _dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        // A review without a spec covers everything.
        let spec: Option<FleetReviewSpec> = tree::decoded(object.get("spec"))?;
        let spec = spec.unwrap_or_default();
        let namespace = object.get("metadata").and_then(|meta| meta.get("namespace")).and_then(Value::as_str);
        let only = namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned);
        let rules = self.rules;
        let mut turn = None;
        // The shared census follows the newest state, so a past state needs a separate one.
        let (view, now, census) = match &spec.as_of {
            None => (self.client.view(), self.clock.now(), Arc::clone(&self.census)),
            Some(as_of) => {
                turn = Some(self.past.enter(&caller.name, 1).await?);
                let (view, time) = self.past_state(as_of).await?.map_err(|errors| {
                    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
                    Status::invalid(GROUP, kind, "", &errors)
                })?;
                (view, time, Arc::new(Census::default()))
            }
        };
        let status = run_blocking(move || {
            let _turn = turn;
            let whole = census.count(&view, rules, now);
            match only {
                None => status(&view, &whole, None, &spec, rules, now),
                Some(only) => {
                    let tally = census.count_namespace(&view, &only, rules, now);
                    status(&view, &tally, Some(&whole), &spec, rules, now)
                }
            }
        });
        let status = status.await.ok_or_else(|| Status::unavailable("the server is shutting down"))?;
        let status = serde_json::to_value(status).map_err(|error| Status::internal(error.to_string()))?;
        object.insert("status".to_owned(), status);
        Ok(Vec::new())
    }
}

/// Returns the status of a review. If `whole`, the tally of all clusters, is given, `tally` belongs
/// to a namespace: the status lists the clusters that the namespace uses, and no other namespaces.
fn status(
    view: &View,
    tally: &FleetTally,
    whole: Option<&FleetTally>,
    spec: &FleetReviewSpec,
    rules: ForecastRules,
    now: Time,
) -> FleetReviewStatus {
    let mut regions: BTreeMap<&str, RegionCounts> = BTreeMap::new();
    let mut clusters = Vec::new();
    let mut cluster_counts = ClusterReadiness::default();
    let shown = tally.clusters.iter().filter(|(_, it)| whole.is_none() || it.replicas.workloads > 0);
    for (name, cluster) in shown {
        let readiness = ClusterReadiness {
            total: i64::from(cluster.exists()),
            lost: i64::from(cluster.exists() && !cluster.is_reachable()),
        };
        let region = regions.entry(&cluster.region).or_insert_with(|| RegionCounts {
            name: cluster.region.to_string(),
            replicas: tally.regions.get(&cluster.region).copied().map(counts).unwrap_or_default(),
            ..RegionCounts::default()
        });
        for counts in [&mut cluster_counts, &mut region.clusters] {
            counts.total += readiness.total;
            counts.lost += readiness.lost;
        }
        clusters.push(ClusterCounts {
            name: name.to_string(),
            region: cluster.region.to_string(),
            ready: cluster.status.clone(),
            since: cluster.since,
            replicas: counts(cluster.replicas),
            leaving: cluster.leaving,
            arriving: cluster.arriving,
            to_evict: cluster.to_evict,
        });
    }
    let mut namespaces: Vec<NamespaceCounts> = tally
        .namespaces
        .iter()
        .map(|(name, replicas)| NamespaceCounts { name: name.to_string(), replicas: counts(*replicas) })
        .collect();
    namespaces.sort_by_key(|it| (-it.replicas.missing, -it.replicas.wanted));
    let listed = usize::try_from(spec.limit).unwrap_or_default();
    let remaining = namespaces.len().saturating_sub(listed) as i64;
    namespaces.truncate(listed);
    FleetReviewStatus {
        revision: view.revision.to_string(),
        time: Some(now),
        replicas: counts(tally.total),
        unplaced: tally.unplaced,
        unschedulable: tally.unschedulable,
        cluster_counts,
        regions: regions.into_values().collect(),
        clusters,
        namespaces,
        remaining,
        evictions: evictions(view, tally, whole, rules, now),
    }
}

/// Returns the counts of evictions. The order of a namespace's evictions depends on all evictions,
/// so `ends` is the end of all.
fn evictions(
    view: &View,
    tally: &FleetTally,
    whole: Option<&FleetTally>,
    rules: ForecastRules,
    now: Time,
) -> EvictionCounts {
    let Some(flags) = rules.rate else {
        return EvictionCounts {
            leaving: tally.leaving,
            rate_from: Some(RateFrom::NoEviction),
            ..EvictionCounts::default()
        };
    };
    let of_all = whole.unwrap_or(tally);
    let (clusters, unready) = of_all.readiness();
    let rate = RateInForce::of(view, flags, clusters, unready, now);
    let backlog = Backlog::of(&tally.due, rate.per_second, now);
    let ends = match whole {
        Some(whole) if !tally.due.is_empty() => Backlog::of(&whole.due, rate.per_second, now).ends,
        _ => backlog.ends,
    };
    EvictionCounts {
        waiting: backlog.waiting,
        foreseen: backlog.foreseen,
        leaving: tally.leaving,
        oldest: backlog.oldest,
        next_due: backlog.next_due,
        ends,
        per_second: Some(quantity(rate.per_second)),
        rate_from: Some(match rate.source {
            RateSource::Flags => RateFrom::Flags,
            RateSource::MostlyUnready => RateFrom::MostlyUnready,
            RateSource::Limit => RateFrom::EvictionLimit,
        }),
        rate_until: rate.until,
        rate_set_by: rate.set_by,
        rate_note: rate.note,
    }
}

/// Formats a rate as Kubernetes writes numbers. Rates below a thousandth are rounded up to it.
fn quantity(per_second: f64) -> core::Quantity {
    let millis = (per_second * 1_000.0).min(1e12).ceil() as i64;
    core::Quantity::from(&*Quantity::from_millis(millis).to_string())
}

fn counts(replicas: ReplicaTally) -> ReplicaCounts {
    let ReplicaTally { workloads, wanted, ready, missing } = replicas;
    ReplicaCounts { workloads, wanted, ready, missing }
}

impl Computed for FleetReviews {
    fn refresh(&self) {
        let counted = (self.clock.now_ms(), self.newest());
        *self.columns.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }

    fn cell(&self, object: &Object, column: &str) -> Value {
        let now_ms = self.clock.now_ms();
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match &*columns {
            Some((at_ms, counted)) if (0..COLUMNS_AGE_MAX_MS).contains(&(now_ms - at_ms)) => Arc::clone(counted),
            _ => {
                let counted = self.newest();
                *columns = Some((now_ms, Arc::clone(&counted)));
                counted
            }
        };
        drop(columns);
        let (replicas, leaving) = match counted.clusters.get(&*object.key.name) {
            Some(cluster) => (cluster.replicas, cluster.leaving),
            None => (ReplicaTally::default(), 0),
        };
        match column {
            // Leaving replicas are counted separately, as in `ballast top`.
            "ready" => format!("{}/{}", replicas.ready - leaving, replicas.wanted - leaving).into(),
            "missing" => replicas.missing.into(),
            _ => Value::Null,
        }
    }
}
