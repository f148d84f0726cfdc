//! Measures plans for the whole fleet (PL1): how long the search takes, how near it comes to the
//! bound that it proves, and how many replicas move.
//!
//! `cargo bench -p ballast-engine --bench objective` plans 10,000 workloads over 100 clusters, and
//! `-- WORKLOADS CLUSTERS` other fleets. The fleets have five shapes and are made by a seeded
//! program, so others can make the same: see `Shape`. `-- WORKLOADS CLUSTERS --write FOLDER`
//! writes them, and what Ballast answers, for `objective.py`. Room is counted by sums, without
//! bindings and nodes; what a plan costs around the search is not in these times.
//!
//! *off* is how much fuller the fullest cluster is than the bound.

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
use fleets::{Fleet, Rooms, SHAPES, Shape};

const WORKLOADS: usize = 10_000;
const CLUSTERS: usize = 100;
const USED: i64 = 60;

fn write(folder: &Path, shape: Shape, problem: &Problem, solution: &Solution, seconds: f64) -> std::io::Result<()> {
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
    std::fs::write(folder.join(format!("{shape:?}.json")), instance.to_string())
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let (workloads, clusters) = (numbers.next().unwrap_or(WORKLOADS), numbers.next().unwrap_or(CLUSTERS));
    let folder = arguments.iter().skip_while(|argument| *argument != "--write").nth(1).map(PathBuf::from);
    println!("{workloads} workloads, {clusters} clusters");
    println!("| shape | worth | seconds | before | after | bound | off | moved | of all |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for shape in SHAPES {
        for worth in [0.0, 0.5] {
            let fleet = Fleet { shape, workloads, clusters, used: USED, seed: shape as u64 + 1 };
            let problem = Problem { worth, ..fleets::problem(fleet) };
            let replicas: i64 = problem.items.iter().flat_map(|item| &item.at).map(|(_, replicas)| replicas).sum();
            let began = Instant::now();
            let solution = solve(&problem, &mut Rooms::of(&problem));
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "| {shape:?} | {worth} | {seconds:.2} | {:.4} | {:.4} | {:.4} | {:.2} % | {} | {:.1} % |",
                solution.before,
                solution.after,
                solution.bound,
                100.0 * (solution.after - solution.bound) / (solution.bound + fleets::mean(&problem)),
                solution.moved,
                100.0 * solution.moved as f64 / replicas as f64
            );
            if let Some(folder) = folder.as_deref().filter(|_| worth == 0.0) {
                write(folder, shape, &problem, &solution, seconds)?;
            }
        }
    }
    Ok(())
}
