//! URLs and their parts.

use std::sync::Arc;

use super::super::fault::Fault;
use super::super::types::url::{Url, fault, parse, split_port};
use super::super::value::Value;
use super::standard::one;
use super::{Outcome, Table};

pub const GLOBALS: Table = &[
    ("url", |_, args| match one(args)? {
        Value::String(text) => match parse(text.as_str()) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(why) => Err(Fault::new(format!("URL parse error during conversion from string: {why}"))),
        },
        _ => Err(Fault::no_overload()),
    }),
    ("isURL", |_, args| match one(args)? {
        Value::String(text) => Ok(Value::Bool(fault(text.as_str()).is_none())),
        _ => Err(Fault::no_overload()),
    }),
];

pub const METHODS: Table = &[
    ("getScheme", |_, args| part(args, |url| url.scheme.clone())),
    ("getHost", |_, args| part(args, |url| url.host.clone())),
    ("getHostname", |_, args| part(args, |url| split_port(&url.host).0.trim_matches(['[', ']']).to_owned())),
    ("getPort", |_, args| part(args, |url| split_port(&url.host).1.to_owned())),
    ("getEscapedPath", |_, args| part(args, |url| url.path.clone())),
    ("getQuery", |_, args| match one(args)? {
        Value::Url(url) => Ok(query(&url.query)),
        _ => Err(Fault::no_overload()),
    }),
];

fn part<'a>(args: &[Value<'a>], read: impl Fn(&Url) -> String) -> Outcome<'a> {
    match one(args)? {
        Value::Url(url) => Ok(Value::text(read(url))),
        _ => Err(Fault::no_overload()),
    }
}

fn query<'a>(text: &str) -> Value<'a> {
    let mut members: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (plain(key), plain(value)) else { continue };
        match members.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(Value::text(value)),
            None => members.push((key, vec![Value::text(value)])),
        }
    }
    Value::map(members.into_iter().map(|(key, values)| (Value::text(key), Value::list(values))).collect())
}

/// Decodes the escapes of a part of a query.
fn plain(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let value = digit()? * 16 + digit()?;
                bytes.push(u8::try_from(value).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
