//! Renders the Helm chart and checks the result. With cert-manager the chart renders the same
//! objects as the manifests. With other values it renders only what Kubernetes and `ballast serve`
//! accept.
//!
//! Helm is not installed where tests run. `Template` renders the part of its language that the
//! chart uses: if, else, range, end, and a few functions. Anything else fails the test.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{check_kind, deploy, manifests, print_config, read, yaml};

#[test]
fn the_chart_says_what_the_manifests_say() {
    let values = json!({"certificates": {"source": "cert-manager"}});
    let mut chart = by_name(render("ballast-system", values));
    let certificates = [
        "Issuer ballast-self-signed",
        "Issuer ballast-ca",
        "Certificate ballast-ca",
        "Certificate ballast-serving-cert",
    ];
    for name in certificates {
        assert!(chart.remove(name).is_some(), "{name}");
    }
    let claim = chart.get_mut("PersistentVolumeClaim ballast-data").unwrap();
    assert_eq!(claim["metadata"]["annotations"].take(), json!({"helm.sh/resource-policy": "keep"}));
    claim["metadata"].as_object_mut().unwrap().remove("annotations");
    let mut plain = by_name(manifests());
    plain.remove("Namespace ballast-system");
    for (name, manifest) in &plain {
        assert_eq!(chart.get(name), Some(manifest), "{name}");
    }
    assert_eq!(chart.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
}

#[test]
fn the_charts_own_ca_is_that_of_the_manifests() {
    let mut chart = by_name(render("ballast-system", json!({})));
    let mut job = first_job(&chart);
    job["metadata"]["name"] = json!("ballast-certificates");
    chart.insert("Job ballast-certificates".to_owned(), job);
    for (name, mut manifest) in by_name(yaml(&read("manifests/certificates.yaml"))) {
        if manifest["kind"] == "Job" {
            // Its name stays the same, so it has to go before the next release changes it.
            assert_eq!(manifest["spec"].as_object_mut().unwrap().remove("ttlSecondsAfterFinished"), Some(json!(3600)));
        }
        assert_eq!(chart.get(&name), Some(&manifest), "{name}");
    }
}

/// The Job that makes the first certificate.
fn first_job(chart: &BTreeMap<String, Value>) -> Value {
    let mut jobs = chart.values().filter(|it| it["kind"] == "Job");
    let job = jobs.next().expect("a Job").clone();
    assert!(jobs.next().is_none(), "one Job");
    job
}

/// api-05: GitOps renders each release with revision 1, and a Job's template cannot be changed.
#[test]
fn a_release_has_another_job_only_where_its_template_is_another() {
    let job = |values: Value| first_job(&by_name(render("ballast-system", values)));
    let first = job(json!({}));
    assert_eq!(job(json!({"verbosity": 2, "replicas": 1})), first, "what does not concern it");
    let mut names = vec![first["metadata"]["name"].clone()];
    for values in [
        json!({"image": {"tag": "9.9.9"}}),
        json!({"image": {"digest": format!("sha256:{}", "a".repeat(64))}}),
        json!({"imagePullSecrets": [{"name": "registry"}]}),
        json!({"certificates": {"validDays": 30}}),
        json!({"certificates": {"secretName": "mine"}}),
    ] {
        let other = job(values.clone());
        assert_ne!(other["spec"]["template"], first["spec"]["template"], "{values}");
        names.push(other["metadata"]["name"].clone());
    }
    let count = names.len();
    names.sort_by_key(Value::to_string);
    names.dedup();
    assert_eq!(names.len(), count, "each has a name of its own: {names:?}");
}

/// api-13: YAML parses these as a boolean, a number or null, unless they are quoted.
#[test]
fn names_stay_texts() {
    for name in ["y", "on", "123", "1e3", "null", "-"] {
        let values = json!({
            "database": {"url": "postgres://b@db/b", "passwordSecret": {"name": name, "key": name},
                "caSecret": {"name": name, "key": name}},
            "certificates": {"source": "secret", "secretName": name}, "priorityClassName": name,
            "podLabels": {"a": name}, "imagePullSecrets": [{"name": name}],
        });
        let rendered = by_name(render("ballast-system", values));
        let pod = &rendered["Deployment ballast"]["spec"]["template"];
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let sources = &volumes.iter().find(|it| it["name"] == "database").unwrap()["projected"]["sources"];
        for source in sources.as_array().unwrap() {
            assert_eq!((&source["secret"]["name"], &source["secret"]["items"][0]["key"]), (&json!(name), &json!(name)));
        }
        assert_eq!(volumes.iter().find(|it| it["name"] == "tls").unwrap()["secret"]["secretName"], name);
        assert_eq!(pod["spec"]["priorityClassName"], name);
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": name}]));
        assert_eq!(pod["metadata"]["labels"]["a"], name);
        let file = render("ballast-system", json!({"storage": {"storageClassName": name}}));
        assert_eq!(by_name(file)["PersistentVolumeClaim ballast-data"]["spec"]["storageClassName"], name);
    }
}

/// api-13: common values of charts of such servers.
#[test]
fn values_that_people_look_for_are_there() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let rendered = by_name(render(
        "ballast-system",
        json!({
            "image": {"repository": "registry.example/ballast", "digest": digest},
            "podAnnotations": {"note": "yes"}, "storage": {"accessModes": ["ReadWriteOncePod"]},
            "networkPolicy": {"egressPorts": [4317, 16443]},
            "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": true, "labels": {"release": "prometheus"}},
        }),
    ));
    let pod = &rendered["Deployment ballast"]["spec"]["template"];
    let image = format!("registry.example/ballast@{digest}");
    assert_eq!(pod["spec"]["containers"][0]["image"], image);
    assert_eq!(first_job(&rendered)["spec"]["template"]["spec"]["containers"][0]["image"], image);
    assert_eq!(pod["metadata"]["annotations"]["note"], "yes");
    assert_eq!(rendered["PersistentVolumeClaim ballast-data"]["spec"]["accessModes"], json!(["ReadWriteOncePod"]));
    for name in ["ServiceMonitor ballast", "PrometheusRule ballast"] {
        assert_eq!(rendered[name]["metadata"]["labels"], json!({"release": "prometheus"}), "{name}");
    }
    let ports = rendered["NetworkPolicy ballast"]["spec"]["egress"][0]["ports"].to_string();
    assert!(ports.contains("4317") && ports.contains("16443"), "{ports}");
}

/// api-02: both families have ResourceBindings, and kubectl resolves the name to the first group.
#[test]
fn plural_names_mean_karmadas_kinds() {
    for (whose, documents) in [("the manifests", manifests()), ("the chart", rendered("placement"))] {
        let priority = |group: &str| {
            let of_group = documents.iter().filter(|it| it["kind"] == "APIService" && it["spec"]["group"] == group);
            of_group.map(|it| it["spec"]["groupPriorityMinimum"].as_i64().unwrap()).max().unwrap()
        };
        assert!(priority("work.karmada.io") > priority("placement.kubernetes-fleet.io"), "{whose}");
    }
}

#[test]
fn whatever_the_values_are_the_chart_makes_sense() {
    let all = json!({
        "image": {"repository": "registry.example/ballast", "tag": "1.2.3", "pullPolicy": "Always"},
        "storage": {"size": "20Gi", "storageClassName": "fast"},
        "certificates": {"source": "secret", "secretName": "mine", "caBundle": "Zm9v"},
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}},
        "verbosity": 2, "otlp": {"endpoint": "http://collector.observe:4318", "samplingRatio": "0.1"},
        "extraArgs": ["--max-requests-inflight=800"], "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "only", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}},
        "serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true},
    });
    let little = json!({
        "storage": {"existingClaim": "mine"}, "leaderElect": false, "audit": {"enabled": false},
        "networkPolicy": {"enabled": false}, "podDisruptionBudget": {"enabled": false},
        "apiServices": [{"group": "task.karmada.io", "version": "v1alpha1", "versionPriority": 10}],
    });
    for (values, documents, shown) in [
        (json!({}), 34, "leader-elect-resource-namespace: placement"),
        (all, 29, "otlp-endpoint: http://collector.observe:4318"),
        (little, 22, "leader-elect: false"),
    ] {
        let rendered = render("placement", values);
        rendered.iter().for_each(check_kind);
        assert_eq!(rendered.len(), documents, "{:?}", by_name(rendered).keys());
        let deployment = rendered.iter().find(|it| it["kind"] == "Deployment").unwrap();
        let config = print_config(deployment);
        assert!(config.contains(shown), "{shown:?} is missing in:\n{config}");
        let text = serde_json::to_string(&rendered).unwrap();
        assert!(!text.contains("ballast-system"), "the namespace is the release's");
    }
}

#[test]
fn the_charts_alerts_are_the_alerts() {
    assert_eq!(read("chart/ballast/ballast.rules.yaml"), read("prometheus/ballast.rules.yaml"));
    let rendered = render("ballast-system", json!({"prometheusRule": {"enabled": true}}));
    let rule = rendered.iter().find(|it| it["kind"] == "PrometheusRule").unwrap();
    assert_eq!(rule["spec"], yaml(&read("prometheus/ballast.rules.yaml"))[0]);
    let address = "https://docs.example/alerts";
    let rendered = render("ballast-system", json!({"prometheusRule": {"enabled": true, "runbookUrl": address}}));
    let rule = rendered.iter().find(|it| it["kind"] == "PrometheusRule").unwrap();
    for alert in rule["spec"]["groups"][0]["rules"].as_array().unwrap().iter().filter(|it| it["alert"] != Value::Null) {
        let expected = format!("{address}#{}", alert["alert"].as_str().unwrap().to_lowercase());
        assert_eq!(alert["annotations"]["runbook_url"], expected);
    }
}

#[test]
fn the_charts_service_monitor_is_that_of_the_manifests() {
    let rendered = render("ballast-system", json!({"serviceMonitor": {"enabled": true}}));
    let monitor = rendered.iter().find(|it| it["kind"] == "ServiceMonitor").unwrap();
    assert_eq!(*monitor, yaml(&read("manifests/servicemonitor.yaml"))[0]);
}

#[test]
fn tainting_and_evicting_can_be_left_to_karmadas_controllers() {
    let off = json!({"failover": {"taintUnreadyClusters": false, "evictFromTaintedClusters": false,
        "evictionTimeout": "90s", "evictionsPerSecond": 2}});
    let rendered = render("ballast-system", off);
    let config = print_config(rendered.iter().find(|it| it["kind"] == "Deployment").unwrap());
    for shown in [
        "taint-unready-clusters: false",
        "enable-no-execute-taint-eviction: false",
        "failover-eviction-timeout: 90s",
        "resource-eviction-rate: 2",
    ] {
        assert!(config.contains(shown), "{shown:?} is missing in:\n{config}");
    }
}

#[test]
fn bk3_what_karmadas_controllers_do_can_be_left_to_them() {
    let shown = |values: Value| {
        let rendered = render("ballast-system", values);
        print_config(rendered.iter().find(|it| it["kind"] == "Deployment").unwrap())
    };
    let config = shown(json!({"beneathKarmada": true}));
    for line in ["beneath-karmada: true", "taint-unready-clusters: false", "- -graceful-eviction", "- -policy"] {
        assert!(config.contains(line), "{line:?} is missing in:\n{config}");
    }
    assert!(!config.contains("- -rebalancer"), "{config}");
    let config = shown(json!({"controllers": "*,-rebalancer,-ttl"}));
    assert!(config.contains("- -rebalancer") && config.contains("- -ttl"), "{config}");
    assert!(!config.contains("- -policy"), "{config}");
}

#[test]
fn bs5_beside_karmada_the_server_gets_the_kubeconfig_of_a_secret() {
    let values = json!({"attach": {"kubeconfigSecret": "karmada"}});
    let rendered = render("placement", values.clone());
    rendered.iter().for_each(check_kind);
    let services: Vec<&str> = rendered
        .iter()
        .filter(|it| it["kind"] == "APIService")
        .map(|it| it["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(services, ["v1alpha1.task.karmada.io", "v1alpha1.ballast.dev"], "Karmada's own groups stay with it");
    let notes = notes(values);
    assert!(
        notes.contains("timeout=2m apiservice/v1alpha1.task.karmada.io apiservice/v1alpha1.ballast.dev\n"),
        "{notes}"
    );
    let deployment = rendered.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let config = print_config(deployment);
    assert!(config.contains("attach: /etc/ballast/karmada/kubeconfig"), "{config}");
    let pod = &deployment["spec"]["template"]["spec"];
    let named = |list: &Value| list.as_array().unwrap().iter().find(|it| it["name"] == "karmada").cloned().unwrap();
    assert_eq!(named(&pod["volumes"])["secret"]["secretName"], "karmada");
    assert_eq!(named(&pod["volumes"])["secret"]["items"], json!([{"key": "kubeconfig", "path": "kubeconfig"}]));
    assert_eq!(named(&pod["containers"][0]["volumeMounts"])["mountPath"], "/etc/ballast/karmada");
}

#[test]
fn sg17_gates_may_ask_what_the_values_allow() {
    let gates = json!({"gates": {"addressAllow": ["https://prom.example/api", "http://ci.example:8080"],
        "secretName": "gates", "headersKey": "headers.yaml", "caKey": "ca.crt"}});
    let rendered = render("placement", gates);
    rendered.iter().for_each(check_kind);
    let deployment = rendered.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let config = print_config(deployment);
    for line in [
        "- https://prom.example/api",
        "- http://ci.example:8080",
        "gate-headers-file: /etc/ballast/gates/headers.yaml",
        "gate-ca-file: /etc/ballast/gates/ca.crt",
    ] {
        assert!(config.contains(line), "{line:?} is missing in:\n{config}");
    }
    let pod = &deployment["spec"]["template"]["spec"];
    let named = |list: &Value| list.as_array().unwrap().iter().find(|it| it["name"] == "gates").cloned();
    assert_eq!(named(&pod["volumes"]).unwrap()["secret"]["secretName"], "gates");
    assert_eq!(named(&pod["containers"][0]["volumeMounts"]).unwrap()["mountPath"], "/etc/ballast/gates");
    let rendered = render("placement", json!({}));
    let deployment = rendered.iter().find(|it| it["kind"] == "Deployment").unwrap();
    assert_eq!(named(&deployment["spec"]["template"]["spec"]["volumes"]), None);
}

#[test]
fn the_schema_refuses_values_that_the_chart_cannot_use() {
    assert_eq!(faults(&json!({})), [""; 0]);
    let refused = [
        (json!({"certificates": {"source": "typo"}}), "/certificates/source"),
        (json!({"certificates": {"sources": "job"}}), "/certificates"),
        (json!({"certificates": {"validDays": 0}}), "/certificates/validDays"),
        (json!({"certificates": {"schedule": "daily"}}), "/certificates/schedule"),
        (json!({"failover": {"evictFromTaintedClusters": "no"}}), "/failover/evictFromTaintedClusters"),
        (json!({"failover": {"evictionsPerSecond": -1}}), "/failover/evictionsPerSecond"),
        (json!({"failover": {"evictionTimeout": "5 minutes"}}), "/failover/evictionTimeout"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "/image/pullPolicy"),
        (json!({"storage": {"size": "much"}}), "/storage/size"),
        (json!({"resources": {"limits": {"memory": "1 GB"}}}), "/resources/limits/memory"),
        (json!({"extraArgs": "--v=2"}), "/extraArgs"),
        (json!({"beneathKarmada": "yes"}), "/beneathKarmada"),
        (json!({"attach": {"kubeconfigSecret": "My Secret"}}), "/attach/kubeconfigSecret"),
        (json!({"attach": {"kubeconfig": "karmada"}}), "/attach"),
        // Attached and behind exclude each other.
        (json!({"attach": {"kubeconfigSecret": "karmada"}, "beneathKarmada": true}), ""),
        (json!({"prometheusRule": {"runbookUrl": ""}}), "/prometheusRule/runbookUrl"),
        (json!({"controllers": "*, -policy"}), "/controllers"),
        (json!({"gates": {"addressAllow": ["prom.example"]}}), "/gates/addressAllow/0"),
        (json!({"gates": {"addressAllow": ["https://one.example,https://two.example"]}}), "/gates/addressAllow/0"),
        (json!({"otlp": {"endpoint": "collector:4318"}}), "/otlp/endpoint"),
        (json!({"apiServices": []}), "/apiServices"),
        (json!({"apiServices": [{"group": "apps", "version": "v1", "versionPriority": 1}]}), "/apiServices/0/group"),
        (json!({"audits": {"enabled": false}}), ""),
        // A file belongs to one process.
        (json!({"replicas": 3}), ""),
        (json!({"replicas": 0}), "/replicas"),
        (json!({"database": {"url": "sqlite:///var/lib/ballast/ballast.db"}}), "/database/url"),
        (json!({"database": {"passwordSecret": "mine"}}), "/database/passwordSecret"),
        (json!({"database": {"leaderLeaseSeconds": 0}}), "/database/leaderLeaseSeconds"),
        (json!({"history": "1d"}), "/history"),
    ];
    for (values, place) in refused {
        let faults = faults(&values);
        let is_there = faults.iter().any(|fault| fault.starts_with(&format!("{place}: ")));
        assert!(is_there, "{values} is not refused at {place:?}: {faults:?}");
    }
}

/// A value outside the schema would be rejected, and one without use in the chart would have no
/// effect.
#[test]
fn the_schema_knows_the_values_and_nothing_else() {
    let schema: Value = serde_json::from_str(&read("chart/ballast/values.schema.json")).unwrap();
    let values = merged(&json!({}));
    let known = schema["properties"].as_object().unwrap().keys().filter(|name| *name != "global");
    let mut known: Vec<&String> = known.collect();
    let mut there: Vec<&String> = values.as_object().unwrap().keys().collect();
    known.sort();
    there.sort();
    assert_eq!(known, there);
}

fn notes(values: Value) -> String {
    let text = read("chart/ballast/templates/NOTES.txt");
    Template::parse(&text).render(&root("placement", &values))
}

#[test]
fn the_notes_say_what_is_missing_and_what_to_wait_for() {
    let told = notes(json!({}));
    for part in [
        "-n placement rollout",
        " apiservice/v1alpha1.apps.karmada.io ",
        "get jobs -l app.kubernetes.io/name=ballast-certificates",
        "set beneathKarmada.",
    ] {
        assert!(told.contains(part), "{part:?} is missing in:\n{told}");
    }
    let told = notes(json!({"certificates": {"source": "secret"}, "failover": {"evictFromTaintedClusters": false}}));
    for part in ["certificates.caBundle is empty", "Ballast does not evict"] {
        assert!(told.contains(part), "{part:?} is missing in:\n{told}");
    }
    let beneath = notes(json!({"beneathKarmada": true}));
    assert!(beneath.contains("to Karmada's controllers") && !beneath.contains("would happen twice"), "{beneath}");
    assert!(!told.contains("get jobs"), "{told}");
}

/// Returns Helm's errors for these values over the chart's own: `field: fault`.
fn faults(values: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(&read("chart/ballast/values.schema.json")).unwrap();
    super::schema::faults(&schema, &merged(values))
}

pub fn by_name(manifests: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |it: &Value| format!("{} {}", it["kind"].as_str().unwrap(), it["metadata"]["name"].as_str().unwrap());
    manifests.into_iter().map(|manifest| (name(&manifest), manifest)).collect()
}

/// All documents of the chart with its own values.
pub fn rendered(namespace: &str) -> Vec<Value> {
    render(namespace, json!({}))
}

/// All documents of the chart with these values over its own.
pub fn render(namespace: &str, values: Value) -> Vec<Value> {
    let root = root(namespace, &values);
    assert_eq!(faults(&values), [""; 0], "Helm would refuse these values");
    let mut files: Vec<_> = std::fs::read_dir(deploy().join("chart/ballast/templates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let texts = files.iter().map(|path| Template::parse(&std::fs::read_to_string(path).unwrap()).render(&root));
    texts.flat_map(|text| yaml(&format!("{text}\n"))).collect()
}

/// The values for templates: these values over the chart's own, the release and the chart.
fn root(namespace: &str, values: &Value) -> Value {
    let chart: Value = serde_saphyr::from_str(&read("chart/ballast/Chart.yaml")).unwrap();
    json!({
        "Values": merged(values), "Release": {"Namespace": namespace, "Name": "ballast", "Revision": 3},
        "Chart": {"AppVersion": chart["appVersion"]},
    })
}

fn merged(values: &Value) -> Value {
    let mut all: Value = serde_saphyr::from_str(&read("chart/ballast/values.yaml")).unwrap();
    json_patch::merge(&mut all, values);
    all
}

enum Piece {
    Text(String),
    Action(String),
}

struct Template(Vec<Piece>);

/// The values of `.` and `$`.
#[derive(Clone, Copy)]
struct Scope<'v> {
    root: &'v Value,
    dot: &'v Value,
}

impl Template {
    fn parse(text: &str) -> Template {
        let (mut pieces, mut rest) = (Vec::new(), text);
        let mut trims = false;
        while let Some(start) = rest.find("{{") {
            let end = start + rest[start..].find("}}").expect("an action ends");
            let (before, action) = (&rest[..start], &rest[start + 2..end]);
            let before = if trims { before.trim_start() } else { before };
            let left = action.strip_prefix('-');
            let before = if left.is_some() { before.trim_end() } else { before };
            let action = left.unwrap_or(action);
            trims = action.ends_with('-');
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Action(action.trim_end_matches('-').trim().to_owned()));
            rest = &rest[end + 2..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Template(pieces)
    }

    fn render(&self, root: &Value) -> String {
        let mut out = String::new();
        self.run(0, self.0.len(), Scope { root, dot: root }, &mut out);
        out
    }

    fn run(&self, from: usize, to: usize, scope: Scope<'_>, out: &mut String) {
        let mut at = from;
        while at < to {
            match &self.0[at] {
                Piece::Text(text) => out.push_str(text),
                Piece::Action(action) => match action.split_once(' ').unwrap_or((action, "")) {
                    ("if", condition) => {
                        let (otherwise, end) = self.block(at);
                        match is_true(&evaluate(condition, scope)) {
                            true => self.run(at + 1, otherwise.unwrap_or(end), scope, out),
                            false => self.run(otherwise.map_or(end, |it| it + 1), end, scope, out),
                        }
                        at = end;
                    }
                    ("range", list) => {
                        let (_, end) = self.block(at);
                        for dot in evaluate(list, scope).as_array().expect("range wants a list") {
                            self.run(at + 1, end, Scope { dot, ..scope }, out);
                        }
                        at = end;
                    }
                    _ => out.push_str(&shown(&evaluate(action, scope))),
                },
            }
            at += 1;
        }
    }

    /// Returns the positions of the `else`, if any, and the `end` of the block that begins here.
    fn block(&self, start: usize) -> (Option<usize>, usize) {
        let (mut depth, mut otherwise) = (0, None);
        for (at, piece) in self.0.iter().enumerate().skip(start + 1) {
            let Piece::Action(action) = piece else { continue };
            match action.split(' ').next().unwrap() {
                "if" | "range" => depth += 1,
                "end" if depth == 0 => return (otherwise, at),
                "end" => depth -= 1,
                "else" if depth == 0 => otherwise = Some(at),
                _ => {}
            }
        }
        panic!("a block has no end")
    }
}

/// `a | f b | g`: each function receives the preceding value as its last argument.
fn evaluate(pipeline: &str, scope: Scope<'_>) -> Value {
    let mut piped = None;
    for stage in split_outside_parentheses(pipeline, " | ") {
        let mut words = split_outside_parentheses(stage, " ").into_iter();
        let first = words.next().expect("a stage has a word");
        let mut arguments: Vec<Value> = words.map(|word| term(word, scope)).collect();
        arguments.extend(piped.take());
        piped = Some(match (first, &*arguments) {
            (".Files.Get", [name]) => json!(read(&format!("chart/ballast/{}", shown(name)))),
            ("eq", [one, other]) => json!(one == other),
            ("ne", [one, other]) => json!(one != other),
            ("or", [one, other]) => (if is_true(one) { one } else { other }).clone(),
            ("not", [value]) => json!(!is_true(value)),
            ("default", [fallback, value]) => {
                if is_true(value) {
                    value.clone()
                } else {
                    fallback.clone()
                }
            }
            ("list", items) => json!(items),
            ("has", [item, list]) => json!(list.as_array().expect("a list").contains(item)),
            ("replace", [old, new, text]) => json!(shown(text).replace(&shown(old), &shown(new))),
            ("toJson", [value]) => json!(value.to_string()),
            ("sha256sum", [value]) => json!(hex(&Sha256::digest(shown(value)))),
            ("trunc", [count, value]) => {
                json!(shown(value).chars().take(usize::try_from(count.as_u64().unwrap()).unwrap()).collect::<String>())
            }
            ("quote", [value]) => json!(serde_json::to_string(&shown(value)).unwrap()),
            ("toYaml", [value]) => json!(serde_saphyr::to_string(value).unwrap().trim_end()),
            ("nindent", [count, value]) => {
                let margin = " ".repeat(usize::try_from(count.as_u64().unwrap()).unwrap());
                json!(shown(value).lines().map(|line| format!("\n{margin}{line}")).collect::<String>())
            }
            (value, []) => term(value, scope),
            (function, _) => panic!("this renderer does not know {function:?}"),
        });
    }
    piped.unwrap()
}

/// Splits a text where the separator is not inside of parentheses.
fn split_outside_parentheses<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(word: &str, scope: Scope<'_>) -> Value {
    if let Some(inner) = word.strip_prefix('(') {
        return evaluate(inner.strip_suffix(')').expect("a closed parenthesis"), scope);
    }
    if let Some(text) = word.strip_prefix('"') {
        return json!(text.strip_suffix('"').expect("a text without spaces"));
    }
    if let Ok(number) = word.parse::<u64>() {
        return json!(number);
    }
    let (start, path) = match word.strip_prefix('$') {
        Some(path) => (scope.root, path),
        None => (scope.dot, word),
    };
    let path = path.strip_prefix('.').unwrap_or_else(|| panic!("{word:?} is no path"));
    let members = path.split('.').filter(|member| !member.is_empty());
    // The values have every name; the entries of a list have the user's fields.
    let is_entry = !std::ptr::eq(start, scope.root);
    members.fold(start.clone(), |value, member| match value.get(member) {
        Some(value) => value.clone(),
        None if is_entry => Value::Null,
        None => panic!("{word}: there is no {member}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
