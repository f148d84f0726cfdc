//! Records an event when the database has lost changes, and this process has lifted the log.

use std::convert::Infallible;

use ballast_watch::{Cache, HistoryLoss};
use ballast_worker::events::{Note, ObjectReference, Recorder, Severity};

/// Records losses for as long as it is polled.
pub async fn record(cache: Cache, recorder: Recorder) -> Infallible {
    let mut losses = cache.loss();
    loop {
        if losses.changed().await.is_err() {
            // The cache holds the sender.
            std::future::pending::<()>().await;
        }
        let loss = *losses.borrow_and_update();
        if let Some(loss) = loss {
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Namespace".to_owned()),
                name: Some("default".to_owned()),
                ..ObjectReference::default()
            };
            recorder.record(Note::new(&recorder, about, Severity::Warning, "HistoryLost", message(&loss)));
        }
    }
}

fn message(loss: &HistoryLoss) -> String {
    let HistoryLoss { after, through, written } = loss;
    let written = written.map_or_else(String::new, |(from, to)| format!(", written from {from} to {to}"));
    let revisions = loss.revisions();
    format!("The database has lost {revisions} revisions after {after}, up to {through}{written}; watches list again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::{Revision, Time};

    #[test]
    fn re12_the_event_says_how_many_revisions_and_from_when_to_when() {
        let (from, to) = (Time::from_seconds(0), Time::from_seconds(60));
        let loss = HistoryLoss { after: Revision(900), through: Revision(920), written: Some((from, to)) };
        let expected = "The database has lost 20 revisions after 900, up to 920, written from \
                        1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z; watches list again";
        assert_eq!(message(&loss), expected);
    }
}
