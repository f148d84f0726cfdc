//! PlacementReview and LocalPlacementReview: a preview of decisions with their reasons. They change
//! nothing and are never stored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::amounts::Limits;
use super::moves::{BindingRef, MoveReason, Share, WorkloadRef};
use super::objective::{CostStatus, Objective, ObjectiveStatus};
use super::rebalance_status::{ClusterCount, ReasonCount, Summary};
use super::review_rules;
use super::select::SelectEntry;
use super::select_rules::{self, Reach};
use super::suppose::Suppose;
use super::survival::{DomainSurvival, Survive};
use crate::free_form::FreeForm;
use crate::tree;
use crate::type_meta::kind;
use ballast_k8s::{FieldErrors, Time};
use ballast_resource::{Given, Inspection, Lifetime, Resource, Schema, Scope};

kind! {
    /// Previews the decisions for workloads of all namespaces, with their reasons. It changes
    /// nothing and is never stored.
    pub struct PlacementReview {
        /// Not used.
        metadata;
        /// The parameters of the review.
        pub spec: ReviewSpec,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<ReviewStatus>,
    }
}

kind! {
    /// Previews the decisions for workloads of one namespace, with their reasons. It changes
    /// nothing and is never stored.
    pub struct LocalPlacementReview {
        /// Only the namespace is used.
        metadata;
        /// The parameters of the review.
        pub spec: ReviewSpec,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<ReviewStatus>,
    }
}

impl Resource for PlacementReview {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "PlacementReview";
    const PLURAL: &'static str = "placementreviews";
    const SINGULAR: &'static str = "placementreview";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;

    fn inspect(schema: &Schema, object: &Map<String, Value>) -> Inspection {
        select_rules::inspect(schema, object, &["spec"])
    }

    fn prepare(object: &mut Map<String, Value>, _given: &Given<'_>) {
        tree::object(object, &["spec"]).into_iter().for_each(select_rules::prepare);
    }

    fn validate(object: &PlacementReview, _old: Option<&PlacementReview>) -> FieldErrors {
        review_rules::check(&object.spec, Reach::All)
    }
}

impl Resource for LocalPlacementReview {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "LocalPlacementReview";
    const PLURAL: &'static str = "localplacementreviews";
    const SINGULAR: &'static str = "localplacementreview";
    const SCOPE: Scope = Scope::Namespaced;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;

    fn inspect(schema: &Schema, object: &Map<String, Value>) -> Inspection {
        select_rules::inspect(schema, object, &["spec"])
    }

    fn prepare(object: &mut Map<String, Value>, _given: &Given<'_>) {
        tree::object(object, &["spec"]).into_iter().for_each(select_rules::prepare);
    }

    fn validate(object: &LocalPlacementReview, _old: Option<&LocalPlacementReview>) -> FieldErrors {
        let own = object.metadata.namespace.as_deref().unwrap_or_default();
        review_rules::check(&object.spec, Reach::OwnNamespace(own))
    }
}

/// The parameters of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSpec {
    /// The workloads: the union of these entries. `[{all: true}]` selects everything in scope. They
    /// are selected by the present state, not by the supposed state. If the list is empty,
    /// `suppose.workloads` must not be empty, and those workloads are selected.
    #[serde(default, deserialize_with = "super::select::entries", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub select: Vec<SelectEntry>,
    /// The mode in which placements are decided.
    #[serde(default)]
    #[schema(default = "Fresh")]
    pub mode: ReviewMode,
    /// The objective of the moves for all clusters together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// With `AsBefore`: the moment in the past to restore placements from, as far as the log
    /// reaches back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AsOf>,
    /// Limits on the replicas that may move, for each workload separately.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub limits: Limits,
    /// Assumed differences from the present state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppose: Option<Suppose>,
    /// Reports, for each failure domain, the replicas that its loss would strand, instead of a
    /// plan. It is decided as with `Steady`. A LocalPlacementReview counts the workloads of its
    /// namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survive: Option<Survive>,
    /// Reviews a past state, which the log must still contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Level of detail of the explanation of each decision.
    #[serde(default)]
    #[schema(default = "None")]
    pub explain: Explain,
    /// Maximum number of listed moves, and of listed workloads that fit on no cluster. The summary
    /// counts all of them.
    #[serde(default = "listed")]
    #[schema(minimum = 0, maximum = 10000, default = 500)]
    pub limit: i64,
}

impl Default for ReviewSpec {
    fn default() -> ReviewSpec {
        ReviewSpec {
            select: Vec::new(),
            mode: ReviewMode::default(),
            objective: None,
            before: None,
            limits: Limits::default(),
            suppose: None,
            survive: None,
            as_of: None,
            explain: Explain::default(),
            limit: listed(),
        }
    }
}

fn listed() -> i64 {
    500
}

/// The mode in which placements are decided in a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ReviewMode {
    /// Ignores the current placement of the workload.
    #[default]
    Fresh,
    /// Returns each workload to its placement before it lost clusters to a failure, or as of
    /// `before`.
    AsBefore,
    /// Moves only replicas that have to leave, and as few as possible: replicas on clusters that
    /// are gone, that the placement no longer selects, or that have a NoExecute taint that it does
    /// not tolerate; and replicas on clusters in `placedOn` with a NoSchedule taint that it does
    /// not tolerate.
    Steady,
    /// Decides nothing: the review explains the present placements.
    AsIs,
}

/// A moment in the past: exactly one of the fields is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AsOf {
    /// Revision of a change. The moment is immediately after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9]{1,19}$")]
    pub revision: Option<String>,
    /// The time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// Level of detail of the explanation of each decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Explain {
    #[default]
    None,
    /// One reason for each cluster that was not chosen.
    Losers,
    /// Filters, scores, capacity, weights and division.
    Full,
}

/// The result of a review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStatus {
    /// The revision of the view that the result is based on.
    pub revision: String,
    /// Hash of the moves: bindings, sources and targets, including moves beyond `spec.limit`. A
    /// rebalance with this value in `spec.expectPlan` executes only a plan with this hash: if
    /// planning results in other moves, it ends as Aborted with the reason PlanChanged. Absent with
    /// `AsIs`, which plans nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// Counts of the selected workloads.
    #[serde(default)]
    pub summary: Summary,
    /// Names in `spec.select` that match no object, each as a sentence with its field path.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub unknown_names: Vec<String>,
    /// Replicas of the selected workloads per cluster.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterCount>,
    /// The workloads that would move. With `AsIs`: the current placements. With `AsBefore`, and
    /// with `explain`, also the workloads that keep their placement: `to` equals `from`, and
    /// `message` contains the reason.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<ReviewedMove>,
    /// The workloads that would fit on no cluster.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub unplaceable: Vec<Unplaceable>,
    /// Number of entries beyond `spec.limit`.
    #[serde(default)]
    pub remaining: i64,
    /// Reasons why workloads would not move: they fit on no cluster, limits apply, or a rebalance
    /// is already moving them. Workloads beyond `spec.limit` are included.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonCount>,
    /// How close the moves would come to `spec.objective`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveStatus>,
    /// The present and the resulting price of the selected workloads, if any cluster has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostStatus>,
    /// The effect of the loss of each failure domain, the worst first, if `spec.survive` is given.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub survival: Vec<DomainSurvival>,
    /// The time of the state that `survival` reports on, if it is not the present. Computing the
    /// result for the present would exceed the request timeout; this is the last result computed in
    /// the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survival_time: Option<Time>,
}

/// The decision for one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewedMove {
    /// The binding of the workload.
    pub binding: BindingRef,
    /// The workload.
    pub workload: WorkloadRef,
    /// Current replicas per cluster.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Share>,
    /// Replicas per cluster after the move.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Share>,
    /// Number of replicas that would move, counted on their target clusters.
    #[serde(default)]
    pub replicas: i64,
    /// The reason why the workload would not move as decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    /// The reason as a sentence, with numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// The reasons for the decision, as far as `spec.explain` requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<FreeForm>,
}

/// A workload that would fit on no cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Unplaceable {
    /// The binding of the workload.
    pub binding: BindingRef,
    /// The workload.
    pub workload: WorkloadRef,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    /// The reason and a remedy, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// The reasons for the decision, as far as `spec.explain` requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<FreeForm>,
}
