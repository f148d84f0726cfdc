//! `ballast openapi`: writes the OpenAPI documents that a server publishes to files. SDKs are
//! generated from the committed ones in openapi/, so these must match the program. `--check`
//! compares them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};

use super::output::print;
use ballast_api as api;
use ballast_registry::openapi;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder to write the documents to
    #[arg(long, default_value = "openapi")]
    pub output_dir: PathBuf,

    /// Write nothing; fail if a document in the folder differs from the generated one
    #[arg(long)]
    pub check: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let (mut stale, mut written) = (Vec::new(), 0);
    for (name, document) in openapi::documents(&api::kinds()) {
        let path = args.output_dir.join(&name);
        if args.check {
            if fs::read(&path).ok().as_deref() != Some(&document[..]) {
                stale.push(path.display().to_string());
            }
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        fs::write(&path, &document).with_context(|| format!("failed to write {}", path.display()))?;
        written += 1;
    }
    if !stale.is_empty() {
        bail!("not what this program serves: {}; run `ballast openapi`", stale.join(", "));
    }
    let folder = args.output_dir.display();
    match args.check {
        true => print(&format!("The OpenAPI documents in {folder} are those of this program\n")),
        false => print(&format!("OpenAPI documents written to {folder}: {written}\n")),
    }
}
