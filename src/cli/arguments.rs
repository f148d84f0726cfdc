//! Parses the command line: the single definition of all commands, from which help, completions and
//! manual pages are generated.
//!
//! Under the name `kubectl-ballast` the program is a kubectl plugin, and refers to itself as
//! `kubectl ballast`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::Cli;
use ballast_node::config::file;

/// The flags of `serve` in the short help. `--help` shows all.
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

/// The headings of flag groups in `serve --help`. A group is a struct of flags.
const HEADINGS: [(&str, &str); 6] = [
    ("IdentityArgs", "Who may do what"),
    ("HostArgs", "Behind a host cluster"),
    ("FailoverArgs", "Failing clusters"),
    ("AuditArgs", "Audit log"),
    ("RolloutGateArgs", "Gates of rollouts"),
    ("TracingArgs", "Traces"),
];

/// The commands by purpose. Ungrouped commands are listed last.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("See", &["top", "evictions", "displaced", "why", "history", "preview", "survive", "ui"]),
    ("Steer", &["cordon", "drain", "uncordon", "rebalance", "status", "pause", "resume", "abort", "approve", "undo"]),
    ("Try", &["demo", "simulate", "bench"]),
    (
        "Run a server",
        &["serve", "health", "backup", "check", "copy", "lift", "import", "export", "certs", "serving-cert"],
    ),
    ("About the program", &["version", "completion", "man", "openapi", "help"]),
];

/// Examples in the long help and the manual pages of commands.
const EXAMPLES: [(&str, &[&str]); 12] = [
    ("top", &["ballast top -o wide", "ballast top -n shop -w"]),
    ("displaced", &["ballast displaced -A", "ballast displaced -n shop --exit-code"]),
    ("why", &["ballast why deployment/web -n shop", "ballast why deploy web --at 2d"]),
    ("history", &["ballast history deployment/web -n shop"]),
    (
        "preview",
        &["ballast preview -A --suppose-lost region=eu-west", "ballast preview -A --displaced --out plan.yaml"],
    ),
    ("rebalance", &["ballast rebalance -A --displaced", "ballast rebalance -f plan.yaml --yes --wait"]),
    ("status", &["ballast status -A", "ballast status rebalance-x7k2p --wait"]),
    ("undo", &["ballast undo rebalance-x7k2p --yes --wait"]),
    ("drain", &["ballast drain member1 --wait"]),
    ("evictions", &["ballast evictions", "ballast evictions --hold --for 30m"]),
    ("simulate", &["ballast simulate -f clusters.yaml -f bindings.yaml -o summary"]),
    ("serve", &["ballast serve --database-url sqlite://ballast.db", "ballast serve --config ballast.yaml"]),
];

/// The exit codes, for the long help and the manual pages.
const EXIT_STATUS: &str = "Exit status:
  0  success
  1  failure: refused, not reachable, aborted, not confirmed
  2  wrong usage; the message states what would be right
  3  the answer is \"no\": a workload fits nowhere, two sides differ, or a file is damaged
  4  something would move, or is displaced (--exit-code)";

/// Environment variables without a corresponding flag.
const ENVIRONMENT: &str = "Environment:
  KUBECONFIG  the kubeconfigs to merge, unless --kubeconfig names one
  NO_COLOR    no colours, if it is not empty";

/// Maximum line width of the help, as in clap.
const HELP_WIDTH_MAX: usize = 100;
/// Width of the column of command names, with its padding.
const COMMAND_WIDTH: usize = 16;

/// The name of the program as a plugin of kubectl.
const PLUGIN: &str = "kubectl-ballast";

/// Parses the command line of this process. A usage error or help ends the process.
pub fn parsed() -> anyhow::Result<Cli> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let command = definition(&words);
    let words = command_first(words, &command);
    let matches = matches_of(&command, &words, None);
    let Some(file) = config_file(&matches) else { return Ok(Cli::from_arg_matches(&matches)?) };
    let serve = command.find_subcommand("serve").expect("the definition has it");
    let flags = file::flags(&file, serve, matches.subcommand_matches("serve").expect("it is what was called"))?;
    // The command is the first argument after the program's name.
    let (program, rest) = words.split_at(2.min(words.len()));
    let words: Vec<OsString> = program.iter().chain(&flags).chain(rest).cloned().collect();
    Ok(Cli::from_arg_matches(&matches_of(&command, &words, Some((&file, &flags))))?)
}

/// Moves the command before the flags that precede it, as kubectl accepts: `ballast -n shop top`.
fn command_first(mut words: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let mut at = 1;
    while let Some(flag) = words.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-')) {
        match has_value_behind(command, flag) {
            Some(has_value) => at += 1 + usize::from(has_value),
            None => return words,
        }
    }
    let is_command =
        words.get(at).and_then(|word| word.to_str()).is_some_and(|it| command.find_subcommand(it).is_some());
    if is_command {
        words[1..=at].rotate_right(1);
    }
    words
}

/// Returns whether the next argument is the value of this flag; `None` if no command has the flag.
fn has_value_behind(command: &Command, flag: &str) -> Option<bool> {
    let mut args = command.get_subcommands().flat_map(Command::get_arguments);
    let (name, is_apart) = match flag.strip_prefix("--") {
        Some(long) => (long.split('=').next().unwrap_or_default(), !long.contains('=')),
        None => ("", flag.chars().count() == 2),
    };
    let letter = flag.chars().nth(1).filter(|letter| *letter != '-');
    let arg = args.find(|arg| match letter {
        Some(_) => arg.get_short() == letter,
        None => arg.get_long() == Some(name),
    })?;
    Some(is_apart && arg.get_action().takes_values() && !arg.is_require_equals_set())
}

/// Replacements for the error messages of the standard library's parsers.
const PARSERS: [(&str, &str); 7] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("cannot parse integer from empty string", "it is not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "it is not a number"),
    ("cannot parse float from empty string", "it is not a number"),
    ("invalid IP address syntax", "it is not an IP address"),
];

/// Parses the arguments. A usage error ends the process, with a message that names the file or the
/// environment variable of an invalid value, if it is not from the command line.
fn matches_of(command: &Command, words: &[OsString], file: Option<(&Path, &[OsString])>) -> ArgMatches {
    let mut error = match command.clone().try_get_matches_from(words) {
        Ok(matches) => return matches,
        Err(error) => error,
    };
    if let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) {
        // No argument of a command begins with a dash, so `-- -1` would be rejected, too.
        let tips: Vec<_> = tips.into_iter().filter(|tip| !tip.to_string().contains("'-- ")).collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    let shown = error.to_string();
    let mut text = shown.clone();
    for (theirs, ours) in PARSERS {
        text = text.replacen(theirs, ours, 1);
    }
    if let Some(source) = source(&error, command, words, file) {
        text = text.replacen('\n', &format!(" ({source})\n"), 1);
    }
    if text == shown {
        error.exit();
    }
    // Without standard error, only the exit status reports the error.
    let _ = write!(std::io::stderr(), "{text}");
    std::process::exit(error.exit_code());
}

/// Returns the origin of the value that an error names, if it is not from the command line.
fn source(
    error: &clap::Error,
    command: &Command,
    words: &[OsString],
    file: Option<(&Path, &[OsString])>,
) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = shown.split([' ', '=', '[']).next()?;
    let is_in = |words: &[OsString]| {
        let mut words = words.iter().filter_map(|word| word.to_str()?.split('=').next());
        words.any(|word| word == flag)
    };
    if let Some((path, _)) = file.filter(|(_, flags)| is_in(flags)) {
        return Some(format!("in {}", path.display()));
    }
    let called = words.get(1).and_then(|word| command.find_subcommand(word))?;
    let arg = called.get_arguments().find(|arg| arg.get_long() == flag.strip_prefix("--"))?;
    let variable = arg.get_env().filter(|name| !is_in(words) && std::env::var_os(name).is_some())?;
    Some(format!("in the environment variable {}", variable.display()))
}

/// Returns the definition of all commands.
pub fn definition(words: &[OsString]) -> Command {
    // A negative number is then an invalid value, not an unknown flag.
    let takes_numbers = |arg: Arg| match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    let command =
        Cli::command().mut_subcommands(|command| command.mut_args(takes_numbers)).mut_subcommands(|command| {
            let sections = sections(&command);
            command.after_long_help(sections)
        });
    let command = command.mut_subcommand("serve", |serve| {
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

/// Returns the sections after the flags in the long help of a command.
fn sections(command: &Command) -> String {
    let examples = EXAMPLES.iter().find(|(name, _)| *name == command.get_name()).map_or(&[][..], |(_, lines)| *lines);
    let examples: String = examples.iter().map(|line| format!("\n  {line}")).collect();
    let examples = Some(examples).filter(|lines| !lines.is_empty()).map(|lines| format!("Examples:{lines}"));
    let reads_kubeconfig = command.get_arguments().any(|arg| arg.get_long() == Some("context"));
    let environment = reads_kubeconfig.then(|| ENVIRONMENT.to_owned());
    let sections = [examples, environment, Some(EXIT_STATUS.to_owned())];
    sections.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// Returns the commands below their headings. clap only supports headings for flags.
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
    fn flags_may_come_before_the_command() {
        let ordered = |line: &str| {
            let words = command_first(words(line), &definition(&[]));
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (given, expected) in [
            ("ballast -n shop displaced", "ballast displaced -n shop"),
            ("ballast --kubeconfig f --context=c -A top -w", "ballast top --kubeconfig f --context=c -A -w"),
            ("ballast -nshop -o json why deploy/web", "ballast why -nshop -o json deploy/web"),
            ("ballast top -n shop", "ballast top -n shop"),
            ("ballast --help", "ballast --help"),
            ("ballast -n shop", "ballast -n shop"),
            ("ballast --nonsense top", "ballast --nonsense top"),
        ] {
            assert_eq!(ordered(given), expected, "{given}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        definition(&[]).debug_assert();
    }

    #[test]
    fn the_examples_are_command_lines() {
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let parsed = definition(&[]).try_get_matches_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
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
