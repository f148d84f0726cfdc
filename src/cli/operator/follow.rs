//! Follows a rebalance until it is over, or until it waits for a person.
//!
//! On a terminal one line is written over and over; elsewhere each change is a line of its own.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;

use super::server::{Server, escaped};
use crate::cli::AnswerIsNo;
use crate::cli::output::{print, stream};
use crate::cli::screen::{Screen, Tone};
use ballast_api::ballast::v1alpha1::{Phase, REBALANCE_LABEL, RebalanceSpec, RebalanceStatus};
use ballast_node::UsageError;
use ballast_rebalance::UNKNOWN_NAMES;
use ballast_scheduler::cause::counted;

/// Letters of the bar.
const BAR: usize = 24;
/// Watches that the server may end before the command gives up. Each lives for minutes.
const WATCHES_MAX: usize = 10_000;

/// Where a rebalance is.
#[derive(Clone, Debug)]
pub struct RebalanceRef {
    /// The path of the collection.
    pub collection: String,
    pub name: String,
    /// `clusterrebalance` or `rebalance`.
    pub kind: &'static str,
}

impl RebalanceRef {
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection, escaped(&self.name))
    }

    /// `clusterrebalance/home`
    pub fn shown(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// What an advised command is to be called with: the name, and the flag of its namespace if one
    /// was given.
    pub fn argument(&self, server: &Server) -> String {
        let scope = if self.kind == "rebalance" { &*server.scope } else { "" };
        format!("{}{scope}", self.name)
    }
}

/// How following ended.
enum End {
    Over(Box<RebalanceStatus>),
    AwaitsApproval,
    Paused,
    Gone,
}

/// Returns when the rebalance is over or waits. An error says that it did not come out well.
pub async fn follow(server: &Server, place: &RebalanceRef) -> anyhow::Result<()> {
    let mut line = ProgressLine { screen: server.screen, last: String::new() };
    for _ in 0..WATCHES_MAX {
        let field = escaped(&format!("metadata.name={}", place.name));
        let path = format!("{}?fieldSelector={field}&timeoutSeconds=600", place.collection);
        // A watch without a revision begins with the present state.
        let seen = |event: &Value| {
            if event["type"] == "DELETED" {
                return Ok(ControlFlow::Break(End::Gone));
            }
            let spec = RebalanceSpec::deserialize(&event["object"]["spec"])?;
            let status = RebalanceStatus::deserialize(&event["object"]["status"]).unwrap_or_default();
            line.show(&status)?;
            Ok(match status.phase {
                _ if status.is_finished() => ControlFlow::Break(End::Over(Box::new(status))),
                Some(Phase::Planned) if spec.awaits_approval() => ControlFlow::Break(End::AwaitsApproval),
                // What has begun before it was paused is followed to its end.
                Some(Phase::Paused) if is_held(&spec, &status) => ControlFlow::Break(End::Paused),
                _ => ControlFlow::Continue(()),
            })
        };
        let watched = tokio::select! {
            watched = server.watch(&path, seen) => watched?,
            _ = tokio::signal::ctrl_c() => {
                line.end()?;
                let left = format!("{} goes on without you; `ballast pause {}` holds it\n", place.shown(), place.argument(server));
                return print(&left);
            }
        };
        if let Some(end) = watched {
            line.end()?;
            return told(server, place, end).await;
        }
    }
    anyhow::bail!("the server ended {WATCHES_MAX} watches before {} was over", place.shown())
}

/// Whether nothing goes on until a user resumes it.
fn is_held(spec: &RebalanceSpec, status: &RebalanceStatus) -> bool {
    let is_moving = status.summary.is_some_and(|summary| summary.moving > 0);
    !is_moving && (spec.paused || failed_gate(status).is_some())
}

/// What is said of the gate that has failed. `None`: none has.
fn failed_gate(status: &RebalanceStatus) -> Option<&str> {
    let gate = status.conditions.iter().find(|it| it.type_ == "Gate" && it.reason == "Failed")?;
    Some(&gate.message)
}

/// Why nothing was planned: `PlanChanged: ...`. `None`: there is a plan.
pub fn not_planned(status: &RebalanceStatus) -> Option<String> {
    let refused = status.conditions.iter().find(|it| it.type_ == "Planned" && it.status == "False")?;
    Some(format!("{}: {}", refused.reason, refused.message))
}

/// Returns the names in the selection that nothing has, if they are why nothing is selected.
pub fn unknown_names(status: &RebalanceStatus) -> Option<String> {
    let selected = status.conditions.iter().find(|it| it.type_ == "Selected" && it.reason == UNKNOWN_NAMES)?;
    Some(selected.message.clone())
}

/// The failed moves by reason, with counts (T5). Empty where Moves cannot be read.
async fn failures(server: &Server, place: &RebalanceRef) -> String {
    let moves = place.collection.replace("rebalances", "moves");
    let selector = format!("{REBALANCE_LABEL}={}", place.name);
    let listed = server.list(&moves, &[("labelSelector", &selector)]).await.map(|(moves, _)| moves);
    let mut counts: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for status in listed.iter().flatten().map(|it| &it["status"]).filter(|status| status["phase"] == "Failed") {
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        counts.entry(text("reason")).or_insert_with(|| (0, text("message"))).0 += 1;
    }
    let one = |(reason, (count, message)): (&String, &(usize, String))| format!("{count} for {reason} ({message})");
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

async fn told(server: &Server, place: &RebalanceRef, end: End) -> anyhow::Result<()> {
    let screen = server.screen;
    let (name, text) = (place.argument(server), place.shown());
    match end {
        End::AwaitsApproval => print(&format!("{text} is planned and waits for approval: ballast approve {name}\n")),
        End::Paused => print(&format!("{text} is paused: ballast resume {name}\n")),
        End::Gone => anyhow::bail!("{text} was deleted"),
        End::Over(status) => {
            let sums = status.summary.unwrap_or_default();
            let moved = format!("{} moved", counted(sums.replicas_moved, "replica"));
            if let Some(why) = not_planned(&status) {
                anyhow::bail!("{text} was aborted: {why}");
            }
            if let Some(names) = unknown_names(&status) {
                return Err(UsageError(format!("{text} selects nothing: {names}")).into());
            }
            if status.phase == Some(Phase::Aborted) {
                if let Some(gate) = failed_gate(&status) {
                    anyhow::bail!("{text} was aborted: {gate}; {moved}");
                }
                anyhow::bail!("{text} was aborted: {moved}, {} failed; take it back: ballast undo {name}", sums.failed);
            }
            if sums.failed > 0 {
                let why = match failures(server, place).await {
                    why if why.is_empty() => why,
                    why => format!(": {why}"),
                };
                let fault = format!("{text} is completed: {moved}, {} failed{why}", counted(sums.failed, "workload"));
                return Err(AnswerIsNo(fault).into());
            }
            print(&format!("{}: {moved}\n", screen.paint(Tone::Good, format!("{text} is completed"))))
        }
    }
}

/// The line that tells how far it is.
struct ProgressLine {
    screen: Screen,
    last: String,
}

impl ProgressLine {
    fn show(&mut self, status: &RebalanceStatus) -> anyhow::Result<()> {
        let text = progress(status, self.screen);
        if text == self.last {
            return Ok(());
        }
        let mut out = stream();
        match self.screen.is_terminal() {
            true => write!(out, "\r\u{1b}[2K{text}")?,
            false => writeln!(out, "{text}")?,
        }
        out.flush()?;
        self.last = text;
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if self.screen.is_terminal() && !self.last.is_empty() {
            writeln!(stream())?;
        }
        Ok(())
    }
}

/// `Running   [######------]  78 of 134 settled, 10 moving, 2 failed`
fn progress(status: &RebalanceStatus, screen: Screen) -> String {
    let phase = status.phase.map_or("Planning", Phase::as_str);
    let Some(sums) = status.summary else { return phase.to_owned() };
    let over = sums.to_move - sums.pending - sums.moving;
    let bar = match screen.is_terminal() && sums.to_move > 0 {
        true => {
            let full = usize::try_from(over.max(0) * BAR as i64 / sums.to_move).unwrap_or_default().min(BAR);
            format!("[{}{}]  ", screen.paint(Tone::Good, "#".repeat(full)), "-".repeat(BAR - full))
        }
        false => String::new(),
    };
    let mut text = format!("{phase:<9}  {bar}{over} of {} over, {} moving", sums.to_move, sums.moving);
    for (number, what) in [(sums.failed, "failed"), (sums.superseded, "superseded")] {
        if number > 0 {
            text = format!("{text}, {number} {what}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::ballast::v1alpha1::Summary;

    #[test]
    fn progress_counts_what_is_over() {
        let summary = Summary { to_move: 10, pending: 4, moving: 1, settled: 4, failed: 1, ..Summary::default() };
        let mut status = RebalanceStatus { phase: Some(Phase::Running), ..RebalanceStatus::default() };
        assert_eq!(progress(&status, Screen::default()), "Running");
        status.summary = Some(summary);
        assert_eq!(progress(&status, Screen::default()), "Running    5 of 10 over, 1 moving, 1 failed");
        let shown = progress(&status, Screen { width: Some(80), colored: false });
        assert!(shown.contains("[############------------]"), "{shown}");
    }
}
