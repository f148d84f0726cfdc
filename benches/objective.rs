//! Measures plans for the whole fleet (PL1): how long the search takes, how near it comes to the
//! bound that it proves, and how many replicas move.
//!
//! `cargo bench --bench objective` plans 10,000 workloads over 100 clusters, and
//! `-- WORKLOADS CLUSTERS` other fleets. The fleets have five shapes and are made by a seeded
//! program, so others can make the same: see `Shape`. Room is counted by sums, without bindings and
//! nodes; what a plan costs around the search is not in these times.

#![expect(clippy::print_stdout, reason = "its output is a table")]

use std::sync::Arc;
use std::time::Instant;

use ballast::engine::optimise::{Goal, Item, Problem, Rules, Site, solve};

const WORKLOADS: usize = 10_000;
const CLUSTERS: usize = 100;
/// Thousandths of a core of each cluster, about.
const CORES: i64 = 64_000;
/// How much of the fleet is used, in percent.
const USED: i64 = 60;

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each workload is on three clusters, any of which it may leave for any other.
    Even,
    /// Each workload belongs to one of ten regions.
    Regions,
    /// A tenth of the clusters are new and empty.
    Grown,
    /// A tenth of the clusters hold three times as much as the others.
    Hot,
    /// Each workload may be on five clusters only.
    Narrow,
}

const SHAPES: [Shape; 5] = [Shape::Even, Shape::Regions, Shape::Grown, Shape::Hot, Shape::Narrow];

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % below as u64) as usize
    }
}

/// Room by the sums.
struct Rooms<'p> {
    problem: &'p Problem,
    free: Vec<i64>,
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

fn problem(shape: Shape, workloads: usize, clusters: usize) -> Problem {
    let mut dice = Dice(shape as u64 + 1);
    let all: Vec<u32> = (0..clusters as u32).collect();
    let choices: Vec<Box<[u32]>> = match shape {
        Shape::Even | Shape::Grown | Shape::Hot => vec![all.clone().into()],
        Shape::Regions => {
            (0..10).map(|region| all.iter().copied().filter(|site| site % 10 == region).collect()).collect()
        }
        Shape::Narrow => (0..50)
            .map(|_| {
                let mut sites: Vec<u32> = (0..5).map(|_| all[dice.roll(clusters)]).collect();
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
        let choice = dice.roll(choices.len());
        let need = sizes[dice.roll(sizes.len())];
        let mut at = std::collections::BTreeMap::new();
        for _ in 0..2 + dice.roll(9) {
            let open = &choices[choice];
            let site = match shape {
                Shape::Grown => open[dice.roll(open.len() * 9 / 10)],
                Shape::Hot if dice.roll(4) == 0 => open[dice.roll(open.len().div_ceil(10))],
                _ => open[dice.roll(open.len())],
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
    let has = (sum * 100 / USED / clusters as i64).max(CORES);
    // Some clusters are larger than others, and none is fuller than full.
    let site = |used: &i64| Site {
        has: vec![(has * (80 + dice.roll(41) as i64) / 100).max(*used)],
        used: vec![*used],
        prices: None,
    };
    let sites = used.iter().map(site).collect();
    Problem { goal: Goal::Balance, sites, items, choices, budget: None, worth: 0.0, price: 0.0 }
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (workloads, clusters) = (numbers.next().unwrap_or(WORKLOADS), numbers.next().unwrap_or(CLUSTERS));
    println!("{workloads} workloads, {clusters} clusters");
    println!("| shape | worth | seconds | before | after | bound | moved | of all |");
    println!("|---|---|---|---|---|---|---|---|");
    for shape in SHAPES {
        for worth in [0.0, 0.5] {
            let problem = Problem { worth, ..problem(shape, workloads, clusters) };
            let replicas: i64 = problem.items.iter().flat_map(|item| &item.at).map(|(_, replicas)| replicas).sum();
            let free = problem.sites.iter().map(|site| site.has[0] - site.used[0]).collect();
            let began = Instant::now();
            let solution = solve(&problem, &mut Rooms { problem: &problem, free });
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "| {shape:?} | {worth} | {seconds:.2} | {:.4} | {:.4} | {:.4} | {} | {:.1} % |",
                solution.before,
                solution.after,
                solution.bound,
                solution.moved,
                100.0 * solution.moved as f64 / replicas as f64
            );
        }
    }
}
