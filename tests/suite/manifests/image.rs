//! Tests of the Dockerfile without Docker.

use std::path::Path;
use std::process::Command;

fn dockerfile() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Dockerfile")).unwrap()
}

/// Returns the instructions of this name, each with its continued lines.
fn instructions(name: &str) -> Vec<String> {
    let text = dockerfile().replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.map(str::to_owned).collect()
}

/// Returns the environment of the image.
pub fn environment() -> Vec<(String, String)> {
    let variables = instructions("ENV").join(" ");
    let pairs = variables.split_whitespace().map(|variable| variable.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Cargo accepts no manifest that names a missing file.
#[test]
fn the_layer_of_dependencies_has_a_file_for_every_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r")
        .args(["Cargo.toml", "Cargo.lock", "src", "crates", "tests", "benches", "xtask"].map(|part| root.join(part)));
    assert!(copy.arg(folder.path()).status().unwrap().success());
    let made = Command::new("sh").arg("-c").arg(&instructions("RUN")[0]).current_dir(&folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(&folder);
    let read = cargo.output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    let packages = read["packages"].as_array().unwrap();
    assert!(packages.len() > 15, "{packages:?}");
    for target in packages.iter().flat_map(|package| package["targets"].as_array().unwrap()) {
        let path = target["src_path"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "fn main() { }\n", "{path}");
    }
}

/// Files included from outside `src` and `crates` are copied before the build.
#[test]
fn what_is_built_in_is_copied() {
    let copied = instructions("COPY").join("\n");
    let (mut waiting, mut included) =
        (["src", "crates"].map(|top| Path::new(env!("CARGO_MANIFEST_DIR")).join(top)).to_vec(), 0);
    while let Some(place) = waiting.pop() {
        if place.is_dir() {
            waiting.extend(std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&place).unwrap_or_default();
        let outside = text.split("\"../../../").skip(1).chain(text.split("migrate!(\"").skip(1));
        for folder in outside.filter_map(|path| path.trim_start_matches("../").split(['/', '"']).next()) {
            included += 1;
            assert!(copied.contains(&format!("{folder} ./{folder}")), "{}: {folder} is not copied", place.display());
        }
    }
    assert!(included > 3, "there are such files");
}

/// `--otlp-endpoint`, PostgreSQL and members may have certificates of public CAs.
#[test]
fn the_image_has_the_ca_certificates_of_the_system() {
    let text = dockerfile();
    let last = &text[text.rfind("\nFROM ").unwrap()..].replace("\\\n", " ");
    let installs = last.lines().any(|line| line.contains("apt-get install") && line.contains("ca-certificates"));
    assert!(installs, "the image that is started has no CA certificates:\n{last}");
}

#[test]
fn the_image_serves_and_asks_itself_for_its_health() {
    let words = |name: &str| -> Vec<String> { serde_json::from_str(&instructions(name)[0]).unwrap() };
    let asked = instructions("HEALTHCHECK")[0].split_once("CMD ").unwrap().1.to_owned();
    let asked: Vec<String> = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked, ["ballast", "health"]);
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
        command.envs(environment());
        let output = command.args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let served = words("CMD");
    let shown = run(&[served[0].as_str(), "--print-config"]);
    for line in [
        "bind-address: \"0.0.0.0\"",
        "database-url: sqlite:///var/lib/ballast/ballast.db",
        "cert-dir: /var/lib/ballast/certs",
    ] {
        assert!(shown.contains(line), "{line:?} is missing in:\n{shown}");
    }
    assert!(run(&["health", "--help"]).contains("BALLAST_CERT_DIR=/var/lib/ballast/certs"));
}
