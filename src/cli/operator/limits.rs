//! The bounds of a rebalance as flags: how much of a workload may move, and how fast the plan is
//! carried out. Their names are those of the fields.

use std::str::FromStr;

use clap::ValueEnum;

use super::why::{Moment, as_of};
use ballast_api::ballast::v1alpha1::{
    AbortOn, AsOf, IntOrPercent, Limits, Mode, Order, Rollout, Settle, SettleWhen, Strategy,
};
use ballast_node::config::GoDuration;

/// A number or a percentage, as a flag.
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

/// How much of each workload may move, and how it is decided.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "How much")]
pub struct LimitArgs {
    /// Decide anew, bring back what was before, or move only what has to leave. Default: as-before
    /// with --displaced or --before, fresh otherwise
    #[arg(long, value_enum)]
    pub mode: Option<ModeName>,

    /// Back to where it was then: `10m` ago, `14:02` or `yesterday 14:02` in UTC, a time such
    /// as 2026-11-22T15:00:00Z, or a revision
    #[arg(long, value_name = "MOMENT")]
    pub before: Option<Moment>,

    /// Replicas of a workload that may move: a number, or a percentage of its replicas
    #[arg(long, value_name = "AMOUNT")]
    pub max_moved_replicas: Option<Amount>,

    /// Leave workloads alone that would move fewer replicas: a number, or a percentage
    #[arg(long, value_name = "AMOUNT")]
    pub min_moved_replicas: Option<Amount>,

    /// Move only replicas that are not available where they are
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

    /// The mode. What is displaced goes home, unless another mode is asked for.
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

/// How the plan is carried out.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "How fast")]
pub struct RolloutArgs {
    /// New replicas are ready before old ones go (the strategy SurgeFirst)
    #[arg(long)]
    pub surge: bool,

    /// Workloads that move at once: a number, or a percentage of the plan. Default: no bound
    #[arg(long, value_name = "AMOUNT")]
    pub max_concurrent: Option<Amount>,

    /// Replicas on their way at once, over all workloads. Default: no bound
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub max_moving_replicas: Option<i64>,

    /// Replicas that arrive at one cluster at once. Default: no bound
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub max_incoming_per_cluster: Option<i64>,

    /// Pause between the waves in which moves begin
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_short_help = true)]
    pub interval: Option<GoDuration>,

    /// Which moves come first
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub order: OrderName,

    /// With --surge: replicas that stay assigned and ready, a number or a percentage. Default: 90%
    #[arg(long, value_name = "AMOUNT", requires = "surge", hide_short_help = true)]
    pub min_available: Option<Amount>,

    /// With --surge: replicas above the workload's own number at once. Default: 100%
    #[arg(long, value_name = "AMOUNT", requires = "surge", hide_short_help = true)]
    pub max_surge: Option<Amount>,

    /// When a move is over
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub settle: SettleName,

    /// After how long a move that is not over has failed
    #[arg(long, value_name = "DURATION", default_value = "10m", hide_short_help = true)]
    pub settle_timeout: Option<GoDuration>,

    /// End early when this many moves have failed: a number, or a percentage of the plan
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

impl RolloutArgs {
    pub fn rollout(&self) -> Rollout {
        let defaults = Settle::default();
        let timeout = self.settle_timeout.map(seconds);
        Rollout {
            strategy: if self.surge { Strategy::SurgeFirst } else { Strategy::Direct },
            max_concurrent: self.max_concurrent.map(|it| it.0),
            max_moving_replicas: self.max_moving_replicas,
            max_incoming_per_cluster: self.max_incoming_per_cluster,
            interval_seconds: self.interval.map_or(0, seconds),
            order: match self.order {
                OrderName::Priority => Order::Priority,
                OrderName::FewestReplicas => Order::FewestReplicas,
                OrderName::Name => Order::Name,
            },
            min_available: self.min_available.map(|it| it.0),
            max_surge: self.max_surge.map(|it| it.0),
            settle: Settle {
                when: match self.settle {
                    SettleName::Scheduled => SettleWhen::Scheduled,
                    SettleName::Applied => SettleWhen::Applied,
                    SettleName::Healthy => SettleWhen::Healthy,
                },
                timeout_seconds: timeout.unwrap_or(defaults.timeout_seconds),
            },
            abort_on: self.abort_on_failed.map(|it| AbortOn { failed: it.0 }),
            gates: Vec::new(),
        }
    }
}

/// Whole seconds, rounded up: what is asked for is waited for.
pub fn seconds(duration: GoDuration) -> i64 {
    i64::try_from(duration.0.as_millis().div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
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
    fn the_defaults_are_those_of_the_fields() {
        assert_eq!(RolloutArgs::default().rollout(), Rollout::default());
    }
}
