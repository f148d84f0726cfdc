//! Connects to the server. Every wait for it is bounded.
//!
//! If the URL names several hosts, the last known primary is tried first. If it refuses or is slow,
//! all hosts are tried in parallel, and the first one that accepts writes is used.
//!
//! *Invariant:* all connections lead to servers of one timeline. If the old and the new primary
//! accept writes at the same time, such as while Patroni hangs, their histories diverge, and rows
//! of both would be inconsistent.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Connection, Postgres};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Settings, histories, hosts};
use crate::{Error, PARAMETERS, is_parameter};

/// The maximum wait for a connection, including TLS and authentication.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long servers of earlier timelines are refused after a connection to a newer one was made.
/// After that, the newer server may have been replaced by another database.
const EARLIER_REFUSED: Duration = Duration::from_secs(60);

/// How long the last known primary is tried alone.
const ALONE: Duration = Duration::from_millis(500);

/// Parameters of libpq that a URL may contain and that have no effect: Ballast has its own
/// timeouts, and always refuses standbys.
const WITHOUT_EFFECT: &[&str] = &[
    "connect_timeout",
    "fallback_application_name",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "target_session_attrs",
    "tcp_user_timeout",
];

/// The settings of connections. The password is read each time, because it may have changed.
pub(super) struct Connector {
    url: String,
    password_file: Option<PathBuf>,
    /// The maximum wait for the result of a statement.
    pub answer_max: Duration,
    /// The index of the last known primary among the hosts.
    host: AtomicUsize,
    /// When all connections made until then were given up.
    given_up: watch::Sender<Option<Instant>>,
    /// Whether the server reports its timeline.
    has_timelines: AtomicBool,
    /// The timeline of the connections, and the time of the last connection.
    timeline: Mutex<Option<(i64, Instant)>>,
}

impl Connector {
    pub fn new(url: &str, settings: &Settings) -> Connector {
        Connector {
            url: url.to_owned(),
            password_file: settings.password_file.clone(),
            answer_max: settings.answer_max,
            host: AtomicUsize::new(0),
            given_up: watch::Sender::new(None),
            has_timelines: AtomicBool::new(false),
            timeline: Mutex::default(),
        }
    }

    /// Enables the comparison of timelines for all later connections.
    pub fn compare_timelines(&self) {
        self.has_timelines.store(true, Ordering::Relaxed);
    }

    /// Accepts or refuses a new connection to a server of this timeline. If the timeline is a new
    /// one, all other connections are given up.
    fn accept(&self, timeline: i64) -> Result<(), sqlx::Error> {
        let now = Instant::now();
        let mut known = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some((newest, at)) if timeline < newest && now - at < EARLIER_REFUSED => {
                let text = "the server has an older timeline than another one that takes writes; is it an old primary?";
                return Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, text)));
            }
            Some((other, _)) if timeline != other => {
                tracing::info!(timeline, before = other, "the database has failed over: connections are made anew");
                self.give_up();
            }
            _ => {}
        }
        *known = Some((timeline, now));
        Ok(())
    }

    /// Prepares a new connection. A standby is refused, because its reads may be stale.
    pub async fn prepare(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let read_only: String = sqlx::query_scalar("SHOW transaction_read_only").fetch_one(&mut *connection).await?;
        if read_only == "on" {
            let text = "the server takes no writes; is it a standby?";
            return Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text)));
        }
        if self.has_timelines.load(Ordering::Relaxed) {
            self.accept(histories::timeline_of(connection).await?)?;
        }
        // The server cancels a statement before its caller gives up, so that no abandoned statement
        // keeps running.
        let bound = format!("SET statement_timeout = {}", (self.answer_max * 3 / 4).as_millis());
        sqlx::raw_sql(sqlx::AssertSqlSafe(bound)).execute(connection).await?;
        Ok(())
    }

    /// Gives up all connections: their pending statements fail at once, and they are not reused. A
    /// server that still responds to some of them may not be the primary any more.
    pub fn give_up(&self) {
        self.given_up.send_replace(Some(Instant::now()));
    }

    /// Returns whether a connection of this age was given up.
    pub fn is_given_up(&self, age: Duration) -> bool {
        self.given_up.borrow().is_some_and(|at| at.elapsed() < age)
    }

    /// Runs a statement like [`within`], and fails when all connections are given up.
    pub async fn asked<T>(
        &self,
        bound: Duration,
        asked: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let mut given_up = self.given_up.subscribe();
        tokio::select! {
            biased;
            answer = within(bound, asked) => answer,
            Ok(()) = given_up.changed() => {
                let text = "the connection was given up: the database did not renew the lease, or has failed over";
                Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, text)))
            }
        }
    }

    /// Returns whether the URL names several hosts.
    pub fn has_hosts(&self) -> bool {
        hosts::each(&self.url).is_ok_and(|urls| urls.len() > 1)
    }

    /// Returns the options for the last known primary. A password in the file takes precedence over
    /// the one in the URL and in `PGPASSFILE`.
    pub fn options(&self) -> Result<PgConnectOptions, Error> {
        let urls = hosts::each(&self.url)?;
        self.options_of(&urls[self.host.load(Ordering::Relaxed) % urls.len()])
    }

    fn options_of(&self, url: &str) -> Result<PgConnectOptions, Error> {
        let authority = authority(url)?;
        let parsed = PgConnectOptions::from_str(url);
        let mut options = parsed.map_err(|error| misplaced(format!("its URL cannot be read ({error})")))?;
        if let Some(path) = &authority {
            check_certificates(path)?;
            // As in libpq. With `require`, sqlx would accept every certificate.
            if matches!(options.get_ssl_mode(), PgSslMode::Require) {
                options = options.ssl_mode(PgSslMode::VerifyCa);
            }
        }
        if let Some(path) = &self.password_file {
            let password = std::fs::read_to_string(path);
            let password = password
                .map_err(|error| misplaced(format!("the password file {} cannot be read ({error})", path.display())))?;
            options = options.password(password.trim_end_matches(['\r', '\n']));
        }
        if options.get_application_name().is_none() {
            options = options.application_name("ballast");
        }
        // pgBouncer refuses sessions with an unknown setting, and no column is a float.
        Ok(options.extra_float_digits(None).disable_statement_logging())
    }

    pub async fn connect(&self) -> Result<PgConnection, Error> {
        let urls = hosts::each(&self.url)?;
        let last = self.host.load(Ordering::Relaxed) % urls.len();
        let options: Vec<PgConnectOptions> = urls.iter().map(|url| self.options_of(url)).collect::<Result<_, _>>()?;
        let to = |host: usize| {
            let options = &options[host];
            async move {
                let mut connection = options.connect().await?;
                self.prepare(&mut connection).await?;
                Ok((host, connection))
            }
        };
        let connecting = async {
            if urls.len() == 1 {
                return to(last).await;
            }
            if let Ok(Ok(found)) = tokio::time::timeout(ALONE, to(last)).await {
                return Ok(found);
            }
            let all = (0..urls.len()).map(|host| Box::pin(to(host)));
            futures_util::future::select_ok(all).await.map(|(found, _slower)| found)
        };
        let bound = CONNECT_MAX.min(self.answer_max);
        let found = within(bound, connecting).await.map_err(unanswered);
        let (host, connection) = found.map_err(|error| super::errors::classify("failed to connect", error))?;
        self.host.store(host, Ordering::Relaxed);
        Ok(connection)
    }
}

/// A pooled connection with a query in flight. If it is dropped before the query has completed, it
/// is closed, because its result must not reach the next call. The pool would ping it first, and a
/// connection that died silently would occupy its slot for a quarter of an hour.
pub(super) struct Asked(Option<PoolConnection<Postgres>>);

impl Asked {
    pub fn over(connection: PoolConnection<Postgres>) -> Asked {
        Asked(Some(connection))
    }

    pub fn connection(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect("it is given back once it is not asked any more")
    }

    /// Returns the connection to the pool after the query has completed.
    pub fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

fn misplaced(advice: String) -> Error {
    Error::Misplaced { advice }
}

/// Returns the path of the certificate authority that the URL trusts. An unknown parameter is
/// refused, because it may be a misspelt security setting.
fn authority(url: &str) -> Result<Option<PathBuf>, Error> {
    let url = url.split('#').next().unwrap_or_default();
    let (_, query) = url.split_once('?').unwrap_or((url, ""));
    let mut authority = None;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if !is_parameter(&key) && !WITHOUT_EFFECT.contains(&&*key) {
            // Before an `@`, it may be part of a password.
            let name = if query.contains('@') { String::new() } else { format!(" {key:?}") };
            let known = PARAMETERS.join(", ");
            return Err(misplaced(format!("its URL has an unknown parameter{name}; known are {known}, options[NAME]")));
        }
        if key == "target_session_attrs" && !matches!(&*value, "any" | "read-write" | "primary") {
            let advice = format!("its URL asks for target_session_attrs={value}; Ballast writes, so give read-write");
            return Err(misplaced(advice));
        }
        if matches!(&*key, "sslrootcert" | "ssl-root-cert" | "ssl-ca") {
            authority = Some(PathBuf::from(value.into_owned()));
        }
    }
    Ok(authority)
}

fn check_certificates(path: &Path) -> Result<(), Error> {
    let pem = std::fs::read(path);
    let pem = pem.map_err(|error| misplaced(format!("the sslrootcert {} cannot be read ({error})", path.display())))?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match found.is_ok_and(|certificates| !certificates.is_empty()) {
        true => Ok(()),
        false => Err(misplaced(format!("the sslrootcert {} holds no certificate in PEM", path.display()))),
    }
}

/// Explains a timeout (api-08): a pooler accepts a connection and stays silent until it has one to
/// the server.
fn unanswered(error: sqlx::Error) -> sqlx::Error {
    const WHY: &str = "the server is busy, or a pooler before it has too few connections for \
        --database-max-connections and two more";
    match error {
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("{error}; {WHY}")))
        }
        error => error,
    }
}

/// Fails after the timeout `bound`. The server may nevertheless have executed the statement.
pub(super) async fn within<T>(
    bound: Duration,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(bound, asked).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} ms", bound.as_millis());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}

/// Closes a connection gracefully, without waiting long for it.
pub(super) async fn close(connection: PgConnection) {
    // A failure to close has no consequences.
    let _ = within(CONNECT_MAX, connection.close()).await;
}

#[cfg(test)]
mod tests {
    use ballast_base::telemetry;

    use super::*;

    fn options(query: &str) -> Result<PgConnectOptions, Error> {
        Connector::new(&format!("postgres://ballast@db/ballast?{query}"), &Settings::default()).options()
    }

    #[tokio::test(start_paused = true)]
    async fn re10_all_connections_lead_to_one_timeline() {
        let connector = Connector::new("postgres://ballast@db/ballast", &Settings::default());
        let is_given_up = || connector.is_given_up(Duration::from_secs(1));
        connector.accept(3).unwrap();
        connector.accept(3).unwrap();
        assert!(!is_given_up());
        connector.accept(4).unwrap();
        assert!(is_given_up(), "those to the old primary");
        let refused = connector.accept(3).unwrap_err().to_string();
        assert!(refused.contains("is it an old primary?"), "{refused}");
        tokio::time::advance(EARLIER_REFUSED).await;
        assert!(!is_given_up());
        connector.accept(3).expect("nothing newer was seen for a while");
        assert!(is_given_up());
    }

    #[test]
    fn what_nobody_knows_in_a_url_is_refused() {
        for (query, expected) in [
            ("sslmod=verify-full", "an unknown parameter \"sslmod\"; known are application_name"),
            ("sslmode=verify-full&options[search_path=own", "\"options[search_path\""),
            ("s3cret@db/b", "an unknown parameter; known"),
            ("sslrootcert=/nowhere/ca.crt", "/nowhere/ca.crt cannot be read"),
        ] {
            let refused = options(query).unwrap_err();
            assert!(matches!(&refused, Error::Misplaced { advice } if advice.contains(expected)), "{refused}");
        }
        assert!(options("connect_timeout=10&target_session_attrs=read-write").is_ok());
        let refused = options("target_session_attrs=prefer-standby").unwrap_err().to_string();
        assert!(refused.contains("Ballast writes, so give read-write"), "{refused}");
        let known = options("sslmode=verify-full&options[search_path]=own&statement-cache-capacity=9&user=a");
        assert!(matches!(known.unwrap().get_ssl_mode(), PgSslMode::VerifyFull));
    }

    /// api-08.
    #[tokio::test]
    async fn a_pooler_without_a_free_connection_is_named() {
        // The kernel accepts the connection, and no server responds.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://ballast@{}/ballast?sslmode=disable", silent.local_addr().unwrap());
        let mut connector = Connector::new(&url, &Settings::default());
        connector.answer_max = Duration::from_millis(100);
        let refused = telemetry::with_causes(&connector.connect().await.unwrap_err());
        assert!(refused.contains("no answer within 100 ms; the server is busy, or a pooler before it"), "{refused}");
    }

    #[test]
    fn who_names_an_authority_has_the_server_prove_who_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let query = format!("sslmode=require&sslrootcert={}", path.display());
        std::fs::write(&path, "a letter").unwrap();
        let refused = options(&query).unwrap_err().to_string();
        assert!(refused.contains("ca.crt holds no certificate in PEM"), "{refused}");
        let authority = rcgen::generate_simple_self_signed(["db".to_owned()]).unwrap();
        std::fs::write(&path, authority.cert.pem()).unwrap();
        assert!(matches!(options(&query).unwrap().get_ssl_mode(), PgSslMode::VerifyCa));
        assert!(matches!(options("sslmode=require").unwrap().get_ssl_mode(), PgSslMode::Require));
    }
}
