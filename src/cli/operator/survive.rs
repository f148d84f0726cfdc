//! `ballast survive`: shows the workloads that the loss of each domain would strand (SG21).

use clap::ValueEnum;

use super::review::ask;
use super::server::{Refused, Server, escaped, warn};
use super::{CommonArgs, Format};
use crate::cli::AnswerIsNo;
use crate::cli::embedded::ProfileArgs;
use crate::cli::output::print;
use crate::cli::screen::{Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_api::ballast::v1alpha1::{DomainSurvival, FailureDomain, ReviewSpec, SelectEntry, Survive};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::human_duration::human_duration;
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name;
use ballast_scheduler::cause::counted;

#[derive(clap::Args, Debug)]
pub struct SurviveArgs {
    /// Only these clusters, zones, regions or providers. Default: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Domain that is lost at once
    #[arg(long, value_enum, default_value_t)]
    by: DomainName,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    rules: ProfileArgs,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DomainName {
    #[default]
    Cluster,
    Zone,
    Region,
    Provider,
}

impl DomainName {
    pub fn domain(self) -> FailureDomain {
        match self {
            DomainName::Cluster => FailureDomain::Cluster,
            DomainName::Zone => FailureDomain::Zone,
            DomainName::Region => FailureDomain::Region,
            DomainName::Provider => FailureDomain::Provider,
        }
    }
}

/// Runs the command: exit status 3 if a workload would fit nowhere, and 2 for an unknown domain.
pub async fn run(args: SurviveArgs) -> anyhow::Result<()> {
    let server = Server::open(&args.common, args.rules).await?;
    let by = args.by.domain();
    let (select, survive) = (vec![SelectEntry::everything()], Some(Survive { by }));
    // A domain has workloads of all namespaces. With -n, only one namespace is counted.
    let namespace = args.common.namespace.as_deref();
    let asked = ask(&server, namespace, &ReviewSpec { select, survive, ..ReviewSpec::default() }).await;
    let (status, _) = asked.map_err(|error| match error.downcast_ref::<Refused>() {
        Some(refused) if refused.is(422) => UsageError(error.to_string()).into(),
        _ => error,
    })?;
    for name in &args.names {
        let known = || status.survival.iter().map(|it| &*it.name);
        if !known().any(|known| known == name) {
            if is_lost(&server, by, name).await? {
                return Err(UsageError(format!("cluster {name} is lost already, or is being deleted")).into());
            }
            let near = closest_name(name, known());
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            return Err(UsageError(format!("no {} {name}{hint}", by.as_str())).into());
        }
    }
    let is_asked = |it: &&DomainSurvival| args.names.is_empty() || args.names.contains(&it.name);
    let answers: Vec<&DomainSurvival> = status.survival.iter().filter(is_asked).collect();
    if let Some(time) = status.survival_time {
        let age = human_duration((SystemClock.now().seconds() - time.seconds()).max(0));
        warn(&format!("the answer is {age} old (of {time}): about the present it takes too long for a request"));
    }
    let text = match args.output {
        Format::Table => table(&server, &answers, by),
        format => data(&serde_json::to_value(&answers)?, format == Format::Yaml)?,
    };
    print(&text)?;
    match answers.first().filter(|worst| worst.stranded_workloads > 0) {
        None => Ok(()),
        Some(worst) => Err(AnswerIsNo(format!(
            "without {} {}, {} of {} would fit nowhere",
            by.as_str(),
            worst.name,
            counted(worst.stranded_replicas, "replica"),
            counted(worst.stranded_workloads, "workload"),
        ))
        .into()),
    }
}

fn table(server: &Server, answers: &[&DomainSurvival], by: FailureDomain) -> String {
    use Side::{Left, Right};
    let head = by.as_str().to_uppercase();
    let mut table = Table::new(&[
        (head.as_str(), Left),
        ("STRANDED", Right),
        ("WORKLOADS", Right),
        ("CPU SHARE", Right),
        ("CPU LEFT", Right),
        ("MEMORY SHARE", Right),
        ("FOR EXAMPLE", Left),
    ]);
    let share = |it: &DomainSurvival, resource: &str| {
        it.share.get(resource).map_or_else(String::new, |share| format!("{:.1} %", share * 100.0))
    };
    for it in answers {
        let tone = if it.stranded_workloads > 0 { Tone::Bad } else { Tone::Plain };
        table.row(vec![
            cell(&it.name).tone(tone),
            cell(it.stranded_replicas).tone(tone),
            cell(it.stranded_workloads).tone(tone),
            cell(share(it, "cpu")),
            cell(it.room_left.get("cpu").cloned().unwrap_or_default()),
            cell(share(it, "memory")),
            cell(it.first.join(", ")).tone(Tone::Faint),
        ]);
    }
    let stranding = answers.iter().filter(|it| it.stranded_workloads > 0).count();
    format!("{}\n{}\n", table.without_empty_columns().on(server.screen), summary(stranding, answers.len(), by))
}

/// Returns the last line: how many of the domains would strand workloads, each lost alone.
fn summary(stranding: usize, of: usize, by: FailureDomain) -> String {
    let total = counted(of as i64, by.as_str());
    match (stranding, of) {
        (0, 1) => format!("The loss of this {} would strand no workload.", by.as_str()),
        (0, _) => format!("None of {total} would strand workloads if lost alone."),
        (1, 1) => format!("The loss of this {} would strand workloads.", by.as_str()),
        _ => format!("{stranding} of {total} would strand workloads if lost alone."),
    }
}

/// Returns whether the cluster exists. The review omits clusters that are lost already.
async fn is_lost(server: &Server, by: FailureDomain, name: &str) -> anyhow::Result<bool> {
    if by != FailureDomain::Cluster {
        return Ok(false);
    }
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", escaped(name));
    Ok(server.find::<serde_json::Value>(&path).await?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_the_losses_that_strand_workloads() {
        let by = FailureDomain::Cluster;
        assert_eq!(summary(11, 12, by), "11 of 12 clusters would strand workloads if lost alone.");
        assert_eq!(summary(12, 12, by), "12 of 12 clusters would strand workloads if lost alone.");
        assert_eq!(summary(0, 12, by), "None of 12 clusters would strand workloads if lost alone.");
        assert_eq!(summary(0, 1, by), "The loss of this cluster would strand no workload.");
        assert_eq!(summary(1, 1, by), "The loss of this cluster would strand workloads.");
    }
}
