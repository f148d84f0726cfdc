//! The past moment that a rebalance or a review in mode AsBefore names, as far as the log retains
//! it (RM37).

use std::sync::Arc;

use ballast_api::ballast::v1alpha1::AsOf;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_k8s::{Revision, Time};
use ballast_registry::Client;
use ballast_watch::{Expired, PastError, View};

/// The reason why the moment cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeError {
    /// It is invalid: the field below `before`, and the error.
    Invalid(&'static str, String),
    /// The log does not retain it.
    Forgotten(String),
}

impl BeforeError {
    pub fn message(&self) -> &str {
        match self {
            BeforeError::Invalid(_, message) | BeforeError::Forgotten(message) => message,
        }
    }
}

/// Returns the bindings at that moment.
///
/// # Errors
///
/// The moment is in the future, or older than the retention of the log.
pub async fn bindings_before(client: &Client, before: &AsOf, now: Time) -> Result<Arc<View>, BeforeError> {
    let cache = client.cache();
    let forgotten = |why: String| BeforeError::Forgotten(format!("the state before cannot be told: {why}"));
    let revision = match (&before.revision, before.time) {
        (Some(text), _) => {
            let newest = client.view().revision;
            let revision = text.parse::<i64>().map(Revision);
            let invalid = |why: String| BeforeError::Invalid("revision", why);
            let revision = revision.map_err(|_| invalid(format!("{text} is no revision")))?;
            if revision > newest {
                return Err(invalid(format!("the newest revision is {newest}")));
            }
            revision
        }
        (None, Some(time)) if time > now => {
            return Err(BeforeError::Invalid("time", format!("must not be in the future: it is {now}")));
        }
        (None, Some(time)) => cache.revision_at(time).await.map_err(|why| forgotten(why.to_string()))?,
        (None, None) => return Err(BeforeError::Invalid("time", "give a time or a revision".to_owned())),
    };
    cache.past(&BINDINGS, revision).await.map_err(|why| match why {
        PastError::Expired(Expired { oldest, .. }) => forgotten(format!(
            "revision {revision} is not remembered any more; the oldest that can be asked about is {oldest} \
             (--history says how long the log remembers)"
        )),
        other => forgotten(other.to_string()),
    })
}
