//! What a binary without the feature `page` has in place of `ballast ui`: a refusal.

use std::convert::Infallible;
use std::path::Path;

use ballast_node::features;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// All that may follow with the page
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub ignored: Vec<String>,
}

pub fn run(_: Args) -> anyhow::Result<()> {
    Err(features::PAGE.refusal("ballast ui").into())
}

/// There is no page.
pub struct Page {
    pub address: Infallible,
}

impl Page {
    pub async fn of(_: &Path, _: u16) -> anyhow::Result<Page> {
        Err(features::PAGE.refusal("--ui").into())
    }
}
