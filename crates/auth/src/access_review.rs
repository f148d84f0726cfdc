//! Queries the host cluster about permissions of users, and caches the results (AZ1, AZ4, AZ6).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::attributes::{Attributes, ResourceAttributes};
use super::ttl_cache::TtlCache;
use super::unavailable::Unavailable;
use ballast_k8s::User;

/// The limit of cached results.
const ANSWERS_MAX: u64 = 8192;
/// A result with a longer key is not cached. Users with thousands of groups would fill the memory.
const KEY_BYTES_MAX: usize = 10_000;

/// A reviewer's result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub allowed: bool,
    /// The reviewer's reason. May be empty.
    pub reason: String,
}

/// Decides on permissions of users, for example by a request to another server.
#[async_trait]
pub trait AccessReviewer: Send + Sync {
    async fn review(&self, user: &User, attributes: &Attributes<'_>) -> Result<Answer, Unavailable>;
}

pub struct AccessReviews {
    reviewer: Arc<dyn AccessReviewer>,
    keep_allowed: Duration,
    keep_denied: Duration,
    cache: TtlCache<Vec<u8>, Result<Answer, Unavailable>>,
}

impl AccessReviews {
    /// Creates the reviews. `keep_allowed` and `keep_denied` are the cache times of the two
    /// results. Failures are not cached.
    pub fn new(reviewer: Arc<dyn AccessReviewer>, keep_allowed: Duration, keep_denied: Duration) -> AccessReviews {
        AccessReviews { reviewer, keep_allowed, keep_denied, cache: TtlCache::new(ANSWERS_MAX) }
    }

    pub(super) async fn answer(&self, user: &User, attributes: &Attributes<'_>) -> Result<Answer, Unavailable> {
        let key = cache_key(user, attributes);
        if key.len() > KEY_BYTES_MAX {
            return self.reviewer.review(user, attributes).await;
        }
        let ask = async {
            let answer = self.reviewer.review(user, attributes).await;
            let keep = match &answer {
                Ok(Answer { allowed: true, .. }) => self.keep_allowed,
                Ok(Answer { allowed: false, .. }) => self.keep_denied,
                Err(_) => Duration::ZERO,
            };
            (answer, keep)
        };
        self.cache.get_or(&key, ask).await
    }
}

/// Returns the user and the attributes as a cache key. Each part follows its own length, so
/// different requests have different keys.
fn cache_key(user: &User, attributes: &Attributes<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    let mut put = |part: &str| {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    };
    put(&user.name);
    put(&user.uid);
    put(&user.groups.len().to_string());
    user.groups.iter().for_each(|group| put(group));
    put(&user.extra.len().to_string());
    for (name, values) in &user.extra {
        put(name);
        put(&values.len().to_string());
        values.iter().for_each(|value| put(value));
    }
    match attributes {
        Attributes::Path { verb, path } => [verb, path].into_iter().for_each(|part| put(part)),
        Attributes::Resource(resource_attributes) => {
            let ResourceAttributes { verb, group, version, resource, subresource, namespace, name, .. } =
                resource_attributes;
            let ResourceAttributes { field_selector, label_selector, .. } = resource_attributes;
            [verb, group, version, resource, subresource, namespace, name].into_iter().for_each(|part| put(part));
            [field_selector, label_selector].into_iter().for_each(|part| put(part));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counting {
        asked: AtomicUsize,
        fails: bool,
    }

    #[async_trait]
    impl AccessReviewer for Counting {
        async fn review(&self, user: &User, _: &Attributes<'_>) -> Result<Answer, Unavailable> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            match self.fails {
                true => Err(Unavailable("down".to_owned())),
                false => Ok(Answer { allowed: user.name == "jane", reason: String::new() }),
            }
        }
    }

    fn reviews(fails: bool) -> (Arc<Counting>, AccessReviews) {
        let reviewer = Arc::new(Counting { asked: AtomicUsize::new(0), fails });
        let (yes, no) = (Duration::from_secs(10), Duration::from_secs(5));
        (reviewer.clone(), AccessReviews::new(reviewer, yes, no))
    }

    fn named(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    const PATH: Attributes<'static> = Attributes::Path { verb: "get", path: "/apis" };

    #[tokio::test(start_paused = true)]
    async fn az4_yes_and_no_are_remembered_each_for_its_time() {
        let (reviewer, reviews) = reviews(false);
        let asked = || reviewer.asked.load(Ordering::Relaxed);
        for _ in 0..3 {
            assert!(reviews.answer(&named("jane"), &PATH).await.unwrap().allowed);
            assert!(!reviews.answer(&named("joe"), &PATH).await.unwrap().allowed);
        }
        assert_eq!(asked(), 2);
        tokio::time::advance(Duration::from_secs(5)).await;
        reviews.answer(&named("jane"), &PATH).await.unwrap();
        reviews.answer(&named("joe"), &PATH).await.unwrap();
        assert_eq!(asked(), 3, "only the no is too old");
    }

    #[tokio::test]
    async fn az4_failures_and_long_questions_are_not_remembered() {
        let (reviewer, failing) = reviews(true);
        for _ in 0..2 {
            assert!(failing.answer(&named("jane"), &PATH).await.is_err());
        }
        assert_eq!(reviewer.asked.load(Ordering::Relaxed), 2);
        let (reviewer, long) = reviews(false);
        let many = User { groups: vec!["g".repeat(100); 100], ..named("jane") };
        for _ in 0..2 {
            assert!(long.answer(&many, &PATH).await.unwrap().allowed);
        }
        assert_eq!(reviewer.asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn questions_that_differ_read_differently() {
        let group = |groups: &[&str]| User { groups: groups.iter().map(|it| (*it).to_owned()).collect(), ..named("j") };
        assert_ne!(cache_key(&group(&["a", "b"]), &PATH), cache_key(&group(&["ab"]), &PATH));
        assert_ne!(cache_key(&group(&["get"]), &PATH), cache_key(&group(&[]), &PATH));
        // The user's extra fields must not pass for the attributes: both have nine parts here.
        let keys = [("get", vec!["v1"]), ("n", vec![]), ("z", vec![])];
        let extra = keys.map(|(key, values)| (key.to_owned(), values.into_iter().map(str::to_owned).collect()));
        let proven = User { extra: extra.into(), ..named("j") };
        let asked = ResourceAttributes {
            verb: "get",
            group: "1",
            version: "v1",
            resource: "n",
            subresource: "0",
            namespace: "z",
            name: "0",
            field_selector: "get",
            label_selector: "/apis",
        };
        assert_ne!(cache_key(&proven, &PATH), cache_key(&named("j"), &Attributes::Resource(asked)));
    }
}
