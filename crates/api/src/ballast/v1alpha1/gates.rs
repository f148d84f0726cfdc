//! Gates of a rollout: questions to other servers that must be answered with yes before the next
//! wave of moves begins (SG13-SG20).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use ballast_k8s::{Time, duration};

/// A question that must be answered with yes before the next wave begins. Exactly one of
/// `prometheus` and `webhook` is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// Name of the gate, for conditions and events.
    #[schema(min_length = 1, max_length = 63)]
    pub name: String,
    /// Asks a Prometheus server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusGate>,
    /// Asks a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookGate>,
    /// For how long the gate must say yes without a break, such as `60s`. It is asked once a second
    /// meanwhile. Absent: it must say yes once.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 32)]
    pub holds_for: Option<String>,
    /// Seconds within which the gate must have said yes, from when it is first asked in a wave.
    #[serde(default = "timeout_seconds")]
    #[schema(minimum = 1, maximum = 604800, default = 600)]
    pub timeout_seconds: i64,
    /// What becomes of the rebalance if the gate has not said yes by then.
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
    /// For how long the gate must say yes. What cannot be read is refused when it is written.
    pub fn hold(&self) -> Duration {
        self.holds_for.as_deref().and_then(duration::parse).unwrap_or_default()
    }

    /// The address that is asked, and the name of its field.
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
    /// The query, an instant one.
    #[schema(min_length = 1, max_length = 8192)]
    pub query: String,
    /// What must be so of each sample of the answer: `<`, `<=`, `>`, `>=`, `==` or `!=`, and a
    /// number. No sample, and NaN, is no yes.
    #[schema(min_length = 2, max_length = 64)]
    pub holds: String,
}

/// A webhook. It gets a POST with the rebalance, the wave and its moves, and allows the next wave
/// with the status 200 and `{"allowed": true}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookGate {
    /// Its address, which must be among those that `--gate-address-allow` allows.
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
}

/// What becomes of a rebalance whose gate has not said yes in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum OnFailure {
    /// No further move begins, and the rebalance ends as Aborted.
    #[default]
    Abort,
    /// No further move begins until `spec.paused` is true and false again. Then the gates are asked
    /// anew.
    Pause,
    /// What the rebalance has moved goes back, under its own rollout without gates. Then it ends as
    /// Aborted.
    Undo,
}

/// The wave that is under way, or was last, of a rebalance with gates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Which wave it is. The first is 1.
    #[serde(default)]
    pub number: i64,
    /// Moves of the wave that have begun.
    #[serde(default)]
    pub begun: i64,
    /// Since when its gates are asked. Absent: it has not settled, or the rebalance is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_since: Option<Time>,
    /// Whether all gates have said yes.
    #[serde(default)]
    pub passed: bool,
    /// The gate that has not said yes in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedGate>,
    /// Name of the rebalance that takes back what was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<String>,
    /// Whether that rebalance is over.
    #[serde(default)]
    pub undone: bool,
}

/// A gate that has not said yes in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedGate {
    /// Name of the gate.
    pub name: String,
    /// What it answered last, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// What follows.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The generation of the rebalance at that time.
    #[serde(default)]
    pub generation: i64,
}

/// `< 5`: what must be so of a number.
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

/// The longer ones first, because they begin with the shorter ones.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Holds {
    /// Whether it is so of this number. It is of no NaN.
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
