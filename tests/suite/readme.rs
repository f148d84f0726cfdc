//! Pastes the README's walk with kubectl and curl into one shell, line by line, and compares what
//! is printed with what the README shows.
//!
//! Where a tool is not installed the test says that it was skipped.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Printed before each step, so that its output is told from the one before.
const MARK: &str = "-- step";
const TOOLS: [&str; 3] = ["bash", "kubectl", "curl"];

/// A line after `$ ` with what continues it, and the output that is shown below.
#[derive(Clone)]
struct Step {
    line: String,
    shown: String,
}

#[test]
fn the_readmes_walk_prints_what_the_readme_shows() {
    if let Some(tool) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: {tool} is not on the PATH");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let steps = [steps(section(&readme, "## With kubectl")), steps(section(&readme, "## With curl"))].concat();
    assert!(steps.len() > 20, "the walk is there");

    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let here = |text: &str| text.replace("7443", &port.to_string());
    symlink(root.join("examples"), folder.path().join("examples")).unwrap();
    std::fs::create_dir_all(folder.path().join("target/debug")).unwrap();
    symlink(env!("CARGO_BIN_EXE_ballast"), folder.path().join("target/debug/ballast")).unwrap();
    let mut script = String::new();
    for step in steps.iter().filter(|step| !step.line.starts_with("cargo ")) {
        script += &format!("echo '{MARK}'\n{}\n", here(&step.line));
    }
    // Whatever became of the walk, its server does not outlive it.
    script += "kill %1 2> /dev/null; wait\n";
    let path = folder.path().join("walk");
    std::fs::write(&path, script).unwrap();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120", "bash"]).arg(&path).current_dir(folder.path());
    command.env("HOME", folder.path()).env("BALLAST_SECURE_PORT", port.to_string()).stdin(Stdio::null());
    // A pipe would stay open for as long as the server holds it.
    let printed = folder.path().join("printed");
    let file = std::fs::File::create(&printed).unwrap();
    command.stderr(file.try_clone().unwrap()).stdout(file);
    let ended = command.status().unwrap();
    let printed = std::fs::read_to_string(printed).unwrap();
    assert!(ended.success(), "the walk ended with {ended}:\n{printed}");

    let mark = format!("{MARK}\n");
    let mut outputs = printed.split(&mark).skip(1);
    let mut ready = false;
    for step in steps.iter().filter(|step| !step.line.starts_with("cargo ")) {
        let got = outputs.next().unwrap_or_else(|| panic!("{} was not reached:\n{printed}", step.line));
        // The server says that it is ready while the next step waits for that.
        let (mut got, mut shown) = (even(got), even(&here(&step.shown)));
        let line = format!("ballast is ready at https://127.0.0.1:{port} (kubeconfig: certs/admin.kubeconfig)");
        for text in [&mut got, &mut shown] {
            ready |= text.contains(&line);
            text.retain(|it| *it != line);
        }
        assert_eq!(got, shown, "$ {}", step.line);
    }
    assert!(ready, "{printed}");
}

fn is_installed(tool: &str) -> bool {
    let version = if tool == "kubectl" { ["version", "--client"].as_slice() } else { &["--version"] };
    Command::new(tool).args(version).output().is_ok_and(|output| output.status.success())
}

/// From this heading to the next one of its level.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let (_, below) = text.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("{heading} is missing"));
    below.split("\n## ").next().unwrap()
}

fn steps(section: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in section.split("```console\n").skip(1) {
        let mut lines = block.split("```").next().unwrap().lines();
        while let Some(line) = lines.next() {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    let mut line = command.to_owned();
                    while line.ends_with('\\') {
                        line = format!("{line}\n{}", lines.next().expect("a line that continues"));
                    }
                    steps.push(Step { line, shown: String::new() });
                }
                None => steps.last_mut().expect("output follows a command").shown += &format!("{line}\n"),
            }
        }
    }
    steps
}

/// Lines with the ages evened out, and without the spaces that align them.
fn even(text: &str) -> Vec<String> {
    let is_age = |word: &str| word.strip_suffix('s').is_some_and(|digits| digits.parse::<u32>().is_ok());
    let word = |word| if is_age(word) { "AGE" } else { word };
    let lines = text.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect()
}
