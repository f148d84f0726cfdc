//! URLs, as Go's `url.ParseRequestURI` reads them: absolute, or an absolute path.

/// A URL in its parts.
#[derive(Clone, Debug)]
pub struct Url {
    pub text: String,
    pub scheme: String,
    /// With the port, and with brackets around an IPv6 address.
    pub host: String,
    pub path: String,
    pub query: String,
}

/// Why this is no URL.
pub fn fault(text: &str) -> Option<String> {
    parse(text).err()
}

pub fn parse(text: &str) -> Result<Url, String> {
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

pub fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
        Some(at) => (&host[..at], &host[at + 1..]),
        None => (host, ""),
    }
}
