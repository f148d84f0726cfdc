//! Tests of development certificates: creation, reuse, and rejection with advice.

use std::fs;

use super::*;
use ballast_auth::ClientCa;
use ballast_k8s::Time;

fn now() -> Time {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn fresh() -> (tempfile::TempDir, Files) {
    let dir = tempfile::tempdir().unwrap();
    let files = ensure(dir.path(), &["ballast.example".to_owned()], now()).unwrap();
    (dir, files)
}

fn refusal(dir: &Path, now: Time) -> String {
    format!("{:#}", ensure(dir, &["ballast.example".to_owned()], now).unwrap_err())
}

#[test]
fn a_second_start_changes_no_file() {
    let (dir, files) = fresh();
    write_kubeconfig(&files, "https://127.0.0.1:7443").unwrap();
    let contents = || {
        let mut all: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        all.sort();
        all
    };
    let before = contents();
    assert_eq!(before.len(), 7, "three pairs and a kubeconfig, and nothing left lying about");
    ensure(dir.path(), &["ballast.example".to_owned()], now()).unwrap();
    write_kubeconfig(&files, "https://127.0.0.1:7443").unwrap();
    assert_eq!(contents(), before);
}

#[cfg(unix)]
#[test]
fn keys_and_the_kubeconfig_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, files) = fresh();
    write_kubeconfig(&files, "https://127.0.0.1:7443").unwrap();
    for path in [&files.ca_key, &files.server_key, &files.admin_key, &files.admin_kubeconfig] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
    }
}

#[test]
fn the_admin_certificate_proves_a_master_and_the_serving_certificate_proves_nobody() {
    let (_dir, files) = fresh();
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let ca = ClientCa::from_pem(&fs::read(&files.ca_cert).unwrap(), algorithms).unwrap();
    let user = ca.identify(&[read_cert(&files.admin_cert).unwrap()], now()).unwrap();
    assert_eq!(user.name, "ballast-admin");
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    assert!(user.is_master());
    assert!(ca.identify(&[read_cert(&files.server_cert).unwrap()], now()).is_err());
    let much_later = now().plus_seconds(3 * 365 * 24 * 60 * 60);
    assert!(ca.identify(&[read_cert(&files.admin_cert).unwrap()], much_later).is_err());
    let other = fresh();
    assert!(ca.identify(&[read_cert(&other.1.admin_cert).unwrap()], now()).is_err());
}

#[test]
fn half_a_pair_is_refused_with_advice() {
    for missing in ["ca.crt", "server.crt", "server.key", "admin.crt", "admin.key"] {
        let (dir, _files) = fresh();
        fs::remove_file(dir.path().join(missing)).unwrap();
        let message = refusal(dir.path(), now());
        assert!(message.contains(&format!("{missing} is missing")), "{message}");
        assert!(message.contains("Put it back, or remove"), "{message}");
        assert!(!dir.path().join(missing).exists());
    }
}

#[test]
fn a_lost_ca_is_not_replaced_under_its_leaves() {
    let (dir, files) = fresh();
    fs::remove_file(&files.ca_cert).unwrap();
    fs::remove_file(&files.ca_key).unwrap();
    let message = refusal(dir.path(), now());
    assert!(message.contains("what it signed is there"), "{message}");
}

#[test]
fn a_leaf_is_made_anew_from_the_same_ca_once_its_pair_is_removed() {
    let (dir, files) = fresh();
    let ca = fs::read(&files.ca_cert).unwrap();
    fs::remove_file(&files.server_cert).unwrap();
    fs::remove_file(&files.server_key).unwrap();
    ensure(dir.path(), &["other.example".to_owned()], now()).unwrap();
    assert_eq!(fs::read(&files.ca_cert).unwrap(), ca);
}

#[test]
fn a_ca_whose_key_was_taken_away_still_serves_but_signs_no_more() {
    let (dir, files) = fresh();
    fs::remove_file(&files.ca_key).unwrap();
    ensure(dir.path(), &["ballast.example".to_owned()], now()).unwrap();
    fs::remove_file(&files.admin_cert).unwrap();
    fs::remove_file(&files.admin_key).unwrap();
    let message = refusal(dir.path(), now());
    assert!(message.contains("ca.key is missing, so no certificate can be made"), "{message}");
}

#[test]
fn files_that_do_not_fit_together_are_refused_with_advice() {
    let (dir, files) = fresh();
    let (_other_dir, other) = fresh();
    let garbage = dir.path().join("garbage");
    fs::write(&garbage, "no certificate").unwrap();
    for (target, source, expected) in [
        (&files.server_key, &other.server_key, "is not the key of"),
        (&files.ca_key, &other.ca_key, "is not the key of"),
        (&files.admin_cert, &garbage, "holds no PEM certificate"),
        (&files.admin_key, &garbage, "holds no usable PEM private key"),
    ] {
        let kept = fs::read(target).unwrap();
        fs::copy(source, target).unwrap();
        let message = refusal(dir.path(), now());
        assert!(message.contains(expected) && message.contains("remove"), "{message}");
        assert_eq!(fs::read(target).unwrap(), fs::read(source).unwrap(), "left as it was");
        fs::write(target, kept).unwrap();
    }
    ensure(dir.path(), &[], now()).unwrap();
    for (target, source) in [(&files.ca_cert, &other.ca_cert), (&files.ca_key, &other.ca_key)] {
        fs::copy(source, target).unwrap();
    }
    let message = refusal(dir.path(), now());
    assert!(message.contains("cannot be used with"), "{message}");
}

#[test]
fn expired_certificates_and_missing_names_are_refused_with_advice() {
    let (dir, _files) = fresh();
    let message = refusal(dir.path(), now().plus_seconds(3 * 365 * 24 * 60 * 60));
    assert!(message.contains("server.key to have them made anew"), "{message}");
    let message = format!("{:#}", ensure(dir.path(), &["10.1.2.3".to_owned()], now()).unwrap_err());
    assert!(message.contains("does not hold the name \"10.1.2.3\""), "{message}");
    let message = format!("{:#}", ensure(dir.path(), &["no name".to_owned()], now()).unwrap_err());
    assert!(message.contains("neither a DNS name nor an IP address"), "{message}");
}

#[test]
fn the_kubeconfig_follows_the_address_until_somebody_edits_it() {
    let (_dir, files) = fresh();
    write_kubeconfig(&files, "https://127.0.0.1:1").unwrap();
    write_kubeconfig(&files, "https://127.0.0.1:2").unwrap();
    let text = fs::read_to_string(&files.admin_kubeconfig).unwrap();
    assert!(text.contains("server: https://127.0.0.1:2\n"));
    let edited = text.replacen(KUBECONFIG_MARK, "# mine", 1);
    fs::write(&files.admin_kubeconfig, &edited).unwrap();
    write_kubeconfig(&files, "https://127.0.0.1:3").unwrap();
    assert_eq!(fs::read_to_string(&files.admin_kubeconfig).unwrap(), edited);
}

#[test]
fn the_unspecified_address_is_reached_by_the_loopback_address() {
    for (listened, reached) in [
        ("0.0.0.0:7443", "127.0.0.1:7443"),
        ("[::]:7443", "[::1]:7443"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("10.1.2.3:7443", "10.1.2.3:7443"),
    ] {
        assert_eq!(reachable(listened.parse().unwrap()).to_string(), reached);
    }
}

#[test]
fn a_fresh_certificate_holds_the_address_that_is_listened_on_and_an_existing_one_need_not() {
    let dir = tempfile::tempdir().unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let files = ensure_for(dir.path(), address("10.1.2.3"), now()).unwrap();
    assert!(holds(&files, "10.1.2.3").unwrap());
    ensure_for(dir.path(), address("10.1.2.4"), now()).unwrap();
    let verified_name = |url: &str| {
        write_kubeconfig(&files, url).unwrap();
        fs::read_to_string(&files.admin_kubeconfig).unwrap().contains("tls-server-name: localhost")
    };
    assert!(verified_name("https://10.1.2.4:7443"), "no name of the certificate");
    assert!(!verified_name("https://10.1.2.3:7443") && !verified_name("https://[::1]:7443"));
}
