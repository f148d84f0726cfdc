//! `ballast simulate`: decisions offline, for what-if and for CI.
//!
//! Reads Kubernetes objects (YAML or JSON documents) or JSON lines with one case each, and writes
//! one result for each binding or case in input order. It needs no server, no clock and no network.
//! A case that cannot be parsed has an error as its result, and all others are still decided.
//!
//! Triggers and rebalances among the objects are executed: see `manifests`.

mod command;
mod compare;
mod input;
mod karmada;
mod manifests;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod world;

use std::io::{self, Write};

use serde_json::{Map, Value, json};

pub use command::{Args, run};
pub use input::{Case, Input, Malformed, inputs};
pub use karmada::{Binding, Report, read};
pub use world::Patch;

use super::simulate_fleet::simulate_fleet;
use ballast_engine::karmada::{Profile, Rules, Trace};

/// The format of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// One JSON object on a line for each case, in the format of the vectors' `expect`.
    Json,
    /// A table for people: the outcome, and a line for each cluster with its scores and reasons.
    Table,
    /// Counts, and the clusters before and after.
    Summary,
    /// The leaving and arriving replicas of each binding that moves.
    Diff,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub rules: Rules,
    pub output: Output,
    /// Whether JSON results contain the reasons. Tables always do.
    pub trace: bool,
    /// Whether to print only the results that differ from the cases' expectations.
    pub check: bool,
    /// Merged into the objects of manifests before anything is decided.
    pub patches: Vec<Patch>,
    /// The files of the text, each with its start offset in bytes. Errors name them.
    pub files: Vec<(usize, String)>,
}

/// Counts of the results of a text's cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub cases: usize,
    /// Cases that could not be parsed.
    pub malformed: usize,
    /// Cases with unmet expectations.
    pub different: usize,
    /// Bindings of manifests that fit nowhere.
    pub unplaced: usize,
    /// Sentences about requests of triggers and rebalances that could not be fulfilled.
    pub remarks: Vec<String>,
    /// The objects that were ignored, by kind: `1 ConfigMap`.
    pub ignored: Vec<String>,
}

/// Decides every case of `text`, which is a recording or manifests.
pub fn simulate(text: &str, options: &Options, out: &mut dyn Write) -> io::Result<Tally> {
    match input::are_lines(text) {
        true => recorded(text, options, out),
        false => summary::manifests(text, options, out),
    }
}

fn recorded(text: &str, options: &Options, out: &mut dyn Write) -> io::Result<Tally> {
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
            unread(&error)
        });
        out.write_all(told.as_bytes())?;
    }
    Ok(tally)
}

/// Returns the line for a case that could not be parsed.
fn unread(error: &Malformed) -> String {
    format!("{}\n", json!({"id": error.id, "error": error.why}))
}

/// Returns the result in the requested format.
fn told(input: &Input, options: &Options) -> Result<String, Malformed> {
    match (input, options.output) {
        (Input::Karmada(case), Output::Table) => karmada::decide(case, options, true)
            .map(|(report, trace)| table::write(&case.id, &report, &trace.unwrap_or_default())),
        (Input::Karmada(case), _) => answer(case, options).map(|line| format!("{line}\n")),
        (Input::Fleet(line), Output::Table) => simulate_fleet(line).map(|outcome| table::write_fleet(&outcome)),
        (Input::Fleet(line), _) => simulate_fleet(line).map(|outcome| format!("{outcome}\n")),
    }
}

/// Returns a line with the differences between the result and the case's expectation. `None` if
/// there are none.
fn checked(input: &Input, options: &Options) -> Result<Option<Value>, Malformed> {
    let (id, differences) = match input {
        Input::Karmada(case) => (Value::from(&*case.id), compare::karmada(&case.expected, &answer(case, options)?)),
        Input::Fleet(line) => (line["id"].clone(), compare::fleet(&line["expect"], &simulate_fleet(line)?)),
    };
    Ok((!differences.is_empty()).then(|| json!({"id": id, "differences": differences})))
}

/// Returns the result of one case, as JSON.
pub fn answer(case: &Case, options: &Options) -> Result<Value, Malformed> {
    let (report, trace) = karmada::decide(case, options, options.trace)?;
    Ok(line(&case.id, &report, trace.as_ref()))
}

fn line(id: &str, report: &Report, trace: Option<&Trace>) -> Value {
    let mut line = Map::new();
    line.insert("id".to_owned(), Value::from(id));
    if let Ok(Value::Object(report)) = serde_json::to_value(report) {
        line.extend(report);
    }
    if let Some(trace) = trace {
        line.insert("trace".to_owned(), serde_json::to_value(trace).unwrap_or_default());
    }
    Value::Object(line)
}

impl Options {
    /// Returns the profile with the gates that a case sets.
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
