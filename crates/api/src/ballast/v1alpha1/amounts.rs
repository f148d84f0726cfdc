//! Scheduling modes, and bounds on the replicas of a workload that may move.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use ballast_resource::schema::mark::INT_OR_STRING;

/// The mode in which placements are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Mode {
    /// Ignores the current placement of the workload.
    #[default]
    Fresh,
    /// Returns each workload to its placement before it lost clusters to a failure, or as of
    /// `before`, as far as the present rules and capacity allow. Replicas that cannot return are
    /// placed with the fewest moves.
    AsBefore,
    /// Moves only replicas that have to leave, and as few as possible: replicas on clusters that
    /// are gone, that the placement no longer selects, or that have a NoExecute taint that it does
    /// not tolerate; and replicas on clusters in `placedOn` with a NoSchedule taint that it does
    /// not tolerate.
    Steady,
}

/// Limits on what may move, for each workload separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Maximum number of replicas that may move: a number, or a percentage of the workload's
    /// replicas, rounded down but at least 1. If the decision would move more, the best decision
    /// within this bound is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_moved_replicas: Option<IntOrPercent>,
    /// Minimum number of replicas that must move: a number, or a percentage of the workload's
    /// replicas, rounded up. If the decision would move fewer, nothing moves: the phase is
    /// Unchanged, with the reason NotWorthwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_moved_replicas: Option<IntOrPercent>,
    /// Whether only replicas that are not available on their current clusters may move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_available: Option<bool>,
}

impl Limits {
    /// Returns the maximum number of replicas that may move of a workload with `replicas` replicas,
    /// or `None` if there is no bound.
    pub fn most(&self, replicas: i64) -> Option<i64> {
        self.max_moved_replicas.map(|most| most.of(replicas, Rounding::Down).max(1))
    }

    /// Returns the minimum number of replicas that must move of a workload with `replicas`
    /// replicas, or 0 if there is no bound.
    pub fn fewest(&self, replicas: i64) -> i64 {
        self.min_moved_replicas.map_or(0, |fewest| fewest.of(replicas, Rounding::Up))
    }

    /// Returns whether only replicas that are not available on their current clusters may move.
    pub fn preserves_available(&self) -> bool {
        self.preserve_available.unwrap_or_default()
    }
}

/// A number, or a percentage: `5`, `10%`. Stored objects contain no negative values and no
/// percentages above 100%; `of` does not rely on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOrPercent {
    Int(i64),
    Percent(i64),
}

/// The direction in which a percentage is rounded to a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    Up,
    Down,
}

impl IntOrPercent {
    /// Returns the number itself, or the percentage of `total`.
    pub fn of(self, total: i64, rounding: Rounding) -> i64 {
        let percent = match self {
            IntOrPercent::Int(number) => return number,
            IntOrPercent::Percent(percent) => percent,
        };
        let hundredfold = i128::from(percent) * i128::from(total);
        let whole = hundredfold.div_euclid(100);
        let fraction = i128::from(rounding == Rounding::Up && hundredfold.rem_euclid(100) != 0);
        let clamped = (whole + fraction).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        i64::try_from(clamped).expect("clamped to its range")
    }

    fn parse(text: &str) -> Option<IntOrPercent> {
        let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok().map(IntOrPercent::Percent)
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrPercent::Int(number) => write!(f, "{number}"),
            IntOrPercent::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for IntOrPercent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            IntOrPercent::Int(number) => serializer.serialize_i64(*number),
            IntOrPercent::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IntOrPercent, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = IntOrPercent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a percentage such as \"10%\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<IntOrPercent, E> {
                Ok(IntOrPercent::Int(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<IntOrPercent, E> {
                // Validation rejects numbers this large as too large.
                Ok(IntOrPercent::Int(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<IntOrPercent, E> {
                IntOrPercent::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl PartialSchema for IntOrPercent {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .pattern(Some("^(100|[0-9]{1,2})%$"))
            .extensions(Some(Extensions::builder().add(INT_OR_STRING, true).build()))
            .into()
    }
}

impl ToSchema for IntOrPercent {
    fn name() -> Cow<'static, str> {
        "IntOrPercent".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_as_asked_and_numbers_are_taken_as_they_are() {
        for (amount, total, up, down) in [
            (IntOrPercent::Percent(20), 10, 2, 2),
            (IntOrPercent::Percent(20), 9, 2, 1),
            (IntOrPercent::Percent(90), 1, 1, 0),
            (IntOrPercent::Percent(0), 9, 0, 0),
            (IntOrPercent::Percent(100), i64::MAX, i64::MAX, i64::MAX),
            (IntOrPercent::Int(7), 3, 7, 7),
        ] {
            assert_eq!((amount.of(total, Rounding::Up), amount.of(total, Rounding::Down)), (up, down), "{amount}");
        }
    }

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["5", "\"10%\"", "-1", "\"100%\""] {
            let amount: IntOrPercent = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&amount).unwrap(), text);
        }
        for text in ["\"5\"", "\"-1%\"", "\"%\"", "\"1 %\"", "1.5", "true", "\"1.5%\""] {
            assert!(serde_json::from_str::<IntOrPercent>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_most_that_moves_is_never_nothing() {
        let limits = Limits { max_moved_replicas: Some(IntOrPercent::Percent(20)), ..Limits::default() };
        assert_eq!([1, 4, 5, 11].map(|replicas| limits.most(replicas)), [Some(1), Some(1), Some(1), Some(2)]);
        assert_eq!(Limits::default().most(5), None);
    }
}
