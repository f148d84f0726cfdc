//! URLs, parsed as Go's `url.ParseRequestURI` does (absolute, or an absolute path), and then its
//! `url.Parse`, which accepts fragments.

/// The parts of a URL.
#[derive(Clone, Debug)]
pub struct Url {
    /// The whole text, with the scheme in lower case.
    pub text: String,
    pub scheme: String,
    /// The host with the port, and with brackets around an IPv6 address.
    pub host: String,
    pub path: String,
    pub query: String,
}

/// Returns why the text is not a URL without a fragment, as for `url.ParseRequestURI`.
pub fn fault(text: &str) -> Option<String> {
    parse_request(text).err().map(|why| in_words(text, &why))
}

/// Parses a URL, which may have a fragment.
pub fn parse(text: &str) -> Result<Url, String> {
    parse_request(text).map_err(|why| in_words(text, &why))?;
    let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = parse_request(whole).map_err(|why| in_words(whole, &why))?;
    unescape(fragment.as_bytes()).map_err(|why| in_words(text, &why))?;
    let rest = &text[url.scheme.len()..];
    Ok(Url { text: format!("{}{rest}", url.scheme), ..url })
}

fn in_words(text: &str, why: &str) -> String {
    format!("parse {}: {why}", super::text::go_quoted(text))
}

fn parse_request(text: &str) -> Result<Url, String> {
    let mut url = Url {
        text: String::new(),
        scheme: String::new(),
        host: String::new(),
        path: String::new(),
        query: String::new(),
    };
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url { path: text.to_owned(), ..url });
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    query.clone_into(&mut url.query);
    if !rest.starts_with('/') {
        // Go accepts `mailto:a` as a URL with an opaque part.
        return match url.scheme.is_empty() {
            true => Err("invalid URI for request".to_owned()),
            false => Ok(url),
        };
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) if !url.scheme.is_empty() => {
            let end = rest.find('/').unwrap_or(rest.len());
            url.host = authority(&rest[..end])?;
            &rest[end..]
        }
        _ => rest,
    };
    url.path = escaped_path(path)?;
    Ok(url)
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
    let Some((user, host)) = text.rsplit_once('@') else { return parse_host(text) };
    let host = parse_host(host)?;
    if !user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user.as_bytes())?;
    Ok(host)
}

fn parse_host(host: &str) -> Result<String, String> {
    let after = match host.starts_with('[') {
        true => match host.rfind(']') {
            Some(end) => {
                check_literal(&host[1..end])?;
                &host[end + 1..]
            }
            None => return Err("missing ']' in host".to_owned()),
        },
        false => host.find(':').map_or("", |at| &host[at..]),
    };
    let is_port =
        after.is_empty() || after.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", super::text::go_quoted(after)));
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~%".contains(&byte);
    if let Some(byte) = host.bytes().find(|byte| byte.is_ascii() && !is_allowed(*byte)) {
        return Err(format!("invalid character {:?} in host name", char::from(byte).to_string()));
    }
    // The only ASCII character that a host may escape is the `%` before a zone.
    for (at, _) in host.match_indices('%') {
        let escape = host.as_bytes().get(at + 1..at + 3);
        if escape.is_some_and(|escape| escape[0].is_ascii_digit() && escape[0] < b'8' && escape != b"25") {
            return Err(format!("invalid URL escape {:?}", &host[at..at + 3]));
        }
    }
    unescape(host.as_bytes()).map(|host| String::from_utf8_lossy(&host).into_owned())
}

/// Checks the address in brackets.
fn check_literal(text: &str) -> Result<(), String> {
    let address = text.split_once("%25").map_or(text, |(address, _)| address);
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(_)) => Ok(()),
        Ok(std::net::IpAddr::V4(_)) => Err("invalid IP-literal".to_owned()),
        Err(_) => Err(format!("invalid host: {}", super::address_faults::why_no_address(address))),
    }
}

/// Decodes percent escapes.
fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte != b'%' {
            bytes.push(*byte);
            at += 1;
            continue;
        }
        let digit = |at: usize| text.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
            let shown = &text[at..text.len().min(at + 3)];
            return Err(format!("invalid URL escape {}", super::text::go_quoted(&String::from_utf8_lossy(shown))));
        };
        bytes.push((high * 16 + low) as u8);
        at += 3;
    }
    Ok(bytes)
}

/// Returns the path as `EscapedPath` does: unchanged if its escapes are valid, otherwise escaped
/// again.
fn escaped_path(path: &str) -> Result<String, String> {
    let plain = unescape(path.as_bytes())?;
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte);
    if path.bytes().all(is_valid) {
        return Ok(path.to_owned());
    }
    Ok(plain.into_iter().fold(String::with_capacity(path.len()), |mut text, byte| {
        match byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            true => text.push(byte.into()),
            false => text.push_str(&format!("%{byte:02X}")),
        }
        text
    }))
}

pub fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
        Some(at) => (&host[..at], &host[at + 1..]),
        None => (host, ""),
    }
}
