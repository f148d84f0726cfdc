//! Named formats: `format.dns1123Label().validate(text)`.

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::types::format::FORMATS;
use super::super::value::Value;
use super::{Outcome, Table};

pub const GLOBALS: Table = &[
    ("format.named", |_, args| match args {
        [Value::String(name)] => {
            let found = FORMATS.iter().find(|format| format.name == name.as_str());
            Ok(Value::optional(found.map(Value::Format)))
        }
        _ => Err(Fault::no_overload()),
    }),
    ("format.dns1123Label", |_, _| named("dns1123Label")),
    ("format.dns1123Subdomain", |_, _| named("dns1123Subdomain")),
    ("format.dns1035Label", |_, _| named("dns1035Label")),
    ("format.qualifiedName", |_, _| named("qualifiedName")),
    ("format.dns1123LabelPrefix", |_, _| named("dns1123LabelPrefix")),
    ("format.dns1123SubdomainPrefix", |_, _| named("dns1123SubdomainPrefix")),
    ("format.dns1035LabelPrefix", |_, _| named("dns1035LabelPrefix")),
    ("format.labelValue", |_, _| named("labelValue")),
    ("format.uri", |_, _| named("uri")),
    ("format.uuid", |_, _| named("uuid")),
    ("format.byte", |_, _| named("byte")),
    ("format.date", |_, _| named("date")),
    ("format.datetime", |_, _| named("datetime")),
];

pub const METHODS: Table = &[("validate", validate)];

fn named<'a>(name: &str) -> Outcome<'a> {
    let found = FORMATS.iter().find(|format| format.name == name);
    found.map(Value::Format).ok_or_else(Fault::no_overload)
}

fn validate<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Format(format), Value::String(text)] = args else { return Err(Fault::no_overload()) };
    meter.work(text.as_str().len())?;
    let faults = (format.check)(text.as_str());
    Ok(match faults.is_empty() {
        true => Value::Optional(None),
        false => Value::some(Value::list(faults.into_iter().map(Value::text).collect())),
    })
}
