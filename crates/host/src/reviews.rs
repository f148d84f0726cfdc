//! TokenReview and SubjectAccessReview, v1 (AN8, AZ1).
//!
//! A review that fails for a temporary reason is retried after a pause. One deadline covers all
//! attempts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connect::Host;
use ballast_auth::{AccessReviewer, Answer, Attributes, TokenReviewer, Unavailable};
use ballast_base::metrics::{self, Delegated};
use ballast_base::telemetry;
use ballast_k8s::User;

/// Deadline for all attempts of one review.
const REVIEW_MAX: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_GROWTH: f64 = 1.5;

/// Reviews tokens and accesses at the host cluster.
pub struct Reviews {
    host: Host,
}

impl Reviews {
    pub fn new(host: Host) -> Reviews {
        Reviews { host }
    }
}

#[async_trait]
impl TokenReviewer for Reviews {
    async fn review(&self, token: &str) -> Result<Option<User>, Unavailable> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.host.client.clone());
        let status = ask(Delegated::Authentication, &api, &review).await?.status;
        let status = status.ok_or_else(|| Unavailable("the TokenReview has no status".to_owned()))?;
        if status.authenticated != Some(true) {
            if let Some(error) = status.error.filter(|error| !error.is_empty()) {
                tracing::debug!(error, "a token was refused");
            }
            return Ok(None);
        }
        let user = status.user.map(user_of).filter(|user| !user.name.is_empty());
        user.map(Some).ok_or_else(|| Unavailable("the TokenReview names no user".to_owned()))
    }
}

fn user_of(info: UserInfo) -> User {
    let UserInfo { username, uid, groups, extra } = info;
    User {
        name: username.unwrap_or_default(),
        uid: uid.unwrap_or_default(),
        groups: groups.unwrap_or_default(),
        extra: extra.unwrap_or_default(),
    }
}

#[async_trait]
impl AccessReviewer for Reviews {
    async fn review(&self, user: &User, attributes: &Attributes<'_>) -> Result<Answer, Unavailable> {
        let review = SubjectAccessReview { spec: spec(user, attributes), ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.host.client.clone());
        let status = ask(Delegated::Authorization, &api, &review).await?.status;
        let status = status.ok_or_else(|| Unavailable("the SubjectAccessReview has no status".to_owned()))?;
        let allowed = status.allowed && status.denied != Some(true);
        if let (false, Some(error)) = (allowed, status.evaluation_error.filter(|error| !error.is_empty())) {
            tracing::debug!(error, "the host cluster denied an access after an evaluation error");
        }
        Ok(Answer { allowed, reason: status.reason.unwrap_or_default() })
    }
}

fn spec(user: &User, attributes: &Attributes<'_>) -> SubjectAccessReviewSpec {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let extra: BTreeMap<String, Vec<String>> = user.extra.clone();
    let spec = SubjectAccessReviewSpec {
        user: some(&user.name),
        uid: some(&user.uid),
        groups: (!user.groups.is_empty()).then(|| user.groups.clone()),
        extra: (!extra.is_empty()).then_some(extra),
        ..SubjectAccessReviewSpec::default()
    };
    match attributes {
        Attributes::Path { verb, path } => SubjectAccessReviewSpec {
            non_resource_attributes: Some(NonResourceAttributes { verb: some(verb), path: some(path) }),
            ..spec
        },
        Attributes::Resource(asked) => SubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: some(asked.namespace),
                verb: some(asked.verb),
                group: some(asked.group),
                version: some(asked.version),
                resource: some(asked.resource),
                subresource: some(asked.subresource),
                name: some(asked.name),
                // Unparsed, because the host cluster decides and should parse them itself.
                field_selector: some(asked.field_selector)
                    .map(|raw| FieldSelectorAttributes { raw_selector: Some(raw), requirements: None }),
                label_selector: some(asked.label_selector)
                    .map(|raw| LabelSelectorAttributes { raw_selector: Some(raw), requirements: None }),
            }),
            ..spec
        },
    }
}

async fn ask<K>(what: Delegated, api: &Api<K>, review: &K) -> Result<K, Unavailable>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let mut last = "no answer in time".to_owned();
    let asked = tokio::time::timeout(REVIEW_MAX, async {
        let mut pause = PAUSE_FIRST;
        for attempt in 1..=TRIES_MAX {
            let started = Instant::now();
            let outcome = api.create(&PostParams::default(), review).await;
            metrics::delegated(what, &code(&outcome), started.elapsed());
            match outcome {
                Ok(answer) => return Some(answer),
                Err(error) => {
                    let is_last = attempt == TRIES_MAX || !may_pass(&error);
                    last = sentence(&error);
                    if is_last {
                        return None;
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(PAUSE_GROWTH);
        }
        None
    });
    match asked.await {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) | Err(_) => Err(Unavailable(last)),
    }
}

/// Returns whether another attempt may succeed: the server is overloaded or failed, or the
/// connection broke.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 503 | 504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

/// Returns the message of an error with its causes.
pub(super) fn sentence(error: &kube::Error) -> String {
    // The client's own message repeats the response three times.
    if let kube::Error::Api(status) = error
        && !status.message.is_empty()
    {
        return status.message.clone();
    }
    telemetry::with_causes(error)
}

fn code<T>(outcome: &Result<T, kube::Error>) -> String {
    match outcome {
        Ok(_) => "201".to_owned(),
        Err(kube::Error::Api(status)) => status.code.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}
