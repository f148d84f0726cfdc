//! Puts a release together.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::ReleaseArgs;
use crate::archive::{Tree, sha256};
use crate::binary::{self, Linkage, Target, output};
use crate::image::{Labels, Layout};
use crate::inventory::Origin;
use crate::{debian, inventory, packages, repository};

/// The documents at the root of the repository that every package has.
const DOCUMENTS: [&str; 6] = ["LICENSE", "README.md", "CHANGELOG.md", "UPGRADING.md", "VERSIONING.md", "SECURITY.md"];

pub fn make(args: &ReleaseArgs) -> Result<()> {
    let root = &repository()?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(args.version == version, "Cargo.toml has version {version}: change it there, or give {version} here");
    let out = std::path::absolute(&args.out)?;
    if out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty: remove it, or give another folder with --out", out.display());
    }
    // Pages and completions come from the first binary. Whether it can run is known before it is
    // built.
    let mut runs = binary::runner(args.targets[0])?;
    runs.push(args.binary.clone().unwrap_or_else(|| binary::path(root, args.targets[0])).into());
    let labels = labels(root, version)?;
    let mut release = Release { root, labels, out, origin: Origin::default(), files: Vec::new() };
    fs::create_dir_all(&release.out)?;
    let license = fs::read(root.join("LICENSE"))?;
    let images = release.out.join(format!("ballast-{version}-image"));
    let mut image = Layout::new(&images)?;
    for (number, target) in args.targets.iter().copied().enumerate() {
        let path = match &args.binary {
            Some(path) if number == 0 => path.clone(),
            _ => binary::build(root, target, release.labels.epoch)?,
        };
        let binary = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let linkage = binary::linkage(&binary, target).with_context(|| format!("cannot pack {}", path.display()))?;
        ensure!(
            linkage == Linkage::Static || args.dynamic,
            "cannot pack {}: it is linked dynamically, so it does not run in the image and not on every distribution; \
             build it for {}, or give --dynamic for a test of the packages",
            path.display(),
            target.triple()
        );
        match args.binary {
            Some(_) if number == 0 => release.origin.given = Some(sha256(&binary)),
            _ => release.origin.built.push(target),
        }
        release.platform(target, linkage, &binary, &runs)?;
        image.image(target, &binary, &license, &release.labels)?;
    }
    image.finish(version)?;
    release.layout_hashes(&images)?;
    release.chart()?;
    release.prove()?;
    print_sizes(&release.out)
}

struct Release<'a> {
    root: &'a Path,
    labels: Labels,
    out: PathBuf,
    origin: Origin,
    /// Names and hashes.
    files: Vec<(String, String)>,
}

impl Release<'_> {
    /// The archives and packages of one platform.
    fn platform(&mut self, target: Target, linkage: Linkage, binary: &[u8], runs: &[OsString]) -> Result<()> {
        let (version, epoch) = (self.labels.version.clone(), self.labels.epoch);
        let readme = fs::read_to_string(self.root.join("README.md"))?;
        let metadata = inventory::metadata(self.root, target)?;
        let mut tree = manual(runs)?;
        tree.program("ballast", binary);
        for name in DOCUMENTS {
            tree.file(name, fs::read(self.root.join(name))?);
        }
        // The messages of the program and the pages name files of these folders.
        for folder in ["docs", "examples", "deploy"] {
            tree.read(&self.root.join(folder), &format!("{folder}/"))?;
        }
        tree.file("THIRD-PARTY-LICENSES.txt", inventory::licenses(&metadata)?);
        let stem = format!("ballast-{version}-linux-{}", target.architecture());
        self.write(&format!("{stem}.tar.gz"), &tree.tar_gz(epoch)?)?;
        let package = debian::package(&version, target, &tree, epoch)?;
        self.write(&format!("ballast_{version}_{}.deb", target.architecture()), &package)?;
        let (name, wheel) = packages::wheel(&version, target, linkage, binary, &readme)?;
        self.write(&name, &wheel)?;
        let (name, package) = packages::npm(&version, target, binary, &readme, epoch)?;
        self.write(&name, &package)?;
        let materials = inventory::materials(&metadata, &self.labels)?;
        self.write(&format!("{stem}.cdx.json"), &serde_json::to_vec_pretty(&materials)?)
    }

    /// The chart, as `helm package` packs it, and as an OCI layout.
    fn chart(&mut self) -> Result<()> {
        let version = &self.labels.version;
        let folder = self.root.join("deploy/chart/ballast");
        let mut tree = Tree::default();
        tree.read(&folder, "ballast/")?;
        let packed = tree.tar_gz(self.labels.epoch)?;
        let chart = chart_values(&fs::read_to_string(folder.join("Chart.yaml"))?, version)?;
        let layout = self.out.join(format!("ballast-{version}-chart"));
        let mut chart_layout = Layout::new(&layout)?;
        chart_layout.chart(&packed, &chart, &self.labels)?;
        chart_layout.finish(version)?;
        self.layout_hashes(&layout)?;
        self.write(&format!("ballast-{}.tgz", self.labels.version.clone()), &packed)
    }

    /// Checksums, and the provenance of all files.
    fn prove(&mut self) -> Result<()> {
        self.files.sort();
        let provenance = inventory::provenance(self.root, &self.labels, &self.origin, &self.files)?;
        self.write("provenance.intoto.json", &serde_json::to_vec_pretty(&provenance)?)?;
        let sums: String = self.files.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
        fs::write(self.out.join("SHA256SUMS"), sums)?;
        Ok(())
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        fs::write(self.out.join(name), bytes).with_context(|| format!("failed to write {name}"))?;
        self.files.push((name.to_owned(), sha256(bytes)));
        Ok(())
    }

    /// A layout is named by its index, which names everything else by its hash.
    fn layout_hashes(&mut self, layout: &Path) -> Result<()> {
        let name = layout.strip_prefix(&self.out)?.join("index.json");
        let digest = sha256(&fs::read(self.out.join(&name))?);
        self.files.push((name.display().to_string(), digest));
        Ok(())
    }
}

/// The manual and the completions, which the program prints itself. `runs` are the words that run
/// it here.
fn manual(runs: &[OsString]) -> Result<Tree> {
    let program = || {
        let mut command = Command::new(&runs[0]);
        command.args(&runs[1..]);
        command
    };
    let mut tree = Tree::default();
    let folder = tempfile::tempdir()?;
    output(program().arg("man").arg(folder.path()))?;
    tree.read(folder.path(), "man/")?;
    for (shell, name) in [("bash", "ballast.bash"), ("zsh", "_ballast"), ("fish", "ballast.fish")] {
        let script = output(program().args(["completion", shell]))?;
        tree.file(format!("completions/{name}"), script);
    }
    Ok(tree)
}

/// The commit, its time, and whether the sources are those of the commit.
fn labels(root: &Path, version: &str) -> Result<Labels> {
    let git = |args: &[&str]| output(Command::new("git").current_dir(root).args(args));
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    ensure!(changed.is_empty(), "these files differ from the commit; commit them first:\n{changed}");
    let text = git(&["log", "-1", "--format=%H %ct %cI"])?;
    let mut words = text.split_whitespace();
    let (Some(revision), Some(epoch)) = (words.next(), words.next()) else { bail!("git says: {text}") };
    // In UTC, whatever the committer's zone is.
    let created = output(Command::new("date").args(["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]))?;
    Ok(Labels {
        version: version.to_owned(),
        revision: revision.to_owned(),
        created: created.trim().to_owned(),
        epoch: epoch.parse()?,
    })
}

/// The fields of Chart.yaml that are one `name: value` on a line; lists and maps are left out.
fn chart_values(text: &str, version: &str) -> Result<Value> {
    let mut values = json!({});
    for line in text.lines().filter(|line| !line.starts_with([' ', '#', '-'])) {
        if let Some((name, value)) = line.split_once(": ") {
            values[name] = Value::from(value.trim_matches('"'));
        }
    }
    ensure!(values["version"] == version, "Chart.yaml has version {}, and Cargo.toml {version}", values["version"]);
    Ok(values)
}

#[expect(clippy::print_stdout, reason = "a program for people")]
fn print_sizes(out: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(out)?.filter_map(Result::ok).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let bytes = size(&entry.path())?;
        println!("{:>8.1} MB  {}", bytes as f64 / 1e6, entry.file_name().to_string_lossy());
    }
    println!("{}", out.display());
    Ok(())
}

fn size(path: &Path) -> Result<u64> {
    if path.is_file() {
        return Ok(fs::metadata(path)?.len());
    }
    fs::read_dir(path)?.try_fold(0, |sum, entry| Ok(sum + size(&entry?.path())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_another_version_is_refused() {
        let text = "apiVersion: v2\nname: ballast\nversion: 0.1.0\nappVersion: \"0.1.0\"\n";
        assert_eq!(chart_values(text, "0.1.0").unwrap()["appVersion"], "0.1.0");
        assert!(chart_values(text, "0.2.0").unwrap_err().to_string().contains("Cargo.toml 0.2.0"));
    }
}
