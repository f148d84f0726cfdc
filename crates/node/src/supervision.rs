//! Futures that `serve` awaits while a server runs: the unexpected end of a task, and the sync of a
//! reflector.

use tokio::task::{JoinError, JoinHandle};

use super::attached::Progress;

/// Returns the error for a task that has ended although the server still runs, which is a bug.
pub fn ended_unasked(task: &str, ended: Result<(), JoinError>) -> anyhow::Error {
    match ended {
        Ok(()) => anyhow::anyhow!("the {task} ended by itself"),
        Err(error) => anyhow::Error::new(error).context(format!("the {task} panicked")),
    }
}

/// Waits until the reflector ends, and removes it. Never returns if there is none.
pub async fn reflector_ended(reflector: &mut Option<JoinHandle<()>>) -> anyhow::Error {
    match reflector {
        None => std::future::pending().await,
        Some(task) => {
            let ended = task.await;
            *reflector = None;
            ended_unasked("mirror", ended)
        }
    }
}

/// Waits until the reflector that the workers depend on is synced. Never returns if there is none.
pub async fn reflector_synced(due: &Option<Progress>) {
    match due {
        None => std::future::pending().await,
        Some(progress) => progress.synced().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mirror_that_has_ended_is_not_waited_for_again() {
        let mut reflector = Some(tokio::spawn(async {}));
        let why = reflector_ended(&mut reflector).await;
        assert_eq!(why.to_string(), "the mirror ended by itself");
        assert!(reflector.is_none());
    }
}
