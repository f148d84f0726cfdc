//! Operators: arithmetic, comparisons and `in`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::value::{List, Map, Value};
use super::{Outcome, cost};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

pub fn apply<'a>(operator: Operator, meter: &mut Meter, first: Value<'a>, second: Value<'a>) -> Outcome<'a> {
    meter.charge(cost::of_operator(operator, &first, &second))?;
    match operator {
        Operator::Equal => equal(meter, &first, &second).map(Value::Bool),
        Operator::Unequal => equal(meter, &first, &second).map(|is_equal| Value::Bool(!is_equal)),
        Operator::Less => order(meter, &first, &second).map(|order| Value::Bool(order == Some(Ordering::Less))),
        Operator::Greater => order(meter, &first, &second).map(|order| Value::Bool(order == Some(Ordering::Greater))),
        Operator::LessOrEqual => {
            let order = order(meter, &first, &second)?;
            Ok(Value::Bool(order.is_some_and(Ordering::is_le)))
        }
        Operator::GreaterOrEqual => {
            let order = order(meter, &first, &second)?;
            Ok(Value::Bool(order.is_some_and(Ordering::is_ge)))
        }
        Operator::In => contains(meter, &second, &first).map(Value::Bool),
        Operator::Add => add(meter, first, second),
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            calculate(operator, &first, &second)
        }
    }
}

/// Returns the amount of data that a comparison of the value reads.
fn size(value: &Value<'_>) -> usize {
    match value {
        Value::String(text) => text.as_str().len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.iter().map(|item| 1 + size(&item)).sum(),
        Value::Map(map) => map.entries().iter().map(|(key, value)| 1 + size(key) + size(value)).sum(),
        Value::Object(object) => object.fields.iter().map(|(_, value)| 1 + size(value)).sum(),
        _ => 1,
    }
}

fn equal<'a>(meter: &mut Meter, first: &Value<'a>, second: &Value<'a>) -> Result<bool, Fault> {
    meter.work(size(first).min(size(second)))?;
    Ok(first.equals(second))
}

fn order<'a>(meter: &mut Meter, first: &Value<'a>, second: &Value<'a>) -> Result<Option<Ordering>, Fault> {
    meter.work(size(first).min(size(second)))?;
    first.order(second)
}

pub fn contains<'a>(meter: &mut Meter, whole: &Value<'a>, part: &Value<'a>) -> Result<bool, Fault> {
    match whole {
        Value::List(list) => {
            let each = size(part).div_ceil(10);
            meter.work(list.len() * each)?;
            Ok(list.iter().any(|item| item.equals(part)))
        }
        Value::Map(Map::Json(_)) => match whole {
            Value::Map(map) => Ok(map.get(part).is_some()),
            _ => Ok(false),
        },
        Value::Map(map) => {
            meter.work(map.len())?;
            Ok(map.get(part).is_some())
        }
        _ => Err(Fault::no_overload()),
    }
}

fn overflow(kind: &str) -> Fault {
    Fault::new(format!("{kind} overflow"))
}

fn add<'a>(meter: &mut Meter, first: Value<'a>, second: Value<'a>) -> Outcome<'a> {
    Ok(match (first, second) {
        (Value::Int(one), Value::Int(two)) => Value::Int(one.checked_add(two).ok_or_else(|| overflow("integer"))?),
        (Value::Uint(one), Value::Uint(two)) => {
            Value::Uint(one.checked_add(two).ok_or_else(|| overflow("unsigned integer"))?)
        }
        (Value::Double(one), Value::Double(two)) => Value::Double(one + two),
        (Value::String(one), Value::String(two)) => {
            meter.work(one.as_str().len() + two.as_str().len())?;
            Value::text([one.as_str(), two.as_str()].concat())
        }
        (Value::Bytes(one), Value::Bytes(two)) => {
            meter.work(one.len() + two.len())?;
            Value::Bytes(Arc::from([&one[..], &two[..]].concat()))
        }
        (Value::List(one), Value::List(two)) => {
            meter.work(one.len() + two.len())?;
            let mut items = match one {
                List::Made(items) => Arc::unwrap_or_clone(items),
                List::Json(_) => one.iter().collect(),
            };
            items.extend(two.iter());
            Value::list(items)
        }
        (Value::Duration(one), Value::Duration(two)) => {
            Value::Duration(one.checked_add(two).ok_or_else(|| overflow("duration"))?)
        }
        (Value::Timestamp(time), Value::Duration(span)) | (Value::Duration(span), Value::Timestamp(time)) => {
            Value::Timestamp(time.checked_add(span).map_err(|_| overflow("timestamp"))?)
        }
        _ => return Err(Fault::no_overload()),
    })
}

fn calculate<'a>(operator: Operator, first: &Value<'a>, second: &Value<'a>) -> Outcome<'a> {
    Ok(match (first, second) {
        (Value::Int(one), Value::Int(two)) => {
            let checked = [i64::checked_sub, i64::checked_mul, i64::checked_div, i64::checked_rem];
            Value::Int(whole(operator, (*one, *two), checked, "integer")?)
        }
        (Value::Uint(one), Value::Uint(two)) => {
            let checked = [u64::checked_sub, u64::checked_mul, u64::checked_div, u64::checked_rem];
            Value::Uint(whole(operator, (*one, *two), checked, "unsigned integer")?)
        }
        (Value::Double(one), Value::Double(two)) => Value::Double(match operator {
            Operator::Subtract => one - two,
            Operator::Multiply => one * two,
            Operator::Divide => one / two,
            _ => return Err(Fault::no_overload()),
        }),
        (Value::Duration(one), Value::Duration(two)) if operator == Operator::Subtract => {
            Value::Duration(one.checked_sub(*two).ok_or_else(|| overflow("duration"))?)
        }
        (Value::Timestamp(one), Value::Duration(two)) if operator == Operator::Subtract => {
            Value::Timestamp(one.checked_sub(*two).map_err(|_| overflow("timestamp"))?)
        }
        (Value::Timestamp(one), Value::Timestamp(two)) if operator == Operator::Subtract => {
            Value::Duration(one.duration_since(*two))
        }
        _ => return Err(Fault::no_overload()),
    })
}

/// Computes with integers. `checked` subtracts, multiplies, divides and takes the remainder.
fn whole<N: Copy + Default + PartialEq>(
    operator: Operator,
    (one, two): (N, N),
    checked: [fn(N, N) -> Option<N>; 4],
    kind: &str,
) -> Result<N, Fault> {
    let [subtract, multiply, divide, remainder] = checked;
    let is_zero = two == N::default();
    let result = match operator {
        Operator::Subtract => subtract(one, two),
        Operator::Multiply => multiply(one, two),
        Operator::Divide if is_zero => return Err(Fault::new("division by zero")),
        Operator::Divide => divide(one, two),
        _ if is_zero => return Err(Fault::new("modulus by zero")),
        _ => remainder(one, two),
    };
    result.ok_or_else(|| overflow(kind))
}

pub fn negate<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(|| overflow("integer")),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => value.checked_neg().map(Value::Duration).ok_or_else(|| overflow("duration")),
        _ => Err(Fault::no_overload()),
    }
}
