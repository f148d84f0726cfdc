//! The pauses between tries to watch another API server.

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
