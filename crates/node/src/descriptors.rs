//! File descriptors: the limit of this process, and its division between connections of clients and
//! connections to other servers.
//!
//! Connections of clients (`server::connections`) and of this server (`base::outgoing`) are
//! bounded. If the descriptors ran out before both bounds are reached, the database and the log
//! would have none either.

use ballast_base::outgoing;
use ballast_server::ConnectionLimits;

/// Descriptors reserved for the database, certificates, the host cluster, other replicas, and
/// connections that are ending.
const KEPT: u64 = 64;

/// Sets the limit of outgoing connections and returns the limits of client connections, within the
/// descriptors of this process.
///
/// As in Go, the soft limit is raised to the hard limit. Must be called before the first
/// connection.
pub fn connection_limits() -> ConnectionLimits {
    let (limits, descriptors) = (ConnectionLimits::default(), raised());
    let outgoing_max = outgoing_within(descriptors);
    outgoing::limit(outgoing_max);
    let connections_max = within(limits.connections_max, descriptors);
    if connections_max < limits.connections_max {
        tracing::info!(connections_max, outgoing_max, "the limit of open files allows fewer connections");
    }
    ConnectionLimits { connections_max, ..limits }
}

/// Returns the maximum number of connections to other servers: a quarter of few descriptors.
fn outgoing_within(descriptors: Option<u64>) -> usize {
    let quarter = descriptors.map_or(u64::MAX, |all| all / 4);
    outgoing::CONNECTIONS_MAX.min(usize::try_from(quarter).unwrap_or(usize::MAX))
}

/// Returns the maximum number of client connections: at most `connections_max`, at least half of
/// the descriptors, and otherwise all except `KEPT` and those for other servers.
fn within(connections_max: usize, descriptors: Option<u64>) -> usize {
    let kept = KEPT + outgoing_within(descriptors) as u64;
    let for_clients = descriptors.map_or(u64::MAX, |all| all.saturating_sub(kept).max(all / 2).max(1));
    connections_max.min(usize::try_from(for_clients).unwrap_or(usize::MAX))
}

/// Returns the number of descriptors that the process may open. `None`: unlimited, as on Windows.
#[cfg(not(unix))]
fn raised() -> Option<u64> {
    None
}

/// Raises the limit of descriptors and returns it. `None`: unlimited.
#[cfg(unix)]
fn raised() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        for (descriptors, connections) in
            [(None, 4096), (Some(1_000_000), 4096), (Some(4096), 3008), (Some(400), 236), (Some(100), 50), (Some(0), 1)]
        {
            assert_eq!(within(4096, descriptors), connections, "{descriptors:?}");
        }
    }
}
