//! The operator's commands: `top`, `displaced`, `why`, `preview`, `rebalance` and others.
//!
//! All of them use the Kubernetes API with the permissions of the user. They work with a standalone
//! server, behind a kube-apiserver, and as `kubectl ballast`. Kubeconfig, context, namespace, `-A`,
//! `-l` and `-o` have the same meaning as in kubectl.

mod limits;
mod alike;
mod clusters;
mod displaced;
mod drain;
mod events;
mod evictions;
mod fleet;
mod manifest;
mod follow;
mod remedies;
mod history;
mod karmadas_events;
pub(super) mod names;
mod plan_file;
mod objective;
mod preview;
mod rebalance;
mod review;
mod selection;
pub(super) mod server;
mod control;
mod what_if;
mod status;
mod survive;
mod top;
mod version;
mod why_placement;
mod why;

use std::future::Future;

use clap::ValueEnum;

pub use self::control::{ControlArgs, UndoArgs};
pub use self::displaced::DisplacedArgs;
pub use self::drain::{CordonArgs, DrainArgs, UncordonArgs};
pub use self::evictions::EvictionsArgs;
pub use self::history::HistoryArgs;
pub use self::preview::PreviewArgs;
pub use self::rebalance::RebalanceArgs;
pub use self::status::StatusArgs;
pub use self::survive::SurviveArgs;
pub use self::top::TopArgs;
pub use self::version::VersionArgs;
pub use self::why::WhyArgs;
use super::screen::Screen;
use ballast_node::kubeconfig::KubeconfigArgs;

/// The operator's commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the clusters: readiness, capacity, and replicas
    Top(TopArgs),
    /// List the workloads that have lost clusters and have not returned, or that violate a rule
    Displaced(DisplacedArgs),
    /// Show evictions and when they end; hold evictions, or set another rate
    Evictions(EvictionsArgs),
    /// Explain why a workload is placed on its clusters, and why not on others
    Why(WhyArgs),
    /// Show the moves of a plan, without changing anything
    Preview(Box<PreviewArgs>),
    /// Show the workloads that the loss of each cluster, zone, region or provider would strand
    Survive(SurviveArgs),
    /// Move workloads within bounds: show the plan, confirm, and follow the moves
    Rebalance(Box<RebalanceArgs>),
    /// List the rebalances, or show one and follow it
    Status(StatusArgs),
    /// Start no further moves of a rebalance until it is resumed
    Pause(ControlArgs),
    /// Resume a paused rebalance
    Resume(ControlArgs),
    /// End a rebalance: start no further moves; started moves settle
    Abort(ControlArgs),
    /// Approve the plan of a rebalance that requires approval
    Approve(ControlArgs),
    /// Undo the moves of a rebalance
    Undo(UndoArgs),
    /// Close clusters to new replicas; running replicas stay
    Cordon(CordonArgs),
    /// Open clusters to new replicas, and return workloads that a drain has moved
    Uncordon(UncordonArgs),
    /// Move the workloads off clusters, as far as other clusters have capacity, and follow the
    /// moves
    Drain(DrainArgs),
    /// List each change of a workload's clusters, with its cause
    History(HistoryArgs),
    /// Print the versions of this program and of the server
    Version(VersionArgs),
}

/// Runs one command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Top(args) => block_on(top::run(args)),
        Command::Displaced(args) => block_on(displaced::run(args)),
        Command::Evictions(args) => block_on(evictions::run(args)),
        Command::Why(args) => block_on(why::run(args)),
        Command::Preview(args) => block_on(preview::run(*args)),
        Command::Survive(args) => block_on(survive::run(args)),
        Command::Rebalance(args) => block_on(rebalance::run(*args)),
        Command::Status(args) => block_on(status::run(args)),
        Command::Pause(args) => block_on(control::run(args, control::ControlAction::Pause)),
        Command::Resume(args) => block_on(control::run(args, control::ControlAction::Resume)),
        Command::Abort(args) => block_on(control::run(args, control::ControlAction::Abort)),
        Command::Approve(args) => block_on(control::run(args, control::ControlAction::Approve)),
        Command::Undo(args) => block_on(control::undo(args)),
        Command::Cordon(args) => block_on(drain::cordon(args)),
        Command::Uncordon(args) => block_on(drain::uncordon(args)),
        Command::Drain(args) => block_on(drain::drain(args)),
        Command::History(args) => block_on(history::run(args)),
        Command::Version(args) => block_on(version::run(args)),
    }
}

/// Runs a command that connects to a server.
pub(super) fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Common flags of the operator's commands.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Namespace to use. Default: the namespace of the context
    #[arg(short = 'n', long, value_name = "NAME", help_heading = "Scope")]
    pub namespace: Option<String>,

    /// Use all namespaces and cluster-scoped objects
    #[arg(short = 'A', long, conflicts_with = "namespace", help_heading = "Scope")]
    pub all_namespaces: bool,

    #[command(flatten)]
    pub server: KubeconfigArgs,

    /// Print without colours. The environment variable NO_COLOR has the same effect
    #[arg(long, help_heading = "Server", hide_short_help = true)]
    pub no_color: bool,
}

/// Output as a table, or as data for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

/// Like `Format`, for commands with a table that may be wider than the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WideFormat {
    #[default]
    Table,
    /// A table with all columns, regardless of the width of the terminal.
    Wide,
    Json,
    Yaml,
}

impl WideFormat {
    /// Returns the format on this screen. `Wide` removes the limit of the screen's width.
    pub fn on(self, screen: &mut Screen) -> Format {
        match self {
            WideFormat::Table => Format::Table,
            WideFormat::Wide => {
                screen.width = None;
                Format::Table
            }
            WideFormat::Json => Format::Json,
            WideFormat::Yaml => Format::Yaml,
        }
    }
}
