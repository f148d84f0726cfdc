//! The contents of a release: a bill of materials, the licences of all dependencies, and the
//! provenance.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};
use serde_json::{Value, json};

use crate::archive::sha256;
use crate::binary::{Target, output};
use crate::image::Labels;

/// Prefixes of the names of licence files.
const LICENSE_FILES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

pub fn metadata(root: &Path, target: Target) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.current_dir(root).other_options(vec![
        "--locked".to_owned(),
        "--filter-platform".to_owned(),
        target.triple().to_owned(),
    ]);
    command.exec().context("failed to read the dependencies")
}

/// Returns the packages in the binary, by name and version, without build scripts and tests.
fn linked(metadata: &Metadata) -> Result<Vec<&cargo_metadata::Package>> {
    let nodes = &metadata.resolve.as_ref().context("cargo has resolved nothing")?.nodes;
    let root = metadata.packages.iter().find(|package| package.name.as_str() == "ballast");
    let mut waiting: Vec<&PackageId> = vec![&root.context("there is no package ballast")?.id];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| node.id == *id).context("a package is not resolved")?;
        let used = node
            .deps
            .iter()
            .filter(|dependency| dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        waiting.extend(used.map(|dependency| &dependency.pkg));
    }
    let mut packages: Vec<_> = metadata.packages.iter().filter(|package| seen.contains(&package.id)).collect();
    packages.sort_by(|one, other| (one.name.as_str(), &one.version).cmp(&(other.name.as_str(), &other.version)));
    Ok(packages)
}

/// Returns the licence texts of all linked packages.
pub fn licenses(metadata: &Metadata) -> Result<String> {
    let mut text = "Ballast contains these packages. Each has the licence that follows its name.\n".to_owned();
    for package in linked(metadata)? {
        if package.source.is_none() {
            continue;
        }
        let license = package.license.as_deref().unwrap_or("see the text below");
        text += &format!("\n{}\n{} {}: {license}\n", "=".repeat(80), package.name, package.version);
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        let mut files: Vec<_> = fs::read_dir(folder)?
            .filter_map(Result::ok)
            .filter(|file| {
                let name = file.file_name().to_string_lossy().to_uppercase();
                LICENSE_FILES.iter().any(|beginning| name.starts_with(beginning))
                    && file.file_type().is_ok_and(|kind| kind.is_file())
            })
            .map(|file| file.path())
            .collect();
        files.sort();
        for file in files {
            text += &format!("\n{}\n", String::from_utf8_lossy(&fs::read(file)?).trim_end());
        }
    }
    Ok(text)
}

/// Returns a bill of materials in CycloneDX 1.5 format. Its components are the packages of
/// Cargo.lock that are in the binary.
pub fn materials(metadata: &Metadata, labels: &Labels) -> Result<Value> {
    let packages = linked(metadata)?;
    let reference = |package: &cargo_metadata::Package| format!("pkg:cargo/{}@{}", package.name, package.version);
    let nodes = &metadata.resolve.as_ref().context("cargo has resolved nothing")?.nodes;
    let by_id = |id: &PackageId| packages.iter().find(|package| package.id == *id).copied();
    let component = |package: &cargo_metadata::Package, kind: &str| {
        let mut component = json!({
            "type": kind,
            "bom-ref": reference(package),
            "name": package.name.as_str(),
            "version": package.version.to_string(),
            "purl": reference(package),
        });
        if let Some(license) = &package.license {
            component["licenses"] = json!([{"expression": license}]);
        }
        component
    };
    let mut dependencies = Vec::new();
    for package in &packages {
        let node = nodes.iter().find(|node| node.id == package.id).context("a package is not resolved")?;
        let mut on: Vec<String> = node.dependencies.iter().filter_map(by_id).map(reference).collect();
        on.sort();
        dependencies.push(json!({"ref": reference(package), "dependsOn": on}));
    }
    let (ballast, others): (Vec<_>, Vec<_>) =
        packages.iter().copied().partition(|package| package.name.as_str() == "ballast");
    let components: Vec<Value> = others.iter().map(|package| component(package, "library")).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": labels.created, "component": component(ballast[0], "application")},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The origin of the binaries of a release.
#[derive(Default)]
pub struct Origin {
    /// The targets that were built from the commit.
    pub built: Vec<Target>,
    /// The hash of the binary given with `--binary`.
    pub given: Option<String>,
}

impl Origin {
    /// Returns the command without the paths of this machine, which are not part of the request.
    fn command(&self, version: &str) -> Vec<String> {
        let mut command = ["cargo", "xtask", "release", version].map(str::to_owned).to_vec();
        let targets = self.built.iter().flat_map(|target| ["--target".to_owned(), target.machine().to_owned()]);
        command.extend(targets);
        if let Some(digest) = &self.given {
            command.extend(["--binary".to_owned(), format!("sha256:{digest}")]);
        }
        command
    }
}

/// Returns an in-toto statement with SLSA 1.0 provenance: the commit, the command and the toolchain
/// that the files were built with. It is not signed (`publish`).
///
/// A given binary is a dependency with its hash: its commit and its toolchain are unknown.
pub fn provenance(root: &Path, labels: &Labels, origin: &Origin, subjects: &[(String, String)]) -> Result<Value> {
    let mut parameters = json!({"command": origin.command(&labels.version), "version": labels.version});
    let mut internal = json!({});
    let mut dependencies = vec![json!({"uri": "git+commit", "digest": {"gitCommit": labels.revision}})];
    if let Some(digest) = &origin.given {
        parameters["binary"] = json!({"sha256": digest, "builtHere": false});
        dependencies.push(json!({"uri": "file:ballast", "digest": {"sha256": digest}}));
    }
    if !origin.built.is_empty() {
        let rustc = output(Command::new("rustc").arg("-vV"))?;
        internal["rustc"] = json!(rustc.lines().collect::<Vec<_>>());
        let lock = sha256(&fs::read(root.join("Cargo.lock"))?);
        dependencies.push(json!({"uri": "Cargo.lock", "digest": {"sha256": lock}}));
    }
    let subjects: Vec<Value> =
        subjects.iter().map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest}})).collect();
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:ballast:xtask-release:v1",
                "externalParameters": parameters,
                "internalParameters": internal,
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": {"id": "urn:ballast:xtask"},
                "metadata": {"startedOn": labels.created},
            },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provenance_of_a_given_binary_attests_no_build() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let labels = Labels {
            version: "0.2.0".to_owned(),
            revision: "c0ffee".to_owned(),
            created: "2026-11-28T00:00:00Z".to_owned(),
            epoch: 0,
        };
        let definition = |origin: &Origin| {
            let statement = provenance(root, &labels, origin, &[]).unwrap();
            statement["predicate"]["buildDefinition"].clone()
        };
        let given = definition(&Origin { built: Vec::new(), given: Some("abc".to_owned()) });
        let command = json!(["cargo", "xtask", "release", "0.2.0", "--binary", "sha256:abc"]);
        assert_eq!(given["externalParameters"]["command"], command);
        assert_eq!(given["internalParameters"], json!({}), "no toolchain of this machine");
        let dependencies = given["resolvedDependencies"].to_string();
        assert!(dependencies.contains("file:ballast") && !dependencies.contains("Cargo.lock"), "{dependencies}");
        let built = definition(&Origin { built: vec![Target::X86_64], given: None });
        assert!(built["internalParameters"]["rustc"][0].as_str().unwrap().starts_with("rustc "));
        assert!(!built.to_string().contains("--binary"));
    }
}
