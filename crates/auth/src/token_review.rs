//! Users of bearer tokens that the host cluster reviews, with a cache (AN8).
//!
//! The cache is keyed by the hash of a token, so it holds no token itself.
//!
//! Anyone can send tokens, so concurrent reviews are limited, and shared fairly among client
//! addresses. A review without a user holds its slot for `REFUSED_HOLD`, which limits the reviews
//! of invalid tokens per second: 128 in total, 96 per address, and 32 while other addresses wait.
//! Valid tokens release their slots at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::ttl_cache::TtlCache;
use super::unavailable::Unavailable;
use super::well_known::with_authenticated_group;
use ballast_base::places::{Bounds, Busy, Places};
use ballast_k8s::User;

/// The most tokens that are cached.
const TOKENS_MAX: u64 = 4096;
/// Reviews at the same time.
const REVIEWS_MAX: usize = 32;
/// Requests that wait for a review, of all addresses. Further ones get 429.
const WAITING_MAX: usize = 2_000;
const WAIT_MAX: Duration = Duration::from_secs(15);
/// How long a review that finds no user holds its slot.
const REFUSED_HOLD: Duration = Duration::from_millis(250);

/// Looks up the user of a token. `None` if the token belongs to no user.
#[async_trait]
pub trait TokenReviewer: Send + Sync {
    async fn review(&self, token: &str) -> Result<Option<User>, Unavailable>;
}

/// The reason why a token was not reviewed.
#[derive(Clone, Debug)]
pub(super) enum Unreviewed {
    Unavailable(Unavailable),
    /// Too many tokens wait for their review.
    Busy(Busy),
}

pub struct TokenReviews {
    reviewer: Arc<dyn TokenReviewer>,
    keep: Duration,
    cache: TtlCache<[u8; 32], Result<Option<Arc<User>>, Unreviewed>>,
    slots: Arc<Places>,
}

impl TokenReviews {
    /// Creates the reviews. `keep` is how long a result, positive or negative, is cached. Failures
    /// are not cached.
    pub fn new(reviewer: Arc<dyn TokenReviewer>, keep: Duration) -> TokenReviews {
        let bounds = Bounds::in_quarters("token_review", REVIEWS_MAX, WAITING_MAX, WAIT_MAX);
        TokenReviews { reviewer, keep, cache: TtlCache::new(TOKENS_MAX), slots: Places::new(bounds) }
    }

    /// Returns the user of a token that a client at `address` has sent.
    pub(super) async fn user(&self, token: &str, address: Option<IpAddr>) -> Result<Option<Arc<User>>, Unreviewed> {
        let ask = async {
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            let slot = match self.slots.enter(&address, 1).await {
                Ok(slot) => slot,
                Err(busy) => return (Err(Unreviewed::Busy(busy)), Duration::ZERO),
            };
            let reviewed = self.reviewer.review(token).await;
            if !matches!(reviewed, Ok(Some(_))) {
                tokio::spawn(async move {
                    tokio::time::sleep(REFUSED_HOLD).await;
                    drop(slot);
                });
            }
            let keep = if reviewed.is_ok() { self.keep } else { Duration::ZERO };
            let user = reviewed.map_err(Unreviewed::Unavailable);
            (user.map(|user| user.map(with_authenticated_group).map(Arc::new)), keep)
        };
        self.cache.get_or(&Sha256::digest(token).into(), ask).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    /// Counts the reviews. The tokens `user-…` have a user.
    #[derive(Default)]
    struct Host {
        reviews: AtomicUsize,
        open: AtomicUsize,
        open_max: AtomicUsize,
    }

    #[async_trait]
    impl TokenReviewer for Host {
        async fn review(&self, token: &str) -> Result<Option<User>, Unavailable> {
            self.reviews.fetch_add(1, Ordering::Relaxed);
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.open_max.fetch_max(open, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.open.fetch_sub(1, Ordering::Relaxed);
            Ok(token.starts_with("user-").then(|| User { name: token.to_owned(), ..User::default() }))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_tokens_are_reviewed_at_a_bounded_rate() {
        let host = Arc::new(Host::default());
        let reviews = TokenReviews::new(Arc::clone(&host) as Arc<dyn TokenReviewer>, Duration::from_secs(60));
        let [stranger, neighbor] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|address| Some(IpAddr::from(address)));
        let made_up: Vec<String> = (0..1_000).map(|number| format!("made-up-{number}")).collect();
        let flood = join_all(made_up.iter().map(|token| reviews.user(token, stranger)));
        let second = tokio::time::timeout(Duration::from_secs(1), flood);
        let user = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let begun = tokio::time::Instant::now();
            let user = reviews.user("user-1", neighbor).await.unwrap();
            (user.map(|user| user.name.clone()), begun.elapsed())
        };
        let (flooded, (user, waited)) = tokio::join!(second, user);
        assert!(flooded.is_err(), "most of the flood waits or was refused");
        assert_eq!(user.as_deref(), Some("user-1"));
        assert!(waited <= Duration::from_millis(20), "another address does not wait: {waited:?}");
        let asked = host.reviews.load(Ordering::Relaxed);
        assert!((24..=128).contains(&asked), "{asked} reviews in one second");
        assert!(host.open_max.load(Ordering::Relaxed) <= REVIEWS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_with_too_many_is_told_when_to_come_again() {
        let reviews = TokenReviews::new(Arc::new(Host::default()), Duration::from_secs(60));
        let tokens: Vec<String> = (0..3_000).map(|number| format!("made-up-{number}")).collect();
        let outcomes = join_all(tokens.iter().map(|token| reviews.user(token, None))).await;
        let busy = outcomes.iter().filter(|outcome| matches!(outcome, Err(Unreviewed::Busy(_)))).count();
        assert!(busy >= 2_000, "{busy} of 3,000");
    }
}
