//! `ballast completion` and `ballast man`: what a shell and a reader know of the commands. Both
//! come from the definition that the command line is read with, so they cannot differ from it.

use std::path::PathBuf;

use anyhow::Context;
use clap_complete::Shell;

use super::arguments;
use super::output::print;

#[derive(clap::Args, Debug)]
pub struct CompletionArgs {
    /// The shell; in bash: `source <(ballast completion bash)`
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(clap::Args, Debug)]
pub struct ManArgs {
    /// Folder to write the pages to; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn completion(args: &CompletionArgs) -> anyhow::Result<()> {
    let mut command = arguments::definition(&[]);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ballast", &mut script);
    print(&String::from_utf8(script).context("a script is text")?)
}

pub fn pages(args: &ManArgs) -> anyhow::Result<()> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("failed to create {folder}"))?;
    let written = clap_mangen::generate_to(arguments::definition(&[]), &args.folder);
    written.with_context(|| format!("failed to write the pages to {folder}"))?;
    print(&format!("the manual is in {folder}: man {}\n", args.folder.join("ballast.1").display()))
}
