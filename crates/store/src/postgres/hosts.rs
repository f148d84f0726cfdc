//! The hosts of a URL: `postgres://a:5432,b:5432,c:5432/db`, or `?host=a,b,c&port=5432`, as in
//! libpq. One of them is the primary.
//!
//! The driver supports one host per URL, so a URL with several is split into one URL per host.

use crate::Error;

/// The maximum number of hosts, above the size of any replication cluster.
const HOSTS_MAX: usize = 16;

/// Returns one URL per host, in their order.
pub(super) fn each(url: &str) -> Result<Vec<String>, Error> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(vec![url.to_owned()]) };
    let (rest, fragment) = split(rest, '#');
    let (place, query) = split(rest, '?');
    let (authority, path) = split(place, '/');
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let pairs: Vec<(&str, &str)> = query.strip_prefix('?').unwrap_or_default().split('&').map(pair).collect();
    let named = |name: &str| pairs.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| listed(value));
    let by_name = named("host").filter(|hosts| hosts.len() > 1).or(named("hostaddr").filter(|hosts| hosts.len() > 1));
    let Some(by_name) = by_name else {
        let urls: Vec<String> =
            hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}{query}{fragment}")).collect();
        return checked(urls, hosts.split(',').all(|host| !host.is_empty()) || !hosts.contains(','));
    };
    let ports = named("port").unwrap_or_default();
    if ports.len() > 1 && ports.len() != by_name.len() {
        let advice = format!(
            "its URL names {} hosts and {} ports; give one port, or one for each host",
            by_name.len(),
            ports.len()
        );
        return Err(Error::Misplaced { advice });
    }
    let others: Vec<String> = pairs
        .iter()
        .filter(|(key, _)| !matches!(*key, "" | "host" | "hostaddr" | "port"))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let one = |(at, host): (usize, &String)| {
        let port = ports.get(at).or(ports.first()).map(|port| format!("port={port}"));
        let query: Vec<String> =
            [format!("host={host}")].into_iter().chain(port).chain(others.iter().cloned()).collect();
        format!("{scheme}://{user}{path}?{}{fragment}", query.join("&"))
    };
    let is_whole = by_name.iter().all(|host| !host.is_empty());
    checked(by_name.iter().enumerate().map(one).collect(), is_whole)
}

fn checked(urls: Vec<String>, is_whole: bool) -> Result<Vec<String>, Error> {
    if !is_whole {
        return Err(Error::Misplaced { advice: "its URL has an empty host between two commas".to_owned() });
    }
    if urls.len() > HOSTS_MAX {
        return Err(Error::Misplaced { advice: format!("its URL names {} hosts, at most {HOSTS_MAX}", urls.len()) });
    }
    Ok(urls)
}

/// Splits before a character, which stays with the second part.
fn split(text: &str, at: char) -> (&str, &str) {
    text.split_at(text.find(at).unwrap_or(text.len()))
}

fn pair(text: &str) -> (&str, &str) {
    text.split_once('=').unwrap_or((text, ""))
}

/// Splits a list in a parameter. Commas may be percent-encoded.
fn listed(value: &str) -> Vec<String> {
    value.replace("%2C", ",").replace("%2c", ",").split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_several_hosts_is_one_for_each() {
        for (url, expected) in [
            ("postgres://db/b", &["postgres://db/b"][..]),
            ("postgres:///b?host=/run/postgresql", &["postgres:///b?host=/run/postgresql"]),
            (
                "postgres://u:p%40@a:1,b,[::1]:3/b?sslmode=require&target_session_attrs=read-write",
                &[
                    "postgres://u:p%40@a:1/b?sslmode=require&target_session_attrs=read-write",
                    "postgres://u:p%40@b/b?sslmode=require&target_session_attrs=read-write",
                    "postgres://u:p%40@[::1]:3/b?sslmode=require&target_session_attrs=read-write",
                ],
            ),
            (
                "postgres:///b?host=a,b&port=1,2&user=u",
                &["postgres:///b?host=a&port=1&user=u", "postgres:///b?host=b&port=2&user=u"],
            ),
            ("postgres:///b?host=a%2Cb&port=7", &["postgres:///b?host=a&port=7", "postgres:///b?host=b&port=7"]),
        ] {
            assert_eq!(each(url).unwrap(), expected, "{url}");
        }
        for (url, expected) in
            [("postgres://a,,b/db", "an empty host"), ("postgres:///db?host=a,b,c&port=1,2", "3 hosts and 2 ports")]
        {
            let refused = each(url).unwrap_err().to_string();
            assert!(refused.contains(expected), "{url}: {refused}");
        }
    }
}
