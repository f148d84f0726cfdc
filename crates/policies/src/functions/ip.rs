//! IP addresses and CIDRs.

use std::fmt;
use std::net::IpAddr;

use super::super::fault::Fault;
use super::super::value::Value;
use super::standard::one;
use super::{Outcome, Table};

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

pub const GLOBALS: Table = &[
    ("ip", |_, args| match one(args)? {
        Value::String(text) => parse_ip(text.as_str()).map(Value::Ip),
        _ => Err(Fault::no_overload()),
    }),
    ("isIP", |_, args| match one(args)? {
        Value::String(text) => Ok(Value::Bool(parse_ip(text.as_str()).is_ok())),
        _ => Err(Fault::no_overload()),
    }),
    ("ip.isCanonical", |_, args| match one(args)? {
        Value::String(text) => parse_ip(text.as_str()).map(|it| Value::Bool(it.to_string() == text.as_str())),
        _ => Err(Fault::no_overload()),
    }),
    ("cidr", |_, args| match one(args)? {
        Value::String(text) => parse_cidr(text.as_str()).map(Value::Cidr),
        _ => Err(Fault::no_overload()),
    }),
    ("isCIDR", |_, args| match one(args)? {
        Value::String(text) => Ok(Value::Bool(parse_cidr(text.as_str()).is_ok())),
        _ => Err(Fault::no_overload()),
    }),
];

pub const METHODS: Table = &[
    ("family", |_, args| match one(args)? {
        Value::Ip(address) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => Err(Fault::no_overload()),
    }),
    ("isUnspecified", |_, args| holds(args, |address| address.is_unspecified())),
    ("isLoopback", |_, args| holds(args, |address| address.is_loopback())),
    ("isLinkLocalMulticast", |_, args| {
        holds(args, |address| match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        })
    }),
    ("isLinkLocalUnicast", |_, args| holds(args, is_link_local)),
    ("isGlobalUnicast", |_, args| {
        holds(args, |address| {
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            let is_other = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            !is_other && !is_broadcast && !is_link_local(address)
        })
    }),
    ("containsIP", |_, args| {
        let [Value::Cidr(cidr), address] = args else { return Err(Fault::no_overload()) };
        let address = match address {
            Value::Ip(address) => *address,
            Value::String(text) => parse_ip(text.as_str())?,
            _ => return Err(Fault::no_overload()),
        };
        Ok(Value::Bool(is_within(cidr, address)))
    }),
    ("containsCIDR", |_, args| {
        let [Value::Cidr(cidr), other] = args else { return Err(Fault::no_overload()) };
        let other = match other {
            Value::Cidr(other) => *other,
            Value::String(text) => parse_cidr(text.as_str())?,
            _ => return Err(Fault::no_overload()),
        };
        Ok(Value::Bool(other.bits >= cidr.bits && is_within(cidr, other.address)))
    }),
    ("ip", |_, args| match one(args)? {
        Value::Cidr(cidr) => Ok(Value::Ip(cidr.address)),
        _ => Err(Fault::no_overload()),
    }),
    ("masked", |_, args| match one(args)? {
        Value::Cidr(Cidr { address, bits }) => Ok(Value::Cidr(Cidr { address: masked(*address, *bits), bits: *bits })),
        _ => Err(Fault::no_overload()),
    }),
    ("prefixLength", |_, args| match one(args)? {
        Value::Cidr(cidr) => Ok(Value::Int(cidr.bits.into())),
        _ => Err(Fault::no_overload()),
    }),
];

fn holds<'a>(args: &[Value<'a>], test: impl Fn(&IpAddr) -> bool) -> Outcome<'a> {
    match one(args)? {
        Value::Ip(address) => Ok(Value::Bool(test(address))),
        _ => Err(Fault::no_overload()),
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Zones and IPv4 addresses in IPv6 form are refused, as upstream does.
fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let wrong = |why: &str| Fault::new(format!("IP Address {text:?} parse error during conversion from string: {why}"));
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(Fault::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        Ok(address) => Ok(address),
        Err(_) if text.contains('%') => Err(Fault::new(format!("IP address {text:?} with zone value is not allowed"))),
        Err(_) => Err(wrong(&format!("ParseAddr({text:?}): unable to parse IP"))),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, Fault> {
    let wrong = |why: &str| {
        Fault::new(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"
        ))
    };
    let (address, bits) = text.split_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address = address.parse::<IpAddr>().map_err(|_| wrong("unable to parse IP"))?;
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

fn masked(address: IpAddr, bits: u8) -> IpAddr {
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

fn is_within(cidr: &Cidr, address: IpAddr) -> bool {
    address.is_ipv4() == cidr.address.is_ipv4() && masked(address, cidr.bits) == masked(cidr.address, cidr.bits)
}
