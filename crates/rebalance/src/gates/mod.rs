//! Gates: external servers that must approve the next wave of a rebalance (SG13-SG20).
//!
//! ```text
//!   step: the wave has settled ──► GateCheck ──► GateQuestion ─ after the commit ─► GateClient
//!                 ▲                (pure)                                              │
//!                 └──────── the next step records the answers ◄────────────────────────┘
//! ```
//!
//! The status of the rebalance contains the wave, and the time since which its gates are queried.
//! The responses are only kept in memory. After a crash the gates are queried again, and no gate
//! gets additional time.
//!
//! Only a response that is complete, in time and as expected is an approval. Any other response
//! counts as none, and its message contains the error.
//!
//! - `address`: the addresses that gates may request
//! - `admission`: refuses gates with other addresses
//! - `answer`: interprets responses
//! - `check`: the next action for the gates of a wave
//!
//! The process with the flags provides a `GateClient` that uses HTTP.

pub mod address;
mod admission;
pub mod answer;
mod check;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

pub use self::admission::GateAddresses;
pub use self::check::{GateCheck, GateMemory, check};
use ballast_api::ballast::v1alpha1::Gate;
use ballast_k8s::Time;

/// Maximum time for a response, if the gate has as much left.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum number of moves in a request to a webhook. Further moves of the wave are only counted.
pub const WEBHOOK_MOVES_MAX: usize = 500;

/// Returns the body of the request to webhooks.
pub fn body(rebalance: Value, wave: i64, moves: Vec<Value>, remaining: usize) -> Value {
    serde_json::json!({"rebalance": rebalance, "wave": wave, "moves": moves, "remaining": remaining})
}

/// A client that queries gates.
#[async_trait]
pub trait GateClient: Send + Sync + 'static {
    /// Queries the gate once. Returns within a bounded time, also without a response.
    async fn ask(&self, gate: &Gate, question: &WaveQuestion) -> GateAnswer;
}

/// The response of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateAnswer {
    pub is_yes: bool,
    /// The message for users.
    pub words: String,
}

impl GateAnswer {
    pub fn yes(words: impl Into<String>) -> GateAnswer {
        GateAnswer { is_yes: true, words: words.into() }
    }

    pub fn no(words: impl Into<String>) -> GateAnswer {
        GateAnswer { is_yes: false, words: words.into() }
    }
}

/// The input of a request to the gates.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveQuestion {
    /// The namespace of the rebalance, for its share of concurrent requests. Empty for a
    /// ClusterRebalance.
    pub namespace: Arc<str>,
    /// The body for webhooks: `{rebalance, wave, moves}`.
    pub body: Arc<Value>,
    /// Maximum time for a response.
    pub within: Duration,
}

/// The gates to query now, about one wave.
#[derive(Clone, Debug)]
pub struct GateQuestion {
    pub wave: WaveId,
    pub gates: Vec<(usize, Gate)>,
    pub about: WaveQuestion,
}

/// A wave: its number, and the time since which its gates are queried.
pub type WaveId = (i64, Option<Time>);

/// The responses to a query.
#[derive(Clone, Debug)]
pub struct GateAnswers {
    pub wave: WaveId,
    pub answers: Vec<(usize, GateAnswer)>,
}

impl GateQuestion {
    /// Queries all gates at once.
    pub async fn ask(self, client: &dyn GateClient) -> GateAnswers {
        let GateQuestion { wave, gates, about } = self;
        let each = gates.iter().map(|(index, gate)| {
            let about = &about;
            async move { (*index, client.ask(gate, about).await) }
        });
        GateAnswers { wave, answers: futures_util::future::join_all(each).await }
    }
}

/// A client without allowed addresses, which queries no gate.
pub struct NoGates;

#[async_trait]
impl GateClient for NoGates {
    async fn ask(&self, _: &Gate, _: &WaveQuestion) -> GateAnswer {
        GateAnswer::no("this server has no --gate-address-allow, so it asks nobody")
    }
}
