//! The targets of a binding after an undo (RM40). Pure.
//!
//! An undo of everything restores the previous targets. An undo that names clusters restores only
//! the replicas that were removed from these clusters: the same number leaves the clusters that
//! gained replicas.

use std::collections::BTreeMap;

use ballast_api::ballast::v1alpha1::{Share, Undo};

/// Returns the targets of a binding that was on `from` and is on `present`, or `None` if it was not
/// on the clusters that the undo names.
pub fn way_back(undo: &Undo, from: Vec<Share>, present: &[Share]) -> Option<Vec<Share>> {
    let is_named = |share: &Share| undo.clusters.contains(&share.name);
    if undo.clusters.is_empty() {
        return Some(from);
    }
    if !from.iter().any(is_named) {
        return None;
    }
    let was: BTreeMap<&str, i32> = from.iter().map(|share| (&*share.name, share.replicas)).collect();
    let mut to: BTreeMap<&str, i32> = present.iter().map(|share| (&*share.name, share.replicas)).collect();
    let mut back: i64 = 0;
    for share in from.iter().filter(|share| is_named(share)) {
        let there = to.entry(&share.name).or_default();
        back += i64::from((share.replicas - *there).max(0));
        *there = share.replicas.max(*there);
    }
    // The clusters that gained most give first, and none gives its previous replicas.
    let got = |(name, replicas): (&&str, &i32)| (replicas - was.get(name).unwrap_or(&0), (*name).to_owned());
    let mut givers: Vec<(i32, String)> = to.iter().map(got).filter(|(more, _)| *more > 0).collect();
    givers.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    for (more, name) in givers.into_iter().filter(|(_, name)| !undo.clusters.contains(name)) {
        let gives = more.min(i32::try_from(back).unwrap_or(i32::MAX));
        back -= i64::from(gives);
        to.entry(present.iter().find(|share| share.name == name).map_or("", |share| &share.name))
            .and_modify(|replicas| *replicas -= gives);
    }
    let is_left = |(name, replicas): &(&str, i32)| *replicas > 0 || was.get(name) == Some(&0);
    let share = |(name, replicas): (&str, i32)| Share { name: name.to_owned(), replicas };
    Some(to.into_iter().filter(is_left).map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str) -> Vec<Share> {
        let share = |part: &str| {
            let (name, replicas) = part.split_once(':').unwrap();
            Share { name: name.to_owned(), replicas: replicas.parse().unwrap() }
        };
        text.split_whitespace().map(share).collect()
    }

    fn back(clusters: &[&str], from: &str, present: &str) -> Option<String> {
        let undo = Undo { name: "x".into(), clusters: clusters.iter().map(|&name| name.to_owned()).collect() };
        let to = way_back(&undo, shares(from), &shares(present))?;
        Some(to.iter().map(|share| format!("{}:{}", share.name, share.replicas)).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rm40_an_undo_brings_back_everything_or_what_was_taken_off_the_named_clusters() {
        let told = |clusters: &[&str], from, present| back(clusters, from, present).unwrap_or_default();
        assert_eq!(told(&[], "a:2 b:2 c:2", "c:6"), "a:2 b:2 c:2");
        assert_eq!(told(&["a"], "a:2 b:2 c:2", "c:6"), "a:2 c:4");
        assert_eq!(told(&["b"], "a:2 b:2 c:2", "a:2 c:4"), "a:2 b:2 c:2");
        assert_eq!(told(&["a", "b"], "a:2 b:2 c:2", "c:6"), "a:2 b:2 c:2");
        assert_eq!(told(&["a"], "a:5 c:1", "c:2 d:4"), "a:5 c:1", "none gives what it had before");
        assert_eq!(told(&["a"], "a:3", "a:1 d:1 e:1"), "a:3");
        assert_eq!(back(&["a"], "b:2", "c:2"), None, "nothing was taken off it");
    }

    #[test]
    fn rm40_copies_come_to_the_named_clusters_and_leave_no_other() {
        assert_eq!(back(&["a"], "a:1 b:1 c:1", "b:1 c:1").unwrap(), "a:1 b:1 c:1");
        assert_eq!(back(&["a"], "a:0 c:0", "c:0").unwrap(), "a:0 c:0", "without replicas, too");
    }
}
