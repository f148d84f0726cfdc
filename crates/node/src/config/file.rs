//! `serve --config FILE`: the flags of `serve` as a file, in the form that `--print-config` prints.
//!
//! The command line overrides the environment, the environment the file, and the file the default.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

use crate::UsageError;
use ballast_rebalance::suggestion::with_suggestion;

/// Flags that only make sense on the command line.
const NOT_IN_A_FILE: [&str; 3] = ["config", "print-config", "help"];

/// Returns the flags that the file adds to the arguments that `matches` was parsed from.
pub fn flags(path: &Path, serve: &Command, matches: &ArgMatches) -> Result<Vec<OsString>, UsageError> {
    let shown = path.display();
    let read = || -> anyhow::Result<Map<String, Value>> {
        let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {shown}"))?;
        if text.trim().is_empty() {
            return Ok(Map::new());
        }
        serde_saphyr::from_str(&text)
            .with_context(|| format!("{shown} is not a list of flags, as `serve --print-config` prints it"))
    };
    let given = read().map_err(UsageError::because)?;
    let known = || serve.get_arguments().filter_map(Arg::get_long).filter(|name| !NOT_IN_A_FILE.contains(name));
    let mut flags = Vec::new();
    for (name, value) in &given {
        let arg = serve.get_arguments().find(|arg| arg.get_long() == Some(name));
        let Some(arg) = arg.filter(|_| !NOT_IN_A_FILE.contains(&&**name)) else {
            let fault = format!("{shown}: {name}: `serve` has no flag of this name for a file");
            return Err(UsageError(with_suggestion(fault, name, known())));
        };
        let is_given = matches!(
            matches.value_source(arg.get_id().as_str()),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        if !is_given {
            flags.extend(written(arg, name, value).map_err(|fault| UsageError(format!("{shown}: {name}: {fault}")))?);
        }
    }
    Ok(flags)
}

/// Converts one flag to command-line arguments.
fn written(arg: &Arg, name: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err("give a text, a number, or true or false".to_owned()),
    };
    let flag = |text: String| OsString::from(format!("--{name}={text}"));
    match (value, arg.get_action()) {
        (Value::Null, _) => Ok(Vec::new()),
        (Value::Bool(true), ArgAction::SetTrue) => Ok(vec![format!("--{name}").into()]),
        (Value::Bool(false), ArgAction::SetTrue) => Ok(Vec::new()),
        (_, ArgAction::SetTrue) => Err("give true or false".to_owned()),
        (Value::Array(values), ArgAction::Append) => values.iter().map(|value| scalar(value).map(flag)).collect(),
        (Value::Array(values), _) => {
            let values: Vec<String> = values.iter().map(scalar).collect::<Result<_, _>>()?;
            Ok(if values.is_empty() { Vec::new() } else { vec![flag(values.join(","))] })
        }
        (value, _) => scalar(value).map(|text| vec![flag(text)]),
    }
}
