//! An answer as a table for people: the decision, and for each cluster what it has, what it gets,
//! and why it was not chosen.

use std::fmt::Write;

use serde_json::Value;

use super::Report;
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

/// What the clusters were grouped by, and the values of the groups.
fn groups(attempt: &Attempt, text: &mut String) {
    let Some(by) = &attempt.spread_by else { return };
    let mut rows = vec![["", by, "CLUSTERS", "WEIGHT"].map(str::to_uppercase)];
    rows.extend(attempt.groups.iter().map(|group| {
        let chosen = if group.chosen { "*" } else { "" };
        [chosen.to_owned(), group.name.to_string(), group.clusters.to_string(), group.weight.to_string()]
    }));
    columns(&rows, &[Side::Left, Side::Left, Side::Right, Side::Right], text);
}

const HEAD: [&str; 8] = ["CLUSTER", "SCORE", "FREE", "FROM", "WEIGHT", "BEFORE", "AFTER", "WHY NOT"];

fn rows(attempt: &Attempt, text: &mut String) {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(attempt.clusters.iter().map(row));
    use Side::{Left, Right};
    columns(&rows, &[Left, Right, Right, Left, Right, Right, Right, Left], text);
}

#[derive(Clone, Copy)]
pub enum Side {
    Left,
    Right,
}

/// Aligns names to the left and numbers to the right. Lines have no blanks at their end.
pub fn columns<const N: usize>(rows: &[[String; N]], sides: &[Side; N], text: &mut String) {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for ((cell, width), side) in row.iter().zip(widths).zip(sides) {
            let _ = match side {
                Side::Left => write!(line, "  {cell:<width$}"),
                Side::Right => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn row(cluster: &ClusterTrace) -> [String; 8] {
    let or_dash = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let score = cluster.scores.iter().map(|score| score.score).reduce(|sum, score| sum + score);
    let overruled = cluster.filters.iter().filter(|verdict| verdict.overruled);
    let kept = overruled.filter_map(|verdict| verdict.objection.as_deref()).next();
    let why = match (&cluster.out, kept) {
        (Some(out), _) => out.clone(),
        (None, Some(objection)) => format!("(stays although: {objection})"),
        (None, None) => String::new(),
    };
    [
        cluster.name.to_string(),
        or_dash(score),
        or_dash(cluster.free),
        cluster.free_from.unwrap_or("-").to_owned(),
        or_dash(cluster.weight),
        cluster.replicas_before.to_string(),
        cluster.replicas_after.to_string(),
        why,
    ]
}

/// A placement of the Fleet family: its bindings, then the clusters that were not selected.
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
    let mut rows = vec![["CLUSTER", "STATE", "AFFINITY", "SPREAD", "REASON"].map(str::to_owned)];
    let row = |cluster: &Value, state: &Value, of: &Value| {
        [cluster, state, &of["affinityScore"], &of["topologySpreadScore"], &of["reason"]].map(word)
    };
    rows.extend(list("bindings").iter().map(|binding| row(&binding["targetCluster"], &binding["state"], binding)));
    let left_out = list("decisions").iter().filter(|decision| decision["selected"] == false);
    rows.extend(left_out.map(|decision| row(&decision["clusterName"], &Value::Null, decision)));
    use Side::{Left, Right};
    columns(&rows, &[Left, Left, Right, Right, Left], &mut text);
    text.push('\n');
    text
}
