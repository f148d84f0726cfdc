//! The objective of a plan for all clusters together, and how close the plan comes to it.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::amounts::{IntOrPercent, Rounding};
use super::survival::FailureDomain;

/// The objective of a plan for all clusters together. It selects only among placements that the
/// rules of each workload allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Objective {
    /// The goal of the plan.
    pub goal: Goal,
    /// With Balance and Pack: the resource to consider, such as `cpu`. Absent: the most used
    /// resource of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 317)]
    pub resource: Option<String>,
    /// With Survive: the failure domain. Default: Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<FailureDomain>,
    /// Maximum number of replicas that may move, over all workloads: a number, or a percentage of
    /// all replicas of the selected workloads, rounded down but at least 1. 0 moves nothing.
    /// Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_moved_replicas: Option<IntOrPercent>,
    /// Minimum ratio of a move's share of the gain to its share of the moved replicas. Moves with a
    /// lower ratio are not made. Both shares relate to the plan with `worth: 0`, which makes every
    /// move with a gain.
    #[serde(default = "half")]
    #[schema(default = 0.5)]
    pub worth: Figure,
    /// The gain up to which nothing moves. With Balance, a percentage of a cluster's capacity. With
    /// Cost, a percentage of the price of the selected workloads, and of each replica that moves.
    /// Otherwise a number: replicas with Survive, clusters with Pack. Absent: 2% with Balance and
    /// Cost, 0 with Survive and Pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<IntOrPercent>,
}

/// The goal of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Goal {
    /// Uses the clusters as evenly as possible: first the fullest cluster, then the next. The
    /// figure is the used share of the capacity of the fullest cluster, minus the mean over all
    /// clusters. Fuller clusters that no move can relieve are excluded from both.
    Balance,
    /// Uses as few clusters as possible. The figure is their number.
    Pack,
    /// Minimizes the price of the workloads, by the annotations `ballast.dev/price-cpu`,
    /// `ballast.dev/price-memory` and `ballast.dev/price-<resource>` of the clusters: the hourly
    /// price of a core, a GiB or a unit. The figure is the price per hour.
    Cost,
    /// Ensures that the workloads of any one failure domain fit elsewhere if it is lost. The figure
    /// is the number of replicas that would not fit, summed over all domains, each lost alone.
    Survive,
}

/// The default tolerance of goals with a share or a price as figure.
const TOLERANCE: IntOrPercent = IntOrPercent::Percent(2);

/// Maximum number of unrelieved clusters listed in a status.
pub const UNRELIEVED_MAX: usize = 16;

fn half() -> Figure {
    Figure(Figure::ONE / 2)
}

impl Objective {
    /// Returns the gain up to which nothing moves, as given or by default.
    pub fn tolerance(&self) -> IntOrPercent {
        self.tolerance.unwrap_or(if self.goal.has_percent() { TOLERANCE } else { IntOrPercent::Int(0) })
    }

    /// Returns the tolerance in the unit of the engine: a share, or a number.
    pub fn tolerance_number(&self) -> f64 {
        match self.tolerance() {
            IntOrPercent::Int(number) => number as f64,
            IntOrPercent::Percent(percent) => percent as f64 / 100.0,
        }
    }

    /// Returns the number of replicas that may move if the selected workloads have `selected`
    /// replicas, or `None` if there is no bound.
    pub fn budget(&self, selected: i64) -> Option<i64> {
        let most = self.max_moved_replicas?;
        let is_none = matches!(most, IntOrPercent::Int(0) | IntOrPercent::Percent(0));
        Some(if is_none { 0 } else { most.of(selected, Rounding::Down).max(1) })
    }
}

impl Goal {
    pub fn as_str(self) -> &'static str {
        match self {
            Goal::Balance => "Balance",
            Goal::Pack => "Pack",
            Goal::Cost => "Cost",
            Goal::Survive => "Survive",
        }
    }

    /// Returns the unit of the goal's figure.
    pub fn unit(self) -> FigureUnit {
        match self {
            Goal::Balance => FigureUnit::ShareOfCapacity,
            Goal::Pack => FigureUnit::Clusters,
            Goal::Cost => FigureUnit::CostPerHour,
            Goal::Survive => FigureUnit::Replicas,
        }
    }

    /// Returns whether the goal's tolerance is a percentage.
    pub fn has_percent(self) -> bool {
        matches!(self, Goal::Balance | Goal::Cost)
    }

    /// Returns whether the goal accepts a resource.
    pub(super) fn has_resource(self) -> bool {
        matches!(self, Goal::Balance | Goal::Pack)
    }
}

/// How close a plan comes to its objective. Lower figures are better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveStatus {
    /// The figure of the goal when the plan was made, without any of its moves.
    pub before: Figure,
    /// The figure after all moves of the plan.
    pub after: Figure,
    /// Lower bound: no plan within the rules, the limits and the budget has a lower figure.
    pub bound: Figure,
    /// Number of replicas that move, counted on their target clusters: in a review those of the
    /// plan, in a rebalance those moved so far.
    pub moved: i64,
    /// The unit of the three figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<FigureUnit>,
    /// Whether the moves have been undone, so that `after` is not reached.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    #[schema(required = false)]
    pub undone: bool,
    /// With Balance: clusters that are fuller than those of the figure and that no move can
    /// relieve, the fullest first, at most 16. They are excluded from the figure and its mean.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub unrelieved: Vec<String>,
    /// The tolerance, if nothing moves because no plan has a higher gain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_tolerance: Option<IntOrPercent>,
}

/// The unit of a goal's figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum FigureUnit {
    /// A share of a cluster's capacity: 0.5 is 50 percent.
    ShareOfCapacity,
    Clusters,
    /// Price per hour.
    CostPerHour,
    Replicas,
}

impl ObjectiveStatus {
    /// Returns a figure with its unit: `18.75 % of capacity`.
    pub fn with_unit(&self, figure: Figure) -> String {
        match self.unit {
            None => figure.to_string(),
            Some(FigureUnit::ShareOfCapacity) => format!("{} % of capacity", figure.percent()),
            Some(FigureUnit::Clusters) => {
                format!("{figure} {}", if figure == Figure::of(1.0) { "cluster" } else { "clusters" })
            }
            Some(FigureUnit::CostPerHour) => format!("{figure} an hour"),
            Some(FigureUnit::Replicas) => {
                format!("{figure} {}", if figure == Figure::of(1.0) { "replica" } else { "replicas" })
            }
        }
    }

    /// Returns the reason that nothing moves, if it is the tolerance: `within the tolerance of 2%`.
    pub fn within_tolerance(&self) -> Option<String> {
        self.within_tolerance.map(|tolerance| format!("within the tolerance of {tolerance}"))
    }
}

/// The price of the selected workloads on clusters with known prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostStatus {
    /// Price per hour at planning time.
    pub before_per_hour: Figure,
    /// Price per hour after all moves of the plan.
    pub after_per_hour: Figure,
    /// `afterPerHour` minus `beforePerHour`.
    pub difference_per_hour: Figure,
    /// Number of clusters without a price for a resource that a selected workload requests and that
    /// another cluster prices. Such workloads, and their moves from and to these clusters, are not
    /// counted there.
    pub unpriced_clusters: i64,
}

/// A decimal number with four digits after the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Figure(i64);

impl Figure {
    const ONE: i64 = 10_000;

    /// Returns the number, rounded to four digits after the point. NaN becomes 0, and numbers out
    /// of range are clamped.
    pub fn of(number: f64) -> Figure {
        Figure((number * Figure::ONE as f64).round() as i64)
    }

    pub fn number(self) -> f64 {
        self.0 as f64 / Figure::ONE as f64
    }

    /// Returns a share as a percentage with two digits after the point.
    fn percent(self) -> f64 {
        self.0 as f64 / (Figure::ONE / 100) as f64
    }

    #[must_use]
    pub fn minus(self, other: Figure) -> Figure {
        Figure(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % Figure::ONE {
            0 => serializer.serialize_i64(self.0 / Figure::ONE),
            _ => serializer.serialize_f64(self.number()),
        }
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figure, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number.is_finite() { Ok(Figure::of(number)) } else { Err(D::Error::custom("must be a finite number")) }
    }
}

impl PartialSchema for Figure {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Number).into()
    }
}

impl ToSchema for Figure {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pl1_figures_are_written_as_plain_numbers() {
        for (number, text) in [(0.42, "0.42"), (65.0, "65"), (-40.0, "-40"), (0.069_999, "0.07"), (0.0, "0")] {
            assert_eq!(serde_json::to_string(&Figure::of(number)).unwrap(), text);
        }
        assert_eq!(serde_json::from_value::<Figure>(json!(3)).unwrap(), Figure::of(3.0));
        assert_eq!(Figure::of(1e300), Figure(i64::MAX), "what is too large stays in order");
    }

    #[test]
    fn a_tolerance_has_a_default_and_a_unit_by_goal() {
        let number = |text: serde_json::Value| serde_json::from_value::<Objective>(text).unwrap().tolerance_number();
        for (goal, default) in [("Balance", 0.02), ("Cost", 0.02), ("Survive", 0.0), ("Pack", 0.0)] {
            assert_eq!(number(json!({"goal": goal})), default, "{goal}");
        }
        assert_eq!(number(json!({"goal": "Balance", "tolerance": "0%"})), 0.0);
        assert_eq!(number(json!({"goal": "Survive", "tolerance": 3})), 3.0);
    }

    #[test]
    fn pl2_a_budget_is_a_share_of_all_replicas_and_0_moves_nothing() {
        let budget = |most| {
            let goal = Goal::Balance;
            Objective { goal, resource: None, by: None, max_moved_replicas: most, worth: half(), tolerance: None }
                .budget(250)
        };
        assert_eq!(budget(Some(IntOrPercent::Percent(10))), Some(25));
        assert_eq!(budget(Some(IntOrPercent::Int(7))), Some(7));
        assert_eq!(budget(Some(IntOrPercent::Percent(0))), Some(0));
        assert_eq!(budget(None), None);
    }
}
