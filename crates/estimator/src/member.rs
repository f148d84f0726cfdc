//! The estimator of one cluster: its connection, and its availability.
//!
//! An estimator that does not respond is unreachable. That is logged once; passes stop querying it,
//! and a background task retries it with a growing pause. Its recovery is logged, too (RM15). An
//! estimator that responds with an error is available, and further queries are sent to it.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::addresses::Addresses;
use super::connector::TlsFiles;
use super::wire::{
    AssumedWorkload, MaxAvailableComponentSetsRequest, MaxAvailableComponentSetsResponse, MaxAvailableReplicasRequest,
    MaxAvailableReplicasResponse, SERVICE, UnschedulableReplicasRequest, UnschedulableReplicasResponse,
};
use ballast_base::metrics;
use ballast_base::outgoing::{self, Outgoing};
use ballast_base::places::Place;
use ballast_engine::karmada::Question;

/// The limit of concurrent queries to one estimator. It responds from its cache, in about a
/// millisecond.
const AT_ONCE_MAX: usize = 16;
/// The maximum size of a response in bytes. All responses are one number.
const ANSWER_BYTES_MAX: usize = 1024;

/// The configuration of access to estimators.
pub struct EstimatorAccess {
    pub addresses: Addresses,
    pub tls: TlsFiles,
    /// The time-out of one query, including a new connection.
    pub timeout: Duration,
    /// Whether queries contain assumed pods. An estimator that ignores them returns estimates that
    /// are too high, without an error.
    pub tells_assumed: bool,
}

/// A request to an estimator.
pub enum Asked<'a> {
    /// A query for capacity, with the workloads that the estimator is to assume in the cluster.
    Room(&'a Question, &'a [AssumedWorkload]),
    Unschedulable(&'a UnschedulableReplicasRequest),
}

/// The outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Said(i32),
    /// The estimator has no estimate (-1).
    Unknown,
    /// The number is invalid.
    Malformed(i32),
    /// The estimator is available, and rejects this query.
    Refused(String),
    Failed(String),
    Late,
}

impl Outcome {
    /// Returns the outcome for the number in a response.
    fn of(number: i32) -> Outcome {
        match number {
            -1 => Outcome::Unknown,
            number if number < 0 => Outcome::Malformed(number),
            number => Outcome::Said(number),
        }
    }

    /// Returns the value of the metric's label.
    fn word(&self) -> &'static str {
        match self {
            Outcome::Said(_) => "answered",
            Outcome::Unknown => "unknown",
            Outcome::Malformed(_) => "malformed",
            Outcome::Refused(_) => "refused",
            Outcome::Failed(_) => "failed",
            Outcome::Late => "late",
        }
    }

    /// Returns whether the estimator is unreachable.
    pub fn is_of_reach(&self) -> bool {
        matches!(self, Outcome::Failed(_) | Outcome::Late)
    }
}

/// The estimator of one cluster.
pub struct Member {
    pub cluster: Arc<str>,
    /// The label of the cluster in metrics.
    label: Arc<str>,
    /// The connection, and its permit.
    channel: tokio::sync::Mutex<Option<(Channel, Place)>>,
    places: Semaphore,
    standing: Mutex<Standing>,
}

/// The availability of an estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It responds, or was not queried yet.
    In,
    /// It responds with errors.
    Refusing,
    /// It does not respond.
    Out,
}

impl Member {
    pub fn new(cluster: &Arc<str>, label: Arc<str>) -> Member {
        Member {
            cluster: Arc::clone(cluster),
            label,
            channel: tokio::sync::Mutex::new(None),
            places: Semaphore::new(AT_ONCE_MAX),
            standing: Mutex::new(Standing::In),
        }
    }

    /// Removes the gauge of the cluster.
    pub fn forget(&self) {
        metrics::estimator_answers(&self.label, None);
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_out(&self) -> bool {
        *self.standing() == Standing::Out
    }

    /// Sends a query, and counts the outcome. `None` if the estimator became unreachable while the
    /// query was queued, or the cluster has none.
    pub async fn ask(&self, reach: &EstimatorAccess, asked: &Asked<'_>, is_probe: bool) -> Option<Outcome> {
        let _place = self.places.acquire().await.ok()?;
        if self.is_out() && !is_probe {
            return None;
        }
        let begun = Instant::now();
        let outcome = match timeout_at(begun + reach.timeout, self.call(reach, asked)).await {
            Ok(outcome) => outcome?,
            Err(_) => Outcome::Late,
        };
        metrics::estimator_asked(&self.label, outcome.word(), begun.elapsed());
        if outcome.is_of_reach() {
            // Addresses and certificates may have changed.
            *self.channel.lock().await = None;
        }
        Some(outcome)
    }

    async fn call(&self, reach: &EstimatorAccess, asked: &Asked<'_>) -> Option<Outcome> {
        let is_known = self.channel.lock().await.is_some();
        let outcome = self.call_once(reach, asked).await;
        if !is_known || !matches!(outcome, Some(Outcome::Failed(_))) {
            return outcome;
        }
        // The estimator may have restarted since the last query.
        *self.channel.lock().await = None;
        self.call_once(reach, asked).await
    }

    async fn call_once(&self, reach: &EstimatorAccess, asked: &Asked<'_>) -> Option<Outcome> {
        let channel = match self.connected(reach).await {
            Ok(channel) => channel?,
            Err(why) => return Some(Outcome::Failed(why)),
        };
        let cluster = self.cluster.to_string();
        let answered = match asked {
            Asked::Room(question, assumed) if question.is_of_sets => {
                let assumed_workloads = assumed.to_vec();
                let request = MaxAvailableComponentSetsRequest { cluster, assumed_workloads, ..sound(&question.body) };
                let answer =
                    unary::<_, MaxAvailableComponentSetsResponse>(channel, "MaxAvailableComponentSets", request);
                answer.await.map(|answer| answer.max_sets)
            }
            Asked::Room(question, assumed) => {
                let assumed_workloads = assumed.to_vec();
                let request = MaxAvailableReplicasRequest { cluster, assumed_workloads, ..sound(&question.body) };
                let answer = unary::<_, MaxAvailableReplicasResponse>(channel, "MaxAvailableReplicas", request);
                answer.await.map(|answer| answer.max_replicas)
            }
            Asked::Unschedulable(request) => {
                let request = UnschedulableReplicasRequest { cluster, ..(*request).clone() };
                let answer = unary::<_, UnschedulableReplicasResponse>(channel, "GetUnschedulableReplicas", request);
                answer.await.map(|answer| answer.unschedulable_replicas)
            }
        };
        Some(match answered {
            Ok(number) => Outcome::of(number),
            Err(status) => refusal(&status),
        })
    }

    /// Returns the connection, which the first query opens. `None` if the cluster has no estimator.
    async fn connected(&self, reach: &EstimatorAccess) -> Result<Option<Channel>, String> {
        let mut channel = self.channel.lock().await;
        if channel.is_none() {
            let Some(addresses) = reach.addresses.of(&self.cluster).await? else { return Ok(None) };
            let slot = outgoing::connect(Outgoing::Estimator, &self.cluster).await;
            let slot = slot.map_err(|busy| format!("too many connections to estimators: {busy}"))?;
            *channel = Some((reach.tls.connect(&addresses).await?, slot));
        }
        Ok(channel.as_ref().map(|(channel, _)| channel.clone()))
    }

    /// Records the outcome of a query, and logs changes of availability. Returns whether the
    /// estimator has just become unreachable.
    pub fn note(&self, outcome: &Outcome, reach: &EstimatorAccess) -> bool {
        let cluster = &*self.cluster;
        let now = match outcome {
            Outcome::Said(_) | Outcome::Unknown => Standing::In,
            Outcome::Malformed(_) | Outcome::Refused(_) => Standing::Refusing,
            Outcome::Failed(_) | Outcome::Late => Standing::Out,
        };
        let was = std::mem::replace(&mut *self.standing(), now);
        metrics::estimator_answers(&self.label, Some(now != Standing::Out));
        let meanwhile = "the cluster's own report counts until it answers";
        match outcome {
            _ if was == now => {}
            Outcome::Said(_) | Outcome::Unknown => tracing::info!(cluster, "the estimator answers again"),
            Outcome::Malformed(number) => {
                tracing::warn!(cluster, number, "the estimator answers with a number that makes no sense");
            }
            Outcome::Refused(why) => tracing::warn!(cluster, why, "the estimator answers with an error"),
            Outcome::Failed(why) => tracing::warn!(cluster, why, "the estimator does not answer: {meanwhile}"),
            Outcome::Late => {
                let within = format!("{:?}", reach.timeout);
                tracing::warn!(cluster, within, "the estimator does not answer in time: {meanwhile}");
            }
        }
        now == Standing::Out && was != Standing::Out
    }
}

/// Decodes the message of a query, which this crate has encoded.
fn sound<M: Message + Default>(body: &[u8]) -> M {
    M::decode(body).unwrap_or_default()
}

/// Classifies an error: either the estimator is unreachable, or it rejects this query only.
fn refusal(status: &Status) -> Outcome {
    let mut why = format!("{:?}: {}", status.code(), status.message());
    // A status from an estimator has no source. With a source, the connection has failed: after the
    // handshake, if the estimator rejects the client's certificate.
    let mut source = status.source();
    if source.is_some() {
        while let Some(cause) = source {
            let cause_told = cause.to_string();
            if !why.ends_with(&cause_told) {
                why = format!("{why}: {cause_told}");
            }
            source = cause.source();
        }
        if matches!(status.code(), Code::Unknown | Code::Cancelled) {
            why += "; the connection ended before the answer: does the estimator want another client certificate?";
        }
        return Outcome::Failed(why);
    }
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::Internal | Code::Unauthenticated | Code::PermissionDenied => {
            Outcome::Failed(why)
        }
        Code::DeadlineExceeded => Outcome::Late,
        _ => Outcome::Refused(why),
    }
}

async fn unary<Q, A>(channel: Channel, method: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let path =
        PathAndQuery::try_from(format!("/{SERVICE}/{method}")).map_err(|error| Status::from_error(error.into()))?;
    let mut client = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let answer = client.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
    Ok(answer.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rm16_negative_numbers_are_no_answers() {
        assert_eq!(Outcome::of(0), Outcome::Said(0));
        assert_eq!(Outcome::of(i32::MAX), Outcome::Said(i32::MAX));
        assert_eq!(Outcome::of(-1), Outcome::Unknown);
        assert_eq!(Outcome::of(i32::MIN), Outcome::Malformed(i32::MIN));
    }

    #[test]
    fn rm15_an_error_about_a_question_is_no_loss_of_the_estimator() {
        let of = |code: Code| refusal(&Status::new(code, "no")).is_of_reach();
        for code in [Code::Unknown, Code::Unimplemented, Code::InvalidArgument, Code::NotFound] {
            assert!(!of(code), "{code:?}");
        }
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Internal] {
            assert!(of(code), "{code:?}");
        }
    }
}
