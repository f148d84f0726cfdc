//! IP addresses and CIDRs.

use std::net::IpAddr;

use super::super::fault::Fault;
use super::super::types::ip::{Cidr, is_link_local, is_within, masked, parse_cidr, parse_ip};
use super::super::value::Value;
use super::standard::one;
use super::{Outcome, Table};

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
