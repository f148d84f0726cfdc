//! The architecture as a test: which room may import which, which places are pure, and how long
//! lines, functions and files may be.
//!
//! It reads the sources as text. That is enough, because an import names its room and rustfmt puts
//! the brace that closes an item below the first letter of that item. Code that only tests compile
//! is left out of the rules about imports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room with the rooms that it may import. What is absent is forbidden. `cli` may import
/// everything.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("k8s", &[]),
    ("clock", &["k8s"]),
    ("telemetry", &["metrics"]),
    ("metrics", &[]),
    ("engine", &["k8s"]),
    ("resource", &["k8s"]),
    ("store", &["k8s", "telemetry"]),
    ("api", &["k8s", "resource"]),
    ("watch", &["k8s", "store", "clock", "telemetry", "metrics"]),
    ("quota", &["k8s", "api", "watch"]),
    ("registry", &["k8s", "resource", "store", "watch", "clock", "telemetry", "metrics"]),
    ("auth", &["k8s", "clock", "metrics"]),
    // An access review is answered by the authorizer that also decides about requests.
    ("actions", &["k8s", "api", "auth", "events", "registry", "resource", "watch", "worker", "clock"]),
    ("worker", &["k8s", "watch", "clock", "metrics"]),
    ("events", &["k8s", "api", "registry", "watch", "worker", "clock"]),
    ("placements", &["k8s", "api", "registry", "watch", "worker"]),
    (
        "scheduler",
        &[
            "placements",
            "k8s",
            "api",
            "engine",
            "registry",
            "watch",
            "worker",
            "events",
            "clock",
            "telemetry",
            "metrics",
            "quota",
        ],
    ),
    (
        "rebalance",
        &[
            "placements",
            "k8s",
            "api",
            "engine",
            "registry",
            "resource",
            "scheduler",
            "watch",
            "worker",
            "events",
            "clock",
            "metrics",
            "quota",
        ],
    ),
    (
        "controllers",
        &["placements", "k8s", "api", "registry", "resource", "watch", "worker", "events", "clock", "quota"],
    ),
    ("host", &["k8s", "resource", "auth", "events", "registry", "worker", "clock", "telemetry", "metrics"]),
    // Attached to a server, it knows its pauses, and is no host.
    ("attach", &["k8s", "resource", "events", "registry", "watch", "worker", "host", "telemetry", "metrics"]),
    ("ui", &[]),
    ("server", &["k8s", "resource", "registry", "auth", "clock", "telemetry", "metrics", "ui"]),
    // It is the far side of a request that the server passes on.
    ("members", &["k8s", "api", "resource", "host", "server", "telemetry"]),
];

/// Crates that only the named rooms may use.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("axum", &["server", "members", "cli"]),
    ("hyper", &["server", "telemetry", "cli"]),
    ("opentelemetry", &["telemetry"]),
    ("sqlx", &["store"]),
    ("clap", &["cli"]),
    ("prometheus", &["metrics"]),
    ("kube", &["host", "attach", "cli"]),
    ("k8s_openapi", &["host"]),
    ("rustls", &["server", "members", "auth", "telemetry", "cli"]),
];

/// Files and folders without async code, without a clock and without a log.
const PURE: &[&str] = &[
    "src/k8s/",
    "src/engine/",
    "src/resource/",
    "src/registry/ownership/",
    "/plan.rs",
    "src/controllers/eviction_task.rs",
    "src/controllers/failover/pace.rs",
    "src/controllers/placement/status.rs",
    "src/attach/patch.rs",
    "src/quota/",
    "src/rebalance/advance/seen.rs",
    "src/rebalance/intent.rs",
    "src/rebalance/placement_moves.rs",
    "src/rebalance/nearest.rs",
    "src/rebalance/review/answer.rs",
    "src/rebalance/review/help.rs",
    "src/rebalance/review/suppose.rs",
    "src/rebalance/settle.rs",
    "src/rebalance/surge.rs",
    "src/rebalance/step.rs",
    "src/rebalance/waves.rs",
    "src/scheduler/dirty.rs",
    "src/scheduler/fleet/dirty.rs",
    "src/scheduler/explain.rs",
    "src/scheduler/lower/",
    "src/scheduler/planning/",
    "src/scheduler/underway.rs",
];

const IMPURE_WORDS: &[&str] =
    &["async fn", ".await", "tokio::", "tracing::", "clock::", "SystemTime", "Instant::now", "std::fs", "std::net"];

/// The widest comment and the widest line of Markdown, in characters. rustfmt.toml holds the code.
const WIDTH_MAX: usize = 100;

/// The longest file and the longest function of production code, in lines. All limits are the
/// maxima of the day when they were set: they may shrink and never grow. A file that needs more
/// holds a second idea.
const PRODUCTION: Sizes = Sizes { file_lines_max: 542, function_lines_max: 170 };
/// As above, for tests: those of `tests`, and the unit tests that have a file of their own.
const TESTS: Sizes = Sizes { file_lines_max: 710, function_lines_max: 348 };
/// As above, for benches and fuzz targets.
const TOOLS: Sizes = Sizes { file_lines_max: 315, function_lines_max: 72 };

struct Sizes {
    file_lines_max: usize,
    function_lines_max: usize,
}

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

#[test]
fn comments_fit_the_width() {
    let mut faults = Vec::new();
    for (path, text) in texts() {
        let Some(marker) = comment_marker(&path, &text) else { continue };
        let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with(marker));
        for (index, line) in comments.filter(|(_, line)| is_too_wide(line)) {
            faults.push(format!("{}:{}: {} characters", path.display(), index + 1, line.chars().count()));
        }
    }
    assert!(faults.is_empty(), "these comments are wider than {WIDTH_MAX} characters:\n{}", faults.join("\n"));
}

/// Tables need their rows in one piece. Code and what programs print are shown as they are.
#[test]
fn markdown_fits_the_width() {
    let mut faults = Vec::new();
    for (path, text) in texts() {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let mut in_code = false;
        for (index, line) in text.lines().enumerate() {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            if !in_code && !is_fence && !line.starts_with('|') && is_too_wide(line) {
                faults.push(format!("{}:{}: {} characters", path.display(), index + 1, line.chars().count()));
            }
        }
        assert!(!in_code, "{}: a code block has no end", path.display());
    }
    assert!(faults.is_empty(), "these lines are wider than {WIDTH_MAX} characters:\n{}", faults.join("\n"));
}

#[test]
fn files_and_functions_keep_their_size() {
    let (production, mut tests): (Vec<_>, Vec<_>) = rust_files("src").into_iter().partition(|(path, _)| !is_test(path));
    tests.extend(rust_files("tests"));
    let tools = rust_files("benches").into_iter().chain(rust_files("fuzz")).collect();
    let mut faults = Vec::new();
    for (Sizes { file_lines_max, function_lines_max }, files) in
        [(PRODUCTION, production), (TESTS, tests), (TOOLS, tools)]
    {
        for (path, text) in files {
            let lines = text.lines().count();
            if lines > file_lines_max {
                faults.push(format!("{}: {lines} lines, at most {file_lines_max}", path.display()));
            }
            for (number, lines) in functions(&text).filter(|(_, lines)| *lines > function_lines_max) {
                let place = format!("{}:{number}", path.display());
                faults.push(format!("{place}: a function of {lines} lines, at most {function_lines_max}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn what_follows_a_test_module_is_production_code_again() {
    let text = "\
mod first;
#[cfg(test)]
mod tests;
use crate::second;
#[cfg(test)]
#[allow(dead_code)]
pub mod fixtures {
    use crate::third;
}
impl Fourth {
    #[cfg(test)]
    fn only_in_tests(
        argument: u8,
    ) {
        fifth();
    }

    // A comment.
    fn sixth() {}
}
";
    let expected = [
        (1, "mod first;"),
        (4, "use crate::second;"),
        (10, "impl Fourth {"),
        (17, ""),
        (19, "    fn sixth() {}"),
        (20, "}"),
    ];
    assert_eq!(production_lines(text).collect::<Vec<_>>(), expected);
}

#[test]
fn the_length_of_a_function_is_counted_from_its_first_line_to_its_brace() {
    let text = "fn one() {}\npub(crate) async fn four(\n) {\n    five();\n}\ntrait T {\n    fn none(&self);\n}\n";
    assert_eq!(functions(text).collect::<Vec<_>>(), [(1, 1), (2, 4)]);
}

/// The lines that are compiled without `cfg(test)`, without comments, numbered from 1.
fn production_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if line.trim_start() == "#[cfg(test)]" {
            at += lines[at..].iter().take_while(|line| line.trim_start().starts_with("#[")).count();
            at = end_of_item(&lines, at) + 1;
            continue;
        }
        if !line.trim_start().starts_with("//") {
            kept.push((at + 1, *line));
        }
        at += 1;
    }
    kept.into_iter()
}

/// The index of the last line of the item that begins in line `start`.
fn end_of_item(lines: &[&str], start: usize) -> usize {
    let first = lines[start];
    if first.ends_with([';', ',', '}']) {
        return start;
    }
    let indent = &first[..first.len() - first.trim_start().len()];
    let ends = |line: &&str| {
        let closed = line.strip_prefix(indent).is_some_and(|rest| matches!(rest, "}" | "};" | "]" | "];" | ");"));
        closed || (line.ends_with(';') && line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(')')))
    };
    start + lines[start..].iter().position(ends).expect("rustfmt closes an item below its first letter")
}

/// The functions that have a body: the number of their first line, and how many lines they have.
fn functions(text: &str) -> impl Iterator<Item = (usize, usize)> {
    const BEFORE_FN: &[&str] = &["pub", "async", "const", "default", "unsafe", "extern"];
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let mut words = line.split_whitespace();
        words.by_ref().find(|word| !BEFORE_FN.iter().any(|before| word.starts_with(before))) == Some("fn")
    };
    let starts: Vec<usize> = (0..lines.len()).filter(|index| begins(lines[*index])).collect();
    starts.into_iter().filter_map(move |start| {
        let end = end_of_item(&lines, start);
        (!lines[end].ends_with(';')).then(|| (start + 1, end - start + 1))
    })
}

/// What begins a comment in this file. None where the file has no comments of its own, and for
/// migrations: databases remember their checksums, so a released one never changes.
fn comment_marker(path: &Path, text: &str) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some("//"),
        Some("py" | "toml" | "yaml") => Some("#"),
        None if text.starts_with("#!") || name == "Dockerfile" => Some("#"),
        _ => None,
    }
}

/// A line that could have been broken and was not. A link has no place for a break.
fn is_too_wide(line: &str) -> bool {
    let words = line.trim_start().trim_start_matches(['/', '!', '#', '-', ' ']);
    line.chars().count() > WIDTH_MAX && words.contains(' ')
}

fn room_of(path: &Path) -> String {
    let below_src = path.strip_prefix(root().join("src")).expect("sources are below src");
    let first = below_src.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below src except the test modules that have a file of their own.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = rust_files("src");
    found.retain(|(path, _)| !is_test(path));
    found
}

/// Whether a file below src is a test module of its own, or belongs to one.
fn is_test(path: &Path) -> bool {
    let below_src = path.strip_prefix(root().join("src")).expect("sources are below src");
    below_src.with_extension("").components().any(|part| part.as_os_str() == "tests")
}

/// Every Rust file below this folder, in a fixed order.
fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    read_texts(&root().join(folder), &mut found);
    found.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    found.sort();
    found
}

/// Every file of the repository that may have comments of its own, in a fixed order.
fn texts() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    read_texts(&root(), &mut found);
    found.sort();
    found
}

/// What is built, fetched or recorded is not read.
fn read_texts(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    const LEFT_OUT: &[&str] = &[".git", "target", "certs", "corpus", "__pycache__", "seeds"];
    for entry in fs::read_dir(folder).expect("the sources are readable") {
        let path = entry.expect("the sources are readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if LEFT_OUT.contains(&&*name) {
            continue;
        }
        let is_data = path.extension().is_some_and(|extension| extension == "json" || extension == "gz");
        if path.is_dir() {
            read_texts(&path, found);
        } else if !is_data && let Ok(text) = fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
}

/// The list in `registry/mod.rs` is a map of the room, so it has to be true: each module uses only
/// modules above it. A module may name another only by its file, not through what `mod.rs` exports.
#[test]
fn modules_of_the_registry_use_only_those_listed_above_them() {
    let room = root().join("src/registry");
    let facade = fs::read_to_string(room.join("mod.rs")).expect("the registry has a mod.rs");
    let order: Vec<&str> =
        facade.lines().filter_map(|line| line.strip_prefix("//! - `")?.split_once('`').map(|(name, _)| name)).collect();
    let declared = facade.lines().filter_map(|line| {
        let name = line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?;
        (name != "test_kinds").then_some(name)
    });
    let mut faults: Vec<String> =
        declared.filter(|name| !order.contains(name)).map(|name| format!("mod.rs does not list {name}")).collect();
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with(&room)) {
        let inner = path.strip_prefix(&room).expect("it is in the room").with_extension("");
        let parts: Vec<_> = inner.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let Some(at) = order.iter().position(|name| *name == parts[0]) else { continue };
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: String = production.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // In a file of a module's own folder, the room is one step further up.
        let is_deep = parts.len() > 1 && parts[1] != "mod";
        let up = if is_deep { "super::super::" } else { "super::" };
        let used = [up, "crate::registry::"].into_iter().flat_map(|prefix| named_after(&code, prefix));
        for name in used.filter(|name| *name != "super") {
            match order.iter().position(|known| *known == name) {
                Some(below) if below < at => {}
                Some(below) if below == at && is_deep => {}
                Some(_) => faults.push(format!("{}: {} must not use {name}", path.display(), parts[0])),
                None => faults.push(format!("{}: name the module that has {name}", path.display())),
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn names_in_paths_and_in_lists_of_paths_are_found() {
    let code = "use super::{a::B, c, d::{E, F}}; use super::super::x; super::y::z(super::w)";
    assert_eq!(named_after(code, "super::"), ["a", "c", "d", "super", "y", "w"]);
    assert_eq!(named_after(code, "super::super::"), ["x"]);
}

/// The names that follow `prefix` in a path: one, or those of a list in braces.
fn named_after<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let is_inside = code[..at].ends_with("super::");
        let rest = &code[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.extend((!is_inside).then(|| word(rest)));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (place, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    let name = word(list[start..place].trim_start());
                    names.extend((!is_inside && !name.is_empty()).then_some(name));
                    start = place + 1;
                    if letter == '}' {
                        break;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    names
}

fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}
