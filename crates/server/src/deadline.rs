//! The deadline of a request (LI1). A watch has none, and a proxied request has bounds of its own
//! (`proxy`).

use std::time::Duration;

use tokio::time::Instant;

use super::respond::Response;
use ballast_k8s::{Query, Status, duration};
use ballast_registry::due_at;

/// The longest deadline of a request, and the default (LI1).
const DEADLINE: Duration = Duration::from_secs(60);
const TIMED_OUT: &str = "request did not complete within the allotted timeout";

/// Returns the response, or a 504 if the deadline passes first. The registry knows the deadline
/// meanwhile (`answer_due`).
pub async fn within(
    query: &Query<'_>,
    answer: impl Future<Output = Result<Response, Status>>,
) -> Result<Response, Status> {
    let due = Instant::now() + asked_for(query)?;
    match tokio::time::timeout_at(due, due_at(Some(due), answer)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Status::timeout(TIMED_OUT, 0)),
    }
}

/// Returns the deadline in `?timeout=`. Zero or less, and more than the default, mean the default
/// (LI1).
pub fn asked_for(query: &Query<'_>) -> Result<Duration, Status> {
    let Some(text) = query.text("timeout") else { return Ok(DEADLINE) };
    let asked = duration::parse_signed(text).ok_or_else(|| {
        Status::bad_request(format!("invalid timeout specified in the request URL - time: invalid duration {text:?}"))
    })?;
    Ok(if asked.is_zero() || asked > DEADLINE { DEADLINE } else { asked })
}

/// Returns whether the query requests a shorter deadline than the default.
pub fn is_short(query: &Query<'_>) -> bool {
    asked_for(query).is_ok_and(|asked| asked < DEADLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn li1_deadlines_are_go_durations_up_to_the_default() {
        for (query, expected) in [
            ("", Some(60_000)),
            ("timeout=5s", Some(5_000)),
            ("timeout=1m30s", Some(60_000)),
            ("timeout=0s", Some(60_000)),
            ("timeout=0", Some(60_000)),
            ("timeout=500ms", Some(500)),
            ("timeout=0.5s", Some(500)),
            ("timeout=5", None),
            ("timeout=s", None),
            ("timeout=-1s", Some(60_000)),
            ("timeout=x", None),
        ] {
            let deadline = asked_for(&Query::parse(query)).ok().map(|it| it.as_millis());
            assert_eq!(deadline, expected, "{query}");
        }
    }
}
