//! A server attached to a Karmada. The upstream is another Ballast without workers, and the proxy
//! between them can be cut, and its responses replaced by the test.

mod events;
mod moves;
mod trouble;

use std::sync::{Arc, Mutex};

use ballast::attach::{Access, Upstream};
use ballast::node::certs::Files;
use ballast::node::config::ServeArgs;
use ballast::node::serve::{self, Running};
use futures_util::future::BoxFuture;
use http::{Method, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::objects::{self, ALL_BINDINGS, BINDINGS, CLUSTERS, TASKS, binding, task};
use crate::support::raw::Raw;
use crate::support::server::TestServer;
use crate::support::{metric, wait_for};

const MERGE_PATCH: &str = "application/merge-patch+json";
/// Where the binding of most tests is.
const WEB: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web";

/// The label with the policy that manages a binding.
const POLICY_ID: &str = "propagationpolicy.karmada.io/permanent-id";

/// The test's response instead of the upstream's. `None`: the upstream responds.
type Answer = BoxFuture<'static, Option<Result<Response<Body>, std::io::Error>>>;
type Loses = Arc<dyn Fn(&str) -> bool + Send + Sync>;
type Fault = Arc<dyn Fn(Method, String) -> Answer + Send + Sync>;

/// The proxy to the upstream.
#[derive(Clone, Default)]
struct Line {
    fault: Arc<Mutex<Option<Fault>>>,
    /// Whether the response to such a request is lost.
    loses: Arc<Mutex<Option<Loses>>>,
    /// The received requests, as `PATCH /path?query`.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Line {
    fn answer(&self, fault: impl Fn(Method, String) -> Answer + Send + Sync + 'static) {
        *self.fault.lock().unwrap() = Some(Arc::new(fault));
    }

    /// Responds to matching requests with this.
    fn refuse(&self, is_meant: impl Fn(&Method, &str) -> bool + Send + Sync + 'static, status: Value) {
        self.answer(move |method, path| {
            let is_meant = is_meant(&method, &path);
            let status = status.clone();
            Box::pin(async move { is_meant.then(|| Ok(response(&status))) })
        });
    }

    fn cut(&self) {
        self.answer(|_, _| Box::pin(async { Some(Err(std::io::Error::other("the line is cut"))) }));
    }

    fn mend(&self) {
        *self.fault.lock().unwrap() = None;
        *self.loses.lock().unwrap() = None;
    }

    fn asked(&self, words: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| asked.starts_with(words)).count()
    }

    fn client(&self, home: kube::Client) -> kube::Client {
        let line = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (home, line) = (home.clone(), line.clone());
            async move {
                let (method, path) = (request.method().clone(), request.uri().to_string());
                let asked = format!("{method} {path}");
                line.asked.lock().unwrap().push(asked.clone());
                let fault = line.fault.lock().unwrap().clone();
                let answer = match fault {
                    Some(fault) => fault(method, path).await,
                    None => None,
                };
                if let Some(answer) = answer {
                    return answer.map_err(tower::BoxError::from);
                }
                let answered = home.send(request).await.map_err(tower::BoxError::from);
                let loses = line.loses.lock().unwrap().clone();
                match loses.is_some_and(|loses| loses(&asked)) {
                    true => Err(std::io::Error::other("the answer is lost").into()),
                    false => answered,
                }
            }
        });
        kube::Client::new(service, "default")
    }
}

fn response(status: &Value) -> Response<Body> {
    let code = status["code"].as_u64().unwrap() as u16;
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.to_string().into_bytes())).unwrap()
}

fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": format!("the test says {reason}"),
    })
}

/// A Karmada, and a server that is attached to it.
struct Pair {
    karmada: TestServer,
    line: Line,
    here: Running,
    folder: TempDir,
}

impl Pair {
    async fn start() -> Pair {
        Pair::of(TestServer::start().await, Access::ReadWrite).await
    }

    async fn of(karmada: TestServer, access: Access) -> Pair {
        let line = Line::default();
        let folder = tempfile::tempdir().unwrap();
        let here = attach(&karmada, &line, &folder, "memory:", access).await;
        Pair { karmada, line, here, folder }
    }

    async fn synced(self) -> Pair {
        let progress = self.here.reflected().unwrap().clone();
        wait_for("the mirror", async || progress.is_synced().then_some(())).await;
        self
    }

    fn admin(&self) -> Raw {
        Raw::admin(self.here.address, &Files::in_dir(&self.folder.path().join("certs")))
    }

    async fn stop(self) {
        self.here.stop().await.unwrap();
        self.karmada.stop().await;
    }
}

async fn attach(karmada: &TestServer, line: &Line, folder: &TempDir, database: &str, access: Access) -> Running {
    let client = line.client(karmada.kube().await);
    let upstream = Upstream { client, url: format!("https://{}", karmada.address) };
    let args = ServeArgs {
        secure_port: 0,
        cert_dir: folder.path().join("certs"),
        database_url: database.to_owned(),
        scheduler_name: "ballast".to_owned(),
        ..ServeArgs::default()
    };
    serve::attached(args, upstream, access).await.unwrap()
}

async fn get(server: &Raw, path: &str) -> Value {
    server.get(path).await.json()
}

async fn post(server: &Raw, path: &str, object: Value) -> Value {
    let reply = server.send(Method::POST, path, &[("content-type", "application/json")], object.to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    reply.json()
}

async fn patch(server: &Raw, path: &str, change: Value) -> Value {
    let reply = server.send(Method::PATCH, path, &[("content-type", MERGE_PATCH)], change.to_string()).await;
    assert_eq!(reply.code, 200, "{}", reply.text());
    reply.json()
}

/// Returns clusters that can run a Deployment.
async fn give_clusters(karmada: &Raw, names: &[&str]) {
    for name in names {
        let cluster = objects::cluster(name);
        post(karmada, CLUSTERS, cluster).await;
        let kinds = json!([{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}]);
        patch(karmada, &format!("{CLUSTERS}/{name}/status"), json!({"status": {"apiEnablements": kinds}})).await;
    }
}

/// A binding for this scheduler, on one cluster.
fn placed(name: &str, cluster: &str) -> Value {
    let mut object = binding(name);
    object["metadata"]["labels"] = json!({POLICY_ID: "1"});
    object["spec"]["replicas"] = 2.into();
    object["spec"]["schedulerName"] = "ballast".into();
    object["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": [cluster]}});
    object
}

fn targets(binding: &Value) -> Vec<&str> {
    let clusters = binding["spec"]["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    clusters.iter().map(|cluster| cluster["name"].as_str().unwrap()).collect()
}

/// Waits until the binding upstream is placed there and reports it.
async fn scheduled(karmada: &Raw, path: &str, cluster: &str) -> Value {
    wait_for(path, async || {
        let object = get(karmada, path).await;
        let is_observed = object["status"]["schedulerObservedGeneration"] == object["metadata"]["generation"];
        (targets(&object) == [cluster] && is_observed).then_some(object)
    })
    .await
}

/// Returns the object without log-specific numbers and its managers, which are only stored
/// upstream.
fn unnumbered(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}

/// Waits until the object is the same here and upstream.
async fn same(here: &Raw, karmada: &Raw, path: &str) -> Value {
    wait_for(path, async || {
        let [here, there] = [get(here, path).await, get(karmada, path).await].map(unnumbered);
        (here == there && here["kind"] != "Status").then_some(here)
    })
    .await
}

async fn names(server: &Raw, path: &str) -> Vec<String> {
    let list = get(server, path).await;
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn bs1_the_mirror_shows_objects_as_they_are_at_home_and_follows_them() {
    let karmada = TestServer::start().await;
    let home = karmada.admin();
    give_clusters(&home, &["m1"]).await;
    for number in 0..3 {
        post(&home, BINDINGS, binding(&format!("b{number}"))).await;
    }
    let pair = Pair::of(karmada, Access::ReadWrite).await.synced().await;
    let here = pair.admin();
    assert_eq!(names(&here, ALL_BINDINGS).await, ["b0", "b1", "b2"]);
    for path in [format!("{CLUSTERS}/m1"), format!("{BINDINGS}/b1")] {
        let object = same(&here, &home, &path).await;
        assert!(object["metadata"]["uid"].is_string() && object["metadata"]["creationTimestamp"].is_string());
    }
    patch(&home, &format!("{BINDINGS}/b1"), json!({"metadata": {"labels": {"tier": "front"}}})).await;
    patch(&home, &format!("{BINDINGS}/b1/status"), json!({"status": {"schedulerObservedGeneration": 7}})).await;
    let object = wait_for("the status", async || {
        let object = get(&here, &format!("{BINDINGS}/b1")).await;
        (object["status"]["schedulerObservedGeneration"] == 7).then_some(object)
    })
    .await;
    assert_eq!(object["metadata"]["labels"]["tier"], "front");
    home.send(Method::DELETE, &format!("{BINDINGS}/b0"), &[], "").await;
    // Another object with the same name and another uid replaces it.
    home.send(Method::DELETE, &format!("{BINDINGS}/b2"), &[], "").await;
    let second = post(&home, BINDINGS, binding("b2")).await;
    wait_for("the new b2", async || {
        let object = get(&here, &format!("{BINDINGS}/b2")).await;
        (object["metadata"]["uid"] == second["metadata"]["uid"]).then_some(())
    })
    .await;
    assert_eq!(names(&here, ALL_BINDINGS).await, ["b1", "b2"]);
    pair.stop().await;
}

#[tokio::test]
async fn bs1_who_writes_here_is_told_where_to_write() {
    let pair = Pair::start().await.synced().await;
    let here = pair.admin();
    let kind = [("content-type", "application/json")];
    for (method, path) in [(Method::POST, BINDINGS), (Method::DELETE, WEB), (Method::PATCH, WEB), (Method::PUT, WEB)] {
        let header = if method == Method::PATCH { ("content-type", MERGE_PATCH) } else { kind[0] };
        let body = if method == Method::DELETE { String::new() } else { binding("web").to_string() };
        let reply = here.send(method.clone(), path, &[header], body).await;
        let told = reply.json();
        assert_eq!((reply.code.as_u16(), &told["reason"]), (405, &json!("MethodNotAllowed")), "{method}");
        let home = format!("https://{}", pair.karmada.address);
        assert!(told["message"].as_str().unwrap().contains(&home), "{told}");
    }
    assert_eq!(here.get("/apis/apps.karmada.io/v1alpha1/workloadrebalancers").await.code, 404);
    pair.stop().await;
}

#[tokio::test]
async fn bs2_a_binding_is_scheduled_at_home_and_only_if_it_names_this_scheduler() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1", "m2"]).await;
    let mut other = placed("other", "m1");
    other["spec"]["schedulerName"] = "default-scheduler".into();
    post(&home, BINDINGS, other).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    let object = scheduled(&home, WEB, "m1").await;
    let conditions = object["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|known| known["type"] == "Scheduled" && known["status"] == "True"), "{conditions:?}");
    let managers = object["metadata"]["managedFields"].to_string();
    assert!(managers.contains("\"ballast-scheduler\""), "{managers}");
    same(&pair.admin(), &home, WEB).await;
    // One pass: the spec, and then the status. Their echoes cause no second one.
    post(&home, BINDINGS, placed("last", "m2")).await;
    scheduled(&home, &format!("{BINDINGS}/last"), "m2").await;
    assert_eq!((pair.line.asked(&format!("PATCH {WEB}?")), pair.line.asked(&format!("PATCH {WEB}/status?"))), (1, 1));
    let other = get(&home, &format!("{BINDINGS}/other")).await;
    assert_eq!((targets(&other).len(), &other["status"]), (0, &Value::Null));
    assert_eq!(pair.line.asked(&format!("PATCH {BINDINGS}/other")), 0);
    pair.stop().await;
}

#[tokio::test]
async fn bs2_a_binding_that_no_policy_manages_any_more_stays_where_it_is() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1", "m2"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    scheduled(&home, WEB, "m1").await;
    // As Karmada's detector does when the policy is deleted. The placement is then unmanaged.
    patch(&home, WEB, json!({"metadata": {"labels": {POLICY_ID: null}}})).await;
    let elsewhere = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    patch(&home, WEB, json!({"spec": {"placement": elsewhere}})).await;
    let before = same(&pair.admin(), &home, WEB).await;
    for name in ["next", "last"] {
        post(&home, BINDINGS, placed(name, "m2")).await;
        scheduled(&home, &format!("{BINDINGS}/{name}"), "m2").await;
    }
    assert_eq!(unnumbered(get(&home, WEB).await), before);
    // Another policy claims it.
    patch(&home, WEB, json!({"metadata": {"labels": {POLICY_ID: "2"}}})).await;
    scheduled(&home, WEB, "m2").await;
    pair.stop().await;
}

#[tokio::test]
async fn bs2_triggers_of_karmada_and_of_a_task_here_are_answered() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    scheduled(&home, WEB, "m1").await;
    // As Karmada's rebalancer does, later than the last pass.
    let timestamp = "2100-01-01T00:00:00Z";
    patch(&home, WEB, json!({"spec": {"rescheduleTriggeredAt": timestamp}})).await;
    wait_for("the answer to the stamp", async || {
        (get(&home, WEB).await["status"]["lastScheduledTime"] == timestamp).then_some(())
    })
    .await;
    let before = get(&home, WEB).await["metadata"]["resourceVersion"].clone();
    let asked = post(&pair.admin(), TASKS, task("web")).await;
    assert_eq!(asked["kind"], "RescheduleTask");
    let object = wait_for("the answer to the task", async || {
        let object = get(&home, WEB).await;
        let is_pending = object["spec"]["forceRescheduling"] == true
            || !object["metadata"]["annotations"]["ballast.dev/owed"].is_null();
        (object["metadata"]["resourceVersion"] != before && !is_pending).then_some(object)
    })
    .await;
    assert_eq!(object["spec"]["rescheduleTriggeredAt"], timestamp, "a stamp never goes back");
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_list_after_410_brings_what_was_missed_and_takes_what_is_gone() {
    let karmada = TestServer::start().await;
    let home = karmada.admin();
    for name in ["gone", "stays"] {
        post(&home, BINDINGS, binding(name)).await;
    }
    // No watch begins, so the reflector only lists.
    let (line, folder) = (Line::default(), tempfile::tempdir().unwrap());
    line.refuse(|_, path| path.contains("watch=true"), status(410, "Expired"));
    let here = attach(&karmada, &line, &folder, "memory:", Access::ReadWrite).await;
    let pair = Pair { karmada, line, here, folder }.synced().await;
    let here = pair.admin();
    let revision = get(&here, &format!("{BINDINGS}/stays")).await["metadata"]["resourceVersion"].clone();
    home.send(Method::DELETE, &format!("{BINDINGS}/gone"), &[], "").await;
    post(&home, BINDINGS, binding("new")).await;
    wait_for("the changes", async || (names(&here, ALL_BINDINGS).await == ["new", "stays"]).then_some(())).await;
    pair.line.mend();
    post(&home, BINDINGS, binding("watched")).await;
    wait_for("a watch", async || (names(&here, ALL_BINDINGS).await.len() == 3).then_some(())).await;
    let stays = get(&here, &format!("{BINDINGS}/stays")).await;
    assert_eq!(stays["metadata"]["resourceVersion"], revision, "what is the same is not written");
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_home_that_was_away_at_the_start_is_mirrored_when_it_comes() {
    let karmada = TestServer::start().await;
    let home = karmada.admin();
    give_clusters(&home, &["m1"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    let (line, folder) = (Line::default(), tempfile::tempdir().unwrap());
    line.cut();
    let here = attach(&karmada, &line, &folder, "memory:", Access::ReadWrite).await;
    let pair = Pair { karmada, line, here, folder };
    let progress = pair.here.reflected().unwrap().clone();
    let fault = wait_for("the fault", async || progress.fault()).await;
    assert!(fault.contains("the line is cut"), "{fault}");
    assert!(!progress.is_synced());
    let ready = pair.admin().get("/readyz").await;
    assert_eq!(ready.code, 500, "{}", ready.text());
    pair.line.mend();
    let pair = pair.synced().await;
    scheduled(&home, WEB, "m1").await;
    assert_eq!(pair.admin().get("/readyz").await.code, 200);
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_home_that_goes_away_and_one_that_wants_a_pause_are_waited_for() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    give_clusters(&home, &["m1"]).await;
    same(&here, &home, &format!("{CLUSTERS}/m1")).await;
    pair.line.cut();
    post(&home, BINDINGS, placed("web", "m1")).await;
    let series = "ballast_karmada_writes_total{result=\"unavailable\"}";
    let before = metric(here.get("/metrics").await.text(), series);
    wait_for("the loss", async || (metric(here.get("/metrics").await.text(), series) > before).then_some(())).await;
    assert_eq!(get(&here, WEB).await["kind"], "ResourceBinding", "what was mirrored is read on");
    assert_eq!(here.get("/readyz").await.code, 200);
    let mut busy = status(429, "TooManyRequests");
    busy["details"] = json!({"retryAfterSeconds": 1});
    pair.line.refuse(|method, _| *method == Method::PATCH, busy);
    let asked = || pair.line.asked(&format!("PATCH {WEB}"));
    let before = asked();
    wait_for("two tries", async || (asked() >= before + 2).then_some(())).await;
    pair.line.mend();
    scheduled(&home, WEB, "m1").await;
    pair.stop().await;
}

#[tokio::test]
async fn bs2_the_flag_names_the_karmada_and_what_does_not_go_with_it_is_told() {
    let karmada = TestServer::start().await;
    let home = karmada.admin();
    give_clusters(&home, &["m1"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    let folder = tempfile::tempdir().unwrap();
    let args = || {
        let mut args = ServeArgs {
            secure_port: 0,
            cert_dir: folder.path().join("certs"),
            database_url: "memory:".to_owned(),
            scheduler_name: "ballast".to_owned(),
            ..ServeArgs::default()
        };
        args.attach.attach = Some(karmada.files.admin_kubeconfig.clone());
        args
    };
    let here = serve::start(args()).await.unwrap();
    scheduled(&home, WEB, "m1").await;
    let admin = Raw::admin(here.address, &Files::in_dir(&folder.path().join("certs")));
    assert_eq!(get(&admin, &format!("{CLUSTERS}/m1")).await["kind"], "Cluster");
    here.stop().await.unwrap();
    let told = async |args: ServeArgs| format!("{:#}", serve::start(args).await.err().unwrap());
    let shared = told(ServeArgs { database_url: "postgres://me@127.0.0.1/db".to_owned(), ..args() }).await;
    assert!(shared.contains("use a database of its own"), "{shared}");
    let mut moving = args();
    moving.controllers.controllers = vec!["rebalancer".parse().unwrap()];
    let moving = told(moving).await;
    assert!(moving.contains("which does not run with --attach"), "{moving}");
    let mut lost = args();
    lost.attach.attach = Some(folder.path().join("nothing"));
    let lost = told(lost).await;
    assert!(lost.contains("as kubeconfig"), "{lost}");
    karmada.stop().await;
}

#[tokio::test]
async fn bs4_a_write_that_others_overtook_is_decided_again_from_what_they_wrote() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1", "m2"]).await;
    // Before the first patch arrives, another client chooses another cluster.
    let (raced, other) = (Arc::new(Mutex::new(false)), pair.karmada.admin());
    let other = Arc::new(other);
    let happened = Arc::clone(&raced);
    pair.line.answer(move |method, path| {
        let (happened, other) = (Arc::clone(&happened), Arc::clone(&other));
        Box::pin(async move {
            let is_first = method == Method::PATCH && path.starts_with(&format!("{WEB}?"));
            if is_first && !std::mem::replace(&mut *happened.lock().unwrap(), true) {
                let placement = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
                patch(&other, WEB, json!({"spec": {"placement": placement}})).await;
            }
            None
        })
    });
    post(&home, BINDINGS, placed("web", "m1")).await;
    scheduled(&home, WEB, "m2").await;
    assert!(*raced.lock().unwrap());
    assert!(pair.line.asked(&format!("PATCH {WEB}?")) >= 2, "the first one was refused");
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_status_that_was_lost_between_the_two_writes_is_written_later() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    pair.line.refuse(|method, path| *method == Method::PATCH && path.contains("/status"), status(500, "InternalError"));
    post(&home, BINDINGS, placed("web", "m1")).await;
    wait_for("the first half", async || (targets(&get(&home, WEB).await) == ["m1"]).then_some(())).await;
    wait_for("the loss", async || (pair.line.asked(&format!("PATCH {WEB}/status")) > 0).then_some(())).await;
    assert_eq!(get(&home, WEB).await["status"], Value::Null);
    pair.line.mend();
    let object = scheduled(&home, WEB, "m1").await;
    assert!(object["status"]["lastScheduledTime"].is_string(), "{object}");
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_status_that_others_overtook_is_written_also_where_the_replicas_fit_already() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    // Between the two patches, Karmada reports what it has begun to apply.
    let (reported, other) = (Arc::new(Mutex::new(false)), Arc::new(pair.karmada.admin()));
    let happened = Arc::clone(&reported);
    pair.line.answer(move |method, path| {
        let (happened, other) = (Arc::clone(&happened), Arc::clone(&other));
        Box::pin(async move {
            let is_first = method == Method::PATCH && path.starts_with(&format!("{WEB}/status?"));
            if is_first && !std::mem::replace(&mut *happened.lock().unwrap(), true) {
                let report = json!([{"clusterName": "m1", "applied": true}]);
                patch(&other, &format!("{WEB}/status"), json!({"status": {"aggregatedStatus": report}})).await;
            }
            None
        })
    });
    let mut web = placed("web", "m1");
    web["spec"]["placement"]["replicaScheduling"] =
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    post(&home, BINDINGS, web).await;
    let object = wait_for("the whole status", async || {
        let object = scheduled(&home, WEB, "m1").await;
        object["status"]["lastScheduledTime"].is_string().then_some(object)
    })
    .await;
    assert!(*reported.lock().unwrap());
    let conditions = object["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|known| known["type"] == "Scheduled" && known["status"] == "True"), "{object}");
    assert_eq!(object["status"]["aggregatedStatus"][0]["clusterName"], "m1", "nobody's report is lost");
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_home_that_does_not_serve_its_kinds_yet_has_lost_no_binding() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    give_clusters(&home, &["m1", "m2"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    scheduled(&home, WEB, "m1").await;
    same(&here, &home, WEB).await;
    // As a kube-apiserver that has just started and has not loaded its definitions.
    pair.line.answer(|_, path| {
        let is_meant = path.starts_with(WEB);
        let answer = || Response::builder().status(404).body(Body::from(b"404 page not found\n".to_vec())).unwrap();
        Box::pin(async move { is_meant.then(|| Ok(answer())) })
    });
    let placement = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    patch(&home, WEB, json!({"spec": {"placement": placement}})).await;
    let before = pair.line.asked(&format!("PATCH {WEB}"));
    let asked = || pair.line.asked(&format!("PATCH {WEB}"));
    wait_for("another try", async || (asked() >= before + 2).then_some(())).await;
    assert_eq!(get(&here, WEB).await["kind"], "ResourceBinding", "it is not gone");
    pair.line.mend();
    scheduled(&home, WEB, "m2").await;
    pair.stop().await;
}

#[tokio::test]
async fn bs4_a_server_that_ended_between_the_two_writes_is_continued_by_the_next_one() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    scheduled(&home, WEB, "m1").await;
    pair.line.refuse(|method, path| *method == Method::PATCH && path.contains("/status"), status(500, "InternalError"));
    let before = pair.line.asked(&format!("PATCH {WEB}/status"));
    let timestamp = "2100-01-01T00:00:00Z";
    patch(&home, WEB, json!({"spec": {"rescheduleTriggeredAt": timestamp}})).await;
    wait_for("the loss", async || (pair.line.asked(&format!("PATCH {WEB}/status")) > before).then_some(())).await;
    let Pair { karmada, line, here, folder } = pair;
    here.stop().await.unwrap();
    line.mend();
    assert_ne!(get(&home, WEB).await["status"]["lastScheduledTime"], timestamp);
    let here = attach(&karmada, &line, &folder, "memory:", Access::ReadWrite).await;
    wait_for("the repeated pass", async || {
        (get(&home, WEB).await["status"]["lastScheduledTime"] == timestamp).then_some(())
    })
    .await;
    Pair { karmada, line, here, folder }.stop().await;
}

#[tokio::test]
async fn bs4_a_refusal_of_a_webhook_is_counted_and_tried_again() {
    let pair = Pair::start().await.synced().await;
    let home = pair.karmada.admin();
    give_clusters(&home, &["m1"]).await;
    pair.line.refuse(|method, _| *method == Method::PATCH, status(403, "Forbidden"));
    post(&home, BINDINGS, placed("web", "m1")).await;
    let here = pair.admin();
    let series = "ballast_karmada_writes_total{result=\"refused\"}";
    wait_for("the refusal", async || (metric(here.get("/metrics").await.text(), series) > 0.0).then_some(())).await;
    assert_eq!(targets(&get(&home, WEB).await), [""; 0]);
    pair.line.mend();
    scheduled(&home, WEB, "m1").await;
    pair.stop().await;
}

#[tokio::test]
async fn bs3_who_only_reads_writes_nothing_at_home() {
    let karmada = TestServer::start().await;
    let home = karmada.admin();
    give_clusters(&home, &["m1"]).await;
    post(&home, BINDINGS, placed("web", "m1")).await;
    let pair = Pair::of(karmada, Access::ReadOnly).await.synced().await;
    let here = pair.admin();
    let review = json!({
        "apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "metadata": {"name": "look"},
        "spec": {"select": [{}]},
    });
    let answer = post(&here, "/apis/ballast.dev/v1alpha1/placementreviews", review).await;
    assert!(answer.to_string().contains("m1"), "{answer}");
    let reply = here.send(Method::POST, TASKS, &[("content-type", "application/json")], task("web").to_string()).await;
    let told = reply.json();
    assert!(reply.code.as_u16() >= 400 && told["message"].as_str().unwrap().contains("only reads"), "{told}");
    assert_eq!(pair.line.asked("PATCH") + pair.line.asked("POST") + pair.line.asked("PUT"), 0);
    assert_eq!(get(&home, WEB).await["status"], Value::Null);
    pair.stop().await;
}

#[tokio::test]
async fn bs1_a_restart_on_a_kept_database_writes_nothing_that_is_the_same() {
    let karmada = TestServer::start().await;
    let home = karmada.admin();
    give_clusters(&home, &["m1"]).await;
    for number in 0..3 {
        post(&home, BINDINGS, binding(&format!("b{number}"))).await;
    }
    let (line, folder) = (Line::default(), tempfile::tempdir().unwrap());
    let database = format!("sqlite://{}", folder.path().join("ballast.db").display());
    let here = attach(&karmada, &line, &folder, &database, Access::ReadWrite).await;
    let pair = Pair { karmada, line, here, folder }.synced().await;
    let versions = async |here: &Raw| {
        let list = get(here, ALL_BINDINGS).await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["resourceVersion"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = versions(&pair.admin()).await;
    let Pair { karmada, line, here, folder } = pair;
    here.stop().await.unwrap();
    // One is deleted while the server is disconnected.
    home.send(Method::DELETE, &format!("{BINDINGS}/b2"), &[], "").await;
    let here = attach(&karmada, &line, &folder, &database, Access::ReadWrite).await;
    let pair = Pair { karmada, line, here, folder }.synced().await;
    assert_eq!(versions(&pair.admin()).await, before[..2]);
    pair.stop().await;
}
