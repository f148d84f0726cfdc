//! `ballast rebalance`: shows the plan, asks, creates the rebalance, and follows it.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::CommonArgs;
use super::control::told;
use super::follow::{RebalanceRef, follow, not_planned, unknown_names};
use super::limits::{LimitArgs, RolloutArgs, careful, seconds};
use super::manifest::{check_namespace, of_rebalance, read_object};
use super::objective::ObjectiveArgs;
use super::preview::{as_asked, as_asked_in, summary, summary_in};
use super::review::ask;
use super::selection::{SelectArgs, named};
use super::server::{Server, escaped, warn};
use crate::cli::embedded::needs_rebalances;
use crate::cli::output::print;
use crate::cli::screen::data;
use ballast_api::ballast::v1alpha1::{
    Approval, Limits, RebalanceSpec, RebalanceStatus, ReviewStatus, Rollout, SelectEntry, Strategy,
};
use ballast_node::UsageError;
use ballast_node::config::GoDuration;

#[derive(clap::Args, Debug)]
pub struct RebalanceArgs {
    /// Plan only; nothing moves before `ballast approve`
    #[arg(long)]
    approval: bool,

    /// Delete the finished rebalance after this time. It cannot be undone then
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    ttl: Option<GoDuration>,

    /// Name of the rebalance. Default: one that the server makes
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    go: GoArgs,

    #[command(flatten)]
    select: SelectArgs,

    /// Only workloads that have lost clusters and have not been back, or that break a rule. They go
    /// home as they were before
    #[arg(long, help_heading = "Which workloads")]
    displaced: bool,

    /// Only workloads that are well, and would be divided otherwise if they were decided today
    #[arg(long, help_heading = "Which workloads", conflicts_with = "displaced")]
    drifted: bool,

    /// Everything in the scope
    #[arg(long, help_heading = "Which workloads", conflicts_with_all = ["workloads", "displaced", "drifted"])]
    all: bool,

    /// Leave these workloads alone, as TYPE/NAME
    #[arg(long, value_name = "TYPE/NAME", value_delimiter = ',', help_heading = "Which workloads")]
    exclude: Vec<String>,

    /// A manifest of a Rebalance or ClusterRebalance instead of flags, such as `ballast preview
    /// --out` writes. `-` is standard input
    #[arg(short = 'f', long, value_name = "FILE", help_heading = "Which workloads", conflicts_with_all = ["workloads", "selector", "kind", "policy", "placed_on", "not_placed_on", "objective", "displaced", "drifted", "all", "exclude", "ttl", "name"])]
    filename: Option<PathBuf>,

    #[command(flatten)]
    objective: ObjectiveArgs,

    #[command(flatten)]
    limits: LimitArgs,

    #[command(flatten)]
    rollout: RolloutArgs,

    #[command(flatten)]
    common: CommonArgs,
}

/// How a command that moves something begins and ends.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct GoArgs {
    /// Do not ask
    #[arg(short = 'y', long)]
    pub yes: bool,

    /// Wait until it is over. The default on a terminal
    #[arg(long, visible_alias = "follow")]
    pub wait: bool,

    /// Return at once
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,

    /// Create nothing. `client` prints the object; `server` has the server check it, and prints the
    /// plan, too
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "client", conflicts_with_all = ["yes", "wait"])]
    pub dry_run: Option<DryRun>,
}

/// Which side tries what is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DryRun {
    Client,
    Server,
}

/// Shows what would be created, as the flag says. Returns whether that is all.
pub async fn tried(
    server: &Server,
    go: &GoArgs,
    metadata: &Map<String, Value>,
    spec: &impl Serialize,
) -> anyhow::Result<bool> {
    let Some(dry_run) = go.dry_run else { return Ok(false) };
    let asked = object(server, metadata.clone(), spec);
    if dry_run == DryRun::Client {
        print(&data(&asked, true)?)?;
        return Ok(true);
    }
    let planned: Value = server.create(&format!("{}?dryRun=All", collection(server)), &asked).await?;
    let status = RebalanceStatus::deserialize(&planned["status"])?;
    print(&data(&planned, true)?)?;
    if let Some(why) = not_planned(&status) {
        anyhow::bail!("nothing would be planned: {why}");
    }
    Ok(true)
}

pub async fn run(args: RebalanceArgs) -> anyhow::Result<()> {
    let server = Server::open_keeping(&args.common, "rebalance", needs_rebalances).await?;
    if let Some(path) = &args.filename {
        return args.run_file(server, path).await;
    }
    let spec = args.spec(&server).await?;
    let mut metadata = Map::new();
    match &args.name {
        Some(name) => metadata.insert("name".to_owned(), json!(name)),
        None => metadata.insert("generateName".to_owned(), json!("rebalance-")),
    };
    if tried(&server, &args.go, &metadata, &spec).await? {
        return Ok(());
    }
    let question = of_rebalance(&spec);
    let (status, _) = ask(&server, server.namespace.as_deref(), &question).await?;
    print(&summary_in(question.mode, server.screen, &status, server.namespace.is_none()))?;
    if status.summary.to_move == 0 {
        print("Nothing would move, so nothing was created.\n")?;
        return as_asked_in(question.mode, &status);
    }
    if !spec.exclude.is_empty() {
        print("What --exclude names is still counted here, and stays.\n")?;
    }
    print(&format!("\n{}\n", told(&spec.rollout)))?;
    go(&server, &args.go, metadata, &spec).await
}

/// Asks for confirmation, creates the rebalance and follows it.
pub async fn go(
    server: &Server,
    go: &GoArgs,
    metadata: Map<String, Value>,
    spec: &impl Serialize,
) -> anyhow::Result<()> {
    if !go.yes && !confirmed()? {
        anyhow::bail!("not confirmed: nothing was created");
    }
    let created: Value = server.create(&collection(server), &object(server, metadata, spec)).await?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let kind = if server.namespace.is_some() { "rebalance" } else { "clusterrebalance" };
    let place = RebalanceRef { collection: collection(server), name, kind };
    print(&format!("{} created\n", place.shown()))?;
    if go.wait || (server.screen.is_terminal() && !go.no_wait) {
        return follow(server, &place).await;
    }
    Ok(())
}

fn confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let fault = "the question cannot be asked, because standard input is no terminal: say --yes, or look with `ballast preview`";
        return Err(UsageError(fault.to_owned()).into());
    }
    print("\nGo ahead? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn collection(server: &Server) -> String {
    match &server.namespace {
        Some(namespace) => format!("/apis/ballast.dev/v1alpha1/namespaces/{}/rebalances", escaped(namespace)),
        None => "/apis/ballast.dev/v1alpha1/clusterrebalances".to_owned(),
    }
}

pub fn object(server: &Server, mut metadata: Map<String, Value>, spec: &impl Serialize) -> Value {
    let kind = if server.namespace.is_some() { "Rebalance" } else { "ClusterRebalance" };
    if let Some(namespace) = &server.namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

impl RebalanceArgs {
    /// Runs the rebalance in the file, with the rollout that the flags change. Where it expects
    /// another plan than today's, nothing is created.
    async fn run_file(&self, mut server: Server, path: &Path) -> anyhow::Result<()> {
        if self.limits.limits() != Limits::default() {
            let fault = "the plan in the file is made with its limits: leave their flags out";
            return Err(UsageError(fault.to_owned()).into());
        }
        let given = read_object(path)?;
        let metadata = given["metadata"].as_object().cloned().unwrap_or_default();
        match given["kind"].as_str() {
            Some("ClusterRebalance") => {
                check_namespace(&server, None)?;
                server.namespace = None;
            }
            Some("Rebalance") => {
                let named = metadata.get("namespace").and_then(Value::as_str).map(str::to_owned);
                check_namespace(&server, Some(named.as_deref().unwrap_or_default()))?;
                server.namespace = named.or(server.namespace);
                if server.namespace.is_none() {
                    return Err(UsageError(format!("{}: say the namespace of the Rebalance", path.display())).into());
                }
            }
            _ => {
                let fault = format!("{} holds no Rebalance and no ClusterRebalance", path.display());
                return Err(UsageError(fault).into());
            }
        }
        let mut spec = given["spec"].clone();
        if self.rollout.is_given() {
            spec["rollout"] = self.rollout.over(&rollout_of(&server, &metadata, &spec).await?);
        }
        if self.approval {
            spec["approval"] = json!(Approval::Required);
        }
        let asked = object(&server, metadata.clone(), &spec);
        if tried(&server, &self.go, &metadata, &spec).await? {
            return Ok(());
        }
        let planned: Value = server.create(&format!("{}?dryRun=All", collection(&server)), &asked).await?;
        let status = RebalanceStatus::deserialize(&planned["status"])?;
        if let Some(why) = not_planned(&status) {
            anyhow::bail!("{}: {why}", path.display());
        }
        let unknown_names = unknown_names(&status).into_iter().collect();
        let shown = ReviewStatus {
            summary: status.summary.unwrap_or_default(),
            clusters: status.clusters,
            reasons: status.reasons,
            unknown_names,
            ..ReviewStatus::default()
        };
        print(&summary(server.screen, &shown, server.namespace.is_none()))?;
        if shown.summary.to_move == 0 {
            print("Nothing would move, so nothing was created.\n")?;
            return as_asked(&shown);
        }
        let rollout = Rollout::deserialize(&planned["spec"]["rollout"]).unwrap_or_default();
        print(&format!("\n{}\n", told(&rollout)))?;
        warn_unless_careful(path, &rollout);
        // What moves is what is shown.
        if let Some(hash) = planned["status"]["planHash"].as_str() {
            spec["expectPlan"] = hash.into();
        }
        go(&server, &self.go, metadata, &spec).await
    }

    async fn spec(&self, server: &Server) -> anyhow::Result<RebalanceSpec> {
        let mut select = self.select.entries(server).await?;
        if select.is_empty() && (self.all || self.displaced || self.drifted) {
            select.push(SelectEntry::everything());
        }
        if select.is_empty() {
            let fault = "say which workloads: TYPE/NAME, --selector, --displaced, --drifted, or --all";
            return Err(UsageError(fault.to_owned()).into());
        }
        if self.displaced {
            select.iter_mut().for_each(|entry| (entry.all, entry.displaced) = (None, Some(true)));
        }
        if self.drifted {
            select.iter_mut().for_each(|entry| (entry.all, entry.drifted) = (None, Some(true)));
        }
        let exclude = match self.exclude.is_empty() {
            true => Vec::new(),
            false => named(server, &self.exclude).await?,
        };
        let ttl = self.ttl.map(|ttl| i32::try_from(seconds(ttl)).unwrap_or(i32::MAX));
        Ok(RebalanceSpec {
            select,
            exclude,
            mode: self.limits.mode(self.displaced),
            objective: self.objective.objective(),
            before: self.limits.before(),
            limits: self.limits.limits(),
            rollout: Rollout::deserialize(self.rollout.over(&careful()))?,
            approval: if self.approval { Approval::Required } else { Approval::NotRequired },
            ttl_seconds_after_finished: ttl,
            ..RebalanceSpec::default()
        })
    }
}

/// The rollout of a rebalance, before flags change it. An undo takes over what it leaves out.
pub async fn rollout_of(server: &Server, metadata: &Map<String, Value>, spec: &Value) -> anyhow::Result<Value> {
    if spec["undo"].is_null() {
        return Ok(spec["rollout"].clone());
    }
    let dry_run = format!("{}?dryRun=All", collection(server));
    let planned: Value = server.create(&dry_run, &object(server, metadata.clone(), spec)).await?;
    Ok(planned["spec"]["rollout"].clone())
}

/// Warns where the rollout of a file is less careful than that of the command without a file.
fn warn_unless_careful(path: &Path, rollout: &Rollout) {
    let parts = [
        (rollout.strategy == Strategy::Direct, "old replicas go before new ones are ready", "--surge"),
        (rollout.max_concurrent.is_none(), "all workloads move at a time", "--max-concurrent 10%"),
        (rollout.abort_on.is_none(), "moves that fail do not end it", "--abort-on-failed 10%"),
    ];
    let missing = || parts.iter().filter(|(is_missing, ..)| *is_missing);
    let meaning: Vec<&str> = missing().map(|(_, meaning, _)| *meaning).collect();
    let flags: Vec<&str> = missing().map(|(.., flag)| *flag).collect();
    if !flags.is_empty() {
        let (meaning, flags, path) = (meaning.join(", "), flags.join(" "), path.display());
        warn(&format!("with the rollout of {path}, {meaning}: add {flags} to begin carefully"));
    }
}
