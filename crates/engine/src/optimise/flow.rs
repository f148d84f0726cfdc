//! How much of what some sources have fits into sinks: a maximum flow by Dinic's algorithm, and
//! what is in the way.

/// Sources, and sinks that each of them may use.
pub(super) struct Network {
    /// By source, the positions of its sinks.
    ways: Vec<Vec<u32>>,
    sinks: usize,
}

/// The sources whose amounts do not fit, and all sinks that they may use.
pub(super) struct Obstacle {
    pub sources: Vec<usize>,
    pub sinks: Vec<usize>,
}

/// An edge of the graph, beside the edge back, whose position differs in the lowest bit.
struct Edge {
    to: usize,
    left: i128,
}

struct Graph {
    edges: Vec<Edge>,
    of_node: Vec<Vec<u32>>,
}

impl Graph {
    fn link(&mut self, from: usize, to: usize, capacity: i128) {
        self.of_node[from].push(self.edges.len() as u32);
        self.edges.push(Edge { to, left: capacity });
        self.of_node[to].push(self.edges.len() as u32);
        self.edges.push(Edge { to: from, left: 0 });
    }

    /// By node, how many edges with room it is away. Without a way: `usize::MAX`.
    fn distances(&self, from: usize) -> Vec<usize> {
        let mut far = vec![usize::MAX; self.of_node.len()];
        let mut waiting = std::collections::VecDeque::from([from]);
        far[from] = 0;
        while let Some(node) = waiting.pop_front() {
            for edge in self.of_node[node].iter().map(|edge| &self.edges[*edge as usize]) {
                if edge.left > 0 && far[edge.to] == usize::MAX {
                    far[edge.to] = far[node] + 1;
                    waiting.push_back(edge.to);
                }
            }
        }
        far
    }

    /// Fills shortest ways until none is left.
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
                        let Edge { to, left } = self.edges[edge as usize];
                        if left > 0 && far[to] == far[node] + 1 {
                            way.push(edge);
                        } else {
                            next[node] += 1;
                        }
                    }
                    None => match way.pop() {
                        // Nothing more goes through this node.
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

    /// What is in the way of these amounts, if they do not fit into these capacities.
    pub fn obstacle(&self, amounts: &[i128], capacities: &[i128]) -> Option<Obstacle> {
        let sources = self.ways.len();
        let (from, to) = (sources + self.sinks, sources + self.sinks + 1);
        let mut graph = Graph { edges: Vec::new(), of_node: vec![Vec::new(); sources + self.sinks + 2] };
        for (source, amount) in amounts.iter().enumerate() {
            graph.link(from, source, *amount);
            for sink in &self.ways[source] {
                graph.link(source, sources + *sink as usize, *amount);
            }
        }
        for (sink, capacity) in capacities.iter().enumerate() {
            graph.link(sources + sink, to, *capacity);
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
