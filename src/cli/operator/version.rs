//! `ballast version`: prints the versions of the program and of the server.

use serde::Serialize;
use serde_json::Value;

use super::server::Server;
use super::{CommonArgs, Format};
use crate::cli::output::print;
use crate::cli::screen::data;

#[derive(clap::Args, Debug)]
pub struct VersionArgs {
    /// Do not query a server
    #[arg(long)]
    client: bool,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client: &'static str,
    /// The response of the server at `/version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Value>,
}

pub async fn run(args: VersionArgs) -> anyhow::Result<()> {
    let client = env!("CARGO_PKG_VERSION");
    // The program's own version is printed even if no server responds.
    let asked = match args.client {
        true => Ok(None),
        false => ask(&args.common).await.map(Some),
    };
    let (server, failed) = match asked {
        Ok(server) => (server, None),
        Err(error) => (None, Some(error)),
    };
    let told = match args.output {
        Format::Table => {
            let of_server =
                |server: &Value| format!("server   {}\n", server["gitVersion"].as_str().unwrap_or_default());
            format!("ballast  {client}\n{}", server.as_ref().map(of_server).unwrap_or_default())
        }
        format => data(&Versions { client, server }, format == Format::Yaml)?,
    };
    print(&told)?;
    failed.map_or(Ok(()), Err)
}

async fn ask(common: &CommonArgs) -> anyhow::Result<Value> {
    Server::open_any(common).await?.get("/version").await
}
