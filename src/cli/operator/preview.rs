//! `ballast preview`: shows the moves of a plan, and workloads that would fit nowhere.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;

use super::CommonArgs;
use super::limits::{LimitArgs, RolloutArgs};
use super::manifest::{self, PreviewQuestion};
use super::names::shown;
use super::objective::{self, ObjectiveArgs};
use super::plan_file;
use super::review::{ask, places};
use super::selection::SelectArgs;
use super::server::{Server, escaped};
use super::what_if::WhatIfArgs;
use super::why::{Moment, as_of};
use crate::cli::embedded::ProfileArgs;
use crate::cli::natural;
use crate::cli::output::print;
use crate::cli::screen::{Screen, Tone, data};
use crate::cli::table::{Side, Table, cell};
use crate::cli::{AnswerIsNo, WouldMove};
use ballast_api::ballast::v1alpha1::{
    MoveReason, ReviewMode, ReviewSpec, ReviewStatus, ReviewedMove, SelectEntry, Share,
};
use ballast_node::UsageError;
use ballast_scheduler::cause::counted;

/// Maximum number of moves in a summary.
const SUMMARY_MOVES: usize = 10;
/// Maximum number of moves in the other formats.
const LISTED_MAX: i64 = 10_000;

#[derive(clap::Args, Debug)]
pub struct PreviewArgs {
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: PreviewFormat,

    /// Also write the plan to this file: a rebalance for `ballast rebalance -f` that moves nothing
    /// if the plan has changed in the meantime
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// End with exit status 4 if something would move
    #[arg(long)]
    exit_code: bool,

    #[command(flatten)]
    select: SelectArgs,

    /// Only workloads that have lost clusters and have not returned, or that violate a rule
    #[arg(long, help_heading = "Which workloads")]
    displaced: bool,

    /// Only healthy workloads that a decision today would divide differently
    #[arg(long, help_heading = "Which workloads", conflicts_with = "displaced")]
    drifted: bool,

    /// A manifest instead of selectors: a rebalance, a trigger or a review. `-` is standard input
    #[arg(short = 'f', long, value_name = "FILE", help_heading = "Which workloads", conflicts_with_all = ["workloads", "selector", "kind", "policy", "placed_on", "not_placed_on", "objective", "displaced", "drifted"])]
    filename: Option<PathBuf>,

    #[command(flatten)]
    suppose: WhatIfArgs,

    #[command(flatten)]
    objective: ObjectiveArgs,

    #[command(flatten)]
    limits: LimitArgs,

    #[command(flatten)]
    rollout: RolloutArgs,

    /// Preview in the past: `10m` or `2d` ago, `14:02` or `yesterday 14:02` in UTC, a time such as
    /// 2026-11-22T15:00:00Z, or a revision
    #[arg(long, value_name = "MOMENT", help_heading = "Suppose that")]
    at: Option<Moment>,

    #[command(flatten)]
    rules: ProfileArgs,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PreviewFormat {
    /// Counts, clusters before and after, and the first moves
    #[default]
    Summary,
    /// Each move, with the leaving and arriving replicas
    Diff,
    Json,
    Yaml,
}

pub async fn run(args: PreviewArgs) -> anyhow::Result<()> {
    let server = match args.at {
        None => Server::open(&args.common, args.rules).await?,
        Some(_) => Server::open_past(&args.common, args.rules).await?,
    };
    let (namespace, spec, given) = match &args.filename {
        None => (server.namespace.clone(), args.question(&server).await?, None),
        Some(path) => match manifest::read(path)? {
            PreviewQuestion::Review { namespace, spec, rebalance } => {
                manifest::check_namespace(&server, namespace.as_deref())?;
                let namespace = namespace.map(|it| if it.is_empty() { server.namespace.clone() } else { Some(it) });
                (namespace.flatten(), args.supposed(&server, *spec).await?, rebalance)
            }
            PreviewQuestion::DryRun { namespace, plural, mut object } => {
                manifest::check_namespace(&server, namespace.as_deref())?;
                if args.rollout.is_given() && object["spec"]["undo"].is_null() {
                    object["spec"]["rollout"] = args.rollout.over(&object["spec"]["rollout"]);
                }
                return args.dry_run(&server, namespace, plural, &object).await;
            }
        },
    };
    if args.rollout.has_order() {
        // A review has no order of moves.
        let object = plan_file::object(given, namespace.as_deref(), &spec, &args.rollout)?;
        let plural = if namespace.is_some() { "rebalances" } else { "clusterrebalances" };
        return args.dry_run(&server, namespace, plural, &object).await;
    }
    let plan = match &args.out {
        Some(path) => Some((path, plan_file::object(given, namespace.as_deref(), &spec, &args.rollout)?)),
        None => None,
    };
    let (status, answer) = ask(&server, namespace.as_deref(), &spec).await?;
    if let Some((path, object)) = plan {
        plan_file::write(path, object, &status)?;
    }
    let text = match args.output {
        PreviewFormat::Summary => summary_in(spec.mode, server.screen, &status, namespace.is_none()),
        PreviewFormat::Diff => diff(spec.mode, server.screen, &status, namespace.is_none()),
        format => data(&answer, format == PreviewFormat::Yaml)?,
    };
    print(&text)?;
    args.tell_file()?;
    args.outcome(&status, spec.mode)
}

impl PreviewArgs {
    /// Returns the exit status of the response.
    fn outcome(&self, status: &ReviewStatus, mode: ReviewMode) -> anyhow::Result<()> {
        fits(status, mode)?;
        match self.exit_code && status.summary.to_move > 0 {
            true => Err(WouldMove.into()),
            false => Ok(()),
        }
    }

    /// Prints how to use the written plan, in the formats for people.
    fn tell_file(&self) -> anyhow::Result<()> {
        match &self.out {
            Some(path) if matches!(self.output, PreviewFormat::Summary | PreviewFormat::Diff) => {
                let path = path.display();
                print(&format!("\nThe plan is in {path}: ballast rebalance -f {path}\n"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the review. Without selectors it covers everything in the scope.
    async fn question(&self, server: &Server) -> anyhow::Result<ReviewSpec> {
        let mut select = self.select.entries(server).await?;
        if select.is_empty() {
            select.push(SelectEntry::everything());
        }
        if self.displaced {
            select.iter_mut().for_each(|entry| (entry.all, entry.displaced) = (None, Some(true)));
        }
        if self.drifted {
            select.iter_mut().for_each(|entry| (entry.all, entry.drifted) = (None, Some(true)));
        }
        let (mode, before) = (manifest::review_mode(self.limits.mode(self.displaced)), self.limits.before());
        let (objective, limits) = (self.objective.objective(), self.limits.limits());
        let spec = ReviewSpec { select, mode, objective, before, limits, ..ReviewSpec::default() };
        self.supposed(server, spec).await
    }

    async fn supposed(&self, server: &Server, spec: ReviewSpec) -> anyhow::Result<ReviewSpec> {
        let supposed = self.suppose.suppose(server).await?;
        let limit = match self.output {
            PreviewFormat::Summary => SUMMARY_MOVES as i64,
            _ => LISTED_MAX,
        };
        let as_of = self.at.as_ref().map(as_of).or(spec.as_of);
        Ok(ReviewSpec { suppose: supposed.or(spec.suppose), as_of, limit, ..spec })
    }

    /// Plans a rebalance that a review cannot express.
    async fn dry_run(
        &self,
        server: &Server,
        namespace: Option<String>,
        plural: &str,
        object: &Value,
    ) -> anyhow::Result<()> {
        if self.suppose.suppose(server).await?.is_some() || self.at.is_some() {
            let fault =
                "a rebalance with `exclude` or `undo` is planned over what is: leave --suppose-... and --at out";
            return Err(UsageError(fault.to_owned()).into());
        }
        let place = match namespace {
            Some(namespace) => {
                let own = server.namespace.clone().unwrap_or_default();
                format!("namespaces/{}/", escaped(if namespace.is_empty() { &own } else { &namespace }))
            }
            None => String::new(),
        };
        let path = format!("/apis/ballast.dev/v1alpha1/{place}{plural}?dryRun=All");
        let answer: Value = server.create(&path, object).await?;
        // A rebalance has the counts of a review, but lists its moves as separate objects.
        let status = ReviewStatus {
            summary: Deserialize::deserialize(&answer["status"]["summary"]).unwrap_or_default(),
            clusters: Deserialize::deserialize(&answer["status"]["clusters"]).unwrap_or_default(),
            reasons: Deserialize::deserialize(&answer["status"]["reasons"]).unwrap_or_default(),
            plan_hash: Deserialize::deserialize(&answer["status"]["planHash"]).unwrap_or_default(),
            objective: Deserialize::deserialize(&answer["status"]["objective"]).unwrap_or_default(),
            cost: Deserialize::deserialize(&answer["status"]["cost"]).unwrap_or_default(),
            ..ReviewStatus::default()
        };
        if let Some(path) = &self.out {
            let mut object = object.clone();
            if self.rollout.is_given() {
                // Includes the fields that an undo inherits.
                object["spec"]["rollout"] = self.rollout.over(&answer["spec"]["rollout"]);
            }
            plan_file::write(path, object, &status)?;
        }
        let text = match self.output {
            PreviewFormat::Summary | PreviewFormat::Diff => summary(server.screen, &status, true),
            format => data(&answer, format == PreviewFormat::Yaml)?,
        };
        print(&text)?;
        self.tell_file()?;
        self.outcome(&status, ReviewMode::Fresh)
    }
}

/// Returns exit status 3 if a workload would fit nowhere.
fn fits(status: &ReviewStatus, mode: ReviewMode) -> anyhow::Result<()> {
    match status.summary.failed {
        0 => Ok(()),
        failed => Err(AnswerIsNo(format!("{} {}", counted(failed, "workload"), fails(status, mode))).into()),
    }
}

/// Returns counts, clusters before and after, the first moves, and all workloads that fit nowhere.
pub fn summary(screen: Screen, status: &ReviewStatus, with_namespace: bool) -> String {
    summary_in(ReviewMode::Fresh, screen, status, with_namespace)
}

/// Like `summary`, with the wording of the mode.
pub fn summary_in(mode: ReviewMode, screen: Screen, status: &ReviewStatus, with_namespace: bool) -> String {
    let sums = &status.summary;
    let mut text = format!(
        "{} of {} would move, with {}; {} would stay",
        screen.paint(Tone::Strong, sums.to_move),
        counted(sums.selected, "workload"),
        counted(sums.replicas_to_move, "replica"),
        sums.unchanged
    );
    match sums.failed {
        0 => text.push('.'),
        failed => text.push_str(&screen.paint(Tone::Bad, format!(", {failed} {}.", fails(status, mode)))),
    }
    text = format!("{}\n{}", screen.wrapped(&text, 2), objective::told(status));
    use Side::{Left, Right};
    let changes = status.clusters.iter().any(|it| it.before != it.planned);
    if changes {
        let mut table = Table::new(&[("CLUSTER", Left), ("BEFORE", Right), ("AFTER", Right), ("CHANGE", Right)]);
        let mut clusters: Vec<_> = status.clusters.iter().collect();
        natural::by_name(&mut clusters, |it| &it.name);
        for cluster in clusters {
            let change = cluster.planned - cluster.before;
            let (shown, tone) = match change {
                0 => (String::new(), Tone::Faint),
                1.. => (format!("+{change}"), Tone::Good),
                _ => (change.to_string(), Tone::Careful),
            };
            let cells = [cell(&cluster.name), cell(cluster.before), cell(cluster.planned), cell(shown)];
            table.row(cells.map(|it| it.tone(if change == 0 { Tone::Plain } else { tone })).to_vec());
        }
        text = format!("{text}\n{}", table.on(screen));
    }
    let moves = in_order(&status.moves);
    if !moves.is_empty() {
        let mut table =
            Table::new(&[("WORKLOAD", Left), ("FROM", Left), ("TO", Left), ("REPLICAS", Right), ("NOTE", Left)]);
        let shown_count = moves.len().min(SUMMARY_MOVES) as i64;
        for moved in moves.into_iter().take(SUMMARY_MOVES) {
            table.row(vec![
                cell(shown(&moved.workload, with_namespace)),
                cell(places(&moved.from)),
                cell(if moved.to.is_empty() { "triggered".to_owned() } else { places(&moved.to) }),
                cell(moved.replicas),
                cell(&moved.message).tone(Tone::Faint),
            ]);
        }
        text = format!("{text}\n{}", table.without_empty_columns().on(screen));
        let more = sums.to_move - shown_count;
        if more > 0 {
            text = format!("{text}  ... and {more} more: -o diff lists them\n");
        }
    }
    format!("{text}{}", refused(screen, status, with_namespace, mode))
}

/// Returns an error with exit status 3 if nothing moves or a workload fits nowhere (T5). If there
/// is nothing to do, returns `Ok`, unless an unknown name selects nothing.
pub fn as_asked(status: &ReviewStatus) -> anyhow::Result<()> {
    as_asked_in(ReviewMode::Fresh, status)
}

/// Like `as_asked`, with the wording of the mode.
pub fn as_asked_in(mode: ReviewMode, status: &ReviewStatus) -> anyhow::Result<()> {
    if status.summary.selected == 0 && !status.unknown_names.is_empty() {
        return Err(UsageError(format!("nothing is selected: {}", status.unknown_names.join("; "))).into());
    }
    let reasons: Vec<String> =
        status.reasons.iter().map(|it| format!("{} for {}", it.count, it.reason.as_str())).collect();
    let told = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
    let is_kept = status.summary.to_move == 0 && !status.reasons.is_empty();
    match status.summary.failed {
        0 if is_kept => Err(AnswerIsNo(format!("nothing may move{told}")).into()),
        0 => Ok(()),
        failed => Err(AnswerIsNo(format!("{} {}{told}", counted(failed, "workload"), fails(status, mode))).into()),
    }
}

/// Returns the text for the workloads that cannot move. A displaced workload runs elsewhere in the
/// meantime, and other reasons than capacity are possible.
fn fails(status: &ReviewStatus, mode: ReviewMode) -> &'static str {
    if mode == ReviewMode::AsBefore {
        return "cannot return yet";
    }
    use MoveReason::{LimitReached, MovingAlready, NoClusterFits, NoRoom, NotWorthwhile};
    // Workloads that the limits hold back do not count as failed.
    let is_usual = |reason| matches!(reason, NoRoom | NoClusterFits | LimitReached | NotWorthwhile | MovingAlready);
    match status.reasons.iter().all(|it| is_usual(it.reason)) {
        true => "would fit nowhere",
        false => "cannot move as asked",
    }
}

/// Returns the reasons with their counts, if the workloads themselves are not listed.
fn reasons(screen: Screen, status: &ReviewStatus, with_namespace: bool) -> String {
    let sums = &status.summary;
    let is_listed = sums.failed <= status.unplaceable.len() as i64;
    if status.reasons.is_empty() || (is_listed && (sums.failed > 0 || sums.to_move > 0)) {
        return String::new();
    }
    let mut table = Table::new(&[("DOES NOT MOVE", Side::Right), ("REASON", Side::Left), ("FOR EXAMPLE", Side::Left)]);
    for it in &status.reasons {
        let example = match &it.workload {
            Some(workload) => format!("{}: {}", shown(workload, with_namespace), it.message),
            None => it.message.clone(),
        };
        table.row(vec![cell(it.count), cell(it.reason.as_str()), cell(example)]);
    }
    format!("\n{}", table.on(screen))
}

fn refused(screen: Screen, status: &ReviewStatus, with_namespace: bool, mode: ReviewMode) -> String {
    if status.unplaceable.is_empty() {
        return reasons(screen, status, with_namespace);
    }
    let head = if mode == ReviewMode::AsBefore { "CANNOT RETURN YET" } else { "FITS NOWHERE" };
    let mut table = Table::new(&[(head, Side::Left), ("REASON", Side::Left), ("WHY, AND WHAT WOULD HELP", Side::Left)]);
    let mut unplaceable: Vec<_> = status.unplaceable.iter().collect();
    natural::by_name(&mut unplaceable, |it| &it.workload.name);
    natural::by_name(&mut unplaceable, |it| it.workload.namespace.as_deref().unwrap_or_default());
    for it in unplaceable {
        let reason = it.reason.map_or("", |reason| reason.as_str());
        let name = cell(shown(&it.workload, with_namespace)).tone(Tone::Bad);
        table.row(vec![name, cell(reason), cell(&it.message)]);
    }
    format!("\n{}{}", table.on(screen), reasons(screen, status, with_namespace))
}

/// Returns the moves by namespace and name. A review may also list workloads that stay.
fn in_order(moves: &[ReviewedMove]) -> Vec<&ReviewedMove> {
    let mut moves: Vec<_> = moves.iter().filter(|it| it.from.is_empty() || it.from != it.to).collect();
    natural::by_name(&mut moves, |it| &it.workload.name);
    natural::by_name(&mut moves, |it| it.workload.namespace.as_deref().unwrap_or_default());
    moves
}

/// Returns each move: leaving replicas with a minus, arriving ones with a plus.
pub fn diff(mode: ReviewMode, screen: Screen, status: &ReviewStatus, with_namespace: bool) -> String {
    let mut text = String::new();
    let moves = in_order(&status.moves);
    if moves.is_empty() {
        text.push_str("Nothing would move.\n");
    }
    for moved in moves {
        let head = format!("{}: {}", shown(&moved.workload, with_namespace), counted(moved.replicas, "replica"));
        text = format!("{text}{} move\n", screen.paint(Tone::Strong, head));
        for line in changes(moved) {
            let tone = if line.starts_with('+') { Tone::Good } else { Tone::Bad };
            text = format!("{text}{}\n", screen.paint(tone, line));
        }
        if !moved.message.is_empty() {
            text = format!("{text}  ({})\n", moved.message);
        }
    }
    if status.remaining > 0 {
        text = format!("{text}... and {} more\n", status.remaining);
    }
    format!("{text}{}", refused(screen, status, with_namespace, mode))
}

/// Returns the clusters with a changed number of replicas: `- member2: 4` and `+ member2: 2`.
fn changes(moved: &ReviewedMove) -> Vec<String> {
    let lines = |sign: char, ones: &[Share], others: &[Share]| {
        let mut gone: Vec<_> = ones.iter().filter(|share| !others.contains(share)).collect();
        natural::by_name(&mut gone, |share| &share.name);
        gone.into_iter().map(|share| format!("{sign} {}: {}", share.name, share.replicas)).collect::<Vec<_>>()
    };
    [lines('-', &moved.from, &moved.to), lines('+', &moved.to, &moved.from)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(name: &str, replicas: i32) -> Share {
        Share { name: name.to_owned(), replicas }
    }

    #[test]
    fn a_diff_shows_what_changes_and_nothing_else() {
        let moved = ReviewedMove {
            from: vec![share("m1", 1), share("m2", 4)],
            to: vec![share("m1", 1), share("m2", 2), share("m3", 2)],
            ..ReviewedMove::default()
        };
        assert_eq!(changes(&moved), ["- m2: 4", "+ m2: 2", "+ m3: 2"]);
    }
}
