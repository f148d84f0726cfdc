//! `ballast serving-cert`, the job for clusters without cert-manager. It creates, keeps and renews
//! the certificate, and the aggregator trusts the served one at every moment.

use std::path::Path;
use std::process::Output;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};

use crate::support::host::{Fault, Host};

const SECRET: &str = "/api/v1/namespaces/ballast-system/secrets/ballast-serving-cert";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAME: &str = "ballast.ballast-system.svc";

fn register(host: &Host, name: &str, service: &str) {
    let service = json!({"name": service, "namespace": "ballast-system", "port": 443});
    let spec =
        json!({"group": "g", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": service});
    let object = json!({"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": name}, "spec": spec});
    host.put(&format!("{SERVICES}/{name}"), object);
}

async fn run(folder: &Path, flags: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.arg("serving-cert").arg("--kubeconfig").arg(folder.join("host.kubeconfig")).args(flags);
    command.output().await.unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(object: &Value) -> String {
    String::from_utf8(STANDARD.decode(object.as_str().expect("base64")).unwrap()).unwrap()
}

fn bundle(host: &Host, name: &str) -> String {
    text(&host.object(&format!("{SERVICES}/{name}")).unwrap()["spec"]["caBundle"])
}

/// Connects as kube-apiserver does.
fn is_trusted(certificate: &str, bundle: &str) -> bool {
    let leaf = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let leaf = webpki::EndEntityCert::try_from(&leaf).unwrap();
    let cas: Vec<CertificateDer<'_>> =
        CertificateDer::pem_slice_iter(bundle.as_bytes()).collect::<Result<_, _>>().unwrap();
    let anchors: Vec<_> = cas.iter().map(|ca| webpki::anchor_from_trusted_cert(ca).unwrap()).collect();
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let usage = webpki::KeyUsage::server_auth();
    let verified = leaf.verify_for_usage(algorithms, &anchors, &[], UnixTime::now(), usage, None, None);
    let name = ServerName::try_from(NAME).unwrap();
    verified.is_ok() && leaf.verify_is_valid_for_subject_name(&name).is_ok()
}

#[tokio::test]
async fn ag3_the_certificates_job_makes_keeps_and_renews() {
    let (host, folder) = (Host::start().await, tempfile::tempdir().unwrap());
    host.write_kubeconfig(&folder.path().join("host.kubeconfig"));
    register(&host, "v1.ours.io", "ballast");
    register(&host, "v1.theirs.io", "other");
    assert!(said(&run(folder.path(), &[]).await).starts_with("made a certificate for ballast.ballast-system.svc; 1 "));
    let first = host.object(SECRET).unwrap();
    assert_eq!(first["type"], "kubernetes.io/tls");
    let certificate = text(&first["data"]["tls.crt"]);
    assert!(is_trusted(&certificate, &bundle(&host, "v1.ours.io")));
    assert!(text(&first["data"]["tls.key"]).contains("PRIVATE KEY"));
    let theirs = host.object(&format!("{SERVICES}/v1.theirs.io")).unwrap();
    assert_eq!(theirs["spec"]["caBundle"], Value::Null, "others are none of its business");

    // A second run keeps the certificate, and updates an APIService that was added later.
    register(&host, "v2.ours.io", "ballast");
    assert_eq!(said(&run(folder.path(), &[]).await), "the certificate is good; 1 APIServices were told of its CA\n");
    assert_eq!(host.object(SECRET).unwrap()["data"], first["data"]);
    assert!(is_trusted(&certificate, &bundle(&host, "v2.ours.io")));

    // A renewal replaces it, and the old certificate remains trusted while pods still use it.
    assert!(said(&run(folder.path(), &["--renew-before=3000h"]).await).starts_with("made a certificate"));
    let renewed = text(&host.object(SECRET).unwrap()["data"]["tls.crt"]);
    assert_ne!(renewed, certificate);
    for name in ["v1.ours.io", "v2.ours.io"] {
        assert!(is_trusted(&renewed, &bundle(&host, name)) && is_trusted(&certificate, &bundle(&host, name)));
    }
    said(&run(folder.path(), &["--renew-before=3000h"]).await);
    assert!(!is_trusted(&certificate, &bundle(&host, "v1.ours.io")), "the one before the last has had its time");
    assert!(is_trusted(&renewed, &bundle(&host, "v1.ours.io")));
}

#[tokio::test]
async fn a_certificates_job_that_cannot_tell_the_aggregator_changes_no_secret() {
    let (host, folder) = (Host::start().await, tempfile::tempdir().unwrap());
    host.write_kubeconfig(&folder.path().join("host.kubeconfig"));
    register(&host, "v1.ours.io", "ballast");
    host.break_below(SERVICES, Fault::Code(403));
    let output = run(folder.path(), &[]).await;
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("failed to list the APIServices"), "{why}");
    assert!(host.object(SECRET).is_none());
}
