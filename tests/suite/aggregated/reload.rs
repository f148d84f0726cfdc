//! Certificates, CAs, tokens and rules that change under a running server are used at once, and no
//! connection ends for it (AN4, AN12).

use std::fs;
use std::path::Path;

use ballast::node::certs::Files;
use http::Method;
use serde_json::json;

use crate::process::ServerProcess;
use crate::support::aggregated::{Aggregated, CONFIG_MAP, PROXY, config_map};
use crate::support::pki::Ca;
use crate::support::raw::Raw;
use crate::support::wait_for;

const GV: &str = "/apis/work.karmada.io/v1alpha2";
const MASTER: [(&str, &str); 2] = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];

#[tokio::test]
async fn an4_a_changed_config_map_changes_whom_the_server_believes() {
    let server = Aggregated::start().await;
    let old = server.proxy();
    let open_connection = old.connect().await;
    assert_eq!(open_connection.send(Method::GET, GV, &MASTER, "").await.code, 200);

    let next = Ca::new("next-front-proxy-ca");
    let mut map = config_map(&server.client_ca.pem, &next.pem);
    map["data"]["requestheader-username-headers"] = json!(json!(["X-Renamed-User"]).to_string());
    server.host.put(CONFIG_MAP, map);
    let renewed = server.client_of(&next, PROXY, &[], |_| {});
    let renamed = [("X-Renamed-User", "admin"), MASTER[1]];
    wait_for("the new CA to count", async || {
        (renewed.send(Method::GET, GV, &renamed, "").await.code == 200).then_some(())
    })
    .await;
    assert_eq!(renewed.send(Method::GET, GV, &MASTER, "").await.code, 401, "the header has another name now");
    assert_eq!(old.send(Method::GET, GV, &renamed, "").await.code, 401);
    let on_the_old_connection = open_connection.send(Method::GET, GV, &renamed, "").await;
    assert_eq!(on_the_old_connection.code, 401, "what was proved once is looked at again");
    server.stop().await;
}

#[tokio::test]
async fn an4_a_config_map_that_makes_no_sense_changes_nothing() {
    let server = Aggregated::start().await;
    let mut map = config_map(&server.client_ca.pem, "no certificate");
    server.host.put(CONFIG_MAP, map.clone());
    map["data"]["requestheader-client-ca-file"] = json!(server.proxy_ca.pem);
    map["data"]["requestheader-allowed-names"] = json!("[not json");
    server.host.put(CONFIG_MAP, map);
    assert_eq!(server.proxy().send(Method::GET, GV, &MASTER, "").await.code, 200);
    server.stop().await;
}

/// Replaces a file atomically by a rename.
pub(super) fn replace(path: &Path, content: &str) {
    let next = path.with_extension("next");
    fs::write(&next, content).unwrap();
    fs::rename(&next, path).unwrap();
}

#[tokio::test]
async fn an12_ag3_the_serving_certificate_is_renewed_without_a_broken_connection() {
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let names = ["localhost", "ballast.ballast-system.svc"];
    let server = Aggregated::with(|args, folder| {
        let (cert, key) = first.server(folder, &names);
        let fixed = (folder.join("tls.crt"), folder.join("tls.key"));
        fs::rename(cert, &fixed.0).unwrap();
        fs::rename(key, &fixed.1).unwrap();
        fs::create_dir_all(&args.cert_dir).unwrap();
        fs::write(args.cert_dir.join("ca.crt"), &first.pem).unwrap();
        (args.tls_cert_file, args.tls_private_key_file) = (Some(fixed.0), Some(fixed.1));
    })
    .await;
    let connection = server.proxy().connect().await;
    assert_eq!(connection.send(Method::GET, GV, &MASTER, "").await.code, 200);

    let folder = server.folder.path();
    let (cert, key) = second.server(folder, &names);
    // Between the two renames the pair does not match. It must not be used then.
    replace(&folder.join("tls.key"), &fs::read_to_string(key).unwrap());
    replace(&folder.join("tls.crt"), &fs::read_to_string(cert).unwrap());
    fs::write(&server.files.ca_cert, &second.pem).unwrap();
    let seen = server.client_of(&server.proxy_ca, PROXY, &[], |_| {});
    wait_for("the new certificate to be shown", async || seen.try_connect().await.ok()).await;
    assert_eq!(seen.send(Method::GET, GV, &MASTER, "").await.code, 200);
    assert_eq!(connection.send(Method::GET, GV, &MASTER, "").await.code, 200, "the old connection lives on");
    server.stop().await;
}

#[tokio::test]
async fn an12_flags_win_over_the_config_map_and_their_files_are_followed() {
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let server = Aggregated::with(|args, folder| {
        let path = folder.join("proxy-ca.crt");
        fs::write(&path, &first.pem).unwrap();
        args.identity.requestheader_client_ca_file = Some(path);
    })
    .await;
    assert_eq!(server.proxy().send(Method::GET, GV, &MASTER, "").await.code, 401);
    let old = server.client_of(&first, "any name", &[], |_| {});
    assert_eq!(old.send(Method::GET, GV, &MASTER, "").await.code, 200);
    fs::write(server.folder.path().join("proxy-ca.crt"), format!("{}{}", second.pem, first.pem)).unwrap();
    let new = server.client_of(&second, "any name", &[], |_| {});
    wait_for("both CAs to count", async || (new.send(Method::GET, GV, &MASTER, "").await.code == 200).then_some(()))
        .await;
    assert_eq!(old.send(Method::GET, GV, &MASTER, "").await.code, 200);
    server.stop().await;
}

/// An expired certificate is still served. Clients report the error, the log and a metric warn, and
/// a valid certificate replaces it.
#[tokio::test]
async fn an_expired_serving_certificate_is_named_and_a_good_one_heals() {
    let folder = tempfile::tempdir().unwrap();
    let ca = Ca::new("serving");
    let (cert_path, key_path) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let (cert, key) = ca.server_with(folder.path(), &["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    });
    fs::rename(cert, &cert_path).unwrap();
    fs::rename(key, &key_path).unwrap();
    let flags = ["--tls-cert-file", cert_path.to_str().unwrap(), "--tls-private-key-file", key_path.to_str().unwrap()];
    let process = ServerProcess::start(folder.path(), &flags);
    let log = || fs::read_to_string(folder.path().join("log")).unwrap();
    wait_for("the warning", async || log().contains("the serving certificate has expired").then_some(())).await;
    let mut files = Files::in_dir(&folder.path().join("certs"));
    files.ca_cert = folder.path().join("serving-ca.crt");
    fs::write(&files.ca_cert, &ca.pem).unwrap();
    let admin = Raw::admin(process.address, &files);
    let refused = admin.try_connect().await.unwrap_err().to_string();
    assert!(refused.contains("expired"), "{refused}");

    let (cert, key) = ca.server_with(folder.path(), &["localhost"], |params| {
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
    });
    replace(&key_path, &fs::read_to_string(key).unwrap());
    replace(&cert_path, &fs::read_to_string(cert).unwrap());
    wait_for("the good one", async || admin.try_connect().await.ok()).await;
    // The server uses the certificate shortly before the metric has its expiry.
    let line = "ballast_serving_certificate_expiry_timestamp_seconds 4102444800";
    wait_for("its time", async || admin.get("/metrics").await.text().lines().any(|it| it == line).then_some(())).await;
    assert!(process.terminate().success());
}
