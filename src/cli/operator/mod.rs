//! What an operator types: `top`, `displaced`, `why`, `preview`, `rebalance` and the rest.
//!
//! All of it goes over the Kubernetes API with the rights of the user. So it works with a
//! standalone server, behind a kube-apiserver, and as `kubectl ballast`. Kubeconfig, context,
//! namespace, `-A`, `-l` and `-o` mean what they mean in kubectl.

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

/// The commands of an operator.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the clusters: whether they are ready, their room, and the replicas on them
    Top(TopArgs),
    /// List the workloads that have lost clusters and have not been back, or that break a rule
    Displaced(DisplacedArgs),
    /// Show what is being evicted and until when; hold evictions, or set another rate
    Evictions(EvictionsArgs),
    /// Say why a workload is where it is, and why it is not elsewhere
    Why(WhyArgs),
    /// Show what would move, and change nothing
    Preview(Box<PreviewArgs>),
    /// Say what the loss of each cluster, zone, region or provider would strand
    Survive(SurviveArgs),
    /// Move workloads within bounds: shows the plan, asks, and follows the moves
    Rebalance(Box<RebalanceArgs>),
    /// List the rebalances, or show one and follow it
    Status(StatusArgs),
    /// Begin no further move of a rebalance until it is resumed
    Pause(ControlArgs),
    /// Go on with a rebalance that is paused
    Resume(ControlArgs),
    /// Begin no further move of a rebalance, ever; moves that have begun settle
    Abort(ControlArgs),
    /// Approve the plan of a rebalance that waits for it
    Approve(ControlArgs),
    /// Take back what a rebalance has moved
    Undo(UndoArgs),
    /// Close clusters to new replicas; what runs there stays
    Cordon(CordonArgs),
    /// Open clusters to new replicas, and bring back what a drain has taken off
    Uncordon(UncordonArgs),
    /// Take the workloads off clusters, as far as they find a place, and follow the moves
    Drain(DrainArgs),
    /// List each change of a workload's clusters, with its cause
    History(HistoryArgs),
    /// Print the version of this program, and that of the server
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

/// Runs a command that talks to a server.
pub(super) fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// What every command of an operator takes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Namespace to look at. Default: that of the context
    #[arg(short = 'n', long, value_name = "NAME", help_heading = "Scope")]
    pub namespace: Option<String>,

    /// Look at all namespaces, and at what has no namespace
    #[arg(short = 'A', long, conflicts_with = "namespace", help_heading = "Scope")]
    pub all_namespaces: bool,

    #[command(flatten)]
    pub server: KubeconfigArgs,

    /// Print without colours. The environment variable NO_COLOR does the same
    #[arg(long, help_heading = "Server", hide_short_help = true)]
    pub no_color: bool,
}

/// A table for people, or data for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

/// As `Format`, for commands whose table may be wider than the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WideFormat {
    #[default]
    Table,
    /// A table with all columns, however narrow the terminal is.
    Wide,
    Json,
    Yaml,
}

impl WideFormat {
    /// The format on this screen, which gets as wide as the table if that is asked for.
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
