//! IP addresses and CIDRs.

use std::fmt;
use std::net::IpAddr;

use super::super::fault::Fault;
use super::address_faults::why_no_address;

/// A network: an address and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

pub fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Parses an IP address. Addresses with zones and IPv4-mapped IPv6 addresses are refused, as
/// upstream does.
pub fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let wrong = |why: &str| Fault::new(format!("IP Address {text:?} parse error during conversion from string: {why}"));
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(Fault::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        Ok(address) => Ok(address),
        Err(_) if text.contains('%') => Err(Fault::new(format!("IP address {text:?} with zone value is not allowed"))),
        Err(_) => Err(wrong(&why_no_address(text))),
    }
}

pub fn parse_cidr(text: &str) -> Result<Cidr, Fault> {
    let wrong = |why: &str| {
        Fault::new(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"
        ))
    };
    let (address, bits) = text.split_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address = address.parse::<IpAddr>().map_err(|_| wrong(&why_no_address(address)))?;
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(Fault::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    let is_plain = !bits.is_empty()
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && !(bits.len() > 1 && bits.starts_with('0'));
    let bits: u8 = bits.parse().ok().filter(|_| is_plain).ok_or_else(|| wrong("bad bits after slash"))?;
    match bits <= length(address) {
        true => Ok(Cidr { address, bits }),
        false => Err(wrong("prefix length out of range")),
    }
}

fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

pub fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u32::from(address) & mask).to_be_bytes())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u128::from(address) & mask).to_be_bytes())
        }
    }
}

pub fn is_within(cidr: &Cidr, address: IpAddr) -> bool {
    address.is_ipv4() == cidr.address.is_ipv4() && masked(address, cidr.bits) == masked(cidr.address, cidr.bits)
}
