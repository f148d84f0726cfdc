//! `ballast bench`: measures a new server on this machine, and with the same requests another API
//! server, if its kubeconfig is given.
//!
//! The other server only needs Karmada's definitions. Its objects are in a separate namespace and
//! name a scheduler that does not exist, so they have no effect there. They are deleted at the end,
//! also after a failure.
//!
//! Both servers are measured by the same client in this process, which shares the processors with
//! the new server. The figures are therefore lower than those of `cargo bench`; only their ratio is
//! meaningful.

pub mod load;
pub mod objects;
mod own;
mod peer;
pub mod placed;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use self::load::Measured;
use super::output;
use super::screen::Screen;
use super::signals;
use super::table::{Side, Table, cell};
use ballast_base::telemetry;
use ballast_node::kubeconfig::KubeconfigArgs;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of bindings. The other server gets fewer if a measurement would take more than a
    /// minute
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub bindings: u32,

    /// Kubeconfig of another API server with Karmada's definitions, which is measured too. Objects
    /// are created there in a separate namespace, and deleted at the end
    #[arg(long, value_name = "FILE")]
    pub peer: Option<PathBuf>,

    /// Context of that kubeconfig, instead of its current one
    #[arg(long, value_name = "NAME", requires = "peer")]
    pub peer_context: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// One row for each measurement
    Table,
    /// An object for programs; times in milliseconds
    Json,
}

/// One line of the result.
#[derive(Serialize)]
struct Row {
    what: &'static str,
    ballast: Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Measured>,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    processors: usize,
    bindings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    rows: Vec<Row>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let _lines = telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = measure(args) => report,
            ended = signals::ended() => ended.and(Err(anyhow::anyhow!("the measurement was interrupted"))),
        }
    })?;
    match args.output {
        Output::Json => output::print(&(serde_json::to_string_pretty(&report)? + "\n")),
        Output::Table => output::print(&table(&report)),
    }
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let count = args.bindings as usize;
    // An invalid kubeconfig is reported before anything is measured.
    let connected = match &args.peer {
        None => None,
        Some(kubeconfig) => {
            let named = KubeconfigArgs {
                kubeconfig: Some(kubeconfig.clone()),
                context: args.peer_context.clone(),
                ..KubeconfigArgs::default()
            };
            Some(peer::opened(named.connect().await?).await?)
        }
    };
    let own = own::measured(count).await?;
    let (peer, theirs) = match connected {
        None => (None, Vec::new()),
        Some(connected) => (Some(connected.url.clone()), peer::measured(&connected, count).await?),
    };
    let mut theirs = theirs.into_iter();
    let rows = own.into_iter().map(|(what, ballast)| Row { what, ballast, peer: theirs.next() }).collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Report { version: env!("CARGO_PKG_VERSION"), processors, bindings: count, peer, rows })
}

fn table(report: &Report) -> String {
    let mut columns = vec![("WHAT", Side::Left), ("BALLAST", Side::Right), ("P50", Side::Right), ("P99", Side::Right)];
    if report.peer.is_some() {
        let theirs = [("PEER", Side::Right), ("P50", Side::Right), ("P99", Side::Right), ("RATIO", Side::Right)];
        columns.extend(theirs);
    }
    let mut table = Table::new(&columns);
    for row in &report.rows {
        let mut cells = vec![cell(row.what)];
        cells.extend(figures(Some(&row.ballast)).map(cell));
        if report.peer.is_some() {
            cells.extend(figures(row.peer.as_ref()).map(cell));
            let ratio = row.peer.as_ref().map(|peer| format!("{:.1}", row.ballast.per_second / peer.per_second));
            cells.push(cell(ratio.unwrap_or_default()));
        }
        table.row(cells);
    }
    let mut text = format!(
        "Ballast {}, {} processors, {} bindings in a SQLite file that is new, {} requests at a time\n",
        report.version,
        report.processors,
        report.bindings,
        load::AT_A_TIME
    );
    if let Some(peer) = &report.peer {
        text += &format!("The peer is {peer}.\n");
    }
    text + &table.on(Screen::of_stdout(true))
}

fn figures(measured: Option<&Measured>) -> [String; 3] {
    let Some(measured) = measured else { return Default::default() };
    let time =
        |time: Option<Duration>| time.map(|time| format!("{:.1} ms", time.as_secs_f64() * 1e3)).unwrap_or_default();
    [format!("{:.0}/s", measured.per_second), time(measured.p50), time(measured.p99)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_the_peer_cannot_do_has_no_ratio() {
        let measured = |per_second| Measured { per_second, p50: Some(Duration::from_micros(1500)), p99: None };
        let rows = vec![
            Row { what: "create", ballast: measured(3000.0), peer: Some(measured(300.0)) },
            Row { what: "decide again", ballast: measured(900.0), peer: None },
        ];
        let report = Report { version: "1", processors: 2, bindings: 100, peer: Some("https://peer".to_owned()), rows };
        let text = table(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "The peer is https://peer.");
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>(),
            ["create", "3000/s", "1.5", "ms", "300/s", "1.5", "ms", "10.0"]
        );
        assert_eq!(lines[4].split_whitespace().collect::<Vec<_>>(), ["decide", "again", "900/s", "1.5", "ms"]);
    }
}
