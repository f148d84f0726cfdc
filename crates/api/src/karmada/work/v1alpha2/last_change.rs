//! The annotation of a binding that records its last change of targets and the cause:
//! `ballast.dev/last-change`.
//!
//! Events are kept for an hour, and a user may lack the permission to list them. The annotation is
//! part of the version with the new targets, so it lives as long as that version (NG4). Every
//! writer of `spec.clusters` sets it: workers do so themselves, and the API server does so for
//! clients (D123). Karmada has no such annotation, and its own writers do not change it, so the
//! annotation also contains a digest of the targets that it describes.

use std::fmt;

use super::binding_spec::TargetCluster;
use crate::lean::Pairs;
use ballast_k8s::Time;

/// The name of the annotation.
pub const LAST_CHANGE: &str = "ballast.dev/last-change";

/// Maximum length of the sentence in bytes, enough for five clusters with long names.
const BYTES_MAX: usize = 2_048;

/// Maximum number of clusters named in a sentence. There may be thousands.
const CLUSTERS_NAMED_MAX: usize = 5;

/// The recorded change: `TIME DIGEST SENTENCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastChange<'a> {
    /// Time of the change, and digest of the targets. `None`: an older version recorded only the
    /// sentence.
    of: Option<(Time, u32)>,
    /// `2 replicas moved: member1 0 to 2, member2 4 to 2, because of ClusterRebalance home.`
    pub sentence: &'a str,
}

impl LastChange<'_> {
    /// Returns the value of the annotation after a change to `targets`. `known` are the annotations
    /// before the change. The time never decreases.
    pub fn text<'s>(
        known: &Pairs<String>,
        now: Time,
        targets: impl IntoIterator<Item = (&'s str, i32)>,
        sentence: &str,
    ) -> String {
        let at = LastChange::of(known).and_then(|known| known.time()).map_or(now, |before| before.max(now));
        let end = (0..=sentence.len().min(BYTES_MAX)).rev().find(|end| sentence.is_char_boundary(*end));
        format!("{at} {:08x} {}", digest(targets), &sentence[..end.unwrap_or_default()])
    }

    /// Reads the change that the annotations record.
    pub fn of(annotations: &Pairs<String>) -> Option<LastChange<'_>> {
        annotations.get(LAST_CHANGE).map(|text| LastChange::read(text))
    }

    /// Parses a value of the annotation.
    pub fn read(text: &str) -> LastChange<'_> {
        let parsed = || {
            let (time, rest) = text.split_once(' ')?;
            let (digest, sentence) = rest.split_once(' ')?;
            let digest = u32::from_str_radix(digest, 16).ok().filter(|_| digest.len() == 8)?;
            Some(LastChange { of: Some((time.parse().ok()?, digest)), sentence })
        };
        parsed().unwrap_or(LastChange { of: None, sentence: text })
    }
}

impl<'a> LastChange<'a> {
    /// Returns the time at which the change was decided.
    pub fn time(&self) -> Option<Time> {
        self.of.map(|(time, _)| time)
    }

    /// Returns whether the change led to these targets. Otherwise another writer has changed them
    /// since without recording it.
    pub fn led_to(&self, targets: &[TargetCluster]) -> bool {
        self.of.is_some_and(|(_, known)| known == digest(shares(targets)))
    }

    /// Returns the part `because of ...` of the sentence, without the period.
    pub fn cause(&self) -> Option<&'a str> {
        let from = self.sentence.find(", because ")? + 2;
        Some(self.sentence[from..].trim_end_matches('.'))
    }
}

/// Returns the replicas on each cluster. 0 for a workload that is not divided.
pub fn shares(targets: &[TargetCluster]) -> impl Iterator<Item = (&str, i32)> + Clone {
    targets.iter().map(|target| (&*target.name, target.replicas.unwrap_or_default()))
}

/// Returns a digest of the targets (FNV-1a) that does not depend on their order.
fn digest<'s>(targets: impl IntoIterator<Item = (&'s str, i32)>) -> u32 {
    let mut lines: Vec<String> = targets.into_iter().map(|(name, replicas)| format!("{name}={replicas}\n")).collect();
    lines.sort_unstable();
    let bytes = lines.iter().flat_map(|line| line.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The difference between the targets of a binding before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDiff {
    /// Number of replicas that arrive on any cluster. Replicas that move are counted once, here.
    pub arriving: i64,
    pub leaving: i64,
    /// Clusters with a changed number of replicas, sorted by name, with the numbers before and
    /// after. `None` differs from 0: a workload that is not divided is on a cluster without a
    /// number.
    clusters: Vec<(String, Option<i32>, Option<i32>)>,
}

impl TargetDiff {
    /// Returns the difference, or `None` if the targets are equal.
    pub fn between<'f, 't>(
        from: impl IntoIterator<Item = (&'f str, i32)>,
        to: impl IntoIterator<Item = (&'t str, i32)>,
    ) -> Option<TargetDiff> {
        let mut all: Vec<(&str, Option<i32>, Option<i32>)> =
            from.into_iter().map(|(name, replicas)| (name, Some(replicas), None)).collect();
        all.extend(to.into_iter().map(|(name, replicas)| (name, None, Some(replicas))));
        // The number before precedes the number after, regardless of their values.
        all.sort_by_key(|(name, had, _)| (*name, had.is_none()));
        let mut diff = TargetDiff { arriving: 0, leaving: 0, clusters: Vec::new() };
        for of_one in all.chunk_by(|one, other| one.0 == other.0) {
            let (had, has) = (of_one.iter().find_map(|it| it.1), of_one.iter().find_map(|it| it.2));
            if had == has {
                continue;
            }
            let change = i64::from(has.unwrap_or_default()) - i64::from(had.unwrap_or_default());
            diff.arriving += change.max(0);
            diff.leaving -= change.min(0);
            diff.clusters.push((of_one[0].0.to_owned(), had, has));
        }
        (!diff.clusters.is_empty()).then_some(diff)
    }
}

/// Formats a count: `1 replica`, `2 replicas`.
pub fn counted(number: i64, singular: &str) -> String {
    if number == 1 { format!("{number} {singular}") } else { format!("{number} {singular}s") }
}

/// Lists the first items, and counts the rest: `a, b and 3 more`.
pub fn first_of(items: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    let more = match items.len().saturating_sub(CLUSTERS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first: Vec<String> = items.take(CLUSTERS_NAMED_MAX).collect();
    format!("{}{more}", first.join(separator))
}

/// Formats the difference: `2 replicas moved: member1 0 to 2, member2 4 to 2`.
impl fmt::Display for TargetDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |count: i64| counted(count, "replica");
        match (self.arriving, self.leaving) {
            (0, 0) => f.write_str("Clusters changed: ")?,
            (arriving, 0) => write!(f, "{} added: ", are(arriving))?,
            (0, leaving) => write!(f, "{} removed: ", are(leaving))?,
            (arriving, _) => write!(f, "{} moved: ", are(arriving))?,
        }
        let one = |(name, had, has): &(String, Option<i32>, Option<i32>)| match (had, has) {
            (None | Some(0), Some(0)) => format!("joins {name}"),
            (Some(0), None) => format!("leaves {name}"),
            (had, has) => format!("{name} {} to {}", had.unwrap_or_default(), has.unwrap_or_default()),
        };
        f.write_str(&first_of(self.clusters.iter().map(one), ", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(from: &[(&str, i32)], to: &[(&str, i32)]) -> String {
        TargetDiff::between(from.iter().copied(), to.iter().copied()).map_or_else(String::new, |diff| diff.to_string())
    }

    #[test]
    fn a_diff_counts_arrivals_and_names_the_clusters() {
        assert_eq!(shown(&[("m2", 4)], &[("m1", 2), ("m2", 2)]), "2 replicas moved: m1 0 to 2, m2 4 to 2");
        assert_eq!(shown(&[("m1", 1)], &[("m1", 2)]), "1 replica added: m1 1 to 2");
        assert_eq!(shown(&[("m1", 3)], &[("m1", 1)]), "2 replicas removed: m1 3 to 1");
        assert_eq!(shown(&[("m2", 0)], &[("m1", 0)]), "Clusters changed: joins m1, leaves m2");
        assert_eq!(shown(&[("m1", 3), ("m2", 1)], &[("m2", 1), ("m1", 3)]), "");
        let many: Vec<(String, i32)> = (0..8).map(|number| (format!("m{number}"), 1)).collect();
        let many: Vec<(&str, i32)> = many.iter().map(|(name, replicas)| (&**name, *replicas)).collect();
        assert!(shown(&[], &many).ends_with("m4 0 to 1 and 3 more"));
    }

    #[test]
    fn a_recorded_change_belongs_to_its_targets_alone() {
        let on = |name: &str, replicas| TargetCluster {
            name: name.to_owned(),
            replicas: Some(replicas),
            ..TargetCluster::default()
        };
        let targets = [on("m2", 1), on("m1", 3)];
        let sentence = "4 replicas added: m1 0 to 3, m2 0 to 1, because of ClusterRebalance home.";
        let now = Time::from_seconds(90);
        let text = LastChange::text(&Pairs::default(), now, shares(&targets), sentence);
        assert!(text.starts_with("1970-01-01T00:01:30Z ") && text.ends_with(sentence), "{text}");
        let annotations = [(LAST_CHANGE.to_owned(), text)].into_iter().collect::<Pairs<String>>();
        let change = LastChange::of(&annotations).unwrap();
        assert_eq!((change.time(), change.sentence), (Some(now), sentence));
        assert_eq!(change.cause(), Some("because of ClusterRebalance home"));
        assert!(change.led_to(&[on("m1", 3), on("m2", 1)]), "the order of targets does not matter");
        assert!(!change.led_to(&[on("m1", 1), on("m2", 3)]) && !change.led_to(&targets[..1]));
        // The web page computes the same digest.
        let spread = [("member2", 1), ("member1", 2), ("member3", 1)];
        let text = LastChange::text(&Pairs::default(), now, spread, "");
        assert_eq!(text, "1970-01-01T00:01:30Z 2a496880 ");
        // If the clock steps back, a change does not get an earlier time than the previous one.
        let earlier = LastChange::text(&annotations, Time::from_seconds(60), [], "");
        assert_eq!(LastChange::read(&earlier).time(), Some(now));
    }

    #[test]
    fn a_sentence_of_an_older_version_has_a_cause_and_no_targets() {
        let old = LastChange::read("1 replica added: m1 0 to 1, because of a trigger.");
        assert_eq!((old.time(), old.cause()), (None, Some("because of a trigger")));
        assert!(!old.led_to(&[]));
        assert_eq!(LastChange::read("").cause(), None);
        let long = LastChange::text(&Pairs::default(), Time::from_seconds(0), [], &"é".repeat(BYTES_MAX));
        assert!(long.len() < BYTES_MAX + 40);
    }
}
