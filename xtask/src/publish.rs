//! The last steps of a release. They need keys and accounts, so they are printed instead of run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::archive::sha256;

/// Checks that the folder is complete, and prints one command for each destination.
#[expect(clippy::print_stdout, reason = "a program for people")]
pub fn print(version: &str, out: &Path) -> Result<()> {
    let sums = fs::read_to_string(out.join("SHA256SUMS"))
        .with_context(|| format!("{} has no release: run `cargo xtask release {version}`", out.display()))?;
    for line in sums.lines() {
        let (digest, name) = line.split_once("  ").context("SHA256SUMS has lines of a hash and a name")?;
        let bytes = fs::read(out.join(name)).with_context(|| format!("failed to read {name}"))?;
        ensure!(sha256(&bytes) == digest, "{name} is not the file that SHA256SUMS names");
    }
    let folder = out.display();
    println!("# Nothing was sent. Each command needs what its comment names.");
    let steps = [
        ("a key for git", format!("git tag -s v{version} && git push origin v{version}")),
        (
            "an identity for cosign",
            format!("cosign sign-blob --bundle {folder}/SHA256SUMS.sigstore.json {folder}/SHA256SUMS"),
        ),
        (
            "REGISTRY, and a login there",
            format!("skopeo copy oci:{folder}/ballast-{version}-image:{version} docker://REGISTRY/ballast:{version}"),
        ),
        (
            "REGISTRY, and a login there",
            format!(
                "skopeo copy oci:{folder}/ballast-{version}-chart:{version} docker://REGISTRY/charts/ballast:{version}"
            ),
        ),
        ("an account at PyPI", format!("twine upload {folder}/*.whl")),
        (
            "an account at npm",
            format!("for package in {folder}/ballast-server-*.tgz; do npm publish \"$package\"; done"),
        ),
        (
            "the repository's page of releases",
            format!(
                "gh release create v{version} {folder}/*.tar.gz {folder}/*.deb {folder}/*.json {folder}/SHA256SUMS*"
            ),
        ),
    ];
    for (needs, command) in steps {
        println!("# needs {needs}\n{command}");
    }
    Ok(())
}
