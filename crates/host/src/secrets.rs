//! Secrets of the host cluster, read individually when they are needed (CP3).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::connect::Host;
use super::reviews::sentence;

const CALL_MAX: Duration = Duration::from_secs(5);

impl Host {
    /// Returns the content of a Secret, by key. `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns a message if the host cluster does not respond within `CALL_MAX`, or rejects the
    /// request.
    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match tokio::time::timeout(CALL_MAX, secrets.get_opt(name)).await {
            Ok(Ok(found)) => Ok(found.map(|secret| {
                secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
            })),
            Ok(Err(error)) => Err(format!("the host cluster did not give it: {}", sentence(&error))),
            Err(_) => Err("the host cluster did not answer in time".to_owned()),
        }
    }
}
