//! The console blocks of a page, with the marks before them.
//!
//! A mark is an HTML comment on the line before the block; `;` separates several of them:
//!
//! - `needs: karmada`: the session of the block (`Need`). Without it, the page's own.
//! - `not run: REASON`: the block cannot run.
//! - `one command`: the output has lines that begin with `$ `, too.
//! - `varies: numbers`: no number of the output is compared.
//! - `varies: order`: the lines of the output come in any order.

use std::fs;
use std::path::{Path, PathBuf};

/// The environment of a session before its first command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A folder with the binary and the examples.
    Nothing,
    /// A fake Karmada without Ballast, after an outage, in `karmada.kubeconfig`.
    Karmada,
    /// The same for a user with rights in the namespace `default` only.
    OneNamespace,
    /// A kube-apiserver without nodes, with the kinds of Karmada and its Deployments.
    KubeApiserver,
    /// A server of which `member1` is a member cluster: a kube-apiserver without nodes.
    Member,
    /// Estimators of two clusters, with their certificates and addresses.
    Estimators,
    /// A server with the fleet of `examples/safe` and reporting agents: two clusters failed and
    /// have recovered.
    Outage,
    /// A server with the same fleet in the first minute of an outage: member1 has just failed.
    DuringOutage,
    /// The programs of PostgreSQL, which do not run as root.
    Postgres,
}

impl Need {
    fn named(name: &str) -> Option<Need> {
        match name {
            "karmada" => Some(Need::Karmada),
            "karmada, one namespace" => Some(Need::OneNamespace),
            "a kube-apiserver" => Some(Need::KubeApiserver),
            "a member cluster" => Some(Need::Member),
            "estimators" => Some(Need::Estimators),
            "outage" => Some(Need::Outage),
            "during an outage" => Some(Need::DuringOutage),
            "postgres" => Some(Need::Postgres),
            _ => None,
        }
    }
}

/// Parts of the output that are not compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Varies {
    pub numbers: bool,
    pub order: bool,
}

#[derive(Debug)]
pub struct Block {
    /// The number of its first line, from 1.
    pub line: usize,
    pub need: Need,
    pub not_run: Option<String>,
    pub varies: Varies,
    pub steps: Vec<Step>,
}

/// A line after `$ ` with its continuation, and the output below it.
#[derive(Clone, Debug)]
pub struct Step {
    pub command: String,
    pub shown: Vec<String>,
}

#[derive(Debug)]
pub struct Page {
    pub name: String,
    pub lines: Vec<String>,
    pub blocks: Vec<Block>,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README.md, UPGRADING.md, and all pages below docs.
pub fn names() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "UPGRADING.md".to_owned()];
    let mut waiting: Vec<PathBuf> = vec![root().join("docs")];
    while let Some(place) = waiting.pop() {
        if place.is_dir() {
            waiting.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if place.extension().is_some_and(|extension| extension == "md") {
            found.push(place.strip_prefix(root()).unwrap().display().to_string());
        }
    }
    found.sort();
    found
}

impl Page {
    pub fn read(name: &str) -> Page {
        let text = fs::read_to_string(root().join(name)).unwrap();
        let mut page =
            Page { name: name.to_owned(), lines: text.lines().map(str::to_owned).collect(), blocks: Vec::new() };
        page.parse();
        page
    }

    fn parse(&mut self) {
        let mut at = 0;
        while at < self.lines.len() {
            let line = &self.lines[at];
            assert!(line == "```console" || !line.trim_start().starts_with("```console"), "{}:{}", self.name, at + 1);
            if line != "```console" {
                at += 1;
                continue;
            }
            let mut block = Block {
                line: at + 1,
                need: Need::Nothing,
                not_run: None,
                varies: Varies::default(),
                steps: Vec::new(),
            };
            let mut is_one = false;
            let above = at.checked_sub(1).map(|above| self.lines[above].trim()).unwrap_or_default();
            let marks = above.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")).unwrap_or_default();
            for mark in marks.split(';').map(str::trim).filter(|mark| !mark.is_empty()) {
                match mark.split_once(": ").unwrap_or((mark, "")) {
                    ("needs", name) => {
                        block.need = Need::named(name).unwrap_or_else(|| panic!("{}: {mark}", self.name))
                    }
                    ("not run", reason) => block.not_run = Some(reason.to_owned()),
                    ("one command", _) => is_one = true,
                    ("varies", "numbers") => block.varies.numbers = true,
                    ("varies", "order") => block.varies.order = true,
                    _ => panic!("{}:{at}: no such mark: {mark}", self.name),
                }
            }
            let end = (at + 1..).find(|end| self.lines[*end] == "```").expect("a block ends");
            let mut inner = at + 1;
            while inner < end {
                let line = &self.lines[inner];
                inner += 1;
                match line.strip_prefix("$ ").filter(|_| !is_one || block.steps.is_empty()) {
                    Some(command) => {
                        let mut command = command.to_owned();
                        while command.ends_with('\\') {
                            command = format!("{command}\n{}", self.lines[inner]);
                            inner += 1;
                        }
                        block.steps.push(Step { command, shown: Vec::new() });
                    }
                    None => match block.steps.last_mut() {
                        Some(step) => step.shown.push(line.clone()),
                        None => panic!("{}:{inner}: output follows a command", self.name),
                    },
                }
            }
            at = end + 1;
            self.blocks.push(block);
        }
    }
}
