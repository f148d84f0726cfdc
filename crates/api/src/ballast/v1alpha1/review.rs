//! PlacementReview and LocalPlacementReview: what would happen, and why. They change nothing and
//! are never stored.

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
    /// Asks what would happen to workloads of all namespaces, and why. It changes nothing and is
    /// never stored.
    pub struct PlacementReview {
        /// Not used.
        metadata;
        /// The question.
        pub spec: ReviewSpec,
        /// The answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<ReviewStatus>,
    }
}

kind! {
    /// Asks what would happen to workloads of one namespace, and why. It changes nothing and is
    /// never stored.
    pub struct LocalPlacementReview {
        /// Only the namespace is used.
        metadata;
        /// The question.
        pub spec: ReviewSpec,
        /// The answer.
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

/// The question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSpec {
    /// The workloads: the union of these entries. `[{all: true}]` is everything in scope. They are
    /// selected by the present state, not by the supposed one. If the list is empty,
    /// `suppose.workloads` must not be empty, and those workloads are selected.
    #[serde(default, deserialize_with = "super::select::entries", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub select: Vec<SelectEntry>,
    /// How placements are decided.
    #[serde(default)]
    #[schema(default = "Fresh")]
    pub mode: ReviewMode,
    /// What the moves are to reach for the fleet as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// With `AsBefore`: the moment whose placements would come back, as far as the log remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AsOf>,
    /// Limits on what may move, for each workload separately.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub limits: Limits,
    /// What the review assumes to be different from the present state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppose: Option<Suppose>,
    /// Asks, for each domain of the fleet, what its loss would strand, in place of a plan. It is
    /// decided as with `Steady`. A LocalPlacementReview counts the workloads of its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survive: Option<Survive>,
    /// Asks about a past state, which the log must still hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// How much of each decision is explained.
    #[serde(default)]
    #[schema(default = "None")]
    pub explain: Explain,
    /// How many moves are listed, and how many workloads that fit nowhere. The summary counts all.
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

/// How placements are decided in a review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ReviewMode {
    /// Ignores where the workload runs now.
    #[default]
    Fresh,
    /// Brings each workload back to where it was before it lost clusters to a failure, or as of
    /// `before`.
    AsBefore,
    /// Moves only replicas that have to leave, and as few as possible: those on clusters that are
    /// gone, that the placement does not select any more, or whose NoExecute taints it does not
    /// tolerate; and those on clusters that `placedOn` names and that have a NoSchedule taint which
    /// it does not tolerate.
    Steady,
    /// Decides nothing: the review explains the present placements.
    AsIs,
}

/// A moment in the past: exactly one of the fields is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AsOf {
    /// The moment after the change with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9]{1,19}$")]
    pub revision: Option<String>,
    /// This moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// How much of each decision is explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Explain {
    #[default]
    None,
    /// One reason for each cluster that did not get the workload.
    Losers,
    /// Filters, scores, capacity, weights and division.
    Full,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStatus {
    /// The revision of the view that the answer is based on.
    pub revision: String,
    /// Names the moves: who would move, from where, to where. All moves count, also beyond
    /// `spec.limit`. A rebalance expects this plan by `spec.expectPlan`. Absent with `AsIs`, which
    /// plans nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// Counts of the selected workloads.
    #[serde(default)]
    pub summary: Summary,
    /// Names in `spec.select` that nothing has, each in a sentence with its field path.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub unknown_names: Vec<String>,
    /// Replicas of the selected workloads, by cluster.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterCount>,
    /// The workloads that would move. With `AsIs`: where the workloads are. With `AsBefore`, and
    /// with `explain`, also the workloads that stay: `to` equals `from`, and a message has the
    /// reason.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<ReviewedMove>,
    /// The workloads that would fit nowhere.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub unplaceable: Vec<Unplaceable>,
    /// How many more entries there are beyond `spec.limit`.
    #[serde(default)]
    pub remaining: i64,
    /// Why workloads would not move as asked: they fit nowhere, limits keep them, or a rebalance is
    /// moving them already. All of them count, also beyond `spec.limit`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonCount>,
    /// How near the moves would come to `spec.objective`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveStatus>,
    /// What the selected workloads cost and would cost, if any cluster tells a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostStatus>,
    /// What the loss of each domain would strand, the worst first, where `spec.survive` asks.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub survival: Vec<DomainSurvival>,
    /// The time of the fleet that `survival` is about, where that is not the present one: an answer
    /// about the present takes too long for a request, and this is the last one that was computed
    /// in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survival_time: Option<Time>,
}

/// What would happen to one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewedMove {
    /// The binding of the workload.
    pub binding: BindingRef,
    /// The workload.
    pub workload: WorkloadRef,
    /// Where the workload is.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Share>,
    /// Where it would go.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Share>,
    /// How many replicas would move, counted where they arrive.
    #[serde(default)]
    pub replicas: i64,
    /// Why the workload would not move as decided, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    /// The same in a sentence, with numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// The reasons for the decision, as far as `spec.explain` asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<FreeForm>,
}

/// A workload that would fit nowhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Unplaceable {
    /// The binding of the workload.
    pub binding: BindingRef,
    /// The workload.
    pub workload: WorkloadRef,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    /// Why, and what would help, in plain words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// The reasons for the decision, as far as `spec.explain` asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<FreeForm>,
}
