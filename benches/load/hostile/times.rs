//! Latencies of the requests of the other user and of the probes.

use std::time::{Duration, Instant};

use super::super::setup::percentile;

/// Latencies of requests, from the first attempt to the response.
#[derive(Default)]
pub struct Times {
    sorted: Vec<Duration>,
    pub refused: usize,
    pub lost: usize,
}

impl Times {
    pub fn took(&mut self, began: Instant) {
        let took = began.elapsed();
        let at = self.sorted.partition_point(|other| *other < took);
        self.sorted.insert(at, took);
    }

    pub fn p99(&self) -> f64 {
        percentile(&self.sorted, 99).as_secs_f64()
    }

    pub fn line(&self) -> String {
        let ms = |share| percentile(&self.sorted, share).as_secs_f64() * 1e3;
        format!(
            "p50 {:.1}, p99 {:.1}, max {:.1} ms of {} ({} refused, {} lost)",
            ms(50),
            ms(99),
            ms(100),
            self.sorted.len(),
            self.refused,
            self.lost
        )
    }
}

pub struct Seen {
    pub gets: Times,
    pub patches: Times,
    pub probes: Times,
}

impl Seen {
    pub fn line(&self) -> String {
        format!("GET {}; PATCH {}; probes {}", self.gets.line(), self.patches.line(), self.probes.line())
    }
}
