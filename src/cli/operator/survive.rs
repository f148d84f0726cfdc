//! `ballast survive`: what the loss of each domain of the fleet would strand (SG21).

use clap::ValueEnum;

use super::review::ask;
use super::server::{Refused, Server};
use super::{CommonArgs, Format};
use crate::cli::AnswerIsNo;
use crate::cli::embedded::ProfileArgs;
use crate::cli::output::print;
use crate::cli::screen::{Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_api::ballast::v1alpha1::{DomainSurvival, FailureDomain, ReviewSpec, SelectEntry, Survive};
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name;
use ballast_scheduler::cause::counted;

#[derive(clap::Args, Debug)]
pub struct SurviveArgs {
    /// Only these clusters, zones, regions or providers. Default: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// What is lost at once
    #[arg(long, value_enum, default_value_t)]
    by: DomainName,

    /// Format of the answer
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

/// Exit status 3 where something would fit nowhere, and 2 for a domain that is none.
pub async fn run(args: SurviveArgs) -> anyhow::Result<()> {
    let server = Server::open(&args.common, args.rules).await?;
    let by = args.by.domain();
    let (select, survive) = (vec![SelectEntry::default()], Some(Survive { by }));
    // A domain has workloads of all namespaces. With -n, those of one namespace are counted.
    let namespace = args.common.namespace.as_deref();
    let asked = ask(&server, namespace, &ReviewSpec { select, survive, ..ReviewSpec::default() }).await;
    let (status, _) = asked.map_err(|error| match error.downcast_ref::<Refused>() {
        Some(refused) if refused.is(422) => UsageError(error.to_string()).into(),
        _ => error,
    })?;
    for name in &args.names {
        let known = || status.survival.iter().map(|it| &*it.name);
        if !known().any(|known| known == name) {
            let near = closest_name(name, known());
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            return Err(UsageError(format!("no {} {name}{hint}", by.as_str())).into());
        }
    }
    let is_asked = |it: &&DomainSurvival| args.names.is_empty() || args.names.contains(&it.name);
    let answers: Vec<&DomainSurvival> = status.survival.iter().filter(is_asked).collect();
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
    let survived = answers.iter().filter(|it| it.stranded_workloads == 0).count();
    let total = counted(answers.len() as i64, by.as_str());
    format!("{}\nThe loss of {survived} of {total} strands nothing.\n", table.without_empty_columns().on(server.screen))
}
