//! Validation of the properties that a placement compares, as in upstream's webhook and with its
//! messages. Pure.

use std::collections::BTreeMap;

use super::policy::PropertySelectorRequirement;
use ballast_k8s::names::{qualified_name_faults, subdomain_faults};
use ballast_k8s::{FieldErrors, FieldPath, Quantity};

const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";
const USAGES: [&str; 3] = ["allocatable", "available", "total"];
const OPERATORS: [&str; 6] = ["Gt", "Ge", "Eq", "Ne", "Lt", "Le"];
const QUANTITY: &str = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Maximum number of properties of which a contradiction is reported, because each report contains
/// all requirements.
const CONTRADICTIONS_MAX: usize = 10;

/// Checks each requirement by itself, and then all requirements on the same property together.
pub(super) fn requirements(requirements: &[PropertySelectorRequirement], at: &FieldPath, errors: &mut FieldErrors) {
    let mut readable: Vec<(&str, Comparison<'_>)> = Vec::new();
    for (index, requirement) in requirements.iter().enumerate() {
        let at = at.index(index);
        let property = &requirement.name;
        if let Err(fault) = name(property) {
            errors.invalid(&at.child("name"), property, format_args!("invalid property name {property}: {fault}"));
        }
        match comparison(requirement) {
            Ok(comparison) => readable.push((property, comparison)),
            Err((field, fault)) => {
                let detail = format_args!("invalid requirement on property {property}: {fault}");
                match field {
                    "operator" => errors.invalid(&at.child(field), &requirement.operator, detail),
                    _ => errors.invalid(&at.child(field), &requirement.values, detail),
                }
            }
        }
    }
    let mut by_property: BTreeMap<&str, Vec<Comparison<'_>>> = BTreeMap::new();
    for (property, comparison) in readable {
        by_property.entry(property).or_default().push(comparison);
    }
    let faults = by_property.iter().filter_map(|(property, on_it)| Some((property, contradiction(on_it)?)));
    for (property, fault) in faults.take(CONTRADICTIONS_MAX) {
        let detail = format_args!("inconsistent requirements on property {property}: {fault}");
        errors.invalid(at, requirements, detail);
    }
}

/// A comparison of a property with a value.
#[derive(Clone, Copy)]
struct Comparison<'r> {
    operator: &'r str,
    value: Quantity,
    /// Value as it was written.
    text: &'r str,
}

/// Parses the comparison. The error contains the invalid field and the reason.
fn comparison(requirement: &PropertySelectorRequirement) -> Result<Comparison<'_>, (&'static str, String)> {
    let PropertySelectorRequirement { operator, values, .. } = requirement;
    if !OPERATORS.contains(&operator.as_str()) {
        return Err(("operator", format!("unsupported operator {operator}")));
    }
    let [text] = values.as_slice() else {
        return Err(("values", format!("operator {operator} requires exactly one value, got {}", values.len())));
    };
    match text.parse() {
        Ok(value) => Ok(Comparison { operator, value, text }),
        Err(_) => Err(("values", format!("value {text:?} is not a valid resource.Quantity: {QUANTITY}"))),
    }
}

/// Returns the reason that no value can satisfy all of these comparisons, or `None` if one can.
fn contradiction(comparisons: &[Comparison<'_>]) -> Option<String> {
    let with = |operators: &'static [&str]| comparisons.iter().filter(|each| operators.contains(&each.operator));
    let equal = with(&["Eq"]).next();
    if let Some(equal) = equal {
        let text = equal.text;
        if let Some(other) = with(&["Eq"]).find(|other| other.value != equal.value) {
            return Some(format!("conflicting Eq values {text} and {}", other.text));
        }
        if with(&["Ne"]).any(|other| other.value == equal.value) {
            return Some(format!("conflicting Eq and Ne on same value {text}"));
        }
    }
    // Of two bounds with the same value, the strict one counts.
    let lower = with(&["Gt", "Ge"]).max_by_key(|each| (each.value, each.operator == "Gt"));
    let upper = with(&["Lt", "Le"]).min_by_key(|each| (each.value, each.operator == "Le"));
    let is_below = |value: Quantity, lower: &Comparison<'_>| {
        value < lower.value || (value == lower.value && lower.operator == "Gt")
    };
    let is_above = |value: Quantity, upper: &Comparison<'_>| {
        value > upper.value || (value == upper.value && upper.operator == "Lt")
    };
    if let (Some(lower), Some(upper)) = (lower, upper)
        && (is_below(upper.value, lower) || is_above(lower.value, upper))
    {
        return Some(format!("lower bound ({}) and upper bound ({}) exclude all values", lower.text, upper.text));
    }
    let equal = equal?;
    if let Some(lower) = lower.filter(|lower| is_below(equal.value, lower)) {
        return Some(format!("eq value {} violates lower bound {}", equal.text, lower.text));
    }
    let upper = upper.filter(|upper| is_above(equal.value, upper))?;
    Some(format!("eq value {} violates upper bound {}", equal.text, upper.text))
}

pub(super) fn name(name: &str) -> Result<(), String> {
    if let Some(figure) = name.strip_prefix(RESOURCE_PREFIX) {
        return match figure.split_once('-') {
            None => Err(format!(
                "invalid resource property name {name}, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
            )),
            Some((usage, _)) if !USAGES.contains(&usage) => Err(format!(
                "invalid capacity type in resource property name {name}, supported values are [{}]",
                USAGES.join(" ")
            )),
            // Upstream accepts it, but its scheduler cannot parse it (vector invalid-a-003).
            Some((_, resource)) if resource.contains('-') => {
                Err("a resource with a dash in its name cannot be compared".to_owned())
            }
            Some(_) => faultless(&format!("property name {name}"), &qualified_name_faults(name)),
        };
    }
    let Some((first, others)) = name.split_once('/') else {
        return faultless(&format!("property name {name}"), &qualified_name_faults(name));
    };
    let (as_subdomain, as_name) = (subdomain_faults(first), qualified_name_faults(first));
    if !as_subdomain.is_empty() && !as_name.is_empty() {
        return Err(format!(
            "property name first segment {first} is not valid: it is neither a valid DNS subdomain ({}) nor a valid \
             qualified name ({})",
            as_subdomain.join("; "),
            as_name.join("; ")
        ));
    }
    others
        .split('/')
        .try_for_each(|segment| faultless(&format!("property name segment {segment}"), &qualified_name_faults(segment)))
}

fn faultless(what: &str, faults: &[String]) -> Result<(), String> {
    if faults.is_empty() { Ok(()) } else { Err(format!("{what} is not valid: {}", faults.join("; "))) }
}
