//! Groups clusters that are excluded for the same reason: one line with a count instead of a line
//! for each cluster.

use super::why::ClusterVerdict;
use crate::cli::natural;

/// Minimum number of clusters with the same reason that share a line.
const ALIKE_MIN: usize = 4;
/// Maximum number of names in a line. The rest is a number.
const NAMES_MAX: usize = 3;

/// Returns the first names, and the number of further ones.
pub fn some_of(names: &[&str]) -> String {
    match names.split_at_checked(NAMES_MAX) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

/// Returns the clusters that need their own line, and the others by their shared reason, in the
/// order of their names.
pub fn folded(clusters: &[ClusterVerdict]) -> (Vec<&ClusterVerdict>, Vec<(&str, Vec<&str>)>) {
    let mut clusters: Vec<_> = clusters.iter().collect();
    natural::by_name(&mut clusters, |seen| &seen.name);
    let mut alike: Vec<(&str, Vec<&str>)> = Vec::new();
    for seen in &clusters {
        let Some(why) = seen.shared_reason() else { continue };
        match alike.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&seen.name),
            None => alike.push((why, vec![&seen.name])),
        }
    }
    alike.retain(|(_, names)| names.len() >= ALIKE_MIN);
    let is_folded =
        |seen: &&ClusterVerdict| seen.shared_reason().is_some_and(|why| alike.iter().any(|(known, _)| *known == why));
    clusters.retain(|seen| !is_folded(seen));
    (clusters, alike)
}

impl ClusterVerdict {
    /// Returns why the workload is not placed on the cluster, with the conflicting values if there
    /// are any.
    pub fn why_not(&self) -> Option<&str> {
        let out = self.out.as_deref()?;
        let objecting = self.filters.iter().find(|it| it.objection.as_deref() == Some(out) && !it.overruled);
        Some(objecting.and_then(|it| it.detail.as_deref()).unwrap_or(out))
    }

    /// Returns the reason, if there is nothing else to report about the cluster.
    fn shared_reason(&self) -> Option<&str> {
        let is_empty = self.replicas_before == 0 && self.replicas_after == 0 && self.room.is_none();
        let has_numbers = self.free.is_some() || self.weight.is_some() || !self.scores.is_empty();
        self.why_not().filter(|_| is_empty && !has_numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::super::why::Filter;
    use super::*;

    #[test]
    fn ng7_clusters_that_are_out_for_the_same_reason_share_a_line_with_their_number() {
        let out = |number: usize, has: &str| {
            let words = "cluster(s) did not match the placement cluster affinity constraint".to_owned();
            let detail = Some(format!("wants region=us-east, has {has}"));
            let filter = Filter {
                filter: "ClusterAffinity".to_owned(),
                objection: Some(words.clone()),
                detail,
                overruled: false,
            };
            ClusterVerdict {
                name: format!("m{number}"),
                filters: vec![filter],
                out: Some(words),
                ..ClusterVerdict::default()
            }
        };
        let many = (1..=33).map(|number| out(number, "eu-west"));
        let all: Vec<ClusterVerdict> = many.chain([out(40, "asia")]).collect();
        let (alone, alike) = folded(&all);
        assert_eq!(
            alone.iter().map(|seen| seen.why_not()).collect::<Vec<_>>(),
            [Some("wants region=us-east, has asia")]
        );
        let [(why, names)] = &alike[..] else { panic!("{alike:?}") };
        assert_eq!((*why, names.len()), ("wants region=us-east, has eu-west", 33));
        assert_eq!(some_of(names), "m1, m2, m3 and 30 more");
        let here = ClusterVerdict { replicas_before: 2, ..out(1, "eu-west") };
        assert_eq!(folded(&vec![here; 5]).1, [], "what runs somewhere is told for each cluster");
    }
}
