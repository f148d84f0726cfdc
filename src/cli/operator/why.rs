//! `ballast why`: explains the placement of a workload, why it is not on other clusters, and which
//! changes would help. Suggested changes are evaluated by the server, each separately.

use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::alike::{folded, some_of};
use super::history::NOT_RECORDED;
use super::names::{WorkloadArg, WorkloadBinding, find_one, shown};
use super::remedies;
use super::review::{ask, places};
use super::server::Server;
use super::{CommonArgs, Format, why_placement};
use crate::cli::AnswerIsNo;
use crate::cli::embedded::ProfileArgs;
use crate::cli::natural;
use crate::cli::output::print;
use crate::cli::screen::{Screen, Tone, data};
use crate::cli::table::{Cell, Side, Table, cell};
use ballast_api::ballast::v1alpha1::{AsOf, Explain, ReviewMode, ReviewSpec, ReviewStatus, SelectEntry, Share};
use ballast_api::karmada::work::v1alpha2::{AnyBinding, LastChange};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;
use ballast_node::UsageError;
use ballast_node::config::GoDuration;
use ballast_scheduler::cause::counted;

#[derive(clap::Args, Debug)]
pub struct WhyArgs {
    /// The workload as kubectl names it: `deployment/web`, or `deployment web`
    #[arg(value_name = "TYPE/NAME", required = true)]
    workload: Vec<String>,

    /// Explain a decision in the past: `10m` or `2d` ago, `14:02` or `yesterday 14:02` in UTC, a
    /// time such as 2026-11-22T15:00:00Z, or a revision
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    rules: ProfileArgs,

    #[command(flatten)]
    common: CommonArgs,
}

/// A moment in the past, as typed on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    Ago(GoDuration),
    Time(Time),
    Revision(String),
}

impl Moment {
    /// Returns whether a change of this time and revision is later. A change without a time is not.
    pub fn is_before(&self, time: Option<Time>, revision: &str) -> bool {
        let AsOf { time: at, revision: at_revision } = as_of(self);
        let number = |revision: &str| revision.parse::<u64>().ok();
        match at_revision {
            Some(at) => number(&at).is_some_and(|at| number(revision).is_some_and(|revision| revision > at)),
            None => at.is_some_and(|at| time.is_some_and(|time| time.seconds() > at.seconds())),
        }
    }
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Moment, &'static str> {
        if !text.is_empty() && text.len() < 20 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Moment::Revision(text.to_owned()));
        }
        let ago = age(text).map(Moment::Ago);
        let at = ago.or_else(|| text.parse().ok().map(Moment::Time));
        let at = at.or_else(|| typed_time(text, SystemClock.now()).map(Moment::Time));
        at.ok_or(
            "write how long ago (10m), a time in UTC (14:02, \"yesterday 14:02\", \"2026-11-22 15:00\", \
             2026-11-22T15:00:00Z) or a revision (1234)",
        )
    }
}

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Parses an age in kubectl's format, with days: `2d`, `1d12h`, `10m`.
fn age(text: &str) -> Option<GoDuration> {
    let Some((days, rest)) = text.split_once('d') else { return text.parse().ok() };
    let days: u32 = days.parse().ok()?;
    let rest = if rest.is_empty() { Duration::ZERO } else { rest.parse::<GoDuration>().ok()?.0 };
    rest.checked_add(Duration::from_secs(u64::from(days) * 86_400)).map(GoDuration)
}

/// Parses a time in UTC, like all displayed times: `14:02`, `today 14:02`, `yesterday 14:02` or
/// `2026-11-22 14:02`, each with optional seconds. A time without a day is its latest occurrence.
fn typed_time(text: &str, now: Time) -> Option<Time> {
    let (day, clock) = match text.trim().rsplit_once([' ', 'T']) {
        Some((day, clock)) => (Some(day.trim()), clock.trim_end_matches('Z')),
        None => (None, text.trim()),
    };
    let mut parts = clock.split(':').map(|part| {
        let is_plain = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i64>().ok().filter(|_| is_plain)
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let of_day = hour * 3_600 + minute * 60 + second;
    let midnight = now.seconds() - now.seconds().rem_euclid(DAY_SECONDS);
    let time = match day {
        None if midnight + of_day > now.seconds() => midnight + of_day - DAY_SECONDS,
        None | Some("today") => midnight + of_day,
        Some("yesterday") => midnight + of_day - DAY_SECONDS,
        Some(date) => return format!("{date}T{hour:02}:{minute:02}:{second:02}Z").parse().ok(),
    };
    Some(Time::from_seconds(time))
}

/// Converts the moment to the type of a review.
pub fn as_of(at: &Moment) -> AsOf {
    match at {
        Moment::Ago(ago) => {
            let seconds = i64::try_from(ago.0.as_secs()).unwrap_or(i64::MAX);
            let time = Some(SystemClock.now().plus_seconds(-seconds));
            AsOf { time, revision: None }
        }
        Moment::Time(time) => AsOf { time: Some(*time), revision: None },
        Moment::Revision(revision) => AsOf { revision: Some(revision.clone()), time: None },
    }
}

/// The decision about one binding, from a review of only this binding.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReviewedDecision {
    pub from: Vec<Share>,
    pub to: Vec<Share>,
    pub message: String,
    pub fits: bool,
    pub trace: Trace,
}

/// The displayed part of a trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Trace {
    pub attempts: Vec<Attempt>,
    /// Suggestions that the server has evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub help: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Attempt {
    pub group: Option<String>,
    pub clusters: Vec<ClusterVerdict>,
    pub failure: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterVerdict {
    pub name: String,
    pub filters: Vec<Filter>,
    pub scores: Vec<Score>,
    pub free: Option<i64>,
    /// Capacity of the cluster that is reserved for other workloads.
    pub room: Option<String>,
    pub estimator: Option<EstimatorAnswer>,
    pub weight: Option<i64>,
    pub selected: bool,
    pub replicas_before: i64,
    pub replicas_after: i64,
    pub in_other_group: bool,
    pub out: Option<String>,
}

/// The estimate of the estimator in the cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EstimatorAnswer {
    pub said: i32,
    pub left: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    pub filter: String,
    pub objection: Option<String>,
    /// The requirement of the placement, and the value of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    pub overruled: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Score {
    pub score: i64,
}

pub async fn run(args: WhyArgs) -> anyhow::Result<()> {
    let server = match args.at {
        None => Server::open(&args.common, args.rules).await?,
        Some(_) => Server::open_past(&args.common, args.rules).await?,
    };
    if let [typed] = &*WorkloadArg::all(&args.workload)?
        && typed.placement_kind().is_some()
    {
        if args.at.is_some() {
            bail!(UsageError(format!("--at is about workloads, and {} is a Fleet placement", typed.shown())));
        }
        return why_placement::run(&server, typed, args.output).await;
    }
    let found = find_one(&server, &args.workload).await?;
    let moment = args.at.as_ref().map(as_of);
    let decide = async |mode| decided(&server, &found, mode, &moment).await;
    let (as_is, fresh) = (decide(ReviewMode::AsIs).await?, decide(ReviewMode::Fresh).await?);
    let helps = match args.at {
        None => remedies::tried(&server, &found, &fresh).await?,
        Some(_) => remedies::named(&fresh),
    };
    let last = match args.at {
        None => last_change(&found.binding),
        Some(_) => None,
    };
    let text = match args.output {
        Format::Table => told(server.screen, &found, &as_is, &fresh, &helps, last, args.at.as_ref()),
        format => {
            let (workload, binding) = (found.workload(), &found.binding.metadata.name);
            let answer =
                json!({"workload": workload, "binding": binding, "asIs": as_is, "fresh": fresh, "help": helps});
            data(&answer, format == Format::Yaml)?
        }
    };
    print(&text)?;
    match as_is.fits {
        true => Ok(()),
        false => Err(AnswerIsNo(format!("{} fits nowhere", shown(&found.workload(), true))).into()),
    }
}

/// Returns the review of this binding.
pub fn question(found: &WorkloadBinding, mode: ReviewMode) -> (Option<String>, ReviewSpec) {
    let workload = found.workload();
    let namespace = found.binding.metadata.namespace.clone().filter(|_| found.is_namespaced);
    let entry = SelectEntry {
        api_version: Some(workload.api_version).filter(|it| !it.is_empty()),
        kind: Some(workload.kind),
        name: Some(workload.name),
        ..SelectEntry::default()
    };
    (namespace, ReviewSpec { select: vec![entry], mode, explain: Explain::Full, ..ReviewSpec::default() })
}

async fn decided(
    server: &Server,
    found: &WorkloadBinding,
    mode: ReviewMode,
    at: &Option<AsOf>,
) -> anyhow::Result<ReviewedDecision> {
    let (namespace, spec) = question(found, mode);
    let (status, _) = ask(server, namespace.as_deref(), &ReviewSpec { as_of: at.clone(), ..spec }).await?;
    Ok(of_status(&status, found))
}

/// Returns the decision about the binding.
pub fn of_status(status: &ReviewStatus, found: &WorkloadBinding) -> ReviewedDecision {
    let uid = found.binding.metadata.uid.as_deref().unwrap_or_default();
    let trace = |text: Option<&ballast_api::FreeForm>| {
        let value: Value = text.map(|it| it.value()).unwrap_or_default();
        Trace::deserialize(value).unwrap_or_default()
    };
    if let Some(it) = status.unplaceable.iter().find(|it| it.binding.uid == uid) {
        let (message, trace) = (it.message.clone(), trace(it.trace.as_ref()));
        return ReviewedDecision { from: found.targets(), to: Vec::new(), message, fits: false, trace };
    }
    let Some(it) = status.moves.iter().find(|it| it.binding.uid == uid) else {
        let message = "it was not there at that moment".to_owned();
        return ReviewedDecision { message, fits: true, ..ReviewedDecision::default() };
    };
    ReviewedDecision {
        from: it.from.clone(),
        to: it.to.clone(),
        message: it.message.clone(),
        fits: true,
        trace: trace(it.trace.as_ref()),
    }
}

/// Returns the last change of the targets and its time, as recorded by the binding. `None` if it
/// was never placed.
fn last_change(binding: &AnyBinding) -> Option<(&str, Option<Time>)> {
    let recorded = LastChange::of(&binding.metadata.annotations);
    match recorded.filter(|change| change.led_to(&binding.spec.clusters)) {
        Some(change) => Some((change.sentence, change.time())),
        None if recorded.is_none() && binding.spec.clusters.is_empty() => None,
        None => Some((NOT_RECORDED, None)),
    }
}

fn told(
    screen: Screen,
    found: &WorkloadBinding,
    as_is: &ReviewedDecision,
    fresh: &ReviewedDecision,
    helps: &[String],
    last: Option<(&str, Option<Time>)>,
    at: Option<&Moment>,
) -> String {
    let mut text = words(screen, found, as_is, last, at);
    for attempt in &fresh.trace.attempts {
        if let Some(group) = &attempt.group {
            text = format!("{text}\n  group {group}:");
        }
        text = format!("{text}\n{}{}", clusters(screen, attempt), estimators(screen, attempt));
        if let Some(failure) = &attempt.failure {
            text = format!("{text}  {}\n", screen.paint(Tone::Bad, failure));
        }
    }
    if !helps.is_empty() {
        text = format!("{text}\nWhat would change it, each by itself:\n");
        for sentence in helps {
            text = format!("{text}{}\n", screen.wrapped(&format!("  - {sentence}"), 4));
        }
    }
    text
}

/// Formats the decision as text.
fn words(
    screen: Screen,
    found: &WorkloadBinding,
    as_is: &ReviewedDecision,
    last: Option<(&str, Option<Time>)>,
    at: Option<&Moment>,
) -> String {
    let workload = found.workload();
    let place = workload.namespace.as_deref().map_or_else(String::new, |namespace| format!(" in {namespace}"));
    let moment = match at {
        None => String::new(),
        Some(Moment::Ago(ago)) => format!(", {ago} ago"),
        Some(Moment::Time(time)) => format!(", at {time}"),
        Some(Moment::Revision(revision)) => format!(", at revision {revision}"),
    };
    let wanted = match found.binding.spec.replicas {
        Some(replicas) if at.is_none() => format!(" ({} wanted)", counted(i64::from(replicas), "replica")),
        _ => String::new(),
    };
    let head = screen.paint(Tone::Strong, shown(&workload, false));
    let stands = if at.is_some() { "was" } else { "is" };
    let on = if as_is.from.is_empty() { "" } else { "on " };
    let first = format!("{head}{place} {stands} {on}{}{wanted}{moment}.", places(&as_is.from));
    let mut text = format!("{}\n", screen.wrapped(&first, 2));
    let mut sentence = |tone: Tone, words: &str| {
        text = format!("{text}{}\n", screen.paint(tone, screen.wrapped(&format!("  {words}"), 2)));
    };
    // The suggestions have a separate list.
    let message =
        as_is.trace.help.iter().fold(as_is.message.clone(), |text, help| text.replacen(&format!("; {help}"), "", 1));
    if !message.is_empty() {
        let tone = if message.starts_with("displaced") || message.starts_with("drifted") {
            Tone::Careful
        } else {
            Tone::Plain
        };
        sentence(if as_is.fits { tone } else { Tone::Bad }, &capital(&message));
    }
    if let Some((change, time)) = last {
        let age = time.map_or_else(String::new, |time| {
            format!(" ({} ago)", human_duration(SystemClock.now().seconds() - time.seconds()))
        });
        sentence(Tone::Plain, &format!("Last change{age}: {change}"));
    }
    if at.is_none() {
        for task in &found.binding.spec.graceful_eviction_tasks {
            sentence(Tone::Careful, &format!("It is leaving {}: {}.", task.from_cluster, task.reason));
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Formats the estimates, one line for each.
fn estimators(screen: Screen, attempt: &Attempt) -> String {
    let mut clusters: Vec<_> = attempt.clusters.iter().collect();
    natural::by_name(&mut clusters, |seen| &seen.name);
    let told = |seen: &&ClusterVerdict| {
        let EstimatorAnswer { said, left } = seen.estimator.as_ref()?;
        let rest = match left {
            None => "no limit".to_owned(),
            Some(left) if left < said => format!("{said}, {left} left after what was given away since"),
            Some(_) => said.to_string(),
        };
        Some(format!("{}\n", screen.wrapped(&format!("  estimator of {}: {rest}", seen.name), 2)))
    };
    clusters.iter().filter_map(told).collect()
}

/// Formats the clusters. NOW is the current number of replicas, TODAY the number if the workload
/// were decided today.
fn clusters(screen: Screen, attempt: &Attempt) -> String {
    use Side::{Left, Right};
    let mut table = Table::new(&[
        ("CLUSTER", Left),
        ("NOW", Right),
        ("TODAY", Right),
        ("FREE", Right),
        ("WEIGHT", Right),
        ("SCORE", Right),
        ("WHY NOT", Left),
        ("ROOM", Left),
    ]);
    let (clusters, alike) = folded(&attempt.clusters);
    for seen in clusters {
        let number = |number: Option<i64>| cell(number.map_or_else(String::new, |it| it.to_string()));
        let score = seen.scores.iter().map(|it| it.score).reduce(|sum, it| sum + it);
        let overruled = seen.filters.iter().filter(|it| it.overruled).find_map(|it| it.objection.as_deref());
        let why = match (seen.why_not(), overruled) {
            (Some(out), _) => cell(out),
            (None, Some(objection)) => cell(format!("(stays although: {objection})")),
            (None, None) => Cell::default(),
        };
        let tone = if seen.out.is_some() { Tone::Faint } else { Tone::Good };
        table.row(vec![
            cell(&seen.name).tone(tone),
            number(Some(seen.replicas_before)),
            number(Some(seen.replicas_after)),
            number(seen.free),
            number(seen.weight),
            number(score),
            why.tone(Tone::Faint),
            cell(seen.room.as_deref().unwrap_or_default()),
        ]);
    }
    for (why, names) in alike {
        let mut row = vec![cell(counted(names.len() as i64, "cluster")).tone(Tone::Faint), cell(0), cell(0)];
        row.extend(vec![Cell::default(); 3]);
        row.push(cell(format!("{why}: {}", some_of(&names))).tone(Tone::Faint));
        row.push(Cell::default());
        table.row(row);
    }
    table.without_empty_columns().on(screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ng4_a_time_is_read_as_people_type_it() {
        let now = "2026-11-27T14:30:00Z".parse().unwrap();
        let read = |text: &str| typed_time(text, now).map(|time| time.to_string());
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(read("14:02"), is("2026-11-27T14:02:00Z"));
        assert_eq!(read("14:31"), is("2026-11-26T14:31:00Z"), "the last such time");
        assert_eq!(read("yesterday 14:02"), is("2026-11-26T14:02:00Z"));
        assert_eq!(read("today 9:05:07"), is("2026-11-27T09:05:07Z"));
        assert_eq!(read("2026-11-22 15:00"), is("2026-11-22T15:00:00Z"));
        assert_eq!(read("2026-11-22T15:00Z"), is("2026-11-22T15:00:00Z"));
        for wrong in ["", "24:00", "14:60", "14", "14:02:03:04", "tomorrow 14:02", "-1:00", "2026-13-40 10:00"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_moment_is_an_age_a_time_or_a_revision() {
        let read = |text: &str| text.parse::<Moment>().ok();
        assert_eq!(read("1234"), Some(Moment::Revision("1234".to_owned())));
        assert!(matches!(read("10m"), Some(Moment::Ago(_))));
        let hours = |text: &str| match read(text) {
            Some(Moment::Ago(ago)) => ago.0.as_secs() / 3_600,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!((hours("2d"), hours("1d12h"), hours("36h")), (48, 36, 36));
        assert!(matches!(read("2026-11-22T15:00:00Z"), Some(Moment::Time(_))));
        for wrong in ["", "yesterday", "10 minutes", "-5m", "d", "2dd", "-1d", "123456789012345678901"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
