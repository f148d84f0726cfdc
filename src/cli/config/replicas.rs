//! Flags of replicas that share a database.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReplicaArgs {
    /// With a database that replicas share: another replica leads after this time without a sign of
    /// life
    #[arg(long, env = "BALLAST_LEADER_LEASE_SECONDS", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=300))]
    pub leader_lease_seconds: u16,

    /// Where the other replicas reach this one, as HOST:PORT. Default: the address that it listens
    /// on
    #[arg(long, env = "BALLAST_ADVERTISE_ADDRESS", value_parser = host_and_port)]
    pub advertise_address: Option<String>,
}

impl ReplicaArgs {
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.leader_lease_seconds.into())
    }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let authority = text.parse::<http::uri::Authority>().ok();
    let is_whole = |it: &http::uri::Authority| !it.host().is_empty() && it.port_u16().is_some_and(|port| port > 0);
    match authority.filter(|it| is_whole(it) && !text.contains('@')) {
        Some(authority) => Ok(authority.to_string()),
        None => Err("give a host and a port that the other replicas can reach, such as 10.0.0.7:7443".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_the_other_replicas_has_a_host_and_a_port() {
        for good in ["10.0.0.7:7443", "ballast-0.ballast:7443", "[fd00::7]:7443"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for bad in ["", "10.0.0.7", ":7443", "10.0.0.7:0", "https://10.0.0.7:7443", "a@b:1", "host:port"] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }
}
