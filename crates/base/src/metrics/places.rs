//! Metrics of slots (`base::places`): by class, and never by user.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};

use super::families::{FAMILIES, Make};

const WAIT_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0];

/// The metrics of one class of slots, looked up once because each request counts.
pub struct Places {
    held: prometheus::IntGauge,
    waiting: prometheus::IntGauge,
    served: prometheus::IntCounter,
    refused: prometheus::IntCounter,
    wait_seconds: prometheus::Histogram,
}

impl Places {
    pub fn of(class: &'static str) -> Places {
        let PlaceFamilies { held, waiting, served, refused, wait_seconds } = &FAMILIES.places;
        Places {
            held: held.with_label_values(&[class]),
            waiting: waiting.with_label_values(&[class]),
            served: served.with_label_values(&[class]),
            refused: refused.with_label_values(&[class]),
            wait_seconds: wait_seconds.with_label_values(&[class]),
        }
    }

    /// Sets the number of held units.
    pub fn held(&self, units: usize) {
        self.held.set(i64::try_from(units).unwrap_or(i64::MAX));
    }

    /// Sets the number of waiting requests.
    pub fn waiting(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn served(&self) {
        self.served.inc();
    }

    pub fn refused(&self) {
        self.refused.inc();
    }

    /// Observes how long a request has waited.
    pub fn waited(&self, time: Duration) {
        self.wait_seconds.observe(time.as_secs_f64());
    }
}

/// The metric families of slots (`base::places`), by class.
pub(super) struct PlaceFamilies {
    pub held: IntGaugeVec,
    pub waiting: IntGaugeVec,
    pub served: IntCounterVec,
    pub refused: IntCounterVec,
    pub wait_seconds: HistogramVec,
}

impl PlaceFamilies {
    pub(super) fn new(make: &Make) -> PlaceFamilies {
        let class = &["class"];
        PlaceFamilies {
            held: make.gauges(
                "ballast_places_held",
                "Places in use: requests, bytes of bodies (class body), or outgoing connections (class outgoing_*).",
                class,
            ),
            waiting: make.gauges("ballast_places_waiting", "Requests that wait for a place.", class),
            served: make.counters("ballast_places_served_total", "Requests that were given a place.", class),
            refused: make.counters(
                "ballast_places_refused_total",
                "Requests that were answered with 429, because too many waited or they waited for too long.",
                class,
            ),
            wait_seconds: make.histograms(
                "ballast_places_wait_duration_seconds",
                "How long requests waited for a place, of those that had to wait.",
                WAIT_SECONDS,
                class,
            ),
        }
    }
}
