//! Optional values.

use super::super::fault::Fault;
use super::super::value::Value;
use super::Table;
use super::standard::one;

pub const GLOBALS: Table = &[
    ("optional.of", |_, args| Ok(Value::some(one(args)?.clone()))),
    ("optional.ofNonZeroValue", |_, args| {
        let value = one(args)?;
        Ok(Value::optional((!value.is_zero()).then(|| value.clone())))
    }),
    ("optional.none", |_, _| Ok(Value::Optional(None))),
];

pub const METHODS: Table = &[
    ("hasValue", |_, args| match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Fault::no_overload()),
    }),
    ("value", |_, args| match args {
        [Value::Optional(Some(value))] => Ok(Value::clone(value)),
        [Value::Optional(None)] => Err(Fault::new("optional.none() dereference")),
        _ => Err(Fault::no_overload()),
    }),
    ("or", |_, args| match args {
        [first @ Value::Optional(Some(_)), Value::Optional(_)] => Ok(first.clone()),
        [Value::Optional(None), second @ Value::Optional(_)] => Ok(second.clone()),
        _ => Err(Fault::no_overload()),
    }),
    ("orValue", |_, args| match args {
        [Value::Optional(Some(value)), _] => Ok(Value::clone(value)),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(Fault::no_overload()),
    }),
];
