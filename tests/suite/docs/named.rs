//! Checks that names in documents exist: links and their anchors, paths, flags and commands of the
//! command line, metrics, annotations and environment variables.
//!
//! Commands are read from code: from console blocks, indented blocks and spans between backticks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::page::{self, root};
use crate::requirements;

/// Documents that are read in addition to the ones with sessions.
const MORE_DOCUMENTS: [&str; 3] = ["CONTRIBUTING.md", "TESTING.md", "SECURITY.md"];

/// A path with one of these prefixes is in the repository.
const FOLDERS: [&str; 11] =
    ["src", "crates", "tests", "docs", "deploy", "examples", "benches", "fuzz", "migrations", "openapi", ".ci"];

/// Exceptions that look like a path of the repository, with reasons.
const NOT_PATHS: &[(&str, &str)] = &[
    ("deploy/ballast", "kubectl's name of a Deployment"),
    ("crates/server/src/ui/screens/taints.js", "a recipe makes it"),
];

/// Flags of other programs that appear without their program, with that program.
const OTHER_FLAGS: &[(&str, &str)] = &[
    ("--binary", "cargo xtask"),
    ("--build", "tests/release/run"),
    ("--cacert", "curl"),
    ("--call-graph", "perf"),
    ("--cascade", "kubectl"),
    ("--cert", "curl"),
    ("--check", "tests/browser/run"),
    ("--event-ttl", "kube-apiserver"),
    ("--excused", "tests/oracle/run"),
    ("--figures", "tests/browser/run"),
    ("--from-file", "kubectl"),
    ("--global", "npm"),
    ("--installation", "a recipe makes it"),
    ("--key", "curl"),
    ("--kube-api-qps", "karmada-controller-manager"),
    ("--list", "kubectl"),
    ("--no-run", "cargo"),
    ("--only", "a bench"),
    ("--output-path", "openapi-python-client"),
    ("--patch-file", "kubectl"),
    ("--raw", "kubectl"),
    ("--replicas", "kubectl"),
    ("--reuse-values", "helm"),
    ("--set", "helm"),
    ("--subresource", "kubectl"),
    ("--target", "cargo xtask"),
    ("--type", "kubectl"),
    ("--validate", "kubectl"),
    ("--values", "helm"),
    ("--suite", "tests/mutants/run"),
];

/// Programs with their own flags.
const OTHER_PROGRAMS: &[&str] = &[
    "KARMADA",
    "apt-get",
    "cargo",
    "createdb",
    "curl",
    "docker",
    "git",
    "helm",
    "initdb",
    "karmada-controller-manager",
    "karmada-scheduler",
    "karmadactl",
    "kcurl",
    "kube-apiserver",
    "kubectl",
    "openapi-generator-cli",
    "openapi-python-client",
    "pg_ctl",
    "pg_dump",
    "pg_restore",
    "promtool",
    "psql",
    "rustup",
    "sed",
    "tests/clients/run",
    "tests/mutants/run",
];

/// Words after `ballast` in prose: `ballast is ready` and `ballast starts`.
const NOT_COMMANDS: [&str; 3] = ["help", "is", "starts"];

/// Exceptions with the prefix of a metric, with their meaning.
const NOT_METRICS: &[(&str, &str)] = &[
    ("ballast_client", "a package that a generator makes"),
    ("ballast_dev", "the folder of such a package"),
    ("ballast_reviews_total", "a recipe makes it"),
    ("ballast_replica", "a pattern of grep"),
];

static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").unwrap());
static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`([^`]+)`").unwrap());
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[\w./…*{}<>$-]+").unwrap());
static FLAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|[^\w-])(--[a-z][a-z0-9-]*)").unwrap());
static COMMAND: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\s*(?:\|\||&&|;|\|)\s*").unwrap());
static ANNOTATION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|[^\w.])(ballast\.dev/[a-z][a-z-]*)").unwrap());
static VERSION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"/v\d").unwrap());
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bBALLAST_[A-Z_]+").unwrap());
static METRIC: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:ballast|apiserver|scheduler|authentication|authorization|process)_[a-z_]+(?:::)?").unwrap()
});

#[test]
fn every_link_leads_somewhere() {
    let mut faults = Vec::new();
    let mut anchors: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for document in documents() {
        for line in document.lines.iter().filter(|line| !line.is_code) {
            for target in LINK.captures_iter(&line.text).map(|found| found[1].to_owned()) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
                let file = if path.is_empty() { document.path() } else { plain(&document.folder().join(path)) };
                let is_there = match (root().join(&file).exists(), anchor) {
                    (false, _) => false,
                    (true, "") => true,
                    (true, anchor) => {
                        anchors.entry(file.clone()).or_insert_with(|| self::anchors(&file)).contains(anchor)
                    }
                };
                if !is_there {
                    faults.push(format!("{}: {target}", line.place));
                }
            }
        }
    }
    assert!(faults.is_empty(), "these links lead nowhere:\n{}", faults.join("\n"));
}

#[test]
fn every_path_exists() {
    let mut faults = Vec::new();
    for document in documents() {
        for line in &document.lines {
            for word in WORD.find_iter(&line.text).map(|word| word.as_str().trim_end_matches(['.', '/'])) {
                let is_path = word.split_once('/').is_some_and(|(top, _)| FOLDERS.contains(&top));
                let is_pattern = word.contains(['…', '*', '{', '}', '<', '>', '$']) || word.contains("NAME");
                if !is_path || is_pattern || NOT_PATHS.iter().any(|(other, _)| *other == word) {
                    continue;
                }
                if !root().join(word).exists() && !root().join(document.folder()).join(word).exists() {
                    faults.push(format!("{}: {word}", line.place));
                }
            }
        }
    }
    // Sources and scripts reference documents by a path from the root or from their own folder.
    for (path, text) in requirements::files() {
        for (number, line) in text.lines().enumerate() {
            for name in line.split(|c: char| !is_path_letter(c)).filter(|word| word.ends_with(".md")) {
                let beside = path.parent().expect("a file is in a folder").join(name);
                if name != ".md" && !root().join(name).exists() && !beside.exists() {
                    faults.push(format!("{}:{}: {name}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "these paths do not exist:\n{}", faults.join("\n"));
}

#[test]
fn every_command_and_flag_is_in_the_definition_of_the_command_line() {
    let definition = ballast::cli::definition();
    let flags = |command: &clap::Command| -> BTreeSet<String> {
        let long = command.get_arguments().filter_map(|flag| flag.get_long()).map(|long| format!("--{long}"));
        long.chain(["--help".to_owned(), "--version".to_owned()]).collect()
    };
    let commands: BTreeMap<&str, BTreeSet<String>> =
        definition.get_subcommands().map(|command| (command.get_name(), flags(command))).collect();
    let all: BTreeSet<&String> = commands.values().flatten().collect();
    let mut faults = Vec::new();
    for document in documents() {
        for (place, code) in document.commands() {
            for part in COMMAND.split(&code) {
                let mut words = part.split_whitespace().peekable();
                while words.next_if(|word| word.split_once('=').is_some_and(|(name, _)| is_variable(name))).is_some() {}
                let mut program = words.next().unwrap_or_default();
                if program == "kubectl" && words.peek() == Some(&"ballast") {
                    program = words.next().expect("it was peeked");
                }
                if OTHER_PROGRAMS.contains(&program) {
                    continue;
                }
                let command = words.peek().copied().filter(|_| program == "ballast");
                let own = command.and_then(|command| commands.get(command));
                let is_name = |name: &str| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
                if let (Some(command), None) = (command, own)
                    && is_name(command)
                    && !command.starts_with('-')
                    && !NOT_COMMANDS.contains(&command)
                {
                    faults.push(format!("{place}: there is no command {command}: {part}"));
                    continue;
                }
                for flag in FLAG.captures_iter(part).map(|found| found[1].trim_end_matches('-').to_owned()) {
                    let is_known = match own {
                        Some(own) => own.contains(&flag),
                        None => {
                            let is_beginning = part.contains(&format!("{flag}-*"));
                            all.contains(&flag)
                                || is_beginning && all.iter().any(|known| known.starts_with(&flag))
                                || OTHER_FLAGS.iter().any(|(other, _)| *other == flag)
                        }
                    };
                    if !is_known {
                        faults.push(format!("{place}: there is no flag {flag}: {part}"));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_metric_is_in_the_registry() {
    let names: BTreeSet<String> = ballast::metrics::names().into_iter().collect();
    let crates: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| format!("ballast_{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    let mut faults = Vec::new();
    for document in documents() {
        for line in &document.lines {
            for found in METRIC.find_iter(&line.text) {
                let name = found.as_str();
                let is_beginning = line.text[found.end()..].starts_with(['*', '…']);
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                let is_known = name.ends_with("::")
                    || crates.contains(name)
                    || names.contains(name)
                    || names.contains(base)
                    || is_beginning && names.iter().any(|known| known.starts_with(name))
                    || NOT_METRICS.iter().any(|(other, _)| *other == name);
                if !is_known {
                    faults.push(format!("{}: {name}", line.place));
                }
            }
        }
    }
    assert!(faults.is_empty(), "these metrics do not exist:\n{}", faults.join("\n"));
}

#[test]
fn every_annotation_and_every_variable_is_in_the_sources() {
    let sources = sources();
    let mut faults = Vec::new();
    for document in documents() {
        for line in &document.lines {
            let annotations = ANNOTATION.captures_iter(&line.text).map(|found| found[1].to_owned());
            let variables = VARIABLE.find_iter(&line.text).map(|found| found.as_str().to_owned());
            for name in annotations.chain(variables) {
                let is_made = NOT_PATHS.iter().chain(OTHER_FLAGS).any(|(_, why)| *why == "a recipe makes it")
                    && name == "BALLAST_INSTALLATION";
                if !VERSION.is_match(&name) && !name.ends_with("/v") && !is_made && !sources.contains(&name) {
                    faults.push(format!("{}: {name}", line.place));
                }
            }
        }
    }
    assert!(faults.is_empty(), "no source has these:\n{}", faults.join("\n"));
}

struct Document {
    name: String,
    lines: Vec<Line>,
}

struct Line {
    /// `docs/cli.md:7`
    place: String,
    text: String,
    is_code: bool,
}

impl Document {
    fn path(&self) -> PathBuf {
        PathBuf::from(&self.name)
    }

    fn folder(&self) -> &Path {
        Path::new(&self.name).parent().expect("it has a folder")
    }

    /// Returns lines of code with their continuations, and spans of code.
    fn commands(&self) -> Vec<(&str, String)> {
        let mut found: Vec<(&str, String)> = Vec::new();
        let mut is_continued = false;
        for line in &self.lines {
            if line.is_code || line.text.starts_with("    ") {
                let text = line.text.trim().trim_start_matches("$ ").trim_end_matches('\\');
                match found.last_mut().filter(|_| is_continued) {
                    Some((_, command)) => command.push_str(text),
                    None => found.push((&line.place, text.to_owned())),
                }
                is_continued = line.text.ends_with('\\');
            } else {
                let spans = SPAN.captures_iter(&line.text).map(|span| (&*line.place, span[1].to_owned()));
                found.extend(spans);
            }
        }
        found
    }
}

fn documents() -> Vec<Document> {
    let names = page::names().into_iter().chain(MORE_DOCUMENTS.map(str::to_owned));
    names.map(|name| read(&name)).collect()
}

fn read(name: &str) -> Document {
    let text = fs::read_to_string(root().join(name)).unwrap();
    let mut in_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if !is_fence {
            let place = format!("{name}:{}", index + 1);
            lines.push(Line { place, text: line.to_owned(), is_code: in_code });
        }
    }
    Document { name: name.to_owned(), lines }
}

/// Returns the anchors that GitHub generates for the headings of a page.
fn anchors(file: &Path) -> BTreeSet<String> {
    let document = read(&file.display().to_string());
    let headings = document.lines.iter().filter(|line| !line.is_code && line.text.starts_with('#'));
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let text = heading.text.trim_start_matches('#').trim().to_lowercase();
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        anchors.insert(text.chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect());
    }
    anchors
}

/// Returns the path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn is_path_letter(c: char) -> bool {
    c.is_alphanumeric() || "_-./…".contains(c)
}

fn is_variable(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// Returns the texts of the program, the tests and their scripts.
fn sources() -> String {
    const ENDINGS: [&str; 5] = ["rs", "py", "js", "yaml", ""];
    let mut text = String::new();
    let mut waiting: Vec<PathBuf> = ["src", "crates", "tests", ".ci", "deploy"].map(|it| root().join(it)).into();
    while let Some(place) = waiting.pop() {
        let ending = place.extension().unwrap_or_default().to_string_lossy().into_owned();
        if place.is_dir() {
            waiting.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if ENDINGS.contains(&&*ending) && !place.ends_with("tests/suite/docs/named.rs") {
            text += &fs::read_to_string(&place).unwrap_or_default();
        }
    }
    text
}
