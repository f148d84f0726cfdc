//! The references below docs/reference are generated from the program: kinds, flags, metrics and
//! events.
//!
//! `UPDATE=1 cargo test --test commands docs::references` writes them.

use std::fmt::Write;
use std::fs;

use ballast::events::{EventReason, REASONS};
use ballast::resource::Scope;
use clap::builder::StyledStr;

use super::page::root;

/// The second line of each reference.
const MADE: &str = "This page is generated: `UPDATE=1 cargo test --test commands docs::references` writes it.\n";
const WIDTH: usize = 100;

#[test]
fn the_kinds_are_listed() {
    let mut text = begin("Kinds", "All kinds that Ballast serves, in the order of discovery.");
    text += "Behind a host cluster, the host serves the reviews of `authentication.k8s.io` and\n\
             `authorization.k8s.io`.\n\
             `multicluster.x-k8s.io` is served with `--cluster-inventory-namespace`.\n\
             `kubectl explain KIND --recursive` lists the fields of a kind.\n";
    let kinds = ballast::api::all_kinds();
    let mut group_version = String::new();
    for row in kinds.rows() {
        if row.api_version() != group_version {
            group_version = row.api_version();
            let _ = write!(text, "\n## {group_version}\n\n");
            text += "| kind | resource | short names | scope | subresources | verbs | is |\n|---|---|---|---|---|---|---|\n";
        }
        let scope = match row.scope {
            Scope::Namespaced => "namespace",
            Scope::Cluster => "cluster",
        };
        let status = row.status_subresource.then_some("status");
        let subresources: Vec<&str> = status.into_iter().chain(row.proxy.map(|_| "proxy")).collect();
        let (names, verbs) = (row.short_names.join(", "), row.verbs().join(", "));
        let is = first_sentence(&row.schema.root().description);
        let (kind, plural, subresources) = (row.kind, row.plural, subresources.join(", "));
        let _ = writeln!(text, "| {kind} | {plural} | {names} | {scope} | {subresources} | {verbs} | {is} |");
    }
    hold("docs/reference/kinds.md", &text);
}

#[test]
fn the_flags_are_listed() {
    let mut text = begin("Commands and flags", "All commands of `ballast` with their flags.");
    text += "Each flag of `serve` is also a line of the file that `serve --config` reads.\n";
    let mut definition = ballast::cli::definition();
    definition.build();
    for command in definition.get_subcommands().filter(|command| command.get_name() != "help") {
        let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
        let _ = write!(text, "\n## ballast {}\n\n{}\n", command.get_name(), wrapped(&about));
        let arguments: Vec<_> =
            command.get_arguments().filter(|it| !it.is_hide_set() && it.get_id() != "help").collect();
        if arguments.is_empty() {
            continue;
        }
        text += "\n| flag | default | environment | means |\n|---|---|---|---|\n";
        for argument in arguments {
            let takes_value = argument.get_action().takes_values() && !argument.is_positional();
            let value = argument.get_value_names().filter(|_| takes_value).map(|names| names.join(" "));
            let value = value.map(|value| format!(" {value}")).unwrap_or_default();
            let flag = match (argument.get_long(), argument.get_short()) {
                (Some(long), Some(short)) => format!("`-{short}`, `--{long}{value}`"),
                (Some(long), None) => format!("`--{long}{value}`"),
                (None, Some(short)) => format!("`-{short}{value}`"),
                (None, None) => format!("`{}`", argument.get_value_names().unwrap_or_default().join(" ")),
            };
            let defaults: Vec<String> =
                argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
            let default = match takes_value && !defaults.is_empty() {
                true => format!("`{}`", defaults.join(" ")),
                false => String::new(),
            };
            let variable = argument.get_env().map(|name| format!("`{}`", name.display())).unwrap_or_default();
            let help = argument.get_long_help().or(argument.get_help()).map(StyledStr::to_string).unwrap_or_default();
            let values: Vec<String> =
                argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
            let values = match takes_value && !values.is_empty() && !argument.is_hide_possible_values_set() {
                true => format!(". One of {}.", values.join(", ")),
                false => String::new(),
            };
            let _ =
                writeln!(text, "| {flag} | {default} | {variable} | {}{values} |", cell(&help).trim_end_matches('.'));
        }
    }
    hold("docs/reference/flags.md", &text);
}

#[test]
fn the_metrics_are_listed() {
    let mut text = begin("Metrics", "All families of metrics of `/metrics`.");
    text += "A name that kube-apiserver has too means the same.\n";
    text += "\n| name | type | labels | means |\n|---|---|---|---|\n";
    let mut families = ballast::metrics::families().to_vec();
    families.sort_by(|one, other| one.name.cmp(&other.name));
    for family in families {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (family.name, family.kind, labels.join(", "));
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {} |", cell(&family.help));
    }
    hold("docs/reference/metrics.md", &text);
}

#[test]
fn the_events_are_listed() {
    let mut text = begin("Events", "The reasons of the events that Ballast writes.");
    text += "An event is deleted an hour after it last happened.\n\
             The same event is counted, and not repeated.\n";
    text += "\n| reason | about | means |\n|---|---|---|\n";
    for EventReason { reason, about, meaning } in REASONS {
        let _ = writeln!(text, "| `{reason}` | {about} | {meaning} |");
    }
    hold("docs/reference/events.md", &text);
}

fn begin(title: &str, about: &str) -> String {
    format!("# {title}\n\n{about}\n{MADE}")
}

/// The entries are in the order of their numbers, below a list of them by area.
#[test]
fn the_differences_are_sorted_and_listed() {
    const CONTENTS: &str = "\n<!-- contents -->\n";
    let name = "docs/differences.md";
    let text = fs::read_to_string(root().join(name)).unwrap();
    let (head, entries) = text.split_once("\n## ").expect("it has entries");
    let head = head.split_once(CONTENTS).expect("the contents have a mark").0;
    let number = |entry: &str| {
        let digits: String = entry.chars().skip(1).take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().expect("an entry begins with its number")
    };
    let mut entries: Vec<&str> = entries.split("\n## ").map(str::trim_end).collect();
    entries.sort_by_key(|entry| number(entry));
    let mut areas: Vec<(String, String)> = Vec::new();
    for entry in &entries {
        let title = entry.lines().next().unwrap_or_default();
        let area = entry.split_once("\n- Area: ").and_then(|(_, area)| area.split_once('.')).expect("an area").0;
        let area = area[..1].to_uppercase() + &area[1..].replace('\n', " ");
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let anchor = title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
        let (id, title) = title.split_once(' ').expect("an id and a title");
        let line = format!("| [{id}](#{anchor}) | {title} |\n");
        match areas.iter_mut().find(|(known, _)| *known == area) {
            Some((_, lines)) => *lines += &line,
            None => areas.push((area, line)),
        }
    }
    let contents: String = areas.iter().map(|(area, lines)| format!("\n| | {area} |\n|---|---|\n{lines}")).collect();
    let entries: String = entries.iter().map(|entry| format!("\n## {entry}\n")).collect();
    hold(name, &format!("{head}{CONTENTS}{contents}{entries}"));
}

/// Compares a reference with the committed one, or writes it.
fn hold(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("it is in a folder")).unwrap();
        fs::write(path, text).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let difference = text.lines().zip(committed.lines()).find(|(made, kept)| made != kept);
    assert!(committed == text, "{name} is not current: set UPDATE=1. The first difference: {difference:?}");
}

/// A text in one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn first_sentence(text: &str) -> String {
    let text = cell(text);
    match text.split_once(". ") {
        Some((first, _)) => first.to_owned(),
        None => text.trim_end_matches('.').to_owned(),
    }
}

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}
