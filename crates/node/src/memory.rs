//! Gives memory back to the system after a peak, and keeps it from coming back by itself.
//!
//! mimalloc (`main.rs`) hands free pages back when a thread ends, or after many further
//! allocations. The threads of a server that has become quiet do neither, so the memory of a peak
//! would stay. A thread that ends now and then does it for all of them.
//!
//! What is given back are pages of 64 KiB between others that are in use. mimalloc asks for huge
//! pages, so the kernel's `khugepaged` would join what lies in a row to pages of 2 MiB, and fill
//! the holes with zeros: a server at rest grew by half a megabyte a second. So the process does
//! without huge pages.
//!
//! mimalloc hands a free page back after 10 ms. In a mass rebalance, which takes and frees 10 KB
//! for each binding, the system then clears what it had just been given. Ten times as long saves a
//! twelfth of the CPU. mimalloc reads its options from the environment, before any code of ours
//! runs.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);
/// mimalloc's option: after how many milliseconds it hands a free page back.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
const PURGE_DELAY_MS: &str = "100";

/// Lets the allocator keep free pages a little longer: the program begins once more, with the
/// option set. To be called before anything is open. Where the option is set already, or the
/// program cannot begin again, all stays as it is.
pub fn keep_free_pages_longer() {
    if std::env::var_os(PURGE_DELAY).is_none()
        && let Err(error) = begin_again()
    {
        tracing::debug!(%error, "free pages are handed back at once");
    }
}

fn begin_again() -> io::Result<Infallible> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut again = Command::new(std::env::current_exe()?);
    Err(again.arg0(name).args(arguments).env(PURGE_DELAY, PURGE_DELAY_MS).exec())
}

/// Keeps the kernel from filling with zeros what is given back. To be called before there is much
/// memory.
pub fn without_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "the kernel may make huge pages of what is given back");
    }
}

/// Runs for as long as it is polled.
pub async fn give_back() {
    loop {
        tokio::time::sleep(EVERY).await;
        // A thread that has allocated nothing of its own has nothing to do at its end.
        let started = std::thread::Builder::new().name("memory".into()).spawn(|| drop(vec![0_u8; 64]));
        if let Err(error) = started {
            tracing::debug!(%error, "failed to start the thread that gives memory back");
        }
    }
}
