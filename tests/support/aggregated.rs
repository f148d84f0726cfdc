//! A Ballast server behind a fake host cluster, started as `ballast serve` starts it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballast::node::certs::Files;
use ballast::node::config::ServeArgs;
use ballast::node::serve::{self, Running};
use ballast::store::Store;
use rcgen::CertificateParams;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::Host;
use super::pki::Ca;
use super::raw::Raw;

pub const CONFIG_MAP: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
/// The common name of the aggregator's certificate.
pub const PROXY: &str = "front-proxy-client";

pub struct Aggregated {
    pub host: Host,
    pub proxy_ca: Arc<Ca>,
    pub client_ca: Arc<Ca>,
    pub address: SocketAddr,
    pub files: Files,
    pub folder: TempDir,
    running: Running,
}

impl Aggregated {
    pub async fn start() -> Aggregated {
        Aggregated::with(|_, _| {}).await
    }

    /// Starts a server with flags that `shape` changes. It receives the folder of the test.
    pub async fn with(shape: impl FnOnce(&mut ServeArgs, &Path)) -> Aggregated {
        Aggregated::on(Host::start().await, shape).await
    }

    pub async fn on(host: Host, shape: impl FnOnce(&mut ServeArgs, &Path)) -> Aggregated {
        let cas = (Arc::new(Ca::new("front-proxy-ca")), Arc::new(Ca::new("kubernetes")));
        host.put(CONFIG_MAP, config_map(&cas.1.pem, &cas.0.pem));
        Aggregated::start_on(host, cas, None, shape).await
    }

    /// Starts two servers that share a store, one after the other.
    pub async fn pair(store: Arc<dyn Store>, shape: impl Fn(&mut ServeArgs, &Path)) -> [Aggregated; 2] {
        let cas = (Arc::new(Ca::new("front-proxy-ca")), Arc::new(Ca::new("kubernetes")));
        let host = Host::start().await;
        host.put(CONFIG_MAP, config_map(&cas.1.pem, &cas.0.pem));
        let twin = host.twin();
        let first = Aggregated::start_on(host, cas.clone(), Some(Arc::clone(&store)), &shape).await;
        [first, Aggregated::start_on(twin, cas, Some(store), &shape).await]
    }

    /// Starts a second server behind the same host cluster.
    pub async fn beside(&self, shape: impl FnOnce(&mut ServeArgs, &Path)) -> Aggregated {
        let cas = (Arc::clone(&self.proxy_ca), Arc::clone(&self.client_ca));
        Aggregated::start_on(self.host.twin(), cas, None, shape).await
    }

    async fn start_on(
        host: Host,
        (proxy_ca, client_ca): (Arc<Ca>, Arc<Ca>),
        shared: Option<Arc<dyn Store>>,
        shape: impl FnOnce(&mut ServeArgs, &Path),
    ) -> Aggregated {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("host.kubeconfig");
        host.write_kubeconfig(&kubeconfig);
        let mut args = ServeArgs {
            secure_port: 0,
            database_url: "memory:".to_owned(),
            cert_dir: folder.path().join("certs"),
            ..ServeArgs::default()
        };
        args.host.kubeconfig = Some(kubeconfig);
        shape(&mut args, folder.path());
        let files = Files::in_dir(&args.cert_dir);
        let running = match shared {
            None => serve::start(args).await.unwrap(),
            Some(store) => serve::join(args, store).await.unwrap(),
        };
        Aggregated { host, proxy_ca, client_ca, address: running.address, files, folder, running }
    }

    /// A client with a certificate of this CA.
    pub fn client_of(&self, ca: &Ca, name: &str, groups: &[&str], shape: impl FnOnce(&mut CertificateParams)) -> Raw {
        let (cert, key) = ca.client(self.folder.path(), name, groups, shape);
        Raw::with_certificate(self.address, &self.files, &cert, &key)
    }

    /// The aggregator, as a client.
    pub fn proxy(&self) -> Raw {
        self.client_of(&self.proxy_ca, PROXY, &[], |_| {})
    }

    pub fn nobody(&self) -> Raw {
        Raw::nobody(self.address, &self.files)
    }

    /// Waits for the server to end by itself.
    pub async fn ended(mut self) -> anyhow::Result<()> {
        tokio::time::timeout(Duration::from_secs(60), self.running.ended()).await.expect("ends in time")
    }

    pub async fn stop(self) -> (Host, TempDir) {
        tokio::time::timeout(Duration::from_secs(30), self.running.stop()).await.expect("stops in time").unwrap();
        (self.host, self.folder)
    }
}

/// The ConfigMap as kube-apiserver writes it.
pub fn config_map(client_ca: &str, proxy_ca: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1",
    "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
    "data": {
        "client-ca-file": client_ca,
        "requestheader-allowed-names": json!([PROXY]).to_string(),
        "requestheader-client-ca-file": proxy_ca,
        "requestheader-extra-headers-prefix": json!(["X-Remote-Extra-"]).to_string(),
        "requestheader-group-headers": json!(["X-Remote-Group"]).to_string(),
        "requestheader-uid-headers": json!(["X-Remote-Uid"]).to_string(),
        "requestheader-username-headers": json!(["X-Remote-User"]).to_string(),
    }})
}
