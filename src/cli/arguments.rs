//! Reads the command line: the one definition of all commands, from which help, completions and
//! manual pages come.
//!
//! Under the name `kubectl-ballast` the program is a plugin of kubectl, and calls itself `kubectl
//! ballast`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use super::Cli;
use super::config::file;

/// The flags of `serve` that `-h` shows. `--help` shows all.
const FIRST: [&str; 9] = [
    "bind_address",
    "secure_port",
    "database_url",
    "cert_dir",
    "kubeconfig",
    "in_cluster",
    "scheduling_profile",
    "config",
    "print_config",
];

/// The headings that `serve --help` shows groups of flags under. A group is a struct of flags.
const HEADINGS: [(&str, &str); 5] = [
    ("IdentityArgs", "Who may do what"),
    ("HostArgs", "Behind a host cluster"),
    ("FailoverArgs", "Failing clusters"),
    ("AuditArgs", "Audit log"),
    ("TracingArgs", "Traces"),
];

/// The name of the program as a plugin of kubectl.
const PLUGIN: &str = "kubectl-ballast";

/// The command line of this process. Wrong usage ends the process, as help does.
pub fn parsed() -> anyhow::Result<Cli> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let command = definition(&words);
    let matches = command.clone().get_matches_from(&words);
    let Some(file) = config_file(&matches) else { return Ok(Cli::from_arg_matches(&matches)?) };
    let serve = command.find_subcommand("serve").expect("the definition has it");
    let flags = file::flags(&file, serve, matches.subcommand_matches("serve").expect("it is what was called"))?;
    // The subcommand is the first word behind the program's name: no flag may come before.
    let (program, rest) = words.split_at(2.min(words.len()));
    let words: Vec<&OsString> = program.iter().chain(&flags).chain(rest).collect();
    Ok(Cli::from_arg_matches(&command.get_matches_from(words))?)
}

/// All commands.
pub fn definition(words: &[OsString]) -> Command {
    let command = Cli::command().mut_subcommand("serve", |serve| {
        let mut heading_of: BTreeMap<String, &'static str> = BTreeMap::new();
        for (group, heading) in HEADINGS {
            let found = serve.get_groups().find(|it| it.get_id() == group);
            heading_of.extend(found.into_iter().flat_map(|it| it.get_args()).map(|arg| (arg.to_string(), heading)));
        }
        serve.mut_args(|arg| {
            let id = arg.get_id().as_str();
            let (is_hidden, heading) = (!FIRST.contains(&id) && id != "help", heading_of.get(id).copied());
            let arg = arg.hide_short_help(is_hidden);
            if heading.is_some() { arg.help_heading(heading) } else { arg }
        })
    });
    let program = words.first().map(Path::new).and_then(Path::file_stem);
    match program.is_some_and(|name| name == PLUGIN) {
        true => command.name(PLUGIN).bin_name("kubectl ballast"),
        false => command,
    }
}

fn config_file(matches: &ArgMatches) -> Option<PathBuf> {
    matches.subcommand_matches("serve")?.get_one::<PathBuf>("config").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_definition_is_sound() {
        definition(&[]).debug_assert();
    }

    #[test]
    fn the_plugin_calls_itself_as_it_is_called() {
        let name = |program: &str| definition(&words(program)).get_bin_name().map(str::to_owned);
        assert_eq!(name("/usr/local/bin/kubectl-ballast").as_deref(), Some("kubectl ballast"));
        assert_eq!(name("/usr/local/bin/ballast"), None);
    }

    #[test]
    fn the_short_help_of_serve_shows_few_flags_and_the_long_one_all() {
        let serve = |help: fn(&mut Command) -> String| {
            let mut command = definition(&[]);
            command.build();
            help(command.find_subcommand_mut("serve").expect("it is there"))
        };
        let (short, long) = (
            serve(|command| command.render_help().to_string()),
            serve(|command| command.render_long_help().to_string()),
        );
        let flags = |help: &str| help.lines().filter(|line| line.trim_start().starts_with("--")).count();
        assert!(flags(&short) <= 12 && short.contains("--database-url"), "{short}");
        for (_, heading) in HEADINGS {
            assert!(long.contains(&format!("\n{heading}:\n")), "no {heading}:\n{long}");
        }
        assert!(flags(&long) > 40 && long.contains("--audit-log-maxage"), "{long}");
    }
}
