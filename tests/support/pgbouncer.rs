//! A pgBouncer in front of a PostgreSQL server of the tests, as docs/install.md describes it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::postgres::{Cluster, KEEPER, other_user};
use super::skipped;

const PATIENCE: Duration = Duration::from_secs(30);
const PROGRAM: &str = "/usr/sbin/pgbouncer";

pub struct PgBouncer {
    port: u16,
    keeper: Child,
    _folder: tempfile::TempDir,
}

impl PgBouncer {
    /// Starts a pgBouncer for all databases of the server. `mode` determines how long a client
    /// keeps a connection. Returns `None` without pgBouncer.
    pub fn before(cluster: &Cluster, mode: &str) -> Option<PgBouncer> {
        if !Path::new(PROGRAM).is_file() {
            assert!(std::env::var_os("BALLAST_LONG").is_none(), "pgBouncer is missing: .ci/tools installs it");
            skipped("no pgBouncer here (/usr/sbin/pgbouncer)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let (users, settings) = (folder.path().join("users"), folder.path().join("pgbouncer.ini"));
        std::fs::write(&users, "\"ballast\" \"\"\n").unwrap();
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             auth_type = trust\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = 40\nunix_socket_dir =\n",
            cluster.port,
            users.display()
        );
        std::fs::write(&settings, text).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER]).arg(folder.path().join("log")).arg(PROGRAM).arg(&settings);
        if let Some((user, group)) = other_user() {
            for path in [folder.path(), &users, &settings] {
                std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
            }
            // It refuses to run as root.
            command.uid(user).gid(group);
        }
        let keeper = command.current_dir(folder.path()).stdin(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "pgBouncer does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(PgBouncer { port, keeper, _folder: folder })
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://ballast@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
