//! `ballast simulate`: decisions offline, for what-if and for CI.
//!
//! Reads Kubernetes objects (several YAML or JSON documents) or JSON lines, one case each, and writes one answer for
//! each case in input order. Needs no server, no clock and no network. A case that cannot be read is answered with
//! an error and does not stop the others.

mod command;
mod input;
mod karmada;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use serde_json::{Map, Value, json};

pub use command::{Args, run};
pub use input::{Case, Input, Malformed, inputs};
pub use karmada::{Binding, Report, read};

use super::simulate_fleet::simulate_fleet;
use crate::engine::karmada::{Profile, Rules};

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// One JSON object on a line for each case, in the form in which vectors state what they expect.
    Json,
    /// For people: the outcome, and a line for each cluster with what spoke for and against it.
    Table,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub rules: Rules,
    pub output: Output,
    /// JSON answers tell why, too. Tables always do.
    pub trace: bool,
}

/// Answers every case of `text`. Returns how many could not be read.
pub fn simulate(text: &str, options: &Options, out: &mut dyn Write) -> io::Result<usize> {
    let mut malformed = 0;
    for input in inputs(text) {
        let answer = match (input, options.output) {
            (Ok(Input::Karmada(case)), Output::Table) => karmada::decide(&case, options, true)
                .map(|(report, trace)| table::write(&case.id, &report, &trace.unwrap_or_default())),
            (Ok(Input::Karmada(case)), Output::Json) => answer(&case, options).map(|line| format!("{line}\n")),
            (Ok(Input::Fleet(line)), _) => {
                let line = simulate_fleet(&line);
                malformed += usize::from(line.get("error").is_some());
                Ok(format!("{line}\n"))
            }
            (Err(error), _) => Err(error),
        };
        let answer = answer.unwrap_or_else(|error| {
            malformed += 1;
            format!("{}\n", json!({"id": error.id, "error": error.why}))
        });
        out.write_all(answer.as_bytes())?;
    }
    Ok(malformed)
}

/// The answer to one case, as a line of JSON.
pub fn answer(case: &Case, options: &Options) -> Result<Value, Malformed> {
    let (report, trace) = karmada::decide(case, options, options.trace)?;
    let mut line = Map::new();
    line.insert("id".to_owned(), Value::from(case.id.clone()));
    if let Ok(Value::Object(report)) = serde_json::to_value(&report) {
        line.extend(report);
    }
    if let Some(trace) = trace {
        line.insert("trace".to_owned(), serde_json::to_value(&trace).unwrap_or_default());
    }
    Ok(Value::Object(line))
}

impl Options {
    /// The rules with the gates that a case sets.
    pub fn profile(&self, gates: &Map<String, Value>) -> Profile {
        let mut profile = match self.rules {
            Rules::Karmada => Profile::karmada(),
            Rules::Default => Profile::ours(),
        };
        let gate = |name: &str| gates.get(name).and_then(Value::as_bool);
        if let Some(on) = gate("WorkloadAffinity") {
            profile.workload_affinity = on;
        }
        if let Some(on) = gate("MultiplePodTemplatesScheduling") {
            profile.multiple_pod_templates = on;
        }
        profile
    }
}
