//! `ballast certs`: creates the development certificates as the first `serve` does, without
//! serving.

use std::path::PathBuf;

use super::output::print;
use ballast_base::clock::{Clock, SystemClock};
use ballast_node::certs;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder of the certificates
    #[arg(long, env = "BALLAST_CERT_DIR", default_value = "certs")]
    pub cert_dir: PathBuf,

    /// Further DNS names and addresses that the serving certificate must contain
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,

    /// URL of the server in the kubeconfig
    #[arg(long, default_value = "https://127.0.0.1:7443")]
    pub server: String,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let files = certs::ensure(&args.cert_dir, &args.names, SystemClock.now())?;
    certs::write_kubeconfig(&files, &args.server)?;
    let paths = [&files.ca_cert, &files.server_cert, &files.admin_cert, &files.admin_kubeconfig];
    print(&paths.map(|path| format!("{}\n", path.display())).concat())
}
