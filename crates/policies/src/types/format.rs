//! Named formats of Kubernetes.

use std::sync::LazyLock;

use regex::Regex;

use super::url;

/// A named format of Kubernetes.
#[derive(Debug)]
pub struct Format {
    pub name: &'static str,
    /// Returns the faults of a text.
    pub check: fn(&str) -> Vec<String>,
}

pub const FORMATS: &[Format] = &[
    Format { name: "dns1123Label", check: |text| rule(&LABEL, text, 63, LABEL_WHY) },
    Format { name: "dns1123Subdomain", check: |text| rule(&SUBDOMAIN, text, 253, SUBDOMAIN_WHY) },
    Format { name: "dns1035Label", check: |text| rule(&LABEL_1035, text, 63, LABEL_1035_WHY) },
    Format { name: "qualifiedName", check: qualified_name },
    Format { name: "dns1123LabelPrefix", check: |text| rule(&LABEL, &unmasked(text), 63, LABEL_WHY) },
    Format { name: "dns1123SubdomainPrefix", check: |text| rule(&SUBDOMAIN, &unmasked(text), 253, SUBDOMAIN_WHY) },
    Format { name: "dns1035LabelPrefix", check: |text| rule(&LABEL_1035, &unmasked(text), 63, LABEL_1035_WHY) },
    Format { name: "labelValue", check: |text| rule(&LABEL_VALUE, text, 63, LABEL_VALUE_WHY) },
    Format { name: "uri", check: |text| url::fault(text).into_iter().collect() },
    Format { name: "uuid", check: |text| one(UUID.is_match(text), "does not match the UUID format") },
    Format { name: "byte", check: |text| one(is_base64(text), "invalid base64") },
    Format {
        name: "date",
        check: |text| one(text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10, "invalid date"),
    },
    Format { name: "datetime", check: |text| one(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime") },
];

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

/// Replaces the dash at the end of a prefix, which is valid because a name follows it.
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
