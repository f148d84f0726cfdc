//! Measures plans for the whole fleet (PL1): time of the search, distance from its own bound, and
//! number of moved replicas.
//!
//! `cargo bench -p ballast-engine --bench objective` plans 10,000 workloads over 100 clusters, and
//! `-- WORKLOADS CLUSTERS` other sizes. The fleets have five shapes (see `Shape`) and are generated
//! from seeds, so the results can be reproduced. `-- WORKLOADS CLUSTERS --write FOLDER` writes
//! them, with Ballast's solutions, for `objective.py`. `-- --seed SEED` plans a fleet of the search
//! for bad fleets. Capacity is computed from sums, without bindings and nodes; the times do not
//! include work outside the search.
//!
//! *off* is the relative distance of the fullest cluster from the bound.

#![expect(clippy::print_stdout, reason = "its output is a table")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use ballast_engine::optimise::{self, Problem, Solution, solve};
use serde_json::json;

#[path = "../tests/support/dice.rs"]
#[allow(dead_code)]
mod dice;
#[path = "../tests/objective/fleets.rs"]
mod fleets;
use fleets::{Fleet, Rooms, SHAPES};

const WORKLOADS: usize = 10_000;
const CLUSTERS: usize = 100;
const USED: i64 = 60;

fn write(folder: &Path, name: &str, problem: &Problem, solution: &Solution, seconds: f64) -> std::io::Result<()> {
    let items: Vec<_> = problem
        .items
        .iter()
        .map(|item| json!({"need": item.needs[0].1, "at": item.at, "choice": item.choice}))
        .collect();
    let instance = json!({
        "sites": problem.sites.iter().map(|site| json!({"has": site.has[0], "used": site.used[0]})).collect::<Vec<_>>(),
        "choices": problem.choices,
        "items": items,
        "ballast": {"after": solution.after, "bound": solution.bound, "moved": solution.moved, "seconds": seconds},
    });
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{name}.json")), instance.to_string())
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let (workloads, clusters) = (numbers.next().unwrap_or(WORKLOADS), numbers.next().unwrap_or(CLUSTERS));
    let after = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let folder = after("--write").map(PathBuf::from);
    let seed = after("--seed").and_then(|seed| seed.parse().ok());
    let of_shape = |shape| Fleet { shape, workloads, clusters, used: USED, seed: shape as u64 + 1 };
    let fleets = match seed {
        Some(seed) => vec![fleets::any(seed)],
        None => SHAPES.map(of_shape).to_vec(),
    };
    println!("| shape | clusters | worth | seconds | before | after | bound | off | moved | of all |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for fleet in fleets {
        let Fleet { shape, clusters, .. } = fleet;
        let name = seed.map_or_else(|| format!("{shape:?}"), |seed| format!("{shape:?} {seed}"));
        for worth in [0.0, 0.5] {
            let problem = Problem { worth, ..fleets::problem(fleet) };
            let replicas: i64 = problem.items.iter().flat_map(|item| &item.at).map(|(_, replicas)| replicas).sum();
            let began = Instant::now();
            let solution = solve(&problem, &mut Rooms::of(&problem));
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "| {name} | {clusters} | {worth} | {seconds:.2} | {:.4} | {:.4} | {:.4} | {:.2} % | {} | {:.1} % |",
                solution.before,
                solution.after,
                solution.bound,
                100.0 * (solution.after - solution.bound) / (solution.bound + fleets::mean(&problem)),
                solution.moved,
                100.0 * solution.moved as f64 / replicas as f64
            );
            if let Some(folder) = folder.as_deref().filter(|_| worth == 0.0) {
                write(folder, &name, &problem, &solution, seconds)?;
            }
        }
    }
    Ok(())
}
