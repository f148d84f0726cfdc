//! Semantic versions.

use std::cmp::Ordering;

/// A version without its build metadata, which does not affect the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    before: Vec<Identifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Semver) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Semver {
    fn cmp(&self, other: &Semver) -> Ordering {
        let numbers = |it: &Semver| [it.major, it.minor, it.patch];
        // A version without a pre-release is greater than a version with one.
        let rank = |it: &Semver| it.before.is_empty();
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| rank(self).cmp(&rank(other)))
            .then_with(|| self.before.cmp(&other.before))
    }
}

/// Removes `v` and leading zeros, and adds missing parts.
pub fn normalized(text: &str) -> String {
    let text = text.trim_start_matches('v');
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut parts: Vec<String> = numbers
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            part => part.to_owned(),
        })
        .collect();
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    parts.join(".") + rest
}

pub fn parse(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
        return Err("Build meta data is empty".to_owned());
    }
    let (numbers, before) = text.split_once('-').map_or((text, None), |(text, before)| (text, Some(before)));
    let parts: Vec<&str> = numbers.split('.').collect();
    let [major, minor, patch] = parts.as_slice() else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let number = |name: &str, part: &str| match part.parse::<u64>() {
        _ if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("Invalid character(s) found in {name} number {part:?}"))
        }
        _ if part.len() > 1 && part.starts_with('0') => {
            Err(format!("{name} number must not contain leading zeroes {part:?}"))
        }
        number => number.map_err(|error| error.to_string()),
    };
    let (major, minor, patch) = (number("major", major)?, number("minor", minor)?, number("patch", patch)?);
    let identifier = |part: &str| match part.parse::<u64>() {
        Ok(number) if part.bytes().all(|byte| byte.is_ascii_digit()) => match part.len() > 1 && part.starts_with('0') {
            true => Err(format!("Numeric PreRelease version must not contain leading zeroes {part:?}")),
            false => Ok(Identifier::Number(number)),
        },
        _ if is_identifier(part) => Ok(Identifier::Text(part.to_owned())),
        _ => Err(format!("Invalid character(s) found in prerelease {part:?}")),
    };
    let before = before.map(|before| before.split('.').map(identifier).collect::<Result<_, _>>()).transpose()?;
    Ok(Semver { major, minor, patch, before: before.unwrap_or_default() })
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
