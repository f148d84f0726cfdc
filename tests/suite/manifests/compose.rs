//! Tests of deploy/compose.yaml without Docker.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{read, yaml};

const REPLICAS: [&str; 3] = ["replica-1", "replica-2", "replica-3"];

fn services() -> Value {
    yaml(&read("compose.yaml")).remove(0)["services"].take()
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
}

/// Returns the configuration from the image's environment, overridden by that of the service.
fn configured(service: &Value) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.envs(super::image::environment());
    for (name, value) in service["environment"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    let output = command.args(["serve", "--print-config"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn three_replicas_share_one_database_and_reach_each_other_by_their_names() {
    let services = services();
    let database = &services["database"]["environment"];
    let mut ports = BTreeSet::new();
    for name in REPLICAS {
        let service = &services[name];
        let config = configured(service);
        for shown in ["bind-address: \"0.0.0.0\"".to_owned(), format!("advertise-address: {name}:7443")] {
            assert!(config.contains(&shown), "{shown:?} is missing in:\n{config}");
        }
        let url = service["environment"]["BALLAST_DATABASE_URL"].as_str().unwrap();
        let text = |member: &str| database[member].as_str().unwrap();
        let (user, password, base) = (text("POSTGRES_USER"), text("POSTGRES_PASSWORD"), text("POSTGRES_DB"));
        assert_eq!(url, format!("postgres://{user}:{password}@database/{base}"));
        assert_eq!(service["volumes"], services["certificates"]["volumes"], "all show certificates of one CA");
        assert_eq!(service["depends_on"]["certificates"]["condition"], "service_completed_successfully");
        assert_eq!(service["depends_on"]["database"]["condition"], "service_healthy");
        let port = words(&service["ports"])[0].to_owned();
        assert!(port.starts_with("127.0.0.1:") && port.ends_with(":7443"), "{port}");
        assert!(ports.insert(port), "{name} has a port of its own");
    }
}

#[test]
fn the_certificates_are_for_every_replica_and_made_before_the_first_starts() {
    let services = services();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(words(&services["certificates"]["command"])).env("BALLAST_CERT_DIR", folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The same names again: a certificate that lacked one would be rejected.
    let mut again = Command::new(env!("CARGO_BIN_EXE_ballast"));
    again.args(["certs", "--cert-dir"]).arg(folder.path());
    for name in REPLICAS {
        again.args(["--name", name]);
    }
    assert!(again.status().unwrap().success());
}
