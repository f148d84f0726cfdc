//! Flags of replicas that share a database.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReplicaArgs {
    /// For replicas that share a database: another replica becomes leader after the leader has not
    /// renewed its lease for this time
    #[arg(long, env = "BALLAST_LEADER_LEASE_SECONDS", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=300))]
    pub leader_lease_seconds: u16,

    /// Address at which other replicas reach this one: HOST:PORT, or an IP address alone to use the
    /// port that it listens on. Default: the address that it listens on
    #[arg(long, env = "BALLAST_ADVERTISE_ADDRESS", value_parser = reachable_at)]
    pub advertise_address: Option<String>,
}

impl ReplicaArgs {
    /// Returns the duration of the leader's lease in a shared database.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.leader_lease_seconds.into())
    }

    /// Returns the address at which other replicas reach this one, which listens on `port`. `None`
    /// without the flag.
    pub fn advertised(&self, port: u16) -> Option<String> {
        let given = self.advertise_address.as_ref()?;
        Some(given.parse().map_or_else(|_| given.clone(), |ip: IpAddr| SocketAddr::new(ip, port).to_string()))
    }
}

fn reachable_at(text: &str) -> Result<String, String> {
    // A pod only knows its IP address, which contains colons in an IPv6 cluster.
    if text.parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified()) {
        return Ok(text.to_owned());
    }
    let authority = text.parse::<http::uri::Authority>().ok();
    let is_somewhere = |host: &str| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        !host.is_empty() && !host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    };
    let is_whole = |it: &http::uri::Authority| is_somewhere(it.host()) && it.port_u16().is_some_and(|port| port > 0);
    match authority.filter(|it| is_whole(it) && !text.contains('@')) {
        Some(authority) => Ok(authority.to_string()),
        None => Err("give what the other replicas can reach: host and port, such as 10.0.0.7:7443, or an IP address \
                     alone"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_the_other_replicas_is_a_host_and_a_port_or_an_ip_address() {
        let good = ["10.0.0.7:7443", "ballast-0.ballast:7443", "[fd00::7]:7443", "10.0.0.7", "fd00::7"];
        for good in good {
            assert_eq!(reachable_at(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "ballast-0",
            ":7443",
            "10.0.0.7:0",
            "https://10.0.0.7:7443",
            "a@b:1",
            "host:port",
            "0.0.0.0",
            "0.0.0.0:1",
            "[::]:7443",
        ] {
            assert!(reachable_at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_ip_address_alone_goes_with_the_port_that_is_listened_on() {
        let advertised = |given: &str| {
            ReplicaArgs { leader_lease_seconds: 5, advertise_address: Some(given.to_owned()) }.advertised(7443)
        };
        assert_eq!(advertised("10.0.0.7").as_deref(), Some("10.0.0.7:7443"));
        assert_eq!(advertised("fd00::7").as_deref(), Some("[fd00::7]:7443"));
        assert_eq!(advertised("ballast-0:443").as_deref(), Some("ballast-0:443"));
    }
}
