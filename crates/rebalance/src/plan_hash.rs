//! The name of a plan: a hash of its moves (SG1), and the difference between two plans. Pure.
//!
//! The name has the form `HASH-MOVES-REPLICAS`. The hash covers only the moves: the binding, its
//! targets before and its targets after. It is independent of the order of decisions. The two
//! counts follow from the moves, so that the difference between two plans can be counted from their
//! names alone, whichever replica made them.

use sha2::{Digest, Sha256};

use ballast_api::ballast::v1alpha1::Share;
use ballast_k8s::{GroupResource, Key};
use ballast_scheduler::cause::counted;
use ballast_scheduler::planning::{MovePlan, shares};

/// Digits of the hash: 128 bits, enough to avoid collisions.
const DIGITS: usize = 32;

/// A move as hashed.
type NamedMove<'a> = (GroupResource, &'a str, &'a str, Vec<Share>, Vec<Share>);

/// Returns the name of a plan.
pub fn plan_hash(plan: &MovePlan) -> String {
    let each = plan.moves.iter().map(|planned| {
        let Key { resource, namespace, name } = &planned.parsed.object.key;
        (*resource, &**namespace, &**name, planned.parsed.from(), shares(&planned.to))
    });
    named(each.collect(), plan.summary.replicas_to_move)
}

fn named(mut moves: Vec<NamedMove<'_>>, replicas: i64) -> String {
    moves.sort_unstable_by(|one, other| (one.0.as_str(), one.1, one.2).cmp(&(other.0.as_str(), other.1, other.2)));
    let mut hash = Sha256::new();
    for (resource, namespace, name, from, to) in &moves {
        // No name contains a line break, a colon or a slash.
        hash.update(format!("{}/{namespace}/{name}", resource.as_str()));
        for (side, shares) in [("<", from), (">", to)] {
            hash.update(side);
            shares.iter().for_each(|share| hash.update(format!("{}:{},", share.name, share.replicas)));
        }
        hash.update("\n");
    }
    let text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{replicas}", &text[..DIGITS], moves.len())
}

/// Returns a message about the differences between the plans `expected` and `made`, or `None` if
/// they are equal.
pub fn difference(expected: &str, made: &str) -> Option<String> {
    if expected == made {
        return None;
    }
    let counts = |name: &str| {
        let mut parts = name.split('-').skip(1).map(|count| count.parse::<i64>().unwrap_or_default());
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    };
    let ((moves, replicas), (now, replicas_now)) = (counts(expected), counts(made));
    let worded = |moves: i64, replicas: i64| format!("{} ({})", counted(moves, "move"), counted(replicas, "replica"));
    let (then, present) = (worded(moves, replicas), worded(now, replicas_now));
    Some(match then == present {
        true => {
            let differ = if now == 1 { "differs" } else { "differ" };
            format!("the plan changed: expected {then}; today's {} {differ}", counted(now, "move"))
        }
        false => format!("the plan changed: expected {then}; today's plan has {present}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");

    fn share(name: &str, replicas: i32) -> Share {
        Share { name: name.to_owned(), replicas }
    }

    fn moved(name: &str, from: i32, to: i32) -> NamedMove<'_> {
        (KIND, "shop", name, vec![share("m1", from)], vec![share("m2", to)])
    }

    #[test]
    fn sg1_the_same_moves_have_the_same_name_in_any_order_and_others_have_another() {
        let plan = named(vec![moved("a", 2, 2), moved("b", 1, 1)], 3);
        assert_eq!(plan, named(vec![moved("b", 1, 1), moved("a", 2, 2)], 3));
        assert!(plan.ends_with("-2-3") && plan.len() == DIGITS + 4, "{plan}");
        assert_ne!(plan, named(vec![moved("a", 2, 2), moved("c", 1, 1)], 3));
        assert_ne!(plan, named(vec![moved("a", 1, 2), moved("b", 1, 1)], 3));
        assert_ne!(named(Vec::new(), 0), plan);
    }

    #[test]
    fn sg2_differences_are_counted() {
        let before = named(vec![moved("a", 2, 2)], 2);
        let after = named(vec![moved("a", 2, 2), moved("b", 1, 1)], 3);
        assert_eq!(difference(&before, &before), None);
        let told = difference(&before, &after).unwrap();
        assert!(
            told.contains("the plan changed: expected 1 move (2 replicas); today's plan has 2 moves (3 replicas)"),
            "{told}"
        );
        let told = difference(&before, &named(vec![moved("b", 2, 2)], 2)).unwrap();
        assert_eq!(told, "the plan changed: expected 1 move (2 replicas); today's 1 move differs");
    }
}
