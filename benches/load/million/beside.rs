//! Concurrent load during a rebalance: GETs, and a watch of everything.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;

use super::super::process::ServerProcess;
use super::super::setup::{ALL_BINDINGS, BINDINGS, body_of};

/// GETs at a steady pace, one after the other, on a separate connection.
pub struct Gets {
    is_over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Vec<Duration>>,
}

impl Gets {
    pub fn begin(client: Arc<Client>, bindings: usize) -> Gets {
        const PAUSE: Duration = Duration::from_millis(5);
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let task = tokio::spawn(async move {
            let mut took = Vec::new();
            while !ends.load(Ordering::Relaxed) || took.is_empty() {
                let number = took.len() * 7_919 % bindings;
                let begun = Instant::now();
                let path = format!("{BINDINGS}/web-{number}-deployment");
                body_of(&client, Method::GET, &path, None, Bytes::new()).await;
                took.push(begun.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
            took.sort_unstable();
            took
        });
        Gets { is_over, task }
    }

    pub async fn end(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await.expect("no GET fails")
    }
}

/// A watch by curl, because the program that counts events must use few resources.
pub struct Watch {
    curl: Child,
    counting: Child,
}

impl Watch {
    /// Starts a watch of the changes after a revision.
    pub fn begin(server: &ServerProcess, since: &str) -> Watch {
        let certs = server.database().parent().expect("a folder").join("certs");
        let mut curl = Command::new("curl")
            .args(["--silent", "--no-buffer", "--cacert"])
            .arg(certs.join("ca.crt"))
            .arg("--cert")
            .arg(certs.join("admin.crt"))
            .arg("--key")
            .arg(certs.join("admin.key"))
            .arg(format!("https://{}{ALL_BINDINGS}?watch=1&resourceVersion={since}", server.address))
            .stdout(Stdio::piped())
            .spawn()
            .expect("curl is there");
        let counting = Command::new("bash")
            .args(["-c", r#"tee >(grep --count --fixed-strings '"type":"ERROR"' >&2) | wc --lines"#])
            .stdin(curl.stdout.take().expect("piped"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash is there");
        Watch { curl, counting }
    }

    pub fn end(mut self) -> (String, String) {
        self.curl.kill().expect("it still runs");
        self.curl.wait().expect("it is our child");
        let counted = self.counting.wait_with_output().expect("it is our child");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        (text(counted.stdout), text(counted.stderr))
    }
}
