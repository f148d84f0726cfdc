//! `ballast simulate`: decisions offline, for what-if and for CI.
//!
//! Reads Kubernetes objects (several YAML or JSON documents) or JSON lines, one case each, and
//! writes one answer for each case in input order. Needs no server, no clock and no network. A case
//! that cannot be read is answered with an error and does not stop the others.

mod command;
mod compare;
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
    /// One JSON object on a line for each case, in the form in which vectors state what they
    /// expect.
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
    /// Only say which answers are not those that the cases expect.
    pub check: bool,
}

/// What became of the cases of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub cases: usize,
    /// Could not be read.
    pub malformed: usize,
    /// Carried an expectation that was not met.
    pub different: usize,
}

/// Answers every case of `text`.
pub fn simulate(text: &str, options: &Options, out: &mut dyn Write) -> io::Result<Tally> {
    let mut tally = Tally::default();
    for input in inputs(text) {
        tally.cases += 1;
        let told = match input {
            Ok(input) if options.check => checked(&input, options).map(|different| {
                tally.different += usize::from(different.is_some());
                different.map_or_else(String::new, |line| format!("{line}\n"))
            }),
            Ok(input) => told(&input, options),
            Err(error) => Err(error),
        };
        let told = told.unwrap_or_else(|error| {
            tally.malformed += 1;
            format!("{}\n", json!({"id": error.id, "error": error.why}))
        });
        out.write_all(told.as_bytes())?;
    }
    Ok(tally)
}

/// The answer as it is written.
fn told(input: &Input, options: &Options) -> Result<String, Malformed> {
    match (input, options.output) {
        (Input::Karmada(case), Output::Table) => karmada::decide(case, options, true)
            .map(|(report, trace)| table::write(&case.id, &report, &trace.unwrap_or_default())),
        (Input::Karmada(case), Output::Json) => answer(case, options).map(|line| format!("{line}\n")),
        (Input::Fleet(line), Output::Table) => simulate_fleet(line).map(|outcome| table::write_fleet(&outcome)),
        (Input::Fleet(line), Output::Json) => simulate_fleet(line).map(|outcome| format!("{outcome}\n")),
    }
}

/// A line with the differences between the answer and what the case expects; None: it is as
/// expected.
fn checked(input: &Input, options: &Options) -> Result<Option<Value>, Malformed> {
    let (id, differences) = match input {
        Input::Karmada(case) => (Value::from(&*case.id), compare::karmada(&case.expected, &answer(case, options)?)),
        Input::Fleet(line) => (line["id"].clone(), compare::fleet(&line["expect"], &simulate_fleet(line)?)),
    };
    Ok((!differences.is_empty()).then(|| json!({"id": id, "differences": differences})))
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
