//! Metrics of this process, read from /proc on each request for metrics. On systems without /proc
//! they stay 0.

use std::fs;
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Counter, Gauge, IntCounter, IntGauge};

use super::families::Make;

/// The kernel's clock ticks per second, on every platform that has /proc.
const TICKS_PER_SECOND: f64 = 100.0;

/// The function that returns the number of log lines dropped since its last call. Set by the first
/// start of the log.
static NEWLY_DROPPED: OnceLock<fn() -> u64> = OnceLock::new();

/// Registers the function that counts dropped log lines.
pub fn count_dropped_lines(newly_dropped: fn() -> u64) {
    let _set_by_an_earlier_start = NEWLY_DROPPED.set(newly_dropped);
}

pub struct Process {
    cpu_seconds: Mutex<Counter>,
    resident_bytes: IntGauge,
    open_files: IntGauge,
    log_lines_dropped: IntCounter,
}

impl Process {
    pub(super) fn new(make: &Make) -> Process {
        let start = make.add(Gauge::new("process_start_time_seconds", "When the process started."));
        start.set(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()));
        Process {
            cpu_seconds: Mutex::new(make.add(Counter::new("process_cpu_seconds_total", "User and system time."))),
            resident_bytes: make.add(IntGauge::new("process_resident_memory_bytes", "Resident memory.")),
            open_files: make.add(IntGauge::new("process_open_fds", "Open file descriptors.")),
            log_lines_dropped: make.add(IntCounter::new(
                "ballast_log_lines_dropped_total",
                "Log lines that were dropped because standard error was not read.",
            )),
        }
    }

    pub fn observe(&self) {
        self.log_lines_dropped.inc_by(NEWLY_DROPPED.get().map_or(0, |newly_dropped| newly_dropped()));
        if let Ok(status) = fs::read_to_string("/proc/self/status") {
            let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib = kib.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<i64>().ok());
            self.resident_bytes.set(kib.unwrap_or_default() * 1024);
        }
        if let Ok(stat) = fs::read_to_string("/proc/self/stat") {
            // The name, in brackets, may contain blanks. User and system time are the 12th and 13th
            // fields after it.
            let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let ticks: f64 =
                after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
            let counted = self.cpu_seconds.lock().expect("no panic while it is held");
            // A counter never decreases. A concurrent request may have counted a later value.
            counted.inc_by((ticks / TICKS_PER_SECOND - counted.get()).max(0.0));
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            self.open_files.set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
    }
}
