//! `ballast ui`: the page, the API through its proxy, and requests that the proxy rejects.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN};
use crate::support::objects;
use crate::support::wait_for;

/// A running `ballast ui`.
pub struct Ui {
    process: Child,
    pub address: String,
    secret: String,
}

impl Ui {
    /// Blocks until the page is served.
    pub fn start(kubeconfig: &Path) -> Ui {
        Ui::start_with(kubeconfig, |_| {})
    }

    fn start_with(kubeconfig: &Path, shape: impl FnOnce(&mut Command)) -> Ui {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
        command.args(["ui", "--kubeconfig"]).arg(kubeconfig).stdout(Stdio::piped());
        shape(&mut command);
        let mut process = command.spawn().expect("the built binary starts");
        let mut told = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut told).expect("it is text");
        let entrance = told.trim().rsplit_once("http://").expect("the line names the address").1;
        let (address, secret) = entrance.split_once("/enter/").expect("the address has the secret");
        Ui { process, address: address.to_owned(), secret: secret.to_owned() }
    }

    /// The header line with the secret of this run.
    pub fn credential(&self) -> String {
        format!("X-Ballast-Ui-Secret: {}", self.secret)
    }

    pub fn open(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        stream
    }

    /// Returns the whole response to a request with these header lines.
    fn get(&self, path: &str, headers: &[&str]) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{}", headers.join("\r\n"));
        let mut answer = String::new();
        self.open(&head).read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}

fn body(answer: &str) -> Value {
    let start = answer.find('{').unwrap_or_else(|| panic!("no JSON: {answer}"));
    let end = answer.rfind('}').unwrap();
    serde_json::from_str(&answer[start..=end]).unwrap_or_else(|_| panic!("no JSON: {answer}"))
}

#[tokio::test]
async fn the_page_reaches_the_api_and_nobody_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let ui = Ui::start(&folder.path().join("certs/admin.kubeconfig"));
    let (host, secret) = (format!("Host: {}", ui.address), ui.credential());

    let entered = ui.get(&format!("/enter/{}", ui.secret), &[&host]);
    assert!(entered.starts_with("HTTP/1.1 200") && !entered.contains("set-cookie"), "{entered}");
    let leads_on = format!("content=\"0; url=/ui/#enter={}\"", ui.secret);
    assert!(entered.contains(&leads_on) && entered.contains("referrer-policy: no-referrer"), "{entered}");
    let page = ui.get("/ui/", &[&host]);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy"), "{page}");
    let version = ui.get("/version", &[&host, &secret]);
    assert!(version.contains("ballast-"), "{version}");

    let surroundings = ui.get("/ui/surroundings.json", &[&host, &secret]);
    assert!(surroundings.contains("\"through\":\"proxy\""), "{surroundings}");

    // A browser sends a cookie to the servers on all ports of the address, regardless of their
    // users.
    let port = ui.address.rsplit(':').next().unwrap();
    let cookie = format!("Cookie: ballast-ui-{port}={}", ui.secret);
    for (reason, path, headers) in [
        ("ForeignHost", "/version", ["Host: evil.example", &secret, "X: y"]),
        ("ForeignOrigin", "/version", [&host, &secret, "Origin: http://evil.example"]),
        ("ForeignOrigin", "/version", [&host, &secret, "Sec-Fetch-Site: cross-site"]),
        ("NoSecret", "/version", [&host, &cookie, "X: y"]),
        ("NoSecret", "/version", [&host, "X-Ballast-Ui-Secret: x", "X: y"]),
        ("NoSecret", "/ui/surroundings.json", [&host, &cookie, "X: y"]),
        ("NoSecret", "/enter/guessed", [&host, "X: y", "Z: y"]),
        ("OutsideApi", "/certs/ca.key", [&host, &secret, "X: y"]),
        ("OutsideApi", "/apis/%2e%2e/metrics", [&host, &secret, "X: y"]),
    ] {
        let answer = ui.get(path, &headers);
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
        assert_eq!(body(&answer)["reason"], reason, "{path}");
    }
    server.terminate();
    let away = ui.get("/version", &[&host, &secret]);
    assert_eq!((body(&away)["code"].clone(), body(&away)["reason"].clone()), (json!(502), json!("ServerUnreachable")));
}

/// The arguments of a program are visible to all users of the machine.
#[tokio::test]
async fn wh4_open_gives_the_browser_a_file_that_leads_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    // A fake of the desktop's program, which records its arguments.
    let (programs, noted) = (folder.path().join("bin"), folder.path().join("noted"));
    std::fs::create_dir(&programs).unwrap();
    let opener = programs.join(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    std::fs::write(&opener, format!("#!/bin/sh\necho \"$#\" \"$1\" > {0}.new; mv {0}.new {0}\n", noted.display()))
        .unwrap();
    std::fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let ui = Ui::start_with(&folder.path().join("certs/admin.kubeconfig"), |command| {
        command.arg("--open").env("PATH", path).env("TMPDIR", folder.path());
    });
    let got = wait_for("the browser", async || std::fs::read_to_string(&noted).ok()).await;
    let file = got.trim().strip_prefix("1 ").expect("one argument");
    assert!(!file.contains(&ui.secret) && file.ends_with(".html"), "{file}");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(file).unwrap();
    let entrance = format!("/enter/{}", ui.secret);
    assert!(page.contains(&format!("content=\"0; url=http://{}{entrance}\"", ui.address)), "{page}");

    // A browser that follows it reports another site.
    let (host, elsewhere) = (format!("Host: {}", ui.address), "Sec-Fetch-Site: cross-site");
    let entered = ui.get(&entrance, &[&host, elsewhere, "Sec-Fetch-Mode: navigate"]);
    assert!(entered.starts_with("HTTP/1.1 200") && entered.contains(&format!("#enter={}", ui.secret)), "{entered}");
    let fetched = ui.get(&entrance, &[&host, elsewhere, "Sec-Fetch-Mode: no-cors"]);
    assert_eq!(body(&fetched)["reason"], "ForeignOrigin");
    let linked = ui.get("/ui/", &[&host, elsewhere, "Sec-Fetch-Mode: navigate"]);
    assert!(linked.starts_with("HTTP/1.1 403"), "{linked}");
    server.terminate();
}

#[tokio::test]
async fn a_watch_goes_through_as_it_happens() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let ui = Ui::start(&folder.path().join("certs/admin.kubeconfig"));
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let watch = ui.open(&format!(
        "GET {path}?watch=1 HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\n{1}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ui.address,
        // A page can set no other header of a WebSocket.
        format_args!("Sec-WebSocket-Protocol: ballast-ui, ballast-ui.{}", ui.secret)
    ));
    let mut watch = BufReader::new(watch);
    let mut line = String::new();
    watch.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 101"), "{line}");
    let cluster = objects::cluster("member1");
    server.client().await.post(path, &cluster).await.unwrap();
    // The response is in frames: a frame header precedes the event.
    let mut bytes = Vec::new();
    while !bytes.windows(14).any(|seen| seen == b"\"type\":\"ADDED\"") {
        bytes.clear();
        assert!(watch.read_until(b'\n', &mut bytes).unwrap() > 0, "the watch ended");
    }
    assert!(String::from_utf8_lossy(&bytes).contains("member1"));
    server.terminate();
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_ballast"))
            .arg("ui")
            .args(words)
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, told) = run(&["--kubeconfig", "missing"]);
    assert!(code == Some(2) && told.contains("missing"), "{code:?} {told}");
    let (code, told) = run(&[]);
    assert!(code == Some(2) && told.contains("--kubeconfig"), "{code:?} {told}");
}
