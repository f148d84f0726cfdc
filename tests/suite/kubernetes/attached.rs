//! Ballast attached to a Karmada with a real kube-apiserver as its API server: its kinds are
//! CustomResourceDefinitions, and a driver simulates Karmada's controllers.
//!
//! `ballast serve --attach` is a separate process, with only the rights of deploy/beside-karmada.
//! The audit log of kube-apiserver contains its requests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ballast::clock::{Clock, SystemClock};
use ballast::k8s::Time;
use ballast::node::certs::Files;
use ballast::node::kubeconfig::KubeconfigArgs;
use futures_util::{StreamExt, TryStreamExt};
use http::Method;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::kube_apiserver::{ATTACHED, Cluster, READER, definitions};
use crate::process::ServerProcess;
use crate::support::objects::{self, ALL_BINDINGS, BINDINGS, CLUSTERS, TASKS, task};
use crate::support::raw::Raw;
use crate::support::wait_for;

const MERGE_PATCH: &str = "application/merge-patch+json";
const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/ballast:attached";
/// Bindings of the first round. Each is placed on two clusters.
const MANY: usize = 24;

/// A kube-apiserver with Karmada's kinds, two clusters, and the driver.
struct Karmada {
    cluster: Cluster,
    _driver: AbortOnDropHandle<()>,
}

impl Karmada {
    async fn start() -> Option<Karmada> {
        let cluster = Cluster::start().await?.behind_a_line().await;
        let definitions = definitions();
        cluster.apply(definitions.iter()).await;
        let namespaces = ["karmada-system", "shop"].map(namespace);
        cluster.apply(namespaces.iter()).await;
        serves_kinds(&cluster).await;
        let driver = AbortOnDropHandle::new(tokio::spawn(drive(cluster.kubeconfig("driver", &["system:masters"]))));
        let karmada = Karmada { cluster, _driver: driver };
        for name in ["m1", "m2"] {
            karmada.give_cluster(name).await;
        }
        Some(karmada)
    }

    async fn get(&self, path: &str) -> Value {
        self.cluster.admin().get(path).await.json()
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let json = [("content-type", "application/json")];
        let reply = self.cluster.admin().send(Method::POST, path, &json, object.to_string()).await;
        assert_eq!(reply.code, 201, "{}", reply.text());
        reply.json()
    }

    async fn patch(&self, path: &str, change: &Value) -> Value {
        let merge = [("content-type", MERGE_PATCH)];
        let reply = self.cluster.admin().send(Method::PATCH, path, &merge, change.to_string()).await;
        assert_eq!(reply.code, 200, "{}", reply.text());
        reply.json()
    }

    /// Returns a cluster with capacity for 24 pods of one core.
    async fn give_cluster(&self, name: &str) {
        let cluster = objects::cluster(name);
        self.create(CLUSTERS, &cluster).await;
        let status = json!({"status": {
            "kubernetesVersion": "v1.36.2",
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "ready",
                "lastTransitionTime": "2024-04-17T15:00:00Z"}],
            "resourceSummary": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "220"}},
        }});
        self.patch(&format!("{CLUSTERS}/{name}/status"), &status).await;
    }

    /// Waits until each of these bindings is placed, with an up-to-date status.
    async fn settled(&self, names: &[String]) {
        for name in names {
            self.until(name, "settled", |binding| {
                targets(binding) == ["m1", "m2"]
                    && binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"]
                    && condition(binding) == "True"
            })
            .await;
        }
    }

    async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{BINDINGS}/{name}");
        let mut last = Value::Null;
        let wanted = format!("{name} to be {what}");
        wait_for(&wanted, async || {
            last = self.get(&path).await;
            is_so(&last).then(|| last.clone())
        })
        .await
    }

    /// Grants the attached server the rights of its manifest, or all except those to a status.
    async fn grant(&self, with_status: bool) {
        let mut role = manifests("attached.yaml").into_iter().find(|it| it["kind"] == "ClusterRole").unwrap();
        if !with_status {
            role["rules"].as_array_mut().unwrap().retain(|rule| !rule.to_string().contains("/status"));
        }
        let rules = json!({"rules": role["rules"]});
        self.patch(ROLE, &rules).await;
        // The authorizer is updated shortly afterwards.
        wait_for("the rights", async || (self.may_write_status().await == with_status).then_some(())).await;
    }

    async fn may_write_status(&self) -> bool {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": ATTACHED, "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {"verb": "patch", "group": "work.karmada.io", "version": "v1alpha2",
                "resource": "resourcebindings", "subresource": "status", "namespace": "shop"}}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        self.create(path, &review).await["status"]["allowed"] == true
    }
}

/// kube-apiserver serves definitions shortly after their creation or its restart.
async fn serves_kinds(cluster: &Cluster) {
    for kind in [CLUSTERS, ALL_BINDINGS, REBALANCERS] {
        wait_for(kind, async || (cluster.admin().get(kind).await.code == 200).then_some(())).await;
    }
}

/// Simulates Karmada's binding controller: it watches the bindings, lists again when its watch is
/// lost, and writes the status of each placed one. So the versions change under the scheduler. A
/// conflicting write is repeated with the next event.
async fn drive(kubeconfig: PathBuf) {
    let named = KubeconfigArgs { kubeconfig: Some(kubeconfig), ..KubeconfigArgs::default() };
    let client = named.connect().await.unwrap().client;
    let kind = GroupVersionKind::gvk("work.karmada.io", "v1alpha2", "ResourceBinding");
    let kind = ApiResource::from_gvk_with_plural(&kind, "resourcebindings");
    let all = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let mut seen = watcher(all, watcher::Config::default().timeout(30)).default_backoff().touched_objects().boxed();
    loop {
        let Ok(Some(binding)) = seen.try_next().await else { continue };
        let placed = targets(&binding.data).into_iter();
        let reports: Vec<Value> = placed.map(|name| json!({"clusterName": name, "applied": true})).collect();
        if reports.is_empty() || binding.data["status"]["aggregatedStatus"] == json!(reports) {
            continue;
        }
        let here = Api::<DynamicObject>::namespaced_with(client.clone(), "shop", &kind);
        let change = json!({"metadata": {"resourceVersion": binding.metadata.resource_version},
            "status": {"aggregatedStatus": reports}});
        let name = binding.metadata.name.unwrap();
        let _overtaken = here.patch_status(&name, &PatchParams::default(), &Patch::Merge(change)).await;
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn manifests(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/beside-karmada").join(name);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns a binding as Karmada's detector creates it: two replicas, divided by free capacity.
fn binding(name: &str, scheduler: &str) -> Value {
    let spec = json!({
        "replicas": 2, "schedulerName": scheduler,
        "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
        "placement": {
            "clusterAffinity": {"clusterNames": ["m1", "m2"]},
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}},
        },
    });
    let policy = json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "1"}}});
    objects::with(objects::binding_in("shop", name, name, spec), policy)
}

fn targets(binding: &Value) -> Vec<&str> {
    let clusters = binding["spec"]["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    clusters.iter().map(|cluster| cluster["name"].as_str().unwrap()).collect()
}

fn condition(binding: &Value) -> &str {
    let conditions = binding["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let scheduled = conditions.iter().find(|condition| condition["type"] == "Scheduled");
    scheduled.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

fn time(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}

/// Returns whether a pass has served every trigger until this time, and no pass is pending.
fn is_served(binding: &Value, since: Time) -> bool {
    time(&binding["status"]["lastScheduledTime"]) >= Some(since)
        && time(&binding["status"]["lastScheduledTime"]) >= time(&binding["spec"]["rescheduleTriggeredAt"])
        && binding["metadata"]["annotations"]["ballast.dev/owed"].is_null()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// An attached server as a process, and its administrator.
struct Attached {
    process: ServerProcess,
    admin: Raw,
}

impl Attached {
    async fn start(folder: &Path, kubeconfig: &Path) -> Attached {
        let attach = format!("--attach={}", kubeconfig.display());
        let (folder, flags) = (folder.to_owned(), [attach, "--scheduler-name=ballast".to_owned()]);
        let started = tokio::task::spawn_blocking(move || {
            let flags = flags.each_ref().map(String::as_str);
            (ServerProcess::start(&folder, &flags), Files::in_dir(&folder.join("certs")))
        });
        let (process, files) = started.await.unwrap();
        let admin = Raw::admin(process.address, &files);
        Attached { process, admin }
    }

    /// Waits until the object is the same here as upstream.
    async fn same(&self, karmada: &Karmada, path: &str) {
        wait_for(&format!("{path} to be the same"), async || {
            let [here, there] = [self.admin.get(path).await.json(), karmada.get(path).await].map(unnumbered);
            (here == there).then_some(())
        })
        .await;
    }
}

/// Returns the object without log-specific numbers and its managers.
fn unnumbered(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn bs2_bs4_an_attached_server_schedules_on_a_real_kube_apiserver_whatever_ends_in_between() {
    let Some(mut karmada) = Karmada::start().await else { return };
    karmada.cluster.apply(manifests("attached.yaml").iter()).await;
    let kubeconfig = karmada.cluster.account_kubeconfig("karmada-system", "ballast").await;
    let folder = tempfile::tempdir().unwrap();
    let ballast = Attached::start(folder.path(), &kubeconfig).await;

    // Bindings that name it are placed, and no others.
    let first = names("web", MANY);
    karmada.create(BINDINGS, &binding("other", "default-scheduler")).await;
    for name in &first {
        karmada.create(BINDINGS, &binding(name, "ballast")).await;
    }
    karmada.settled(&first).await;
    wait_for("an event at home", async || {
        let events = karmada.get("/api/v1/namespaces/shop/events").await;
        let is_told = |event: &Value| {
            event["involvedObject"]["kind"] == "ResourceBinding" && event["reason"] == "ScheduleBindingSucceed"
        };
        events["items"].as_array().unwrap().iter().any(is_told).then_some(())
    })
    .await;
    answers_triggers(&karmada, &ballast, &first).await;
    let other = karmada.get(&format!("{BINDINGS}/other")).await;
    assert_eq!((&other["metadata"]["generation"], &other["status"]), (&json!(1), &Value::Null));

    // It ends between the spec and the status, because the second right is missing.
    karmada.grant(false).await;
    let halves = names("half", 4);
    for name in &halves {
        karmada.create(BINDINGS, &binding(name, "ballast")).await;
    }
    for name in &halves {
        let half = karmada.until(name, "placed", |binding| targets(binding) == ["m1", "m2"]).await;
        assert!(half["status"]["schedulerObservedGeneration"].is_null(), "{half}");
    }
    let triggered = timestamp(&karmada, &first).await;
    ballast.process.kill();
    karmada.grant(true).await;
    // While it is down, one is created and one deleted.
    karmada.create(BINDINGS, &binding("late", "ballast")).await;
    delete(&karmada, &first[0]).await;
    let ballast = Attached::start(folder.path(), &kubeconfig).await;
    karmada.settled(&halves).await;
    karmada.settled(&["late".to_owned()]).await;
    for name in &first[1..] {
        karmada.until(name, "served", |binding| is_served(binding, triggered)).await;
    }

    // kube-apiserver ends with requests in progress, and forgets the state of watches.
    let second = names("again", MANY);
    for name in &second {
        karmada.create(BINDINGS, &binding(name, "ballast")).await;
    }
    karmada.cluster.kill_server();
    karmada.cluster.start_server().await;
    serves_kinds(&karmada.cluster).await;
    delete(&karmada, &first[1]).await;
    karmada.settled(&second).await;
    let triggered = timestamp(&karmada, &second).await;
    for name in &second {
        karmada.until(name, "served", |binding| is_served(binding, triggered)).await;
    }

    // At the end, both sides are equal.
    for name in first[2..].iter().chain(&second).chain(&halves) {
        ballast.same(&karmada, &format!("{BINDINGS}/{name}")).await;
    }
    for name in &first[..2] {
        let path = format!("{BINDINGS}/{name}");
        wait_for("its end", async || (ballast.admin.get(&path).await.code == 404).then_some(())).await;
    }
    assert!(ballast.process.terminate().success());
    asked_only_what_the_role_says(&karmada.cluster);
}

async fn delete(karmada: &Karmada, name: &str) {
    let reply = karmada.cluster.admin().send(Method::DELETE, &format!("{BINDINGS}/{name}"), &[], "").await;
    assert_eq!(reply.code, 200, "{}", reply.text());
}

/// Simulates Karmada's rebalancer: the timestamp is its own creation time.
async fn timestamp(karmada: &Karmada, names: &[String]) -> Time {
    let workloads: Vec<Value> = names
        .iter()
        .map(|name| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name}))
        .collect();
    let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"generateName": "again-"}, "spec": {"workloads": workloads}});
    let timestamp = karmada.create(REBALANCERS, &rebalancer).await["metadata"]["creationTimestamp"].clone();
    let change = json!({"spec": {"rescheduleTriggeredAt": timestamp}});
    for name in names {
        karmada.patch(&format!("{BINDINGS}/{name}"), &change).await;
    }
    time(&timestamp).unwrap()
}

/// The timestamps of Karmada's rebalancer are served, and a RescheduleTask here marks there.
async fn answers_triggers(karmada: &Karmada, ballast: &Attached, names: &[String]) {
    let triggered = timestamp(karmada, names).await;
    for name in names {
        let binding = karmada.until(name, "served", |binding| is_served(binding, triggered)).await;
        assert_eq!(time(&binding["spec"]["rescheduleTriggeredAt"]), Some(triggered), "its cause's own time");
    }
    ballast.same(karmada, &format!("{BINDINGS}/{}", names[0])).await;
    let json = [("content-type", "application/json")];
    let asked = SystemClock.now();
    let reply = ballast.admin.send(Method::POST, TASKS, &json, task(&names[0]).to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    let binding = karmada.until(&names[0], "served", |binding| is_served(binding, asked)).await;
    assert!(time(&binding["spec"]["rescheduleTriggeredAt"]) >= Some(asked), "{binding}");
    // Karmada's schema does not contain it. The trigger is not lost.
    assert!(binding["spec"]["forceRescheduling"].is_null(), "{binding}");
}

/// Every request of the attached server is permitted by its role. The right to the status was
/// removed for a while.
fn asked_only_what_the_role_says(cluster: &Cluster) {
    let asked = cluster.audited(ATTACHED);
    let mut done = BTreeSet::new();
    for event in &asked {
        let about = &event["objectRef"];
        let part = about["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
        let verb = event["verb"].as_str().unwrap();
        let place = about["resource"].as_str().or(event["requestURI"].as_str()).unwrap_or_default();
        let line = format!("{verb} {place}{part}");
        let code = &event["responseStatus"]["code"];
        assert!(*code != 403 || line == "patch resourcebindings/status", "{event}");
        done.insert(line);
    }
    let kinds = [
        "clusters",
        "clusterpropagationpolicies",
        "propagationpolicies",
        "clusterresourcebindings",
        "resourcebindings",
    ];
    let read = kinds.iter().flat_map(|kind| ["list", "watch"].map(|verb| format!("{verb} {kind}")));
    let written = ["", "/status"].map(|part| format!("patch resourcebindings{part}"));
    // All users may read the version, which indicates whether lists can be streamed.
    let further = ["create events", "get /version"].map(str::to_owned);
    let expected: BTreeSet<String> = read.chain(written).chain(further).collect();
    // A foreign write in between is a matter of timing, and so are the following read and a
    // repeated event.
    done.remove("get resourcebindings");
    done.remove("patch events");
    // A kube-apiserver from 1.32 on streams the present objects as the first part of a watch.
    let is_streamed = |line: &&String| line.starts_with("list ") && !done.contains(*line);
    let lists = expected.iter().filter(is_streamed).count();
    assert!(lists == 0 || lists == kinds.len(), "{done:?}");
    let asked: BTreeSet<String> = expected.iter().filter(|line| !is_streamed(line)).cloned().collect();
    assert_eq!(done, asked);
}

/// Runs a command with the kubeconfig of a user and returns both outputs.
async fn command(kubeconfig: &Path, line: &str, status: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(line.split_whitespace()).arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null());
    let done = tokio::task::spawn_blocking(move || command.output().expect("the binary runs")).await.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(status), "ballast {line}\n{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn bs3_bs5_who_may_only_look_gets_answers_from_a_real_kube_apiserver_and_writes_nothing() {
    let Some(karmada) = Karmada::start().await else { return };
    let cluster = &karmada.cluster;
    cluster.apply(manifests("reader.yaml").iter()).await;
    let reader = cluster.kubeconfig(READER, &[]);
    // Without the role, all missing rights are named.
    let refused = command(&reader, "displaced -n shop", 1).await;
    for kind in ["clusters.cluster.karmada.io", "resourcebindings.work.karmada.io"] {
        assert!(refused.contains(kind) && refused.contains("deploy/beside-karmada/reader.yaml"), "{refused}");
    }
    let role = ["create", "clusterrolebinding", "reader", "--clusterrole=ballast:reader", "--user", READER];
    cluster.kubectl("admin", &role);

    // All replicas have failed over to m2.
    let mut fled = binding("web", "default-scheduler");
    fled["spec"]["clusters"] = json!([{"name": "m2", "replicas": 2}]);
    karmada.create(BINDINGS, &fled).await;
    let reported = karmada.until("web", "reported", |web| !web["status"]["aggregatedStatus"].is_null()).await;
    wait_for("the rights", async || {
        let may = ["auth", "can-i", "watch", "resourcebindings.work.karmada.io", "-A"];
        cluster.try_kubectl(READER, &may).status.success().then_some(())
    })
    .await;
    for (line, expected) in [
        ("displaced --drifted -n shop", &["deployment/web", "m2:2", "m1:1, m2:1"][..]),
        ("preview -A", &["1 of 1 workload would move, with 1 replica"]),
        ("preview -n shop --suppose-lost m2 -o diff", &["- m2: 2", "+ m1: 2"]),
        ("why deployment/web -n shop", &["is on m2:2 (2 replicas wanted)"]),
        ("top", &["m1", "m2", "2 of 2 clusters ready, 2 replicas"]),
        ("history deployment/web -n shop", &["No event about shop/deployment/web is left."]),
    ] {
        let told = command(&reader, line, 0).await;
        expected.iter().for_each(|part| assert!(told.contains(part), "{line}: {part:?} is missing in\n{told}"));
    }
    let refused = command(&reader, "pause home", 2).await;
    assert!(refused.contains("carries out rebalances"), "{refused}");

    let after = karmada.get(&format!("{BINDINGS}/web")).await;
    assert_eq!(after["metadata"]["resourceVersion"], reported["metadata"]["resourceVersion"]);
    let asked = cluster.audited(READER);
    let verbs: BTreeSet<&str> = asked.iter().filter_map(|event| event["verb"].as_str()).collect();
    // kubectl queries the user's rights, which stores nothing.
    let is_question = |event: &Value| event["objectRef"]["resource"] == "selfsubjectaccessreviews";
    let writes: Vec<&Value> = asked
        .iter()
        .filter(|event| !["get", "list", "watch"].contains(&event["verb"].as_str().unwrap()) && !is_question(event))
        .collect();
    assert!(verbs.contains("list") && verbs.contains("watch") && writes.is_empty(), "{writes:?}");
}
