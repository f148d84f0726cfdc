//! The plugin's manifest for krew: the requirements of krew, and the names of the archives.

use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::deploy;

/// The members that krew knows (`krew.googlecontainertools.github.com/v1alpha2`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugin {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    version: String,
    short_description: String,
    description: String,
    caveats: String,
    platforms: Vec<Platform>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    selector: Selector,
    uri: String,
    sha256: String,
    bin: String,
    files: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: Labels,
}

/// krew selects by these two alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    os: String,
    arch: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    from: String,
    to: String,
}

const URL: &str = "https://releases.example/v1";

/// Packs a placeholder for the binary, for these architectures.
fn packed(folder: &Path, arches: &[&str]) -> Plugin {
    let binary = folder.join("ballast");
    std::fs::write(&binary, "#!/bin/sh\n").unwrap();
    let made = Command::new("chmod").arg("+x").arg(&binary).status().unwrap();
    assert!(made.success());
    let mut make = Command::new(deploy().join("krew/make"));
    make.arg(URL).arg(folder.join("out"));
    make.args(arches.iter().map(|arch| format!("{arch}={}", binary.display())));
    let done = make.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_saphyr::from_str(&String::from_utf8(done.stdout).unwrap()).unwrap()
}

#[test]
fn the_plugins_manifest_is_one_that_krew_takes_and_names_what_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let semantic = Regex::new(r"^v\d+\.\d+\.\d+$").unwrap();
    for arches in [&["amd64"][..], &["arm64"], &["amd64", "arm64"]] {
        let plugin = packed(folder.path(), arches);
        assert_eq!(plugin.api_version, "krew.googlecontainertools.github.com/v1alpha2");
        assert_eq!((&*plugin.kind, &*plugin.metadata.name), ("Plugin", "ballast"));
        let spec = plugin.spec;
        assert_eq!(spec.version, concat!("v", env!("CARGO_PKG_VERSION")));
        assert!(semantic.is_match(&spec.version), "krew wants a semantic version");
        assert!(!spec.short_description.is_empty() && !spec.short_description.contains('\n'));
        assert!(!spec.description.is_empty() && !spec.caveats.is_empty());
        let found: Vec<&str> = spec.platforms.iter().map(|it| &*it.selector.match_labels.arch).collect();
        assert_eq!(found, arches);
        for platform in &spec.platforms {
            assert_eq!(platform.selector.match_labels.os, "linux");
            let archive = platform.uri.strip_prefix(&format!("{URL}/")).unwrap();
            let archive = folder.path().join("out").join(archive);
            let sum = Sha256::digest(std::fs::read(&archive).unwrap());
            assert_eq!(platform.sha256, sum.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            let listed = Command::new("tar").arg("tzf").arg(&archive).output().unwrap();
            let listed = String::from_utf8(listed.stdout).unwrap();
            let inside: Vec<&str> = listed.lines().map(|line| line.trim_start_matches("./")).collect();
            assert!(platform.files.iter().all(|it| inside.contains(&&*it.from) && it.to == "."), "{listed}");
            // krew links the name of the plugin to this file.
            assert!(platform.bin == "kubectl-ballast" && inside.contains(&&*platform.bin), "{listed}");
        }
    }
}

#[test]
fn packing_refuses_what_is_no_binary() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in [&[][..], &["amd64=missing"], &["sparc=/bin/sh"]] {
        let done = Command::new(deploy().join("krew/make")).arg(URL).arg(folder.path()).args(wrong).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && told.contains("usage: deploy/krew/make"), "{wrong:?}: {told}");
    }
}
