//! Every recorded case through the built binary. `ballast simulate` agrees with the recordings,
//! except for the cases that are listed with their reasons.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::vectors;

fn files(family: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(family);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    files.sort();
    files
}

fn simulate(flags: &[&str], files: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(["simulate", "--scheduling-profile", "karmada"]).args(flags);
    for file in files {
        command.arg("-f").arg(file);
    }
    command.output().expect("the binary runs")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Asserts that standard output has exactly the listed cases, each with its differences, and that
/// the exit status is 3 if there are any.
fn differ_as_listed(family: &str, file_count: usize, listed: &[(&str, &str)]) {
    let files = files(family);
    assert_eq!(files.len(), file_count);
    let checked = simulate(&["--check"], &files);
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    let different: BTreeSet<String> =
        lines(&checked).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(different, listed.iter().map(|(id, _)| (*id).to_owned()).collect(), "{told}");
    assert_eq!(checked.status.code(), Some(if listed.is_empty() { 0 } else { 3 }), "{told}");
    assert!(listed.is_empty() || told.contains(&format!("{} of ", listed.len())), "{told}");
    for line in lines(&checked) {
        assert!(!line["differences"].as_array().unwrap().is_empty(), "{line}");
    }
}

#[test]
fn karmada_s_cases_are_answered_as_recorded() {
    differ_as_listed("karmada", 24, vectors::DIFFERENT);
}

#[test]
fn the_fleet_family_s_cases_are_answered_as_recorded() {
    differ_as_listed("fleet", 16, &[]);
}

/// Each case has one line, in order, and the exit status is 0. A cycle that is recorded as failed
/// is a result, too.
#[test]
fn every_case_has_its_line_with_its_id() {
    let files = [files("karmada"), files("fleet")].concat();
    let answered = simulate(&[], &files);
    assert_eq!(answered.status.code(), Some(0), "{}", String::from_utf8_lossy(&answered.stderr));
    let ids: Vec<Value> = lines(&answered).into_iter().map(|mut line| line["id"].take()).collect();
    let recorded: Vec<Value> =
        files.iter().flat_map(|file| vectors::lines_of(file)).map(|mut line| line["id"].take()).collect();
    assert!(recorded.len() > 3000, "{}", recorded.len());
    assert_eq!(ids, recorded);
}

#[test]
fn what_agrees_exits_with_0_and_what_cannot_be_read_with_2() {
    let pickn = files("fleet").into_iter().filter(|file| file.ends_with("pickn.jsonl.gz")).collect::<Vec<_>>();
    let agreed = simulate(&["--check"], &pickn);
    assert_eq!((agreed.status.code(), agreed.stdout.is_empty()), (Some(0), true));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.jsonl");
    std::fs::write(&file, "{\"id\": \"a\", \"memberClusters\": 7}\n{\"id\": \"b\"}\n").unwrap();
    let broken = simulate(&[], &[file]);
    assert_eq!(broken.status.code(), Some(2));
    assert_eq!(lines(&broken).iter().filter(|line| line["error"].is_string()).count(), 2);
    assert_eq!(simulate(&["--check", "--trace"], &[]).status.code(), Some(2));
    assert_eq!(simulate(&[], &[folder.path().join("absent")]).status.code(), Some(1));
}
