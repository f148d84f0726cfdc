//! Parses recorded cases: JSON lines in the format of the vectors.

use serde_json::{Map, Value};

use ballast_k8s::json_fault;

/// A case to decide.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Karmada(Case),
    /// A placement of the KubeFleet family, as in the line.
    Fleet(Value),
}

/// One binding to decide, with everything that the decision depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    pub id: String,
    pub gates: Map<String, Value>,
    pub clusters: Vec<Value>,
    /// The other bindings.
    pub others: Vec<Value>,
    pub binding: Value,
    /// The accepted results: the recorded one, and the one with a stable sort if a sort decided.
    /// Empty if the case has no expectation.
    pub expected: Vec<Value>,
}

/// A case that cannot be parsed, with its id if that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Malformed {
    pub id: Option<String>,
    pub why: String,
}

/// Parses the cases of a recording, in order. Lines are parsed lazily, because recordings are long.
pub fn inputs(text: &str) -> impl Iterator<Item = Result<Input, Malformed>> {
    text.lines().filter(|line| !line.trim().is_empty()).map(line)
}

/// Returns whether a text is JSON lines: it consists of objects, and one line is a complete case.
pub fn are_lines(text: &str) -> bool {
    let is_case = |line: &str| {
        let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return false };
        fields.contains_key("id") && !fields.contains_key("kind")
    };
    text.trim_start().starts_with('{') && text.lines().any(is_case)
}

fn line(line: &str) -> Result<Input, Malformed> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| Malformed { id: find_id(line), why: json_fault(&error) })?;
    if fields.contains_key("memberClusters") {
        return Ok(Input::Fleet(Value::Object(fields)));
    }
    let id = match fields.remove("id") {
        Some(Value::String(id)) => id,
        Some(other) => other.to_string(),
        None => return Err(Malformed { id: None, why: "a case needs an id".to_owned() }),
    };
    let malformed = |why: &str| Malformed { id: Some(id.clone()), why: why.to_owned() };
    let mut list = |name: &str, needed: bool| match fields.remove(name) {
        Some(Value::Array(items)) => Ok(items),
        None | Some(Value::Null) if !needed => Ok(Vec::new()),
        _ => Err(malformed(&format!("{name} must be a list"))),
    };
    let (clusters, others) = (list("clusters", true)?, list("otherBindings", false)?);
    let gates = match fields.remove("gates") {
        Some(Value::Object(gates)) => gates,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(malformed("gates must be an object")),
    };
    let binding = match fields.remove("binding") {
        Some(binding @ Value::Object(_)) => binding,
        _ => return Err(malformed("binding must be an object")),
    };
    let expected = ["expect", "stableSort"].into_iter().filter_map(|field| fields.remove(field)).collect();
    Ok(Input::Karmada(Case { id, gates, clusters, others, binding, expected }))
}

/// Finds the id in a line that is not JSON, so that the error can name it.
fn find_id(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("\"id\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let mut text = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    text.next()?.ok()
}
