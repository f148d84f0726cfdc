//! Reads cases from text: JSON lines in the form of the vectors, or manifests as kubectl reads
//! them.

use serde_json::{Map, Value};

use crate::k8s::Body;

/// A question to answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Karmada(Case),
    /// A placement of the Fleet family, as the line has it.
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
    /// The answers that count as right: the recorded one, and the one with a stable sort if a sort
    /// decided. Empty if the case has no expectation.
    pub expected: Vec<Value>,
}

/// A case that cannot be read, with its id if that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Malformed {
    pub id: Option<String>,
    pub why: String,
}

/// Reads the cases of a text, in order. Lines are read one at a time, because recordings are long.
pub fn inputs(text: &str) -> Box<dyn Iterator<Item = Result<Input, Malformed>> + '_> {
    if are_lines(text) {
        Box::new(text.lines().filter(|line| !line.trim().is_empty()).map(line))
    } else {
        Box::new(manifests(text).into_iter())
    }
}

/// Whether a text is JSON lines: it consists of objects, and one line is a whole case.
fn are_lines(text: &str) -> bool {
    let is_case = |line: &str| {
        let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return false };
        fields.contains_key("id") && !fields.contains_key("kind")
    };
    text.trim_start().starts_with('{') && text.lines().any(is_case)
}

fn line(line: &str) -> Result<Input, Malformed> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| Malformed { id: find_id(line), why: error.to_string() })?;
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

/// Finds the id in a line that is not JSON, so that its author can find the line.
fn find_id(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("\"id\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let mut text = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    text.next()?.ok()
}

/// Makes a case of each binding among the objects, with all clusters and all other bindings.
fn manifests(text: &str) -> Vec<Result<Input, Malformed>> {
    let mut objects = Vec::new();
    let mut cases = Vec::new();
    for (number, document) in documents(text).into_iter().enumerate() {
        match read(&document) {
            Ok(found) => objects.extend(found),
            Err(why) => cases.push(Err(Malformed { id: None, why: format!("document {}: {why}", number + 1) })),
        }
    }
    let of_kind = |kinds: &'static [&'static str]| {
        move |object: &&Value| object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
    };
    let clusters: Vec<Value> = objects.iter().filter(of_kind(&["Cluster"])).cloned().collect();
    let bindings: Vec<&Value> =
        objects.iter().filter(of_kind(&["ResourceBinding", "ClusterResourceBinding"])).collect();
    for (number, binding) in bindings.iter().enumerate() {
        let others = bindings.iter().enumerate().filter(|(other, _)| *other != number);
        cases.push(Ok(Input::Karmada(Case {
            id: name(binding),
            gates: Map::new(),
            clusters: clusters.clone(),
            others: others.map(|(_, other)| (*other).clone()).collect(),
            binding: (*binding).clone(),
            expected: Vec::new(),
        })));
    }
    cases
}

fn name(object: &Value) -> String {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    match field("namespace").as_str() {
        "" => field("name"),
        namespace => format!("{namespace}/{}", field("name")),
    }
}

/// Splits a stream as kubectl does, at lines of three dashes. Concatenated JSON objects are
/// documents too.
fn documents(text: &str) -> Vec<String> {
    if text.trim_start().starts_with('{') {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(values) = values {
            return values.iter().map(Value::to_string).collect();
        }
    }
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            documents.push(String::new());
        } else {
            let last = documents.last_mut().expect("there is always one");
            last.push_str(line);
            last.push('\n');
        }
    }
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    documents.retain(|document| !document.lines().all(says_nothing));
    documents
}

/// Returns an object, or the items of a list.
fn read(document: &str) -> Result<Vec<Value>, String> {
    let mut object = Body::from_yaml(document.as_bytes()).map_err(|error| error.to_string())?.value;
    if !object.get("kind").is_some_and(Value::is_string) {
        return Err("an object needs a kind".to_owned());
    }
    Ok(match object.remove("items") {
        Some(Value::Array(items)) => items,
        Some(_) => return Err("items must be a list".to_owned()),
        None => vec![Value::Object(object)],
    })
}
