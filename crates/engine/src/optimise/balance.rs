//! The goal Balance: uses the sites evenly. Lowers the maximum level of all sites step by step,
//! starting from the current placement.
//!
//! At each level, replicas leave the sites above it, the largest first, for the least used sites.
//! If no site below the level is in reach, sites pass replicas on to others, displace replicas
//! there, or follow a minimum-cost flow over all sites. Shorter steps follow a step that fails.
//!
//! A site that cannot be lowered does not keep the others uneven: it is set aside at its level, and
//! the search continues with the rest.

mod chains;
mod stages;
mod steering;

use std::rc::Rc;

use super::bound::{self, Exits, is_counted, need};
use super::problem::Outcome;
use super::state::{State, share};
use super::worth::{Checkpoint, is_enough};

/// Number of steps from the current level to the bound. Defines the resolution of `worth`.
const LEVELS: u32 = 24;
/// Maximum number of times a step is halved. Steps that fail take the longest.
const HALVINGS_MAX: u32 = 7;
/// Difference below which levels are equal: a tenth of the resolution that users see.
const LEVEL_MIN: f64 = 1e-5;
/// Distance from the bound below which no flow is computed: whole replicas are too coarse there.
const NEAR: f64 = 0.005;
/// Maximum number of times that sites are set aside, and of searches. Each search takes as long as
/// the first.
const STAGES_MAX: usize = 64;
const SEARCHES_MAX: usize = 12;
/// Maximum number of sites in a chain of displaced replicas.
const CHAIN_MAX: usize = 3;
/// Maximum number of attempts to displace replicas per level, plus a number per site. Each attempt
/// visits all items of a site.
const ATTEMPTS_MAX: usize = 200;
const ATTEMPTS_OF_SITE: usize = 2;
/// Maximum number of paths over other sites that are tried per level, plus a number per site.
const TRIES_MAX: usize = 400;
const TRIES_OF_SITE: usize = 8;
/// Maximum number of sites tried for an item if its rules refuse some.
const REFUSALS_MAX: usize = 40;

/// Relative rounding error of sums of binary fractions.
const ROUNDING: f64 = 1e-12;

/// The result of one stage of the search.
struct Stage {
    /// Whether moves were kept.
    has_moved: bool,
    /// Whether the search found moves that were not kept because they gain too little.
    has_left_moves: bool,
    /// Whether the tolerance is the reason that no move was kept.
    is_within_tolerance: bool,
    price: f64,
}

/// The sites set aside, the bound and the figure when a stage began.
struct Shown {
    aside: Vec<Option<f64>>,
    bound: f64,
    figure: f64,
}

/// Evens out the sites in stages. Each stage lowers the fullest counted site as far as possible and
/// then sets aside the sites that hold it up. The figures are those of the first stage with a gain.
pub(super) fn solve(state: &mut State<'_, '_>) -> Outcome {
    set_pinned_aside(state);
    let (start, earlier) = (state.mark(), state.problem.price);
    let exits = Exits::new(state);
    let mut search = Search::new(state, exits);
    let (mut shown, mut prices) = (None, Vec::new());
    let (mut is_within_tolerance, mut searches) = (false, 0);
    for number in 0..STAGES_MAX {
        let least = if number == 0 { LEVEL_MIN } else { search.least_gain() };
        let top = level(search.state);
        if number > 0 {
            if !search.may_gain(top, least) {
                break;
            }
            search.exits = Exits::new(search.state);
        }
        let bottom = bound::level(search.state, &search.exits);
        let may_gain = top - bottom > least;
        let is_searched = may_gain && is_enough(search.state, top - bottom) && searches < SEARCHES_MAX;
        let now = Shown::new(search.state, bottom);
        let stage = if is_searched {
            searches += 1;
            search.stage(top, bottom)
        } else {
            let is_within_tolerance = may_gain && !is_enough(search.state, top - bottom);
            Stage { has_moved: false, has_left_moves: is_within_tolerance, is_within_tolerance, price: earlier }
        };
        is_within_tolerance |= stage.is_within_tolerance;
        if stage.has_moved && prices.is_empty() || shown.is_none() {
            shown = Some(now);
        }
        prices.extend(stage.has_moved.then_some(stage.price));
        if search.state.is_budget_used() || !search.set_aside(bottom, &stage) {
            break;
        }
    }
    let shown = shown.expect("there is a first stage");
    search.tidy_up();
    let state = search.state;
    let last = state.replace_aside(shown.aside);
    let is_gain_small = !is_enough(state, shown.figure - figure(state, |site| state.peak(site)));
    if is_gain_small && state.problem.tolerance > 0.0 && !prices.is_empty() {
        state.replace_aside(last);
        state.undo(start);
        (is_within_tolerance, prices) = (true, Vec::new());
    }
    let before = figure(state, |site| {
        let used = &state.problem.sites[site as usize].used;
        let shares = (0..state.resources()).map(|resource| (used.get(resource), state.has(site, resource)));
        shares.map(|(used, has)| share(used.copied().unwrap_or_default(), has)).fold(0.0, f64::max)
    });
    let mut unrelieved: Vec<u32> = state.sites().filter(|site| !state.is_open(*site)).collect();
    unrelieved.sort_by(|one, other| state.peak(*other).total_cmp(&state.peak(*one)).then(one.cmp(other)));
    Outcome {
        before,
        after: figure(state, |site| state.peak(site)),
        bound: shown.bound,
        price: prices.iter().copied().reduce(f64::min).unwrap_or(earlier),
        is_within_tolerance: is_within_tolerance && prices.is_empty(),
        unrelieved,
    }
}

/// Sets aside the fullest sites at their level if their immovable load alone keeps them there. If
/// this applies to all sites, none is set aside.
fn set_pinned_aside(state: &mut State<'_, '_>) {
    let mut sites: Vec<u32> = state.sites().filter(|site| is_counted(state, *site)).collect();
    sites.sort_by(|one, other| state.peak(*other).total_cmp(&state.peak(*one)).then(one.cmp(other)));
    let is_pinned = |site: &&u32| state.peak(**site) - bound::floor_of(state, **site) <= LEVEL_MIN;
    let pinned: Vec<u32> = sites.iter().take_while(is_pinned).copied().collect();
    if pinned.len() < sites.len() {
        pinned.into_iter().for_each(|site| state.set_aside(site, state.peak(site)));
    }
}

impl Shown {
    /// Records the present state. `bottom` is the minimum level of the fullest counted site.
    fn new(state: &State<'_, '_>, bottom: f64) -> Shown {
        let mean = if state.resources() == 1 { mean(state) } else { bound::largest_mean(state) };
        let figure = figure(state, |site| state.peak(site));
        Shown { aside: state.aside().to_vec(), bound: (bottom - mean).max(0.0), figure }
    }
}

fn checkpoint(state: &State<'_, '_>) -> Checkpoint {
    let figure = figure(state, |site| state.peak(site));
    Checkpoint { mark: state.mark(), figure, moved: state.moved() }
}

fn level(state: &State<'_, '_>) -> f64 {
    state.sites().filter(|site| state.is_open(*site)).map(|site| state.peak(site)).fold(0.0, f64::max)
}

/// Returns total use as a share of total capacity. No plan changes it.
fn mean(state: &State<'_, '_>) -> f64 {
    let counted = state.sites().filter(|site| state.is_open(*site) && state.has(*site, 0) > 0);
    let (load, has) = counted.fold((0_i128, 0_i128), |(load, has), site| {
        (load + i128::from(state.load(site, 0)), has + i128::from(state.has(site, 0)))
    });
    if has == 0 { 0.0 } else { load as f64 / has as f64 }
}

fn figure(state: &State<'_, '_>, peak: impl Fn(u32) -> f64) -> f64 {
    let peaks: Vec<f64> = state.sites().filter(|site| is_counted(state, *site)).map(peak).collect();
    let top = peaks.iter().copied().fold(0.0, f64::max);
    let mean = match state.resources() {
        1 => mean(state),
        _ => peaks.iter().sum::<f64>() / peaks.len().max(1) as f64,
    };
    (top - mean).max(0.0)
}

/// The largest capacity below the level on any site of a choice.
#[derive(Clone, Default)]
struct Room {
    /// The search's version when `most` was computed. Within a version, capacity only shrinks.
    version: u64,
    most: Vec<i64>,
}

/// The search and its caches.
struct Search<'s, 'p, 'r> {
    state: &'s mut State<'p, 'r>,
    exits: Exits,
    /// Items initially on a site that need a resource, the largest first, by site and resource.
    first: Vec<Option<Rc<[u32]>>>,
    level: f64,
    /// Maximum use at the level, and the use up to which sites are filled first, by site and
    /// resource.
    most: Vec<i64>,
    fill: Vec<i64>,
    /// Largest capacity below the level, by choice.
    rooms: Vec<Room>,
    /// Incremented whenever a site may have gained capacity.
    version: u64,
    /// The sites from which replicas reach a site below the level over at most so many other sites,
    /// by that number. Empty: not computed yet.
    near: Vec<Vec<bool>>,
    attempts: usize,
    /// Whether the level was reached without a path over other sites.
    is_direct: bool,
    /// Whether the placement follows a flow.
    is_steered: bool,
    /// Initial use of each site, and, once computed, the kinds of items that a flow can move.
    first_loads: Vec<i64>,
    kinds: Option<Rc<[steering::Kind]>>,
    /// Remaining number of paths over other sites that are tried at this level.
    tries: usize,
}

impl<'s, 'p, 'r> Search<'s, 'p, 'r> {
    fn new(state: &'s mut State<'p, 'r>, exits: Exits) -> Search<'s, 'p, 'r> {
        Search {
            exits,
            first: vec![None; state.problem.sites.len() * state.resources()],
            level: f64::INFINITY,
            most: Vec::new(),
            fill: Vec::new(),
            rooms: vec![Room::default(); state.problem.choices.len()],
            version: 0,
            near: Vec::new(),
            attempts: 0,
            is_direct: true,
            is_steered: false,
            first_loads: state
                .sites()
                .map(|site| if state.resources() == 0 { 0 } else { state.load(site, 0) })
                .collect(),
            kinds: None,
            tries: 0,
            state,
        }
    }

    /// Lowers the level step by step. A shorter step can succeed where a longer one failed: fewer
    /// sites are above its level, so each gets more of the attempts.
    fn descend(&mut self, top: f64, bottom: f64, points: &mut Vec<Checkpoint>) {
        self.fill = self.at(bottom);
        let mut reached = top;
        let mut step = (top - bottom) / f64::from(LEVELS);
        let (mut halvings, mut has_bottom_failed) = (0, false);
        while halvings < HALVINGS_MAX && step >= LEVEL_MIN && reached - bottom >= LEVEL_MIN {
            // The sum of the steps differs slightly from the bottom.
            let is_last = reached - step - bottom < LEVEL_MIN;
            if is_last && has_bottom_failed {
                // The bound may be unreachable.
                (step, halvings) = ((reached - bottom) / 2.0, halvings + 1);
            }
            let wanted = if is_last && !has_bottom_failed { bottom } else { reached - step };
            if self.reach(wanted, bottom) {
                reached = wanted;
                points.push(checkpoint(self.state));
            } else {
                (step, halvings) = (step / 2.0, halvings + 1);
                has_bottom_failed |= is_last;
            }
        }
    }

    /// Makes the moves that reach the level, or none. If paths over other sites take too many
    /// moves, a flow defines the placement.
    fn reach(&mut self, level: f64, bottom: f64) -> bool {
        let mark = self.state.mark();
        let is_reached = !self.is_steered && self.lower(level);
        if is_reached && (self.is_direct || !self.moves_too_many()) {
            return true;
        }
        self.undo(mark);
        if self.is_steered || level - bottom > NEAR {
            // Whole replicas may not reach the level of a flow, so the second flow is for a lower
            // one.
            for aim in [level, f64::midpoint(level, bottom)] {
                self.is_steered = self.steer(aim);
                if self.is_steered && self.lower(level) {
                    return true;
                }
                self.undo(mark);
            }
        }
        is_reached && self.lower(level)
    }

    fn undo(&mut self, mark: usize) {
        self.state.undo(mark);
        self.version += 1;
    }

    fn apply(&mut self, item: u32, from: u32, to: u32, replicas: i64) {
        self.state.apply(item, from, to, replicas);
        if let Some(choice) = self.state.item(item).choice {
            self.exits.open(to, choice);
        }
        if self.state.peak(from) <= self.level {
            self.version += 1;
        }
    }

    /// Returns the maximum use at the level, by site and resource. Sites that are set aside keep
    /// their own level.
    fn at(&self, level: f64) -> Vec<i64> {
        let resources = 0..self.state.resources();
        let of = |site| resources.clone().map(move |resource| (site, resource));
        let all = self.state.sites().flat_map(of);
        let level = |site| self.state.level_aside(site).unwrap_or(level);
        all.map(|(site, resource)| below(level(site), self.state.has(site, resource))).collect()
    }

    fn set_level(&mut self, level: f64) {
        self.most = self.at(level);
        self.level = level;
        self.version += 1;
        self.near.clear();
    }

    /// Brings all sites to the level or below. Receiving sites are filled up to `fill` first.
    fn lower(&mut self, level: f64) -> bool {
        self.set_level(level);
        self.is_direct = true;
        self.reset_attempts();
        self.above().into_iter().all(|site| self.shed(site, CHAIN_MAX))
    }

    /// Returns the sites above their level, the fullest first.
    fn above(&self) -> Vec<u32> {
        let is_above = |site: &u32| {
            let level = self.state.level_aside(*site).unwrap_or(self.level);
            self.state.peak(*site) > level * (1.0 + ROUNDING)
        };
        let mut above: Vec<u32> = self.state.sites().filter(is_above).collect();
        let peak = |site: &u32| self.state.peak(*site);
        above.sort_by(|one, other| peak(other).total_cmp(&peak(one)).then(one.cmp(other)));
        above
    }

    fn reset_attempts(&mut self) {
        self.attempts = ATTEMPTS_MAX + ATTEMPTS_OF_SITE * self.state.problem.sites.len();
        self.tries = TRIES_MAX + TRIES_OF_SITE * self.state.problem.sites.len();
    }

    fn room(&self, limit: &[i64], site: u32, resource: usize) -> i64 {
        limit[site as usize * self.state.resources() + resource].saturating_sub(self.state.load(site, resource))
    }

    /// Returns the resource that exceeds the level most, as a share of capacity, and the excess.
    fn excess(&self, site: u32) -> Option<(usize, i64)> {
        let known = (0..self.state.resources()).filter(|resource| self.state.has(site, *resource) > 0);
        let above = known.map(|resource| {
            let (load, has) = (self.state.load(site, resource), self.state.has(site, resource));
            (share(load, has), resource, -self.room(&self.most, site, resource))
        });
        let above = above.filter(|(_, _, more)| *more > 0);
        let most = above.max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
        most.map(|(_, resource, more)| (resource, more))
    }

    /// Returns how many replicas of the item the site takes without exceeding the limit.
    fn headroom(&self, limit: &[i64], site: u32, item: u32) -> i64 {
        let fit = |(resource, amount): &(usize, i64)| self.room(limit, site, *resource) / *amount;
        self.state.item(item).needs.iter().map(fit).min().unwrap_or(0).max(0)
    }

    /// Returns the items on a site that need the resource: first arrivals, which are already
    /// counted as moved, then by size. Items that an earlier plan placed come last in both groups.
    fn leaving(&mut self, site: u32, resource: usize) -> Vec<u32> {
        let state = &*self.state;
        let sorted = |items: &mut dyn Iterator<Item = u32>| -> Vec<u32> {
            let key = |item| (state.item(item).is_placed, -need(state, item, resource), item);
            let mut items: Vec<(bool, i64, u32)> = items.map(key).filter(|(_, need, _)| *need < 0).collect();
            items.sort_unstable();
            items.into_iter().map(|(_, _, item)| item).collect()
        };
        let first = self.first[site as usize * state.resources() + resource].get_or_insert_with(|| {
            let at_first = |item: &u32| super::on(&state.item(*item).at, site) > 0;
            sorted(&mut state.holders(site).filter(at_first)).into()
        });
        let mut items = sorted(&mut state.arrivals(site));
        // An item that was on the site initially and of which more have arrived is listed twice:
        // its first try may have been too early.
        items.extend_from_slice(first);
        items
    }

    fn shed(&mut self, site: u32, depth: usize) -> bool {
        let mut mark = None;
        while let Some((resource, _)) = self.excess(site) {
            if mark.replace(self.state.mark()) == Some(self.state.mark()) {
                self.is_direct = false;
                let is_passed_on = depth == CHAIN_MAX && self.pass_on(site);
                return is_passed_on || (depth > 0 && self.make_room(site, depth));
            }
            for item in self.leaving(site, resource) {
                if self.may_have_room(item)
                    && self.state.movable(item, site) > 0
                    && !self.shed_item(site, item, resource)
                {
                    break;
                }
            }
        }
        true
    }

    /// Returns whether any site of the item's choice may have capacity for it.
    fn may_have_room(&self, item: u32) -> bool {
        let Some(choice) = self.state.item(item).choice else { return false };
        let room = &self.rooms[choice];
        let needs = &self.state.item(item).needs;
        room.version != self.version || needs.iter().all(|(resource, amount)| *amount <= room.most[*resource])
    }

    /// Caches the present capacity of the item's choice.
    fn look_for_room(&mut self, item: u32) {
        let Some(choice) = self.state.item(item).choice else { return };
        if self.rooms[choice].version == self.version {
            return;
        }
        let mut most = vec![i64::MIN; self.state.resources()];
        for site in self.state.choice(item) {
            for (resource, most) in most.iter_mut().enumerate() {
                *most = (*most).max(self.room(&self.most, *site, resource));
            }
        }
        self.rooms[choice] = Room { version: self.version, most };
    }

    /// Returns the least used site that the item may go to and that has capacity for a replica.
    fn receiver(&self, item: u32, site: u32, refused: &[u32]) -> Option<u32> {
        let needs = &self.state.item(item).needs;
        let mut best: Option<((bool, f64), u32)> = None;
        for to in self.state.choice(item).iter().copied() {
            let peak = (self.state.has_left(item, to), self.state.peak(to));
            let is_better = to != site && best.is_none_or(|(known, _)| peak < known);
            if is_better
                && needs.iter().all(|(resource, amount)| self.room(&self.most, to, *resource) >= *amount)
                && !refused.contains(&to)
            {
                best = Some((peak, to));
            }
        }
        best.map(|(_, to)| to)
    }

    /// Moves excess replicas of the item off the site. Returns whether an excess remains.
    fn shed_item(&mut self, site: u32, item: u32, resource: usize) -> bool {
        let each = need(self.state, item, resource).max(1);
        let mut refused: Vec<u32> = Vec::new();
        loop {
            let wanted = rounded_up((-self.room(&self.most, site, resource)).max(0), each);
            if wanted == 0 {
                return false;
            }
            if refused.len() >= REFUSALS_MAX || self.state.movable(item, site) <= 0 {
                return true;
            }
            let Some(to) = self.receiver(item, site, &refused) else {
                if refused.is_empty() {
                    self.look_for_room(item);
                }
                return true;
            };
            let most = self.headroom(&self.most, to, item);
            let fill = self.headroom(&self.fill, to, item).max(1).min(most);
            let replicas = self.state.allowed(item, site, to, wanted.min(fill));
            if replicas <= 0 || replicas > most {
                refused.push(to);
            } else {
                self.apply(item, site, to, replicas);
            }
        }
    }

    /// Returns replicas to their original sites as far as the level allows.
    fn tidy_up(&mut self) {
        self.state.leave_small_moves();
        self.set_level(level(self.state));
        for item in self.state.moved_items() {
            for (home, replicas) in &self.state.item(item).at {
                for (site, _) in self.state.places(item).to_vec() {
                    let missing = replicas - self.state.on(item, *home);
                    let headroom = self.headroom(&self.most, *home, item);
                    let back = missing.min(self.state.arrived(item, site)).min(headroom);
                    let back = if back > 0 { self.state.allowed(item, site, *home, back) } else { 0 };
                    if back > 0 && back <= headroom {
                        self.apply(item, site, *home, back);
                    }
                }
            }
        }
    }
}

/// Returns the maximum use at the level. Levels are sums of binary fractions, so a level that
/// should be an integer may be slightly below it.
fn below(level: f64, has: i64) -> i64 {
    (level * has as f64 * (1.0 + ROUNDING)).floor() as i64
}

fn rounded_up(amount: i64, each: i64) -> i64 {
    (amount / each).saturating_add(i64::from(amount % each > 0))
}
