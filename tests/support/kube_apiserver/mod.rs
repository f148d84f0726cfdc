//! A real kube-apiserver with its etcd, from the folder in `KUBEBUILDER_ASSETS` (created by
//! tests/host/build), and Ballast registered with it as in docs/install.md.

mod definitions;
mod line;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ballast::node::certs::Files;
use http::Method;
use rcgen::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use self::definitions::definitions;
use self::line::Line;
use crate::process::ServerProcess;
use crate::support::pki::Ca;
use crate::support::raw::{Protocol, Raw};
use crate::support::{aggregated, wait_within};

/// Attempts to find two free ports. Another process may take one first.
const STARTS_MAX: usize = 3;
/// The timeout for kube-apiserver to be ready, and to forward requests to Ballast. Version 1.20
/// merges all OpenAPI documents again for each registration, one after the other, which takes half
/// a minute on a busy processor.
const PATIENCE: Duration = Duration::from_secs(180);

/// A host cluster. Its processes end when it is dropped.
pub struct Cluster {
    pub folder: TempDir,
    pub address: SocketAddr,
    assets: PathBuf,
    ca: Ca,
    files: Files,
    /// The proxy in front of kube-apiserver, if it must restart.
    line: Option<Line>,
    /// The command line of kube-apiserver without its port.
    flags: Vec<String>,
    etcd: Process,
    server: Process,
}

/// The constant flags of kube-apiserver.
const FLAGS: [&str; 9] = [
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--authorization-mode=RBAC",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--service-account-issuer=https://localhost",
    "--disable-admission-plugins=ServiceAccount",
];

/// The user of a Ballast attached to this kube-apiserver.
pub const ATTACHED: &str = "system:serviceaccount:karmada-system:ballast";
/// A read-only user.
pub const READER: &str = "jane";

/// Only requests of these two are audited, watches as soon as they begin.
fn audit_policy() -> Value {
    json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [ATTACHED, READER]}, {"level": "None"}]})
}

struct Process(Child);

impl Process {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Their data is not kept.
        self.end();
    }
}

impl Cluster {
    /// Returns `None` and prints a line if the folder does not exist.
    pub async fn start() -> Option<Cluster> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let is_complete = |it: &PathBuf| it.join("kube-apiserver").is_file() && it.join("etcd").is_file();
        let Some(assets) = assets.filter(is_complete) else {
            crate::support::skipped(
                "KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd (tests/host/build)",
            );
            return None;
        };
        for _ in 1..STARTS_MAX {
            if let Some(cluster) = Cluster::try_start(&assets).await {
                return Some(cluster);
            }
        }
        Some(Cluster::try_start(&assets).await.expect("kube-apiserver starts; its log is in the folder"))
    }

    /// Returns `None` if one of the two processes ended at once.
    async fn try_start(assets: &Path) -> Option<Cluster> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (ca, proxy_ca) = (Ca::new("kubernetes"), Ca::new("front-proxy-ca"));
        std::fs::write(at("ca.crt"), &ca.pem).unwrap();
        std::fs::write(at("proxy-ca.crt"), &proxy_ca.pem).unwrap();
        let serving = ca.server(folder.path(), &["localhost", "127.0.0.1"]);
        let proxy = proxy_ca.client(folder.path(), aggregated::PROXY, &[], |_| {});
        let accounts = KeyPair::generate().unwrap();
        std::fs::write(at("accounts.key"), accounts.serialize_pem()).unwrap();
        std::fs::write(at("accounts.pub"), accounts.public_key_pem()).unwrap();
        let admin = ca.client(folder.path(), "admin", &["system:masters"], |_| {});
        let files =
            Files { ca_cert: at("ca.crt"), admin_cert: admin.0, admin_key: admin.1, ..Files::in_dir(folder.path()) };

        let [etcd, peers, secure] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{etcd}");
        let mut etcd = Command::new(assets.join("etcd"));
        etcd.arg("--data-dir").arg(at("etcd"));
        etcd.args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url]);
        etcd.args(["--listen-peer-urls", &format!("http://127.0.0.1:{peers}"), "--unsafe-no-fsync"]);
        std::fs::write(at("audit-policy.json"), audit_policy().to_string()).unwrap();
        let mut flags = Vec::new();
        for (flag, path) in [
            ("tls-cert-file", &serving.0),
            ("tls-private-key-file", &serving.1),
            ("client-ca-file", &at("ca.crt")),
            ("requestheader-client-ca-file", &at("proxy-ca.crt")),
            ("proxy-client-cert-file", &proxy.0),
            ("proxy-client-key-file", &proxy.1),
            ("service-account-key-file", &at("accounts.pub")),
            ("service-account-signing-key-file", &at("accounts.key")),
            ("audit-policy-file", &at("audit-policy.json")),
            ("audit-log-path", &at("kube-audit.log")),
        ] {
            flags.push(format!("--{flag}={}", path.display()));
        }
        flags.push(format!("--etcd-servers={etcd_url}"));
        flags.push(format!("--requestheader-allowed-names={}", aggregated::PROXY));
        flags.extend(FLAGS.map(str::to_owned));

        let etcd = spawn(etcd, &at("etcd.log"));
        let server = start_server(assets, &flags, secure, &at("kube-apiserver.log"));
        let address = SocketAddr::from(([127, 0, 0, 1], secure));
        let assets = assets.to_owned();
        let mut cluster = Cluster { address, assets, ca, files, line: None, flags, etcd, server, folder };
        cluster.is_up(address).await.then_some(cluster)
    }

    /// Waits until kube-apiserver is ready. Returns false if one of the processes has ended.
    async fn is_up(&mut self, address: SocketAddr) -> bool {
        let (server, etcd) = (&mut self.server, &mut self.etcd);
        let mut has_ended = || [&mut *server, &mut *etcd].iter_mut().any(|it| it.0.try_wait().unwrap().is_some());
        let probe = Raw::admin(address, &self.files);
        // Its own namespaces appear shortly after it is ready.
        wait_within(PATIENCE, "kube-apiserver", async || {
            if has_ended() {
                return Some(false);
            }
            probe.try_connect().await.ok()?;
            let reply = probe.send(Method::GET, "/readyz", &[], "").await;
            let system = probe.send(Method::GET, "/api/v1/namespaces/kube-system", &[], "").await;
            (reply.code == 200 && system.code == 200).then_some(true)
        })
        .await
    }

    /// Adds a proxy in front of kube-apiserver, so that it can restart without losing its address.
    /// Must be called first: kubeconfigs contain the address.
    pub async fn behind_a_line(mut self) -> Cluster {
        let line = Line::to(self.address).await;
        self.address = line.address;
        self.line = Some(line);
        self
    }

    /// Kills kube-apiserver with SIGKILL. Its stored state remains.
    pub fn kill_server(&mut self) {
        self.server.end();
    }

    /// Starts kube-apiserver again with its stored state. Requires the proxy.
    pub async fn start_server(&mut self) {
        for _ in 0..STARTS_MAX {
            let [secure, ..] = free_ports();
            self.server = start_server(&self.assets, &self.flags, secure, &self.folder.path().join("restarted.log"));
            let address = SocketAddr::from(([127, 0, 0, 1], secure));
            if self.is_up(address).await {
                return self.line.as_ref().expect("a line").lead_to(address);
            }
        }
        panic!("kube-apiserver does not start again; its log is in the folder");
    }

    /// Returns the requests of this user in kube-apiserver's audit log.
    pub fn audited(&self, user: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path().join("kube-audit.log")).unwrap_or_default();
        // The last line may be incomplete.
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["user"]["username"] == user).collect()
    }

    pub fn admin(&self) -> Raw {
        Raw::admin(self.address, &self.files).over(Protocol::Http1)
    }

    /// The path of a kubeconfig for a user of this name.
    pub fn kubeconfig(&self, name: &str, groups: &[&str]) -> PathBuf {
        let (cert, key) = self.ca.client(self.folder.path(), name, groups, |_| {});
        let user = json!({"client-certificate": cert, "client-key": key});
        self.write_kubeconfig(name, &user)
    }

    /// The path of a kubeconfig with a token of this ServiceAccount.
    pub async fn account_kubeconfig(&self, namespace: &str, name: &str) -> PathBuf {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).to_string();
        let headers = [("Content-Type", "application/json")];
        let token = self.admin().send(Method::POST, &path, &headers, request).await.json()["status"]["token"].clone();
        self.write_kubeconfig(name, &json!({"token": token}))
    }

    fn write_kubeconfig(&self, name: &str, user: &Value) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        let cluster =
            json!({"server": format!("https://{}", self.address), "certificate-authority": self.files.ca_cert});
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": cluster}], "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "user"}}]});
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Registers Ballast with the objects of `kubectl apply -k deploy/manifests`. The Service leads
    /// to a process of this test instead of the pod.
    pub async fn install_ballast(&self) -> ServerProcess {
        let folder = self.folder.path();
        let mut certs = Command::new(env!("CARGO_BIN_EXE_ballast"));
        certs.args(["certs", "--name", "ballast.ballast-system.svc", "--cert-dir"]).arg(folder.join("serving"));
        let made = certs.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let manifests = self.manifests();
        let runs_here = |it: &&Value| !matches!(it["kind"].as_str().unwrap(), "APIService" | "Service");
        self.apply(manifests.iter().filter(runs_here)).await;

        let kubeconfig = self.account_kubeconfig("ballast-system", "ballast").await;
        let serving = |name: &str| folder.join("serving").join(name).display().to_string();
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--tls-cert-file={}", serving("server.crt")),
            format!("--tls-private-key-file={}", serving("server.key")),
            format!("--audit-log-path={}", folder.join("audit.log").display()),
            "--leader-elect".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let ballast = ServerProcess::start(folder, &flags);
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "ballast", "namespace": "ballast-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let bundle = std::fs::read(folder.join("serving/ca.crt")).unwrap();
        let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bundle);
        let services = manifests.iter().filter(|it| it["kind"] == "APIService").map(|it| {
            let mut it = it.clone();
            it["spec"]["caBundle"] = bundle.as_str().into();
            it["spec"]["service"]["port"] = ballast.address.port().into();
            it
        });
        let services: Vec<Value> = std::iter::once(service).chain(services).collect();
        self.apply(services.iter()).await;
        for service in &services[1..] {
            self.until_available(service["metadata"]["name"].as_str().unwrap()).await;
        }
        ballast
    }

    pub async fn until_available(&self, service: &str) {
        wait_within(PATIENCE, &format!("{service} to be available"), async || {
            let condition = self.availability(service).await;
            // Requests are forwarded shortly after the APIService is available.
            let (version, group) = service.split_once('.').unwrap();
            let passed_on = self.admin().get(&format!("/apis/{group}/{version}")).await;
            (condition["reason"] == "Passed" && passed_on.code == 200).then_some(())
        })
        .await;
    }

    /// The status of an APIService.
    pub async fn availability(&self, service: &str) -> Value {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{service}");
        let found = self.admin().send(Method::GET, &path, &[], "").await.json();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == "Available").unwrap_or_default()
    }

    /// Returns the manifests of `kubectl kustomize`, without objects that older kube-apiservers do
    /// not know and no test needs.
    fn manifests(&self) -> Vec<Value> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/manifests");
        let made = self.kubectl_command().arg("kustomize").arg(root).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let text = String::from_utf8(made.stdout).unwrap();
        let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
        documents.filter(|it| it["kind"] != "PodDisruptionBudget").collect()
    }

    pub async fn apply(&self, objects: impl Iterator<Item = &Value>) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>()}).to_string();
        let path = self.folder.path().join("applied.json");
        std::fs::write(&path, list).unwrap();
        self.kubectl("admin", &["apply", "-f", path.to_str().unwrap()]);
    }

    fn kubectl_command(&self) -> Command {
        let own = self.assets.join("kubectl");
        let mut command = Command::new(if own.is_file() { own } else { PathBuf::from("kubectl") });
        command.arg("--cache-dir").arg(self.folder.path().join("cache")).stdin(Stdio::null());
        command
    }

    /// Runs kubectl as a user with a written kubeconfig, or as the administrator.
    pub fn try_kubectl(&self, user: &str, args: &[&str]) -> Output {
        let path = self.folder.path().join(format!("{user}.kubeconfig"));
        if user == "admin" && !path.exists() {
            self.kubeconfig("admin", &["system:masters"]);
        }
        self.kubectl_command().arg("--kubeconfig").arg(path).args(args).output().expect("kubectl is installed")
    }

    /// Runs kubectl, which must succeed, and returns its output.
    #[track_caller]
    pub fn kubectl(&self, user: &str, args: &[&str]) -> String {
        let output = self.try_kubectl(user, args);
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs kubectl, which must fail, and returns its errors.
    #[track_caller]
    pub fn kubectl_refused(&self, user: &str, args: &[&str]) -> String {
        let output = self.try_kubectl(user, args);
        assert!(!output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    /// The path of a file with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A serving certificate from the CA in `ca.crt` of the folder.
    pub fn serving_certificate(&self) -> (PathBuf, PathBuf) {
        self.ca.server(self.folder.path(), &["localhost", "127.0.0.1"])
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca.pem
    }
}

fn start_server(assets: &Path, flags: &[String], port: u16, log: &Path) -> Process {
    let mut command = Command::new(assets.join("kube-apiserver"));
    command.args(flags).arg(format!("--secure-port={port}"));
    spawn(command, log)
}

fn spawn(mut command: Command, log: &Path) -> Process {
    let log = std::fs::File::create(log).unwrap();
    let errors = log.try_clone().unwrap();
    Process(command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().expect("a binary that runs here"))
}

fn free_ports() -> [u16; 3] {
    // All are open at the same time, so that they differ.
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}
