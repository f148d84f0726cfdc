//! Follows a rebalance until it is finished, or until it waits for a user.
//!
//! On a terminal one line is rewritten in place; elsewhere each change is printed as a new line.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;

use super::names::shown;
use super::server::{Server, escaped};
use crate::cli::AnswerIsNo;
use crate::cli::natural;
use crate::cli::output::{print, stream};
use crate::cli::screen::{Screen, Tone};
use ballast_api::ballast::v1alpha1::{MoveReason, Phase, REBALANCE_LABEL, RebalanceSpec, RebalanceStatus, WorkloadRef};
use ballast_node::UsageError;
use ballast_rebalance::UNKNOWN_NAMES;
use ballast_scheduler::cause::counted;

/// Width of the bar in characters.
const BAR: usize = 24;
/// Maximum number of listed workloads that a drain leaves.
const STAYING_SHOWN_MAX: usize = 50;
/// Maximum number of watches before the command gives up. Each lasts for minutes.
const WATCHES_MAX: usize = 10_000;

/// A reference to a rebalance.
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

    /// Returns the displayed name, such as `clusterrebalance/home`.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// Returns the arguments of a suggested command: the name, and the flag of its namespace if one
    /// was given.
    pub fn argument(&self, server: &Server) -> String {
        let scope = if self.kind == "rebalance" { &*server.scope } else { "" };
        format!("{}{scope}", self.name)
    }
}

/// The reason why following ended.
enum End {
    Over(Box<RebalanceStatus>),
    AwaitsApproval,
    Paused,
    Gone,
}

/// Returns when the rebalance is finished or waits.
///
/// # Errors
///
/// Returns an error if the rebalance was not successful.
pub async fn follow(server: &Server, place: &RebalanceRef) -> anyhow::Result<()> {
    let mut line = ProgressLine { screen: server.screen, last: String::new() };
    for _ in 0..WATCHES_MAX {
        let field = escaped(&format!("metadata.name={}", place.name));
        let path = format!("{}?fieldSelector={field}&timeoutSeconds=600", place.collection);
        // A watch without a revision starts with the current state.
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
                // Moves that started before the pause are followed to their end.
                Some(Phase::Paused) if is_held(&spec, &status) => ControlFlow::Break(End::Paused),
                _ => ControlFlow::Continue(()),
            })
        };
        let watched = tokio::select! {
            watched = server.watch(&path, seen) => watched?,
            _ = tokio::signal::ctrl_c() => {
                line.end()?;
                let left = format!(
                    "{} goes on without you; `ballast status {name} --wait` follows it again, and `ballast pause \
                     {name}` holds it\n",
                    place.shown(),
                    name = place.argument(server)
                );
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

/// Returns whether the rebalance makes no progress until a user resumes it.
fn is_held(spec: &RebalanceSpec, status: &RebalanceStatus) -> bool {
    let is_moving = status.summary.is_some_and(|summary| summary.moving > 0);
    !is_moving && (spec.paused || failed_gate(status).is_some())
}

/// Returns the message about the failed gate. `None` if none has failed.
fn failed_gate(status: &RebalanceStatus) -> Option<&str> {
    let gate = status.conditions.iter().find(|it| it.type_ == "Gate" && it.reason == "Failed")?;
    Some(&gate.message)
}

/// Returns why nothing was planned, such as `PlanChanged: ...`. `None` if there is a plan.
pub fn not_planned(status: &RebalanceStatus) -> Option<String> {
    let refused = status.conditions.iter().find(|it| it.type_ == "Planned" && it.status == "False")?;
    Some(format!("{}: {}", refused.reason, refused.message))
}

/// Returns the unknown names in the selection, if nothing is selected because of them.
pub fn unknown_names(status: &RebalanceStatus) -> Option<String> {
    let selected = status.conditions.iter().find(|it| it.type_ == "Selected" && it.reason == UNKNOWN_NAMES)?;
    Some(selected.message.clone())
}

/// A failed Move.
struct FailedMove {
    workload: String,
    reason: String,
    message: String,
    is_copy: bool,
}

/// Returns the failed Moves of a rebalance, by workload. Empty if Moves cannot be read.
async fn failed_moves(server: &Server, place: &RebalanceRef) -> Vec<FailedMove> {
    let moves = place.collection.replace("clusterrebalances", "moves").replace("rebalances", "moves");
    // A ClusterRebalance has Moves in all namespaces.
    let cluster_moves = place.collection.replace("clusterrebalances", "clustermoves");
    let collections = [Some(moves), Some(cluster_moves).filter(|path| *path != place.collection)];
    let selector = format!("{REBALANCE_LABEL}={}", place.name);
    let mut failed = Vec::new();
    for path in collections.into_iter().flatten() {
        let listed = server.list(&path, &[("labelSelector", &selector)]).await.map(|(moves, _)| moves);
        let has_failed = |it: &&Value| it["status"]["phase"] == "Failed";
        let read = |it: &Value| {
            let status = &it["status"];
            let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
            let workload = WorkloadRef::deserialize(&it["spec"]["workload"]).unwrap_or_default();
            let is_copy = status["reason"] == MoveReason::Duplicated.as_str();
            let workload = shown(&workload, server.namespace.is_none());
            FailedMove { workload, reason: text("reason"), message: text("message"), is_copy }
        };
        failed.extend(listed.iter().flatten().filter(has_failed).map(read));
    }
    natural::by_name(&mut failed, |it| &it.workload);
    failed
}

/// Returns the failed moves by reason, with counts and an example (T5).
fn by_reason(failed: &[FailedMove]) -> String {
    let mut counts: BTreeMap<&str, (usize, &FailedMove)> = BTreeMap::new();
    for it in failed {
        counts.entry(&it.reason).or_insert((0, it)).0 += 1;
    }
    let one = |(reason, (count, it)): (&&str, &(usize, &FailedMove))| {
        let example = if *count == 1 { "" } else { "such as " };
        format!("{count} for {reason} ({example}{}: {})", it.workload, it.message)
    };
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the workloads that a drain leaves, each with the reason.
fn what_stays(failed: &[FailedMove]) -> String {
    let line = |it: &FailedMove| format!("  {} stays ({}): {}\n", it.workload, it.reason, it.message);
    let mut text: String = failed.iter().take(STAYING_SHOWN_MAX).map(line).collect();
    if failed.len() > STAYING_SHOWN_MAX {
        text.push_str(&format!("  ... and {} more\n", failed.len() - STAYING_SHOWN_MAX));
    }
    if failed.iter().any(|it| it.is_copy) {
        text.push_str("Copies that each cluster runs as a whole leave with --all (includeDuplicated).\n");
    }
    text
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
                if status.drain.as_ref().is_some_and(|drain| drain.closed) {
                    // The message contains the cause, and the clusters that remain closed.
                    let why = status.conditions.iter().find(|it| it.type_ == "Completed");
                    let why = why.map_or("", |it| it.message.as_str());
                    anyhow::bail!("{text} was {why}; take it back: ballast undo {name}");
                }
                if let Some(gate) = failed_gate(&status) {
                    anyhow::bail!("{text} was aborted: {gate}; {moved}");
                }
                anyhow::bail!("{text} was aborted: {moved}, {} failed; take it back: ballast undo {name}", sums.failed);
            }
            if sums.failed > 0 {
                let failed = failed_moves(server, place).await;
                if status.drain.is_some() {
                    print(&what_stays(&failed))?;
                }
                let why = match by_reason(&failed) {
                    why if why.is_empty() || status.drain.is_some() => String::new(),
                    why => format!(": {why}"),
                };
                let fault = format!("{text} is completed: {moved}, {} failed{why}", counted(sums.failed, "workload"));
                return Err(AnswerIsNo(fault).into());
            }
            print(&format!("{}: {moved}\n", screen.paint(Tone::Good, format!("{text} is completed"))))
        }
    }
}

/// The progress line.
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

/// Returns a line such as `Running   [######------]  78 of 134 settled, 10 moving, 2 failed`.
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
    let mut text = format!("{phase:<9}  {bar}{over} of {} moves done, {} in progress", sums.to_move, sums.moving);
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
        assert_eq!(progress(&status, Screen::default()), "Running    5 of 10 moves done, 1 in progress, 1 failed");
        let shown = progress(&status, Screen { width: Some(80), colored: false });
        assert!(shown.contains("[############------------]"), "{shown}");
    }
}
