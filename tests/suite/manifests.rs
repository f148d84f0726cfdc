//! Checks deploy/ against the program: the manifests are valid for Kubernetes' own types, and name
//! existing groups, flags, rights and metrics.

mod chart;
mod compose;
mod image;
mod krew;
mod others;
mod replicas;
mod schema;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(text: &str) -> Vec<Value> {
    let documents =
        text.split("\n---\n").filter(|it| it.lines().any(|line| !line.starts_with('#') && !line.is_empty()));
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn manifests() -> Vec<Value> {
    let index = &yaml(&read("manifests/kustomization.yaml"))[0];
    // kustomize would also move the RoleBinding that must be in kube-system.
    assert!(index.get("namespace").is_none(), "each manifest says its own namespace");
    let files = index["resources"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
    files.flat_map(|file| yaml(&read(&format!("manifests/{file}")))).collect()
}

/// Fails on a member that the type `K` does not know: it is missing when the object is serialized
/// again.
fn check<K: DeserializeOwned + serde::Serialize>(manifest: &Value) {
    let name = &manifest["metadata"]["name"];
    let read: K = serde_json::from_value(manifest.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = serde_json::to_value(&read).unwrap();
    let mut missing = Vec::new();
    compare(manifest, &written, String::new(), &mut missing);
    assert!(missing.is_empty(), "{name} has members that its kind does not know: {missing:?}");
}

fn compare(given: &Value, known: &Value, path: String, missing: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (member, value) in given {
                let path = format!("{path}.{member}");
                match known.get(member) {
                    Some(known) => compare(value, known, path, missing),
                    None => missing.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            given.iter().zip(known).for_each(|(given, known)| compare(given, known, format!("{path}[]"), missing));
        }
        _ => {}
    }
}

fn check_kind(manifest: &Value) {
    match manifest["kind"].as_str().unwrap() {
        "Namespace" => check::<Namespace>(manifest),
        "ServiceAccount" => check::<ServiceAccount>(manifest),
        "ClusterRole" => check::<ClusterRole>(manifest),
        "ClusterRoleBinding" => check::<ClusterRoleBinding>(manifest),
        "Role" => check::<Role>(manifest),
        "RoleBinding" => check::<RoleBinding>(manifest),
        "Deployment" => check::<Deployment>(manifest),
        "Job" => check::<Job>(manifest),
        "CronJob" => check::<CronJob>(manifest),
        "PersistentVolumeClaim" => check::<PersistentVolumeClaim>(manifest),
        "PodDisruptionBudget" => check::<PodDisruptionBudget>(manifest),
        "Service" => check::<Service>(manifest),
        "NetworkPolicy" => check::<NetworkPolicy>(manifest),
        "APIService" => check::<APIService>(manifest),
        "ServiceMonitor" => others::check::<others::ServiceMonitor>(manifest),
        "PrometheusRule" => others::check::<others::PrometheusRule>(manifest),
        "Issuer" => others::check::<others::Issuer>(manifest),
        "Certificate" => others::check::<others::Certificate>(manifest),
        kind => panic!("nobody checks {kind}"),
    }
}

#[test]
fn every_manifest_is_of_its_kind() {
    let mut all = manifests();
    for apart in ["certificates", "servicemonitor"] {
        all.extend(yaml(&read(&format!("manifests/{apart}.yaml"))));
    }
    all.extend(yaml(&read("beneath-karmada-import/import-job.yaml")));
    assert!(all.len() > 25);
    all.iter().for_each(check_kind);
    let files = std::fs::read_dir(deploy().join("manifests")).unwrap().count();
    assert_eq!(files, 9, "every file is one of those above, or the kustomization");
}

/// The address of a pod in an IPv6 cluster.
const POD_IP: &str = "fd00::7";

/// Returns the effective configuration of its flags and environment, from the built binary.
fn print_config(deployment: &Value) -> String {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args: Vec<&str> = container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ballast"));
    for variable in container["env"].as_array().unwrap() {
        let value = variable["value"].as_str().or_else(|| {
            let is_address = variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP";
            is_address.then_some(POD_IP)
        });
        command.env(variable["name"].as_str().unwrap(), value.expect("a value, or the pod's address"));
    }
    let output = command.args(args.iter().map(|arg| arg.replace("$(POD_IP)", POD_IP))).arg("--print-config").output();
    let output = output.expect("the built binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn ag4_ag10_r22_there_is_an_apiservice_for_each_group_and_version_that_is_served() {
    let manifests = manifests();
    let services: Vec<&Value> = manifests.iter().filter(|it| it["kind"] == "APIService").collect();
    let registered: BTreeSet<String> =
        services.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    let kinds = ballast::api::kinds();
    // The core group is the host cluster's own.
    let served = kinds.rows().iter().filter(|row| !row.group.is_empty());
    let served: BTreeSet<String> = served.map(|row| format!("{}.{}", row.version, row.group)).collect();
    assert_eq!(registered, served);
    assert!(registered.contains("v1alpha1.task.karmada.io"), "what is never stored cannot be a CRD");
    for service in services {
        let spec = &service["spec"];
        let (group, version) = (spec["group"].as_str().unwrap(), spec["version"].as_str().unwrap());
        assert_eq!(service["metadata"]["name"], format!("{version}.{group}"));
        // AG15: kube-apiserver reverts changes of an APIService that it manages.
        assert_eq!(service["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "false");
        assert!((1..=20_000).contains(&spec["groupPriorityMinimum"].as_i64().unwrap()));
        assert!((1..=1_000).contains(&spec["versionPriority"].as_i64().unwrap()));
    }
}

/// With a lower priority, discovery prefers the version of a group that is still a CRD. Garbage
/// collection and `kubectl get rb` then use stale bindings in etcd.
#[test]
fn bk1_discovery_prefers_our_versions_to_those_of_crds() {
    // The priority that kube-apiserver gives each version of a CRD.
    const OF_CRDS: i64 = 100;
    for (whose, rendered) in [("the manifests", manifests()), ("the chart", chart::rendered("placement"))] {
        let services = rendered.iter().filter(|it| it["kind"] == "APIService");
        let priorities: BTreeMap<(&str, &str), i64> = services
            .map(|it| &it["spec"])
            .map(|spec| {
                let text = |name: &str| spec[name].as_str().unwrap();
                ((text("group"), text("version")), spec["versionPriority"].as_i64().unwrap())
            })
            .collect();
        assert!(priorities.contains_key(&("work.karmada.io", "v1alpha2")), "{whose}");
        for (version, priority) in &priorities {
            assert!(*priority > OF_CRDS, "{whose}: {version:?} has {priority}");
        }
        for group in ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io"] {
            assert!(priorities[&(group, "v1")] > priorities[&(group, "v1beta1")], "{whose}: {group}");
        }
    }
}

#[test]
fn az10_the_server_may_ask_what_it_asks() {
    let manifests = manifests();
    let binds = |kind: &str, role: &str| {
        let mut bindings = manifests.iter().filter(|it| it["kind"] == kind);
        bindings.any(|it| it["roleRef"]["name"] == role && it["subjects"][0]["name"] == "ballast")
    };
    assert!(binds("ClusterRoleBinding", "system:auth-delegator"));
    assert!(binds("RoleBinding", "extension-apiserver-authentication-reader"));
    assert!(binds("ClusterRoleBinding", "ballast") && binds("RoleBinding", "ballast:leader"));
}

/// The verbs of a role, by `resource.group`.
fn verbs(role: &Value) -> BTreeMap<String, Vec<&str>> {
    let texts = |list: &'_ Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let mut verbs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let named = verbs.entry(format!("{resource}.{group}")).or_default();
                named.extend(rule["verbs"].as_array().unwrap().iter().map(|verb| verb.as_str().unwrap()));
            }
        }
    }
    verbs
}

#[test]
fn bs5_beside_karmada_the_roles_have_what_is_needed_and_nothing_else() {
    let documents = |file: &str| yaml(&read(&format!("beside-karmada/{file}.yaml")));
    let (reader, attached) = (documents("reader"), documents("attached"));
    reader.iter().chain(&attached).for_each(check_kind);
    let mirrored = |verbs: &[&'static str]| -> BTreeMap<String, Vec<&str>> {
        ballast::attach::ATTACHED_KINDS.map(|kind| (kind.to_string(), verbs.to_vec())).into()
    };

    let mut people = verbs(&reader[0]);
    assert_eq!(people.remove("events."), Some(vec!["list"]), "of which `history` tells");
    assert_eq!(people, mirrored(&["get", "list", "watch"]));

    let role = attached.iter().find(|it| it["kind"] == "ClusterRole").unwrap();
    let mut server = verbs(role);
    for binding in ["resourcebindings", "clusterresourcebindings"] {
        assert_eq!(server.remove(&format!("{binding}/status.work.karmada.io")), Some(vec!["patch"]));
    }
    // A drain closes its clusters (RM34).
    for written in
        ["resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io", "clusters.cluster.karmada.io"]
    {
        let verbs = server.get_mut(written).unwrap();
        let (first, last) = (verbs.remove(0), verbs.pop());
        assert_eq!((first, last), ("get", Some("patch")), "{written}: after a conflict it is read anew");
    }
    assert_eq!(server.remove("events."), Some(vec!["create", "patch"]), "what became of bindings");
    assert_eq!(server, mirrored(&["list", "watch"]));
    let bound = attached.iter().find(|it| it["kind"] == "ClusterRoleBinding").unwrap();
    assert_eq!(bound["roleRef"]["name"], role["metadata"]["name"]);
    let account = attached.iter().find(|it| it["kind"] == "ServiceAccount").unwrap();
    for part in ["name", "namespace"] {
        assert_eq!(bound["subjects"][0][part], account["metadata"][part]);
    }
}

#[test]
fn the_deployments_flags_are_flags() {
    let manifests = manifests();
    let deployment = manifests.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let shown = print_config(deployment);
    assert!(shown.contains("in-cluster: true") && shown.contains("shutdown-delay-duration: 10s"), "{shown}");
}

/// The overlay for a control plane where Karmada's controllers run.
#[test]
fn bk3_beneath_karmada_the_server_neither_taints_nor_evicts_nor_copies_policies() {
    let overlay = &yaml(&read("beneath-karmada/kustomization.yaml"))[0];
    assert_eq!(overlay["resources"], json!(["../manifests"]));
    let patch = &yaml(overlay["patches"][0]["patch"].as_str().unwrap())[0];
    let mut deployment = manifests().into_iter().find(|it| it["kind"] == "Deployment").unwrap();
    let shown = print_config(&deployment);
    assert!(shown.contains("taint-unready-clusters: true"), "{shown}");
    assert!(shown.contains("enable-no-execute-taint-eviction: true"), "{shown}");
    for member in ["apiVersion", "kind", "metadata"] {
        let (patch, deployment) = (&patch[member], &deployment[member]);
        let is_part = |patch: &Value| match patch {
            Value::Object(members) => members.iter().all(|(name, value)| deployment[name] == *value),
            other => other == deployment,
        };
        assert!(is_part(patch), "{member}: {patch} names another object");
    }
    // As in kustomize: containers and variables are found by name.
    let patched = &patch["spec"]["template"]["spec"]["containers"][0];
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], patched["name"]);
    for change in patched["env"].as_array().unwrap() {
        let mut variables = container["env"].as_array_mut().unwrap().iter_mut();
        let variable = variables.find(|it| it["name"] == change["name"]);
        *variable.unwrap_or_else(|| panic!("the manifests do not set {}", change["name"])) = change.clone();
    }
    let shown = print_config(&deployment);
    assert!(shown.contains("taint-unready-clusters: false"), "{shown}");
    assert!(shown.contains("enable-no-execute-taint-eviction: false"), "{shown}");
    assert!(shown.contains("- -application-failover") && shown.contains("- -policy"), "{shown}");
}

/// The Secret's `ca.crt` is renewed with the certificate; a copied file is not.
#[test]
fn prometheus_reads_the_ca_from_the_secret_that_is_renewed() {
    let monitor = &yaml(&read("manifests/servicemonitor.yaml"))[0];
    let deployment = manifests().into_iter().find(|it| it["kind"] == "Deployment").unwrap();
    let mut volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap().iter();
    let secret = &volumes.find(|it| it["name"] == "tls").unwrap()["secret"]["secretName"];
    let tls = &monitor["spec"]["endpoints"][0]["tlsConfig"];
    assert_eq!(tls["ca"], json!({"secret": {"name": secret, "key": "ca.crt"}}));
    assert_eq!(tls["serverName"], "ballast.ballast-system.svc");
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let known: BTreeSet<String> = ballast::metrics::names().into_iter().collect();
    let is_known = |name: &str| {
        let stem = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        known.contains(name) || stem.is_some_and(|stem| known.contains(stem))
    };
    let rules = &yaml(&read("prometheus/ballast.rules.yaml"))[0];
    let dashboard: Value = serde_json::from_str(&read("grafana/ballast.json")).unwrap();
    let mut expressions: Vec<&str> = Vec::new();
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        expressions.push(rule["expr"].as_str().unwrap());
    }
    // A row is a title.
    for panel in dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
        expressions.extend(panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap()));
    }
    assert!(expressions.len() > 30);
    for expression in expressions {
        let names = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| {
            ["apiserver_", "ballast_", "authentication_", "authorization_", "process_"]
                .iter()
                .any(|it| word.starts_with(it))
        });
        for name in names {
            assert!(is_known(name), "{name} in {expression}");
        }
    }
}

/// The job that renews the certificate has only the rights that it needs.
#[test]
fn the_certificates_job_may_change_the_apiservices_and_its_secret_only() {
    let documents = yaml(&read("manifests/certificates.yaml"));
    let find = |kind: &str| documents.iter().find(|it| it["kind"] == kind).unwrap();
    let named = |rule: &Value| -> BTreeSet<String> {
        rule["resourceNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let services: BTreeSet<String> = manifests()
        .iter()
        .filter(|it| it["kind"] == "APIService")
        .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let rules = find("ClusterRole")["rules"].as_array().unwrap();
    assert_eq!((&rules[0]["verbs"], &rules[1]["verbs"]), (&json!(["list"]), &json!(["patch"])));
    assert_eq!(named(&rules[1]), services);
    let rules = find("Role")["rules"].as_array().unwrap();
    assert_eq!((&rules[0]["verbs"], &rules[1]["verbs"]), (&json!(["create"]), &json!(["get", "update"])));
    assert_eq!(named(&rules[1]), BTreeSet::from(["ballast-serving-cert".to_owned()]));
}

/// The import is for the volume and the database of the Deployment.
#[test]
fn bk8_the_import_job_writes_the_deployments_database() {
    let job = &yaml(&read("beneath-karmada-import/import-job.yaml"))[0]["spec"]["template"]["spec"];
    let manifests = manifests();
    let deployment = manifests.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let (serves, imports) = (&deployment["spec"]["template"]["spec"], &job["containers"][0]);
    let words = |container: &Value| -> Vec<String> {
        container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let database = words(&serves["containers"][0]).into_iter().find(|it| it.starts_with("--database-url=")).unwrap();
    assert!(words(imports).contains(&database));
    assert_eq!(imports["volumeMounts"][0], serves["containers"][0]["volumeMounts"][0]);
    assert_eq!(job["volumes"][0], serves["volumes"][0]);
    assert_eq!(
        (&imports["image"], &job["securityContext"]),
        (&serves["containers"][0]["image"], &serves["securityContext"])
    );
    // Its flags are valid: only the kubeconfig is missing here.
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_ballast")).args(words(imports)).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.code() == Some(2) && said.contains("failed to use /etc/karmada/kubeconfig"), "{said}");
}

#[test]
fn containers_are_hardened() {
    let apart = ["manifests/certificates.yaml", "beneath-karmada-import/import-job.yaml"];
    let apart = apart.into_iter().flat_map(|path| yaml(&read(path)));
    let documents: Vec<Value> = manifests().into_iter().chain(apart).collect();
    let pods = documents.iter().filter_map(|it| match it["kind"].as_str().unwrap() {
        "Deployment" | "Job" => Some(&it["spec"]["template"]["spec"]),
        "CronJob" => Some(&it["spec"]["jobTemplate"]["spec"]["template"]["spec"]),
        _ => None,
    });
    let pods: Vec<&Value> = pods.collect();
    assert_eq!(pods.len(), 4);
    for pod in pods {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        for container in pod["containers"].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["readOnlyRootFilesystem"], true);
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }
    let namespace = documents.iter().find(|it| it["kind"] == "Namespace").unwrap();
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
}
