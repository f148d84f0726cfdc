//! A certificate, a token and a policy each fail once while clients write. No acknowledged write is
//! lost, and one log line reports each failure. `store::sqlite_file` and `cli::failing_disk` cover
//! the WAL and the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ballast::node::certs::Files;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::reload::replace;
use crate::process::ServerProcess;
use crate::support::aggregated::{CONFIG_MAP, config_map};
use crate::support::host::Host;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::pki::Ca;
use crate::support::raw::{Protocol, Raw};
use crate::support::wait_for;

const WRITERS: usize = 4;
const HEADERS: [(&str, &str); 2] = [("authorization", "Bearer writers"), ("content-type", "application/json")];
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic";
/// The minimum interval between log lines about rejected credentials.
const REPEATED_SECONDS: u64 = 10;

/// Clients that create objects one after the other, each over one connection.
struct Load {
    acknowledged: Arc<Mutex<Vec<String>>>,
    codes: Arc<Mutex<BTreeMap<u16, usize>>>,
    has_ended: Arc<AtomicBool>,
    writers: JoinSet<()>,
}

impl Load {
    async fn begin(client: &Raw) -> Load {
        let mut load = Load {
            acknowledged: Arc::default(),
            codes: Arc::default(),
            has_ended: Arc::default(),
            writers: JoinSet::new(),
        };
        for writer in 0..WRITERS {
            let connection = client.connect().await;
            let (acknowledged, codes) = (Arc::clone(&load.acknowledged), Arc::clone(&load.codes));
            let has_ended = Arc::clone(&load.has_ended);
            load.writers.spawn(async move {
                for number in 0.. {
                    let name = format!("r{writer}-{number}");
                    let body = rebalancer(&name).to_string();
                    let code = connection.send(Method::POST, REBALANCERS, &HEADERS, body).await.code.as_u16();
                    if code == 201 {
                        acknowledged.lock().unwrap().push(name);
                    }
                    *codes.lock().unwrap().entry(code).or_default() += 1;
                    if has_ended.load(SeqCst) {
                        return;
                    }
                }
            });
        }
        load
    }

    /// Waits for some more responses with this code.
    async fn answered(&self, code: u16) {
        let count = || self.codes.lock().unwrap().get(&code).copied().unwrap_or(0);
        let before = count();
        wait_for(&format!("answers with {code}"), async || (count() >= before + 2 * WRITERS).then_some(())).await;
    }

    async fn end(mut self) -> Vec<String> {
        self.has_ended.store(true, SeqCst);
        while let Some(ended) = self.writers.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut *self.acknowledged.lock().unwrap())
    }
}

/// Installs a serving certificate that expires in this year.
fn certify(ca: &Ca, folder: &Path, until: i32) {
    let made = tempfile::tempdir().unwrap();
    let (cert, key) = ca.server_with(made.path(), &["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 2, 1);
    });
    for (from, to) in [(key, "tls.key"), (cert, "tls.crt")] {
        replace(&folder.join(to), &std::fs::read_to_string(from).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_a_token_and_a_policy_that_fail_once_under_load_lose_nothing() {
    let (folder, host, ca) = (tempfile::tempdir().unwrap(), Host::start().await, Ca::new("serving"));
    let (proxy_ca, client_ca) = (Ca::new("front-proxy-ca"), Ca::new("kubernetes"));
    host.put(CONFIG_MAP, config_map(&client_ca.pem, &proxy_ca.pem));
    host.allow(|_| true);
    host.know_token("writers", json!({"username": "writer"}));
    let kubeconfig = folder.path().join("host.kubeconfig");
    host.write_kubeconfig(&kubeconfig);
    certify(&ca, folder.path(), 2100);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (config, cert, key) = (at("host.kubeconfig"), at("tls.crt"), at("tls.key"));
    let process = tokio::task::spawn_blocking({
        let place = folder.path().to_owned();
        move || {
            let flags = ["--kubeconfig", &config, "--tls-cert-file", &cert, "--tls-private-key-file", &key];
            let cached = ["--authentication-token-webhook-cache-ttl", "100ms"];
            ServerProcess::start(&place, &[&flags[..], &cached].concat())
        }
    });
    let process = process.await.unwrap();
    let mut files = Files::in_dir(&folder.path().join("certs"));
    files.ca_cert = folder.path().join("serving-ca.crt");
    std::fs::write(&files.ca_cert, &ca.pem).unwrap();
    let client = Raw::nobody(process.address, &files);
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines = |words: &str| log().lines().filter(|line| line.contains(words)).count();
    wait_for("readiness", async || (client.get("/readyz").await.code == 200).then_some(())).await;
    // Over HTTP/2, a rejected token would close the connection (AN11).
    let load = Load::begin(&client.clone().over(Protocol::Http1)).await;
    load.answered(201).await;

    certify(&ca, folder.path(), 2021);
    let expired = "the serving certificate has expired";
    wait_for(expired, async || (lines(expired) > 0).then_some(())).await;
    assert!(client.try_connect().await.unwrap_err().to_string().contains("expired"));
    load.answered(201).await;
    certify(&ca, folder.path(), 2100);
    wait_for("the good certificate", async || client.try_connect().await.ok()).await;
    assert_eq!(lines(expired), 1, "{}", log());

    let begun = Instant::now();
    host.forget_token("writers");
    load.answered(401).await;
    host.know_token("writers", json!({"username": "writer"}));
    load.answered(201).await;
    let unknown = "answered 401 Unauthorized: no user has this token";
    let most = 1 + usize::try_from(begun.elapsed().as_secs() / REPEATED_SECONDS).unwrap();
    assert!((1..=most).contains(&lines(unknown)), "{}", log());

    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "broken"}, "spec": spec});
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "nothing == 1"}]});
    let bound = json!({"policyName": "broken", "validationActions": ["Deny"]});
    host.put(&format!("{POLICIES}ybindings/broken"), object("ValidatingAdmissionPolicyBinding", bound));
    host.put(&format!("{POLICIES}ies/broken"), object("ValidatingAdmissionPolicy", spec));
    load.answered(422).await;
    host.remove(&format!("{POLICIES}ies/broken"));
    load.answered(201).await;
    assert_eq!(lines("a policy cannot be read"), 1, "{}", log());

    let acknowledged = load.end().await;
    let listed = client.send(Method::GET, REBALANCERS, &HEADERS, "").await.json();
    let listed = listed["items"].as_array().unwrap();
    let there: BTreeSet<&str> = listed.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|name| !there.contains(name.as_str())).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", acknowledged.len());
    assert!(process.terminate().success());
}
