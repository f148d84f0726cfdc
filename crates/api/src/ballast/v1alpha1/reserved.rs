//! Annotations of rebalances, schedules and EvictionLimits that only the server sets. Pure.

/// The prefix of these annotations. Values from clients are removed, including in the template of a
/// schedule.
pub const RESERVED_PREFIX: &str = "ballast.dev/";

/// The user that approved the plan, or the template of a schedule.
pub const APPROVED_BY: &str = "ballast.dev/approved-by";

/// The user that created a rebalance or a schedule. On a rebalance that a schedule created: the
/// user that last changed the schedule.
pub const CREATED_BY: &str = "ballast.dev/created-by";

/// The users that have written content covered by an approval, as a JSON list, the latest last. An
/// approval ends the list: the next change begins a new one. Absent: only the creator.
pub const CHANGED_BY: &str = "ballast.dev/changed-by";

/// The user that set the rate of an EvictionLimit.
pub const SET_BY: &str = "ballast.dev/set-by";

/// The due time for which a schedule created a rebalance.
pub const SCHEDULED_FOR: &str = "ballast.dev/scheduled-for";

/// The recovered clusters for which a schedule created a rebalance.
pub const RECOVERED: &str = "ballast.dev/recovered";

/// Returns the users that have written content covered by an approval, the latest last. None of
/// them may approve it. `annotation` returns the value of an annotation.
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
