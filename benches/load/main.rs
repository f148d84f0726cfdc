//! Measures a whole server: `cargo bench --bench load -- create | list | get | patch | watchers |
//! rebalance | inventory | preview | moves | home | estimators | fleet | memory | unread |
//! hostile | thousand | shared | follower | create-beside | million`.
//!
//! Without a name, all except the last two run. The figures go to standard output, and no time is
//! asserted.

#![allow(clippy::print_stdout)]

mod create;
#[path = "../../tests/support/estimator.rs"]
#[allow(dead_code)]
mod estimator;
mod estimators;
mod fleet;
mod home;
mod hostile;
mod inventory;
mod list;
mod memory;
mod million;
mod objects;
#[path = "../../tests/support/postgres.rs"]
#[allow(dead_code, clippy::print_stderr)]
mod postgres;
mod preview;
#[path = "../../tests/support/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../../tests/support/raw.rs"]
#[allow(dead_code)]
mod raw;
mod rebalance;
mod replicas;
mod setup;
#[path = "../../tests/support/skip.rs"]
mod skip;
mod thousand;
mod unread;
mod watchers;

use skip::skipped;
use tokio::runtime::Builder;

/// The server's allocator. The client shares the processors with the server, and the system's
/// allocator takes a tenth of a request's time there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benches with a client of one thread, if they run alone.
const ONE_THREAD: [&str; 4] = ["create", "create-beside", "million", "shared"];

fn main() {
    // Cargo adds the argument `--bench`.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    // The client shares the processors with the server. One thread costs less than two that wake
    // each other. That is enough for creates, but not for reads.
    let mut runtime = match &asked[..] {
        [only] if ONE_THREAD.contains(&only.as_str()) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    runtime.enable_all().build().expect("a runtime").block_on(run(&asked));
}

async fn run(asked: &[String]) {
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    if wanted("create") {
        create::run().await;
    }
    if wanted("list") {
        list::run().await;
    }
    if wanted("get") {
        objects::get().await;
    }
    if wanted("patch") {
        objects::patch().await;
    }
    if wanted("watchers") {
        watchers::run().await;
    }
    if wanted("rebalance") {
        rebalance::run().await;
    }
    if wanted("inventory") {
        inventory::run().await;
    }
    if wanted("preview") {
        preview::preview().await;
    }
    if wanted("moves") {
        preview::moves().await;
    }
    if wanted("home") {
        home::run().await;
    }
    if wanted("estimators") {
        estimators::run().await;
    }
    if wanted("fleet") {
        fleet::run().await;
    }
    if wanted("memory") {
        memory::run().await;
    }
    if wanted("unread") {
        unread::run().await;
    }
    if wanted("hostile") {
        hostile::run().await;
    }
    if wanted("thousand") {
        thousand::run().await;
    }
    if wanted("shared") {
        replicas::shared().await;
    }
    if wanted("follower") {
        replicas::follower().await;
    }
    if asked.iter().any(|word| word == "create-beside") {
        create::beside().await;
    }
    if asked.iter().any(|word| word == "million") {
        million::run().await;
    }
}
