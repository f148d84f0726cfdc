//! The architecture as a test: who may import whom (style.md §3), and which places are pure.
//!
//! Reads the sources as text. That is crude, and enough: an import names its room.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room with the rooms it may import. What is absent is forbidden; `cli` may import
/// everything.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("k8s", &[]),
    ("clock", &["k8s"]),
    ("telemetry", &["metrics"]),
    ("metrics", &[]),
    ("engine", &["k8s"]),
    ("resource", &["k8s"]),
    ("store", &["k8s"]),
    ("api", &["k8s", "resource"]),
    ("watch", &["k8s", "store", "clock", "metrics"]),
    ("registry", &["k8s", "resource", "store", "watch", "clock"]),
    ("auth", &["k8s", "clock", "metrics"]),
    // A review is answered by whoever decides about requests.
    ("actions", &["k8s", "api", "auth", "registry", "resource", "watch", "clock"]),
    ("worker", &["k8s", "watch", "clock", "metrics"]),
    ("events", &["k8s", "api", "registry", "watch", "worker", "clock"]),
    ("scheduler", &["k8s", "api", "engine", "registry", "watch", "worker", "events", "clock", "metrics"]),
    ("controllers", &["k8s", "api", "registry", "watch", "worker", "events", "clock"]),
    ("host", &["k8s", "resource", "auth", "events", "registry", "worker", "clock", "telemetry", "metrics"]),
    ("server", &["k8s", "resource", "registry", "auth", "clock", "telemetry", "metrics"]),
];

/// A crate that only these rooms may use.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("axum", &["server", "cli"]),
    ("hyper", &["server", "telemetry", "cli"]),
    ("opentelemetry", &["telemetry"]),
    ("sqlx", &["store"]),
    ("clap", &["cli"]),
    ("prometheus", &["metrics"]),
    ("kube", &["host"]),
    ("k8s_openapi", &["host"]),
    ("rustls", &["server", "auth", "telemetry", "cli"]),
];

/// No async, no clock, no log in here.
const PURE: &[&str] = &[
    "src/k8s/",
    "src/engine/",
    "src/resource/",
    "src/registry/apply/ownership.rs",
    "/plan.rs",
    "src/controllers/eviction_task.rs",
    "src/controllers/failover/pace.rs",
    "src/controllers/placement/status.rs",
    "src/scheduler/dirty.rs",
    "src/scheduler/fleet/dirty.rs",
    "src/scheduler/explain.rs",
    "src/scheduler/lower/",
];

const IMPURE_WORDS: &[&str] =
    &["async fn", ".await", "tokio::", "tracing::", "clock::", "SystemTime", "Instant::now", "std::fs", "std::net"];

#[test]
fn rooms_import_only_what_the_table_allows() {
    let table: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let rooms: Vec<&str> = MAY_IMPORT.iter().map(|(room, _)| *room).chain(["cli"]).collect();
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let room = room_of(&path);
        if room == "cli" || room == "main" || room == "lib" {
            continue;
        }
        let Some(allowed) = table.get(room.as_str()) else {
            faults.push(format!("{}: room {room} is not in the table", path.display()));
            continue;
        };
        for (number, line) in production_lines(&text) {
            for other in &rooms {
                let named = line.contains(&format!("crate::{other}::")) || line.contains(&format!("crate::{other};"));
                if named && *other != room && !allowed.contains(other) {
                    faults.push(format!("{}:{number}: {room} must not import {other}", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn crates_stay_in_the_rooms_that_own_them() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let room = room_of(&path);
        for (number, line) in production_lines(&text) {
            for (name, rooms) in ONLY_IN {
                if line.contains(&format!("{name}::")) && !rooms.contains(&room.as_str()) && !is_longer_word(line, name)
                {
                    faults.push(format!("{}:{number}: {name} belongs in {rooms:?}", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn pure_places_neither_wait_nor_ask_the_time() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let shown = path.to_string_lossy().replace('\\', "/");
        if !PURE.iter().any(|place| shown.contains(place)) {
            continue;
        }
        for (number, line) in production_lines(&text) {
            for word in IMPURE_WORDS {
                if line.contains(word) {
                    faults.push(format!("{shown}:{number}: {word} in a pure place"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "these files do not open with `//!`: {silent:?}");
}

/// `hyper_util::` is not `hyper::`, and `tokio_rustls::` not `rustls::`.
fn is_longer_word(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::"))
        .all(|(at, _)| line[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_'))
}

/// Lines before the file's tests, without comments, numbered from 1.
fn production_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

fn room_of(path: &Path) -> String {
    let below_src = path.strip_prefix(root().join("src")).expect("sources are below src");
    let first = below_src.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below src but the tests that have a file of their own, in a fixed order.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join("src")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).expect("src is readable") {
            let path = entry.expect("src is readable").path();
            let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() && !is_tests {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
                let text = fs::read_to_string(&path).expect("sources are text");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}
