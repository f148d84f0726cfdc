//! Maximum flow from sources to sinks by Dinic's algorithm, with the obstacle if it is too small,
//! and minimum-cost flow to even out sites, by successive shortest paths with node potentials.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Sources, with the sinks that each of them may use.
pub(super) struct Network {
    /// By source, the positions of its sinks.
    ways: Vec<Vec<u32>>,
    sinks: usize,
}

/// Sources with amounts that do not fit, and all sinks that they may use.
pub(super) struct Obstacle {
    pub sources: Vec<usize>,
    pub sinks: Vec<usize>,
}

/// A residual edge. The position of its reverse edge differs in the lowest bit.
struct Edge {
    to: usize,
    left: i128,
    cost: i64,
}

struct Graph {
    edges: Vec<Edge>,
    of_node: Vec<Vec<u32>>,
    /// Node potentials: the cost of the cheapest path to each node. No residual edge has a negative
    /// reduced cost.
    prices: Vec<i64>,
}

/// Load that moves alike, for `even_out`.
pub(super) struct Pool {
    /// Cost of a unit that leaves.
    pub cost: i64,
    /// The sites that it is on, with the amounts that may leave.
    pub from: Vec<(u32, i64)>,
    /// The sites that it may go to.
    pub to: Vec<u32>,
}

/// Amounts that leave the sites of `Pool::from` and arrive at those of `Pool::to`, in the same
/// order.
pub(super) struct Passage {
    pub left: Vec<i64>,
    pub came: Vec<i64>,
}

/// Returns the cheapest flow that removes `too_much` from each site, where a negative number is
/// free capacity. At most `may_come` arrives at a site, even if more leaves it. `None`: no flow
/// does.
pub(super) fn even_out(pools: &[&Pool], too_much: &[i64], may_come: &[i64]) -> Option<Vec<Passage>> {
    let (sites, doors) = (too_much.len(), too_much.len() + pools.len());
    let (from, to) = (doors + sites, doors + sites + 1);
    let mut graph = Graph::new(to + 1);
    for (site, amount) in too_much.iter().enumerate() {
        graph.link(doors + site, site, i128::from(may_come[site].max(0)), 0);
        let (one, other) = if *amount > 0 { (from, site) } else { (site, to) };
        graph.link(one, other, i128::from(*amount).abs(), 0);
    }
    let first = graph.edges.len();
    for (number, pool) in pools.iter().enumerate() {
        for (site, amount) in &pool.from {
            graph.link(*site as usize, sites + number, i128::from(*amount), pool.cost);
        }
        for site in &pool.to {
            graph.link(sites + number, doors + *site as usize, i128::from(i64::MAX), 0);
        }
    }
    while graph.raise_prices(from, to) {
        graph.fill(from, to);
    }
    if graph.of_node[from].iter().any(|edge| graph.edges[*edge as usize].left > 0) {
        return None;
    }
    // The reverse edges contain the flow.
    let mut gone =
        graph.edges[first..].iter().skip(1).step_by(2).map(|edge| i64::try_from(edge.left).unwrap_or(i64::MAX));
    let mut next = |count: usize| -> Vec<i64> { gone.by_ref().take(count).collect() };
    Some(pools.iter().map(|pool| Passage { left: next(pool.from.len()), came: next(pool.to.len()) }).collect())
}

impl Graph {
    fn new(nodes: usize) -> Graph {
        Graph { edges: Vec::new(), of_node: vec![Vec::new(); nodes], prices: vec![0; nodes] }
    }

    fn link(&mut self, from: usize, to: usize, capacity: i128, cost: i64) {
        self.of_node[from].push(self.edges.len() as u32);
        self.edges.push(Edge { to, left: capacity, cost });
        self.of_node[to].push(self.edges.len() as u32);
        self.edges.push(Edge { to: from, left: 0, cost: -cost });
    }

    /// Returns the reduced cost of an edge.
    fn extra(&self, from: usize, edge: &Edge) -> i64 {
        edge.cost + self.prices[from] - self.prices[edge.to]
    }

    /// Raises the potentials to the costs of the remaining paths. Returns whether there is a path.
    fn raise_prices(&mut self, from: usize, to: usize) -> bool {
        let mut costs = vec![i64::MAX; self.of_node.len()];
        let mut waiting = BinaryHeap::from([Reverse((0, from))]);
        costs[from] = 0;
        while let Some(Reverse((cost, node))) = waiting.pop() {
            if cost > costs[node] {
                continue;
            }
            for edge in self.of_node[node].iter().map(|edge| &self.edges[*edge as usize]) {
                let beyond = cost + self.extra(node, edge);
                if edge.left > 0 && beyond < costs[edge.to] {
                    costs[edge.to] = beyond;
                    waiting.push(Reverse((beyond, edge.to)));
                }
            }
        }
        if costs[to] == i64::MAX {
            return false;
        }
        self.prices.iter_mut().zip(&costs).for_each(|(price, cost)| *price += cost.min(&costs[to]));
        true
    }

    /// Returns the number of residual edges of reduced cost 0 to each node, or `usize::MAX` if
    /// there is no path.
    fn distances(&self, from: usize) -> Vec<usize> {
        let mut far = vec![usize::MAX; self.of_node.len()];
        let mut waiting = VecDeque::from([from]);
        far[from] = 0;
        while let Some(node) = waiting.pop_front() {
            for edge in self.of_node[node].iter().map(|edge| &self.edges[*edge as usize]) {
                if edge.left > 0 && far[edge.to] == usize::MAX && self.extra(node, edge) == 0 {
                    far[edge.to] = far[node] + 1;
                    waiting.push_back(edge.to);
                }
            }
        }
        far
    }

    /// Augments along shortest paths of reduced cost 0 until none remains.
    fn fill(&mut self, from: usize, to: usize) {
        loop {
            let far = self.distances(from);
            if far[to] == usize::MAX {
                return;
            }
            let mut next = vec![0_usize; self.of_node.len()];
            let mut way: Vec<u32> = Vec::new();
            loop {
                let node = way.last().map_or(from, |edge| self.edges[*edge as usize].to);
                if node == to {
                    let most = way.iter().map(|edge| self.edges[*edge as usize].left).min().unwrap_or(0);
                    for edge in &way {
                        self.edges[*edge as usize].left -= most;
                        self.edges[*edge as usize ^ 1].left += most;
                    }
                    let full = way.iter().position(|edge| self.edges[*edge as usize].left == 0);
                    way.truncate(full.unwrap_or(0));
                    continue;
                }
                let ahead = self.of_node[node].get(next[node]).copied();
                match ahead {
                    Some(edge) => {
                        let ahead = &self.edges[edge as usize];
                        let is_next = far[ahead.to] == far[node].saturating_add(1);
                        if ahead.left > 0 && is_next && self.extra(node, ahead) == 0 {
                            way.push(edge);
                        } else {
                            next[node] += 1;
                        }
                    }
                    None => match way.pop() {
                        // No more flow passes this node.
                        Some(edge) => next[self.edges[edge as usize ^ 1].to] += 1,
                        None => break,
                    },
                }
            }
        }
    }
}

impl Network {
    pub fn new(ways: Vec<Vec<u32>>, sinks: usize) -> Network {
        Network { ways, sinks }
    }

    /// Returns the obstacle if the amounts do not fit into the capacities.
    pub fn obstacle(&self, amounts: &[i128], capacities: &[i128]) -> Option<Obstacle> {
        let sources = self.ways.len();
        let (from, to) = (sources + self.sinks, sources + self.sinks + 1);
        let mut graph = Graph::new(sources + self.sinks + 2);
        for (source, amount) in amounts.iter().enumerate() {
            graph.link(from, source, *amount, 0);
            for sink in &self.ways[source] {
                graph.link(source, sources + *sink as usize, *amount, 0);
            }
        }
        for (sink, capacity) in capacities.iter().enumerate() {
            graph.link(sources + sink, to, *capacity, 0);
        }
        graph.fill(from, to);
        if graph.of_node[from].iter().all(|edge| graph.edges[*edge as usize].left == 0) {
            return None;
        }
        let far = graph.distances(from);
        let reached = |first: usize, count: usize| -> Vec<usize> {
            (0..count).filter(|node| far[first + node] < usize::MAX).collect()
        };
        Some(Obstacle { sources: reached(0, sources), sinks: reached(sources, self.sinks) })
    }
}
