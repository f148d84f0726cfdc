//! Gates of a rollout: checks against other servers that must pass before the next wave of moves
//! begins (SG13-SG20).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use ballast_k8s::{Time, duration};

/// A check that must pass before the next wave begins. Exactly one of `prometheus` and `webhook` is
/// given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// Name of the gate, used in conditions and events.
    #[schema(min_length = 1, max_length = 63)]
    pub name: String,
    /// Queries a Prometheus server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusGate>,
    /// Calls a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookGate>,
    /// Duration for which the gate must pass without interruption, such as `60s`. It is checked
    /// once per second. Absent: it must pass once.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 32)]
    pub holds_for: Option<String>,
    /// Seconds within which the gate must pass, from its first check in a wave.
    #[serde(default = "timeout_seconds")]
    #[schema(minimum = 1, maximum = 604800, default = 600)]
    pub timeout_seconds: i64,
    /// The consequence for the rebalance if the gate does not pass in time.
    #[serde(default)]
    #[schema(default = "Abort")]
    pub on_failure: OnFailure,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            name: String::new(),
            prometheus: None,
            webhook: None,
            holds_for: None,
            timeout_seconds: timeout_seconds(),
            on_failure: OnFailure::default(),
        }
    }
}

impl Gate {
    /// Returns the duration for which the gate must pass. Validation rejects unparsable values when
    /// the object is written, so they count as zero here.
    pub fn hold(&self) -> Duration {
        self.holds_for.as_deref().and_then(duration::parse).unwrap_or_default()
    }

    /// Returns the address of the check and the path of its field.
    pub fn address(&self) -> Option<([&'static str; 2], &str)> {
        let of_prometheus = self.prometheus.as_ref().map(|it| (["prometheus", "address"], &*it.address));
        of_prometheus.or_else(|| self.webhook.as_ref().map(|it| (["webhook", "url"], &*it.url)))
    }
}

fn timeout_seconds() -> i64 {
    600
}

/// A query to a Prometheus server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrometheusGate {
    /// Base address of the server: `https://prometheus.example`. `--gate-address-allow` must allow
    /// the address of the query, `https://prometheus.example/api/v1/query`.
    #[schema(min_length = 1, max_length = 2048)]
    pub address: String,
    /// An instant query.
    #[schema(min_length = 1, max_length = 8192)]
    pub query: String,
    /// The condition for each sample of the result: `<`, `<=`, `>`, `>=`, `==` or `!=`, and a
    /// number. The gate does not pass if the result has no sample, or if a sample is NaN.
    #[schema(min_length = 2, max_length = 64)]
    pub holds: String,
}

/// A webhook. It receives a POST request with the rebalance, the wave and its moves, and allows the
/// next wave with status 200 and the body `{"allowed": true}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookGate {
    /// URL of the webhook. `--gate-address-allow` must allow it.
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
}

/// The consequence for a rebalance if a gate does not pass in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum OnFailure {
    /// No further move begins, and the rebalance ends as Aborted.
    #[default]
    Abort,
    /// No further move begins until `spec.paused` is set to true and back to false. Then the gates
    /// are checked again.
    Pause,
    /// The moves of the rebalance are undone, with its rollout but without gates. Then it ends as
    /// Aborted.
    Undo,
}

/// The current or last wave of a rebalance with gates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Number of the wave, starting with 1.
    #[serde(default)]
    pub number: i64,
    /// Moves of the wave that have begun.
    #[serde(default)]
    pub begun: i64,
    /// Time since which the gates of the wave are checked. Absent: the wave has not settled, or the
    /// rebalance is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_since: Option<Time>,
    /// Whether all gates have passed.
    #[serde(default)]
    pub passed: bool,
    /// The gate that has not passed in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedGate>,
    /// Name of the rebalance that undoes the moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<String>,
    /// Whether that rebalance has ended.
    #[serde(default)]
    pub undone: bool,
}

/// A gate that has not passed in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedGate {
    /// Name of the gate.
    pub name: String,
    /// The last result of the gate, as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// The consequence for the rebalance.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Generation of the rebalance at that time.
    #[serde(default)]
    pub generation: i64,
}

/// A condition for a number, such as `< 5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holds {
    comparison: Comparison,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    NotEqual,
}

/// Ordered so that no operator is a prefix of a later one.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Holds {
    /// Returns whether the number meets the condition. NaN never does.
    pub fn of(self, number: f64) -> bool {
        match self.comparison {
            _ if number.is_nan() => false,
            Comparison::Less => number < self.bound,
            Comparison::AtMost => number <= self.bound,
            Comparison::Greater => number > self.bound,
            Comparison::AtLeast => number >= self.bound,
            Comparison::Equal => number == self.bound,
            Comparison::NotEqual => number != self.bound,
        }
    }
}

impl FromStr for Holds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Holds, &'static str> {
        let fault = "write <, <=, >, >=, == or !=, and a number, such as < 5";
        let text = text.trim();
        let (sign, comparison) = COMPARISONS.into_iter().find(|(sign, _)| text.starts_with(sign)).ok_or(fault)?;
        let bound: f64 = text[sign.len()..].trim().parse().map_err(|_| fault)?;
        bound.is_finite().then_some(Holds { comparison, bound }).ok_or(fault)
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = COMPARISONS.into_iter().find(|(_, it)| *it == self.comparison).map_or("", |(sign, _)| sign);
        write!(f, "{sign} {}", self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sg15_what_must_hold_is_a_comparison_with_a_number() {
        for (text, yes, no) in [
            ("< 5", 4.9, 5.0),
            ("<=5", 5.0, 5.1),
            ("> -1", 0.0, -1.0),
            (">= 0.5", 0.5, 0.4),
            ("== 0", 0.0, 0.1),
            ("!= 1e3", 1.0, 1_000.0),
        ] {
            let holds: Holds = text.parse().unwrap();
            assert!(holds.of(yes) && !holds.of(no) && !holds.of(f64::NAN), "{text}");
            assert_eq!(holds.to_string().parse::<Holds>(), Ok(holds));
        }
        for text in ["", "5", "= 5", "< ", "< five", "< NaN", "< inf", "<> 5", "< 5 and > 3"] {
            assert!(text.parse::<Holds>().is_err(), "{text:?}");
        }
    }
}
