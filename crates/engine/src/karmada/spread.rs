//! Spreads replicas over groups of clusters: over regions, and with this project's rules also over
//! zones, providers and the values of a label.
//!
//! First it chooses the best groups that have enough clusters together. Then it takes the best
//! cluster of each group. Then it takes the best of the remaining clusters, up to the maximum
//! number.

use super::candidate::{Candidate, Refusal, lead};
use super::cluster_set::PlaceNumbers;
use super::filters::AttemptContext;
use super::placement::{Division, SpreadBy, SpreadConstraint};
use super::trace::{GroupTrace, SpreadGroups};

/// Returns whether a constraint is about groups of clusters, not only about clusters.
pub(super) fn applies(context: &AttemptContext<'_>) -> bool {
    constraint(context).is_some()
}

/// Returns the constraint that chooses the groups. Karmada supports only regions. This project's
/// rules take the constraint with the widest topology domain.
fn constraint<'a>(context: &AttemptContext<'a>) -> Option<&'a SpreadConstraint> {
    let by_region = context.placement.spread_by(&SpreadBy::Region);
    if by_region.is_some() || !context.profile.deviates() {
        return by_region;
    }
    let by_place = [SpreadBy::Provider, SpreadBy::Zone].into_iter().find_map(|by| context.placement.spread_by(&by));
    by_place.or_else(|| context.placement.spread.iter().find(|spread| matches!(spread.by, SpreadBy::Label(_))))
}

/// The candidates of one topology domain: a range of the list.
struct Group<'a> {
    name: &'a str,
    start: usize,
    size: usize,
    weight: i64,
}

/// Selects the candidates to use. If `seen` is given, it receives the groups to choose from.
pub(super) fn select(
    context: &AttemptContext<'_>,
    candidates: &mut Vec<Candidate>,
    seen: Option<&mut Option<SpreadGroups>>,
) -> Result<(), Refusal> {
    let constraint = bounded(context, constraint(context).expect("asked before"));
    let clusters = context.placement.spread_by(&SpreadBy::Cluster).map(|spread| bounded(context, spread));
    let mut groups = group(context, &constraint.by, candidates);
    let clusters_min = clusters.as_ref().map_or(0, |spread| spread.min);
    for group in &mut groups {
        let members = &mut candidates[group.start..group.start + group.size];
        group.weight = weight(context, constraint.min, clusters_min, members);
    }
    let enough = groups.len() as i64 >= constraint.min;
    let chosen = if enough { choose_groups(&groups, constraint.min, constraint.max, clusters_min) } else { Vec::new() };
    if let Some(seen) = seen {
        *seen = Some(spreading(&constraint.by, &groups, &chosen, candidates));
    }
    if !enough {
        return Err(format!("the number of feasible {} is less than spreadConstraint.MinGroups", constraint.by));
    }
    if chosen.is_empty() {
        return Err("the number of clusters is less than the cluster spreadConstraint.MinGroups".to_owned());
    }
    // The best cluster of each group, then the best of the rest.
    let mut picked: Vec<Candidate> = chosen.iter().map(|group| candidates[groups[*group].start]).collect();
    let first = picked.len();
    for group in &chosen {
        let Group { start, size, .. } = groups[*group];
        picked.extend(&candidates[start + 1..start + size]);
    }
    // Without a constraint on clusters, upstream takes one cluster of each group.
    let clusters_max = match &clusters {
        Some(spread) => spread.max,
        None if context.profile.deviates() => i64::MAX,
        None => 0,
    };
    let more = (clusters_max.saturating_sub(first as i64)).clamp(0, (picked.len() - first) as i64) as usize;
    lead(&mut picked[first..], more);
    picked.truncate(first + more);
    *candidates = picked;
    Ok(())
}

fn spreading(by: &SpreadBy, groups: &[Group<'_>], chosen: &[usize], candidates: &[Candidate]) -> SpreadGroups {
    let traces = groups.iter().enumerate().map(|(position, group)| {
        let members = candidates[group.start..group.start + group.size].iter().map(Candidate::index).collect();
        let chosen = chosen.contains(&position);
        (GroupTrace { name: group.name.into(), clusters: group.size, weight: group.weight, chosen }, members)
    });
    SpreadGroups { by: by.clone(), groups: traces.collect() }
}

/// Moves candidates of the same group next to each other. Candidates without a group are removed.
fn group<'a>(context: &AttemptContext<'a>, by: &SpreadBy, candidates: &mut Vec<Candidate>) -> Vec<Group<'a>> {
    let attributes = context.fleet.attributes();
    let cluster = |candidate: &Candidate| context.fleet.cluster(candidate.index());
    match by {
        SpreadBy::Region => by_number(&attributes.region_of, candidates),
        SpreadBy::Provider => by_number(&attributes.provider_of, candidates),
        // A cluster in several zones belongs to the group of the first one, so that no cluster is
        // taken twice.
        SpreadBy::Zone => by_name(candidates, |candidate| cluster(candidate).zones.first().map(|zone| &**zone)),
        SpreadBy::Label(key) => by_name(candidates, |candidate| cluster(candidate).label(key)),
        SpreadBy::Cluster => by_name(candidates, |candidate| Some(&*cluster(candidate).name)),
    }
}

fn by_number<'a>(places: &'a PlaceNumbers, candidates: &mut Vec<Candidate>) -> Vec<Group<'a>> {
    let mut sizes = vec![0_usize; places.count()];
    candidates.iter().for_each(|candidate| sizes[places.number(candidate.index()) as usize] += 1);
    let mut next = Vec::with_capacity(sizes.len());
    let mut groups = Vec::new();
    let mut start = 0;
    for (number, size) in (0..).zip(&sizes) {
        next.push(start);
        if *size > 0 {
            groups.push(Group { name: places.name(number), start, size: *size, weight: 0 });
        }
        start += size;
    }
    let mut sorted = candidates.clone();
    for candidate in candidates.iter() {
        let next = &mut next[places.number(candidate.index()) as usize];
        sorted[*next] = *candidate;
        *next += 1;
    }
    *candidates = sorted;
    groups
}

fn by_name<'a>(candidates: &mut Vec<Candidate>, name: impl Fn(&Candidate) -> Option<&'a str>) -> Vec<Group<'a>> {
    candidates.retain(|candidate| name(candidate).is_some());
    candidates.sort_by_cached_key(|candidate| name(candidate));
    let mut groups = Vec::new();
    let mut start = 0;
    for members in candidates.chunk_by(|a, b| name(a) == name(b)) {
        groups.extend(name(&members[0]).map(|name| Group { name, start, size: members.len(), weight: 0 }));
        start += members.len();
    }
    groups
}

/// The weight of one replica of capacity, relative to one point of score.
const CAPACITY_UNIT: i64 = 1000;

/// Returns the weight of a group. It depends on the best members only, as many as are needed.
fn weight(context: &AttemptContext<'_>, groups_min: i64, clusters_min: i64, members: &mut [Candidate]) -> i64 {
    let replicas = i64::from(context.request.replicas);
    let of = |candidate: &Candidate| (candidate.available(), i64::from(candidate.score));
    if context.placement.division == Division::Duplicated {
        lead(members, 1);
        let able = members.iter().map(of).filter(|(available, _)| *available >= replicas);
        let (count, score) = able.fold((0, 0), |(count, sum), (_, score)| (count + 1, sum + score));
        return if count == 0 { 0 } else { count * CAPACITY_UNIT + score / count };
    }
    let target = replicas.max(0).unsigned_abs().div_ceil(groups_min.max(1).unsigned_abs()) as i64;
    let enough = groups_min.max(clusters_min);
    // If a group has too few members, all of them are included.
    let rated = |(capacity, scores, used): (i64, i64, i64)| capacity.min(target) * CAPACITY_UNIT + scores / used.max(1);
    let walk = |members: &[Candidate]| {
        let (mut capacity, mut scores, mut used) = (0, 0, 0);
        for (available, score) in members.iter().map(of) {
            capacity += available;
            scores += score;
            used += 1;
            if used >= enough && capacity >= target {
                return (true, (capacity, scores, used));
            }
        }
        (false, (capacity, scores, used))
    };
    // A few members are usually enough.
    let few = usize::try_from(enough).unwrap_or(usize::MAX).saturating_mul(2).max(8).min(members.len());
    lead(members, few);
    if let (true, seen) = walk(&members[..few]) {
        return rated(seen);
    }
    lead(members, members.len());
    rated(walk(members).1)
}

/// Returns the best combination of `min` to `max` groups that have `clusters_min` clusters
/// together, as positions in `groups` by weight.
///
/// Combinations are compared by the sum of their weights, then by their number of clusters. A set
/// of groups that would be enough without its largest group is not a combination. Of the best
/// combination, the shortest prefix that is enough is returned.
fn choose_groups(groups: &[Group<'_>], min: i64, max: i64, clusters_min: i64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|group| {
        let Group { name, size, weight, .. } = &groups[*group];
        (*size, std::cmp::Reverse(*weight), *name)
    });
    let min = usize::try_from(min.max(0)).unwrap_or(usize::MAX);
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
    /// In ascending order of the number of clusters.
    order: &'a [usize],
    min: usize,
    max: usize,
    needed: usize,
}

/// The value of a combination: its weight, then its number of clusters.
type Value = (i64, i64);

/// The most states that the search examines. Beyond this bound, the heaviest groups are taken.
/// Upstream's search would not end in reasonable time there.
const STATES_MAX: usize = 4_000_000;

impl Search<'_> {
    fn size(&self, group: usize) -> usize {
        self.groups[group].size
    }

    /// Returns whether the groups have enough clusters, are neither too few nor too many, and would
    /// have too few clusters without the largest.
    fn is_combination(&self, chosen: &[usize]) -> bool {
        let total: usize = chosen.iter().map(|group| self.size(*group)).sum();
        let last = self.order.iter().rev().find(|group| chosen.contains(group));
        let without_last = total - last.map_or(0, |group| self.size(*group));
        let permitted = chosen.len() >= self.min.max(1) && chosen.len() <= self.max && total >= self.needed;
        permitted && (chosen.len() == self.min.max(1) || without_last < self.needed)
    }

    /// Returns the combination of the highest value. Of equal ones, it returns the first one that a
    /// depth-first search finds.
    fn best(&self) -> Option<Vec<usize>> {
        let count = self.order.len();
        let caps = self.needed + 1;
        if count.saturating_mul(self.max + 1).saturating_mul(caps) > STATES_MAX {
            return self.heaviest();
        }
        // best[from][chosen][clusters] is the value that groups `from..` can still add. `None`
        // means that no combination is possible.
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

    /// Adds the clusters of a group, up to the needed number.
    fn added(&self, clusters: usize, position: usize) -> usize {
        (clusters + self.size(self.order[position])).min(self.needed)
    }

    fn gain(&self, value: Value, position: usize) -> Value {
        let group = &self.groups[self.order[position]];
        (value.0.saturating_add(group.weight), value.1 + group.size as i64)
    }

    fn heaviest(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_unstable_by_key(|group| (std::cmp::Reverse(self.groups[*group].weight), self.groups[*group].name));
        let mut chosen = Vec::new();
        let mut clusters = 0;
        // If the heaviest groups have too few clusters, larger groups replace the smallest.
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

/// Returns the constraint with defaults for missing bounds.
///
/// Differs from Karmada (D9): a constraint without a maximum has no upper bound, and its minimum is
/// at least one.
pub(super) fn bounded(context: &AttemptContext<'_>, constraint: &SpreadConstraint) -> SpreadConstraint {
    if !context.profile.deviates() {
        return constraint.clone();
    }
    let max = if constraint.max <= 0 { i64::MAX } else { constraint.max };
    SpreadConstraint { by: constraint.by.clone(), min: constraint.min.max(1), max }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates every combination in upstream's order, and chooses as upstream does.
    fn one_by_one(groups: &[Group<'_>], min: usize, max: usize, needed: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|group| (groups[*group].size, std::cmp::Reverse(groups[*group].weight), groups[*group].name));
        let mut found = Vec::new();
        walk(groups, &order, (min, max, needed), 0, &mut Vec::new(), &mut found);
        let value = |path: &Vec<usize>| {
            let sum = |of: fn(&Group<'_>) -> i64| path.iter().map(|group| of(&groups[*group])).sum::<i64>();
            (sum(|group| group.weight), sum(|group| group.size as i64))
        };
        for path in &mut found {
            path.sort_by_key(|group: &usize| (std::cmp::Reverse(groups[*group].weight), groups[*group].name));
        }
        found.sort_by_key(|path| std::cmp::Reverse(value(path)));
        let shorter = |best: Vec<usize>, path: &Vec<usize>| {
            if path.len() < best.len() && best.starts_with(path) { path.clone() } else { best }
        };
        let Some((first, rest)) = found.split_first() else { return Vec::new() };
        rest.iter().fold(first.clone(), shorter)
    }

    fn walk(
        groups: &[Group<'_>],
        order: &[usize],
        bounds: (usize, usize, usize),
        from: usize,
        path: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        let (min, max, needed) = bounds;
        let total: usize = path.iter().map(|group| groups[*group].size).sum();
        if total >= needed && (min..=max).contains(&path.len()) {
            found.push(path.clone());
            return;
        }
        if path.len() >= max {
            return;
        }
        for position in from..order.len() {
            path.push(order[position]);
            walk(groups, order, bounds, position + 1, path, found);
            path.pop();
        }
    }

    proptest! {
        #[test]
        fn the_search_finds_what_trying_everything_finds(
            sizes in prop::collection::vec((1_usize..6, 0_i64..5), 0..8),
            min in 1_usize..5,
            max in 0_usize..6,
            needed in 0_usize..14,
        ) {
            const NAMES: [&str; 8] = ["h", "b", "e", "a", "g", "c", "f", "d"];
            let group = |((size, weight), name): (&(usize, i64), _)| Group { name, start: 0, size: *size, weight: *weight };
            let groups: Vec<Group<'_>> = sizes.iter().zip(NAMES).map(group).collect();
            let expected = one_by_one(&groups, min, max, needed);
            prop_assert_eq!(choose_groups(&groups, min as i64, max as i64, needed as i64), expected);
        }
    }
}
