//! `ballast serve` as a separate process, which a test may kill.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use ballast::cli::client::{Client, Credentials};
use serde_json::Value;

/// The timeout for a state. The machine may be busy.
pub const WITHIN: Duration = Duration::from_secs(60);

pub struct ServerProcess {
    process: Child,
    folder: PathBuf,
    pub address: SocketAddr,
}

/// Signals that a process cannot handle.
#[derive(Clone, Copy)]
pub enum Signal {
    Stop,
    Continue,
}

impl ServerProcess {
    /// Starts the built binary on a free port, with its database and certificates in `folder`.
    /// Returns when it has printed its address: with the ready line, or after two seconds without.
    pub fn start(folder: &Path, flags: &[&str]) -> ServerProcess {
        let database = format!("sqlite://{}", folder.join("ballast.db").display());
        ServerProcess::start_on(folder, &database, flags)
    }

    /// Like `start`, over a database that several processes may share. They also share the
    /// certificates in `folder`, so the first must be ready before the second starts.
    pub fn start_on(folder: &Path, database: &str, flags: &[&str]) -> ServerProcess {
        ServerProcess::started(Command::new(program()), folder, database, &folder.join("certs"), flags)
    }

    /// Like `start`, with a limit of open files.
    pub fn start_with_files(folder: &Path, files: usize, flags: &[&str]) -> ServerProcess {
        let database = format!("sqlite://{}", folder.join("ballast.db").display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]).arg(program());
        ServerProcess::started(shell, folder, &database, &folder.join("certs"), flags)
    }

    /// Like `start`, but writes above the file size limit fail without ending the process.
    pub fn start_with_failing_files(folder: &Path) -> ServerProcess {
        let database = format!("sqlite://{}", folder.join("ballast.db").display());
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ && exec \"$0\" \"$@\""]).arg(program());
        ServerProcess::started(shell, folder, &database, &folder.join("certs"), &[])
    }

    /// Like `start`, with another folder of certificates.
    pub fn start_with_certs(folder: &Path, certs: &Path, flags: &[&str]) -> ServerProcess {
        let database = format!("sqlite://{}", folder.join("ballast.db").display());
        ServerProcess::started(Command::new(program()), folder, &database, certs, flags)
    }

    fn started(mut command: Command, folder: &Path, database: &str, certs: &Path, flags: &[&str]) -> ServerProcess {
        let log = OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("the folder is ours");
        let mut process = command
            .args(["serve", "--secure-port", "0"])
            .args(["--database-url", database])
            .arg("--cert-dir")
            .arg(certs)
            .args(flags)
            .stdout(Stdio::piped())
            // A file, so that the test's own output stays readable.
            .stderr(log)
            .spawn()
            .expect("the built binary starts");
        let mut first = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut first).expect("standard output is text");
        let url = first.split_whitespace().find_map(|word| word.strip_prefix("https://"));
        let url = url.unwrap_or_else(|| {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            panic!("the first line names the URL: {first:?}; {}", log.lines().last().unwrap_or_default())
        });
        let address = url.parse().expect("an address");
        ServerProcess { process, folder: folder.to_owned(), address }
    }

    /// Connects as the admin of the development certificates.
    pub async fn client(&self) -> Client {
        let file = |name: &str| self.folder.join("certs").join(name);
        let (ca, certificate, key) = (file("ca.crt"), file("admin.crt"), file("admin.key"));
        let credentials = Credentials { ca: &ca, certificate: &certificate, key: &key };
        Client::connect(self.address, &credentials).await.expect("the server lets its admin in")
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn database(&self) -> PathBuf {
        self.folder.join("ballast.db")
    }

    /// Sends SIGKILL: no handler runs, nothing is flushed.
    pub fn kill(mut self) {
        self.process.kill().expect("it was running");
        self.process.wait().expect("it is our child");
    }

    /// Sends SIGTERM, waits for the end, and returns the exit status.
    pub fn terminate(mut self) -> ExitStatus {
        self.ask_to_end();
        self.process.wait().expect("it is our child")
    }

    /// Sends SIGTERM without waiting for the end.
    pub fn ask_to_end(&self) {
        let asked = Command::new("kill").arg("-TERM").arg(self.process.id().to_string()).status();
        assert!(asked.expect("kill is there").success());
    }

    /// Sends SIGSTOP or SIGCONT.
    pub fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        let told = Command::new("kill").arg(name).arg(self.process.id().to_string()).status();
        assert!(told.expect("kill is there").success());
    }

    /// Waits until the process ends.
    pub fn wait(mut self) -> ExitStatus {
        self.process.wait().expect("it is our child")
    }

    /// Returns a line of the kernel's status of the process, such as `THP_enabled`.
    pub fn kernel_says(&self, name: &str) -> Option<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux");
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    }

    /// Returns a variable of the initial environment of the process.
    pub fn variable(&self, name: &str) -> Option<String> {
        let all = std::fs::read(format!("/proc/{}/environ", self.process.id())).expect("Linux");
        let all = String::from_utf8_lossy(&all);
        all.split('\0').find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    }

    /// The resident set, in bytes.
    pub fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is there");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number") * 1024
    }

    /// The user and system time so far.
    pub fn cpu(&self) -> Duration {
        cpu_of(&self.process.id().to_string())
    }
}

/// The program that was built with the tests, unless a bench measures another one.
pub fn program() -> OsString {
    std::env::var_os("BALLAST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_ballast").into())
}

/// The user and system time of a process or of `thread-self`, with a resolution of 10 ms.
pub fn cpu_of(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux");
    let after_name = stat.rsplit_once(')').expect("the name is in brackets").1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process still runs if the test has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until an object at `path` satisfies `wanted`, and returns it.
pub async fn wait(client: &Client, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    let watch = client.watch(path, |event| {
        found = event["object"].clone();
        wanted(&found)
    });
    let seen = tokio::time::timeout(WITHIN, watch).await;
    assert!(matches!(seen, Ok(Ok(true))), "{path}: {seen:?}");
    found
}
