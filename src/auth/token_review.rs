//! Users from bearer tokens that the host cluster reviews, asked at most once in a while for each
//! (AN8).
//!
//! Tokens are remembered by their hash, so that a dump of memory holds none that was only looked
//! up.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::ttl_cache::TtlCache;
use super::{Unavailable, with_authenticated_group};
use crate::k8s::User;

/// Tokens remembered at most.
const TOKENS_MAX: u64 = 4096;

/// Asks somebody who knows whose token it is. `None`: nobody's.
#[async_trait]
pub trait TokenReviewer: Send + Sync {
    async fn review(&self, token: &str) -> Result<Option<User>, Unavailable>;
}

pub struct TokenReviews {
    reviewer: Arc<dyn TokenReviewer>,
    keep: Duration,
    cache: TtlCache<[u8; 32], Result<Option<Arc<User>>, Unavailable>>,
}

impl TokenReviews {
    /// `keep` is how long an answer is good for, yes or no; a failure is asked again at once.
    pub fn new(reviewer: Arc<dyn TokenReviewer>, keep: Duration) -> TokenReviews {
        TokenReviews { reviewer, keep, cache: TtlCache::new(TOKENS_MAX) }
    }

    pub(super) async fn user(&self, token: &str) -> Result<Option<Arc<User>>, Unavailable> {
        let ask = async {
            let reviewed = self.reviewer.review(token).await;
            let keep = if reviewed.is_ok() { self.keep } else { Duration::ZERO };
            (reviewed.map(|user| user.map(with_authenticated_group).map(Arc::new)), keep)
        };
        self.cache.get_or(&Sha256::digest(token).into(), ask).await
    }
}
