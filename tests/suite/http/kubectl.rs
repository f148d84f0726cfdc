//! kubectl, if installed: commands of a user, with the kubeconfig that the server wrote.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use ballast::auth::Policy;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::objects::{binding, rebalancer, task};
use crate::support::server::{Options, TestServer};

/// Runs kubectl against one server.
pub struct Kubectl {
    kubeconfig: PathBuf,
    home: tempfile::TempDir,
}

impl Kubectl {
    /// Returns `None` and prints a line if kubectl is not installed.
    pub async fn find(server: &TestServer) -> Option<Kubectl> {
        let asked = Command::new("kubectl").args(["version", "--client"]).output().await;
        if !asked.is_ok_and(|output| output.status.success()) {
            crate::support::skipped("kubectl is not on the PATH");
            return None;
        }
        // kubectl keeps its discovery cache in the home folder.
        Some(Kubectl { kubeconfig: server.files.admin_kubeconfig.clone(), home: tempfile::tempdir().unwrap() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).env("HOME", self.home.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn output(&self, arguments: &[&str]) -> Output {
        let output = tokio::time::timeout(Duration::from_secs(60), self.command(arguments).output()).await;
        output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap()
    }

    /// Returns the output of kubectl, which must succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let output = self.output(arguments).await;
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{caller}: kubectl {arguments:?}\n{out}{err}");
            // Some triggers here name workloads without a binding, and cause warnings.
            let is_other = |line: &&str| line.contains("Warning") && !line.contains("no binding of");
            assert_eq!(err.lines().find(is_other), None, "{caller}: kubectl {arguments:?}");
            out.into_owned()
        }
    }

    /// Returns the error output of kubectl, which must fail.
    async fn fail(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments).await;
        assert!(!output.status.success(), "kubectl {arguments:?}\n{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Writes a file with this object, in JSON, which is valid YAML.
    pub fn file(&self, name: &str, object: &Value) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, object.to_string()).unwrap();
        path.display().to_string()
    }
}

fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn di6_kubectl_finds_what_is_served() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let resources = kubectl.run(&["api-resources"]).await;
    let lines: Vec<_> = resources.lines().filter(|line| line.starts_with("resourcebindings ")).map(columns).collect();
    assert!(lines.contains(&vec!["resourcebindings", "rb", "work.karmada.io/v1alpha2", "true", "ResourceBinding"]));
    // Both families have a kind of this name. The bare name means Karmada's; KubeFleet's needs its
    // group.
    assert_eq!(lines.len(), 2);
    for (name, group) in [
        ("resourcebindings", "work.karmada.io"),
        ("resourcebindings.placement.kubernetes-fleet.io", "placement.kubernetes-fleet.io"),
    ] {
        let explained = kubectl.run(&["explain", name]).await;
        let line = explained.lines().find(|line| line.starts_with("GROUP:")).unwrap().to_owned();
        assert_eq!(columns(&line), ["GROUP:", group]);
    }
    let listable = kubectl.run(&["api-resources", "--verbs=list"]).await;
    assert!(resources.contains("rescheduletasks") && !listable.contains("rescheduletasks"));
    let version = kubectl.run(&["version", "-o", "json"]).await;
    let version: Value = serde_json::from_str(&version).unwrap();
    assert!(version["serverVersion"]["gitVersion"].as_str().unwrap().contains("ballast"));
    server.stop().await;
}

#[tokio::test]
async fn kubectl_asks_a_review_and_shows_the_answer() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let file = kubectl.file("web.yaml", &binding("web"));
    kubectl.run(&["-n", "shop", "create", "-f", &file]).await;
    let entries = [("PlacementReview", json!({"namespace": "shop"})), ("LocalPlacementReview", json!({"all": true}))];
    for (kind, entry) in entries {
        let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "spec": {"select": [entry]}});
        let file = kubectl.file("review.yaml", &review);
        let answer = kubectl.run(&["-n", "shop", "create", "-f", &file, "-o", "json"]).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"]["summary"]["selected"], 1, "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn kubectl_applies_shows_edits_and_deletes() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let ns = ["-n", "shop"];
    let with = |arguments: &[&'static str]| [&ns, arguments].concat();
    let mut object = binding("web");
    let file = kubectl.file("web.yaml", &object);
    assert_eq!(
        kubectl.run(&["-n", "shop", "apply", "-f", &file]).await,
        "resourcebinding.work.karmada.io/web created\n"
    );
    assert_eq!(
        kubectl.run(&["-n", "shop", "apply", "-f", &file]).await,
        "resourcebinding.work.karmada.io/web unchanged\n"
    );
    object["spec"]["replicas"] = json!(2);
    object["metadata"]["labels"] = json!({"tier": "front"});
    let file = kubectl.file("web.yaml", &object);
    assert_eq!(
        kubectl.run(&["-n", "shop", "apply", "-f", &file]).await,
        "resourcebinding.work.karmada.io/web configured\n"
    );
    let other = kubectl.file("other.yaml", &binding("other"));
    kubectl.run(&["-n", "shop", "create", "-f", &other]).await;
    assert!(kubectl.fail(&["-n", "shop", "create", "-f", &other]).await.contains("(AlreadyExists)"));

    let table = kubectl.run(&with(&["get", "rb"])).await;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(columns(lines[0]), ["NAME", "SCHEDULED", "FULLYAPPLIED", "AGE"]);
    assert_eq!(lines.len(), 3);
    let everywhere = kubectl.run(&["get", "resourcebindings", "-A"]).await;
    assert_eq!(columns(everywhere.lines().next().unwrap())[..2], ["NAMESPACE", "NAME"]);
    assert_eq!(columns(everywhere.lines().nth(2).unwrap())[..2], ["shop", "web"]);
    let front = kubectl.run(&with(&["get", "rb", "-l", "tier=front", "-o", "name"])).await;
    assert_eq!(front, "resourcebinding.work.karmada.io/web\n");
    let yaml = kubectl.run(&with(&["get", "rb", "web", "-o", "yaml"])).await;
    assert!(yaml.contains("replicas: 2\n"), "{yaml}");
    kubectl.run(&with(&["get", "rb", "-o", "wide"])).await;
    let chunks = kubectl.run(&with(&["get", "rb", "--chunk-size=1", "--sort-by=.metadata.name", "--no-headers"])).await;
    assert_eq!(chunks.lines().count(), 2);
    let description = kubectl.run(&with(&["describe", "rb", "web"])).await;
    assert!(description.lines().any(|line| columns(line) == ["Replicas:", "2"]), "{description}");

    let patch = r#"[{"op":"replace","path":"/spec/replicas","value":5}]"#;
    kubectl.run(&["-n", "shop", "patch", "rb", "web", "--type=json", "-p", patch]).await;
    kubectl.run(&with(&["patch", "rb", "web", "--type=merge", "-p", r#"{"spec":{"replicas":6}}"#])).await;
    let status = r#"{"status":{"schedulerObservedGeneration":4}}"#;
    kubectl.run(&["-n", "shop", "patch", "rb", "web", "--subresource=status", "--type=merge", "-p", status]).await;
    kubectl.run(&with(&["label", "rb", "web", "a=b"])).await;
    kubectl.run(&with(&["annotate", "rb", "web", "c=d"])).await;
    let path = "{.spec.replicas}/{.status.schedulerObservedGeneration}/{.metadata.labels.a}/{.metadata.annotations.c}";
    let shown = kubectl.run(&["-n", "shop", "get", "rb", "web", "-o", &format!("jsonpath={path}")]).await;
    assert_eq!(shown, "6/4/b/d");
    kubectl.run(&with(&["wait", "rb/web", "--for=jsonpath={.spec.replicas}=6", "--timeout=20s"])).await;

    let missing = kubectl.fail(&with(&["get", "rb", "nothing"])).await;
    assert_eq!(missing.trim(), "Error from server (NotFound): resourcebindings.work.karmada.io \"nothing\" not found");
    // A newer kubectl continues: `from shop namespace`.
    let deleted = kubectl.run(&with(&["delete", "rb", "web"])).await;
    assert!(deleted.starts_with("resourcebinding.work.karmada.io \"web\" deleted"), "{deleted}");
    kubectl.run(&with(&["delete", "rb", "--all"])).await;
    assert_eq!(kubectl.run(&with(&["get", "rb", "-o", "name"])).await, "");
    server.stop().await;
}

#[tokio::test]
async fn de15_kubectl_watches_and_waits_for_the_end() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let file = kubectl.file("r.yaml", &rebalancer("r"));
    kubectl.run(&["create", "-f", &file]).await;
    let mut watching = kubectl
        .command(&["get", "workloadrebalancers", "-w", "--output-watch-events"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await;
        line.expect("the watch says something").unwrap().unwrap()
    };
    assert_eq!(columns(&next().await), ["EVENT", "NAME", "AGE"]);
    assert_eq!(columns(&next().await)[..2], ["ADDED", "r"]);
    kubectl.run(&["label", "workloadrebalancer", "r", "a=b"]).await;
    assert_eq!(columns(&next().await)[..2], ["MODIFIED", "r"]);
    let waiting = kubectl.command(&["wait", "workloadrebalancer/r", "--for=delete", "--timeout=30s"]).output();
    let (waited, deleted) = tokio::join!(waiting, kubectl.run(&["delete", "workloadrebalancer", "r"]));
    assert!(waited.unwrap().status.success());
    assert!(deleted.contains("deleted"));
    assert_eq!(columns(&next().await)[..2], ["DELETED", "r"]);
    watching.kill().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn kubectl_explains_and_validates_by_the_schema() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let all = kubectl.run(&["explain", "workloadrebalancers", "--recursive"]).await;
    assert!(all.contains("ttlSecondsAfterFinished\t<integer>"), "{all}");
    let field = kubectl.run(&["explain", "resourcebindings.spec.replicas"]).await;
    assert!(field.contains("FIELD: replicas <integer>"), "{field}");
    let mut object = rebalancer("r");
    object["spec"]["surprise"] = json!(true);
    let file = kubectl.file("r.yaml", &object);
    let refused = kubectl.fail(&["create", "-f", &file]).await;
    assert!(refused.contains("strict decoding error: unknown field \"spec.surprise\""), "{refused}");
    object["spec"] = json!({"workloads": []});
    let file = kubectl.file("r.yaml", &object);
    let refused = kubectl.fail(&["create", "-f", &file]).await;
    assert!(refused.contains("spec.workloads"), "{refused}");
    let task = kubectl.file("task.yaml", &task("t"));
    assert_eq!(kubectl.run(&["create", "-f", &task]).await, "rescheduletask.task.karmada.io/t created\n");
    server.stop().await;
}

#[tokio::test]
async fn r75_kubectl_shows_events_in_lists_and_descriptions() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let web = kubectl.file("web.yaml", &binding("web"));
    kubectl.run(&["-n", "shop", "create", "-f", &web]).await;
    let uid = kubectl.run(&["-n", "shop", "get", "rb", "web", "-o", "jsonpath={.metadata.uid}"]).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1"},
        "involvedObject": {
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "namespace": "shop", "name": "web",
            "uid": uid,
        },
        "type": "Normal", "reason": "ScheduleBindingSucceed", "message": "Binding has been scheduled successfully.",
        "source": {"component": "default-scheduler"}, "count": 3,
        "firstTimestamp": "2024-04-17T15:00:05Z", "lastTimestamp": "2024-04-17T15:00:36Z",
    });
    let file = kubectl.file("event.yaml", &event);
    assert_eq!(kubectl.run(&["-n", "shop", "create", "-f", &file]).await, "event/web.1 created\n");
    let table = kubectl.run(&["-n", "shop", "get", "events"]).await;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(columns(lines[0]), ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], "{table}");
    assert_eq!(columns(lines[1])[1..4], ["Normal", "ScheduleBindingSucceed", "resourcebinding/web"], "{table}");
    let description = kubectl.run(&["-n", "shop", "describe", "rb", "web"]).await;
    let told = description.lines().find(|line| line.contains("ScheduleBindingSucceed"));
    assert!(told.is_some_and(|line| line.contains("(x3 over ") && line.contains("default-scheduler")), "{description}");
    let chosen = |selector: &'static str| {
        let kubectl = &kubectl;
        async move { kubectl.run(&["get", "ev", "-A", "-o", "name", "--field-selector", selector]).await }
    };
    assert_eq!(chosen("reason=ScheduleBindingSucceed,involvedObject.kind=ResourceBinding").await, "event/web.1\n");
    assert_eq!(chosen("type=Warning").await, "");
    let refused = kubectl.fail(&["get", "events", "--field-selector", "spec.x=1"]).await;
    assert!(refused.contains("field label not supported: spec.x"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn ap28_and_dr5_kubectl_applies_on_the_server_and_shows_differences() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let mut object = binding("web");
    object["spec"]["replicas"] = json!(2);
    let file = kubectl.file("web.yaml", &object);
    let applied = kubectl.run(&["-n", "shop", "apply", "--server-side", "-f", &file]).await;
    assert_eq!(applied, "resourcebinding.work.karmada.io/web serverside-applied\n");
    assert_eq!(kubectl.run(&["-n", "shop", "diff", "--server-side", "-f", &file]).await, "");
    assert_eq!(kubectl.run(&["-n", "shop", "diff", "-f", &file]).await, "");
    object["spec"]["replicas"] = json!(3);
    let changed = kubectl.file("changed.yaml", &object);
    // Exit status 1, and the lines that differ (DR5).
    let diff = kubectl.output(&["-n", "shop", "diff", "--server-side", "-f", &changed]).await;
    let shown = String::from_utf8_lossy(&diff.stdout);
    assert_eq!(diff.status.code(), Some(1), "{shown}");
    assert!(shown.contains("-  replicas: 2") && shown.contains("+  replicas: 3"), "{shown}");
    kubectl.run(&["-n", "shop", "apply", "--server-side", "--dry-run=server", "-f", &changed]).await;

    let other = ["-n", "shop", "apply", "--server-side", "--field-manager=other", "-f", &changed];
    let refused = kubectl.fail(&other).await;
    assert!(refused.contains("conflict with \"kubectl\": .spec.replicas"), "{refused}");
    kubectl.run(&[&other[..], &["--force-conflicts"]].concat()).await;
    let managers = "jsonpath={.metadata.managedFields[*].manager}";
    let shown = kubectl.run(&["-n", "shop", "get", "rb", "web", "--show-managed-fields", "-o", managers]).await;
    assert_eq!(shown, "kubectl other");
    server.stop().await;
}

#[tokio::test]
async fn ap23_kubectl_moves_from_client_side_to_server_side_apply() {
    let server = TestServer::start().await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let mut object = binding("web");
    object["spec"]["replicas"] = json!(2);
    object["metadata"]["labels"] = json!({"old": "1"});
    let file = kubectl.file("web.yaml", &object);
    kubectl.run(&["-n", "shop", "apply", "-f", &file]).await;
    object["spec"]["replicas"] = json!(3);
    object["metadata"]["labels"] = json!({"new": "1"});
    let file = kubectl.file("web.yaml", &object);
    kubectl.run(&["-n", "shop", "apply", "--server-side", "-f", &file]).await;
    let path = "jsonpath={.spec.replicas}/{.metadata.labels.old}/{.metadata.labels.new}";
    assert_eq!(kubectl.run(&["-n", "shop", "get", "rb", "web", "-o", path]).await, "3//1");
    server.stop().await;
}

#[tokio::test]
async fn kubectl_asks_who_it_is_and_what_it_may() {
    let policy = "rules:\n- {users: [jane], verbs: [get, list], apiGroups: [work.karmada.io], resources: [resourcebindings], \
                  namespaces: [shop]}\n";
    let policy = Some(Policy::parse(policy).unwrap());
    let server = TestServer::with(Options { policy, ..Options::default() }).await;
    let Some(kubectl) = Kubectl::find(&server).await else { return };
    let whoami = kubectl.run(&["auth", "whoami"]).await;
    assert!(whoami.contains("ballast-admin") && whoami.contains("system:masters"), "{whoami}");
    assert_eq!(kubectl.run(&["auth", "can-i", "delete", "clusters", "-A"]).await, "yes\n");
    assert_eq!(kubectl.run(&["auth", "can-i", "get", "/metrics"]).await, "yes\n");
    let as_jane = ["--as=jane", "--as-group=system:authenticated", "-n", "shop"];
    let jane = |arguments: &[&'static str]| [arguments, as_jane.as_slice()].concat();
    assert_eq!(kubectl.run(&jane(&["auth", "can-i", "list", "resourcebindings.work.karmada.io"])).await, "yes\n");
    let no = kubectl.output(&jane(&["auth", "can-i", "delete", "resourcebindings.work.karmada.io"])).await;
    assert_eq!((no.status.code(), &*no.stdout), (Some(1), &b"no\n"[..]), "{}", String::from_utf8_lossy(&no.stderr));
    let rules = kubectl.run(&jane(&["auth", "can-i", "--list"])).await;
    assert!(
        rules.lines().any(|line| line.starts_with("resourcebindings.work.karmada.io") && line.contains("[get list]")),
        "{rules}"
    );
    assert!(kubectl.run(&jane(&["auth", "whoami"])).await.contains("jane"));
    let resources = kubectl.run(&["api-resources", "--api-group=authorization.k8s.io"]).await;
    assert!(resources.contains("selfsubjectaccessreviews"), "{resources}");
    server.stop().await;
}
