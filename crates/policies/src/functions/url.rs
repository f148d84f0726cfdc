//! URLs, as Go's `url.ParseRequestURI` reads them: absolute, or an absolute path.

use std::sync::Arc;

use super::super::fault::Fault;
use super::super::value::Value;
use super::standard::one;
use super::{Outcome, Table};

/// A URL in its parts.
#[derive(Clone, Debug)]
pub struct Url {
    pub text: String,
    scheme: String,
    /// With the port, and with brackets around an IPv6 address.
    host: String,
    path: String,
    query: String,
}

pub const GLOBALS: Table = &[
    ("url", |_, args| match one(args)? {
        Value::String(text) => match parse(text.as_str()) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(why) => Err(Fault::new(format!(
                "URL parse error during conversion from string: parse {:?}: {why}",
                text.as_str()
            ))),
        },
        _ => Err(Fault::no_overload()),
    }),
    ("isURL", |_, args| match one(args)? {
        Value::String(text) => Ok(Value::Bool(parse(text.as_str()).is_ok())),
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

/// Why this is no URL.
pub fn fault(text: &str) -> Option<String> {
    parse(text).err()
}

fn parse(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        // Go takes `mailto:a` as a URL with an opaque part.
        return match scheme.is_empty() {
            true => Err("invalid URI for request".to_owned()),
            false => Ok(Url {
                text: text.to_owned(),
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.to_owned(),
            }),
        };
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() => {
            let end = rest.find('/').unwrap_or(rest.len());
            (authority(&rest[..end])?, &rest[end..])
        }
        _ => (String::new(), rest),
    };
    check_escapes(path)?;
    Ok(Url { text: text.to_owned(), scheme, host, path: escaped(path), query: query.to_owned() })
}

fn scheme(text: &str) -> Result<(String, &str), String> {
    for (at, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn authority(text: &str) -> Result<String, String> {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let after = match host.starts_with('[') {
        true => match host.find(']') {
            Some(end) => &host[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        false => host.find(':').map_or("", |at| &host[at..]),
    };
    let is_port =
        after.is_empty() || after.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {after:?} after host"));
    }
    match host.chars().find(|character| matches!(character, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        Some(character) => Err(format!("invalid character {:?} in host name", character.to_string())),
        None => Ok(host.to_owned()),
    }
}

fn check_escapes(path: &str) -> Result<(), String> {
    for (at, _) in path.match_indices('%') {
        let digits = path.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let shown: String = path[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

fn escaped(path: &str) -> String {
    path.bytes().fold(String::with_capacity(path.len()), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(byte.into()),
            _ if b"-_.~$&+,/:;=@!'()*%[]".contains(&byte) => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
        Some(at) => (&host[..at], &host[at + 1..]),
        None => (host, ""),
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

/// A part of a query without its escapes.
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
