//! Updates of conditions as in Kubernetes: one condition of each type, and `lastTransitionTime`
//! changes only with the status. Pure.

use crate::meta::Condition;
use ballast_k8s::Time;

/// The new content of a condition.
#[derive(Clone, Copy, Debug)]
pub struct ConditionUpdate<'a> {
    pub type_: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// Returns the condition after the update. `known` is the current condition of the same type, if
/// there is one.
pub fn next(known: Option<&Condition>, generation: Option<i64>, now: Time, update: ConditionUpdate<'_>) -> Condition {
    let since = known.filter(|known| known.status == update.status);
    Condition {
        type_: update.type_.to_owned(),
        status: update.status.to_owned(),
        observed_generation: generation,
        last_transition_time: since.map_or(now, |known| known.last_transition_time),
        reason: update.reason.to_owned(),
        message: update.message.to_owned(),
    }
}

/// Replaces the condition of the same type, or adds it.
pub fn set(conditions: &mut Vec<Condition>, generation: Option<i64>, now: Time, update: ConditionUpdate<'_>) {
    let known = conditions.iter().position(|condition| condition.type_ == update.type_);
    let condition = next(known.map(|index| &conditions[index]), generation, now, update);
    match known {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}
