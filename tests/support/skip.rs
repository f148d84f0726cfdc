//! The report of skipped tests.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reports a skipped test with its reason, a missing program. The line is visible also where the
/// harness captures the output of passing tests, and contains the number of such lines so far.
/// `.ci/run` sets BALLAST_SKIPPED to a file that receives the same lines, and prints it at its end.
pub fn skipped(reason: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped ({count} so far): {test}: {reason}");
    let Some(list) = std::env::var_os("BALLAST_SKIPPED") else { return };
    let list = std::fs::OpenOptions::new().create(true).append(true).open(list);
    list.and_then(|mut list| writeln!(list, "{test}: {reason}")).expect("BALLAST_SKIPPED names a file");
}
