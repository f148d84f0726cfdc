//! `cargo xtask release VERSION` builds all files of a release, in one folder.
//!
//! Builds are reproducible, in any folder and at any time: paths of the machine are removed from
//! the binary, entries of archives are sorted, and each time is the time of the commit. Steps that
//! need a key or an account are printed as commands by `cargo xtask publish` (docs/dev/release.md).

mod archive;
mod binary;
mod debian;
mod image;
mod inventory;
mod packages;
mod publish;
mod release;
mod site;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Returns the folder of the repository, from the environment of `cargo xtask`. The folder that the
/// binary was built in may no longer exist, because clones can share a target folder.
fn repository() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR").context("start it with `cargo xtask`")?;
    Ok(Path::new(&package).parent().context("xtask is in the repository")?.to_owned())
}

#[derive(Parser)]
#[command(name = "xtask", about = "Tasks of Ballast's developers")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Builds archives, packages, images, and their checksums and provenance
    Release(ReleaseArgs),
    /// Prints the commands that publish a release; they need keys and accounts
    Publish {
        /// The version that was given to `release`
        version: String,
        /// The folder that `release` has written
        #[arg(long, default_value = "target/release-files")]
        out: PathBuf,
    },
    /// Builds the documentation site with mdBook, and checks every link
    Site {
        /// The folder for the site; it is replaced
        #[arg(long, default_value = "target/site")]
        out: PathBuf,
    },
}

#[derive(clap::Args)]
struct ReleaseArgs {
    /// The version; it must equal the version in Cargo.toml
    version: String,
    /// The folder for the files; it must be empty or missing
    #[arg(long, default_value = "target/release-files")]
    out: PathBuf,
    /// Packs this binary of the first target, and builds none. The provenance contains its hash,
    /// and no attestation of its build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Accepts a --binary that is linked dynamically, for tests of the packages: its image does not
    /// run, and its wheel only works on similar systems
    #[arg(long, requires = "binary")]
    dynamic: bool,
    /// Platforms to build for
    #[arg(long = "target", value_enum, default_values_t = [binary::Target::X86_64])]
    targets: Vec<binary::Target>,
}

fn main() -> Result<()> {
    match Args::parse().task {
        Task::Release(args) => release::make(&args),
        Task::Publish { version, out } => publish::print(&version, &out),
        Task::Site { out } => site::make(&out),
    }
}
