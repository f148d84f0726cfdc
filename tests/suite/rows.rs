//! Checks docs/apiserver.md and docs/security.md against the tests.
//!
//! Every row of the checklist that must or should hold has a test that carries its id, another test
//! that docs/apiserver.md names, or a reason why there is none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_row_has_its_test_or_its_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/apiserver.md")).unwrap();
    let tests = test_names(root);
    let carried: BTreeSet<String> = tests.iter().flat_map(|name| rows_of(name)).collect();
    let named = table(&document, "## Observed under another name");
    let excused = table(&document, "## Not observed");
    let mut faults: Vec<String> = Vec::new();
    for (row, test) in &named {
        if !tests.contains(test) {
            faults.push(format!("{row}: there is no test {test}"));
        }
    }
    let lists = ["## Must hold", "## Should hold"].into_iter().flat_map(|heading| below(&document, heading));
    let listed: Vec<&str> = lists.filter_map(|line| line.strip_prefix("- ")).flat_map(str::split_whitespace).collect();
    assert!(listed.len() > 300, "the lists of rows are there");
    let has = |table: &[(String, String)], row: &str| table.iter().any(|(known, _)| known == row);
    for row in listed {
        let is_carried = carried.contains(&row.to_lowercase());
        if !is_carried && !has(&named, row) && !has(&excused, row) {
            faults.push(format!("{row}: no test carries it, and nothing says why"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// docs/security.md names the test of each claim as `room::its_name`, abbreviated with `…`.
#[test]
fn every_claim_of_security_names_a_test_that_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let tests = test_names(root);
    // The tables of threats come before.
    let cells = document.lines().skip_while(|line| *line != "## Threats, and what the server does");
    let named: Vec<&str> = cells.flat_map(|line| line.split('`').skip(1).step_by(2)).filter_map(last_part).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        let known = match name.strip_suffix('…') {
            Some(start) => tests.iter().any(|test| test.starts_with(start)),
            None => tests.contains(name),
        };
        assert!(known, "there is no test {name}");
    }
}

/// docs/dev/requirements.md names tests for each line of the document on objectives.
#[test]
fn every_line_on_objectives_names_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/dev/requirements.md")).unwrap();
    let tests = test_names(root);
    let lines = document.lines().skip_while(|line| *line != "### The document on objectives, line by line").skip(1);
    let cells: Vec<(&str, &str)> = lines
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .collect();
    assert!(cells.len() > 30, "the table is there");
    for (line, named) in cells.into_iter().skip(1) {
        let mut known = named.split('`').skip(1).step_by(2).peekable();
        assert!(known.peek().is_some() || named.starts_with('"'), "{line} names no test");
        for name in known {
            assert!(tests.contains(name), "{line}: there is no test {name}");
        }
    }
}

fn last_part(path: &str) -> Option<&str> {
    path.rsplit_once("::").map(|(_, name)| name)
}

/// The ids at the beginning of a name: `st1_and_st2_status_is_kept` carries st1 and st2.
fn rows_of(name: &str) -> Vec<String> {
    let is_row = |word: &str| {
        let (letters, digits) = word.split_at(word.len().min(2));
        letters.len() == 2
            && letters.bytes().all(|byte| byte.is_ascii_lowercase())
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let words = name.split('_').take_while(|word| is_row(word) || *word == "and");
    words.filter(|word| is_row(word)).map(str::to_owned).collect()
}

/// The rows of the table below this heading, up to the next one: id and second column.
fn table(document: &str, heading: &str) -> Vec<(String, String)> {
    let cells = below(document, heading).filter_map(|line| {
        let (row, what) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((row.to_owned(), what.to_owned()))
    });
    cells.filter(|(row, _)| row != "row").collect()
}

/// The lines below this heading, up to the next one.
fn below<'t>(document: &'t str, heading: &str) -> impl Iterator<Item = &'t str> {
    let below = document.lines().skip_while(move |line| *line != heading).skip(1);
    below.take_while(|line| !line.starts_with("## "))
}

/// The names of all test functions, wherever they are.
fn test_names(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = ["src", "crates", "tests/suite"].map(|place| root.join(place)).into();
    while let Some(place) = waiting.pop() {
        if place.is_dir() {
            waiting.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if place.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&place).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim_start) {
                if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if let Some((_, after)) = line.split_once("fn ").filter(|_| !line.starts_with("//")) {
                    if is_test {
                        names.extend(after.split(['(', '<']).next().map(str::to_owned));
                    }
                    is_test = false;
                }
            }
        }
    }
    names
}
