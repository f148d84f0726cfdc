//! Architecture tests: dependencies between crates, pure modules, and limits on the length of
//! lines, functions and files.
//!
//! They read the sources as text. That suffices, because rustfmt puts the brace that closes an item
//! below the first letter of that item. Code that only tests compile is exempt from the rules about
//! imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Dependencies that only the named crates may have. `ballast` is the package with the commands.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("axum", &["server", "members", "ballast"]),
    ("hyper", &["server", "ballast"]),
    ("opentelemetry", &["node"]),
    ("sqlx", &["store"]),
    ("tonic", &["estimator"]),
    ("clap", &["node", "ballast"]),
    ("prometheus", &["base"]),
    ("kube", &["host", "attach", "node", "ballast"]),
    ("k8s-openapi", &["host"]),
    ("rustls", &["base", "server", "members", "node", "ballast"]),
];

/// Files and folders without async code, without a clock and without a log.
const PURE: &[&str] = &[
    "crates/k8s/src/",
    "crates/engine/src/",
    "crates/resource/src/",
    "crates/registry/src/ownership/",
    "/plan.rs",
    "crates/controllers/src/eviction_task.rs",
    "crates/controllers/src/failover/rate_limiter.rs",
    "crates/controllers/src/graceful_eviction/last_copy.rs",
    "crates/controllers/src/placement/status.rs",
    "crates/attach/src/patch.rs",
    "crates/quota/src/",
    "crates/rebalance/src/advance/decision.rs",
    "crates/rebalance/src/advance/observation.rs",
    "crates/rebalance/src/binding_storage.rs",
    "crates/rebalance/src/intent.rs",
    "crates/rebalance/src/placement_moves.rs",
    "crates/rebalance/src/suggestion.rs",
    "crates/rebalance/src/review/answer.rs",
    "crates/rebalance/src/review/remedies.rs",
    "crates/rebalance/src/review/what_if.rs",
    "crates/rebalance/src/settle.rs",
    "crates/rebalance/src/surge.rs",
    "crates/rebalance/src/surge_step.rs",
    "crates/rebalance/src/waves.rs",
    "crates/scheduler/src/dirty.rs",
    "crates/scheduler/src/fleet/dirty.rs",
    "crates/scheduler/src/convert/",
    "crates/scheduler/src/planning/",
    "crates/scheduler/src/move_annotation.rs",
];

const IMPURE_WORDS: &[&str] =
    &["async fn", ".await", "tokio::", "tracing::", "clock::", "SystemTime", "Instant::now", "std::fs", "std::net"];

/// The maximum width of comments and of Markdown, in characters. rustfmt.toml covers the code.
const WIDTH_MAX: usize = 100;

/// The longest file and the longest function of production code, in lines. The limit of a file is
/// loose, because a tight one scatters the methods of a type over several files.
const PRODUCTION: Sizes = Sizes { file_lines_max: 700, function_lines_max: 170 };
/// The same for tests: the files of `tests`, and unit tests in separate files.
const TESTS: Sizes = Sizes { file_lines_max: 800, function_lines_max: 348 };
/// The same for benches and fuzz targets.
const TOOLS: Sizes = Sizes { file_lines_max: 315, function_lines_max: 72 };

struct Sizes {
    file_lines_max: usize,
    function_lines_max: usize,
}

/// Cargo forbids cycles. The order of the list also keeps a crate from using a later one that
/// happens not to depend on it today.
#[test]
fn crates_use_only_those_listed_above_them() {
    let mut faults = Vec::new();
    let order = members();
    for (at, name) in order.iter().enumerate() {
        for used in dependencies(name).iter().filter_map(|used| used.strip_prefix("ballast-")) {
            if !order[..at].iter().any(|above| above == used) {
                faults.push(format!("crates/{name} must not use {used}"));
            }
        }
    }
    assert!(order.len() > 15 && faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn heavy_dependencies_stay_in_the_crates_that_own_them() {
    let mut faults = Vec::new();
    for name in members().into_iter().chain(["ballast".to_owned()]) {
        let used = dependencies(&name);
        for (heavy, owners) in ONLY_IN {
            if used.iter().any(|used| used == heavy) && !owners.contains(&&*name) {
                faults.push(format!("{name}: {heavy} belongs in {owners:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// A crate that is built alone then shares its dependencies with the workspace, and a binary
/// without a feature omits it in each crate.
#[test]
fn crates_forward_the_features_of_those_they_use() {
    let mut faults = Vec::new();
    let mut features: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let parts: BTreeSet<String> = features_of("ballast").into_keys().filter(|part| part != "default").collect();
    for name in members().into_iter().chain(["ballast".to_owned()]) {
        let own = features_of(&name);
        let used = dependencies(&name);
        let used = used.iter().filter_map(|used| used.strip_prefix("ballast-")).map(str::to_owned);
        for used in used {
            for feature in features[&used].keys().filter(|feature| parts.contains(*feature)) {
                let forwards = |text: &String| {
                    [format!("\"ballast-{used}/{feature}\""), format!("\"ballast-{used}?/{feature}\"")]
                        .iter()
                        .any(|wanted| text.contains(wanted))
                };
                if !own.get(feature).is_some_and(forwards) {
                    faults.push(format!("{name}: the feature {feature} must forward to ballast-{used}/{feature}"));
                }
            }
        }
        for feature in own.keys().filter(|feature| parts.contains(*feature)) {
            if !own.get("default").is_some_and(|text| text.contains(&format!("\"{feature}\""))) {
                faults.push(format!("{name}: {feature} must be in the default features"));
            }
        }
        features.insert(name, own);
    }
    let forwarding = features.values().filter(|own| own.contains_key("postgres")).count();
    assert!(forwarding > 10 && faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The features of a crate, each with the text of its list.
fn features_of(name: &str) -> BTreeMap<String, String> {
    let path = if name == "ballast" { "Cargo.toml".to_owned() } else { format!("crates/{name}/Cargo.toml") };
    let manifest = fs::read_to_string(root().join(path)).expect("a crate has a manifest");
    let Some((_, rest)) = manifest.split_once("\n[features]\n") else { return BTreeMap::new() };
    let own = rest.split("\n[").next().unwrap_or_default();
    let lines = own.lines().filter(|line| !line.starts_with('#'));
    let mut features: Vec<(String, String)> = Vec::new();
    for line in lines {
        match (line.split_once(" = "), features.last_mut()) {
            (Some((feature, list)), _) => features.push((feature.to_owned(), list.to_owned())),
            (None, Some((_, list))) => list.push_str(line),
            (None, None) => {}
        }
    }
    features.into_iter().collect()
}

/// The crates of the workspace, in the order of its manifest.
fn members() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
    let (_, rest) = manifest.split_once("members = [\n").expect("the workspace lists its members");
    let lines = rest.lines().map_while(|line| line.trim().strip_prefix("\"crates/")?.strip_suffix("\","));
    lines.map(str::to_owned).collect()
}

/// Returns the non-development dependencies of a crate.
fn dependencies(name: &str) -> Vec<String> {
    let path = if name == "ballast" { "Cargo.toml".to_owned() } else { format!("crates/{name}/Cargo.toml") };
    let manifest = fs::read_to_string(root().join(path)).expect("a crate has a manifest");
    let (_, rest) = manifest.split_once("\n[dependencies]\n").expect("a crate has dependencies");
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split(['.', ' ']).next()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
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

/// Tables need their rows in one piece. Code and program output are exempt.
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
    let (production, mut tests): (Vec<_>, Vec<_>) = own_files().into_iter().partition(|(path, _)| !is_test(path));
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

/// Returns the comment prefix of this file. None for files without own comments, and for
/// migrations: databases store their checksums, so a released one never changes.
fn comment_marker(path: &Path, text: &str) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some("//"),
        Some("py" | "toml" | "yaml") => Some("#"),
        None if text.starts_with("#!") || name == "Dockerfile" => Some("#"),
        _ => None,
    }
}

/// Returns whether a line could have been broken. A link cannot.
fn is_too_wide(line: &str) -> bool {
    let words = line.trim_start().trim_start_matches(['/', '!', '#', '-', ' ']);
    line.chars().count() > WIDTH_MAX && words.contains(' ')
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every Rust file of the program except test modules in separate files.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = own_files();
    found.retain(|(path, _)| !is_test(path));
    found
}

/// Every Rust file of the program, in `src` and in `crates`.
fn own_files() -> Vec<(PathBuf, String)> {
    [rust_files("src"), rust_files("crates")].concat()
}

/// Returns whether a file of the program is a test module in a separate file, or belongs to one.
fn is_test(path: &Path) -> bool {
    let below = path.strip_prefix(root()).expect("sources are below the root");
    below.with_extension("").components().any(|part| part.as_os_str() == "tests")
}

/// Every Rust file below this folder, in a fixed order.
fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    read_texts(&root().join(folder), &mut found);
    found.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    found.sort();
    found
}

/// Returns every file of the repository that may have comments, in a fixed order.
fn texts() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    read_texts(&root(), &mut found);
    found.sort();
    found
}

/// Built, fetched and recorded files are not read.
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

/// The modules of a crate have no cyclic dependencies. Where a `lib.rs` lists its modules (``//! -
/// `name` ``), each uses only the ones listed above it.
#[test]
fn modules_of_a_crate_use_each_other_in_one_direction() {
    let mut faults = Vec::new();
    for name in members() {
        let modules = Modules::read(&root().join("crates").join(&name).join("src"));
        for circle in modules.circles() {
            faults.push(format!("crates/{name}: a circle of {}", circle.join(", ")));
        }
        for (module, used) in modules.against_the_list() {
            faults.push(format!("crates/{name}: {module} must not use {used}, which is listed below it"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn circles_and_faults_against_the_list_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "//! - `a`: first\n//! - `b`: second\nmod a;\nmod b;\nmod c;\npub use c::Third;\n");
    write("a.rs", "use super::b;\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n");
    write("b.rs", "use crate::Third;\n");
    write("c.rs", "use crate::b::Second;\n");
    let modules = Modules::read(folder.path());
    assert_eq!(modules.circles(), [["b", "c"]]);
    assert_eq!(modules.against_the_list(), [("a".to_owned(), "b".to_owned())]);
}

/// Returns the modules of a crate, each with its dependencies.
struct Modules {
    uses: BTreeMap<String, BTreeSet<String>>,
    /// In the order of the list in `lib.rs`, which may be absent.
    listed: Vec<String>,
}

impl Modules {
    fn read(src: &Path) -> Modules {
        let facade = fs::read_to_string(src.join("lib.rs")).expect("a crate has a lib.rs");
        let listed =
            facade.lines().filter_map(|line| Some(line.strip_prefix("//! - `")?.split_once('`')?.0.to_owned()));
        let code = code_of(&facade);
        let declared = code.split(';').filter_map(|item| {
            let item = item.rsplit('}').next()?.trim();
            item.trim_start_matches("pub ").strip_prefix("mod ").map(str::to_owned)
        });
        let mut modules =
            Modules { uses: declared.map(|name| (name, BTreeSet::new())).collect(), listed: listed.collect() };
        let exported = modules.exported(&code);
        let mut texts = Vec::new();
        read_texts(src, &mut texts);
        for (path, text) in texts {
            let inner = path.strip_prefix(src).expect("it is below src").with_extension("");
            let parts: Vec<_> = inner.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            if parts.iter().any(|part| part == "tests") || !modules.uses.contains_key(&*parts[0]) {
                continue;
            }
            let up = "super::".repeat(parts.len() - usize::from(parts.last().is_some_and(|last| last == "mod")));
            let code = code_of(&text);
            let named = [&*up, "crate::"].into_iter().flat_map(|prefix| named_after(&code, prefix));
            let used: BTreeSet<String> = named
                .filter_map(|name| {
                    exported.get(name).cloned().or_else(|| modules.uses.contains_key(name).then(|| name.to_owned()))
                })
                .filter(|name| *name != *parts[0])
                .collect();
            modules.uses.entry(parts[0].clone().into_owned()).or_default().extend(used);
        }
        modules
    }

    /// Returns the names that `lib.rs` re-exports, with their modules.
    fn exported(&self, code: &str) -> BTreeMap<String, String> {
        let mut exported = BTreeMap::new();
        for item in code.split("use ").skip(1) {
            let item = item.split(';').next().unwrap_or_default();
            let module = word(item);
            if self.uses.contains_key(module) {
                let names = item[module.len()..].split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                exported.extend(names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), module.to_owned())));
            }
        }
        exported
    }

    /// Returns the cycles of modules.
    fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.uses.keys().map(|name| (&**name, self.reached(name))).collect();
        let mut circles: Vec<Vec<String>> = Vec::new();
        for name in self.uses.keys().filter(|name| reached[&***name].contains(&***name)) {
            if !circles.iter().any(|circle| circle.contains(name)) {
                let together = reached[&**name].iter().filter(|other| reached[**other].contains(&**name));
                circles.push(together.map(|other| (*other).to_owned()).collect());
            }
        }
        circles
    }

    fn reached(&self, name: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.uses[name].iter().map(String::as_str).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.uses[next].iter().map(String::as_str));
            }
        }
        reached
    }

    fn against_the_list(&self) -> Vec<(String, String)> {
        let place = |name: &String| self.listed.iter().position(|listed| listed == name);
        let pairs = self.uses.iter().flat_map(|(name, used)| used.iter().map(move |used| (name, used)));
        let wrong = pairs.filter(|(name, used)| place(name).zip(place(used)).is_some_and(|(at, below)| below >= at));
        wrong.map(|(name, used)| (name.clone(), used.clone())).collect()
    }
}

/// The production code of a file in one line, without comments.
fn code_of(text: &str) -> String {
    production_lines(text).map(|(_, line)| line).collect()
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
