//! Records events about the history of the database: the database has lost changes and this process
//! has raised the log's revision, or a quota starts or stops limiting the history.

use std::convert::Infallible;

use ballast_watch::{Cache, HistoryLength, HistoryLoss};
use ballast_worker::events::{Note, ObjectReference, Recorder, Severity};

/// Records events until it is dropped.
pub async fn record(cache: Cache, recorder: Recorder) -> Infallible {
    let (mut losses, mut lengths) = (cache.loss(), cache.past_length());
    loop {
        // The cache holds the senders, so both channels stay open.
        let (severity, reason, message) = tokio::select! {
            Ok(()) = losses.changed() => match *losses.borrow_and_update() {
                Some(loss) => (Severity::Warning, "HistoryLost", lost(&loss)),
                None => continue,
            },
            Ok(()) = lengths.changed() => match *lengths.borrow_and_update() {
                Some(past) => length(&past),
                None => continue,
            },
            else => std::future::pending().await,
        };
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: Some("default".to_owned()),
            ..ObjectReference::default()
        };
        recorder.record(Note::new(&recorder, about, severity, reason, message));
    }
}

fn lost(loss: &HistoryLoss) -> String {
    let HistoryLoss { after, through, written } = loss;
    let written = written.map_or_else(String::new, |(from, to)| format!(", written from {from} to {to}"));
    let revisions = loss.revisions();
    format!("The database has lost {revisions} revisions after {after}, up to {through}{written}; watches list again")
}

fn length(past: &HistoryLength) -> (Severity, &'static str, String) {
    let (seconds, wanted) = (past.length.as_secs(), past.wanted.as_secs());
    match past.cut_short_by {
        Some(flag) => {
            let message = format!("There was more than {flag} keeps: the past is {seconds} s long, and not {wanted} s");
            (Severity::Warning, "HistoryCutShort", message)
        }
        None => (Severity::Normal, "HistoryWhole", format!("The past is {seconds} s long again, as --history says")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ballast_k8s::{Revision, Time};

    #[test]
    fn re12_the_event_says_how_many_revisions_and_from_when_to_when() {
        let (from, to) = (Time::from_seconds(0), Time::from_seconds(60));
        let loss = HistoryLoss { after: Revision(900), through: Revision(920), written: Some((from, to)) };
        let expected = "The database has lost 20 revisions after 900, up to 920, written from \
                        1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z; watches list again";
        assert_eq!(lost(&loss), expected);
    }

    #[test]
    fn li13_the_event_says_which_quota_cuts_the_past_short_and_when_none_does_any_more() {
        let past = |seconds, cut_short_by| HistoryLength {
            length: Duration::from_secs(seconds),
            wanted: Duration::from_secs(3600),
            cut_short_by,
        };
        let (_, reason, message) = length(&past(90, Some("--history-max-bytes")));
        let expected = "There was more than --history-max-bytes keeps: the past is 90 s long, and not 3600 s";
        assert_eq!((reason, &*message), ("HistoryCutShort", expected));
        let (_, reason, message) = length(&past(3600, None));
        assert_eq!((reason, &*message), ("HistoryWhole", "The past is 3600 s long again, as --history says"));
    }
}
