//! The host cluster, behind whose kube-apiserver Ballast serves: reviews of tokens and accesses,
//! namespaces, admission webhooks, events, and the lease that says which replica works.
//!
//! *Invariants:*
//! - Nothing here allows what the host cluster did not allow.
//! - Every call has a deadline.
//! - A host cluster that is down, slow or sends malformed answers is an `Unavailable`. It never
//!   causes a panic or the end of the process.
//!
//! This room, `attach` and `members` are the only ones of a server that talk to another API server.
//! Lower rooms define the traits that it implements (`auth` the reviewers, `registry` the external
//! admission) and do not know it.

mod authentication_config;
mod connect;
mod events;
mod first_read;
mod lease;
mod namespaces;
mod probe;
mod reviews;
mod secrets;
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

/// The longest pause between two tries to watch the host cluster. A host cluster that comes back
/// may have other CAs and webhooks than before, so it must be noticed soon. kube's own backoff goes
/// up to half a minute.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The pauses between tries to watch another API server. They grow up to `PAUSE_MAX`.
#[derive(Default)]
pub struct Pauses(DefaultBackoff);

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
