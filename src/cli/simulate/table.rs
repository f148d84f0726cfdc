//! An answer for people: what was decided, and for each cluster what it has, what it gets, and why not.

use std::fmt::Write;

use super::Report;
use crate::engine::karmada::{Attempt, ClusterTrace, Trace};

pub fn write(id: &str, report: &Report, trace: &Trace) -> String {
    let mut text = format!("{id}: {}\n", outcome(report));
    for attempt in &trace.attempts {
        if let Some(group) = &attempt.group {
            let _ = writeln!(text, "  group {group}:");
        }
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

const HEAD: [&str; 7] = ["CLUSTER", "SCORE", "FREE", "WEIGHT", "BEFORE", "AFTER", "WHY NOT"];

fn rows(attempt: &Attempt, text: &mut String) {
    let mut rows: Vec<[String; 7]> = vec![HEAD.map(str::to_owned)];
    rows.extend(attempt.clusters.iter().map(row));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let mut line = String::new();
        for (position, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Names to the left, numbers to the right.
            let _ = match position {
                0 => write!(line, "  {cell:<width$}"),
                1..=5 => write!(line, "  {cell:>width$}"),
                _ => write!(line, "  {cell}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn row(cluster: &ClusterTrace) -> [String; 7] {
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
        or_dash(cluster.weight),
        cluster.replicas_before.to_string(),
        cluster.replicas_after.to_string(),
        why,
    ]
}
