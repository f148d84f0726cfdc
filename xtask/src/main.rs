//! `cargo xtask release VERSION` makes everything that a release hands over, in one folder.
//!
//! The same commit makes the same bytes, in any folder and at any time: paths of the machine are
//! taken out of the binary, entries of archives are sorted, and each time is that of the commit.
//! What needs a key or an account is printed as commands by `cargo xtask publish`
//! (docs/dev/release.md).

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

/// The folder of the repository, as `cargo xtask` says. The one that the binary was built in may be
/// gone: clones can share a target folder.
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
    /// Makes archives, packages, images, and the files that prove them
    Release(ReleaseArgs),
    /// Prints the commands that publish a release; they need keys and accounts
    Publish {
        /// The version, as it was given to `release`
        version: String,
        /// The folder that `release` has written
        #[arg(long, default_value = "target/release-files")]
        out: PathBuf,
    },
    /// Makes the site of the documentation with mdBook, and looks at every link
    Site {
        /// The folder for the site; it is replaced
        #[arg(long, default_value = "target/site")]
        out: PathBuf,
    },
}

#[derive(clap::Args)]
struct ReleaseArgs {
    /// The version; it must be that of Cargo.toml
    version: String,
    /// The folder for the files; it must be empty or missing
    #[arg(long, default_value = "target/release-files")]
    out: PathBuf,
    /// Packs this binary of the first target, and builds none. The provenance names it by its hash,
    /// and attests nothing about its build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Accepts a --binary that is linked dynamically, for tests of the packages: its image does not
    /// run, and its wheel is for this kind of system alone
    #[arg(long, requires = "binary")]
    dynamic: bool,
    /// What to build for; more than one may be given
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
