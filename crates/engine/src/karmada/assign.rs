//! Divides the replicas of a workload among the selected clusters.
//!
//! A Steady division keeps the current replicas, and divides only the difference. A Fresh division
//! starts from scratch, and counts the capacity that the workload itself uses as free. The order of
//! the binding's targets matters in one case: Aggregated scales down among clusters that have
//! equally many replicas.

use super::candidate::Candidate;
use super::filters::AttemptContext;
use super::placement::{Division, Weight};
use super::request::{Mode, Target};
use super::specified;
use crate::bits::Bits;
use crate::webster::{self, Party};

/// Why replicas cannot be assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// There is too little capacity. This may change.
    Capacity(String),
    /// The division that the placement specifies is impossible.
    Impossible(String),
}

/// Buffers that are reused from one binding to the next.
#[derive(Default)]
pub(super) struct Scratch {
    parties: Vec<Party>,
    order: Vec<u32>,
}

pub(super) struct Assigner<'a, 'b> {
    pub context: &'b AttemptContext<'a>,
    /// For a static or specified division: the clusters that each entry selects, and the entry's
    /// weight or replicas.
    pub weighted: &'b [(Bits, i64)],
    pub scratch: &'b mut Scratch,
}

impl Assigner<'_, '_> {
    /// Returns the targets, sorted by name. Clusters without replicas are omitted.
    pub fn assign(&mut self, candidates: &mut [Candidate]) -> Result<Vec<Target>, Shortage> {
        let request = self.context.request;
        if !request.is_divisible() {
            // There is nothing to divide: each cluster gets the whole object.
            return Ok(self.everywhere(candidates, 0));
        }
        let replicas = i64::from(request.replicas.max(0));
        // Only a division by capacity can overflow. Admission allows overflow tiers nowhere else.
        let by_capacity = matches!(self.context.placement.division, Division::Dynamic | Division::Aggregated);
        if by_capacity && self.context.affinity().is_some_and(|(_, overflow)| !overflow.is_empty()) {
            // Differs from Karmada (D65), where one more replica returns all replicas to the first
            // tiers.
            return if self.context.profile.deviates() && self.context.mode == Mode::Steady {
                self.beside_what_is_there(candidates, replicas)
            } else {
                self.tier_by_tier(candidates, replicas)
            };
        }
        self.divide(candidates, replicas)
    }

    /// Fills the tiers in order. Each tier takes as many replicas as fit, and the next tier takes
    /// the rest.
    fn tier_by_tier(&mut self, candidates: &mut [Candidate], replicas: i64) -> Result<Vec<Target>, Shortage> {
        candidates.sort_unstable_by_key(|candidate| (candidate.tier, candidate.rank));
        let mut targets = Vec::new();
        let mut remaining = replicas;
        let mut rest = candidates;
        while let Some(first) = rest.first() {
            let tier = first.tier;
            let end = rest.partition_point(|candidate| candidate.tier == tier);
            let (members, others) = rest.split_at_mut(end);
            rest = others;
            let capacity: i64 = members.iter().map(Candidate::available).sum();
            let share = remaining.min(capacity);
            if share > 0 {
                targets.append(&mut self.divide(members, share)?);
            }
            remaining -= share;
        }
        if remaining > 0 {
            return Err(Shortage::Capacity("Clusters available replicas are not enough to schedule.".to_owned()));
        }
        targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    /// Keeps the replicas of each tier. Additional replicas go to the first tiers with capacity for
    /// them, and surplus replicas leave the last tiers.
    fn beside_what_is_there(&mut self, candidates: &mut [Candidate], replicas: i64) -> Result<Vec<Target>, Shortage> {
        let aggregated = self.context.placement.division == Division::Aggregated;
        candidates.sort_unstable_by_key(|candidate| (candidate.tier, candidate.rank));
        let held: i64 = self.still_there(candidates).iter().map(|(_, held)| held.max(&0)).sum();
        let (mut more, mut kept) = ((replicas - held).max(0), replicas.min(held));
        let mut targets = Vec::new();
        for members in candidates.chunk_by_mut(|a, b| a.tier == b.tier) {
            let there = self.still_there(members);
            let here: i64 = there.iter().map(|(_, held)| held.max(&0)).sum();
            if kept < here {
                targets.append(&mut self.shrink(&there, kept, aggregated)?);
                kept = 0;
                continue;
            }
            kept -= here;
            let free = |candidate: &Candidate| i64::from(candidate.free);
            let share = more.min(members.iter().map(free).sum());
            more -= share;
            let filled = self.fill(members, share, free, aggregated, &there);
            targets.append(&mut filled.map_err(|capacity| short("failed to scale up", capacity))?);
        }
        if more > 0 {
            return Err(Shortage::Capacity("Clusters available replicas are not enough to schedule.".to_owned()));
        }
        targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    fn divide(&mut self, candidates: &mut [Candidate], replicas: i64) -> Result<Vec<Target>, Shortage> {
        match &self.context.placement.division {
            Division::Duplicated => Ok(match replicas {
                // Differs from Karmada (D64): there a workload of no replicas loses all clusters.
                0 if !self.context.profile.deviates() => Vec::new(),
                _ => self.everywhere(candidates, self.context.request.replicas.max(0)),
            }),
            Division::Static(weights) => self.by_weight(candidates, replicas, weights.as_deref()),
            Division::Dynamic => self.by_capacity(candidates, replicas, false),
            Division::Aggregated => self.by_capacity(candidates, replicas, true),
            Division::Specified(None) => self.by_weight(candidates, replicas, None),
            Division::Specified(Some(_)) => self.as_specified(candidates),
            Division::Together(_) => self.together(candidates, replicas),
            Division::Unsupported { scheduling_type, preference } => Err(Shortage::Impossible(format!(
                "unsupported replica scheduling strategy, replicaSchedulingType: {scheduling_type}, \
                 replicaDivisionPreference: {preference}, please try another scheduling strategy"
            ))),
        }
    }

    fn everywhere(&self, candidates: &mut [Candidate], replicas: i32) -> Vec<Target> {
        candidates.sort_unstable_by_key(|candidate| candidate.rank);
        candidates.iter().map(|candidate| self.target(candidate.rank, replicas)).collect()
    }

    /// Divides by weight. The weight of a cluster is the largest that any rule gives it. If no
    /// cluster has a weight, all weights are equal. A closed cluster keeps at most its current
    /// replicas; the rest of its share goes to the others.
    fn by_weight(
        &mut self,
        candidates: &[Candidate],
        replicas: i64,
        weights: Option<&[Weight]>,
    ) -> Result<Vec<Target>, Shortage> {
        let weight_of = |candidate: &Candidate| {
            let applying = self.weighted.iter().filter(|(indexes, _)| indexes.contains(candidate.index()));
            applying.map(|(_, weight)| *weight).max().unwrap_or(0).max(0) as u64
        };
        let parties = &mut self.scratch.parties;
        parties.clear();
        if weights.is_some() {
            let weighed = candidates.iter().map(|candidate| (candidate, weight_of(candidate)));
            let weighed = weighed.filter(|(_, weight)| *weight > 0);
            parties.extend(weighed.map(|(candidate, weight)| party(candidate, weight)));
        }
        if parties.is_empty() {
            parties.extend(candidates.iter().map(|candidate| party(candidate, 1)));
        }
        let left = self.seat_within(candidates, replicas);
        let held: i64 = candidates.iter().map(|candidate| i64::from(candidate.own.max(0))).sum();
        if self.keeps_divided() && held > 0 && (left == 0 || replicas <= held) {
            self.approach(candidates, replicas, held);
        } else if left > 0 {
            return Err(short("failed to scale up", 0));
        }
        Ok(self.collect(&[]))
    }

    /// Seats `replicas` among the parties. A closed cluster gets at most its current replicas, and
    /// the others share the rest; if no party takes it, the other candidates do, in equal parts.
    /// Returns the number that no candidate takes.
    fn seat_within(&mut self, candidates: &[Candidate], replicas: i64) -> i64 {
        let mut most: Vec<(u32, i64)> = candidates
            .iter()
            .filter(|candidate| candidate.is_closed)
            .map(|candidate| (candidate.rank, i64::from(candidate.own.max(0))))
            .collect();
        if most.is_empty() {
            self.seat(replicas);
            return 0;
        }
        most.sort_unstable();
        let is_over = |party: &Party| {
            let at = most.binary_search_by_key(&party.id, |(rank, _)| *rank).ok();
            at.map(|at| most[at].1).filter(|most| i64::from(party.seats) > *most)
        };
        let mut parties = std::mem::take(&mut self.scratch.parties);
        parties.sort_unstable_by_key(|party| party.id);
        let is_party = |candidate: &Candidate| parties.binary_search_by_key(&candidate.rank, |it| it.id).is_ok();
        let others = candidates.iter().filter(|candidate| !is_party(candidate)).map(|candidate| party(candidate, 1));
        let others: Vec<Party> = others.collect();
        let (mut seated, mut left) = (Vec::new(), replicas);
        for mut parties in [parties, others] {
            while left > 0 && !parties.is_empty() {
                self.scratch.parties.clone_from(&parties);
                self.seat(left);
                let over: Vec<Party> = self
                    .scratch
                    .parties
                    .iter()
                    .filter_map(|party| Some(Party { seats: is_over(party)? as u32, ..*party }))
                    .collect();
                if over.is_empty() {
                    left = 0;
                    seated.append(&mut self.scratch.parties);
                    break;
                }
                // Without these, the others get no fewer seats than before.
                let is_over = |party: &Party| over.iter().any(|over| over.id == party.id);
                parties.retain(|party| !is_over(party));
                left -= over.iter().map(|party| i64::from(party.seats)).sum::<i64>();
                seated.extend(over);
            }
        }
        seated.retain(|party| party.seats > 0);
        self.scratch.parties = seated;
        left
    }

    /// Returns whether this pass keeps replicas that were divided by weight.
    ///
    /// Differs from Karmada (D67), where each pass divides all replicas again.
    fn keeps_divided(&self) -> bool {
        let AttemptContext { profile, request, placement, mode, .. } = *self.context;
        let by_weight = matches!(placement.division, Division::Static(_));
        profile.deviates() && by_weight && mode == Mode::Steady && !request.placement_changed
    }

    /// Moves the current division towards the seats of the parties, with as few changes as the
    /// number of replicas allows.
    fn approach(&mut self, candidates: &[Candidate], replicas: i64, held: i64) {
        let grows = replicas >= held;
        let parties = &mut self.scratch.parties;
        parties.sort_unstable_by_key(|party| party.id);
        let aim = |rank: u32, parties: &[Party]| {
            parties.binary_search_by_key(&rank, |party| party.id).map_or(0, |at| i64::from(parties[at].seats))
        };
        // A candidate's votes are its distance from its target seats.
        let distance = |candidate: &Candidate| {
            let above = i64::from(candidate.own.max(0)) - aim(candidate.rank, parties);
            (if grows { -above } else { above }).max(0) as u64
        };
        let changes: Vec<Party> =
            candidates.iter().map(|candidate| party(candidate, distance(candidate))).filter(|p| p.votes > 0).collect();
        *parties = changes;
        self.seat((replicas - held).abs());
        let parties = &mut self.scratch.parties;
        parties.sort_unstable_by_key(|party| party.id);
        let result = candidates.iter().map(|candidate| {
            let change = aim(candidate.rank, parties);
            let held = i64::from(candidate.own.max(0));
            let seats = if grows { held + change } else { held - change };
            Party { seats: u32::try_from(seats).unwrap_or(0), ..party(candidate, 0) }
        });
        let result: Vec<Party> = result.filter(|party| party.seats > 0).collect();
        self.scratch.parties = result;
    }

    /// Divides as the entries specify. Here the numbers in `weighted` are replicas.
    fn as_specified(&mut self, candidates: &[Candidate]) -> Result<Vec<Target>, Shortage> {
        let entries = self.weighted.iter().map(|(selected, replicas)| (selected, *replicas));
        let divided = specified::divide(entries, candidates, self.context.mode).map_err(|entry| {
            let replicas = self.weighted[entry].1;
            Shortage::Capacity(format!("no cluster can take the {replicas} replicas of staticSpecifyList[{entry}]"))
        })?;
        self.scratch.parties.clear();
        Ok(self.collect(&divided))
    }

    /// Divides the workload's replicas as one entry for all listed clusters.
    fn together(&mut self, candidates: &[Candidate], replicas: i64) -> Result<Vec<Target>, Shortage> {
        let entries = self.weighted.iter().map(|(selected, _)| (selected, replicas));
        let divided = specified::divide(entries, candidates, self.context.mode).map_err(|_| {
            Shortage::Capacity(format!("no cluster of extendStaticList can take the {replicas} replicas"))
        })?;
        self.scratch.parties.clear();
        Ok(self.collect(&divided))
    }

    fn by_capacity(
        &mut self,
        candidates: &mut [Candidate],
        replicas: i64,
        aggregated: bool,
    ) -> Result<Vec<Target>, Shortage> {
        if self.context.mode == Mode::Fresh {
            let fresh = |candidate: &Candidate| candidate.available();
            return self
                .fill(candidates, replicas, fresh, aggregated, &[])
                .map_err(|capacity| short("failed to do fresh scale", capacity));
        }
        let there = self.still_there(candidates);
        let assigned: i64 = there.iter().map(|(_, replicas)| replicas).sum();
        if assigned > replicas {
            return self.shrink(&there, replicas, aggregated);
        }
        if assigned == replicas {
            self.scratch.parties.clear();
            return Ok(self.collect(&there));
        }
        let free = |candidate: &Candidate| i64::from(candidate.free);
        self.fill(candidates, replicas - assigned, free, aggregated, &there)
            .map_err(|capacity| short("failed to scale up", capacity))
    }

    /// Returns the targets that are still candidates, as rank and replicas, in the binding's order.
    fn still_there(&mut self, candidates: &[Candidate]) -> Vec<(u32, i64)> {
        let fleet = self.context.fleet;
        let targets = &self.context.request.targets;
        let mut there = Vec::with_capacity(targets.len());
        for target in targets {
            let Some(index) = fleet.index_of(&target.name) else { continue };
            if candidates.iter().any(|candidate| candidate.index() == index) {
                there.push((fleet.rank(index), i64::from(target.replicas)));
            }
        }
        there
    }

    /// Divides `replicas` in proportion to `capacity`, on top of the replicas in `there`.
    ///
    /// The error is the total capacity, which is too little.
    fn fill(
        &mut self,
        candidates: &mut [Candidate],
        replicas: i64,
        capacity: impl Fn(&Candidate) -> i64,
        aggregated: bool,
        there: &[(u32, i64)],
    ) -> Result<Vec<Target>, i64> {
        let total: i64 = candidates.iter().map(&capacity).sum();
        if total < replicas {
            return Err(total);
        }
        let used = if aggregated { self.fewest(candidates, replicas, &capacity, there) } else { candidates.len() };
        let parties = &mut self.scratch.parties;
        parties.clear();
        let with_capacity = candidates[..used].iter().map(|candidate| (candidate, capacity(candidate)));
        let with_capacity = with_capacity.filter(|(_, capacity)| *capacity > 0);
        parties.extend(with_capacity.map(|(candidate, capacity)| party(candidate, capacity as u64)));
        self.seat(replicas);
        Ok(self.collect(there))
    }

    /// Finds the fewest clusters that have capacity for `replicas`, and moves them to the front.
    /// Clusters that run the workload already come first. Returns the number of these clusters.
    fn fewest(
        &mut self,
        candidates: &mut [Candidate],
        replicas: i64,
        capacity: &impl Fn(&Candidate) -> i64,
        there: &[(u32, i64)],
    ) -> usize {
        /// A few clusters are usually enough. Then the rest need not be sorted.
        const LIKELY: usize = 32;
        let is_there = |candidate: &Candidate| there.iter().any(|(rank, held)| *rank == candidate.rank && *held > 0);
        let by_preference = |a: &Candidate, b: &Candidate| {
            let key = |candidate: &Candidate| (is_there(candidate), capacity(candidate), candidate.standing);
            key(b).cmp(&key(a))
        };
        let prefix = |candidates: &[Candidate]| {
            let mut sum = 0;
            let enough = |candidate: &Candidate| {
                sum += capacity(candidate);
                sum >= replicas
            };
            candidates.iter().position(enough).map(|position| position + 1)
        };
        if candidates.len() > LIKELY {
            candidates.select_nth_unstable_by(LIKELY - 1, by_preference);
            candidates[..LIKELY].sort_unstable_by(by_preference);
            if let Some(used) = prefix(&candidates[..LIKELY]) {
                return used;
            }
        }
        candidates.sort_unstable_by(by_preference);
        prefix(candidates).unwrap_or(candidates.len())
    }

    /// Scales down to `replicas`, in proportion to the current replicas.
    fn shrink(&mut self, there: &[(u32, i64)], replicas: i64, aggregated: bool) -> Result<Vec<Target>, Shortage> {
        let Scratch { parties, order } = &mut *self.scratch;
        order.clear();
        order.extend(0..there.len() as u32);
        if aggregated {
            order.sort_by_key(|index| std::cmp::Reverse(there[*index as usize].1));
            let mut sum = 0;
            let enough = |index: &u32| {
                sum += there[*index as usize].1;
                sum >= replicas
            };
            let used = order.iter().position(enough).map_or(order.len(), |position| position + 1);
            order.truncate(used);
        }
        parties.clear();
        let held = order.iter().map(|index| there[*index as usize]).filter(|(_, held)| *held > 0);
        parties.extend(held.map(|(rank, held)| Party { id: rank, order: rank, votes: held as u64, seats: 0 }));
        self.seat(replicas);
        Ok(self.collect(&[]))
    }

    /// Seats `replicas` among the parties. Equal parties are ordered by name, ascending or
    /// descending. The workload's uid decides which, so that the odd replicas of many workloads do
    /// not all end up on the same clusters.
    ///
    /// Differs from Karmada (D66): the uid decides the whole order, so that each of many equal
    /// clusters gets odd replicas.
    fn seat(&mut self, replicas: i64) {
        let uid = &self.context.request.resource.uid;
        if self.context.profile.deviates() && !self.context.request.paused.is_empty() {
            self.order_paused_last(fnv_1a(uid));
        } else if !uid.is_empty() && self.context.profile.deviates() {
            let hash = fnv_1a(uid);
            self.scratch.parties.iter_mut().for_each(|party| party.order = shuffled(party.order ^ hash));
        } else if !uid.is_empty() && fnv_1a(uid) % 2 == 1 {
            self.scratch.parties.iter_mut().for_each(|party| party.order = u32::MAX - party.order);
        }
        webster::divide(u32::try_from(replicas).unwrap_or(0), &mut self.scratch.parties);
    }

    /// Orders parties in paused clusters after equal parties in other clusters.
    ///
    /// Differs from Karmada (D86).
    fn order_paused_last(&mut self, hash: u32) {
        let (fleet, paused) = (self.context.fleet, &self.context.request.paused);
        let is_paused = |rank: u32| {
            let name = &fleet.cluster(fleet.index_at(rank)).name;
            paused.iter().any(|paused| **paused == **name)
        };
        let parties = &mut self.scratch.parties;
        parties.sort_by_cached_key(|party| (is_paused(party.id), shuffled(party.order ^ hash)));
        parties.iter_mut().zip(0..).for_each(|(party, order)| party.order = order);
    }

    /// Returns the targets: the seats of the parties plus the replicas in `there`.
    fn collect(&mut self, there: &[(u32, i64)]) -> Vec<Target> {
        let Scratch { parties, .. } = &mut *self.scratch;
        let held = there.iter().filter(|(_, held)| *held > 0);
        parties.extend(held.map(|(rank, held)| Party { id: *rank, order: 0, votes: 0, seats: *held as u32 }));
        parties.sort_unstable_by_key(|party| party.id);
        let count = parties.chunk_by(|a, b| a.id == b.id).count();
        let mut targets = Vec::with_capacity(count);
        for same in self.scratch.parties.chunk_by(|a, b| a.id == b.id) {
            let replicas: i64 = same.iter().map(|party| i64::from(party.seats)).sum();
            targets.push(self.target(same[0].id, i32::try_from(replicas).unwrap_or(i32::MAX)));
        }
        targets
    }

    fn target(&self, rank: u32, replicas: i32) -> Target {
        let cluster = self.context.fleet.cluster(self.context.fleet.index_at(rank));
        Target { name: cluster.name.clone(), replicas, components: Vec::new() }
    }
}

fn party(candidate: &Candidate, votes: u64) -> Party {
    Party { id: candidate.rank, order: candidate.rank, votes, seats: 0 }
}

fn short(doing: &str, capacity: i64) -> Shortage {
    Shortage::Capacity(format!("{doing}: Clusters available replicas {capacity} are not enough to schedule."))
}

/// Returns the order of a cluster among equals, for the workload with this uid.
pub(super) fn order(uid: &str, rank: u32) -> u32 {
    if uid.is_empty() { rank } else { shuffled(rank ^ fnv_1a(uid)) }
}

/// Maps each number to another. Each step is invertible, so no two numbers collide.
fn shuffled(mut number: u32) -> u32 {
    for factor in [0x7feb_352d, 0x846c_a68b] {
        number ^= number >> 16;
        number = number.wrapping_mul(factor);
    }
    number ^ (number >> 16)
}

fn fnv_1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
