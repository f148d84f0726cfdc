//! Semantic versions.

use std::sync::Arc;

use super::super::fault::Fault;
use super::super::types::semver::{Semver, normalized, parse};
use super::super::value::Value;
use super::{Outcome, Table};

pub const GLOBALS: Table = &[
    ("semver", |_, args| read(args)?.map(|version| Value::Semver(Arc::new(version))).map_err(Fault::new)),
    ("isSemver", |_, args| Ok(Value::Bool(read(args)?.is_ok()))),
];

pub const METHODS: Table = &[
    ("major", |_, args| part(args, |version| version.major)),
    ("minor", |_, args| part(args, |version| version.minor)),
    ("patch", |_, args| part(args, |version| version.patch)),
];

fn part<'a>(args: &[Value<'a>], read: impl Fn(&Semver) -> u64) -> Outcome<'a> {
    match args {
        [Value::Semver(version)] => Ok(Value::Int(i64::try_from(read(version)).unwrap_or(i64::MAX))),
        _ => Err(Fault::no_overload()),
    }
}

/// Parses a version. The outer error means that the arguments have the wrong types.
fn read(args: &[Value<'_>]) -> Result<Result<Semver, String>, Fault> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(parse(text.as_str())),
        [Value::String(text), Value::Bool(true)] => Ok(parse(&normalized(text.as_str()))),
        _ => Err(Fault::no_overload()),
    }
}
