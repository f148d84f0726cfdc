//! What admission policies of a host cluster cost a create: `cargo bench --bench policies`.
//!
//! Four servers behind a stand-in for a host cluster, in one process with their client. They have
//! no policy, one of ten validations about another kind, one of ten validations about the kind that
//! is created, and the same with a variable and a condition. Each turn creates bindings on one
//! after the other, one request at a time. So a figure is the time of a request, and the processor
//! time of the whole process for it.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use support::aggregated::Aggregated;
use support::objects::{BINDINGS, binding};
use support::raw::Connection;
use support::wait_for;

#[allow(dead_code)]
#[path = "../tests/support/mod.rs"]
mod support;

const TURNS: usize = 7;
const CREATES: usize = 2_000;
const HEADERS: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const POLICY_BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// What operators write: names, labels, numbers, lists, patterns.
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
    server: Aggregated,
    connection: Connection,
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
        let server = Aggregated::start().await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        server.host.put("/api/v1/namespaces/shop", namespace);
        let connection = server.proxy().connect().await;
        until(&connection, 201).await;
        if let Some(resources) = resources {
            make_policy(&server, &connection, resources, &more).await;
        }
        servers.push(Measured { name, server, connection, took: Vec::new(), cpu: Duration::ZERO });
    }
    for turn in 0..=TURNS {
        for measured in &mut servers {
            measured.turn(turn).await;
        }
    }
    let base = servers[0].mean();
    for mut measured in servers {
        let (mean, cpu) = (measured.mean(), measured.cpu.as_secs_f64() * 1e6 / (TURNS * CREATES) as f64);
        measured.took.sort_unstable();
        let at = |share: f64| measured.took[((measured.took.len() - 1) as f64 * share) as usize];
        eprintln!(
            "{}: mean {mean:.1} µs ({:+.1} µs), p50 {:.1?}, p99 {:.1?}, processor {cpu:.1} µs of client, server and host",
            measured.name,
            mean - base,
            at(0.5),
            at(0.99),
        );
        measured.server.stop().await;
    }
}

impl Measured {
    /// The first turn is for warming up.
    async fn turn(&mut self, turn: usize) {
        let before = cpu();
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
            self.cpu += cpu() - before;
        }
    }

    /// In microseconds.
    fn mean(&self) -> f64 {
        self.took.iter().sum::<Duration>().as_secs_f64() * 1e6 / self.took.len() as f64
    }
}

/// A binding that no scheduler handles.
fn object(name: &str) -> Value {
    let mut object = binding(name);
    object["spec"]["schedulerName"] = "another".into();
    object["spec"]["replicas"] = 2.into();
    object
}

/// Makes a policy, and waits until it is obeyed: one more validation refuses a name until it is
/// taken away.
async fn make_policy(server: &Aggregated, connection: &Connection, resources: &str, more: &Value) {
    let put = |resources: &str, validations: Vec<&str>| {
        let validations: Vec<Value> = validations.iter().map(|text| json!({"expression": text})).collect();
        let mut spec = json!({"validations": validations, "matchConstraints": {"resourceRules": [{
            "apiGroups": ["work.karmada.io", "cluster.karmada.io"], "apiVersions": ["*"], "operations": ["CREATE"],
            "resources": [resources]}]}});
        json_patch::merge(&mut spec, more);
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "bench"}, "spec": spec});
        server.host.put(&format!("{POLICIES}/bench"), policy);
    };
    let bound = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bench"}, "spec": {"policyName": "bench", "validationActions": ["Deny"]}});
    server.host.put(&format!("{POLICY_BINDINGS}/bench"), bound);
    put("resourcebindings", vec!["object.metadata.name != 'probe'"]);
    until(connection, 422).await;
    put(resources, VALIDATIONS.to_vec());
    until(connection, 201).await;
}

/// Creates in dry runs until the answer has this code.
async fn until(connection: &Connection, code: u16) {
    let dry_run = format!("{BINDINGS}?dryRun=All");
    wait_for("the answer", async || {
        let reply = connection.send(Method::POST, &dry_run, &HEADERS, object("probe").to_string()).await;
        (reply.code == code).then_some(())
    })
    .await;
}

/// The processor time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after = stat.rsplit_once(')').expect("a name").1;
    let ticks: u64 = after.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}
