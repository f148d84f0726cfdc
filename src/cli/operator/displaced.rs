//! `ballast displaced`: lists the workloads that have lost clusters and have not returned, or that
//! violate a rule of their placement; with `--drifted`, the workloads that a Fresh decision would
//! divide differently.

use std::collections::BTreeMap;

use serde::Serialize;

use super::events::{bare_cause, plain_optional_cause};
use super::names::{bindings_in_scope, is_empty_scope, shown, targets};
use super::review::{ask, places};
use super::selection::SelectArgs;
use super::server::Server;
use super::{CommonArgs, Format, WideFormat};
use crate::cli::WouldMove;
use crate::cli::embedded::ProfileArgs;
use crate::cli::natural;
use crate::cli::output::print;
use crate::cli::screen::{Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_api::ballast::v1alpha1::{
    BindingRef, MoveReason, ReviewMode, ReviewSpec, ReviewStatus, ReviewedMove, SelectEntry, Share, Unplaceable,
    WorkloadRef,
};
use ballast_api::karmada::work::v1alpha2::{AnyBinding, LastChange};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;
use ballast_scheduler::cause::counted;

/// Maximum number of listed workloads; the total number is always reported.
const LISTED_MAX: i64 = 10_000;

#[derive(clap::Args, Debug)]
pub struct DisplacedArgs {
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: WideFormat,

    /// End with exit status 4 if something is listed
    #[arg(long)]
    exit_code: bool,

    /// List drifted workloads instead: healthy, but a decision today would divide them differently
    #[arg(long)]
    drifted: bool,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    rules: ProfileArgs,

    #[command(flatten)]
    common: CommonArgs,
}

/// One line of the list.
#[derive(Serialize)]
struct Displaced {
    namespace: Option<String>,
    kind: String,
    name: String,
    from: Vec<Share>,
    /// Empty if it cannot move now.
    to: Vec<Share>,
    replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    #[serde(rename = "cause", skip_serializing_if = "Option::is_none", serialize_with = "plain_optional_cause")]
    because: Option<String>,
    /// Why it cannot move now, or only in part.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<MoveReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip)]
    binding: BindingRef,
    #[serde(skip)]
    workload: WorkloadRef,
}

pub async fn run(args: DisplacedArgs) -> anyhow::Result<()> {
    let mut server = Server::open(&args.common, args.rules).await?;
    let output = args.output.on(&mut server.screen);
    let mut select = args.select.entries(&server).await?;
    if select.is_empty() {
        select.push(SelectEntry::everything());
    }
    let all = ReviewSpec { select, limit: 1, ..ReviewSpec::default() };
    let mut spec = ReviewSpec { limit: LISTED_MAX, ..all.clone() };
    match args.drifted {
        true => spec.select.iter_mut().for_each(|entry| (entry.all, entry.drifted) = (None, Some(true))),
        // They would return to their placement before the failure.
        false => {
            spec.mode = ReviewMode::AsBefore;
            spec.select.iter_mut().for_each(|entry| (entry.all, entry.displaced) = (None, Some(true)));
        }
    }
    let word = if args.drifted { "drifted" } else { "displaced" };
    let (answer, _) = ask(&server, server.namespace.as_deref(), &spec).await?;
    let mut rows: Vec<Displaced> = answer.moves.iter().map(line).collect();
    rows.extend(answer.unplaceable.iter().map(refused_line));
    natural::by_name(&mut rows, |it| &it.name);
    natural::by_name(&mut rows, |it| it.namespace.as_deref().unwrap_or_default());
    add_bindings(&server, &mut rows).await?;
    if let Some(namespace) = server.namespace.as_deref()
        && answer.summary.selected == 0
        && output == Format::Table
        && matches!(is_empty_scope(&server).await, Ok(true))
    {
        // A typing error in the name must not look like good news.
        return print(&format!(
            "Nothing is {word} in namespace {namespace}: it has no bindings at all. See all namespaces: -A\n"
        ));
    }
    match output {
        Format::Table => {
            // The first response counts only displaced workloads.
            let (all, _) = ask(&server, server.namespace.as_deref(), &all).await?;
            print(&table(&server, &answer, &rows, (word, all.summary.selected)))?;
        }
        format => print(&data(&rows, format == Format::Yaml)?)?,
    }
    match args.exit_code && answer.summary.selected > 0 {
        true => Err(WouldMove.into()),
        false => Ok(()),
    }
}

/// Returns the row of a workload that moves, or that stays although it is displaced.
fn line(moved: &ReviewedMove) -> Displaced {
    let stays = moved.from == moved.to;
    Displaced {
        from: moved.from.clone(),
        to: if stays { Vec::new() } else { moved.to.clone() },
        replicas: moved.replicas,
        reason: moved.reason,
        message: Some(moved.message.clone()).filter(|message| !message.is_empty()),
        ..row(&moved.binding, &moved.workload)
    }
}

/// Returns the row of a workload that cannot move. Its current clusters are looked up in the
/// bindings.
fn refused_line(refused: &Unplaceable) -> Displaced {
    Displaced {
        reason: refused.reason,
        message: Some(refused.message.clone()),
        ..row(&refused.binding, &refused.workload)
    }
}

fn row(binding: &BindingRef, workload: &WorkloadRef) -> Displaced {
    Displaced {
        namespace: workload.namespace.clone(),
        kind: workload.kind.clone(),
        name: workload.name.clone(),
        from: Vec::new(),
        to: Vec::new(),
        replicas: 0,
        since: None,
        because: None,
        reason: None,
        message: None,
        binding: binding.clone(),
        workload: workload.clone(),
    }
}

/// Adds data from the bindings: the clusters of a workload that cannot move, and the time and the
/// cause of the last change.
async fn add_bindings(server: &Server, rows: &mut [Displaced]) -> anyhow::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let bindings = bindings_in_scope(server).await?;
    let by_uid: BTreeMap<&str, &AnyBinding> =
        bindings.iter().filter_map(|it| Some((it.metadata.uid.as_deref()?, it))).collect();
    for row in rows {
        let Some(binding) = by_uid.get(&*row.binding.uid) else { continue };
        if row.from.is_empty() {
            row.from = targets(binding);
        }
        let recorded = LastChange::of(&binding.metadata.annotations);
        let recorded = recorded.filter(|change| change.led_to(&binding.spec.clusters));
        row.since = recorded.and_then(|change| change.time()).or(binding.status.last_scheduled_time);
        row.because = recorded.and_then(|change| change.cause()).map(str::to_owned);
    }
    Ok(())
}

/// Returns the table, and below it how many of the `all` workloads are displaced, or drifted.
fn table(server: &Server, answer: &ReviewStatus, rows: &[Displaced], (word, all): (&str, i64)) -> String {
    let screen = server.screen;
    if answer.summary.selected == 0 {
        let place = server.namespace.as_deref().map_or_else(String::new, |it| format!(" in namespace {it}"));
        return match answer.unknown_names.is_empty() {
            true => format!("Nothing is {word}{place}.\n"),
            // A typing error must not look like good news.
            false => format!("No workload is selected{place}.\n"),
        };
    }
    use Side::{Left, Right};
    let mut table = Table::new(&[
        ("WORKLOAD", Left),
        ("IS ON", Left),
        ("WOULD BE ON", Left),
        ("REPLICAS", Right),
        ("SINCE", Right),
        ("CAUSE", Left),
        (if word == "drifted" { "CANNOT MOVE YET" } else { "CANNOT RETURN YET" }, Left),
    ])
    .with_spare(&["SINCE", "CAUSE"]);
    let now = SystemClock.now();
    for row in rows {
        let since = row.since.map_or_else(String::new, |since| human_duration(now.seconds() - since.seconds()));
        let because = row.because.as_deref().unwrap_or_default();
        table.row(vec![
            cell(shown(&row.workload, server.namespace.is_none())),
            cell(places(&row.from)),
            cell(if row.to.is_empty() { String::new() } else { places(&row.to) }).tone(Tone::Good),
            cell(row.replicas),
            cell(since),
            cell(bare_cause(because)).tone(Tone::Faint),
            cell(row.message.as_deref().unwrap_or_default()).tone(Tone::Careful),
        ]);
    }
    let more = match answer.remaining {
        0 => String::new(),
        more => format!("... and {more} more\n"),
    };
    let scope = &server.scope;
    let sums = &answer.summary;
    let moving = match server.is_embedded() || sums.to_move == 0 {
        true => String::new(),
        false => format!("; move them: ballast rebalance --{word}{scope}"),
    };
    let stuck = match (sums.selected - sums.to_move, word) {
        (0, _) => String::new(),
        (stuck, "drifted") => format!(", {stuck} cannot move yet"),
        (stuck, _) => format!(", {stuck} cannot return yet"),
    };
    let summary = format!(
        "{} of {} {word}: {} would move{stuck}. See them: ballast preview --{word}{scope}{moving}\n",
        sums.selected,
        counted(all, "workload"),
        counted(sums.replicas_to_move, "replica")
    );
    let list = if rows.is_empty() { String::new() } else { table.without_empty_columns().on(screen) };
    format!("{list}{more}{}", screen.wrapped(&summary, 0))
}
