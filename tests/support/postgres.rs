//! A PostgreSQL server for the tests, if its programs are found: in `PG_BIN`, in the output of
//! `pg_config --bindir`, or in Debian's folders. Otherwise its tests are reported as skipped, and
//! with `BALLAST_LONG` (as `.ci/run` sets it) they fail.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// The timeout for the server to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Cluster {
    folder: tempfile::TempDir,
    programs: PathBuf,
    settings: Vec<String>,
    /// The folder of the write-ahead log, if it is separate from the tables.
    wal: Option<tempfile::TempDir>,
    pub port: u16,
    schemas: AtomicUsize,
    server: Mutex<Option<Child>>,
}

/// A script for `sh -c` that starts a server and logs to `$0`: the shell stops the server when this
/// process ends, however it ends.
pub const KEEPER: &str = "\"$@\" </dev/null >>\"$0\" 2>&1 & read -r _; kill -INT $!; wait $!";

/// The server that tests share as long as one of them runs.
static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

impl Cluster {
    /// Returns `None` without PostgreSQL.
    pub fn shared() -> Option<Arc<Cluster>> {
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(cluster) = shared.upgrade() {
            return Some(cluster);
        }
        let cluster = Arc::new(Cluster::start()?);
        *shared = Arc::downgrade(&cluster);
        Some(cluster)
    }

    /// Returns a server that no other test uses; `None` without PostgreSQL.
    pub fn start() -> Option<Cluster> {
        Cluster::start_with(&["fsync=off"])
    }

    /// Like the above, with these settings (`name=value`).
    pub fn start_with(settings: &[&str]) -> Option<Cluster> {
        let cluster = Cluster::new(tempfile::tempdir().unwrap(), settings)?;
        cluster.make(&[]);
        cluster.resume();
        Some(cluster)
    }

    /// Starts a server with its tables in a folder at this path, and its write-ahead log elsewhere.
    pub fn start_on_disk(place: &Path) -> Option<Cluster> {
        let mut cluster = Cluster::new(tempfile::tempdir_in(place).unwrap(), &["fsync=off", "max_wal_size=64MB"])?;
        let wal = tempfile::tempdir().unwrap();
        let waldir = format!("--waldir={}", wal.path().display());
        cluster.wal = Some(wal);
        cluster.make(&[&waldir]);
        cluster.resume();
        Some(cluster)
    }

    /// Starts a standby of this server, on which every commit here waits from now on. `promote`
    /// makes it an independent server.
    pub async fn standby(&self) -> Cluster {
        const NAME: &str = "second";
        let standby = Cluster::new(tempfile::tempdir().unwrap(), &["fsync=off"]).expect("it was found before");
        let primary = format!("host=127.0.0.1 port={} user=ballast application_name={NAME}", self.port);
        let copied = standby
            .command("pg_basebackup")
            .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--dbname"])
            .arg(primary)
            .arg("--pgdata")
            .arg(standby.data())
            .output()
            .unwrap();
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        standby.resume();
        self.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")).await;
        self.run("SELECT pg_reload_conf()").await;
        self.becomes("EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").await;
        standby
    }

    /// Makes this standby lag: the primary no longer waits for it, and it receives nothing.
    pub async fn falls_behind(&self, primary: &Cluster) {
        primary.run("ALTER SYSTEM SET synchronous_standby_names = ''").await;
        primary.run("SELECT pg_reload_conf()").await;
        primary.becomes("NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").await;
        self.run("ALTER SYSTEM SET primary_conninfo = ''").await;
        self.run("SELECT pg_reload_conf()").await;
        primary.becomes("NOT EXISTS (SELECT FROM pg_stat_replication)").await;
    }

    /// Makes a standby the primary, and returns when it accepts writes.
    pub async fn promote(&self) {
        self.run("SELECT pg_promote()").await;
        self.becomes("NOT pg_is_in_recovery()").await;
    }

    /// Kills the server: nothing is flushed, and nothing is sent to a standby.
    pub fn crash(&self) {
        let ended =
            self.command("pg_ctl").args(["stop", "--mode=immediate", "--pgdata"]).arg(self.data()).output().unwrap();
        assert!(ended.status.success(), "pg_ctl: {}", String::from_utf8_lossy(&ended.stderr));
        self.pause();
    }

    fn new(folder: tempfile::TempDir, settings: &[&str]) -> Option<Cluster> {
        let Some(programs) = programs() else {
            missing();
            return None;
        };
        if let Some((user, group)) = other_user() {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        Some(Cluster {
            folder,
            programs,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            wal: None,
            port: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port(),
            schemas: AtomicUsize::new(0),
            server: Mutex::new(None),
        })
    }

    /// Starts a server that accepts only connections over TCP with TLS and a password, except from
    /// the administrator. Its certificate and key are these files.
    pub fn start_guarded(certificate: &Path, key: &Path) -> Option<Cluster> {
        let cluster = Cluster::start()?;
        cluster.pause();
        let data = cluster.data();
        for (from, to) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = data.join(to);
            std::fs::copy(from, &to).unwrap();
            std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            if let Some((user, group)) = other_user() {
                std::os::unix::fs::chown(&to, Some(user), Some(group)).unwrap();
            }
        }
        let add = |file: &str, text: &str| {
            let path = data.join(file);
            let there = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, format!("{text}\n{there}")).unwrap();
        };
        add("postgresql.conf", "ssl = on");
        add("pg_hba.conf", "host all ballast 127.0.0.1/32 trust\nhostssl all guarded 127.0.0.1/32 scram-sha-256");
        cluster.resume();
        Some(cluster)
    }

    fn make(&self, more: &[&str]) {
        let made = self
            .command("initdb")
            .args(["--username=ballast", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"])
            .args(more)
            .arg("--pgdata")
            .arg(self.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the URL of a schema that no other test uses.
    pub async fn schema(&self) -> String {
        let name = format!("test{}", self.schemas.fetch_add(1, Ordering::SeqCst));
        self.run(&format!("CREATE SCHEMA {name}")).await;
        format!("{}?options=-csearch_path%3D{name}", self.url())
    }

    pub fn url(&self) -> String {
        format!("postgres://ballast@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs statements as the administrator.
    pub async fn run(&self, script: &str) {
        use sqlx::{AssertSqlSafe, Connection};
        let mut connection = sqlx::PgConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Waits until all connections have ended, and their activity is in the server's statistics.
    pub async fn is_left_alone(&self) {
        let others = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.becomes(&format!("NOT EXISTS ({others})")).await;
    }

    /// Waits until a condition holds for the server.
    async fn becomes(&self, condition: &str) {
        use sqlx::{AssertSqlSafe, Connection};
        let mut connection = sqlx::PgConnection::connect(&self.url()).await.unwrap();
        let (sql, deadline) = (format!("SELECT {condition}"), Instant::now() + PATIENCE);
        while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(sql.clone())).fetch_one(&mut connection).await.unwrap() {
            assert!(Instant::now() < deadline, "waited in vain for {condition}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts the server, and waits until it takes connections.
    pub fn resume(&self) {
        let mut command = self.as_other_user("sh");
        command.args(["-c", KEEPER]).arg(self.folder.path().join("log")).arg(self.programs.join("postgres"));
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        let common = ["listen_addresses=127.0.0.1", "max_connections=200"];
        for setting in common.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        let server = command.arg("-p").arg(self.port.to_string()).stdin(Stdio::piped()).spawn().unwrap();
        *self.server.lock().unwrap() = Some(server);
        let deadline = Instant::now() + PATIENCE;
        let asked = || {
            let port = self.port.to_string();
            self.command("pg_isready").args(["-q", "-h", "127.0.0.1", "-p", &port]).status().unwrap()
        };
        while !asked().success() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "PostgreSQL does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server and cuts all connections.
    pub fn pause(&self) {
        let server = self.server.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(mut keeper) = server {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }

    fn command(&self, program: &str) -> Command {
        self.as_other_user(self.programs.join(program))
    }

    /// PostgreSQL refuses to run as root.
    fn as_other_user(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        if let Some((user, group)) = other_user() {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.pause();
    }
}

/// Reports a test that needs PostgreSQL as skipped. In CI it fails.
pub fn missing() {
    assert!(std::env::var_os("BALLAST_LONG").is_none(), "PostgreSQL is missing: .ci/tools installs it");
    super::skipped("no PostgreSQL here (PG_BIN, pg_config, /usr/lib/postgresql/*/bin)");
}

/// Returns the user and the group to run as, if this process runs as root.
pub fn other_user() -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody"))
}

pub fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("PG_BIN").map(PathBuf::from);
    let configured = Command::new("pg_config").arg("--bindir").output().ok();
    let configured = configured.map(|told| PathBuf::from(String::from_utf8_lossy(&told.stdout).trim()));
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.filter_map(|version| Some(version.ok()?.path().join("bin"))).collect())
        .unwrap_or_default();
    debian.sort();
    let is_whole = |folder: &Path| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).is_file());
    named.into_iter().chain(configured).chain(debian.into_iter().rev()).find(|folder| is_whole(folder))
}
