//! Generates fleets of five shapes from seeds, for tests and benchmarks of global optimisation.

use super::dice::Dice;
use std::sync::Arc;

use super::optimise::{Goal, Item, Problem, Rules, Site};

/// Approximate capacity of each cluster in thousandths of a core.
const CORES: i64 = 64_000;

/// The parameters of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    pub shape: Shape,
    pub workloads: usize,
    pub clusters: usize,
    /// Use of the fleet in percent.
    pub used: i64,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Every workload may use every cluster.
    Even,
    /// Each workload belongs to one of ten regions.
    Regions,
    /// A tenth of the clusters are new and empty.
    Grown,
    /// A tenth of the clusters have three times the load of the others.
    Hot,
    /// Each workload may use only five clusters.
    Narrow,
}

pub const SHAPES: [Shape; 5] = [Shape::Even, Shape::Regions, Shape::Grown, Shape::Hot, Shape::Narrow];

/// Returns a fleet with a random shape and size.
pub fn any(seed: u64) -> Fleet {
    let mut dice = Dice(seed);
    let shape = SHAPES[dice.below(SHAPES.len())];
    // Most fleets are small, so that many can be tested.
    let clusters = 10 + if dice.below(4) == 0 { dice.below(191) } else { dice.below(30) };
    // With fewer replicas the fleet cannot be even, because replicas are too large.
    let workloads = clusters * (10 + dice.below(50));
    Fleet { shape, clusters, workloads, used: 30 + dice.below(60) as i64, seed }
}

/// Capacity computed from sums of requests.
pub struct Rooms<'p> {
    problem: &'p Problem,
    free: Vec<i64>,
}

impl Rooms<'_> {
    pub fn of(problem: &Problem) -> Rooms<'_> {
        Rooms { problem, free: problem.sites.iter().map(|site| site.has[0] - site.used[0]).collect() }
    }
}

impl Rules for Rooms<'_> {
    fn fits(&mut self, item: usize, site: u32) -> i64 {
        self.free[site as usize] / self.problem.items[item].needs[0].1
    }

    fn take(&mut self, item: usize, site: u32, replicas: i64) {
        self.free[site as usize] -= self.problem.items[item].needs[0].1 * replicas;
    }

    fn keeps(&mut self, _item: usize, _places: &[(u32, i64)]) -> bool {
        true
    }
}

pub fn problem(fleet: Fleet) -> Problem {
    let Fleet { shape, workloads, clusters, used: percent, seed } = fleet;
    let mut dice = Dice(seed);
    let all: Vec<u32> = (0..clusters as u32).collect();
    let choices: Vec<Box<[u32]>> = match shape {
        Shape::Even | Shape::Grown | Shape::Hot => vec![all.clone().into()],
        Shape::Regions => {
            (0..10).map(|region| all.iter().copied().filter(|site| site % 10 == region).collect()).collect()
        }
        Shape::Narrow => (0..50)
            .map(|_| {
                let mut sites: Vec<u32> = (0..5).map(|_| all[dice.below(clusters)]).collect();
                sites.sort_unstable();
                sites.dedup();
                sites.into()
            })
            .collect(),
    };
    let sizes = [100, 250, 500, 1_000, 2_000];
    let mut used = vec![0; clusters];
    let mut items = Vec::with_capacity(workloads);
    for _ in 0..workloads {
        let choice = dice.below(choices.len());
        let need = sizes[dice.below(sizes.len())];
        let mut at = std::collections::BTreeMap::new();
        for _ in 0..2 + dice.below(9) {
            let open = &choices[choice];
            let site = match shape {
                Shape::Grown => open[dice.below(open.len() * 9 / 10)],
                Shape::Hot if dice.below(4) == 0 => open[dice.below(open.len().div_ceil(10))],
                _ => open[dice.below(open.len())],
            };
            *at.entry(site).or_insert(0_i64) += 1;
            used[site as usize] += need;
        }
        items.push(Item {
            needs: Arc::new([(0, need)]),
            at: at.into_iter().collect(),
            choice: Some(choice),
            most: i64::MAX,
            sites_max: usize::MAX,
            ..Item::default()
        });
    }
    let sum: i64 = used.iter().sum();
    let has = (sum * 100 / percent / clusters as i64).max(CORES);
    // Clusters differ in size, and none is overloaded.
    let site = |used: &i64| {
        let has = (has * (80 + dice.below(41) as i64) / 100).max(*used);
        Site { has: vec![has], used: vec![*used], room: vec![has - used], prices: None }
    };
    let sites = used.iter().map(site).collect();
    Problem {
        goal: Goal::Balance,
        sites,
        items,
        choices,
        domains: Vec::new(),
        budget: None,
        worth: 0.0,
        price: 0.0,
        tolerance: 0.0,
    }
}

/// Returns the mean use of the fleet, from which the figures of a solution are measured.
pub fn mean(problem: &Problem) -> f64 {
    let sum = |of: &dyn Fn(&Site) -> i64| problem.sites.iter().map(of).sum::<i64>() as f64;
    sum(&|site| site.used[0]) / sum(&|site| site.has[0]).max(1.0)
}
