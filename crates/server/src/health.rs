//! `/healthz`, `/livez`, `/readyz` and each of their checks (HE1-HE6).

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{StatusCode, header};

use super::respond::{self, Response};
use ballast_k8s::Query;

/// The probes that a check is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Part of all three probes: the process works.
    Alive,
    /// Part of `/readyz` and `/healthz`: the process can serve requests.
    Ready,
}

/// One line of a probe. `probe` runs with each request, so it must be quick and must not wait.
#[derive(Clone)]
pub struct Check {
    pub name: &'static str,
    pub counts: Counts,
    /// Returns the fault, for the log. The response only names the check that failed.
    pub probe: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Whether the last call failed, so that the log has one line for each change.
    is_failing: Arc<AtomicBool>,
}

impl Check {
    pub fn new(
        name: &'static str,
        counts: Counts,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check { name, counts, probe: Arc::new(probe), is_failing: Arc::default() }
    }

    fn run(&self) -> Result<(), String> {
        let outcome = (self.probe)();
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        match &outcome {
            Err(why) if !was_failing => tracing::warn!(check = self.name, why, "a check fails"),
            Ok(()) if was_failing => tracing::info!(check = self.name, "the check passes again"),
            _ => {}
        }
        outcome
    }
}

/// Returns the response of `/{endpoint}` or `/{endpoint}/{check}`. `None` if no check has the name.
pub(super) fn answer(
    checks: &[Check],
    is_draining: bool,
    endpoint: &str,
    only: Option<&str>,
    query: &Query<'_>,
) -> Option<Response> {
    let mut named: Vec<(&str, Result<(), String>)> = vec![("ping", Ok(()))];
    let asked = checks.iter().filter(|check| endpoint != "livez" || check.counts == Counts::Alive);
    named.extend(asked.map(|check| (check.name, check.run())));
    if endpoint == "readyz" {
        let draining = if is_draining { Err("the server is shutting down".to_owned()) } else { Ok(()) };
        named.push(("shutdown", draining));
    }
    if let Some(only) = only {
        named.retain(|(name, _)| *name == only);
        named.first()?;
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = false;
    for (name, outcome) in &named {
        let line = match outcome {
            _ if excluded.contains(name) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(_) => {
                failed = true;
                format!("[-]{name} failed: reason withheld\n")
            }
        };
        lines.push_str(&line);
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| named.iter().all(|(known, _)| known != *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let list = unknown.join(", ");
        let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {list}");
    }
    if failed {
        return Some(text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n")));
    }
    let is_verbose = query.first("verbose").is_some();
    Some(text(StatusCode::OK, if is_verbose { format!("{lines}{endpoint} check passed\n") } else { "ok".to_owned() }))
}

fn text(code: StatusCode, body: String) -> Response {
    let mut response = respond::text(code, body);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(checks: &[Check], draining: bool, endpoint: &str, query: &str) -> (u16, String) {
        let response = answer(checks, draining, endpoint, None, &Query::parse(query)).unwrap();
        let code = response.status().as_u16();
        let body = futures_util::FutureExt::now_or_never(axum::body::to_bytes(response.into_body(), 4096));
        (code, String::from_utf8(body.unwrap().unwrap().to_vec()).unwrap())
    }

    #[test]
    fn he1_he2_a_probe_says_ok_and_lists_its_checks_when_asked() {
        let checks = [Check::new("storage", Counts::Ready, || Ok(()))];
        assert_eq!(ask(&checks, false, "readyz", ""), (200, "ok".to_owned()));
        let (code, body) = ask(&checks, false, "readyz", "verbose");
        assert_eq!((code, &*body), (200, "[+]ping ok\n[+]storage ok\n[+]shutdown ok\nreadyz check passed\n"));
    }

    #[test]
    fn he2_he3_a_failed_check_fails_the_probe_unless_it_is_excluded() {
        let checks = [Check::new("storage", Counts::Ready, || Err("disk on fire".to_owned()))];
        let (code, body) = ask(&checks, false, "readyz", "");
        assert_eq!(code, 500);
        assert_eq!(body, "[+]ping ok\n[-]storage failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n");
        assert_eq!(ask(&checks, false, "readyz", "exclude=storage").0, 200);
        assert_eq!(ask(&checks, false, "livez", "").0, 200, "storage does not decide about life");
        let (_, body) = ask(&checks, false, "livez", "verbose&exclude=z");
        assert!(body.contains("warn: some health checks cannot be excluded: no matches for \"z\""), "{body}");
    }

    #[test]
    fn sh1_draining_makes_a_server_unready_but_not_dead() {
        assert_eq!(ask(&[], true, "readyz", "").0, 500);
        assert_eq!(ask(&[], true, "livez", "").0, 200);
        assert!(answer(&[], false, "readyz", Some("nothing"), &Query::parse("")).is_none());
    }
}
