//! Users of bearer tokens that the host cluster reviews. Its answers are cached (AN8).
//!
//! The cache is keyed by the hash of a token, so it holds no token itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::ttl_cache::TtlCache;
use super::unavailable::Unavailable;
use super::well_known::with_authenticated_group;
use ballast_k8s::User;

/// The most tokens that are cached.
const TOKENS_MAX: u64 = 4096;

/// Knows, or can find out, whose token it is. `None` means nobody's.
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
    /// `keep` says how long an answer, positive or negative, is cached. Failures are not cached.
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
