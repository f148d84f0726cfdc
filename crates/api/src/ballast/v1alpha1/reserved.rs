//! The annotations that only the server sets: of rebalances, schedules and EvictionLimits. Pure.

/// The prefix of all of them. A client's value is left out, also in the template of a schedule.
pub const RESERVED_PREFIX: &str = "ballast.dev/";

/// The user who approved the plan, or the template of a schedule.
pub const APPROVED_BY: &str = "ballast.dev/approved-by";

/// The user who created a rebalance or a schedule. On a rebalance that a schedule has made: the
/// user who last changed the schedule.
pub const CREATED_BY: &str = "ballast.dev/created-by";

/// The users who have written something that an approval covers, as a JSON list with the latest
/// last. An approval ends the list: the next change begins a new one. Absent: only the creator.
pub const CHANGED_BY: &str = "ballast.dev/changed-by";

/// The user who set the rate of an EvictionLimit.
pub const SET_BY: &str = "ballast.dev/set-by";

/// The time that a schedule has made a rebalance for.
pub const SCHEDULED_FOR: &str = "ballast.dev/scheduled-for";

/// The clusters for whose recovery a schedule has made a rebalance.
pub const RECOVERED: &str = "ballast.dev/recovered";

/// Returns the users who have written what an approval covers, with the latest last. None of them
/// may approve it. `annotation` returns the value of an annotation.
pub fn writers<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
    match annotation(CHANGED_BY).and_then(|list| serde_json::from_str(list).ok()) {
        Some(writers) => writers,
        None => annotation(CREATED_BY).map(str::to_owned).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_the_creator_until_somebody_changes_it() {
        let of = |created: Option<&'static str>, changed: Option<&'static str>| {
            writers(move |name| if name == CHANGED_BY { changed } else { created })
        };
        assert_eq!(of(None, None), Vec::<String>::new());
        assert_eq!(of(Some("alice"), None), ["alice"]);
        assert_eq!(of(Some("alice"), Some(r#"["alice","CN=bob, O=ops"]"#)), ["alice", "CN=bob, O=ops"]);
        assert_eq!(of(Some("alice"), Some(r#"["bob"]"#)), ["bob"]);
    }
}
