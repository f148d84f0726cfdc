//! Named formats: `format.dns1123Label().validate(text)`.

use std::sync::LazyLock;

use regex::Regex;

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::value::Value;
use super::{Outcome, Table, url};

/// A format of Kubernetes.
#[derive(Debug)]
pub struct Format {
    pub name: &'static str,
    /// The faults of a text.
    check: fn(&str) -> Vec<String>,
}

const FORMATS: &[Format] = &[
    Format { name: "dns1123Label", check: |text| rule(&LABEL, text, 63, LABEL_WHY) },
    Format { name: "dns1123Subdomain", check: |text| rule(&SUBDOMAIN, text, 253, SUBDOMAIN_WHY) },
    Format { name: "dns1035Label", check: |text| rule(&LABEL_1035, text, 63, LABEL_1035_WHY) },
    Format { name: "qualifiedName", check: qualified_name },
    Format { name: "dns1123LabelPrefix", check: |text| rule(&LABEL, &unmasked(text), 63, LABEL_WHY) },
    Format { name: "dns1123SubdomainPrefix", check: |text| rule(&SUBDOMAIN, &unmasked(text), 253, SUBDOMAIN_WHY) },
    Format { name: "dns1035LabelPrefix", check: |text| rule(&LABEL_1035, &unmasked(text), 63, LABEL_1035_WHY) },
    Format { name: "labelValue", check: |text| rule(&LABEL_VALUE, text, 63, LABEL_VALUE_WHY) },
    Format {
        name: "uri",
        check: |text| url::fault(text).map(|why| format!("parse {text:?}: {why}")).into_iter().collect(),
    },
    Format { name: "uuid", check: |text| one(UUID.is_match(text), "does not match the UUID format") },
    Format { name: "byte", check: |text| one(is_base64(text), "invalid base64") },
    Format {
        name: "date",
        check: |text| one(text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10, "invalid date"),
    },
    Format { name: "datetime", check: |text| one(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime") },
];

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
    meter.charge_walk(text.as_str().len())?;
    let faults = (format.check)(text.as_str());
    Ok(match faults.is_empty() {
        true => Value::Optional(None),
        false => Value::some(Value::list(faults.into_iter().map(Value::text).collect())),
    })
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("it is well formed"));
    };
}

pattern!(LABEL, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
pattern!(SUBDOMAIN, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
pattern!(LABEL_1035, "^[a-z]([-a-z0-9]*[a-z0-9])?$");
pattern!(LABEL_VALUE, "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$");
pattern!(NAME, "^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$");
pattern!(UUID, "^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");

const LABEL_WHY: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_WHY: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_WHY: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE_WHY: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
    or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_WHY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn rule(pattern: &Regex, text: &str, longest: usize, why: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > longest {
        faults.push(format!("must be no more than {longest} bytes"));
    }
    if !pattern.is_match(text) {
        faults.push(why.to_owned());
    }
    faults
}

fn one(holds: bool, why: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![why.to_owned()] }
}

/// A prefix to which a name is added may end with a dash.
fn unmasked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(before) if !before.is_empty() => format!("{before}a"),
        _ => text.to_owned(),
    }
}

fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, (*name).to_owned()),
        [prefix, name] => (Some((*prefix).to_owned()), (*name).to_owned()),
        _ => {
            return vec![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                 validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and \
                 '/' (e.g. 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    let mut faults = Vec::new();
    match prefix.as_deref() {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            faults.extend(
                rule(&SUBDOMAIN, prefix, 253, SUBDOMAIN_WHY).into_iter().map(|why| format!("prefix part {why}")),
            );
        }
        None => {}
    }
    match name.is_empty() {
        true => {
            faults.push("name part must be non-empty".to_owned());
            faults.push(NAME_WHY.to_owned());
        }
        false => faults.extend(rule(&NAME, &name, 63, NAME_WHY)),
    }
    faults
}

fn is_base64(text: &str) -> bool {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}
