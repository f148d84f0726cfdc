//! Makes the sites evenly used: lowers the level that no site is above, step by step, from where
//! everything is.
//!
//! At each level, what is above it leaves, the largest replicas first, for the least used sites.
//! Where these are out of reach, a flow says where replicas should be, sites pass replicas on, and
//! replicas make room for each other. Where a step fails, shorter ones are tried.
//!
//! A site that cannot be lowered is no reason to leave the others uneven: it is set aside at its
//! level, and the search goes on with the rest.

mod chains;
mod stages;
mod steering;

use std::rc::Rc;

use super::bound::{self, Exits, is_counted, need};
use super::problem::Outcome;
use super::state::{State, share};
use super::worth::{Checkpoint, is_enough};

/// Steps from the level of today to the bound: the resolution of `worth`.
const LEVELS: u32 = 24;
/// How often a step is halved. Steps that fail take the longest.
const HALVINGS_MAX: u32 = 7;
/// Levels that differ by less are equal: a tenth of what users read.
const LEVEL_MIN: f64 = 1e-5;
/// No flow is asked about levels that are nearer to the bound: there, whole replicas are too large.
const NEAR: f64 = 0.005;
/// How many times sites are set aside, and after how many of them the rest is searched: each search
/// takes as long as the first one.
const STAGES_MAX: usize = 64;
const SEARCHES_MAX: usize = 12;
/// How many sites replicas that make room for each other may pass.
const CHAIN_MAX: usize = 3;
/// How many such attempts one level makes, and how many more for each site: each attempt looks at
/// all that is on a site.
const ATTEMPTS_MAX: usize = 200;
const ATTEMPTS_OF_SITE: usize = 2;
/// How many ways over other sites one level tries, and how many more for each site.
const TRIES_MAX: usize = 400;
const TRIES_OF_SITE: usize = 8;
/// How many sites are tried for an item whose rules refuse some.
const REFUSALS_MAX: usize = 40;

/// What sums of binary fractions may differ by.
const ROUNDING: f64 = 1e-12;

/// What a stage of the search came to.
struct Stage {
    /// Whether moves were kept.
    has_moved: bool,
    /// Whether the search found more moves, which are not worth their replicas or gain no more than
    /// the tolerance.
    has_left_moves: bool,
    /// Whether the tolerance is the reason that no move was kept.
    is_within_tolerance: bool,
    price: f64,
}

/// What the figures are about: the sites that count, and what they were at first.
struct Shown {
    aside: Vec<Option<f64>>,
    bound: f64,
    figure: f64,
}

/// Evens out the sites in stages. Each stage lowers the fullest site that counts as far as it can,
/// and then sets those aside that hold it up. The figures are those of the first stage that gains
/// anything.
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

/// Sets the sites aside that are fuller than all that replicas may leave. If none may leave any
/// site, all sites count.
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
    /// The present state. `bottom`: the least level of the fullest site that counts.
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

/// All that is used, as a share of all there is. No plan changes it.
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

/// The most room that any site of a choice has below the level.
#[derive(Clone, Default)]
struct Room {
    /// As of when. Until a site gets room, there can only be less.
    version: u64,
    most: Vec<i64>,
}

/// The search, with what it remembers so that it need not look at everything again.
struct Search<'s, 'p, 'r> {
    state: &'s mut State<'p, 'r>,
    exits: Exits,
    /// The items that are on a site at first and need a resource, by site and resource, the largest
    /// first.
    first: Vec<Option<Rc<[u32]>>>,
    level: f64,
    /// The most that sites may use at the level, and up to where they fill up first, by site and
    /// resource.
    most: Vec<i64>,
    fill: Vec<i64>,
    /// By choice.
    rooms: Vec<Room>,
    /// Counts how often a site may have got room.
    version: u64,
    /// Of how many other sites it needs room at most: the sites from which replicas reach a site
    /// below the level. Empty: not known yet.
    near: Vec<Vec<bool>>,
    attempts: usize,
    /// Whether the level was reached without a way over other sites.
    is_direct: bool,
    /// Whether a flow says where everything should be.
    is_steered: bool,
    /// What the sites used at first, and what may move freely, once it is asked for.
    first_loads: Vec<i64>,
    kinds: Option<Rc<[steering::Kind]>>,
    /// How many more ways over other sites are tried at this level.
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

    /// Goes down step by step. Where a step fails, shorter ones may not: each of them looks only
    /// for what is above it, and so finds ways that a long one has no attempts left for.
    fn descend(&mut self, top: f64, bottom: f64, points: &mut Vec<Checkpoint>) {
        self.fill = self.at(bottom);
        let mut reached = top;
        let mut step = (top - bottom) / f64::from(LEVELS);
        let (mut halvings, mut has_bottom_failed) = (0, false);
        while halvings < HALVINGS_MAX && step >= LEVEL_MIN && reached - bottom >= LEVEL_MIN {
            // Sums of steps end a little beside the bottom.
            let is_last = reached - step - bottom < LEVEL_MIN;
            if is_last && has_bottom_failed {
                // The bound may be out of reach for good.
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

    /// Makes the moves that lead to the level, or none. Once ways over other sites take too many
    /// moves, a flow says where everything should be.
    fn reach(&mut self, level: f64, bottom: f64) -> bool {
        let mark = self.state.mark();
        let is_reached = !self.is_steered && self.lower(level);
        if is_reached && (self.is_direct || !self.moves_too_many()) {
            return true;
        }
        self.undo(mark);
        if self.is_steered || level - bottom > NEAR {
            // Whole replicas may not reach what a flow does: then it aims lower.
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

    /// What the sites use at this level, by site and resource. Sites that are set aside have their
    /// own.
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

    /// Brings all sites to this level or below. The receiving sites fill up to `fill` first.
    fn lower(&mut self, level: f64) -> bool {
        self.set_level(level);
        self.is_direct = true;
        self.reset_attempts();
        self.above().into_iter().all(|site| self.shed(site, CHAIN_MAX))
    }

    /// The sites that are above their level, the fullest first.
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

    /// The resource that the site is above the level by, and how much of it is too much.
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

    /// How many replicas of the item a site takes without being above the limit.
    fn headroom(&self, limit: &[i64], site: u32, item: u32) -> i64 {
        let fit = |(resource, amount): &(usize, i64)| self.room(limit, site, *resource) / *amount;
        self.state.item(item).needs.iter().map(fit).min().unwrap_or(0).max(0)
    }

    /// The items on a site that need the resource: those first that cost no move or relieve it.
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
        // An item of which more have arrived is looked at twice: it may have been too early.
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

    /// Whether it is worth looking for a site for the item.
    fn may_have_room(&self, item: u32) -> bool {
        let Some(choice) = self.state.item(item).choice else { return false };
        let room = &self.rooms[choice];
        let needs = &self.state.item(item).needs;
        room.version != self.version || needs.iter().all(|(resource, amount)| *amount <= room.most[*resource])
    }

    /// Remembers the room that a choice has now.
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

    /// The least used site that the item may go to and that has room for a replica.
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

    /// Moves as many replicas of the item off the site as are too many. Returns whether some still
    /// are.
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

    /// Sends replicas back that need not have moved.
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

/// The most that is used at this level. Levels are sums of binary fractions, so a level that is
/// meant to be whole may be a little less.
fn below(level: f64, has: i64) -> i64 {
    (level * has as f64 * (1.0 + ROUNDING)).floor() as i64
}

fn rounded_up(amount: i64, each: i64) -> i64 {
    (amount / each).saturating_add(i64::from(amount % each > 0))
}
