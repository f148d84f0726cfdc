//! Limits the connections to other servers, by their kind, and shares those of a kind fairly among
//! users (`places`). So neither a slow server nor a user with many requests exhausts the file
//! descriptors that the clients of this server need.
//!
//! Descriptors belong to the process, so the slots do as well. A slot is held for as long as its
//! connection is in use.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::places::{Bounds, Busy, Place, Places};

/// The server at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A gate of a rebalance: Prometheus or a webhook. Its user is the namespace of the rebalance.
    Gate,
    /// A member cluster, for a request through `clusters/{name}/proxy`. Its user sent the request.
    Member,
    /// An admission webhook. Its user sent the write.
    Webhook,
    /// An estimator. Its user is the cluster.
    Estimator,
}

const GATES_MAX: usize = 64;
const MEMBERS_MAX: usize = 1024;
const WEBHOOKS_MAX: usize = 256;
const ESTIMATORS_MAX: usize = 4096;
/// Maximum number of connections of all kinds.
pub const CONNECTIONS_MAX: usize = GATES_MAX + MEMBERS_MAX + WEBHOOKS_MAX + ESTIMATORS_MAX;
/// Maximum number of requests that wait for a connection of one kind. A single user may have a
/// quarter of them.
const WAITING_MAX: usize = 4_000;
/// How long a request waits for a connection if a user waits for the result.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a request waits for a connection that is not worth a longer wait.
const SHORT_WAIT_MAX: Duration = Duration::from_secs(1);

static SLOTS: OnceLock<[Arc<Places>; 4]> = OnceLock::new();

/// Limits the connections of all kinds together to less than `CONNECTIONS_MAX`. Has no effect after
/// the first connection.
pub fn limit(connections: usize) {
    let _is_first = SLOTS.set(slots(connections));
}

/// Waits for a slot for a connection. `user` is the user in the description of `kind`.
///
/// # Errors
///
/// If all slots are in use, and too many requests wait, or for too long.
pub async fn connect(kind: Outgoing, user: &str) -> Result<Place, Busy> {
    SLOTS.get_or_init(|| slots(CONNECTIONS_MAX))[kind as usize].enter(user, 1).await
}

fn slots(connections: usize) -> [Arc<Places>; 4] {
    let [gates, members, webhooks, estimators] = shares(connections);
    [
        ("outgoing_gate", gates, WAIT_MAX),
        ("outgoing_member", members, SHORT_WAIT_MAX),
        ("outgoing_webhook", webhooks, WAIT_MAX),
        ("outgoing_estimator", estimators, SHORT_WAIT_MAX),
    ]
    .map(|(class, units, wait_max)| Places::new(Bounds::in_quarters(class, units, WAITING_MAX, wait_max)))
}

/// Returns the number of connections of each kind, in the order of `Outgoing`.
fn shares(connections: usize) -> [usize; 4] {
    let gates = GATES_MAX.min(connections / 8).max(1);
    let members = MEMBERS_MAX.min(connections / 4).max(1);
    let webhooks = WEBHOOKS_MAX.min(connections / 8).max(1);
    let estimators = connections.saturating_sub(gates + members + webhooks).clamp(1, ESTIMATORS_MAX);
    [gates, members, webhooks, estimators]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_divided_among_all_kinds() {
        assert_eq!(shares(CONNECTIONS_MAX), [GATES_MAX, MEMBERS_MAX, WEBHOOKS_MAX, ESTIMATORS_MAX]);
        assert_eq!(shares(256), [32, 64, 32, 128]);
        for connections in 4..2_000 {
            assert!(shares(connections).iter().sum::<usize>() <= connections, "{connections}");
        }
    }
}
