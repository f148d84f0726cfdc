//! Bearer tokens of a standalone server, from a file.
//!
//! Each line is one token, in the format of kube-apiserver's `--token-auth-file`, with the hash
//! instead of the token, so reading the file gives no access.
//!
//! ```text
//! sha256:9f86d081…0f00a08,jane,uid-1,"staff,ops"
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::well_known::with_authenticated_group;
use ballast_k8s::User;

/// Users by the hash of their token.
#[derive(Debug, Default)]
pub struct TokenFile {
    users: HashMap<[u8; 32], Arc<User>>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenFileError {
    #[error("line {line}: wanted are sha256:HASH,USER[,UID[,\"GROUP,GROUP\"]]")]
    Malformed { line: usize },
    #[error("line {line}: the token must be given as sha256: and 64 hexadecimal digits (printf %s TOKEN | sha256sum)")]
    NotHashed { line: usize },
    #[error("line {line}: the same token was given before")]
    Twice { line: usize },
}

impl TokenFile {
    pub fn parse(text: &str) -> Result<TokenFile, TokenFileError> {
        let mut users = HashMap::new();
        for (at, content) in text.lines().enumerate() {
            let line = at + 1;
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let fields = fields(content);
            let (token, name, uid, groups) = match fields.as_slice() {
                [token, name] => (token, name, "", ""),
                [token, name, uid] => (token, name, uid.as_str(), ""),
                [token, name, uid, groups] => (token, name, uid.as_str(), groups.as_str()),
                _ => return Err(TokenFileError::Malformed { line }),
            };
            if name.is_empty() {
                return Err(TokenFileError::Malformed { line });
            }
            let hash = token.strip_prefix("sha256:").and_then(hash_of_hex).ok_or(TokenFileError::NotHashed { line })?;
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned);
            let user = User { name: name.clone(), uid: uid.to_owned(), groups: groups.collect(), ..User::default() };
            if users.insert(hash, Arc::new(with_authenticated_group(user))).is_some() {
                return Err(TokenFileError::Twice { line });
            }
        }
        Ok(TokenFile { users })
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Returns the user of a token. The lookup is by hash, so its duration reveals nothing about
    /// the token.
    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        self.users.get(&hash).cloned()
    }
}

/// Splits a line at its commas. A field in double quotes may contain commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            c => fields.last_mut().expect("there is always one").push(c),
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

fn hash_of_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// printf %s test | sha256sum
    const TEST: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn a_token_is_found_by_its_hash() {
        let file = TokenFile::parse(&format!("# ours\n\n{TEST},jane,u1,\"staff, ops\"\n")).unwrap();
        let jane = file.user("test").unwrap();
        assert_eq!((&*jane.name, &*jane.uid), ("jane", "u1"));
        assert_eq!(jane.groups, ["staff", "ops", "system:authenticated"]);
        assert_eq!(file.user("Test"), None);
        assert_eq!(file.user(TEST), None, "the hash itself opens nothing");
    }

    #[test]
    fn a_file_that_is_wrong_names_the_line() {
        let refused = |text: &str| TokenFile::parse(text).unwrap_err();
        assert_eq!(refused("secret,jane"), TokenFileError::NotHashed { line: 1 });
        assert_eq!(refused("sha256:zz,jane"), TokenFileError::NotHashed { line: 1 });
        assert_eq!(refused(&format!("\n{TEST}")), TokenFileError::Malformed { line: 2 });
        assert_eq!(refused(&format!("{TEST},")), TokenFileError::Malformed { line: 1 });
        assert_eq!(refused(&format!("{TEST},jane\n{TEST},joe")), TokenFileError::Twice { line: 2 });
    }
}
