//! The results for manifests in each format. A summary keeps only counts, so its memory does not
//! grow with the number of bindings.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::karmada::ExpectedTarget;
use super::manifests::{Answer, Answers, line};
use super::table;
use super::world::World;
use super::{Options, Output, Tally, unread};
use crate::cli::natural;
use crate::cli::screen::Screen;
use crate::cli::table::Side::{Left, Right};
use crate::cli::table::{Table, cell};
use ballast_scheduler::cause::counted;

/// Maximum number of unplaced bindings that a summary names, and of printed warnings.
const NAMED_MAX: usize = 20;

/// Decides every binding of the manifests.
pub fn manifests(text: &str, options: &Options, out: &mut dyn Write) -> io::Result<Tally> {
    let mut answers = Answers::new(World::read(text, &options.patches, &options.files), options);
    let mut tally =
        Tally { cases: answers.malformed().len(), malformed: answers.malformed().len(), ..Tally::default() };
    for malformed in answers.malformed() {
        match options.output {
            Output::Json => out.write_all(unread(malformed).as_bytes())?,
            _ => tally.remarks.push(malformed.why.clone()),
        }
    }
    let mut summary = Summary::default();
    let is_table = options.output == Output::Table;
    for key in answers.keys() {
        tally.cases += 1;
        let answer = match answers.answer(&key, options.trace || is_table) {
            Ok(answer) => answer,
            Err(error) => {
                tally.malformed += 1;
                out.write_all(unread(&error).as_bytes())?;
                continue;
            }
        };
        tally.unplaced += usize::from(why_unplaced(&answer).is_some());
        match options.output {
            Output::Json => writeln!(out, "{}", line(&answer, options.trace))?,
            Output::Table => {
                let text = table::write(&answer.id, &answer.report, &answer.trace.clone().unwrap_or_default());
                out.write_all(text.as_bytes())?;
                if let Some(rebalance) = &answer.rebalance {
                    writeln!(out, "  rebalance {rebalance} moves it to {}\n", told(&answer.report.clusters))?;
                }
            }
            Output::Diff => out.write_all(diff(&answer).as_bytes())?,
            Output::Summary => summary.count(&answer),
        }
    }
    if options.output == Output::Summary {
        out.write_all(summary.told().as_bytes())?;
    }
    let warnings = answers.warnings();
    tally.remarks.extend(warnings.iter().take(NAMED_MAX).map(|warning| format!("warning: {warning}")));
    let more = warnings.len().saturating_sub(NAMED_MAX);
    tally.remarks.extend((more > 0).then(|| format!("warning: {more} more warnings")));
    tally.remarks.append(&mut answers.remarks);
    tally.ignored = answers.ignored();
    Ok(tally)
}

/// Returns the message of a binding that fits nowhere, or does not fit in the plan of a rebalance.
fn why_unplaced(answer: &Answer) -> Option<&str> {
    let condition = answer.report.condition.as_ref().filter(|condition| condition.status == "False");
    let message = condition.filter(|_| answer.report.skip.is_none()).map(|condition| &*condition.message);
    message.or(answer.refused.as_deref())
}

/// Returns a text such as `m1:2,m2:2`, or only the names without replicas.
fn told(targets: &[ExpectedTarget]) -> String {
    let one = |target: &ExpectedTarget| match target.replicas {
        0 => target.name.clone(),
        replicas => format!("{}:{replicas}", target.name),
    };
    match targets {
        [] => "nowhere".to_owned(),
        targets => targets.iter().map(one).collect::<Vec<_>>().join(","),
    }
}

fn diff(answer: &Answer) -> String {
    let (before, after) = (&answer.before, &answer.report.clusters);
    let mut text = String::new();
    let lines = |sign: char, ones: &[ExpectedTarget], others: &[ExpectedTarget]| {
        let changed = ones.iter().filter(|target| !others.contains(target));
        changed.map(|target| format!("{sign} {}: {}\n", target.name, target.replicas)).collect::<String>()
    };
    text.push_str(&lines('-', before, after));
    text.push_str(&lines('+', after, before));
    if let Some(why) = why_unplaced(answer) {
        text = format!("{text}! {why}\n");
    }
    let cause = answer.rebalance.as_ref().map_or_else(String::new, |name| format!(" (rebalance {name})"));
    if text.is_empty() { text } else { format!("{}{cause}\n{text}", answer.id) }
}

/// The counts over all results.
#[derive(Default)]
struct Summary {
    bindings: usize,
    placed: usize,
    moved: usize,
    left_alone: usize,
    replicas: i64,
    /// Replicas before and after, and bindings after, by cluster.
    clusters: BTreeMap<String, (i64, i64, i64)>,
    unplaced: Vec<(String, String)>,
    unplaced_count: usize,
}

impl Summary {
    fn count(&mut self, answer: &Answer) {
        let (before, after) = (&answer.before, &answer.report.clusters);
        self.bindings += 1;
        let is_moved = before != after;
        match (before.is_empty(), is_moved) {
            (true, true) => self.placed += 1,
            (false, true) => self.moved += 1,
            _ => {}
        }
        self.left_alone += usize::from(answer.report.skip.is_some());
        for target in before {
            self.cluster(&target.name).0 += i64::from(target.replicas);
        }
        for target in after {
            let had = before.iter().find(|it| it.name == target.name).map_or(0, |it| it.replicas);
            self.replicas += i64::from((target.replicas - had).max(0));
            let cluster = self.cluster(&target.name);
            cluster.1 += i64::from(target.replicas);
            cluster.2 += 1;
        }
        if let Some(why) = why_unplaced(answer) {
            self.unplaced_count += 1;
            if self.unplaced.len() < NAMED_MAX {
                self.unplaced.push((answer.id.clone(), why.to_owned()));
            }
        }
    }

    fn cluster(&mut self, name: &str) -> &mut (i64, i64, i64) {
        if !self.clusters.contains_key(name) {
            self.clusters.insert(name.to_owned(), Default::default());
        }
        self.clusters.get_mut(name).expect("inserted if it was absent")
    }

    fn told(&self) -> String {
        let Summary { bindings, placed, moved, left_alone, replicas, unplaced_count, .. } = self;
        let stay = bindings - placed - moved - unplaced_count.min(&(bindings - placed - moved));
        let mut text = format!(
            "{}: {placed} placed, {moved} moved, {stay} as they were ({left_alone} left alone), \
             {unplaced_count} fit nowhere; {replicas} replicas arrive\n",
            counted(i64::try_from(*bindings).unwrap_or(i64::MAX), "binding")
        );
        let columns = [("CLUSTER", Left), ("BEFORE", Right), ("AFTER", Right), ("CHANGE", Right), ("BINDINGS", Right)];
        let mut table = Table::new(&columns);
        let mut clusters: Vec<_> = self.clusters.iter().collect();
        natural::by_name(&mut clusters, |(name, _)| name);
        for (name, (before, after, count)) in clusters {
            let change = after - before;
            let change = if change > 0 { format!("+{change}") } else { change.to_string() };
            table.row(vec![cell(name), cell(before), cell(after), cell(change), cell(count)]);
        }
        text.push_str(&table.on(Screen::default()));
        if *unplaced_count > 0 {
            let mut table = Table::new(&[("FITS NOWHERE", Left), ("WHY", Left)]);
            self.unplaced.iter().for_each(|(id, why)| table.row(vec![cell(id), cell(why)]));
            text.push_str(&table.on(Screen::default()));
            if *unplaced_count > self.unplaced.len() {
                text = format!("{text}  ... and {} more\n", unplaced_count - self.unplaced.len());
            }
        }
        text
    }
}
