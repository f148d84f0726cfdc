//! Runs promtool and kustomize (or kubectl) over deploy/.
//!
//! If a tool is not installed, the test is reported as skipped.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::{deploy, manifests, yaml};
use crate::support::server::TestServer;
use crate::support::skipped;

/// Returns `None` if the tool is not installed.
fn run(tool: &str, args: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new(tool);
    command.args(args).current_dir(deploy()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped(&format!("{tool} is not installed"));
            return None;
        }
        spawned => spawned.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn each_alert_is_raised_by_the_trouble_it_is_for_and_none_by_a_server_that_is_well() {
    for args in [
        ["check", "rules", "prometheus/ballast.rules.yaml"],
        ["test", "rules", "prometheus/ballast.rules.test.yaml"],
        ["test", "rules", "prometheus/ballast.rules.week.test.yaml"],
    ] {
        let Some(output) = run("promtool", &args, "") else { return };
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn each_alert_has_its_trouble() {
    let rules = &yaml(&super::read("prometheus/ballast.rules.yaml"))[0];
    let tests = super::read("prometheus/ballast.rules.test.yaml");
    for alert in alerts(rules) {
        let expected = format!("alertname={}", alert["alert"]);
        let by_rule = format!("alertname: {}\n", alert["alert"].as_str().unwrap());
        assert!(tests.contains(&expected) || tests.contains(&by_rule), "{expected} is expected nowhere");
    }
}

/// The alerts among the rules; others record a value.
fn alerts(rules: &Value) -> Vec<&Value> {
    rules["groups"][0]["rules"].as_array().unwrap().iter().filter(|rule| rule["alert"] != Value::Null).collect()
}

/// Each alert has a description, a unit, and a section of docs/alerts.md with a meaning, a first
/// check and an action. The page has no other sections.
#[test]
fn each_alert_has_a_description_a_unit_and_a_runbook() {
    let rules = &yaml(&super::read("prometheus/ballast.rules.yaml"))[0];
    let page = std::fs::read_to_string(deploy().with_file_name("docs/alerts.md")).unwrap();
    let mut sections: BTreeMap<&str, &str> = page
        .split("\n### ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap())
        .map(|(name, text)| (name, text.split("\n## ").next().unwrap()))
        .collect();
    for alert in alerts(rules) {
        let name = alert["alert"].as_str().unwrap();
        let annotations = &alert["annotations"];
        for annotation in ["summary", "description", "unit"] {
            assert!(annotations[annotation].as_str().is_some_and(|it| !it.is_empty()), "{name} has no {annotation}");
        }
        assert_eq!(annotations["runbook_url"], format!("docs/alerts.md#{}", name.to_lowercase()), "{name}");
        let section = sections.remove(name).unwrap_or_else(|| panic!("docs/alerts.md has no section {name}"));
        for part in ["**Meaning.**", "**First look.**", "**Action.**"] {
            assert!(section.contains(part), "{name}: docs/alerts.md has no {part}");
        }
        let severity = alert["labels"]["severity"].as_str().unwrap();
        let unit = annotations["unit"].as_str().unwrap();
        let first = section.trim().lines().next().unwrap().to_lowercase();
        assert!(first.starts_with(severity) && first.contains(&unit.to_lowercase()), "{name}: {first}");
    }
    assert_eq!(sections.into_keys().collect::<Vec<_>>(), [""; 0], "sections without an alert");
}

/// Without a unit, Grafana shows different quantities alike.
#[test]
fn each_panel_of_the_dashboard_has_a_unit() {
    let dashboard: Value = serde_json::from_str(&super::read("grafana/ballast.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{} has no unit", panel["title"]);
    }
}

#[tokio::test]
async fn me1_prometheus_finds_no_fault_in_the_metrics_but_upstreams_own() {
    let server = TestServer::start().await;
    let reply = server.admin().get("/metrics").await;
    if let Some(output) = run("promtool", &["check", "metrics"], reply.text()) {
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(faults(&told), [""; 0]);
    }
    server.stop().await;
}

/// Also families without a series on this server.
#[test]
fn me1_prometheus_finds_no_fault_in_the_name_of_any_family() {
    let text: String = ballast::metrics::families()
        .iter()
        .filter(|it| it.kind != "histogram")
        .map(|it| format!("# HELP {0} {1}\n# TYPE {0} {2}\n{0} 1\n", it.name, it.help, it.kind))
        .collect();
    assert!(text.contains("ballast_replica_lag_seconds"));
    if let Some(output) = run("promtool", &["check", "metrics"], &text) {
        assert_eq!(faults(&String::from_utf8(output.stderr).unwrap()), [""; 0]);
    }
}

/// Returns the output of promtool, except for a name that kube-apiserver has, and dashboards use.
fn faults(told: &str) -> Vec<&str> {
    told.lines().filter(|line| !line.starts_with("authentication_attempts ")).collect()
}

/// Returns the output of kustomize for a folder; `None` if neither kustomize nor kubectl is
/// installed.
pub fn kustomized(folder: &str) -> Option<Vec<Value>> {
    let has_kustomize = Command::new("kustomize").arg("version").output().is_ok();
    let output = match has_kustomize {
        true => run("kustomize", &["build", folder], ""),
        false => run("kubectl", &["kustomize", folder], ""),
    }?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(yaml(&String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn kustomize_makes_the_manifests_and_nothing_else() {
    let Some(built) = kustomized("manifests") else { return };
    let sorted = |mut objects: Vec<Value>| {
        objects.sort_by_key(|it| format!("{} {} {}", it["kind"], it["metadata"]["namespace"], it["metadata"]["name"]));
        objects
    };
    let built = sorted(built);
    let written = sorted(manifests());
    assert_eq!(built.len(), written.len());
    for (built, written) in built.iter().zip(&written) {
        assert_eq!(built, written);
    }
}
