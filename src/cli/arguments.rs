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
use ballast_node::config::file;

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
const HEADINGS: [(&str, &str); 6] = [
    ("IdentityArgs", "Who may do what"),
    ("HostArgs", "Behind a host cluster"),
    ("FailoverArgs", "Failing clusters"),
    ("AuditArgs", "Audit log"),
    ("RolloutGateArgs", "Gates of rollouts"),
    ("TracingArgs", "Traces"),
];

/// The commands by purpose. A command that is in no group is listed last.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("See", &["top", "evictions", "displaced", "why", "history", "preview", "survive", "ui"]),
    ("Steer", &["cordon", "drain", "uncordon", "rebalance", "pause", "resume", "abort", "approve", "undo"]),
    ("Try", &["demo", "simulate", "bench"]),
    (
        "Run a server",
        &["serve", "health", "backup", "check", "copy", "lift", "import", "export", "certs", "serving-cert"],
    ),
    ("About the program", &["version", "completion", "man", "openapi", "help"]),
];

/// The widest lines of help, as clap has it too.
const HELP_WIDTH_MAX: usize = 100;
/// The letters of the longest name of a command, and the blanks around it.
const COMMAND_WIDTH: usize = 16;

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
    let groups = groups(&command);
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}");
    let command = command.help_template(template);
    let program = words.first().map(Path::new).and_then(Path::file_stem);
    match program.is_some_and(|name| name == PLUGIN) {
        true => command.name(PLUGIN).bin_name("kubectl ballast"),
        false => command,
    }
}

/// The commands below their headings. clap has headings for flags alone.
fn groups(command: &Command) -> String {
    let width = terminal_size::terminal_size().map_or(HELP_WIDTH_MAX, |(width, _)| usize::from(width.0));
    let indent = " ".repeat(COMMAND_WIDTH);
    let mut text = String::new();
    let is_grouped = |name: &str| COMMANDS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> = command.get_subcommands().map(Command::get_name).filter(|name| !is_grouped(name)).collect();
    for (heading, names) in COMMANDS.into_iter().chain([("More", &*others)]).filter(|(_, names)| !names.is_empty()) {
        text.push_str(&format!("{heading}:\n"));
        for &name in names {
            let about = match command.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this message or the help of a command".to_owned(),
            };
            let line = format!("  {name:<rest$}{about}", rest = COMMAND_WIDTH - 2);
            let options = textwrap::Options::new(width.clamp(2 * COMMAND_WIDTH, HELP_WIDTH_MAX));
            let line = textwrap::fill(&line, options.subsequent_indent(&indent).break_words(false));
            text.push_str(&format!("{line}\n"));
        }
        text.push('\n');
    }
    text
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
    fn the_help_shows_each_command_in_one_group() {
        let mut command = definition(&[]);
        let help = command.render_help().to_string();
        assert!(!help.contains(['{', '}']), "{help}");
        command.build();
        for name in command.get_subcommands().map(Command::get_name) {
            let lines = help.lines().filter(|line| line.strip_prefix("  ").is_some_and(|it| it.starts_with(name)));
            let own = lines.filter(|line| line.split_whitespace().next() == Some(name)).count();
            assert_eq!(own, 1, "{name} in\n{help}");
        }
        assert!(help.contains("\nSee:\n  top ") && help.contains("\nOptions:\n  -h, --help"), "{help}");
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
