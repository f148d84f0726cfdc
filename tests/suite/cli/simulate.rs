//! `ballast simulate` on manifests: on the repository's examples its results are the demo's.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Runs `simulate` in the folder of the examples.
fn simulate(line: &str) -> Output {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.arg("simulate").args(line.split_whitespace()).current_dir(folder).output().expect("the binary runs")
}

/// Returns the results by the id of their binding, and standard error.
fn answers(line: &str, status: i32) -> (Value, String) {
    let done = simulate(line);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr).into_owned());
    assert_eq!(done.status.code(), Some(status), "simulate {line}\n{out}{err}");
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{out}")));
    let by_id = lines.map(|line| (line["id"].as_str().unwrap_or_default().to_owned(), line["clusters"].clone()));
    (Value::Object(by_id.collect()), err)
}

/// Writes a patch file with the targets of a binding.
fn places(folder: &Path, clusters: Value) -> String {
    let path = folder.join("places.yaml");
    // The placement before the failover, as the first eviction records it.
    let home = json!({"targets": [{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]});
    let metadata = json!({"annotations": {"ballast.dev/home": home.to_string()}});
    std::fs::write(&path, json!({"metadata": metadata, "spec": {"clusters": clusters}}).to_string()).unwrap();
    path.display().to_string()
}

const REBALANCE: &str =
    "-f rebalance/clusters.yaml -f rebalance/bindings.yaml --patch clusters=rebalance/cluster-status.yaml";
const DEPLOYMENT: &str = "default/demo-deploy-1-deployment";

#[test]
fn r44_simulate_answers_the_example_of_the_rebalance_as_the_demo_does() {
    let folder = tempfile::tempdir().unwrap();
    let home = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]);
    let (placed, _) = answers(REBALANCE, 0);
    assert_eq!(placed[DEPLOYMENT], home);
    let both = json!([{"name": "member1", "replicas": 0}, {"name": "member2", "replicas": 0}]);
    assert_eq!(placed["demo-role-clusterrole"], both);

    let lost = format!("{REBALANCE} --patch clusters/member1=rebalance/member1-fails.yaml");
    let away = json!([{"name": "member2", "replicas": 4}]);
    assert_eq!(answers(&lost, 0).0[DEPLOYMENT], away);

    let fled = places(folder.path(), away.clone());
    let fled = format!("{REBALANCE} --patch rb/demo-deploy-1-deployment={fled}");
    assert_eq!(answers(&fled, 0).0[DEPLOYMENT], away, "placements are inert");
    let (asked, told) = answers(&format!("{fled} -f rebalance/rebalancer.yaml"), 0);
    assert_eq!(asked[DEPLOYMENT], home);
    assert!(
        told.contains("WorkloadRebalancer demo: Deployment default/demo-deploy-2: ReferencedBindingNotFound"),
        "{told}"
    );
    let (asked, _) = answers(&format!("{fled} -f rebalance/home.yaml"), 0);
    assert_eq!(asked[DEPLOYMENT], home, "a rebalance moves what is displaced");
    let (_, told) = answers(&format!("{fled} -f rebalance/home-undo.yaml"), 0);
    assert!(told.contains("rebalance home-undo: only a server knows the moves of home"), "{told}");

    let diff = simulate(&format!("{fled} -f rebalance/rebalancer.yaml -o diff"));
    let expected = format!(
        "{DEPLOYMENT}\n- member2: 4\n+ member1: 2\n+ member2: 2\ndemo-role-clusterrole\n+ member1: 0\n+ member2: 0\n"
    );
    assert_eq!(String::from_utf8_lossy(&diff.stdout), expected);
    let summary = simulate(&format!("{fled} -f rebalance/rebalancer.yaml -f rebalance/preview.yaml -o summary"));
    let (out, err) = (String::from_utf8_lossy(&summary.stdout), String::from_utf8_lossy(&summary.stderr));
    assert!(out.starts_with("2 bindings: 1 placed, 1 moved, 0 as they were"), "{out}");
    assert!(err.contains("1 PlacementReview"), "what is ignored is named: {err}");
}

/// The pass keeps the binding in place. The rebalance requests a fresh decision, which has no
/// result.
#[test]
fn what_a_rebalance_has_no_place_for_ends_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let away = json!([{"name": "member2", "replicas": 4}]);
    let fled = places(folder.path(), away.clone());
    let taints = folder.path().join("taints.yaml");
    let patch = json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}});
    std::fs::write(&taints, patch.to_string()).unwrap();
    let copied = folder.path().join("copied.yaml");
    let both = json!({"spec": {"clusters": [{"name": "member1"}, {"name": "member2"}]}});
    std::fs::write(&copied, both.to_string()).unwrap();
    let patches = [format!("rb={fled}"), format!("crb={}", copied.display()), format!("clusters={}", taints.display())];
    let alone = patches.iter().fold(REBALANCE.to_owned(), |line, patch| format!("{line} --patch {patch}"));
    assert_eq!(answers(&alone, 0).0[DEPLOYMENT], away);
    let rebalance = folder.path().join("all.yaml");
    let all = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "home"},
                     "spec": {"select": [{"all": true}], "mode": "Fresh"}});
    std::fs::write(&rebalance, all.to_string()).unwrap();
    let (asked, told) = answers(&format!("{alone} -f {}", rebalance.display()), 3);
    assert_eq!(asked[DEPLOYMENT], away, "it stays");
    assert!(
        told.contains("rebalance home: default/demo-deploy-1-deployment") && told.contains("fit nowhere"),
        "{told}"
    );
}

#[test]
fn r5_simulate_answers_the_example_of_the_task_as_the_demo_does() {
    let folder = tempfile::tempdir().unwrap();
    let base = "-f task/clusters.yaml -f task/bindings.yaml --patch clusters=task/cluster-status.yaml";
    let id = "default/nginx-deployment";
    let (placed, _) = answers(base, 0);
    let primary = placed[id].clone();
    let (lost, _) = answers(&format!("{base} --patch clusters/primary=task/primary-fails.yaml"), 0);
    assert_ne!(lost[id], primary, "{lost}");
    let fled = places(folder.path(), lost[id].clone());
    let fled = format!("{base} --patch rb/nginx-deployment={fled}");
    assert_eq!(answers(&format!("{fled} -f task/reschedule-task.yaml"), 0).0[id], primary);
}

#[test]
fn what_fits_nowhere_ends_with_3_and_wrong_patches_with_2() {
    let lost = format!("{REBALANCE} --patch clusters=rebalance/member1-fails.yaml");
    let (_, told) = answers(&lost, 3);
    assert!(told.contains("2 of 2 bindings fit nowhere"), "{told}");
    let summary = String::from_utf8(simulate(&format!("{lost} -o summary")).stdout).unwrap();
    assert!(summary.contains("FITS NOWHERE") && summary.contains(DEPLOYMENT), "{summary}");
    for (flag, words) in [
        ("--patch clusters", "write RESOURCE=FILE"),
        ("--patch clutters=x", "the nearest known name is \"clusters\""),
        ("--patch clusters=missing", "failed to read missing"),
        ("-o shorter", "[possible values: json, table, summary, diff]"),
    ] {
        let done = simulate(&format!("{REBALANCE} {flag}"));
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && told.contains(words), "{flag}: {told}");
    }
}

#[test]
fn manifests_are_read_as_strictly_as_by_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/rebalance"));
    let bindings = std::fs::read_to_string(examples.join("bindings.yaml")).unwrap();
    let clusters = "-f rebalance/clusters.yaml --patch clusters=rebalance/cluster-status.yaml -o summary";
    let file = folder.path().join("bindings.yaml");
    let changed = |from: &str, to: &str| {
        std::fs::write(&file, bindings.replace(from, to)).unwrap();
        simulate(&format!("{clusters} -f {}", file.display()))
    };
    for (from, to, words) in [
        (
            "replicaScheduling:",
            "replicaSchedulng:",
            r#"spec.placement.replicaSchedulng: unknown field; the nearest known field is "replicaScheduling""#,
        ),
        ("replicas: 4", "replicas: four", "spec.replicas in body must be of type integer"),
    ] {
        let done = changed(from, to);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && told.contains(words) && !told.contains(" line "), "{told}");
    }
    let done = changed("member1", "membr1");
    let told = String::from_utf8_lossy(&done.stderr);
    let words = r#"no cluster is named "membr1"; the nearest known name is "member1""#;
    assert!(told.contains(words), "{told}");

    let done = changed("replicas: 4", "replicas: 4");
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr)), (Some(0), "".into()));
    std::fs::copy(examples.join("clusters.yaml"), folder.path().join("clusters.yml")).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no manifest").unwrap();
    let patch = "--patch clusters=rebalance/cluster-status.yaml -o summary";
    let of_folder = simulate(&format!("-f {} {patch}", folder.path().display()));
    assert_eq!(of_folder.stdout, done.stdout, "{}", String::from_utf8_lossy(&of_folder.stderr));

    let empty = folder.path().join("empty.txt");
    std::fs::write(&empty, "# nothing\n---\n").unwrap();
    for file in ["/dev/null".to_owned(), empty.display().to_string()] {
        let done = simulate(&format!("-f {file}"));
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && told.contains("there is no input"), "{told}");
    }
    let all = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "home"},
                     "spec": {"select": [{}], "mode": "Fresh"}});
    std::fs::write(&empty, all.to_string()).unwrap();
    let done = simulate(&format!("{REBALANCE} -f {}", empty.display()));
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.code() == Some(2) && told.contains("write all: true"), "{told}");
}

/// Small inputs with former wrong decisions (docs/dev/requirements.md, S1 to S6). The first line of
/// each specifies the right result.
#[test]
fn s1_to_s6_inputs_that_were_once_decided_wrongly_are_decided_rightly() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/decide");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "the inputs are there");
    let mut faults = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let right = text.lines().next().and_then(|line| line.strip_prefix("# right: ")).expect("says what is right");
        let done = simulate(&format!("-f {}", file.display()));
        let answer: Value = serde_json::from_slice(&done.stdout).expect("one binding, one line");
        let replicas = |cluster: &Value| {
            let replicas = cluster["replicas"].as_i64().unwrap_or(0);
            format!("{}:{replicas}", cluster["name"].as_str().unwrap_or_default())
        };
        let clusters = answer["clusters"].as_array().into_iter().flatten().map(replicas);
        let clusters = clusters.collect::<Vec<_>>().join(" ");
        let is_placed = answer["condition"]["status"] == "True";
        if (if is_placed { &*clusters } else { "refused" }) != right {
            faults.push(format!("{}: {right} is right, not {answer}", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
