//! Long computations, away from the async threads.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, block_in_place, spawn_blocking};

/// Runs a computation on a thread of its own. A panic in it is passed on. `None`: the runtime is
/// shutting down, and nothing was computed.
pub async fn run_blocking<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(compute).await.map_err(JoinError::try_into_panic) {
        Ok(computed) => Some(computed),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Runs a computation on this thread, while another thread takes over the tasks that wait for it.
/// In a runtime of one thread they wait.
pub fn run_in_place<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(compute),
        _ => compute(),
    }
}
