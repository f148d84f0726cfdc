//! The processes, and connections to them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast::cli::client::{Client, Credentials};
use ballast::node::certs::Files;
use sqlx::{Connection, PgConnection, Row};

use crate::process::ServerProcess;
use crate::support::postgres::Cluster;
use crate::support::wait_for;

pub const LEASE: Duration = Duration::from_secs(1);
/// The timeout of a connection. A killed replica refuses at once.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The current addresses of the replicas, shared by clients.
pub struct Doors {
    certs: Files,
    addresses: Mutex<Vec<Option<SocketAddr>>>,
}

impl Doors {
    pub fn count(&self) -> usize {
        self.addresses.lock().unwrap().len()
    }

    pub fn address(&self, seat: usize) -> Option<SocketAddr> {
        self.addresses.lock().unwrap()[seat]
    }

    /// Returns a new connection; `None` if that replica is down.
    pub async fn enter(&self, seat: usize) -> Option<Client> {
        let address = self.address(seat)?;
        let (ca, certificate, key) = (&self.certs.ca_cert, &self.certs.admin_cert, &self.certs.admin_key);
        let credentials = Credentials { ca, certificate, key };
        tokio::time::timeout(CONNECT_MAX, Client::connect(address, &credentials)).await.ok()?.ok()
    }

    fn set(&self, seat: usize, address: Option<SocketAddr>) {
        self.addresses.lock().unwrap()[seat] = address;
    }
}

pub struct Fleet {
    home: tempfile::TempDir,
    url: String,
    flags: &'static [&'static str],
    seats: Vec<Option<ServerProcess>>,
    pub doors: Arc<Doors>,
    /// The server of the database, if it is shared with other tests.
    _cluster: Option<Arc<Cluster>>,
}

impl Fleet {
    /// Returns `None` without PostgreSQL.
    pub async fn start(count: usize) -> Option<Fleet> {
        let cluster = Cluster::shared()?;
        let url = cluster.schema().await;
        Some(Fleet { _cluster: Some(cluster), ..Fleet::over(url, count, &[]) })
    }

    /// Processes over this database, with more flags.
    pub fn over(url: String, count: usize, flags: &'static [&'static str]) -> Fleet {
        let home = tempfile::tempdir().unwrap();
        let certs = Files::in_dir(&home.path().join("certs"));
        let doors = Arc::new(Doors { certs, addresses: Mutex::new(vec![None; count]) });
        let mut fleet = Fleet { home, url, flags, seats: Vec::new(), doors, _cluster: None };
        for seat in 0..count {
            fleet.seats.push(None);
            fleet.restart(seat);
        }
        fleet
    }

    /// Starts a process at a seat that is free. Blocks until it is ready.
    pub fn restart(&mut self, seat: usize) {
        let lease = LEASE.as_secs().to_string();
        let flags = [&["--leader-lease-seconds", &lease], self.flags].concat();
        let process = ServerProcess::start_on(self.home(), &self.url, &flags);
        self.doors.set(seat, Some(process.address));
        self.seats[seat] = Some(process);
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self, seat: usize) {
        let process = self.seats[seat].take().expect("it runs");
        process.kill();
        self.doors.set(seat, None);
    }

    pub fn process(&self, seat: usize) -> &ServerProcess {
        self.seats[seat].as_ref().expect("it runs")
    }

    /// Sends SIGTERM to the process at a seat. The others can observe its departure afterwards.
    pub fn terminate(&mut self, seat: usize) {
        let process = self.seats[seat].take().expect("it runs");
        assert!(process.terminate().success(), "SIGTERM ends in exit status 0");
        self.doors.set(seat, None);
    }

    /// Returns the logs of the processes.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.home().join("log")).unwrap()
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    pub async fn database(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// Waits until one of the running processes leads. Returns its seat and its term.
    pub async fn leader(&self) -> (usize, i64) {
        let mut database = self.database().await;
        let ask = async || {
            let sql = "SELECT address, term FROM head WHERE holder <> '' AND expires > now()";
            let row = sqlx::query(sql).fetch_optional(&mut database).await.unwrap()?;
            let (address, term): (String, i64) = (row.get(0), row.get(1));
            let seat = (0..self.seats.len())
                .find(|seat| self.doors.address(*seat).map(|it| it.to_string()) == Some(address.clone()));
            seat.map(|seat| (seat, term))
        };
        wait_for("a leader", ask).await
    }
}
