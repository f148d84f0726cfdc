//! Bounds how many requests run at the same time (LI4).

use tokio::sync::{Semaphore, SemaphorePermit};

use super::request_info::RequestInfo;
use ballast_k8s::{Status, User};

/// The permits of running requests. Requests that read and requests that write have their own.
#[derive(Debug)]
pub struct InFlight {
    read_only: Semaphore,
    mutating: Semaphore,
}

impl InFlight {
    pub fn new(read_only: usize, mutating: usize) -> InFlight {
        InFlight { read_only: Semaphore::new(read_only), mutating: Semaphore::new(mutating) }
    }

    /// A permit for a request. At the limit, a member of `system:masters` waits for one, and other
    /// users get a 429.
    pub(super) async fn enter(&self, info: &RequestInfo<'_>, user: &User) -> Result<SemaphorePermit<'_>, Status> {
        let permits = if info.is_read_only() { &self.read_only } else { &self.mutating };
        match permits.try_acquire() {
            Ok(permit) => Ok(permit),
            Err(_) if user.is_master() => Ok(permits.acquire().await.expect("the semaphore is never closed")),
            Err(_) => Err(Status::too_many_requests(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http::Method;

    use super::*;

    #[tokio::test]
    async fn li4_at_the_limit_masters_wait_and_others_are_sent_away() {
        let uri = "/apis/g/v1/things".parse().unwrap();
        let info = RequestInfo::read(&Method::POST, &uri).unwrap();
        let in_flight = InFlight::new(0, 1);
        let (master, other) = (User::component("test"), User::default());
        let permit = in_flight.enter(&info, &other).await.unwrap();
        let status = in_flight.enter(&info, &other).await.unwrap_err();
        assert_eq!((status.code, status.retry_after_seconds()), (429, Some(1)));
        let mut waiting = std::pin::pin!(in_flight.enter(&info, &master));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(permit);
        assert!(waiting.now_or_never().unwrap().is_ok());
    }
}
