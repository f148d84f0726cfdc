//! The objective of a plan for the whole fleet, as flags and as sentences.

use clap::ValueEnum;

use super::limits::Amount;
use super::survive::DomainName;
use ballast_api::ballast::v1alpha1::{Figure, Goal, Objective, ReviewStatus, UNRELIEVED_MAX};

/// The objective of the plan for the whole fleet.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What for")]
pub struct ObjectiveArgs {
    /// Plan for the whole fleet: even utilization of the clusters, few clusters, a low price, or
    /// headroom for workloads that the loss of a cluster would strand. Default: each workload is
    /// placed by its own placement alone
    #[arg(long, value_enum, value_name = "GOAL")]
    pub objective: Option<GoalName>,

    /// The resource to optimize, such as cpu. Default: the most used resource of each cluster
    #[arg(long, value_name = "NAME", requires = "objective")]
    pub resource: Option<String>,

    /// With survive: the domain that may be lost at once. Default: cluster
    #[arg(long, value_enum, requires = "objective")]
    pub by: Option<DomainName>,

    /// Maximum number of replicas that may move over all workloads: a number, or a percentage of
    /// all replicas
    #[arg(long, value_name = "AMOUNT", requires = "objective")]
    pub budget: Option<Amount>,

    /// Skip moves that gain little for their replicas: with 0.5, a move with 10 % of the moved
    /// replicas must achieve at least 5 % of the gain. 0 makes every move that gains anything
    #[arg(long, value_name = "NUMBER", requires = "objective", default_value = "0.5", value_parser = worth)]
    pub worth: Option<f64>,

    /// Gain up to which nothing moves: with balance a percentage of a cluster's capacity, with cost
    /// of the price; replicas with survive, clusters with pack. Default: 2%, with survive and pack
    /// 0
    #[arg(long, value_name = "AMOUNT", requires = "objective")]
    pub tolerance: Option<Amount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GoalName {
    Balance,
    Pack,
    Cost,
    Survive,
}

/// Above this value no move is worth its replicas.
const WORTH_MAX: f64 = 1_000.0;

fn worth(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=WORTH_MAX).contains(number));
    number.ok_or_else(|| format!("write a number from 0 to {WORTH_MAX}, such as 0.5"))
}

impl ObjectiveArgs {
    pub fn objective(&self) -> Option<Objective> {
        let goal = match self.objective? {
            GoalName::Balance => Goal::Balance,
            GoalName::Pack => Goal::Pack,
            GoalName::Cost => Goal::Cost,
            GoalName::Survive => Goal::Survive,
        };
        Some(Objective {
            goal,
            resource: self.resource.clone(),
            by: self.by.map(DomainName::domain),
            max_moved_replicas: self.budget.map(|it| it.0),
            worth: Figure::of(self.worth.unwrap_or(0.5)),
            tolerance: self.tolerance.map(|it| it.0),
        })
    }
}

/// Returns how close the moves come to the objective, and their cost. Empty if the status has
/// neither.
pub fn told(status: &ReviewStatus) -> String {
    let mut text = String::new();
    if let Some(it) = &status.objective {
        let [before, after, bound] = [it.before, it.after, it.bound].map(|figure| it.with_unit(figure));
        let within = it.within_tolerance().map_or_else(String::new, |why| format!(" Every gain is {why}."));
        text = format!("Objective: {before} before, {after} after; no plan gets below {bound}.{within}\n");
        if !it.unrelieved.is_empty() {
            let more = if it.unrelieved.len() == UNRELIEVED_MAX { ", ..." } else { "" };
            text = format!("{text}Left out, because no move relieves them: {}{more}.\n", it.unrelieved.join(", "));
        }
    }
    if let Some(cost) = &status.cost {
        let difference = cost.difference_per_hour.number();
        let sign = if difference > 0.0 { "+" } else { "" };
        let unpriced = match cost.unpriced_clusters {
            0 => String::new(),
            1 => "; 1 cluster has no price".to_owned(),
            count => format!("; {count} clusters have no price"),
        };
        let (before, after) = (cost.before_per_hour, cost.after_per_hour);
        text = format!("{text}Cost: {before} an hour before, {after} after ({sign}{difference}){unpriced}.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::ballast::v1alpha1::{CostStatus, IntOrPercent, ObjectiveStatus};

    #[test]
    fn pl1_figures_and_prices_are_told_in_two_lines() {
        let figure = Figure::of;
        let objective = ObjectiveStatus {
            before: figure(0.4217),
            after: figure(0.07),
            bound: figure(0.06),
            moved: 812,
            unit: Some(Goal::Balance.unit()),
            ..ObjectiveStatus::default()
        };
        let cost = CostStatus {
            before_per_hour: figure(65.0),
            after_per_hour: figure(25.0),
            difference_per_hour: figure(-40.0),
            unpriced_clusters: 1,
        };
        let objective = Some(objective);
        let status = ReviewStatus { objective, cost: Some(cost), ..ReviewStatus::default() };
        assert_eq!(
            told(&status),
            "Objective: 42.17 % of capacity before, 7 % of capacity after; no plan gets below 6 % of capacity.\n\
             Cost: 65 an hour before, 25 after (-40); 1 cluster has no price.\n"
        );
        assert_eq!(told(&ReviewStatus::default()), "");
        let shown = |goal: Goal, number| {
            ObjectiveStatus { unit: Some(goal.unit()), ..ObjectiveStatus::default() }.with_unit(figure(number))
        };
        assert_eq!(shown(Goal::Pack, 1.0), "1 cluster");
        assert_eq!(shown(Goal::Survive, 2195.0), "2195 replicas");
        assert_eq!(shown(Goal::Cost, 0.72), "0.72 an hour");
        let objective = ObjectiveStatus {
            before: figure(0.015),
            after: figure(0.015),
            unrelieved: vec!["hot".to_owned()],
            within_tolerance: Some(IntOrPercent::Percent(2)),
            ..ObjectiveStatus::default()
        };
        assert_eq!(
            told(&ReviewStatus { objective: Some(objective), ..ReviewStatus::default() }),
            "Objective: 0.015 before, 0.015 after; no plan gets below 0. Every gain is within the tolerance of 2%.\n\
             Left out, because no move relieves them: hot.\n"
        );
    }

    #[test]
    fn pl3_worth_is_a_number_that_is_not_negative() {
        assert_eq!(worth("0.5"), Ok(0.5));
        for wrong in ["-1", "NaN", "inf", "much", "1001"] {
            assert!(worth(wrong).is_err(), "{wrong}");
        }
    }
}
