//! PlacementReview and LocalPlacementReview: compute the effects of changes, with reasons (BD1).
//!
//! *Invariants.* A review writes nothing: it reads one view and changes its own copy. It runs on a
//! separate thread, with limited concurrency: one review for each user at a time, and further ones
//! wait for a permit (`base::places`). Between two decisions the review checks whether its caller
//! still waits.

mod answer;
mod cluster_names;
mod remedies;
pub mod what_if;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::answer::answer;
pub use self::cluster_names::ReviewDetails;
use super::before::{BeforeError, bindings_before};
use crate::record::CLUSTERS;
use ballast_api::ballast::v1alpha1::{GROUP, ReviewSpec, ReviewStatus, SelectEntry, Summary};
use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::karmada::policy::v1alpha1::{FEDERATED_RESOURCE_QUOTAS, POLICIES};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_api::tree;
use ballast_base::clock::Clock;
use ballast_base::places::{Bounds, Places};
use ballast_engine::karmada::Profile;
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Revision, Status, User};
use ballast_registry::{Action, Client};
use ballast_scheduler::planning::{KnownAnswer, KnownSurvival, Planner, PlanningSnapshot};
use ballast_watch::View;

/// Reviews of more bindings than this are large.
const LARGE_BINDINGS: usize = 10_000;
/// Maximum number of concurrent reviews.
const AT_ONCE_MAX: usize = 8;
/// Maximum number of concurrent large reviews, and reviews of the past.
const LARGE_AT_ONCE_MAX: usize = 1;
/// Maximum number of concurrent reviews of `system:masters`, which have separate permits.
const MASTERS_AT_ONCE_MAX: usize = 4;
/// Maximum number of queued reviews, and their maximum wait. A web page or a command sends a few at
/// a time.
const WAITING_MAX: usize = 64;
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Maximum time to compute survival before the latest known result is returned.
const SURVIVE_MAX: Duration = Duration::from_secs(8);

pub struct PlacementReviews {
    client: Client,
    clock: Arc<dyn Clock>,
    planner: Planner,
    profile: Profile,
    /// The information about clusters in a LocalPlacementReview.
    details: ReviewDetails,
    users: ReviewPlaces,
    masters: ReviewPlaces,
}

/// The permits for small and for large reviews.
struct ReviewPlaces {
    small: Arc<Places>,
    large: Arc<Places>,
}

impl ReviewPlaces {
    fn of_users() -> ReviewPlaces {
        let places = |class, units| Places::new(Bounds::one_for_each(class, units, WAITING_MAX, WAIT_MAX));
        ReviewPlaces { small: places("review", AT_ONCE_MAX), large: places("large_review", LARGE_AT_ONCE_MAX) }
    }

    fn of_masters() -> ReviewPlaces {
        let places = |class, units| {
            let bounds = Bounds::in_quarters(class, units, WAITING_MAX, WAIT_MAX);
            Places::new(Bounds { reserved: 0, ..bounds })
        };
        ReviewPlaces {
            small: places("master_review", MASTERS_AT_ONCE_MAX),
            large: places("master_large_review", LARGE_AT_ONCE_MAX),
        }
    }
}

impl PlacementReviews {
    /// Creates the action. The profile must be the scheduler's.
    pub fn new(client: Client, clock: Arc<dyn Clock>, profile: Profile) -> PlacementReviews {
        PlacementReviews {
            client,
            clock,
            planner: Planner::new(profile.clone()),
            profile,
            details: ReviewDetails::Full,
            users: ReviewPlaces::of_users(),
            masters: ReviewPlaces::of_masters(),
        }
    }

    /// Sets the information about clusters in a LocalPlacementReview.
    #[must_use]
    pub fn with_local_details(mut self, details: ReviewDetails) -> PlacementReviews {
        self.details = details;
        self
    }

    /// Returns the snapshot of the review: the present, or a past state.
    async fn present(&self, spec: &ReviewSpec) -> Result<Result<PlanningSnapshot, FieldErrors>, Status> {
        let Some(as_of) = &spec.as_of else {
            return Ok(Ok(self.planner.present(self.client.cache(), self.clock.now())));
        };
        let kinds = kinds();
        let state = self.client.cache().state_as_of(&kinds, as_of.revision.as_deref(), as_of.time, self.clock.now());
        let (view, now) = match state.await? {
            Ok(state) => state,
            Err(errors) => return Ok(Err(errors)),
        };
        // A separate planner: the cluster cache of the present would have to be rebuilt twice.
        Ok(Ok(Planner::new(self.profile.clone()).snapshot(view, now)))
    }
}

#[async_trait]
impl Action for PlacementReviews {
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        _dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        let spec: ReviewSpec = tree::decoded(object.get("spec"))?;
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (object["kind"].as_str().unwrap_or_default(), &object["metadata"]);
        let scope = Some(text(metadata, "namespace")).filter(|namespace| !namespace.is_empty());
        let invalid = |errors: FieldErrors| Status::invalid(GROUP, kind, &text(metadata, "name"), &errors);

        let newest = self.client.newest().await?;
        // The loss of a domain affects the workloads of all namespaces.
        let walked = scope.as_deref().filter(|_| spec.survive.is_none());
        let is_large = spec.as_of.is_some() || is_large(&newest, walked);
        let places = if caller.is_master() { &self.masters } else { &self.users };
        let places = if is_large { &places.large } else { &places.small };
        let turn = places.enter(&caller.name, 1).await?;
        let present = self.present(&spec).await?.map_err(invalid)?;
        let before = match &spec.before {
            Some(before) => {
                Some(bindings_before(&self.client, before, present.now).await.map_err(|error| match error {
                    BeforeError::Forgotten(message) => Status::expired(message),
                    BeforeError::Invalid(field, message) => {
                        let mut errors = FieldErrors::default();
                        errors.invalid(&FieldPath::new("spec.before").child(field), before, message);
                        invalid(errors)
                    }
                })?)
            }
            None => None,
        };
        let details = self.details;
        let gone = Arc::new(AtomicBool::new(false));
        let caller_leaves = CancelOnDrop(Arc::clone(&gone));
        let by = spec.survive.as_ref().filter(|_| scope.is_none() && is_about_the_fleet(&spec)).map(|it| it.by);
        let (time, known) = (present.now, KnownSurvival::of(self.client.cache()));
        let mut answered = tokio::task::spawn_blocking(move || {
            let answered = answer(&spec, scope.as_deref(), details, &present, before.as_deref(), &gone);
            // The permit is released when the work ends, also if the caller has disconnected
            // before.
            drop(turn);
            answered
        });
        let answered = match tokio::time::timeout(SURVIVE_MAX, &mut answered).await {
            Ok(answered) => answered,
            Err(_) => match by.and_then(|by| known.get(by)) {
                Some(known) => Ok(Ok(known_answer(&known))),
                None => answered.await,
            },
        };
        let answered = answered.map_err(|_| Status::internal("failed to answer the review"))?;
        drop(caller_leaves);
        let status = answered.map_err(invalid)?;
        if let Some(by) = by.filter(|_| status.survival_time.is_none()) {
            let revision = status.revision.parse().map_or(Revision::default(), Revision);
            let (workloads, domains) = (status.summary.selected, status.survival.clone());
            known.put(by, KnownAnswer { revision, time, workloads, domains });
        }
        object.insert("status".to_owned(), serde_json::to_value(&status).map_err(Status::internal)?);
        Ok(status.unknown_names)
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns whether the review covers all workloads of the present, without hypothetical changes.
fn is_about_the_fleet(spec: &ReviewSpec) -> bool {
    spec.as_of.is_none() && spec.suppose.is_none() && spec.select.iter().any(SelectEntry::has_no_condition)
}

/// Returns the latest result computed in the background.
fn known_answer(known: &KnownAnswer) -> ReviewStatus {
    ReviewStatus {
        revision: known.revision.to_string(),
        summary: Summary { selected: known.workloads, ..Summary::default() },
        survival: known.domains.clone(),
        survival_time: Some(known.time),
        ..ReviewStatus::default()
    }
}

fn is_large(view: &View, scope: Option<&str>) -> bool {
    // Counting a namespace requires a walk, which is skipped if the whole store is small.
    let all: usize = BINDINGS.into_iter().map(|kind| view.count(kind, None)).sum();
    match scope {
        _ if all <= LARGE_BINDINGS => false,
        Some(namespace) => view.list(BINDINGS[0], Some(namespace)).nth(LARGE_BINDINGS).is_some(),
        None => true,
    }
}

/// Returns the kinds that a plan reads.
fn kinds() -> Vec<GroupResource> {
    let fleet = SCOPES.into_iter().flat_map(|kinds| [kinds.placements, kinds.bindings]);
    BINDINGS.into_iter().chain(POLICIES).chain([CLUSTERS, FEDERATED_RESOURCE_QUOTAS]).chain(fleet).collect()
}
