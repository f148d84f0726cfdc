//! The result of an import or an export, as a table with details below it, or as data.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::operator::Format;
use crate::cli::screen::{self, Screen};
use crate::cli::table::{Side, Table, cell};

/// Maximum number of named objects for each kind and category. The rest is counted.
const NAMED_MAX: usize = 20;

/// The counts of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCounts {
    pub kind: String,
    /// Objects of the source.
    pub read: usize,
    pub new: usize,
    pub changed: usize,
    pub same: usize,
    /// Objects that only the target has.
    pub only_there: usize,
    pub refused: usize,
}

impl KindCounts {
    fn is_empty(&self) -> bool {
        self.read + self.only_there == 0
    }
}

/// An object with a remark about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    pub kind: String,
    pub name: String,
    pub what: String,
}

/// A field that the schemas do not contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    pub kind: String,
    /// Without indexes: `spec.clusters[*].weight`.
    pub field: String,
    pub objects: usize,
    /// One of the objects.
    pub example: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub kinds: Vec<KindCounts>,
    /// Objects that differ in the target, with the differing members.
    pub differing: Vec<Named>,
    pub only_there: Vec<Named>,
    pub refused: Vec<Named>,
    pub unknown_fields: Vec<Unknown>,
    /// Kinds that the other side does not serve.
    pub not_served: Vec<String>,
    /// Further remarks, in sentences.
    pub remarks: Vec<String>,
}

impl Report {
    pub fn sum(&self, number: impl Fn(&KindCounts) -> usize) -> usize {
        self.kinds.iter().map(number).sum()
    }

    /// Returns whether the two sides are equal.
    pub fn is_equal(&self) -> bool {
        self.sum(|tally| tally.new + tally.changed + tally.only_there + tally.refused) == 0
    }

    /// Formats the report for standard output. `only_there` names the column of objects that the
    /// source does not have: `ONLY HERE` or `ONLY THERE`.
    pub fn text(&self, format: Format, only_there: &'static str, screen: Screen) -> anyhow::Result<String> {
        if format != Format::Table {
            return screen::data(self, format == Format::Yaml);
        }
        let left = ("KIND", Side::Left);
        let numbers = ["READ", "NEW", "CHANGED", "SAME", only_there, "REFUSED"].map(|name| (name, Side::Right));
        let columns: Vec<_> = std::iter::once(left).chain(numbers).collect();
        let mut table = Table::new(&columns);
        let (empty, shown): (Vec<&KindCounts>, Vec<&KindCounts>) =
            self.kinds.iter().partition(|tally| tally.is_empty());
        for tally in shown {
            let KindCounts { kind, read, new, changed, same, only_there, refused } = tally;
            let numbers = [read, new, changed, same, only_there, refused];
            table.row(std::iter::once(cell(kind)).chain(numbers.map(cell)).collect());
        }
        let mut text = table.on(screen);
        if !empty.is_empty() {
            line(&mut text, &format!("Kinds without objects on either side: {}", empty.len()), screen);
        }
        named(&mut text, "Differs", &self.differing, screen);
        named(&mut text, if only_there == "ONLY HERE" { "Only here" } else { "Only there" }, &self.only_there, screen);
        named(&mut text, "Refused", &self.refused, screen);
        for Unknown { kind, field, objects, example } in &self.unknown_fields {
            let what =
                format!("Left out, because no schema here has it: {field} of {objects} {kind} (such as {example})");
            line(&mut text, &what, screen);
        }
        if !self.not_served.is_empty() {
            line(&mut text, &format!("Not served there: {}", self.not_served.join(", ")), screen);
        }
        self.remarks.iter().for_each(|remark| line(&mut text, remark, screen));
        Ok(text)
    }
}

fn line(text: &mut String, what: &str, screen: Screen) {
    let clean: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.push_str(&screen.wrapped(&clean, 2));
    text.push('\n');
}

/// Appends the first objects of each kind by name, and the number of further ones.
fn named(text: &mut String, word: &str, all: &[Named], screen: Screen) {
    let mut by_kind: BTreeMap<&str, Vec<&Named>> = BTreeMap::new();
    all.iter().for_each(|named| by_kind.entry(&named.kind).or_default().push(named));
    for (kind, named) in by_kind {
        for Named { name, what, .. } in named.iter().take(NAMED_MAX) {
            let behind = if what.is_empty() { String::new() } else { format!(": {what}") };
            line(text, &format!("{word}: {kind} {name}{behind}"), screen);
        }
        if let more @ 1.. = named.len().saturating_sub(NAMED_MAX) {
            line(text, &format!("{word}: {more} more {kind} (-o json names them)"), screen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_objects_are_counted_and_control_characters_do_not_reach_the_terminal() {
        let name = |number: usize| Named {
            kind: "clusters.cluster.karmada.io".to_owned(),
            name: format!("m{number}\u{1b}[2J"),
            what: "spec.taints".to_owned(),
        };
        let report = Report { differing: (0..NAMED_MAX + 3).map(name).collect(), ..Report::default() };
        let text = report.text(Format::Table, "ONLY HERE", Screen::default()).unwrap();
        assert_eq!(text.lines().count(), 1 + NAMED_MAX + 1, "{text}");
        assert!(text.contains("Differs: 3 more clusters.cluster.karmada.io"), "{text}");
        assert!(!text.contains('\u{1b}'));
        let data = report.text(Format::Json, "ONLY HERE", Screen::default()).unwrap();
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!(data["differing"].as_array().unwrap().len(), NAMED_MAX + 3, "data has them all");
    }
}
