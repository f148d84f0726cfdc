//! Pending evictions, and when the last one begins.
//!
//! An eviction affects one binding, and takes one turn, regardless of how many of its clusters are
//! lost. An eviction that is not due yet, because its cluster is lost for less than the eviction
//! timeout or because of a toleration, is predicted from the moment of the loss.

use ballast_k8s::Time;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backlog {
    /// The number of bindings that a taint evicts, and whose turn has not come yet.
    pub waiting: i64,
    /// The number of bindings that will be evicted if nothing changes.
    pub foreseen: i64,
    /// The time since which the oldest pending eviction is due.
    pub oldest: Option<Time>,
    /// The time when the first predicted eviction is due.
    pub next_due: Option<Time>,
    /// The time when the last eviction begins. `None` if there are no evictions, or the rate is 0.
    pub ends: Option<Time>,
}

impl Backlog {
    /// Builds the backlog. `due` contains the time at which the eviction of each binding is or was
    /// due, in any order.
    pub fn of(due: &[Time], per_second: f64, now: Time) -> Backlog {
        let mut due = due.to_vec();
        due.sort_unstable();
        let first_foreseen = due.partition_point(|time| *time <= now);
        let (waiting, foreseen) = due.split_at(first_foreseen);
        let ends = (per_second > 0.0 && !due.is_empty()).then(|| {
            let turn = 1.0 / per_second;
            let last = due.iter().enumerate().fold(f64::MIN, |last, (at, due)| {
                // The first eviction begins at once, and each further one a turn later.
                let due = (due.seconds().max(now.seconds())) as f64;
                if at == 0 { due } else { due.max(last + turn) }
            });
            Time::from_seconds(last.ceil() as i64)
        });
        Backlog {
            waiting: waiting.len() as i64,
            foreseen: foreseen.len() as i64,
            oldest: waiting.first().copied(),
            next_due: foreseen.first().copied(),
            ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    #[test]
    fn ng2_the_end_is_that_of_a_queue_with_one_server() {
        // 338 bindings at one per two seconds: 11 minutes and 14 seconds.
        let due = vec![at(100); 338];
        let backlog = Backlog::of(&due, 0.5, at(160));
        assert_eq!((backlog.waiting, backlog.foreseen, backlog.oldest), (338, 0, Some(at(100))));
        assert_eq!(backlog.ends, Some(at(160 + 337 * 2)));
    }

    #[test]
    fn ng2_evictions_are_foreseen_from_the_moment_of_the_loss() {
        let backlog = Backlog::of(&[at(400), at(400), at(400)], 0.5, at(100));
        assert_eq!((backlog.waiting, backlog.foreseen, backlog.next_due), (0, 3, Some(at(400))));
        assert_eq!(backlog.ends, Some(at(404)));
        // A later eviction does not wait for turns in the past.
        assert_eq!(Backlog::of(&[at(50), at(900)], 0.5, at(100)).ends, Some(at(900)));
    }

    #[test]
    fn ng2_what_is_held_has_no_end_and_what_is_empty_none_either() {
        let held = Backlog::of(&[at(1)], 0.0, at(9));
        assert_eq!((held.waiting, held.ends), (1, None));
        assert_eq!(Backlog::of(&[], 0.5, at(9)), Backlog::default());
    }
}
