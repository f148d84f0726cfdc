//! Flags about the gates of rollouts: the servers that they may query, and the credentials (SG17,
//! SG18).

use std::path::PathBuf;

use clap::Args;
use serde::{Serialize, Serializer};

use crate::UsageError;
use crate::http_gates::{HttpGates, HttpGatesOptions};
use ballast_rebalance::gates::address::AllowedAddress;

#[derive(Args, Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RolloutGateArgs {
    /// Address prefixes that gates of rollouts may query: scheme, host, port and whole segments of
    /// the path must match. An address without a path, or with a path that ends with
    /// `/api/v1/query`, is only for the queries of Prometheus gates; any other, such as
    /// `https://ci.example/hooks`, is for webhooks. Without the flag, rebalances with gates are
    /// rejected
    #[arg(long, env = "BALLAST_GATE_ADDRESS_ALLOW", value_name = "URL", value_delimiter = ',')]
    #[serde(serialize_with = "shown")]
    pub gate_address_allow: Vec<AllowedAddress>,

    /// Headers for gates, such as those of a mounted Secret: a YAML list of `{address, headers:
    /// {name: value}}`. They are sent to URLs below the address, and read again for each request.
    /// Headers of a query address are sent only with queries
    #[arg(long, env = "BALLAST_GATE_HEADERS_FILE", value_name = "FILE", requires = "gate_address_allow")]
    pub gate_headers_file: Option<PathBuf>,

    /// CAs (PEM) that verify the certificates of gates, instead of the CAs of this machine
    #[arg(long, env = "BALLAST_GATE_CA_FILE", value_name = "FILE", requires = "gate_address_allow")]
    pub gate_ca_file: Option<PathBuf>,
}

fn shown<S: Serializer>(addresses: &[AllowedAddress], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(addresses.iter().map(ToString::to_string))
}

impl RolloutGateArgs {
    /// Returns the client that queries the gates. The files are read once, so that an invalid one
    /// is reported at startup.
    pub fn client(&self) -> Result<HttpGates, UsageError> {
        let client = HttpGates::new(HttpGatesOptions {
            allow: self.gate_address_allow.clone(),
            headers_file: self.gate_headers_file.clone(),
            ca_file: self.gate_ca_file.clone(),
        });
        client.check_files().map_err(UsageError)?;
        Ok(client)
    }
}
