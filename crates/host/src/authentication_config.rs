//! The ConfigMap of the host cluster with the CAs of users and front proxies, for extension API
//! servers (AN4). It is read at startup and whenever it changes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use tokio::sync::watch;

use super::connect::Host;
use super::pauses::Pauses;
use super::reviews;
use ballast_auth::Unavailable;
use ballast_base::log_limit::LogLimit;
use ballast_base::telemetry;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const LOOKUP_MAX: Duration = Duration::from_secs(10);

/// Keys and values of the ConfigMap. Empty until it has been read.
pub type Data = BTreeMap<String, String>;

/// The ConfigMap `kube-system/extension-apiserver-authentication`.
pub struct AuthenticationConfig {
    api: Api<ConfigMap>,
    data: watch::Sender<Data>,
}

impl AuthenticationConfig {
    /// Reads the ConfigMap once.
    pub async fn load(host: &Host) -> Result<AuthenticationConfig, Unavailable> {
        let config = AuthenticationConfig::unread(host);
        let looked = tokio::time::timeout(LOOKUP_MAX, config.api.get(NAME)).await;
        let found = looked.map_err(|_| Unavailable("no answer in time".to_owned()))?;
        let map = found.map_err(|error| Unavailable(reviews::sentence(&error)))?;
        config.data.send_replace(map.data.unwrap_or_default());
        Ok(config)
    }

    /// Returns an empty configuration. `follow` reads the ConfigMap as soon as it can.
    pub fn unread(host: &Host) -> AuthenticationConfig {
        let api = Api::namespaced(host.client.clone(), NAMESPACE);
        AuthenticationConfig { api, data: watch::Sender::new(Data::new()) }
    }

    /// Returns a receiver of the content and its changes.
    pub fn data(&self) -> watch::Receiver<Data> {
        self.data.subscribe()
    }

    /// Keeps the content up to date until it is dropped. If the ConfigMap cannot be read, the last
    /// content stays.
    pub async fn follow(self) {
        let failures = LogLimit::new();
        let mut changes = pin!(watch_object(self.api, NAME).backoff(Pauses::default()));
        while let Some(change) = changes.next().await {
            match change {
                Ok(Some(map)) => {
                    let data = map.data.unwrap_or_default();
                    self.data.send_if_modified(|known| {
                        let is_new = *known != data;
                        if is_new {
                            *known = data;
                        }
                        is_new
                    });
                }
                // It was deleted by mistake, or will be created again soon. In both cases the known
                // CAs should stay in use.
                Ok(None) => tracing::warn!("the ConfigMap {NAMESPACE}/{NAME} is gone; its last content stays in use"),
                Err(error) => {
                    if failures.pass().is_some() {
                        tracing::warn!(error = telemetry::with_causes(&error), "failed to watch {NAMESPACE}/{NAME}");
                    }
                }
            }
        }
    }
}
