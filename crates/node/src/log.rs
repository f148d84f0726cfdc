//! Opens the log of this process: exclusive, or shared with other replicas, of which one leads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::ServeArgs;
use super::election::Election;
use super::heartbeat::Heartbeat;
use super::{UsageError, certs, quarantine, tables};
use ballast_base::clock::Clock;
use ballast_base::telemetry;
use ballast_resource::Kinds;
use ballast_server::{Check, Counts};
use ballast_store::{self as store, Candidate, Error, Store};
use ballast_watch::{self as watch, Cache, Limits, Task, Writer};

/// Maximum wait for a primary at startup. A failover takes half a minute with usual settings, and
/// an unreachable database should be reported soon.
const PRIMARY_WAIT_MAX: Duration = Duration::from_secs(60);
/// Pause between two attempts at startup.
const PRIMARY_PAUSE: Duration = Duration::from_millis(250);

/// The open log.
pub struct Log {
    pub cache: Cache,
    pub writer: Writer,
    pub writing: Task,
    /// `None` if no other process can write.
    pub election: Option<Election>,
    /// `None` if the log is not shared.
    pub heartbeat: Option<Heartbeat>,
}

/// Opens the store that the flags configure, with a view for each of the kinds.
pub async fn open(args: &ServeArgs, kinds: &Kinds) -> anyhow::Result<Arc<dyn Store>> {
    let database = store::shown(&args.database_url);
    let (tables, settings) = (tables::tables(kinds), args.database.settings());
    let opening = || async {
        quarantine::set_aside(args, &tables, &settings).await?;
        let store = store::open_with(&args.database_url, &tables, &settings).await?;
        quarantine::tell(&*store).await?;
        Ok(store)
    };
    match with_patience(opening).await {
        Ok(store) => Ok(store),
        Err(error @ store::Error::Misplaced { .. }) => {
            Err(UsageError(format!("--database-url {database}: {error}")).into())
        }
        Err(error) => Err(anyhow::Error::new(error).context(format!("failed to open {database}"))),
    }
}

/// Retries while the database has no primary, such as during its failover.
async fn with_patience<T, F: Future<Output = Result<T, Error>>>(tried: impl Fn() -> F) -> Result<T, Error> {
    let (began, mut is_logged) = (Instant::now(), false);
    loop {
        match tried().await {
            Err(error) if error.is_outage() && began.elapsed() < PRIMARY_WAIT_MAX => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(error = telemetry::with_causes(&error), "the start waits for the database");
                }
                tokio::time::sleep(PRIMARY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

impl Log {
    /// Opens a log that no other process writes.
    pub async fn alone(store: Arc<dyn Store>, clock: &Arc<dyn Clock>, limits: Limits) -> Result<Log, Error> {
        let (cache, writer, writing) = watch::open(store, Arc::clone(clock), limits).await?;
        Ok(Log { cache, writer, writing, election: None, heartbeat: None })
    }

    /// Opens a log that replicas share, as a follower. `election` can make this process the leader.
    pub async fn join(
        store: Arc<dyn Store>,
        clock: &Arc<dyn Clock>,
        candidate: Candidate,
        lease: Duration,
        limits: Limits,
    ) -> Result<Log, Error> {
        let limits = Limits { reports_wait_max: lease, ..limits };
        let joining = || watch::join(Arc::clone(&store), Arc::clone(clock), limits.clone());
        let joined = with_patience(joining).await?;
        let watch::Joined { cache, writer, role, task } = joined;
        let heartbeat = Heartbeat { store: Arc::clone(&store), cache: cache.clone(), replica: candidate.clone() };
        let election = Election::new(store, candidate, lease, role);
        Ok(Log { cache, writer, writing: task, election: Some(election), heartbeat: Some(heartbeat) })
    }

    /// Returns the readiness check of a replica: it is connected to the database.
    pub fn check(&self) -> Option<Check> {
        let cache = self.cache.clone();
        self.election.as_ref().map(|_| {
            Check::new("replica", Counts::Ready, move || match cache.is_cut_off() {
                true if cache.is_taken_back() => {
                    Err("the database has lost changes that this replica shows".to_owned())
                }
                true => Err(format!("nothing was heard from the database for {:?}", cache.lag().time)),
                false => Ok(()),
            })
        })
    }
}

/// Returns this process as a candidate of the election. Its name is unique: the next process in the
/// same pod has another one.
pub fn candidate(args: &ServeArgs, address: SocketAddr, clock: &dyn Clock) -> Candidate {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (advertised, own) = (args.replicas.advertised(address.port()), certs::reachable(address).to_string());
    if advertised.is_none() && address.ip().is_unspecified() {
        let advice = "--advertise-address says where replicas on other machines reach this one";
        tracing::warn!(address = own, advice, "only replicas on this machine reach this one");
    }
    Candidate { name: format!("{}_{}", machine.trim(), clock.uuid()), address: advertised.unwrap_or(own) }
}
