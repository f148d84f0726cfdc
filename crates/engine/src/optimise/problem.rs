//! The optimisation problem and its solution.

use std::sync::Arc;

/// The objective of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Uses the sites as evenly as possible: the fullest site first, then the next one. The figure
    /// is the largest use of a site minus the mean, as shares of their capacities. Fuller sites
    /// that no move relieves are left out of both.
    Balance,
    /// Minimises the price of the items. The figure is the hourly price of their requests, on sites
    /// with known prices.
    Cost,
    /// Uses as few sites as possible. The figure is the number of these sites.
    Pack,
    /// Keeps enough capacity free that the replicas of any lost domain fit elsewhere. The figure is
    /// the number of replicas that would not fit, summed over all domains, each lost alone.
    Survive,
}

/// A unit of capacity, such as a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Capacity by resource. 0: unknown, so its use is not counted.
    pub has: Vec<i64>,
    /// Use by resource, by items and everything else.
    pub used: Vec<i64>,
    /// Free capacity by resource, an upper bound of arrivals whatever leaves. A resource that the
    /// list does not reach is unbounded.
    pub room: Vec<i64>,
    /// Hourly price of a unit by resource. `None`: the price is unknown, of the resource or of all.
    pub prices: Option<Vec<Option<f64>>>,
}

/// Replicas by site, ascending by site, without zeros.
pub type ReplicasBySite = Vec<(u32, i64)>;

/// A workload that can move, or that is counted although it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// Requests of one replica: pairs of a resource and an amount above 0.
    pub needs: Arc<[(usize, i64)]>,
    /// The current placement.
    pub at: ReplicasBySite,
    /// The placement that the search starts from, whatever the goal. `None`: the current one.
    pub start: Option<ReplicasBySite>,
    /// The position in `Problem::choices` of the sites that its replicas may be on. `None`: the
    /// item does not move.
    pub choice: Option<usize>,
    /// The position in `Problem::choices` of the sites that replicas go to if their site is lost,
    /// for the goal Survive. `None`: the item is not counted.
    pub refuge: Option<usize>,
    /// Replicas that have to stay on their sites.
    pub stays: ReplicasBySite,
    /// Whether an earlier plan for the same goal placed it. Other items move first, so that a plan
    /// does not undo the previous one.
    pub is_placed: bool,
    /// The sites that earlier plans moved its replicas away from, ascending. Other sites come
    /// first, so that few replicas move back.
    pub left: Arc<[u32]>,
    /// The maximum number of replicas that may move.
    pub most: i64,
    /// The minimum number of replicas that move, if any does.
    pub fewest: i64,
    /// The maximum number of sites.
    pub sites_max: usize,
    /// Whether its replicas on a site move together.
    pub is_whole: bool,
    /// Whether its assignments have to be checked with `Rules::keeps`.
    pub is_ruled: bool,
}

/// An optimisation problem.
#[derive(Clone, Debug)]
pub struct Problem {
    pub goal: Goal,
    pub sites: Vec<Site>,
    pub items: Vec<Item>,
    /// Sets of sites, each ascending, that items share.
    pub choices: Vec<Box<[u32]>>,
    /// Sets of sites that can be lost together, for the goal Survive.
    pub domains: Vec<Box<[u32]>>,
    /// The maximum number of replicas that may move in all. `None`: unlimited.
    pub budget: Option<i64>,
    /// The minimum ratio between a move's share of the gain and its share of the moved replicas.
    /// Both are shares of the plan that makes every move with a gain.
    pub worth: f64,
    /// The minimum gain per moved replica, set by an earlier plan. 0: none.
    pub price: f64,
    /// The gain up to which nothing moves: a share of a site's capacity for Balance, a share of the
    /// price for Cost, and otherwise a number in the unit of the figure. For Cost, the limit
    /// applies to each replica as well. 0: every gain counts.
    pub tolerance: f64,
}

/// Capacity and placement rules of the caller. Items and sites are given by their positions.
pub trait Rules {
    /// Returns how many more replicas of the item fit on the site.
    fn fits(&mut self, item: usize, site: u32) -> i64;

    /// Reserves capacity of the site for replicas of the item. A negative number releases it.
    fn take(&mut self, item: usize, site: u32, replicas: i64);

    /// Returns whether the assignment keeps the rules that concern all targets of the item.
    fn keeps(&mut self, item: usize, places: &[(u32, i64)]) -> bool;
}

/// The figures that a search reaches.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub before: f64,
    pub after: f64,
    pub bound: f64,
    pub price: f64,
    pub is_within_tolerance: bool,
    pub unrelieved: Vec<u32>,
}

/// A plan and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The figure of the goal before and after the moves.
    pub before: f64,
    pub after: f64,
    /// A lower bound of the figure of all plans that keep the rules and limits.
    pub bound: f64,
    /// The number of moved replicas, counted where they arrive.
    pub moved: i64,
    /// The minimum gain per moved replica that this plan was held to.
    pub price: f64,
    /// New placements of the items that move, ascending by item.
    pub places: Vec<(usize, ReplicasBySite)>,
    /// Whether the possible gain is no larger than the tolerance, so that nothing moves.
    pub is_within_tolerance: bool,
    /// The sites that the figure of Balance leaves out, the fullest first.
    pub unrelieved: Vec<u32>,
}
