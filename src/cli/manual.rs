//! `ballast man`: writes the manual pages, from the definition of the command line.

use std::path::PathBuf;

use anyhow::Context;

use super::arguments;
use super::output::print;

#[derive(clap::Args, Debug)]
pub struct ManArgs {
    /// Folder to write the pages to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn pages(args: &ManArgs) -> anyhow::Result<()> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("failed to create {folder}"))?;
    let written = clap_mangen::generate_to(arguments::definition(&[]), &args.folder);
    written.with_context(|| format!("failed to write the pages to {folder}"))?;
    print(&format!("the manual is in {folder}: man {}\n", args.folder.join("ballast.1").display()))
}
