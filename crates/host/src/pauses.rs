//! The backoff of watches of another API server.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// Maximum pause between two attempts to watch the host cluster. A host cluster that recovers may
/// have other CAs and webhooks than before, so its recovery must be noticed soon. kube's own
/// backoff grows to half a minute.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A backoff for watches of another API server. The pauses grow up to `PAUSE_MAX`.
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
