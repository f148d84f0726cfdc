//! Stub of `ballast ui` for a binary without the feature `page`: it returns an error.

use std::convert::Infallible;
use std::path::Path;

use ballast_node::features;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Accepts all arguments that the page supports
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub ignored: Vec<String>,
}

pub fn run(_: Args) -> anyhow::Result<()> {
    Err(features::PAGE.refusal("ballast ui").into())
}

/// The page, which does not exist in this binary.
pub struct Page {
    pub address: Infallible,
}

impl Page {
    pub async fn of(_: &Path, _: u16) -> anyhow::Result<Page> {
        Err(features::PAGE.refusal("--ui").into())
    }
}
