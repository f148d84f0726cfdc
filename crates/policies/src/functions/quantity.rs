//! Quantities: `quantity('1Gi')` and its arithmetic.

use super::super::fault::Fault;
use super::super::value::Value;
use super::standard::one;
use super::{Outcome, Table};
use ballast_k8s::{Notation, Quantity};

const NANOS: i128 = 1_000_000_000;

pub const GLOBALS: Table = &[
    ("quantity", |_, args| match one(args)? {
        Value::String(text) => {
            let read = text.as_str().parse::<Quantity>();
            read.map(|amount| Value::Quantity(amount, Notation::of(text.as_str())))
                .map_err(|_| malformed(text.as_str()))
        }
        _ => Err(Fault::no_overload()),
    }),
    ("isQuantity", |_, args| match one(args)? {
        Value::String(text) => Ok(Value::Bool(text.as_str().parse::<Quantity>().is_ok())),
        _ => Err(Fault::no_overload()),
    }),
    ("sign", |_, args| match one(args)? {
        Value::Quantity(amount, _) => Ok(Value::Int(amount.nanos().signum() as i64)),
        _ => Err(Fault::no_overload()),
    }),
];

pub const METHODS: Table = &[
    ("sign", |_, args| match one(args)? {
        Value::Quantity(amount, _) => Ok(Value::Int(amount.nanos().signum() as i64)),
        _ => Err(Fault::no_overload()),
    }),
    ("isInteger", |_, args| amount(args).map(|amount| Value::Bool(whole(amount).is_some()))),
    ("asInteger", |_, args| {
        let whole = whole(amount(args)?);
        whole.map(Value::Int).ok_or_else(|| Fault::new("cannot convert value to integer"))
    }),
    ("asApproximateFloat", |_, args| Ok(Value::Double(amount(args)?.nanos() as f64 / NANOS as f64))),
    ("add", |_, args| combined(args, Quantity::plus)),
    ("sub", |_, args| combined(args, Quantity::minus)),
];

/// Returns why a text is not a quantity. The suffix is at fault if its letters are possible.
fn malformed(text: &str) -> Fault {
    let digits = |it: char| it.is_ascii_digit();
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = text.trim_start_matches(digits);
    let rest = rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(digits));
    let end = rest.trim_start_matches(|it| "eEinumkKMGTP".contains(it));
    let end = end.strip_prefix(['+', '-']).unwrap_or(end);
    if rest.len() < text.len() && end.trim_start_matches(digits).is_empty() {
        return Fault::new("unable to parse quantity's suffix");
    }
    Fault::new("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
}

fn amount(args: &[Value<'_>]) -> Result<Quantity, Fault> {
    match one(args)? {
        Value::Quantity(amount, _) => Ok(*amount),
        _ => Err(Fault::no_overload()),
    }
}

fn whole(amount: Quantity) -> Option<i64> {
    (amount.nanos() % NANOS == 0).then(|| i64::try_from(amount.nanos() / NANOS).ok()).flatten()
}

fn combined<'a>(args: &[Value<'a>], combine: impl Fn(Quantity, Quantity) -> Quantity) -> Outcome<'a> {
    match args {
        [Value::Quantity(one, notation), Value::Quantity(two, _)] => {
            Ok(Value::Quantity(combine(*one, *two), *notation))
        }
        [Value::Quantity(one, notation), Value::Int(two)] => {
            Ok(Value::Quantity(combine(*one, Quantity::from_units(*two)), *notation))
        }
        _ => Err(Fault::no_overload()),
    }
}
