//! Gates: other servers are asked between two waves whether the next one may begin (SG13-SG20).
//!
//! ```text
//!   step: the wave has settled ──► GateCheck ──► GateQuestion ─ after the commit ─► GateClient
//!                 ▲                (pure)                                              │
//!                 └───────── the next step notes the answers ◄─────────────────────────┘
//! ```
//!
//! The status of the rebalance says which wave it is, and since when its gates are asked. What they
//! have answered is only remembered. So after kill -9 they are asked again, and no gate gets more
//! time than it has.
//!
//! Only an answer that is complete, in time and as expected is a yes. Everything else is no yes,
//! and says in words what is wrong.
//!
//! - `address`: which addresses may be asked
//! - `admission`: refuses gates with other addresses
//! - `answer`: what an answer means
//! - `check`: what is to be done about the gates of a wave
//!
//! The process that has the flags brings a `GateClient` that asks over HTTP.

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

/// The most time that an answer may take, if the gate has as much left.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// What a webhook gets, at most: moves of the wave beyond it are only counted.
pub const WEBHOOK_MOVES_MAX: usize = 500;

/// The body of the question to webhooks.
pub fn body(rebalance: Value, wave: i64, moves: Vec<Value>, remaining: usize) -> Value {
    serde_json::json!({"rebalance": rebalance, "wave": wave, "moves": moves, "remaining": remaining})
}

/// Asks a gate.
#[async_trait]
pub trait GateClient: Send + Sync + 'static {
    /// Asks once. It returns within a bounded time, also if no answer comes.
    async fn ask(&self, gate: &Gate, question: &WaveQuestion) -> GateAnswer;
}

/// What a gate has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateAnswer {
    pub is_yes: bool,
    /// For people.
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

/// What the gates are asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveQuestion {
    /// The namespace of the rebalance, for the share of its requests. Empty for a
    /// ClusterRebalance.
    pub namespace: Arc<str>,
    /// What a webhook gets: `{rebalance, wave, moves}`.
    pub body: Arc<Value>,
    /// The most time that an answer may take.
    pub within: Duration,
}

/// The gates that are asked now, about one wave.
#[derive(Clone, Debug)]
pub struct GateQuestion {
    pub wave: WaveId,
    pub gates: Vec<(usize, Gate)>,
    pub about: WaveQuestion,
}

/// Which wave is asked about: its number, and since when.
pub type WaveId = (i64, Option<Time>);

/// The answers to a question.
#[derive(Clone, Debug)]
pub struct GateAnswers {
    pub wave: WaveId,
    pub answers: Vec<(usize, GateAnswer)>,
}

impl GateQuestion {
    /// Asks all gates of the question at once.
    pub async fn ask(self, client: &dyn GateClient) -> GateAnswers {
        let GateQuestion { wave, gates, about } = self;
        let each = gates.iter().map(|(index, gate)| {
            let about = &about;
            async move { (*index, client.ask(gate, about).await) }
        });
        GateAnswers { wave, answers: futures_util::future::join_all(each).await }
    }
}

/// No gate can be asked: no flag allows any address.
pub struct NoGates;

#[async_trait]
impl GateClient for NoGates {
    async fn ask(&self, _: &Gate, _: &WaveQuestion) -> GateAnswer {
        GateAnswer::no("this server has no --gate-address-allow, so it asks nobody")
    }
}
