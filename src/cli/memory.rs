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

use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);

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
