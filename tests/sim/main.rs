//! `cargo sim -- --seed N --steps M [--seeds K]` runs the seeded simulations of the tests with
//! other seeds and more steps.
//!
//! It simulates a Karmada and a Fleet system for each seed. If a rule is broken, it prints the
//! steps that led there to standard error and exits with status 1.
#![allow(dead_code, reason = "the world can do more than a simulation asks of it")]
#![expect(clippy::print_stdout, reason = "a program for people")]

#[path = "../suite/stories/fleet.rs"]
mod fleet;
#[path = "../suite/stories/fleet_sight.rs"]
mod fleet_sight;
#[path = "../suite/stories/fleet_simulation.rs"]
mod fleet_simulation;
#[path = "../suite/stories/simulation.rs"]
mod simulation;
#[path = "../suite/stories/world.rs"]
mod world;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Args {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// The number of seeds, counted up from the first
    #[arg(long, default_value_t = 1)]
    seeds: u64,

    /// The number of steps in each simulation before the faults end
    #[arg(long, default_value_t = simulation::STEPS)]
    steps: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut outcome = ExitCode::SUCCESS;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let karmada = simulation::live(seed, args.steps, simulation::Faults::All).await;
        let fleet = fleet_simulation::live(seed, args.steps).await;
        if karmada.is_ok() && fleet.is_ok() {
            println!("seed {seed}: {} steps, and everything settled", args.steps);
            continue;
        }
        for fault in [karmada, fleet].into_iter().filter_map(Result::err) {
            eprintln!("{fault}");
        }
        outcome = ExitCode::FAILURE;
    }
    outcome
}
