//! Connections to the host cluster.

use std::path::{Path, PathBuf};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// The address of the host cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAddress {
    Kubeconfig(PathBuf),
    /// The service account of this pod.
    InCluster,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("failed to use {path} as kubeconfig")]
    Kubeconfig {
        path: String,
        #[source]
        source: kube::config::KubeconfigError,
    },
    #[error("failed to use the service account of this pod; is this a pod?")]
    InCluster(#[source] kube::config::InClusterError),
    #[error("failed to prepare the connection to the host cluster")]
    Client(#[source] kube::Error),
}

/// A host cluster. Cheap to clone. It connects with the first request.
#[derive(Clone)]
pub struct Host {
    pub(super) client: Client,
}

impl Host {
    /// Prepares a connection. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the kubeconfig or the service account cannot be used.
    pub async fn connect(place: &HostAddress) -> Result<Host, ConnectError> {
        let mut config = match place {
            HostAddress::Kubeconfig(path) => from_kubeconfig(path).await?,
            HostAddress::InCluster => Config::incluster().map_err(ConnectError::InCluster)?,
        };
        // Callers have deadlines and their own retries.
        config.default_retry = false;
        Ok(Host { client: Client::try_from(config).map_err(ConnectError::Client)? })
    }
}

/// Reads the current context of a kubeconfig.
pub(super) async fn from_kubeconfig(path: &Path) -> Result<Config, ConnectError> {
    let read = async {
        let kubeconfig = Kubeconfig::read_from(path)?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
    };
    read.await.map_err(|source| ConnectError::Kubeconfig { path: path.display().to_string(), source })
}
