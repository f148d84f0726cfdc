//! The bounds of a rebalance as flags: how much of a workload may move, and the pace of the
//! rollout. Their names are the names of the fields.

use std::str::FromStr;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::why::{Moment, as_of};
use ballast_api::ballast::v1alpha1::{AsOf, IntOrPercent, Limits, Mode, Order, SettleWhen, Strategy};
use ballast_node::config::GoDuration;

/// A number or a percentage on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(pub IntOrPercent);

impl FromStr for Amount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Amount, &'static str> {
        let number = text.parse::<i64>().ok().filter(|it| *it >= 0).map(IntOrPercent::Int);
        let percent = text.strip_suffix('%').and_then(|it| it.parse::<u8>().ok()).filter(|it| *it <= 100);
        let amount = number.or(percent.map(|it| IntOrPercent::Percent(i64::from(it))));
        amount.map(Amount).ok_or("write a number, or a percentage from 0% to 100%, such as 10%")
    }
}

/// Limits of the moves of each workload, and the mode of the decision.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "How much")]
pub struct LimitArgs {
    /// Decide from scratch, restore the previous placement, or move only replicas that must leave.
    /// Default: as-before with --displaced or --before, fresh otherwise
    #[arg(long, value_enum)]
    pub mode: Option<ModeName>,

    /// Restore the placement at this time: `10m` or `2d` ago, `14:02` or `yesterday 14:02` in UTC,
    /// a time such as 2026-11-22T15:00:00Z, or a revision
    #[arg(long, value_name = "MOMENT")]
    pub before: Option<Moment>,

    /// Maximum number of replicas of a workload that may move: a number, or a percentage of its
    /// replicas
    #[arg(long, value_name = "AMOUNT")]
    pub max_moved_replicas: Option<Amount>,

    /// Do not move workloads that would move fewer replicas than this: a number, or a percentage
    #[arg(long, value_name = "AMOUNT")]
    pub min_moved_replicas: Option<Amount>,

    /// Move only replicas that are not available on their current cluster
    #[arg(long)]
    pub preserve_available: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    #[default]
    Fresh,
    AsBefore,
    Steady,
}

impl LimitArgs {
    pub fn limits(&self) -> Limits {
        Limits {
            max_moved_replicas: self.max_moved_replicas.map(|it| it.0),
            min_moved_replicas: self.min_moved_replicas.map(|it| it.0),
            preserve_available: self.preserve_available.then_some(true),
        }
    }

    /// Returns the mode. The default for displaced workloads is to restore their previous
    /// placement.
    pub fn mode(&self, displaced: bool) -> Mode {
        let usual = if displaced || self.before.is_some() { ModeName::AsBefore } else { ModeName::Fresh };
        match self.mode.unwrap_or(usual) {
            ModeName::Fresh => Mode::Fresh,
            ModeName::AsBefore => Mode::AsBefore,
            ModeName::Steady => Mode::Steady,
        }
    }

    pub fn before(&self) -> Option<AsOf> {
        self.before.as_ref().map(as_of)
    }
}

/// Rollout of the plan. `rebalance` and `preview --out` start with the conservative defaults of
/// `careful`; the flags change these defaults, the rollout of a file, or the rollout that an undo
/// inherits.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "How fast")]
pub struct RolloutArgs {
    /// Start new replicas and wait until they are ready before old ones are removed (the strategy
    /// SurgeFirst). The default, unless a file or the undone rebalance has another strategy
    #[arg(long)]
    pub surge: bool,

    /// Move all replicas of a workload at once, without waiting for new ones (the strategy Direct)
    #[arg(long, conflicts_with_all = ["surge", "min_available", "max_surge"])]
    pub direct: bool,

    /// Workloads that move concurrently: a number, or a percentage of the plan. Default of
    /// `rebalance` and `preview`: 10%
    #[arg(long, value_name = "AMOUNT")]
    pub max_concurrent: Option<Amount>,

    /// Move all workloads at once
    #[arg(long, conflicts_with = "max_concurrent")]
    pub all_at_once: bool,

    /// Maximum number of moving replicas over all workloads. Default: no limit
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub max_moving_replicas: Option<i64>,

    /// Maximum number of replicas that arrive at one cluster concurrently. Default: no limit
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub max_incoming_per_cluster: Option<i64>,

    /// Pause between the waves in which moves start. Default: none
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub interval: Option<GoDuration>,

    /// Order of the moves. Default: priority
    #[arg(long, value_enum, hide_short_help = true)]
    pub order: Option<OrderName>,

    /// With SurgeFirst: minimum of assigned and ready replicas, a number or a percentage. Default:
    /// 90%
    #[arg(long, value_name = "AMOUNT", hide_short_help = true)]
    pub min_available: Option<Amount>,

    /// With SurgeFirst: maximum of replicas above the workload's own number. Default: 100%
    #[arg(long, value_name = "AMOUNT", hide_short_help = true)]
    pub max_surge: Option<Amount>,

    /// Condition under which a move is finished. Default: healthy
    #[arg(long, value_enum, hide_short_help = true)]
    pub settle: Option<SettleName>,

    /// Time after which a move that is not finished has failed. Default: 10m
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub settle_timeout: Option<GoDuration>,

    /// Abort when this many moves have failed: a number, or a percentage of the plan. Default of
    /// `rebalance` and `preview`: 10%
    #[arg(long, value_name = "AMOUNT")]
    pub abort_on_failed: Option<Amount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OrderName {
    #[default]
    Priority,
    FewestReplicas,
    Name,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SettleName {
    Scheduled,
    Applied,
    #[default]
    Healthy,
}

/// Returns the default rollout of a rebalance that a command creates, unless flags or a file
/// override it. The web page has the same default.
pub fn careful() -> Value {
    json!({
        "strategy": Strategy::SurgeFirst, "maxConcurrent": "10%", "abortOn": {"failed": "10%"}, "minAvailable": "90%",
    })
}

impl RolloutArgs {
    /// Returns whether a flag is given.
    pub fn is_given(&self) -> bool {
        self.changes() != json!({})
    }

    /// Returns whether the moves have a custom order, which only a dry run can plan.
    pub fn has_order(&self) -> bool {
        self.order.is_some_and(|order| order != OrderName::Priority)
    }

    /// Applies the flags to a rollout, which is an object or absent.
    pub fn over(&self, rollout: &Value) -> Value {
        let mut rollout = rollout.clone();
        json_patch::merge(&mut rollout, &self.changes());
        rollout
    }

    /// Returns the changes of the flags as a merge patch.
    fn changes(&self) -> Value {
        let mut changes = json!({});
        let mut set = |name: &str, value: Option<Value>| value.into_iter().for_each(|value| changes[name] = value);
        let amount = |amount: Option<Amount>| amount.map(|it| json!(it.0));
        set("strategy", self.surge.then(|| json!(Strategy::SurgeFirst)));
        if self.direct {
            set("strategy", Some(json!(Strategy::Direct)));
            set("minAvailable", Some(Value::Null));
            set("maxSurge", Some(Value::Null));
        }
        set("maxConcurrent", self.all_at_once.then_some(Value::Null));
        set("maxConcurrent", amount(self.max_concurrent));
        set("maxMovingReplicas", self.max_moving_replicas.map(Value::from));
        set("maxIncomingPerCluster", self.max_incoming_per_cluster.map(Value::from));
        set("intervalSeconds", self.interval.map(|it| seconds(it).into()));
        let order = self.order.map(|order| match order {
            OrderName::Priority => Order::Priority,
            OrderName::FewestReplicas => Order::FewestReplicas,
            OrderName::Name => Order::Name,
        });
        set("order", order.map(|order| json!(order)));
        set("minAvailable", amount(self.min_available));
        set("maxSurge", amount(self.max_surge));
        let when = self.settle.map(|settle| match settle {
            SettleName::Scheduled => SettleWhen::Scheduled,
            SettleName::Applied => SettleWhen::Applied,
            SettleName::Healthy => SettleWhen::Healthy,
        });
        let mut settle = json!({});
        when.into_iter().for_each(|when| settle["when"] = json!(when));
        self.settle_timeout.into_iter().for_each(|timeout| settle["timeoutSeconds"] = seconds(timeout).into());
        set("settle", (settle != json!({})).then_some(settle));
        set("abortOn", self.abort_on_failed.map(|it| json!({"failed": it.0})));
        changes
    }
}

/// Returns whole seconds, rounded up, so that the duration is never shortened.
pub fn seconds(duration: GoDuration) -> i64 {
    i64::try_from(duration.0.as_millis().div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use ballast_api::ballast::v1alpha1::Rollout;
    use clap::{Args, FromArgMatches};

    use super::*;

    #[test]
    fn amounts_are_numbers_or_percentages() {
        let read = |text: &str| text.parse::<Amount>().ok().map(|it| it.0);
        assert_eq!(read("5"), Some(IntOrPercent::Int(5)));
        assert_eq!(read("10%"), Some(IntOrPercent::Percent(10)));
        for wrong in ["-1", "101%", "%", "ten", "1.5", "1.5%", "+5%x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn flags_change_a_rollout_and_leave_the_rest_of_it() {
        let over = |line: &str, rollout: Value| {
            let words = std::iter::once("x").chain(line.split_whitespace());
            let matches = RolloutArgs::augment_args(clap::Command::new("x")).try_get_matches_from(words).unwrap();
            RolloutArgs::from_arg_matches(&matches).unwrap().over(&rollout)
        };
        let own =
            json!({"strategy": "SurgeFirst", "minAvailable": 3, "maxConcurrent": 5, "settle": {"timeoutSeconds": 7}});
        for (line, rollout, expected) in [
            ("", careful(), careful()),
            ("", Value::Null, json!({})),
            ("--direct --all-at-once", careful(), json!({"strategy": "Direct", "abortOn": {"failed": "10%"}})),
            ("--direct", Value::Null, json!({"strategy": "Direct"})),
            (
                "--max-concurrent 1 --settle applied",
                own.clone(),
                json!({"strategy": "SurgeFirst", "minAvailable": 3,
                "maxConcurrent": 1, "settle": {"timeoutSeconds": 7, "when": "Applied"}}),
            ),
            (
                "--abort-on-failed 2 --order name --interval 1500ms",
                json!({}),
                json!({"abortOn": {"failed": 2},
                "order": "Name", "intervalSeconds": 2}),
            ),
        ] {
            assert_eq!(over(line, rollout), expected, "{line}");
        }
        let read: Rollout = serde_json::from_value(careful()).unwrap();
        assert_eq!((read.strategy, read.concurrency(200)), (Strategy::SurgeFirst, Some(20)));
    }
}
