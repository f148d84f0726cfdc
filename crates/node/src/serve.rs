//! Starts the parts of a server, and stops them in order.
//!
//! They start in this order: certificates, store, cache and writer, registry, workers, HTTPS
//! server. They stop in this order: the HTTPS server (no new requests, watches end, requests
//! finish), the workers, the writer. So every acknowledged write is stored.
//!
//! If a background task ends unexpectedly, the process ends. A partially working server is worse
//! than a restarted one.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::assembly::{self, WorkerOptions};
use super::attached::{self, Attachment, Progress};
use super::config::{AuditArgs, HostArgs, ServeArgs};
use super::election::{Election, LeadershipEvent};
use super::heartbeat::Heartbeat;
use super::identity::Identity;
use super::leadership::{Elected, Leadership, WorkerSet};
use super::log::{self, Log};
use super::peer_certificates::PeerCertificates;
use super::storage_probe::StorageProbe;
use super::supervision::{ended_unasked, reflector_ended, reflector_synced};
use super::{UsageError, certs, descriptors, estimators, history_events, memory};
use ballast_actions::MarkingLimits;
#[cfg(feature = "attach")]
use ballast_attach as attach;
use ballast_base::clock::{Clock, SystemClock};
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_controllers::FailoverOptions;
use ballast_engine::karmada::{Profile, Rules};
use ballast_host::HostLease;
use ballast_members::Members;
use ballast_registry::Registry;
use ballast_resource::{Kinds, Lifetime};
use ballast_server::audit::{self, Audit};
use ballast_server::{
    self as server, App, Check, ConnectionLimits, Cors, Counts, Documents, InFlight, Proxy, ServeOptions, Shutdown,
    Surroundings, ZPages,
};
use ballast_store as store;
use ballast_store::{Store, Term};
use ballast_watch::{Task, View};
use ballast_worker::Workers;
use ballast_worker::events::Recorder;

/// Time for which a replica that ends still reports to the others that it does not lead any more.
/// They look for the leader several times in this time. Without it, a write could arrive on a
/// connection that is being closed, and its client could not know whether it was committed.
const HAND_OVER: Duration = Duration::from_secs(1);
/// Maximum wait for the writer at shutdown, after all of its users have ended.
const WRITER_MAX: Duration = Duration::from_secs(3);

/// Interval at which startup checks whether the server is ready.
const READY_POLL: Duration = Duration::from_millis(50);
/// Startup time after which the log names the failing check.
const UNREADY_LOGGED_AFTER: Duration = Duration::from_secs(2);

/// A server that runs in this process.
pub struct Running {
    pub address: SocketAddr,
    /// The development certificates, if they are in use.
    pub certificates: Option<certs::Files>,
    shutdown: Shutdown,
    ended: JoinHandle<anyhow::Result<()>>,
    reflected: Option<Progress>,
    checks: Vec<Check>,
}

impl Running {
    /// Waits until `/readyz` passes. If it takes longer than `UNREADY_LOGGED_AFTER`, the failing
    /// check is logged once.
    pub fn ready(&self) -> impl Future<Output = ()> + use<> {
        let (url, checks) = (self.url(), self.checks.clone());
        async move {
            let (began, mut is_logged) = (Instant::now(), false);
            while let Some((name, why)) = checks.iter().find_map(|check| Some((check.name, (check.probe)().err()?))) {
                if began.elapsed() > UNREADY_LOGGED_AFTER && !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(url, check = name, why, "the server listens, and is not ready yet");
                }
                tokio::time::sleep(READY_POLL).await;
            }
        }
    }

    /// Returns the URL at which a client on this machine reaches the server.
    pub fn url(&self) -> String {
        format!("https://{}", certs::reachable(self.address))
    }

    /// Returns the progress of the reflector, if the server is attached to another one.
    pub fn reflected(&self) -> Option<&Progress> {
        self.reflected.as_ref()
    }

    /// Waits until the server ends unexpectedly, and returns the reason. Neither this method nor
    /// `stop` may be called after it has returned.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.ended).await.context("the server panicked")?
    }

    /// Drains and stops the server. Returns when everything is stored and every task has ended.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.begin();
        self.ended.await.context("the server panicked")?
    }
}

/// Starts a server. Returns when it accepts requests.
pub async fn start(args: ServeArgs) -> anyhow::Result<Running> {
    store::check_url(&args.database_url).map_err(|error| UsageError(format!("--database-url: {error}")))?;
    launch(args, None, None).await
}

/// Starts a server that is attached to this API server, regardless of `args.attach`.
#[cfg(feature = "attach")]
pub async fn attached(
    mut args: ServeArgs,
    upstream: attach::Upstream,
    access: attach::Access,
) -> anyhow::Result<Running> {
    args.controllers.settle_attached(access)?;
    launch(args, None, Some(Attachment { upstream, access, scope: attach::ReflectorScope::default() })).await
}

/// Starts one of several servers over a shared store.
pub async fn join(args: ServeArgs, store: Arc<dyn Store>) -> anyhow::Result<Running> {
    launch(args, Some(store), None).await
}

async fn launch(
    args: ServeArgs,
    shared: Option<Arc<dyn Store>>,
    attachment: Option<Attachment>,
) -> anyhow::Result<Running> {
    let args = args.settled()?;
    let attachment = match attachment {
        None => Attachment::from_flags(&args).await?,
        given => given,
    };
    attachment.as_ref().map_or(Ok(()), |attachment| attachment.check(&args))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut identity = Identity::assemble(&args, &clock).await?;
    let audit = audit(&args.audit)?.map(Arc::new);
    let cors = Cors::new(&args.cors_allowed_origins).map_err(UsageError::because)?;
    let listener = TcpListener::bind(args.listen_address()).await.with_context(|| {
        let address = args.listen_address();
        format!("failed to listen on {address} (--bind-address, --secure-port; port 0 picks a free one)")
    })?;
    let address = listener.local_addr()?;

    let kinds = assembly::all_kinds(&args);
    let kinds = Arc::new(if attachment.is_some() { attached::kinds(&kinds) } else { kinds });
    let profile = profile(&args, attachment.is_some());
    let is_shared = shared.is_some() || store::is_server(&args.database_url);
    let store = match shared {
        Some(store) => store,
        None => log::open(&args, &kinds).await?,
    };
    let own_store = Arc::clone(&store);
    let storage = StorageProbe::default();
    let opened = match is_shared {
        true => {
            let candidate = log::candidate(&args, address, &*clock);
            Log::join(store, &clock, candidate, args.replicas.lease(), args.history.limits()).await?
        }
        false => Log::alone(store, &clock, args.history.limits()).await?,
    };
    let follows = opened.check();
    let Log { cache, writer, writing, election, heartbeat } = opened;
    estimators::install(&args.estimators, attachment.as_ref(), identity.host.as_ref(), &clock, &cache)?;
    let documents = Documents::of(&kinds).with_zpages(ZPages { started: clock.now(), flags: args.flags() });
    let probing = storage.clone().run(Arc::clone(&own_store), cache.clone());
    metrics::store_back_end(store::back_end(&args.database_url));
    log_start(&args, address, &kinds, &cache.view());
    let recorder = Recorder::new(Arc::clone(&clock));
    let recorder_of_losses = recorder.named("database");
    let own_writer = writer.clone();
    let reflector = attachment.map(|attachment| attachment.start(&kinds, &cache, &own_writer));
    let inventory = assembly::commit_hooks(&own_writer, &profile, args.inventory.made(&args.scheduler_name, &clock));
    let registry = assembly::registry(kinds, cache.clone(), writer, &identity.authorizer, &clock, &recorder, &profile);
    let registry = match &args.max_namespace_bytes {
        Some(most) => registry.with_namespace_bytes_max(usize::try_from(most.bytes).unwrap_or(usize::MAX)),
        None => registry,
    };
    let registry = assembly::with_reviews(registry, &clock, &profile, args.local_review_details.into());
    let registry = assembly::with_fleet_counts(registry, &clock, &args.failover.options());
    let registry = assembly::with_gates(registry, &args.rollout_gates.gate_address_allow);
    let upstream_events = reflector.as_ref().and_then(|reflector| reflector.events(&args.attach));
    let (registry, reflected, reflector) = attached::attach(registry, reflector);
    let registry = match args.failover.allow_no_execute_taint_policy {
        true => registry,
        false => assembly::without_no_execute_taints(registry),
    };
    let marking = MarkingLimits { in_request_max: args.reschedule_task_marking_duration.0, ..MarkingLimits::default() };
    let lease = identity.lease(&args.host, clock.as_ref())?;
    // For a shared log there must be one authority: the lease then decides the election, with its
    // term.
    let (election, lease) = match (election, lease) {
        (Some(election), Some(lease)) => (Some(election.decided_by(lease)), None),
        one => one,
    };
    let marks = assembly::marks(&registry);
    let registry = guarded(registry, &mut identity, &args.host, &recorder, lease.as_ref());
    let registry = assembly::with_four_eyes(registry, &args.require_approval, identity.namespaces.clone());
    let registry = Arc::new(assembly::with_marking(registry, marks, &clock, &recorder, marking));
    if election.is_none() {
        fill_defaults(&registry, &*own_store, Term::default()).await;
    }

    let stop_workers = CancellationToken::new();
    let mut workers = Workers::new(stop_workers.clone());
    let holds_suspended = profile.rules == Rules::Default;
    let options = WorkerOptions {
        recorder,
        profile,
        failover: FailoverOptions { holds_suspended, ..args.failover.options() },
        controllers: args.controllers.chosen()?,
        rescue: args.estimators.rescue(),
        marking,
        inventory: inventory.map(|told| (told, identity.inventory_host(&args.host))),
        sinks: identity.events(&args.host).into_iter().chain(upstream_events).collect(),
        gates: Arc::new(args.rollout_gates.client()?),
    };
    let worker_set =
        WorkerSet { registry: Arc::clone(&registry), cache: cache.clone(), clock: Arc::clone(&clock), options };
    let lead = election.as_ref().map(Election::lead);
    let leadership = match (election, lease) {
        (Some(election), _) => Leadership::Elected(Elected::begin(election)),
        (None, Some(lease)) => Leadership::Leased(Box::new(lease), false),
        (None, None) => {
            if reflected.is_none() {
                worker_set.start(&mut workers);
            }
            metrics::leader(true);
            Leadership::Alone
        }
    };
    let is_alone = matches!(leadership, Leadership::Alone);

    let shutdown = Shutdown::default();
    let writer_lives = writing.abort_handle();
    let mut checks = std::mem::take(&mut identity.checks);
    checks.extend(follows);
    checks.push(writer_check(writer_lives));
    checks.push(storage.check());
    checks.extend(reflected.clone().map(attached::check));
    let losses = history_events::record(cache.clone(), recorder_of_losses);
    let Identity { tls, authenticator, authorizer, development, host, mut background, .. } = identity;
    background.spawn(probing);
    background.spawn(async { match losses.await {} });
    if let Some(heartbeat) = heartbeat.clone() {
        background.spawn(heartbeat.run());
    }
    let replicas = lead.map(|lead| {
        let (cache, tls, clock) = (cache.clone(), tls.clone(), Arc::clone(&clock));
        let (replicas, certificates) = PeerCertificates::of(lead, &shutdown, cache, own_writer, tls, clock);
        background.spawn(certificates.keep_current());
        replicas
    });
    background.spawn(memory::give_back());
    let app = App {
        documents,
        registry,
        authenticator,
        authorizer,
        audit: audit.clone(),
        clock: Arc::clone(&clock),
        in_flight: InFlight::new(args.max_requests_inflight as usize, args.max_mutating_requests_inflight as usize),
        replicas,
        proxy: Some(Proxy::new(Arc::new(Members::new(args.members.secrets(host))))),
        checks: checks.clone(),
        shutdown: shutdown.clone(),
        // Behind a host cluster, clients reach this server only through its kube-apiserver.
        has_page: !args.host.is_given(),
        surroundings: Surroundings::of_server(args.ui_banner.clone()).to_json(),
        cors,
    };
    let certificates = development.filter(|_| !args.host.is_given());
    write_development_kubeconfig(certificates.as_ref(), address)?;
    let options = serve_options(&args, is_shared, &app);
    let serving = tokio::spawn(server::run(listener, tls, server::router(app), options));
    let tasks = Tasks {
        serving,
        store: own_store,
        worker_set,
        workers,
        stop_workers,
        writing,
        leadership,
        background,
        heartbeat,
        reflector,
        due: reflected.clone().filter(|_| is_alone),
        reflected: reflected.clone(),
        audit,
        shutdown: shutdown.clone(),
    };
    Ok(Running { address, certificates, shutdown, ended: tokio::spawn(tasks.supervise()), reflected, checks })
}

fn serve_options(args: &ServeArgs, is_shared: bool, app: &App) -> ServeOptions {
    let at_least = if is_shared { HAND_OVER } else { Duration::ZERO };
    ServeOptions {
        limits: ConnectionLimits {
            goaway_per_million: args.goaway_chance.per_million(),
            ..descriptors::connection_limits()
        },
        shutdown: app.shutdown.clone(),
        delay: args.shutdown_delay_duration.0.max(at_least),
        resets_max: app.resets_max(),
        clock: Arc::clone(&app.clock),
    }
}

/// Writes the kubeconfig of the development CA. Behind a host cluster that CA is not accepted, so
/// there are no files.
fn write_development_kubeconfig(files: Option<&certs::Files>, address: SocketAddr) -> anyhow::Result<()> {
    match files {
        Some(files) => certs::write_kubeconfig(files, &format!("https://{}", certs::reachable(address))),
        None => Ok(()),
    }
}

/// Returns a liveness check that fails once the task that commits has ended.
fn writer_check(writer: AbortHandle) -> Check {
    Check::new("writer", Counts::Alive, move || {
        if writer.is_finished() { Err("the writer has ended".to_owned()) } else { Ok(()) }
    })
}

/// Logs the started configuration in one line.
fn log_start(args: &ServeArgs, address: SocketAddr, kinds: &Kinds, view: &View) {
    let stored = kinds.rows().iter().filter(|row| row.lifetime == Lifetime::Stored && row.is_stored_version());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        database = store::shown(&args.database_url),
        objects = stored.map(|row| view.count(row.resource, None)).sum::<usize>(),
        revision = view.revision.0,
        %address,
        mode = if args.host.is_given() { "aggregated" } else { "standalone" },
        "ballast starts"
    );
}

/// Adds the host cluster's admission and the fence of the lease to the registry.
fn guarded(
    mut registry: Registry,
    identity: &mut Identity,
    host: &HostArgs,
    recorder: &Recorder,
    lease: Option<&HostLease>,
) -> Registry {
    if let Some(admission) = identity.external_admission(host, recorder) {
        registry = registry.with_external_admission(admission);
    }
    if let Some(lease) = lease {
        let fence = lease.fence();
        registry = registry.with_fence(Arc::new(move || fence.is_held()));
    }
    registry
}

/// Adds new defaults to objects that an older Ballast stored. Does nothing if the database has the
/// marker of these defaults.
async fn fill_defaults(registry: &Registry, store: &dyn Store, term: Term) {
    let mark = registry.defaults_mark();
    let there = store.mark().await;
    if there.as_ref().is_ok_and(|there| *there == Some(mark)) {
        return;
    }
    // A marker of other defaults is removed first, because new writes have these defaults.
    if !matches!(there, Ok(Some(0) | None))
        && let Err(error) = store.set_mark(term, 0).await
    {
        let error = telemetry::with_causes(&error);
        tracing::warn!(error, "objects of an older Ballast may lack defaults of this one");
        return;
    }
    match registry.fill_defaults().await {
        Ok(objects) => {
            if objects > 0 {
                tracing::info!(objects, "gave objects of an older Ballast the defaults of this one");
            }
            if let Err(error) = store.set_mark(term, mark).await {
                let error = telemetry::with_causes(&error);
                tracing::warn!(error, "the next start looks for missing defaults again");
            }
        }
        // A store that rejects writes can still be read.
        Err(status) => {
            tracing::warn!(why = status.message, "objects of an older Ballast may lack defaults of this one")
        }
    }
}

fn audit(args: &AuditArgs) -> anyhow::Result<Option<Audit>> {
    const MEGABYTE: u64 = 1024 * 1024;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let Some(path) = &args.audit_log_path else { return Ok(None) };
    let policy = match &args.audit_policy_file {
        None => audit::Policy::metadata(),
        Some(path) => fs::read_to_string(path)
            .map_err(anyhow::Error::new)
            .and_then(|text| Ok(audit::Policy::parse(&text)?))
            .with_context(|| format!("failed to use {} as audit policy", path.display()))
            .map_err(UsageError::because)?,
    };
    let rotation = audit::Rotation {
        bytes_max: u64::from(args.audit_log_maxsize) * MEGABYTE,
        backups_max: args.audit_log_maxbackup as usize,
        age_max: DAY * args.audit_log_maxage,
    };
    Ok(Some(Audit::new(policy, audit::Log::open(path, rotation)?)))
}

/// The tasks of a running server.
struct Tasks {
    serving: JoinHandle<()>,
    store: Arc<dyn Store>,
    worker_set: WorkerSet,
    workers: Workers,
    stop_workers: CancellationToken,
    writing: Task,
    leadership: Leadership,
    /// Tasks that keep caches of files and of the host cluster up to date.
    background: JoinSet<()>,
    /// Announces this replica to the others.
    heartbeat: Option<Heartbeat>,
    /// The task of the reflector, if there is one.
    reflector: Option<JoinHandle<()>>,
    reflected: Option<Progress>,
    /// The reflector that must be synced before the workers start: they must not decide from
    /// partial state.
    due: Option<Progress>,
    audit: Option<Arc<Audit>>,
    shutdown: Shutdown,
}

impl Tasks {
    async fn start_workers(&mut self, term: Term) {
        if matches!(self.leadership, Leadership::Elected(_)) {
            // Only the leader may write. A log that is not shared got its defaults at startup.
            fill_defaults(&self.worker_set.registry, &*self.store, term).await;
        }
        self.due = self.reflected.clone();
        if self.due.is_none() {
            self.worker_set.start(&mut self.workers);
        }
    }

    /// Stops the workers of a term that is over. The next term starts new workers.
    async fn stop_workers(&mut self) {
        self.due = None;
        self.stop_workers.cancel();
        self.stop_workers = CancellationToken::new();
        std::mem::replace(&mut self.workers, Workers::new(self.stop_workers.clone())).drain().await;
        // The new leader reports these metrics.
        metrics::forget_workers();
    }

    /// Waits for the end of the server, requested or not, and stops everything in order.
    async fn supervise(mut self) -> anyhow::Result<()> {
        let mut written = None;
        let fault = loop {
            break tokio::select! {
            served = &mut self.serving => served.err().map(|error| anyhow::Error::new(error).context("the server panicked")),
            died = self.workers.died() => Some(died.into()),
            ended = reflector_ended(&mut self.reflector) => Some(ended),
            Some(ended) = self.background.join_next() => Some(ended_unasked("background task", ended)),
            () = reflector_synced(&self.due) => {
                self.due = None;
                self.worker_set.start(&mut self.workers);
                continue;
            }
            event = self.leadership.next() => match event {
                LeadershipEvent::Leads(term) => {
                    let shutdown = self.shutdown.clone();
                    tokio::select! {
                        biased;
                        () = self.start_workers(term) => {}
                        // Other replicas need not wait until all objects are checked.
                        () = shutdown.begun() => {}
                    }
                    continue;
                }
                LeadershipEvent::Lost => {
                    self.stop_workers().await;
                    continue;
                }
                LeadershipEvent::Ended(fault) => Some(fault),
            },
            () = self.shutdown.begun(), if self.leadership.can_hand_over() => {
                // Other replicas need not wait until the last request here has finished.
                self.stop_workers.cancel();
                self.leadership.hand_over().await;
                continue;
            }
            ended = &mut self.writing => {
                let fault = match &ended {
                    Ok(Ok(())) => anyhow::anyhow!("the writer ended by itself"),
                    Ok(Err(error)) => anyhow::anyhow!("the writer gave up: {error}"),
                    Err(error) => anyhow::anyhow!("the writer panicked: {error}"),
                };
                written = Some(ended);
                Some(fault)
            }
            };
        };
        if fault.is_some() {
            // Requests in progress will probably fail, but clients should get a response.
            self.shutdown.begin();
            if self.leadership.can_hand_over() {
                self.stop_workers.cancel();
                self.leadership.hand_over().await;
            }
            if !self.serving.is_finished() {
                let _already_reported = self.serving.await;
            }
        }
        self.background.shutdown().await;
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.leave().await;
        }
        if let Some(reflector) = self.reflector.take() {
            reflector.abort();
            let _cut_off = reflector.await;
        }
        self.stop_workers.cancel();
        self.workers.drain().await;
        self.leadership.end().await;
        drop(self.worker_set);
        if written.is_none() {
            // The server and the workers were the last users of the queue. Once it is empty, the
            // loop ends. Aborted work may still hold it, but nothing waits for its writes.
            match tokio::time::timeout(WRITER_MAX, &mut self.writing).await {
                Ok(ended) => ended.context("the writer panicked")?.context("the last writes failed")?,
                Err(_) => tracing::warn!("the writer did not end in time; all acknowledged writes are stored"),
            }
        }
        if let Some(audit) = self.audit {
            let flushed = tokio::task::spawn_blocking(move || audit.flush());
            flushed.await.context("the audit log panicked")?;
        }
        fault.map_or(Ok(()), Err)
    }
}

fn profile(args: &ServeArgs, is_attached: bool) -> Profile {
    let profile = args.gates.over(args.scheduling_profile.rules());
    let (scheduler_name, empty_workloads) =
        (args.scheduler_name.as_str().into(), args.enable_empty_workload_propagation);
    let reservation_ttl = i64::try_from(args.reservation_ttl.0.as_secs()).unwrap_or(i64::MAX);
    let profile = Profile { scheduler_name, empty_workloads, reservation_ttl, ..profile };
    if is_attached { attached::profile(profile) } else { profile }
}
