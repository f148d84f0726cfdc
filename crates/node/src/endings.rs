//! What the supervision of a server (`serve`) waits for beside its end: tasks that end although
//! nobody has asked them to, and a reflector that is synced.

use tokio::task::{JoinError, JoinHandle};

use ballast_attach::Progress;

/// The end of a task that nobody has asked to end, which is a fault of ours.
pub fn ended_alone(task: &str, ended: Result<(), JoinError>) -> anyhow::Error {
    match ended {
        Ok(()) => anyhow::anyhow!("the {task} ended by itself"),
        Err(error) => anyhow::Error::new(error).context(format!("the {task} panicked")),
    }
}

/// The end of the reflector, which is none then. Never comes where there is none.
pub async fn ended(reflector: &mut Option<JoinHandle<()>>) -> anyhow::Error {
    match reflector {
        None => std::future::pending().await,
        Some(task) => {
            let ended = task.await;
            *reflector = None;
            ended_alone("mirror", ended)
        }
    }
}

/// Returns once the reflector that the workers wait for is synced.
pub async fn synced(due: &Option<Progress>) {
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
        let why = ended(&mut reflector).await;
        assert_eq!(why.to_string(), "the mirror ended by itself");
        assert!(reflector.is_none());
    }
}
