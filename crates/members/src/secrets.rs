//! Reads the credentials for member clusters (CP3).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt;

use ballast_host::Host;
use ballast_k8s::names;

/// Maximum size of a value in bytes: the maximum size of a whole Secret in Kubernetes.
const VALUE_BYTES_MAX: u64 = 1024 * 1024;

/// The Secrets that Clusters refer to.
pub enum Secrets {
    /// Secrets of the host cluster.
    Host(Host),
    /// Files `NAMESPACE/NAME/KEY` in a folder, laid out like Secrets mounted in a pod.
    Folder(PathBuf),
    Nowhere,
}

impl Secrets {
    /// Returns one value of a Secret. The error is a sentence that names the Secret.
    pub async fn value(&self, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, String> {
        let failed = |why: String| format!("secret {namespace}/{name}: {why}");
        let value = match self {
            Secrets::Host(host) => {
                let found = host.secret(namespace, name).await.map_err(failed)?;
                let mut found: BTreeMap<String, Vec<u8>> = found.ok_or_else(|| failed("there is none".to_owned()))?;
                found.remove(key)
            }
            Secrets::Folder(folder) => {
                // The name becomes part of a path, so only names that Kubernetes allows are
                // accepted.
                if !names::dns_label_faults(namespace).is_empty() || !names::subdomain_faults(name).is_empty() {
                    return Err(failed("that is no name of a secret".to_owned()));
                }
                let path = folder.join(namespace).join(name).join(key);
                read(&path).await.map_err(|error| failed(format!("failed to read {}: {error}", path.display())))?
            }
            Secrets::Nowhere => {
                let hint = "start it with --kubeconfig, --in-cluster or --member-secrets-dir";
                return Err(failed(format!("this server knows no secrets; {hint}")));
            }
        };
        value.filter(|value| !value.is_empty()).ok_or_else(|| failed(format!("it has no {key:?}")))
    }
}

/// Returns the content of a file, or `None` if it does not exist.
async fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match tokio::fs::File::open(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut value = Vec::new();
    file.take(VALUE_BYTES_MAX + 1).read_to_end(&mut value).await?;
    if value.len() as u64 > VALUE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {VALUE_BYTES_MAX} bytes")));
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cp3_a_folder_holds_secrets_as_a_pod_mounts_them() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("karmada-cluster/m1");
        std::fs::create_dir_all(&secret).unwrap();
        std::fs::write(secret.join("token"), "abc").unwrap();
        std::fs::write(secret.join("empty"), "").unwrap();
        std::fs::write(folder.path().join("outside"), "no").unwrap();
        let secrets = Secrets::Folder(folder.path().to_owned());
        assert_eq!(secrets.value("karmada-cluster", "m1", "token").await.unwrap(), b"abc");
        for (namespace, name, key, expected) in [
            ("karmada-cluster", "m1", "caBundle", "secret karmada-cluster/m1: it has no \"caBundle\""),
            ("karmada-cluster", "m1", "empty", "secret karmada-cluster/m1: it has no \"empty\""),
            ("..", "..", "outside", "secret ../..: that is no name of a secret"),
            ("a/b", "m1", "token", "secret a/b/m1: that is no name of a secret"),
        ] {
            assert_eq!(secrets.value(namespace, name, key).await.unwrap_err(), expected);
        }
        let large = vec![b'x'; VALUE_BYTES_MAX as usize + 1];
        std::fs::write(secret.join("large"), large).unwrap();
        assert!(secrets.value("karmada-cluster", "m1", "large").await.unwrap_err().contains("more than"));
    }

    #[tokio::test]
    async fn cp3_a_server_without_secrets_says_how_to_give_it_some() {
        let why = Secrets::Nowhere.value("a", "b", "token").await.unwrap_err();
        assert!(why.contains("--member-secrets-dir"), "{why}");
    }
}
