//! The kinds of cert-manager (v1) and the Prometheus operator (v1), as far as deploy/ uses them.
//!
//! The members are those of the CRDs. A member of deploy/ that is not named here fails the test.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct Manifest<S> {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: S,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct Metadata {
    name: String,
    namespace: String,
}

pub fn check<S: DeserializeOwned>(manifest: &Value) {
    if let Err(error) = serde_json::from_value::<Manifest<S>>(manifest.clone()) {
        panic!("{}: {error}", manifest["metadata"]["name"]);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
pub struct ServiceMonitor {
    selector: Selector,
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct Endpoint {
    port: String,
    scheme: String,
    bearer_token_file: String,
    tls_config: TlsConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct TlsConfig {
    server_name: String,
    ca: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
pub struct PrometheusRule {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct Group {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct Alert {
    alert: Option<String>,
    /// The name of a recorded value, in place of an alert.
    record: Option<String>,
    expr: String,
    r#for: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
pub struct Issuer {
    self_signed: Option<BTreeMap<String, String>>,
    ca: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
pub struct Certificate {
    #[serde(default, rename = "isCA")]
    is_ca: bool,
    common_name: Option<String>,
    secret_name: String,
    duration: Option<String>,
    renew_before: Option<String>,
    #[serde(default)]
    dns_names: Vec<String>,
    #[serde(default)]
    usages: Vec<String>,
    private_key: PrivateKey,
    issuer_ref: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "read to see whether it can be read")]
struct PrivateKey {
    algorithm: String,
    size: u16,
    rotation_policy: Option<String>,
}
