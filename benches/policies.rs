//! Measures the cost of a host cluster's admission policies for a create: `cargo bench --bench
//! policies`.
//!
//! Each server is a separate process behind a fake host cluster. The servers have no policy, one of
//! ten validations for another kind, one of ten validations for the created kind, and the same with
//! a variable and a condition. Each turn creates bindings on one after the other, one request at a
//! time. A figure is the time of a request, and the processor time of the server for it.
//! `BALLAST_PROGRAM` names another program than the one built with the bench.

use std::path::Path;
use std::time::{Duration, Instant};

use ballast::node::certs::Files;
use http::Method;
use serde_json::{Value, json};
use support::aggregated::{CONFIG_MAP, PROXY, config_map};
use support::host::Host;
use support::objects::{BINDINGS, binding};
use support::pki::Ca;
use support::raw::{Connection, Raw};
use support::wait_for;

#[path = "../tests/support/process.rs"]
#[allow(dead_code)]
mod process;
#[allow(dead_code)]
#[path = "../tests/support/mod.rs"]
mod support;

use process::ServerProcess;

const TURNS: usize = 7;
const CREATES: usize = 2_000;
const HEADERS: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const POLICY_BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// Typical validations: names, labels, numbers, lists, patterns.
const VALIDATIONS: [&str; 10] = [
    "object.metadata.name.size() < 200",
    "!has(object.metadata.labels) || object.metadata.labels.all(key, key.size() < 64)",
    "object.spec.replicas <= 100000",
    "object.spec.resource.kind in ['Deployment', 'StatefulSet', 'Job']",
    "object.spec.resource.name.matches('^[a-z0-9-]+$')",
    "!has(object.spec.clusters) || object.spec.clusters.all(c, c.replicas >= 0)",
    "request.operation != 'CREATE' || oldObject == null",
    "request.userInfo.groups.exists(g, g.startsWith('system:'))",
    "!has(object.spec.schedulerName) || object.spec.schedulerName != ''",
    "object.spec.resource.namespace == object.metadata.namespace",
];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

struct Measured {
    name: &'static str,
    host: Host,
    server: ServerProcess,
    connection: Connection,
    _folder: tempfile::TempDir,
    took: Vec<Duration>,
    cpu: Duration,
}

async fn run() {
    let mut servers = Vec::new();
    for (name, resources, more) in [
        ("no policy", None, json!({})),
        ("ten validations of another kind", Some("clusters"), json!({})),
        ("ten validations", Some("resourcebindings"), json!({})),
        (
            "ten validations, a variable and a condition",
            Some("resourcebindings"),
            json!({"variables": [{"name": "prod", "expression": "namespaceObject.metadata.name == 'prod'"}],
                "matchConditions": [{"name": "people", "expression": "!request.userInfo.username.startsWith('system:')"}]}),
        ),
    ] {
        let measured = Measured::start(name).await;
        until(&measured.connection, 201).await;
        if let Some(resources) = resources {
            make_policy(&measured, resources, &more).await;
        }
        servers.push(measured);
    }
    for turn in 0..=TURNS {
        for measured in &mut servers {
            measured.turn(turn).await;
        }
    }
    let (base, base_cpu) = (servers[0].mean(), servers[0].cpu_each());
    for mut measured in servers {
        let (mean, cpu) = (measured.mean(), measured.cpu_each());
        measured.took.sort_unstable();
        let at = |share: f64| measured.took[((measured.took.len() - 1) as f64 * share) as usize];
        eprintln!(
            "{}: mean {mean:.1} µs ({:+.1} µs), p50 {:.1?}, p99 {:.1?}, the server's processor time {cpu:.1} µs ({:+.1} µs)",
            measured.name,
            mean - base,
            at(0.5),
            at(0.99),
            cpu - base_cpu,
        );
        assert!(measured.server.terminate().success());
    }
}

impl Measured {
    async fn start(name: &'static str) -> Measured {
        let (folder, host) = (tempfile::tempdir().expect("a temporary folder"), Host::start().await);
        let (proxy_ca, client_ca) = (Ca::new("front-proxy-ca"), Ca::new("kubernetes"));
        host.put(CONFIG_MAP, config_map(&client_ca.pem, &proxy_ca.pem));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        host.put("/api/v1/namespaces/shop", namespace);
        let kubeconfig = folder.path().join("host.kubeconfig");
        host.write_kubeconfig(&kubeconfig);
        let place = folder.path().to_owned();
        let server = tokio::task::spawn_blocking(move || serve(&place, &kubeconfig)).await.expect("a server");
        let files = Files::in_dir(&folder.path().join("certs"));
        let (cert, key) = proxy_ca.client(folder.path(), PROXY, &[], |_| {});
        let connection = Raw::with_certificate(server.address, &files, &cert, &key).connect().await;
        Measured { name, host, server, connection, _folder: folder, took: Vec::new(), cpu: Duration::ZERO }
    }

    /// Measures one turn. The first one is a warm-up.
    async fn turn(&mut self, turn: usize) {
        let before = self.server.cpu();
        for number in 0..CREATES {
            let body = object(&format!("web-{turn}-{number}")).to_string();
            let sent = Instant::now();
            let reply = self.connection.send(Method::POST, BINDINGS, &HEADERS, body).await;
            let took = sent.elapsed();
            assert_eq!(reply.code, 201, "{}", reply.text());
            if turn > 0 {
                self.took.push(took);
            }
        }
        if turn > 0 {
            self.cpu += self.server.cpu() - before;
        }
    }

    /// Returns the mean time of a create in microseconds.
    fn mean(&self) -> f64 {
        self.took.iter().sum::<Duration>().as_secs_f64() * 1e6 / self.took.len() as f64
    }

    /// Returns the processor time of the server for a create, in microseconds.
    fn cpu_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (TURNS * CREATES) as f64
    }
}

/// Starts a server. The database is in memory, so that no disk is measured.
fn serve(folder: &Path, kubeconfig: &Path) -> ServerProcess {
    ServerProcess::start_on(folder, "memory:", &["--kubeconfig", kubeconfig.to_str().expect("a text")])
}

/// Returns a binding that no scheduler handles.
fn object(name: &str) -> Value {
    let mut object = binding(name);
    object["spec"]["schedulerName"] = "another".into();
    object["spec"]["replicas"] = 2.into();
    object
}

/// Creates a policy, and waits until it is in effect: an additional validation rejects a name until
/// it is removed.
async fn make_policy(measured: &Measured, resources: &str, more: &Value) {
    let (host, connection) = (&measured.host, &measured.connection);
    let put = |resources: &str, validations: Vec<&str>| {
        let validations: Vec<Value> = validations.iter().map(|text| json!({"expression": text})).collect();
        let mut spec = json!({"validations": validations, "matchConstraints": {"resourceRules": [{
            "apiGroups": ["work.karmada.io", "cluster.karmada.io"], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": [resources]}]}});
        json_patch::merge(&mut spec, more);
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "bench"}, "spec": spec});
        host.put(&format!("{POLICIES}/bench"), policy);
    };
    let bound = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bench"}, "spec": {"policyName": "bench", "validationActions": ["Deny"]}});
    host.put(&format!("{POLICY_BINDINGS}/bench"), bound);
    put("resourcebindings", vec!["object.metadata.name != 'probe'"]);
    until(connection, 422).await;
    put(resources, VALIDATIONS.to_vec());
    until(connection, 201).await;
}

/// Creates in dry runs until the response has this code.
async fn until(connection: &Connection, code: u16) {
    let dry_run = format!("{BINDINGS}?dryRun=All");
    wait_for("the answer", async || {
        let reply = connection.send(Method::POST, &dry_run, &HEADERS, object("probe").to_string()).await;
        (reply.code == code).then_some(())
    })
    .await;
}
