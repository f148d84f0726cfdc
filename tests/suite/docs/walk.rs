//! Pastes the console blocks of a page into one shell, line by line, and compares the output with
//! the page.
//!
//! Each session has a fresh folder with the binary in the target folder of `cargo build` and with
//! the examples, and separate ports. Lines that begin with `cargo build` are skipped, and `cargo
//! run --` is the binary. Lines that end with ` -w` are interrupted after some seconds. `UPDATE=1
//! cargo test --test commands docs::walk` writes the output to the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use ballast::cli::demo::FleetAtWork;
use ballast::node::kubeconfig::KubeconfigArgs;
use http::StatusCode;
use serde_json::{Value, json};

use super::even::{even, is_shown, leaves_out};
use super::page::{Block, Need, Page, Step, Varies, names, root};
use crate::cli::operator::after_an_outage;
use crate::kube_apiserver::{Cluster, definitions};
use crate::process::ServerProcess;
use crate::support::estimator::{Estimator, Manner, Tls, addresses};
use crate::support::karmada::Front;
use crate::support::objects::{self, ALL_BINDINGS, CLUSTERS};
use crate::support::pki::Ca;
use crate::support::{postgres, skipped, wait_for};

/// Printed before each step, to separate its output from the previous one.
const MARK: &str = "-- step";
const TOOLS: [&str; 3] = ["bash", "kubectl", "curl"];
/// The timeout of a session.
const SECONDS_MAX: &str = "400";
/// How long a watch of kubectl runs.
const WATCH_SECONDS: u32 = 3;

/// The ports on the pages, which a session replaces by others.
const SECURE_PORT: &str = "7443";
const DATABASE_PORT: &str = "54399";

/// The sessions of all pages.
macro_rules! sessions {
    ($($name:ident: $page:literal $need:ident,)*) => {
        const SESSIONS: &[(&str, Need)] = &[$(($page, Need::$need)),*];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                walk($page, Need::$need).await;
            }
        )*
    };
}

sessions! {
    the_readme: "README.md" Nothing,
    the_readme_on_a_karmada: "README.md" Karmada,
    the_readme_with_postgres: "README.md" Postgres,
    after_an_outage_: "docs/after-an-outage.md" Outage,
    the_story_of_after_an_outage: "docs/after-an-outage.md" Nothing,
    during_an_outage_: "docs/during-an-outage.md" DuringOutage,
    a_fleet_in_shape: "docs/in-shape.md" Nothing,
    the_inventory: "docs/inventory.md" Nothing,
    other_clients: "docs/clients.md" Member,
    rooms_that_estimators_know: "docs/room.md" Estimators,
    the_command_line: "docs/cli.md" Nothing,
    beside_karmada: "docs/karmada.md" Karmada,
    beside_and_beneath_a_kube_apiserver: "docs/karmada.md" KubeApiserver,
    beside_karmada_with_few_rights: "docs/karmada.md" OneNamespace,
    what_placements_say: "docs/placement.md" Nothing,
    the_page: "docs/ui.md" Nothing,
}

/// Every console block is in a session, or has a reason for not being run.
#[test]
fn every_console_block_is_run_or_says_why_not() {
    let mut found = BTreeSet::new();
    for page in names().iter().map(|name| Page::read(name)) {
        for Block { line, need, not_run, .. } in &page.blocks {
            match not_run {
                Some(reason) => eprintln!("not run: {}:{line}: {reason}", page.name),
                None => drop(found.insert((page.name.clone(), *need))),
            }
        }
    }
    let run: BTreeSet<_> = SESSIONS.iter().map(|(page, need)| ((*page).to_owned(), *need)).collect();
    assert_eq!(run, found, "`sessions!` has the sessions on the left, and the pages have those on the right");
}

async fn walk(name: &str, need: Need) {
    if let Some(tool) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        return skipped(&format!("{tool} is not on the PATH"));
    }
    let folder = tempfile::tempdir().unwrap();
    symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    symlink(root().join("deploy"), folder.path().join("deploy")).unwrap();
    for profile in ["debug", "release"] {
        let place = folder.path().join("target").join(profile);
        fs::create_dir_all(&place).unwrap();
        symlink(env!("CARGO_BIN_EXE_ballast"), place.join("ballast")).unwrap();
    }
    let page = Page::read(name);
    let steps = steps(&page, need);
    assert!(!steps.is_empty(), "{name} has no step that needs {need:?}");
    let mut shell = Shell::new(folder.path());
    match need {
        Need::Nothing => shell.run(&steps).await,
        Need::Karmada | Need::OneNamespace => {
            // Separate from the folder of the session, where the page starts its own server.
            let other = tempfile::tempdir().unwrap();
            let server = ServerProcess::start(other.path(), &[]);
            leave_member1(&server).await;
            let front = Front::before(client_of(&other.path().join("certs/admin.kubeconfig")).await).await;
            if need == Need::OneNamespace {
                OTHER_NAMESPACES.iter().for_each(|part| front.refuse(part, StatusCode::FORBIDDEN));
            }
            fs::copy(front.kubeconfig(), folder.path().join("karmada.kubeconfig")).unwrap();
            shell.run(&steps).await;
        }
        Need::KubeApiserver => {
            let Some(cluster) = Cluster::start().await else { return };
            become_karmada(&cluster).await;
            let admin = cluster.kubeconfig("admin", &["system:masters"]);
            fs::copy(&admin, folder.path().join("karmada.kubeconfig")).unwrap();
            shell.variables.push(("KUBECONFIG", admin.display().to_string()));
            shell.run(&steps).await;
        }
        Need::Member => {
            let Some(member) = Cluster::start().await else { return };
            let other = tempfile::tempdir().unwrap();
            let secrets = format!("--member-secrets-dir={}", other.path().join("secrets").display());
            let server = ServerProcess::start(other.path(), &[&secrets]);
            join(&server, &member, &other.path().join("secrets/karmada-cluster/m1")).await;
            let admin = other.path().join("certs/admin.kubeconfig").display().to_string();
            shell.variables.push(("KUBECONFIG", admin));
            shell.run(&steps).await;
        }
        Need::Estimators => {
            let files = tempfile::tempdir().unwrap();
            let ca = Ca::new("estimators");
            let tls = Tls { pair: ca.server(files.path(), &["127.0.0.1"]), client_ca: Some(ca.pem.clone()) };
            let one = Estimator::start_with(Manner::Say(3), tls.clone()).await;
            let two = Estimator::start_with(Manner::Say(9), tls).await;
            addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
            let (certificate, key) = ca.client(files.path(), "scheduler", &[], |_| {});
            fs::write(folder.path().join("ca.crt"), &ca.pem).unwrap();
            fs::copy(certificate, folder.path().join("client.crt")).unwrap();
            fs::copy(key, folder.path().join("client.key")).unwrap();
            shell.run(&steps).await;
        }
        Need::Outage | Need::DuringOutage => {
            let other = tempfile::tempdir().unwrap();
            let fleet = match need {
                Need::Outage => FleetAtWork::after_an_outage(other.path()).await.unwrap(),
                _ => FleetAtWork::during_an_outage(other.path()).await.unwrap(),
            };
            shell.variables.push(("KUBECONFIG", fleet.kubeconfig().unwrap().display().to_string()));
            shell.run(&steps).await;
            fleet.stop().await.unwrap();
        }
        Need::Postgres => {
            if postgres::programs().is_none() {
                return postgres::missing();
            }
            shell.user = postgres::other_user();
            // The other user may not enter the folder of the binary.
            let binary = folder.path().join("target/debug/ballast");
            fs::remove_file(&binary).unwrap();
            fs::copy(env!("CARGO_BIN_EXE_ballast"), binary).unwrap();
            shell.run(&steps).await;
        }
    }
    shell.compare(&page, &steps);
}

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/propagationpolicies";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/works";

/// The resources that a user of one namespace may not read.
const OTHER_NAMESPACES: [&str; 4] = [
    "GET /apis/work.karmada.io/v1alpha2/resourcebindings",
    "GET /apis/work.karmada.io/v1alpha2/clusterresourcebindings",
    "GET /apis/policy.karmada.io/v1alpha1/propagationpolicies",
    "GET /apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies",
];

/// Fails and recovers member1, and ends the eviction from it: the replicas on member2 are healthy.
async fn leave_member1(server: &ServerProcess) {
    const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/demo-deploy-1-deployment";
    let client = after_an_outage(server).await;
    // Karmada's scheduler ignores bindings without a policy.
    let managed = json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "1"}}});
    client.merge_patch(BINDING, &managed).await.unwrap();
    let report = json!({"clusterName": "member2", "applied": true, "health": "Healthy"});
    client.merge_patch(&format!("{BINDING}/status"), &json!({"status": {"aggregatedStatus": [report]}})).await.unwrap();
    wait_for("the end of the eviction", async || {
        let events = client.get("/api/v1/events").await.unwrap();
        events.to_string().contains("Evict from cluster member1 succeed.").then_some(())
    })
    .await;
}

/// Registers a kube-apiserver as `member1`. The server finds the secret in this folder, and may
/// impersonate any user in the member.
async fn join(server: &ServerProcess, member: &Cluster, secret: &Path) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "ballast", "namespace": "default"}});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "ballast"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "ballast", "namespace": "default"}]});
    member.apply([&account, &role].into_iter()).await;
    let kubeconfig = fs::read_to_string(member.account_kubeconfig("default", "ballast").await).unwrap();
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    fs::create_dir_all(secret).unwrap();
    fs::write(secret.join("token"), kubeconfig["users"][0]["user"]["token"].as_str().unwrap()).unwrap();
    fs::write(secret.join("caBundle"), member.ca_pem()).unwrap();
    let mut cluster = crate::support::member::cluster(member.address);
    cluster["metadata"]["name"] = "member1".into();
    server.client().await.post(CLUSTERS, &cluster).await.unwrap();
}

/// Creates the objects that the commands of docs/karmada.md expect in a Karmada. Its Deployments
/// have no pods, because there are no nodes.
async fn become_karmada(cluster: &Cluster) {
    let works = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "works.work.karmada.io"},
        "spec": {"group": "work.karmada.io", "scope": "Namespaced", "names": {"kind": "Work", "plural": "works"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    cluster.apply(definitions().iter().chain([&works])).await;
    for kind in [CLUSTERS, ALL_BINDINGS, POLICIES, WORKS] {
        wait_for(kind, async || (cluster.admin().get(kind).await.code == 200).then_some(())).await;
    }
    let namespaces = ["karmada-system", "karmada-cluster"]
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    cluster.apply(namespaces.iter()).await;
    let deployments = ["karmada-scheduler", "karmada-descheduler", "karmada-controller-manager"].map(|name| {
        let labels = json!({"app": name});
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "karmada-system"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": "karmada"}]}}}})
    });
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"resourceSelectors": [selector]}});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "web", "namespace": "karmada-system"}});
    let binding = objects::binding_in("default", "web-deployment", "web", json!({"replicas": 2}));
    cluster.apply(deployments.iter().chain([&policy, &work, &objects::cluster("member1"), &binding])).await;
}

/// The steps of a session, each with its varying parts.
fn steps(page: &Page, need: Need) -> Vec<(Step, Varies)> {
    let blocks = page.blocks.iter().filter(|block| block.need == need && block.not_run.is_none());
    let steps = blocks.flat_map(|block| block.steps.iter().map(|step| (step.clone(), block.varies)));
    steps.filter(|(step, _)| !step.command.starts_with("cargo build")).collect()
}

/// The shell of a session, and its output.
struct Shell<'f> {
    folder: &'f Path,
    ports: BTreeMap<&'static str, u16>,
    variables: Vec<(&'static str, String)>,
    user: Option<(u32, u32)>,
    printed: String,
}

impl Shell<'_> {
    fn new(folder: &Path) -> Shell<'_> {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let ports = [SECURE_PORT, DATABASE_PORT].map(|port| (port, free()));
        let ports = ports.iter().map(|(port, free)| (*port, free.local_addr().unwrap().port())).collect();
        Shell { folder, ports, variables: Vec::new(), user: None, printed: String::new() }
    }

    async fn run(&mut self, steps: &[(Step, Varies)]) {
        // `$?` is that of the previous step.
        let mut script = format!("mark() {{ local status=$?; echo '{MARK}'; return $status; }}\n");
        for (step, _) in steps {
            script += &format!("mark\n{}\n", self.here(&step.command));
        }
        // The servers are stopped even if the session fails.
        script += "kill $(jobs -p) 2> /dev/null; wait\n";
        let path = self.folder.join("walk");
        fs::write(&path, script).unwrap();
        let binaries = self.folder.join("target/debug").display().to_string();
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", SECONDS_MAX, "bash"]).arg(&path).current_dir(self.folder).stdin(Stdio::null());
        command.env("HOME", self.folder).env("BALLAST_SECURE_PORT", self.ports[SECURE_PORT].to_string());
        command.env("PATH", format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default()));
        command.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").env_remove("KUBECONFIG").env_remove("NO_COLOR");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some((user, group)) = self.user {
            chown(self.folder, Some(user), Some(group)).unwrap();
            command.uid(user).gid(group);
        }
        // A pipe would stay open as long as a server holds it.
        let printed = self.folder.join("printed");
        let file = fs::File::create(&printed).unwrap();
        command.stderr(file.try_clone().unwrap()).stdout(file);
        let ended = tokio::task::spawn_blocking(move || command.status().unwrap()).await.unwrap();
        self.printed = fs::read_to_string(printed).unwrap();
        assert!(ended.success(), "the session ended with {ended}:\n{}", self.printed);
        for (named, used) in &self.ports {
            self.printed = self.printed.replace(&used.to_string(), named);
        }
        self.printed = self.printed.replace(&self.folder.display().to_string(), ".");
    }

    /// Returns the command as it is run here.
    fn here(&self, command: &str) -> String {
        let mut command = command.replace("cargo run -- ", "ballast ").replace("/tmp/", "./");
        for (named, used) in &self.ports {
            command = command.replace(named, &used.to_string());
        }
        match command.ends_with(" -w") {
            true => format!("timeout {WATCH_SECONDS} {command}"),
            false => command,
        }
    }

    fn compare(&self, page: &Page, steps: &[(Step, Varies)]) {
        let update = std::env::var_os("UPDATE").is_some();
        let mark = format!("{MARK}\n");
        let mut outputs = self.printed.split(&mark).skip(1);
        let mut changed: Vec<(&Step, &str)> = Vec::new();
        for (step, varies) in steps {
            let line = format!("{}: $ {}", page.name, step.command);
            let printed = outputs.next().unwrap_or_else(|| panic!("{line}\nwas not reached:\n{}", self.printed));
            let got = even(printed.lines(), *varies);
            let shown = even(step.shown.iter().map(String::as_str), *varies);
            if is_shown(&got, &shown) {
                continue;
            }
            if update && !leaves_out(&step.shown) {
                changed.push((step, printed));
                continue;
            }
            let (got, shown) = (got.join("\n"), shown.join("\n"));
            panic!("{line}\n-- shows, evened out:\n{shown}\n-- prints:\n{got}\n-- as it is:\n{printed}");
        }
        write(&page.name, &changed);
    }
}

/// Several sessions may update one page.
static WRITING: Mutex<()> = Mutex::new(());

/// Replaces the output on the page.
fn write(name: &str, changed: &[(&Step, &str)]) {
    if changed.is_empty() {
        return;
    }
    let _alone = WRITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Another session may have moved the lines.
    let mut lines = Page::read(name).lines;
    for (step, printed) in changed.iter().rev() {
        let first_line = format!("$ {}", step.command);
        let command: Vec<&str> = first_line.lines().collect();
        let at = lines.windows(command.len()).position(|window| window == command);
        let at = at.expect("the page has the command") + command.len();
        let printed = printed.trim_end().lines().map(|line| line.trim_end().to_owned());
        lines.splice(at..at + step.shown.len(), printed);
        eprintln!("{name}:{at}: updated");
    }
    fs::write(root().join(name), lines.join("\n") + "\n").unwrap();
}

async fn client_of(kubeconfig: &Path) -> kube::Client {
    let named = KubeconfigArgs { kubeconfig: Some(kubeconfig.to_owned()), ..KubeconfigArgs::default() };
    named.connect().await.unwrap().client
}

fn is_installed(tool: &str) -> bool {
    let version = if tool == "kubectl" { ["version", "--client"].as_slice() } else { &["--version"] };
    Command::new(tool).args(version).output().is_ok_and(|output| output.status.success())
}
