//! Lists as sets.

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::value::{List, Value};
use super::Table;

pub const GLOBALS: Table = &[
    ("sets.contains", |meter, args| {
        let (one, two) = lists(meter, args)?;
        Ok(Value::Bool(two.iter().all(|item| has(one, &item))))
    }),
    ("sets.intersects", |meter, args| {
        let (one, two) = lists(meter, args)?;
        Ok(Value::Bool(two.iter().any(|item| has(one, &item))))
    }),
    ("sets.equivalent", |meter, args| {
        let (one, two) = lists(meter, args)?;
        Ok(Value::Bool(one.iter().all(|item| has(two, &item)) && two.iter().all(|item| has(one, &item))))
    }),
];

/// Returns both lists, after accounting for their comparison.
fn lists<'a, 'b>(meter: &mut Meter, args: &'b [Value<'a>]) -> Result<(&'b List<'a>, &'b List<'a>), Fault> {
    let [Value::List(one), Value::List(two)] = args else { return Err(Fault::no_overload()) };
    meter.work(one.len().saturating_mul(two.len()))?;
    Ok((one, two))
}

fn has<'a>(list: &List<'a>, wanted: &Value<'a>) -> bool {
    list.iter().any(|item| item.equals(wanted))
}
