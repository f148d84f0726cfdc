//! What is optimised, and the answer.

use std::sync::Arc;

/// What a plan is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The sites are used as evenly as they can be: first the fullest site, and then the next one.
    /// The figure is the largest use of a site minus the mean, as shares of what the sites have.
    /// Sites that are fuller and that no move relieves count for neither.
    Balance,
    /// The items cost as little as they can. The figure is the price by the hour of what they
    /// request, on sites whose prices are known.
    Cost,
    /// As few sites as possible carry items. The figure is the number of these sites.
    Pack,
    /// Whatever domain is lost, what is there finds room elsewhere. The figure is the replicas that
    /// would not, of all domains, each lost alone.
    Survive,
}

/// A place that has resources, such as a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// What it has of each resource. 0: it is not known, so its use does not count.
    pub has: Vec<i64>,
    /// What is used of each resource, by the items and by all else.
    pub used: Vec<i64>,
    /// How much of each resource may come at most, whatever leaves. What is left out is not known.
    pub room: Vec<i64>,
    /// The price of a unit of each resource by the hour. `None`: the price is not known, of the
    /// resource or of any.
    pub prices: Option<Vec<Option<f64>>>,
}

/// Replicas by site, ascending by site, without zeros.
pub type ReplicasBySite = Vec<(u32, i64)>;

/// A workload that can move, or that is counted although it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// What one replica needs: pairs of a resource and an amount above 0.
    pub needs: Arc<[(usize, i64)]>,
    /// Where its replicas are.
    pub at: ReplicasBySite,
    /// Where its replicas go in any case. `None`: they may all stay where they are.
    pub start: Option<ReplicasBySite>,
    /// The position of its sites in `Problem::choices`: those that its replicas may be on. `None`:
    /// it does not move.
    pub choice: Option<usize>,
    /// The position of the sites in `Problem::choices` that its replicas go to if theirs are lost,
    /// with the goal Survive. `None`: it is not counted.
    pub refuge: Option<usize>,
    /// How many replicas have to stay on sites that it is on.
    pub stays: ReplicasBySite,
    /// Whether an earlier plan for the same goal has put it where it is. Then others move first, so
    /// that no plan takes back what the last one did.
    pub is_placed: bool,
    /// The sites that earlier plans took replicas of it away from, ascending. Others come first, so
    /// that few replicas are taken back.
    pub left: Arc<[u32]>,
    /// How many replicas may move.
    pub most: i64,
    /// If fewer replicas would move, none does.
    pub fewest: i64,
    /// On how many sites it may be.
    pub sites_max: usize,
    /// Whether its replicas on a site move together.
    pub is_whole: bool,
    /// Whether `Rules::keeps` has to be asked about its assignments.
    pub is_ruled: bool,
}

/// What is optimised.
#[derive(Clone, Debug)]
pub struct Problem {
    pub goal: Goal,
    pub sites: Vec<Site>,
    pub items: Vec<Item>,
    /// Sets of sites, each ascending, that items share.
    pub choices: Vec<Box<[u32]>>,
    /// The sites that can be lost together, with the goal Survive.
    pub domains: Vec<Box<[u32]>>,
    /// How many replicas may move in all. `None`: there is no budget.
    pub budget: Option<i64>,
    /// A move is made when its share of the gain is at least this many times its share of the moved
    /// replicas. Both are shares of the plan that makes every move with a gain.
    pub worth: f64,
    /// The least gain of one moved replica, as an earlier plan has set it. 0: there is none.
    pub price: f64,
    /// The gain up to which nothing moves: a share of what a site has with Balance, a share of the
    /// price with Cost, and otherwise a number in the unit of the figure. With Cost, the bound
    /// holds for each replica as well. 0: every gain counts.
    pub tolerance: f64,
}

/// What the caller knows of rooms and rules. Items and sites are named by their positions.
pub trait Rules {
    /// How many more replicas of the item the site has room for.
    fn fits(&mut self, item: usize, site: u32) -> i64;

    /// Replicas of the item take room of the site. A negative number gives back what was taken.
    fn take(&mut self, item: usize, site: u32, replicas: i64);

    /// Whether the assignment keeps the rules about all targets together.
    fn keeps(&mut self, item: usize, places: &[(u32, i64)]) -> bool;
}

/// The figures that the search for a goal comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub before: f64,
    pub after: f64,
    pub bound: f64,
    pub price: f64,
    pub is_within_tolerance: bool,
    pub unrelieved: Vec<u32>,
}

/// The plan, and how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The figure of the goal before and after the moves.
    pub before: f64,
    pub after: f64,
    /// No plan that keeps the rules and the limits has a smaller figure.
    pub bound: f64,
    /// Replicas that move, counted where they arrive.
    pub moved: i64,
    /// The least gain of one moved replica that this plan asked for.
    pub price: f64,
    /// The items that are elsewhere in the plan, ascending, with where they are then.
    pub places: Vec<(usize, ReplicasBySite)>,
    /// Whether a plan could gain something, but no more than the tolerance, so that none is made.
    pub is_within_tolerance: bool,
    /// With Balance, the sites that the figure leaves out, the fullest first.
    pub unrelieved: Vec<u32>,
}
