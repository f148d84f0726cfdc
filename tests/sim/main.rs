//! `cargo sim -- --seed N --steps M [--seeds K]`: the seeded simulation of the tests, with other seeds and
//! longer lives. Exit status 1, and the whole life on standard error, where something is wrong at its end.
#![allow(dead_code, reason = "the world can do more than a simulation asks of it")]
#![expect(clippy::print_stdout, reason = "a program for people")]

#[path = "../suite/stories/fleet.rs"]
mod fleet;
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

    /// How many seeds, counted up from the first
    #[arg(long, default_value_t = 1)]
    seeds: u64,

    /// What happens in each life before the faults end
    #[arg(long, default_value_t = simulation::STEPS)]
    steps: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        if let Err(fault) = simulation::live(seed, args.steps).await {
            eprintln!("{fault}");
            return ExitCode::FAILURE;
        }
        println!("seed {seed}: {} steps, and everything settled", args.steps);
    }
    ExitCode::SUCCESS
}
