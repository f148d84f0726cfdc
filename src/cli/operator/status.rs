//! `ballast status`: lists the rebalances, or shows one and follows it to its end.

use serde::Serialize;
use serde_json::Value;

use super::control::find;
use super::follow::follow;
use super::server::{Refused, Server};
use super::{CommonArgs, Format, WideFormat};
use crate::cli::embedded::needs_rebalances;
use crate::cli::output::print;
use crate::cli::screen::{Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;

/// Maximum number of finished rebalances in a table; `-o wide` lists all.
const FINISHED_SHOWN_MAX: usize = 10;

#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// The rebalance: its name, or `clusterrebalance/NAME` if a Rebalance has the same name.
    /// Default: all rebalances, those in progress first
    #[arg(value_name = "NAME")]
    rebalance: Option<String>,

    /// Wait until it is finished
    #[arg(long, visible_alias = "follow", requires = "rebalance")]
    wait: bool,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t, conflicts_with = "wait")]
    output: WideFormat,

    #[command(flatten)]
    common: CommonArgs,
}

/// One rebalance.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    phase: String,
    to_move: i64,
    done: i64,
    moving: i64,
    failed: i64,
    replicas_moved: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Time>,
    #[serde(skip)]
    is_over: bool,
}

pub async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let mut server = Server::open_keeping(&args.common, "status", needs_rebalances).await?;
    let output = args.output.on(&mut server.screen);
    let mut rows = match &args.rebalance {
        None => rows(&server).await?,
        Some(name) => {
            let (place, object) = find(&server, name).await?;
            if args.wait {
                return follow(&server, &place).await;
            }
            vec![row(&object)]
        }
    };
    // Rebalances in progress first, then the newest.
    rows.sort_by_key(|row| (row.is_over, std::cmp::Reverse(row.created)));
    match output {
        Format::Table if rows.is_empty() => print("There are no rebalances here.\n"),
        Format::Table => print(&table(&server, rows, args.output == WideFormat::Wide)),
        format => print(&data(&rows, format == Format::Yaml)?),
    }
}

/// Returns the rebalances in the scope that the user may list.
async fn rows(server: &Server) -> anyhow::Result<Vec<Row>> {
    const API: &str = "/apis/ballast.dev/v1alpha1";
    let own = server.collection(API, "rebalances");
    // With a namespace on the command line, only namespaced rebalances are meant.
    let of_all = server.named_namespace().is_none().then(|| format!("{API}/clusterrebalances"));
    let (mut rows, mut refused, mut is_listed) = (Vec::new(), None, false);
    for path in [Some(own), of_all].into_iter().flatten() {
        match server.list(&path, &[]).await {
            Ok((items, _)) => {
                is_listed = true;
                rows.extend(items.iter().map(row));
            }
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|it| it.is(403)) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    match refused {
        Some(error) if !is_listed => Err(error),
        _ => Ok(rows),
    }
}

fn row(object: &Value) -> Row {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let count = |field: &str| status["summary"][field].as_i64().unwrap_or_default();
    let (to_move, moving, pending) = (count("toMove"), count("moving"), count("pending"));
    let phase = text(&status["phase"]).unwrap_or_else(|| "Planning".to_owned());
    let kind = if metadata["namespace"].is_null() { "ClusterRebalance" } else { "Rebalance" };
    Row {
        kind: kind.to_owned(),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]).unwrap_or_default(),
        is_over: matches!(&*phase, "Completed" | "Aborted"),
        phase,
        to_move,
        done: (to_move - moving - pending).max(0),
        moving,
        failed: count("failed"),
        replicas_moved: count("replicasMoved"),
        created: metadata["creationTimestamp"].as_str().and_then(|time| time.parse().ok()),
    }
}

fn table(server: &Server, rows: Vec<Row>, lists_all: bool) -> String {
    use Side::{Left, Right};
    let now = SystemClock.now();
    let mut table = Table::new(&[
        ("NAMESPACE", Left),
        ("REBALANCE", Left),
        ("PHASE", Left),
        ("DONE", Right),
        ("MOVING", Right),
        ("FAILED", Right),
        ("REPLICAS", Right),
        ("AGE", Right),
    ]);
    let (mut finished, mut left_out) = (0, 0);
    for row in rows {
        finished += usize::from(row.is_over);
        if finished > FINISHED_SHOWN_MAX && !lists_all {
            left_out += 1;
            continue;
        }
        let tone = match &*row.phase {
            "Completed" => Tone::Good,
            "Aborted" => Tone::Bad,
            _ => Tone::Careful,
        };
        let shown = format!("{}/{}", row.kind.to_lowercase(), row.name);
        let age = row.created.map(|created| human_duration((now.seconds() - created.seconds()).max(0)));
        table.row(vec![
            cell(row.namespace.unwrap_or_default()),
            cell(shown).tone(Tone::Strong),
            cell(row.phase).tone(tone),
            cell(format!("{}/{}", row.done, row.to_move)),
            cell(row.moving),
            cell(row.failed).tone(if row.failed > 0 { Tone::Bad } else { Tone::Plain }),
            cell(row.replicas_moved),
            cell(age.unwrap_or_default()),
        ]);
    }
    let table = table.without_empty_columns().on(server.screen);
    match left_out {
        0 => table,
        more => format!("{table}  ... and {more} older: -o wide lists them\n"),
    }
}
