//! Placements that somebody was asked about and has allowed. What is allowed by the time that the
//! next commit of such placements can begin is committed together, and nothing waits for an answer
//! that is still out.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{MutexGuard, oneshot};

use super::pass::Judged;
use ballast_k8s::Time;
use ballast_worker::Worked;

/// Shared by all who write what was allowed. The worker bounds how many there are.
#[derive(Default)]
pub struct Tray {
    waiting: Mutex<Vec<Allowed>>,
    /// Whoever holds it writes for all.
    turn: tokio::sync::Mutex<()>,
}

/// A placement that may be written, and who waits for what comes of it.
pub struct Allowed {
    pub judged: Judged,
    /// When it was decided.
    pub decided: Time,
    pub told: oneshot::Sender<Worked>,
}

impl Tray {
    /// Adds a placement. What comes of it is told once somebody has written it.
    pub fn put(&self, judged: Judged, decided: Time) -> oneshot::Receiver<Worked> {
        let (told, heard) = oneshot::channel();
        self.waiting().push(Allowed { judged, decided, told });
        heard
    }

    /// Waits until the commit before this one is over.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Takes what is there.
    pub fn take(&self) -> Vec<Allowed> {
        std::mem::take(&mut *self.waiting())
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Allowed>> {
        // A push or a take is whole, whoever panics afterwards.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
