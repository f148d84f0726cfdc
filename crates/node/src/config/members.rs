//! Flags about connections to member clusters.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use ballast_host::Host;
use ballast_members::Secrets;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MembersArgs {
    /// Folder of the secrets that Clusters refer to, as files NAMESPACE/NAME/KEY, for requests
    /// through clusters/NAME/proxy. Default: the secrets of the host cluster, if there is one
    #[arg(long, env = "BALLAST_MEMBER_SECRETS_DIR", value_name = "DIR")]
    pub member_secrets_dir: Option<PathBuf>,
}

impl MembersArgs {
    /// Returns the source of the secrets. A folder is configured explicitly, so it overrides the
    /// host cluster.
    pub fn secrets(&self, host: Option<Host>) -> Secrets {
        match (&self.member_secrets_dir, host) {
            (Some(folder), _) => Secrets::Folder(folder.clone()),
            (None, Some(host)) => Secrets::Host(host),
            (None, None) => Secrets::Nowhere,
        }
    }
}
