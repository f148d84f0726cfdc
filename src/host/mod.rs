//! The cluster that Ballast serves behind: whom it knows, what it lets them do, its namespaces, its
//! webhooks, its events, and which replica works.
//!
//! *Invariants:* nothing here says yes when the host cluster did not; every call has a deadline; a
//! host cluster that is down, slow or talks nonsense is an `Unavailable`, never a panic and never a
//! reason to end.
//!
//! The only room that talks to another API server. What it implements is asked for below: `auth`
//! knows reviewers, `registry` knows gates, `worker` knows leases; none of them knows this room.

mod authentication_config;
mod connect;
mod events;
mod lease;
mod namespaces;
mod probe;
mod reviews;
mod serving_cert;
mod webhooks;

pub use authentication_config::{AuthenticationConfig, Data};
pub use connect::{ConnectError, Host, Place};
pub use events::HostEvents;
pub use lease::{Fence, Lease, Terms};
pub use namespaces::Namespaces;
pub use probe::{Probe, ProbeError, ProbeTarget, Readiness};
pub use reviews::Reviews;
pub use serving_cert::{Pair, ServingCert};
pub use webhooks::Webhooks;

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// When the host cluster is back it may have other CAs and webhooks than before: for no longer than
/// this are they unknown here. Clients wait for up to half a minute otherwise.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Between two tries to follow something of the host cluster: ever longer, up to `PAUSE_MAX`.
#[derive(Default)]
struct Pauses(DefaultBackoff);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause.min(PAUSE_MAX))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_cluster_that_is_back_is_noticed_soon_however_long_it_was_away() {
        let pauses: Vec<Duration> = Pauses::default().take(1000).collect();
        assert_eq!(pauses.len(), 1000, "it is never given up");
        assert_eq!(pauses.iter().max(), Some(&PAUSE_MAX));
        assert!(pauses[0] < PAUSE_MAX, "and soon at first");
    }
}
