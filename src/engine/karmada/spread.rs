//! Spreading over groups of clusters: regions, and with our own rules zones, providers and values of a label.
//!
//! First the groups are chosen, best first, so that they have enough clusters between them; then the best cluster
//! of each, then the best of the rest up to the number of clusters that is allowed.

use std::collections::BTreeMap;

use super::filters::Case;
use super::placement::{By, Division, Spread};
use super::select::{Candidate, Refusal, bounded};

/// Whether any constraint is about groups that can be selected by.
pub(super) fn applies(case: &Case<'_>) -> bool {
    constraint(case).is_some()
}

/// The constraint that decides. Karmada knows regions only; ours takes the widest place first.
fn constraint<'a>(case: &Case<'a>) -> Option<&'a Spread> {
    let by_region = case.placement.spread_by(&By::Region);
    if by_region.is_some() || !case.profile.deviates() {
        return by_region;
    }
    let by_place = [By::Provider, By::Zone].into_iter().find_map(|by| case.placement.spread_by(&by));
    by_place.or_else(|| case.placement.spread.iter().find(|spread| matches!(spread.by, By::Label(_))))
}

/// A group of candidates, best first.
struct Group<'a> {
    name: &'a str,
    /// Positions in the list of candidates.
    members: Vec<usize>,
    weight: i64,
}

/// `candidates` are sorted by preference.
pub(super) fn select(case: &Case<'_>, candidates: &mut Vec<Candidate>) -> Result<(), Refusal> {
    let constraint = bounded(case, constraint(case).expect("asked before"));
    let clusters = case.placement.spread_by(&By::Cluster).map(|spread| bounded(case, spread));
    let groups = group(case, &constraint, clusters.as_ref(), candidates);
    if (groups.len() as i64) < constraint.min {
        return Err(format!("the number of feasible {} is less than spreadConstraint.MinGroups", noun(&constraint.by)));
    }
    let clusters_min = clusters.as_ref().map_or(0, |spread| spread.min);
    let chosen = choose_groups(&groups, constraint.min, constraint.max, clusters_min);
    if chosen.is_empty() {
        return Err("the number of clusters is less than the cluster spreadConstraint.MinGroups".to_owned());
    }
    let first: Vec<usize> = chosen.iter().map(|group| groups[*group].members[0]).collect();
    let mut rest: Vec<usize> = chosen.iter().flat_map(|group| &groups[*group].members[1..]).copied().collect();
    rest.sort_unstable();
    // Without a constraint on clusters upstream takes one cluster of each group.
    let clusters_max = match &clusters {
        Some(spread) => spread.max,
        None if case.profile.deviates() => i64::MAX,
        None => 0,
    };
    let more = (clusters_max - first.len() as i64).clamp(0, rest.len() as i64) as usize;
    let picked: Vec<Candidate> = first.iter().chain(&rest[..more]).map(|position| candidates[*position]).collect();
    *candidates = picked;
    Ok(())
}

fn noun(by: &By) -> &str {
    match by {
        By::Cluster => "cluster",
        By::Region => "region",
        By::Zone => "zone",
        By::Provider => "provider",
        By::Label(key) => key,
    }
}

fn group<'a>(
    case: &Case<'a>,
    constraint: &Spread,
    clusters: Option<&Spread>,
    candidates: &[Candidate],
) -> Vec<Group<'a>> {
    let mut members: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
    for (position, candidate) in candidates.iter().enumerate() {
        let cluster = case.fleet.cluster(candidate.slot());
        let mut join = |name: &'a str| members.entry(name).or_default().push(position);
        match &constraint.by {
            By::Region => join(&cluster.region),
            By::Provider => join(&cluster.provider),
            // A cluster over several zones counts for the first, so that no cluster is taken twice.
            By::Zone => cluster.zones.iter().take(1).for_each(|zone| join(zone)),
            By::Label(key) => cluster.label(key).into_iter().for_each(join),
            By::Cluster => join(&cluster.name),
        }
    }
    let weigh = |members: &[usize]| weight(case, constraint, clusters, candidates, members);
    members.into_iter().map(|(name, members)| Group { name, weight: weigh(&members), members }).collect()
}

/// Room counts a thousand times more than preference.
const ROOM_UNIT: i64 = 1000;

fn weight(
    case: &Case<'_>,
    constraint: &Spread,
    clusters: Option<&Spread>,
    candidates: &[Candidate],
    members: &[usize],
) -> i64 {
    let replicas = i64::from(case.request.replicas);
    let of = |position: &usize| (candidates[*position].available(), i64::from(candidates[*position].score));
    if case.placement.division == Division::Duplicated {
        let able = members.iter().map(of).filter(|(available, _)| *available >= replicas);
        let (count, score) = able.fold((0, 0), |(count, sum), (_, score)| (count + 1, sum + score));
        return if count == 0 { 0 } else { count * ROOM_UNIT + score / count };
    }
    let target = replicas.max(0).unsigned_abs().div_ceil(constraint.min.max(1).unsigned_abs()) as i64;
    let enough = constraint.min.max(clusters.map_or(0, |spread| spread.min));
    let (mut room, mut scores, mut used) = (0, 0, 0);
    for (available, score) in members.iter().map(of) {
        room += available;
        scores += score;
        used += 1;
        if used >= enough && room >= target {
            break;
        }
    }
    // A short group was walked to its end.
    room.min(target) * ROOM_UNIT + scores / used.max(1)
}

/// The best combination of `min` to `max` groups that have `clusters_min` clusters between them, as positions in
/// `groups` by weight.
///
/// Combinations are compared by the sum of their weights, then by the number of their clusters. One that would do
/// without its largest group is not a combination; and of the chosen one the shortest beginning that does is taken.
fn choose_groups(groups: &[Group<'_>], min: i64, max: i64, clusters_min: i64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|group| {
        let Group { name, members, weight } = &groups[*group];
        (members.len(), std::cmp::Reverse(*weight), *name)
    });
    let min = min.clamp(0, groups.len() as i64) as usize;
    let max = max.clamp(0, groups.len() as i64) as usize;
    if max == 0 || min > max {
        return Vec::new();
    }
    let search = Search { groups, order: &order, min, max, needed: clusters_min.max(0) as usize };
    let Some(mut best) = search.best() else { return Vec::new() };
    let by_weight = |group: &usize| (std::cmp::Reverse(groups[*group].weight), groups[*group].name);
    best.sort_unstable_by_key(by_weight);
    let shortest = (1..best.len()).find(|length| search.is_combination(&best[..*length]));
    best.truncate(shortest.unwrap_or(best.len()));
    best
}

struct Search<'a> {
    groups: &'a [Group<'a>],
    /// Ascending by number of clusters.
    order: &'a [usize],
    min: usize,
    max: usize,
    needed: usize,
}

/// Value of a combination: weights, then clusters.
type Value = (i64, i64);

/// States of the search. Beyond it the heaviest groups are taken, which upstream would not live to see.
const STATES_MAX: usize = 4_000_000;

impl Search<'_> {
    fn size(&self, group: usize) -> usize {
        self.groups[group].members.len()
    }

    /// Enough clusters, a permitted number of groups, and not so without the largest of them.
    fn is_combination(&self, chosen: &[usize]) -> bool {
        let total: usize = chosen.iter().map(|group| self.size(*group)).sum();
        let last = self.order.iter().rev().find(|group| chosen.contains(group));
        let without_last = total - last.map_or(0, |group| self.size(*group));
        let permitted = chosen.len() >= self.min.max(1) && chosen.len() <= self.max && total >= self.needed;
        permitted && (chosen.len() == self.min.max(1) || without_last < self.needed)
    }

    /// The best by value; of equals the one found first when the groups are tried in order, depth first.
    fn best(&self) -> Option<Vec<usize>> {
        let count = self.order.len();
        let caps = self.needed + 1;
        if count.saturating_mul(self.max + 1).saturating_mul(caps) > STATES_MAX {
            return self.heaviest();
        }
        // best[from][chosen][clusters]: value that is still to gain with groups `from..`; None: no way.
        let width = (self.max + 1) * caps;
        let mut best: Vec<Option<Value>> = vec![None; (count + 1) * width];
        let index = |from: usize, chosen: usize, clusters: usize| from * width + chosen * caps + clusters;
        for from in (0..=count).rev() {
            for chosen in 0..=self.max {
                for clusters in 0..caps {
                    best[index(from, chosen, clusters)] = if self.is_done(chosen, clusters) {
                        Some((0, 0))
                    } else if chosen == self.max || from == count {
                        None
                    } else {
                        let without = best[index(from + 1, chosen, clusters)];
                        let with = best[index(from + 1, chosen + 1, self.added(clusters, from))];
                        without.max(with.map(|value| self.gain(value, from)))
                    };
                }
            }
        }
        best[index(0, 0, 0)]?;
        let (mut chosen, mut clusters) = (Vec::new(), 0);
        for from in 0..count {
            if self.is_done(chosen.len(), clusters) {
                break;
            }
            let with = best[index(from + 1, chosen.len() + 1, self.added(clusters, from))];
            if with.map(|value| self.gain(value, from)) == best[index(from, chosen.len(), clusters)] {
                clusters = self.added(clusters, from);
                chosen.push(self.order[from]);
            }
        }
        Some(chosen)
    }

    fn is_done(&self, chosen: usize, clusters: usize) -> bool {
        chosen >= self.min.max(1) && clusters >= self.needed
    }

    /// Beyond what is needed clusters need not be counted.
    fn added(&self, clusters: usize, position: usize) -> usize {
        (clusters + self.size(self.order[position])).min(self.needed)
    }

    fn gain(&self, value: Value, position: usize) -> Value {
        let group = &self.groups[self.order[position]];
        (value.0.saturating_add(group.weight), value.1 + group.members.len() as i64)
    }

    fn heaviest(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_unstable_by_key(|group| (std::cmp::Reverse(self.groups[*group].weight), self.groups[*group].name));
        let mut chosen = Vec::new();
        let mut clusters = 0;
        // Large groups make up for what the heaviest lack.
        let mut by_size: Vec<usize> = self.order.to_vec();
        for group in order {
            if self.is_done(chosen.len(), clusters) || chosen.len() == self.max {
                break;
            }
            clusters += self.size(group);
            chosen.push(group);
        }
        while clusters < self.needed {
            let largest = by_size.pop()?;
            if chosen.contains(&largest) {
                continue;
            }
            let smallest = (0..chosen.len()).min_by_key(|position| self.size(chosen[*position]))?;
            if self.size(chosen[smallest]) >= self.size(largest) {
                return None;
            }
            clusters = clusters - self.size(chosen[smallest]) + self.size(largest);
            chosen[smallest] = largest;
        }
        Some(chosen)
    }
}
