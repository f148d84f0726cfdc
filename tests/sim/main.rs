//! `cargo sim -- --seed N --steps M [--seeds K]` runs the randomized simulations of the tests with
//! other seeds and more steps.
//!
//! For each seed it simulates a Karmada system, one with webhooks, a KubeFleet system, systems with
//! rebalances, with scarce capacity and with a schedule, and a rebalance with its undo. On a
//! violation, it prints the preceding steps to standard error and exits with status 1. `--only
//! rebalance` runs one of them.
#![allow(dead_code, reason = "the world can do more than a simulation asks of it")]
#![expect(clippy::print_stdout, reason = "a program for people")]

#[path = "../suite/stories/fake_upstream.rs"]
mod fake_upstream;
#[path = "../suite/stories/cause_judge.rs"]
mod cause_judge;
#[path = "../suite/stories/copies_judge.rs"]
mod copies_judge;
#[path = "../suite/stories/doorkeeper.rs"]
mod doorkeeper;
#[path = "../suite/stories/fleet.rs"]
mod fleet;
#[path = "../suite/stories/fleet_sight.rs"]
mod fleet_sight;
#[path = "../suite/stories/fleet_simulation.rs"]
mod fleet_simulation;
#[path = "../suite/stories/room_books.rs"]
mod room_books;
#[path = "../suite/stories/room_simulation.rs"]
mod room_simulation;
#[path = "../suite/stories/safe_judge.rs"]
mod safe_judge;
#[path = "../suite/stories/safe_simulation.rs"]
mod safe_simulation;
#[path = "../suite/stories/shape_simulation.rs"]
mod shape_simulation;
#[path = "../suite/stories/simulation.rs"]
mod simulation;
#[path = "../suite/stories/world.rs"]
mod world;
#[path = "../../crates/engine/tests/support/dice.rs"]
mod dice;
#[path = "../support/estimator.rs"]
mod estimator;
#[path = "../support/fleet.rs"]
mod fleet_objects;
#[path = "../support/kinds.rs"]
mod kinds;
#[path = "../support/objects.rs"]
mod objects;
#[path = "../support/pki.rs"]
mod pki;
/// Where the stories look for them.
mod support {
    pub(crate) use super::{dice, estimator, fleet_objects as fleet, kinds, pki};
}

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

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

    /// Run only this kind of simulation
    #[arg(long)]
    only: Option<Life>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Life {
    Karmada,
    /// Karmada, with a webhook for each placement
    Asked,
    Fleet,
    /// Rebalances with every kind of fault
    Rebalance,
    /// A rebalance and its undo, with no faults but crashes and store failures
    Undo,
    /// An outage, and the return from it, with no faults but crashes and store failures
    Home,
    /// The drain of a cluster, and its undo, with no faults but crashes and store failures
    Drain,
    /// A fleet with scarce capacity, and agents that report late, never or wrongly
    Room,
    /// A fleet under a schedule with an objective, behind gates
    Shape,
}

const LIVES: [Life; 9] = [
    Life::Karmada,
    Life::Asked,
    Life::Fleet,
    Life::Rebalance,
    Life::Undo,
    Life::Home,
    Life::Drain,
    Life::Room,
    Life::Shape,
];

impl Life {
    async fn live(self, seed: u64, steps: usize) -> Result<(), String> {
        match self {
            Life::Karmada => simulation::live(seed, steps, simulation::Faults::All).await.map(drop),
            Life::Asked => simulation::live(seed, steps, simulation::Faults::Asked).await.map(drop),
            Life::Fleet => fleet_simulation::live(seed, steps).await.map(drop),
            Life::Rebalance => safe_simulation::live(seed, steps).await.map(drop),
            Life::Undo => safe_simulation::undo(seed).await,
            Life::Home => safe_simulation::homecoming(seed).await,
            Life::Drain => safe_simulation::afternoon(seed).await,
            Life::Room => room_simulation::live(seed, steps).await,
            Life::Shape => shape_simulation::live(seed, steps).await.map(drop),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut outcome = ExitCode::SUCCESS;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let mut is_sound = true;
        for life in LIVES.into_iter().filter(|life| args.only.is_none_or(|only| only == *life)) {
            if let Err(fault) = life.live(seed, args.steps).await {
                eprintln!("{fault}");
                is_sound = false;
            }
        }
        if is_sound {
            println!("seed {seed}: {} steps, and everything settled", args.steps);
            continue;
        }
        outcome = ExitCode::FAILURE;
    }
    outcome
}
