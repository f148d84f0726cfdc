//! Returns memory to the system after a peak, and keeps the kernel from allocating it again.
//!
//! mimalloc (`main.rs`) returns free pages when a thread ends, or after many further allocations.
//! The threads of an idle server do neither, so it would keep the memory of a peak. A short-lived
//! thread at intervals returns the pages of all threads.
//!
//! The returned memory consists of pages of 64 KiB between others that are in use. mimalloc
//! requests huge pages, so the kernel's `khugepaged` would merge neighbouring pages into pages of 2
//! MiB, and fill the holes with zeros: an idle server grew by half a megabyte a second. Huge pages
//! are therefore disabled.
//!
//! mimalloc returns a free page after 10 ms. In a mass rebalance, which allocates and frees 10 KB
//! for each binding, the system then clears pages that it just got back. Ten times that delay saves
//! a twelfth of the CPU. mimalloc reads its options from the environment, before any code of
//! Ballast runs.

use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);
/// mimalloc's option for the delay in milliseconds after which a free page is returned.
#[cfg(unix)]
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
#[cfg(unix)]
const PURGE_DELAY_MS: &str = "100";

/// Makes the allocator keep free pages longer, by executing the program again with the option set.
///
/// Must be called before any file is open. Does nothing if the option is set already, or if the
/// program cannot be executed again (as on Windows).
pub fn keep_free_pages_longer() {
    #[cfg(unix)]
    if std::env::var_os(PURGE_DELAY).is_none()
        && let Err(error) = begin_again()
    {
        tracing::debug!(%error, "free pages are handed back at once");
    }
}

#[cfg(unix)]
fn begin_again() -> std::io::Result<std::convert::Infallible> {
    use std::os::unix::process::CommandExt;

    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut again = std::process::Command::new(std::env::current_exe()?);
    Err(again.arg0(name).args(arguments).env(PURGE_DELAY, PURGE_DELAY_MS).exec())
}

/// Keeps the kernel from filling returned memory with zeros. Must be called before much memory is
/// allocated.
pub fn without_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "the kernel may make huge pages of what is given back");
    }
}

/// Returns memory to the system at intervals, until it is dropped.
pub async fn give_back() {
    loop {
        tokio::time::sleep(EVERY).await;
        // A thread that has allocated nothing itself returns nothing at its end.
        let started = std::thread::Builder::new().name("memory".into()).spawn(|| drop(vec![0_u8; 64]));
        if let Err(error) = started {
            tracing::debug!(%error, "failed to start the thread that gives memory back");
        }
    }
}
