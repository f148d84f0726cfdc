//! `ballast evictions`: shows evictions with their rate and end, and changes the rate without a
//! restart of the server (NG2).

use serde_json::{Value, json};

use super::fleet;
use super::server::{Refused, Server};
use super::{CommonArgs, Format, WideFormat};
use crate::cli::embedded::{ProfileArgs, needs_rebalances};
use crate::cli::natural;
use crate::cli::output::print;
use crate::cli::screen::{Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_api::ballast::v1alpha1::{EvictionLimit, FleetReviewStatus};
use ballast_base::clock::{Clock, SystemClock};
use ballast_node::UsageError;
use ballast_node::config::GoDuration;

const LIMITS: &str = "/apis/ballast.dev/v1alpha1/evictionlimits";

#[derive(clap::Args, Debug)]
pub struct EvictionsArgs {
    /// Evict at most this many workloads per second, such as 5 or 500m, regardless of how many
    /// clusters are not ready
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, conflicts_with_all = ["hold", "reset"])]
    rate: Option<String>,

    /// Evict nothing
    #[arg(long, conflicts_with = "reset")]
    hold: bool,

    /// Use the rate from the server's flags again
    #[arg(long)]
    reset: bool,

    /// How long the rate or the hold is in force, such as 30m. Default: until it is reset
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<GoDuration>,

    /// Reason, shown to other users
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: WideFormat,

    #[command(flatten)]
    common: CommonArgs,
}

pub async fn run(args: EvictionsArgs) -> anyhow::Result<()> {
    let wanted = if args.hold { Some("0") } else { args.rate.as_deref() };
    if wanted.is_none() && (args.duration.is_some() || args.note.is_some()) {
        return Err(UsageError("--for and --note need --rate or --hold".to_owned()).into());
    }
    if let Some(rate) = wanted.filter(|rate| !EvictionLimit::is_rate(rate)) {
        return Err(UsageError(format!("--rate {rate}: {}", EvictionLimit::RATE_RULE)).into());
    }
    let mut server = match wanted.is_some() || args.reset {
        true => Server::open_keeping(&args.common, "evictions --rate", needs_rebalances).await?,
        false => Server::open(&args.common, ProfileArgs::default()).await?,
    };
    if wanted.is_some() || args.reset {
        server.refuse_namespace("the rate of evictions is that of all clusters and namespaces: leave -n out")?;
    }
    if let Some(rate) = wanted {
        set(&server, rate, &args).await?;
    }
    if args.reset {
        reset(&server).await?;
    }
    let namespace = args.common.namespace.as_deref().filter(|_| !args.common.all_namespaces);
    let Some(review) = fleet::ask(&server, namespace).await? else {
        return Err(UsageError("the server is of an earlier version, and does not count evictions".to_owned()).into());
    };
    match args.output.on(&mut server.screen) {
        Format::Table => print(&table(&server, &review)),
        format => print(&data(&review.evictions, format == Format::Yaml)?),
    }
}

/// Updates the single EvictionLimit, or creates it.
async fn set(server: &Server, rate: &str, args: &EvictionsArgs) -> anyhow::Result<()> {
    let ends = args.duration.map(|duration| {
        let seconds = i64::try_from(duration.0.as_secs()).unwrap_or(i64::MAX);
        SystemClock.now().plus_seconds(seconds)
    });
    let spec = json!({"bindingsPerSecond": rate, "expiresAt": ends, "note": args.note});
    let path = format!("{LIMITS}/{}", EvictionLimit::NAME);
    let changed: anyhow::Result<Value> = server.merge_patch(&path, &json!({"spec": spec})).await;
    match changed {
        Ok(_) => Ok(()),
        Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(404)) => {
            let limit = json!({
                "apiVersion": "ballast.dev/v1alpha1", "kind": "EvictionLimit",
                "metadata": {"name": EvictionLimit::NAME}, "spec": spec,
            });
            let _created: Value = server.create(LIMITS, &limit).await?;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn reset(server: &Server) -> anyhow::Result<()> {
    let deleted: anyhow::Result<Value> = server.delete(&format!("{LIMITS}/{}", EvictionLimit::NAME)).await;
    match deleted {
        Err(error) if !error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(404)) => Err(error),
        _ => Ok(()),
    }
}

fn table(server: &Server, review: &FleetReviewStatus) -> String {
    use Side::{Left, Right};
    let now = SystemClock.now();
    let mut rows: Vec<_> = review.clusters.iter().filter(|cluster| cluster.to_evict > 0).collect();
    natural::by_name(&mut rows, |row| &row.name);
    let mut text = String::new();
    if !rows.is_empty() {
        let mut table = Table::new(&[
            ("CLUSTER", Left),
            ("READY", Left),
            ("REGION", Left),
            ("TO-EVICT", Right),
            ("MISSING", Right),
        ]);
        for row in rows {
            table.row(vec![
                cell(&row.name).tone(Tone::Strong),
                cell(&row.ready).tone(if row.ready == "True" { Tone::Good } else { Tone::Bad }),
                cell(&row.region),
                cell(row.to_evict),
                cell(row.replicas.missing),
            ]);
        }
        text = table.without_empty_columns().on(server.screen);
    }
    let told = fleet::told_evictions(&review.evictions, now);
    let told =
        told.unwrap_or_else(|| format!("Nothing waits for an eviction. {}", fleet::told_rate(&review.evictions)));
    format!("{text}{}\n", server.screen.wrapped(&told, 2))
}
