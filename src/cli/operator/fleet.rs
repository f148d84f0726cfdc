//! Counts of unavailable clusters and replicas, and of evictions, from the server.

use serde_json::{Value, json};

use super::server::{Refused, Server, escaped};
use ballast_api::ballast::v1alpha1::{EvictionCounts, FleetReviewStatus, RateFrom};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;
use ballast_scheduler::cause::counted;

/// Requests the counts of the namespace, or of all if there is none. `None`: the server is of an
/// earlier version, and does not have such counts.
pub async fn ask(server: &Server, namespace: Option<&str>) -> anyhow::Result<Option<FleetReviewStatus>> {
    let api = "/apis/ballast.dev/v1alpha1";
    let (path, kind) = match namespace {
        Some(namespace) => (format!("{api}/namespaces/{}/localfleetreviews", escaped(namespace)), "LocalFleetReview"),
        None => (format!("{api}/fleetreviews"), "FleetReview"),
    };
    let question = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind});
    let answer: anyhow::Result<Value> = server.create(&path, &question).await;
    match answer {
        Ok(answer) => {
            let mut review: FleetReviewStatus = serde_json::from_value(answer["status"].clone())?;
            if server.is_embedded() {
                // The rate would be that of the embedded server, which evicts nothing.
                let evictions = &mut review.evictions;
                (evictions.per_second, evictions.rate_from, evictions.ends) = (None, Some(RateFrom::Flags), None);
            }
            Ok(Some(review))
        }
        Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(404)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a text such as `7 of 12 wanted replicas are ready, 5 are missing`.
pub fn told_replicas(review: &FleetReviewStatus) -> String {
    let counts = review.replicas;
    let unplaced = match review.unplaced {
        0 => String::new(),
        unplaced => format!(", {unplaced} of them without a cluster"),
    };
    let unschedulable = match review.unschedulable {
        0 => String::new(),
        some => format!("; {} unschedulable", counted(some, "workload")),
    };
    let told = match counts.missing {
        0 => format!("all {} wanted {} ready", counts.wanted, if counts.wanted == 1 { "is" } else { "are" }),
        missing => format!("{} of {} wanted are ready, {missing} missing{unplaced}", counts.ready, counts.wanted),
    };
    format!("{told}{unschedulable}")
}

/// Returns sentences about pending evictions. `None` if there are none.
pub fn told_evictions(evictions: &EvictionCounts, now: Time) -> Option<String> {
    let EvictionCounts { waiting, foreseen, leaving, .. } = *evictions;
    if (waiting, foreseen, leaving) == (0, 0, 0) {
        return None;
    }
    let in_time = |time: Time| human_duration((time.seconds() - now.seconds()).max(0));
    let mut parts = Vec::new();
    if waiting > 0 {
        let oldest = evictions.oldest.map_or_else(String::new, |oldest| {
            format!(", the oldest for {}", human_duration((now.seconds() - oldest.seconds()).max(0)))
        });
        parts.push(format!("{} for {} turn{oldest}", wait(waiting), if waiting == 1 { "its" } else { "their" }));
    }
    if foreseen > 0 {
        let from = evictions.next_due.map_or_else(String::new, |due| format!(" from {due} (in {})", in_time(due)));
        parts.push(format!("{} will have to leave{from}", counted(foreseen, "workload")));
    }
    if leaving > 0 {
        let (is, its) = if leaving == 1 { ("is", "its") } else { ("are", "their") };
        parts.push(format!("{} {is} leaving and {its} replacement is not healthy yet", counted(leaving, "workload")));
    }
    let rate = told_rate(evictions);
    let end = match evictions.ends {
        Some(ends) => format!(" The last one begins at {ends} (in {}).", in_time(ends)),
        None if waiting + foreseen > 0 && evictions.per_second.is_some() => " None begins at this rate.".to_owned(),
        None => String::new(),
    };
    Some(format!("Evictions: {}. {rate}{end}", parts.join("; ")))
}

fn wait(waiting: i64) -> String {
    format!("{} {}", counted(waiting, "workload"), if waiting == 1 { "waits" } else { "wait" })
}

/// Returns the rate, and the flag or object that sets it.
pub fn told_rate(evictions: &EvictionCounts) -> String {
    let per_second = evictions.per_second.as_ref().map(|rate| rate.text().into_owned()).unwrap_or_default();
    let until = evictions.rate_until.map_or_else(String::new, |until| format!(" until {until}"));
    let set_by = evictions.rate_set_by.as_ref().map_or_else(String::new, |user| format!(", set by {user}"));
    let note = evictions.rate_note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
    let why = format!("{until}{set_by}{note}");
    match evictions.rate_from {
        Some(RateFrom::NoEviction) | None => "This server evicts nothing.".to_owned(),
        Some(RateFrom::EvictionLimit) if per_second == "0" => {
            format!("EvictionLimit/fleet holds all evictions{why}.")
        }
        Some(RateFrom::EvictionLimit) => format!("Rate: {per_second} a second, by EvictionLimit/fleet{why}."),
        Some(RateFrom::MostlyUnready) if per_second == "0" => {
            "Most clusters are not ready, so nothing is evicted (--unhealthy-cluster-threshold); \
             `ballast evictions --rate` does it all the same."
                .to_owned()
        }
        Some(RateFrom::MostlyUnready) => format!("Rate: {per_second} a second, because most clusters are not ready."),
        Some(RateFrom::Flags) if per_second.is_empty() => "Karmada's flags set the rate.".to_owned(),
        Some(RateFrom::Flags) => format!("Rate: {per_second} a second."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::core::Quantity;

    #[test]
    fn ng2_evictions_are_told_with_their_rate_and_their_true_end() {
        let at = |text: &str| Some(text.parse().unwrap());
        let now = "2026-11-27T03:00:00Z".parse().unwrap();
        assert_eq!(told_evictions(&EvictionCounts::default(), now), None);
        let mut evictions = EvictionCounts {
            waiting: 338,
            oldest: at("2026-11-27T02:59:00Z"),
            ends: at("2026-11-27T03:11:14Z"),
            per_second: Some(Quantity::from("500m")),
            rate_from: Some(RateFrom::Flags),
            ..EvictionCounts::default()
        };
        let told = "Evictions: 338 workloads wait for their turn, the oldest for 60s. Rate: 500m a second. The last one \
                    begins at 2026-11-27T03:11:14Z (in 11m).";
        assert_eq!(told_evictions(&evictions, now).unwrap(), told);
        let unknown = EvictionCounts { per_second: None, ends: None, ..evictions.clone() };
        let told = told_evictions(&unknown, now).unwrap();
        assert!(told.ends_with("for 60s. Karmada's flags set the rate."), "{told}");
        evictions.per_second = Some(Quantity::from("0"));
        evictions.rate_from = Some(RateFrom::EvictionLimit);
        evictions.ends = None;
        let held = told_evictions(&evictions, now).unwrap();
        assert!(held.ends_with("EvictionLimit/fleet holds all evictions. None begins at this rate."), "{held}");
        evictions.rate_until = at("2026-11-27T03:30:00Z");
        evictions.rate_set_by = Some("otto".to_owned());
        evictions.rate_note = Some("network, INC-4711".to_owned());
        let why = "holds all evictions until 2026-11-27T03:30:00Z, set by otto: network, INC-4711.";
        assert!(told_rate(&evictions).ends_with(why));
    }
}
