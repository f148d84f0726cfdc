//! File descriptors: how many this process may have, and how many of them are for connections of
//! clients.
//!
//! Clients may open connections up to a bound (`server::connections`). If the descriptors ended
//! before that bound is reached, the database, the log and other servers would have none either.

use ballast_server::ConnectionLimits;

/// The descriptors that are kept for the database, certificates, other servers, and connections
/// that are ending.
const KEPT: u64 = 64;

/// The limits of connections, within the descriptors of this process. As in Go, the limit is raised
/// to the one that the process may have.
pub fn connection_limits() -> ConnectionLimits {
    let limits = ConnectionLimits::default();
    let connections_max = within(limits.connections_max, raised());
    if connections_max < limits.connections_max {
        tracing::info!(connections_max, "the limit of open files leaves room for fewer connections");
    }
    ConnectionLimits { connections_max, ..limits }
}

/// The most connections of clients: at most `connections_max`, half of few descriptors, and all but
/// `KEPT` of many.
fn within(connections_max: usize, descriptors: Option<u64>) -> usize {
    let for_clients = descriptors.map_or(u64::MAX, |all| all.saturating_sub(KEPT).max(all / 2).max(1));
    connections_max.min(usize::try_from(for_clients).unwrap_or(usize::MAX))
}

/// How many descriptors the process may have now. `None`: any number, as on Windows.
#[cfg(not(unix))]
fn raised() -> Option<u64> {
    None
}

/// How many descriptors the process may have now. `None`: any number.
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
            [(None, 4096), (Some(1_000_000), 4096), (Some(4096), 4032), (Some(150), 86), (Some(100), 50), (Some(0), 1)]
        {
            assert_eq!(within(4096, descriptors), connections, "{descriptors:?}");
        }
    }
}
