//! Makes the sites evenly used: lowers the level that no site is above, step by step, from where
//! everything is.
//!
//! At each level, what is above it leaves, the largest replicas first, for the least used sites.
//! Where these are out of reach, a flow says where replicas should be, sites pass replicas on, and
//! replicas make room for each other. Where a step fails, shorter ones are tried.

mod chains;
mod steering;

use std::rc::Rc;

use super::bound::{self, Exits, is_counted, need};
use super::state::{State, share};
use super::worth::{Checkpoint, last_worthwhile, least_gain};

/// Steps from the level of today to the bound: the resolution of `worth`.
const LEVELS: u32 = 24;
/// How often a step is halved. Steps that fail take the longest.
const HALVINGS_MAX: u32 = 7;
/// Levels that differ by less are equal: a tenth of what users read.
const LEVEL_MIN: f64 = 1e-5;
/// No flow is asked about levels that are nearer to the bound: there, whole replicas are too large.
const NEAR: f64 = 0.005;
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

pub(super) fn solve(state: &mut State<'_, '_>) -> (f64, f64, f64, f64) {
    let before = figure(state, |site| {
        let used = &state.problem.sites[site as usize].used;
        let shares = (0..state.resources()).map(|resource| (used.get(resource), state.has(site, resource)));
        shares.map(|(used, has)| share(used.copied().unwrap_or_default(), has)).fold(0.0, f64::max)
    });
    let exits = Exits::new(state);
    let bottom = bound::level(state, &exits);
    let mean = if state.resources() == 1 { mean(state) } else { bound::largest_mean(state) };
    let bound = (bottom - mean).max(0.0);
    let mut points = vec![checkpoint(state)];
    let top = level(state);
    let mut search = Search::new(state, exits);
    if top - bottom > LEVEL_MIN {
        search.descend(top, bottom, &mut points);
    }
    let best = points[last_worthwhile(&points, 0.0)];
    let (gain, moved) = (points[0].figure - best.figure, best.moved - points[0].moved);
    let (worth, earlier) = (search.state.problem.worth, search.state.problem.price);
    let price = least_gain(worth, earlier, gain, moved);
    let chosen = last_worthwhile(&points, price);
    search.undo(points[chosen].mark);
    search.tidy_up();
    let after = figure(state, |site| state.peak(site));
    (before, bound, after, if moved > 0 { price } else { earlier })
}

fn checkpoint(state: &State<'_, '_>) -> Checkpoint {
    let figure = figure(state, |site| state.peak(site));
    Checkpoint { mark: state.mark(), figure, moved: state.moved() }
}

fn level(state: &State<'_, '_>) -> f64 {
    state.sites().map(|site| state.peak(site)).fold(0.0, f64::max)
}

/// All that is used, as a share of all there is. No plan changes it.
fn mean(state: &State<'_, '_>) -> f64 {
    let counted = state.sites().filter(|site| state.has(*site, 0) > 0);
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

    /// What the sites use at this level, by site and resource.
    fn at(&self, level: f64) -> Vec<i64> {
        let resources = 0..self.state.resources();
        let of = |site| resources.clone().map(move |resource| (site, resource));
        let all = self.state.sites().flat_map(of);
        all.map(|(site, resource)| below(level, self.state.has(site, resource))).collect()
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
        let peaks = self.state.sites().map(|site| (self.state.peak(site), site));
        let mut above: Vec<(f64, u32)> = peaks.filter(|(peak, _)| *peak > level).collect();
        above.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        self.attempts = ATTEMPTS_MAX + ATTEMPTS_OF_SITE * self.state.problem.sites.len();
        self.tries = TRIES_MAX + TRIES_OF_SITE * self.state.problem.sites.len();
        above.into_iter().all(|(_, site)| self.shed(site, CHAIN_MAX))
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
