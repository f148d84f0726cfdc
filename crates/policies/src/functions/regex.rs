//! Regular expressions: `matches`, `find` and `findAll`.

use regex::{Regex, RegexBuilder};

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::value::Value;
use super::{Outcome, Table};

/// The memory limit of one compiled expression. Larger ones are refused.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

pub const METHODS: Table = &[("find", find), ("findAll", find_all)];

pub fn compiled(pattern: &str) -> Result<Regex, Fault> {
    let built = RegexBuilder::new(pattern).size_limit(PROGRAM_BYTES_MAX).build();
    built.map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Fault::new(format!("error parsing regexp: {why}: `{pattern}`"))
    })
}

pub fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return Err(Fault::no_overload()) };
    meter.work(text.as_str().len())?;
    Ok(Value::Bool(compiled(pattern.as_str())?.is_match(text.as_str())))
}

fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return Err(Fault::no_overload()) };
    meter.work(text.as_str().len())?;
    let regex = compiled(pattern.as_str())?;
    Ok(Value::text(regex.find(text.as_str()).map_or("", |found| found.as_str())))
}

fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(Fault::no_overload()),
    };
    meter.work(text.as_str().len())?;
    let regex = compiled(pattern.as_str())?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = regex.find_iter(text.as_str()).take(most).map(|found| Value::text(found.as_str()));
    Ok(Value::list(found.collect()))
}
