//! Measures the impact of all hostile clients at once on another user, the probes, and the server's
//! memory: `cargo bench --bench load -- hostile`. `HOSTILE_SECONDS` and `HOSTILE_STRANGERS` change
//! the sizes.
//!
//! The clients are described in docs/security.md: a page of another site, strangers with slow
//! bodies, requests with missing bodies, a reviewer that never stops, and large patches. Bob is the
//! other user.

mod clients;
mod times;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use ballast::node::certs::Files;
use http::Method;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::clients::{JSON, OTHER, SHOP, STRANGERS, Scene, bearer, own_binding, targets};
use super::process::{ServerProcess, cpu_of};
use super::raw::Raw;
use super::setup::{binding, make_fleet};

const SECONDS: usize = 30;
/// Number of workloads in the requests of the reviewer.
const WORKLOADS: usize = 20;

const POLICY: &str = "rules:
- {users: [jane], verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: [shop]}
- {users: [bob], verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: [other]}
";

pub async fn run() {
    let seconds = Duration::from_secs(from_environment("HOSTILE_SECONDS", SECONDS) as u64);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (tokens, policy) = (folder.path().join("tokens"), folder.path().join("policy"));
    let users: String = ["jane", "bob", "nobody"].map(token_line).concat();
    std::fs::write(&tokens, users).expect("the folder is ours");
    std::fs::write(&policy, POLICY).expect("the folder is ours");
    let flags = ["--token-auth-file", path(&tokens), "--authorization-policy-file", path(&policy)];
    let server = ServerProcess::start(folder.path(), &flags);
    let files = Files::in_dir(&folder.path().join("certs"));
    let scene = Arc::new(Scene::of(Raw::nobody(server.address, &files), Raw::admin(server.address, &files)));
    prepare(&server.client().await, &scene).await;
    println!("at rest: {} MB", megabytes(&server));

    let quiet = scene.clone().be_bob_and_probe(seconds).await;
    println!("quiet: {}", quiet.line());

    let began = Instant::now();
    let mut hostile = JoinSet::new();
    scene.release(&mut hostile);
    let wanted = from_environment("HOSTILE_STRANGERS", STRANGERS);
    while scene.strangers.load(Ordering::Relaxed) < wanted && began.elapsed() < seconds * 2 {
        sleep(Duration::from_millis(200)).await;
    }
    println!(
        "{} strangers after {:.1} s: {} MB",
        scene.strangers.load(Ordering::Relaxed),
        began.elapsed().as_secs_f64(),
        megabytes(&server)
    );
    let cpu = (server.cpu(), cpu_of("self"));
    let beside = tokio::spawn(scene.clone().be_bob_and_probe(seconds));
    let mut resident = Vec::new();
    while !beside.is_finished() {
        sleep(Duration::from_millis(100)).await;
        resident.push(megabytes(&server));
    }
    let beside = beside.await.expect("no panic");
    let (served, asked) = (server.cpu() - cpu.0, cpu_of("self") - cpu.1);
    println!("beside them: {}", beside.line());
    println!(
        "times the quiet p99: GET {:.1}, PATCH {:.1}",
        beside.gets.p99() / quiet.gets.p99(),
        beside.patches.p99() / quiet.patches.p99()
    );
    resident.sort_unstable();
    println!(
        "memory beside them: {} MB in the middle, {} MB at most; peak {} MB",
        resident[resident.len() / 2],
        resident[resident.len() - 1],
        peak_megabytes(&server)
    );
    println!(
        "CPU meanwhile: server {:.1} s, clients {:.1} s; {}",
        served.as_secs_f64(),
        asked.as_secs_f64(),
        scene.counts.line()
    );
    hostile.shutdown().await;
    let gone = Instant::now();
    for seconds in [10, 30, 60] {
        tokio::time::sleep_until((gone + Duration::from_secs(seconds)).into()).await;
        println!("{seconds} s after they have gone: {} MB", megabytes(&server));
    }
}

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn token_line(user: &str) -> String {
    let hash: String = Sha256::digest(format!("{user}-token")).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash},{user},{user}-uid,\"\"\n")
}

fn megabytes(server: &ServerProcess) -> usize {
    server.resident_bytes() / 1_000_000
}

fn peak_megabytes(server: &ServerProcess) -> usize {
    let peak = server.kernel_says("VmHWM").expect("Linux");
    peak.split_whitespace().next().and_then(|kib| kib.parse::<usize>().ok()).expect("a number") * 1024 / 1_000_000
}

/// Creates the objects: the reviewed workloads, jane's large binding, and the binding that bob
/// changes.
async fn prepare(admin: &Client, scene: &Scene) {
    make_fleet(admin, 2).await;
    for number in 0..WORKLOADS {
        let mut web = binding(number);
        for path in ["/metadata/namespace", "/spec/resource/namespace"] {
            if let Some(namespace) = web.pointer_mut(path) {
                *namespace = json!("shop");
            }
        }
        admin.post(SHOP, &web).await.expect("a binding");
    }
    let (jane, bob) = (scene.anybody.connect().await, scene.anybody.connect().await);
    let mut grow = own_binding("shop", "grow");
    grow["spec"]["clusters"] = targets(0);
    for (user, connection, path, object) in
        [("jane", &jane, SHOP, grow), ("bob", &bob, OTHER, own_binding("other", "small"))]
    {
        let (name, value) = bearer(user);
        let reply = connection.send(Method::POST, path, &[JSON, (name, &value)], object.to_string()).await;
        assert_eq!(reply.code, 201, "{}", reply.text());
    }
}
