//! Long computations on other threads than the async ones.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, block_in_place, spawn_blocking};

/// Held during the work on a large object.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a computation on a blocking thread. Propagates a panic in it. `None` if the runtime is
/// shutting down, and nothing was computed.
pub async fn run_blocking<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match spawn_blocking(compute).await.map_err(JoinError::try_into_panic) {
        Ok(computed) => Some(computed),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

/// Runs the work on a large object, while another thread takes over the tasks of this one. In a
/// single-threaded runtime they wait.
///
/// The parsed form of such an object temporarily takes tens of megabytes, and several workers read
/// it, so they are serialized. Each run uses a new thread that ends with it, because the allocator
/// retains the memory that a thread has freed while the thread lives.
pub fn run_alone<T: Send>(compute: impl FnOnce() -> T + Send) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => block_in_place(|| {
            // A panic has changed nothing that the lock guards.
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            on_own_thread(&runtime, compute)
        }),
        _ => compute(),
    }
}

fn on_own_thread<T: Send>(runtime: &Handle, compute: impl FnOnce() -> T + Send) -> T {
    let mut compute = Some(compute);
    let mut outcome = None;
    let ran = thread::scope(|scope| {
        let work = || {
            let _runtime = runtime.enter();
            outcome = compute.take().map(|compute| compute());
        };
        thread::Builder::new().name("large-read".to_owned()).spawn_scoped(scope, work).map(|thread| thread.join())
    });
    if let Ok(Err(panic)) = ran {
        resume_unwind(panic);
    }
    // If no thread could be spawned, runs on this one.
    outcome.or_else(|| compute.take().map(|compute| compute())).expect("it was computed once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_work_is_done_one_at_a_time_by_threads_of_its_own() {
        let working = Mutex::new(());
        thread::scope(|scope| {
            for _ in 0..4 {
                let (working, runtime) = (&working, Handle::current());
                scope.spawn(move || {
                    let _runtime = runtime.enter();
                    let name = run_alone(|| {
                        let _alone = working.try_lock().expect("nobody else works");
                        Handle::current().block_on(tokio::task::yield_now());
                        thread::current().name().map(str::to_owned)
                    });
                    assert_eq!(name.as_deref(), Some("large-read"));
                });
            }
        });
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[should_panic(expected = "too much")]
    async fn a_panic_of_large_work_is_passed_on() {
        run_alone(|| -> () { panic!("too much") });
    }
}
