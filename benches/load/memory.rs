//! Measures the resident memory of a server with 100,000 scheduled bindings of about 1.5 KB:
//! `cargo bench --bench load -- memory`.

use std::sync::Arc;

use super::preview::MEMORY_SETTLES;
use super::process::ServerProcess;
use super::setup::{make_bindings, make_fleet};

const BINDINGS: usize = 100_000;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    println!("empty: {} MB", server.resident_bytes() / 1_000_000);
    make_fleet(&client, 20).await;
    make_bindings(&client, BINDINGS).await;
    println!("{BINDINGS} scheduled bindings: {} MB", server.resident_bytes() / 1_000_000);
    tokio::time::sleep(MEMORY_SETTLES).await;
    println!("when they have rested: {} MB", server.resident_bytes() / 1_000_000);
    assert!(server.terminate().success());
    let server = ServerProcess::start(folder.path(), &[]);
    println!("after a restart: {} MB", server.resident_bytes() / 1_000_000);
    tokio::time::sleep(MEMORY_SETTLES).await;
    println!("when they have rested: {} MB", server.resident_bytes() / 1_000_000);
}
