//! Packages with the binary for users of Python or Node.js: a wheel and an npm package. `pip
//! install FILE` and `npm install -g FILE` install `ballast` in PATH.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::archive::Tree;
use crate::binary::{Linkage, Target};

const SUMMARY: &str = "Places workloads over a fleet of Kubernetes clusters";
/// The name of the package in both registries.
const NAME: &str = "ballast-server";

/// Returns the name and the bytes of a wheel. It has no Python code: installers copy the files of
/// `scripts`.
pub fn wheel(
    version: &str,
    target: Target,
    linkage: Linkage,
    binary: &[u8],
    readme: &str,
) -> Result<(String, Vec<u8>)> {
    let machine = target.machine();
    let platforms = match linkage {
        // A static binary works with both C libraries, from the oldest tag of each on.
        Linkage::Static => vec![format!("manylinux2014_{machine}"), format!("musllinux_1_1_{machine}")],
        // PyPI rejects this tag, because the required C library is unknown.
        Linkage::Dynamic => vec![format!("linux_{machine}")],
    };
    let stem = format!("ballast_server-{version}");
    let information = format!("{stem}.dist-info");
    let mut tree = Tree::default();
    tree.program(format!("{stem}.data/scripts/ballast"), binary);
    tree.file(
        format!("{information}/METADATA"),
        format!(
            "Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n\
             Description-Content-Type: text/markdown\n\n{readme}"
        ),
    );
    let tags: String = platforms.iter().map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    tree.file(
        format!("{information}/WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: ballast-xtask\nRoot-Is-Purelib: false\n{tags}"),
    );
    let mut record = String::new();
    for (path, bytes) in tree.files() {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        record += &format!("{path},sha256={digest},{}\n", bytes.len());
    }
    record += &format!("{information}/RECORD,,\n");
    tree.file(format!("{information}/RECORD"), record);
    Ok((format!("{stem}-py3-none-{}.whl", platforms.join(".")), tree.zip()?))
}

/// Returns the name and the bytes of an npm package for one platform.
pub fn npm(version: &str, target: Target, binary: &[u8], readme: &str, epoch: u64) -> Result<(String, Vec<u8>)> {
    let package = json!({
        "name": format!("{NAME}-linux-{}", target.node()),
        "version": version,
        "description": SUMMARY,
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [target.node()],
        "bin": {"ballast": "bin/ballast"},
    });
    let mut tree = Tree::default();
    tree.file("package/package.json", serde_json::to_vec_pretty(&package)?);
    tree.file("package/README.md", readme);
    tree.program("package/bin/ballast", binary);
    Ok((format!("{NAME}-linux-{}-{version}.tgz", target.node()), tree.tar_gz(epoch)?))
}
