//! The costs of functions and operators, as kube-apiserver 1.36 counts them at run time. The cost
//! limits are also kube-apiserver's, so a policy that passes there passes here.
//!
//! kube-apiserver determines the types of some operands before it runs an expression, and counts 1
//! for an operator on operands of unknown types. Here the types of the values are used.

use super::super::meter::LIST_COST;
use super::super::value::Value;
use super::operators::Operator;

/// The length of the longest regular expression of any named format.
const FORMAT_PATTERN_LENGTH: u64 = 60;

/// Returns the cost of a call, without the cost of its arguments.
pub fn of_call(name: &str, args: &[Value<'_>]) -> u64 {
    let size_of = |index: usize| args.get(index).map_or(1, size);
    let whole = size_of(0);
    match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(1, traversal),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "startsWith"
        | "endsWith"
        | "bytes"
        | "strings.quote"
        | "format" => tenth(whole),
        "string" if matches!(args, [Value::Bytes(_)]) => tenth(whole),
        "ip" if !matches!(args, [Value::Cidr(_)]) => tenth(whole),
        "replace" | "split" | "ip.isCanonical" => tenth(2 * whole),
        "join" => tenth(2 * joined(args)),
        "contains" => tenth(whole) * tenth(size_of(1)),
        "find" | "findAll" | "matches" => tenth(1 + whole) * size_of(1).div_ceil(4),
        "validate" => tenth(1 + size_of(1)) * FORMAT_PATTERN_LENGTH.div_ceil(4),
        "containsIP" => tenth(2 * whole) + text(args.get(1)),
        "containsCIDR" => tenth(2 * whole) + tenth(whole) + 1 + text(args.get(1)),
        "lists.range" => match args {
            [Value::Int(end)] => list(u64::try_from(*end).unwrap_or(0)),
            _ => list(0),
        },
        "slice" => match args {
            [_, Value::Int(start), Value::Int(end)] => list(u64::try_from(end.saturating_sub(*start)).unwrap_or(0)),
            _ => list(0),
        },
        "reverse" => list(whole),
        "flatten" => match args {
            [_, Value::Int(depth)] => list(whole.saturating_mul(u64::try_from(*depth).unwrap_or(0))),
            _ => list(whole),
        },
        "distinct" => list(whole.saturating_mul(whole).saturating_mul(2)),
        // kube-apiserver counts 1 for a list with elements of unknown type.
        "sort" | "@sortByAssociatedKeys" => list(whole.saturating_mul(u64::from(whole.checked_ilog2().unwrap_or(0)))),
        "sets.contains" | "sets.intersects" => 1 + whole.saturating_mul(size_of(1)),
        "sets.equivalent" => 1 + whole.saturating_mul(size_of(1)).saturating_mul(2),
        _ => 1,
    }
}

/// Returns the cost of an operator.
pub fn of_operator(operator: Operator, first: &Value<'_>, second: &Value<'_>) -> u64 {
    let smaller = || tenth(size(first).min(size(second)));
    match operator {
        Operator::Equal if is_opaque(first) => 1,
        Operator::Equal | Operator::Unequal => smaller(),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => match first {
            Value::String(_) | Value::Bytes(_) => smaller(),
            _ => 1,
        },
        Operator::In => match second {
            Value::List(_) => size(second),
            _ => 1,
        },
        Operator::Add => match (first, second) {
            (Value::String(_), _) | (Value::Bytes(_), _) => tenth(size(first) + size(second)),
            // kube-apiserver does not copy the lists, and counts 1.
            (Value::List(one), Value::List(two)) => 1 + tenth((one.len() + two.len()) as u64),
            _ => 1,
        },
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo => 1,
    }
}

/// Returns the cost of a search by a pattern.
pub fn of_match(text: &str, pattern: &str) -> u64 {
    tenth(1 + text.chars().count() as u64) * (pattern.chars().count() as u64).div_ceil(4)
}

/// Returns the cost of a label or field selector, which is parsed into its requirements.
pub fn of_selector(selector: &str) -> u64 {
    let length = selector.len() as u64;
    LIST_COST + tenth(length) + length.div_ceil(2) * 50
}

fn tenth(length: u64) -> u64 {
    length.div_ceil(10)
}

/// Returns the cost of creating a list.
fn list(size: u64) -> u64 {
    1 + LIST_COST + size
}

fn text(value: Option<&Value<'_>>) -> u64 {
    match value {
        Some(text @ Value::String(_)) => tenth(size(text)),
        _ => 0,
    }
}

/// Returns the size of a value at its top level: characters, bytes or elements.
fn size(value: &Value<'_>) -> u64 {
    let length = match value {
        Value::String(text) => text.as_str().chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Optional(Some(value)) => return size(value),
        Value::Ip(address) => {
            if address.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Cidr(cidr) => usize::from(cidr.bits).div_ceil(8),
        _ => 1,
    };
    length as u64
}

fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.as_str().len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.iter().map(|item| traversal(&item)).sum(),
        Value::Map(map) => map.entries().iter().map(|(key, value)| traversal(key) + traversal(value)).sum(),
        _ => 1,
    }
}

/// Returns the length of the text that `join` returns.
fn joined(args: &[Value<'_>]) -> u64 {
    let Some(Value::List(list)) = args.first() else { return 0 };
    let separator = args.get(1).map_or(0, size);
    let parts: u64 = list.iter().map(|item| size(&item)).sum();
    parts + separator.saturating_mul((list.len() as u64).saturating_sub(1))
}

/// Returns whether kube-apiserver counts 1 for the comparison with a value of this type.
fn is_opaque(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Quantity(..)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Semver(_)
            | Value::Authorizer(_)
            | Value::Decision { .. }
    )
}
