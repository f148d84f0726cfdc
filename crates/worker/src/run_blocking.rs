//! Long computations, away from the async threads.

use tokio::task::{JoinError, spawn_blocking};

/// Runs a computation on a thread of its own. A panic in it is passed on. `None`: the runtime is
/// shutting down, and nothing was computed.
pub async fn run_blocking<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(compute).await.map_err(JoinError::try_into_panic) {
        Ok(computed) => Some(computed),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}
