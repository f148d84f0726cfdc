//! A result as a table for people: the decision, and for each cluster its scores, its replicas, and
//! why it was not chosen.

use std::fmt::Write;

use serde_json::Value;

use super::Report;
use crate::cli::natural;
use crate::cli::screen::Screen;
use crate::cli::table::Side::{Left, Right};
use crate::cli::table::{Cell, Table, cell};
use ballast_engine::karmada::{Attempt, ClusterTrace, Trace};

pub fn write(id: &str, report: &Report, trace: &Trace) -> String {
    let mode = trace.mode.map_or_else(String::new, |mode| format!(" ({mode:?})"));
    let mut text = format!("{id}{mode}: {}\n", outcome(report));
    for attempt in &trace.attempts {
        if let Some(group) = &attempt.group {
            let _ = writeln!(text, "  group {group}:");
        }
        groups(attempt, &mut text);
        rows(attempt, &mut text);
        if let Some(failure) = &attempt.failure {
            let _ = writeln!(text, "  failed: {failure}");
        }
    }
    text.push('\n');
    text
}

fn outcome(report: &Report) -> String {
    let condition = report.condition.as_ref().map(|condition| format!("{}: {}", condition.reason, condition.message));
    match report.skip {
        Some("filtered") => "left alone: suspended, another scheduler's, or made by no policy".to_owned(),
        Some("deleting") => "left alone: it is being deleted".to_owned(),
        Some("noPlacement") => "not scheduled: it has no placement".to_owned(),
        Some(_) => "nothing asks for a pass".to_owned(),
        None => condition.unwrap_or_default(),
    }
}

/// Appends the groups of clusters, and their values.
fn groups(attempt: &Attempt, text: &mut String) {
    let Some(by) = &attempt.spread_by else { return };
    let by = by.to_uppercase();
    let mut table = Table::new(&[("", Left), (&by, Left), ("CLUSTERS", Right), ("WEIGHT", Right)]);
    for group in &attempt.groups {
        let chosen = if group.chosen { "*" } else { "" };
        table.row(vec![cell(chosen), cell(&group.name), cell(group.clusters), cell(group.weight)]);
    }
    text.push_str(&table.on(Screen::default()));
}

fn rows(attempt: &Attempt, text: &mut String) {
    let mut table = Table::new(&[
        ("CLUSTER", Left),
        ("SCORE", Right),
        ("FREE", Right),
        ("FROM", Left),
        ("WEIGHT", Right),
        ("BEFORE", Right),
        ("AFTER", Right),
        ("WHY NOT", Left),
    ]);
    let mut clusters: Vec<_> = attempt.clusters.iter().collect();
    natural::by_name(&mut clusters, |cluster| &cluster.name);
    clusters.into_iter().for_each(|cluster| table.row(row(cluster)));
    text.push_str(&table.on(Screen::default()));
}

fn row(cluster: &ClusterTrace) -> Vec<Cell> {
    let or_dash = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let score = cluster.scores.iter().map(|score| score.score).reduce(|sum, score| sum + score);
    let overruled = cluster.filters.iter().filter(|verdict| verdict.overruled);
    let kept = overruled.filter_map(|verdict| verdict.objection.as_deref()).next();
    let why = match (&cluster.out, kept) {
        (Some(out), _) => out.clone(),
        (None, Some(objection)) => format!("(stays although: {objection})"),
        (None, None) => String::new(),
    };
    vec![
        cell(&cluster.name),
        cell(or_dash(score)),
        cell(or_dash(cluster.free)),
        cell(cluster.free_from.unwrap_or("-")),
        cell(or_dash(cluster.weight)),
        cell(cluster.replicas_before),
        cell(cluster.replicas_after),
        cell(why),
    ]
}

/// Formats a placement of the KubeFleet family: its bindings, then the clusters that were not
/// selected.
pub fn write_fleet(outcome: &Value) -> String {
    let word = |value: &Value| match value {
        Value::String(word) => word.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut text = format!("{}: ", word(&outcome["id"]));
    text += &match (&outcome["error"], &outcome["condition"]) {
        (Value::String(error), _) => format!("the cycle failed: {error}"),
        (_, Value::Null) => "nothing to report".to_owned(),
        (_, condition) => format!("{}: {}", word(&condition["reason"]), word(&condition["message"])),
    };
    text.push('\n');
    let list = |field: &str| outcome[field].as_array().map_or(&[][..], Vec::as_slice);
    let columns = [("CLUSTER", Left), ("STATE", Left), ("AFFINITY", Right), ("SPREAD", Right), ("REASON", Left)];
    let mut table = Table::new(&columns);
    let mut row = |cluster: &Value, state: &Value, of: &Value| {
        let values = [cluster, state, &of["affinityScore"], &of["topologySpreadScore"], &of["reason"]];
        table.row(values.map(|value| cell(word(value))).to_vec());
    };
    list("bindings").iter().for_each(|binding| row(&binding["targetCluster"], &binding["state"], binding));
    let left_out = list("decisions").iter().filter(|decision| decision["selected"] == false);
    left_out.for_each(|decision| row(&decision["clusterName"], &Value::Null, decision));
    text.push_str(&table.on(Screen::default()));
    text.push('\n');
    text
}
