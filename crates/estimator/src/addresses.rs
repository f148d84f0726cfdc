//! The addresses of estimators (RM14): from the file of addresses, if there is one; else from the
//! Service with the cluster's name; else the DNS names of that Service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;

/// The maximum size of the file in bytes. A fleet of a thousand clusters needs a tenth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Looks up Services in the API server, if there is one.
#[async_trait]
pub trait Services: Send + Sync {
    /// Returns the target of the Service as `HOST:PORT`, or `None` if there is no such Service.
    ///
    /// # Errors
    ///
    /// The API server does not respond, or the Service has no target. The text is for people.
    async fn target(&self, namespace: &str, name: &str, port: u16) -> Result<Option<String>, String>;
}

/// The naming scheme of Services, and their port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNames {
    pub namespace: String,
    pub prefix: String,
    pub port: u16,
}

/// A fault in a file of addresses.
#[derive(Debug, thiserror::Error)]
#[error("failed to use {} as addresses of estimators: {why}", path.display())]
pub struct AddressesFault {
    pub path: PathBuf,
    pub why: String,
}

/// A source of addresses.
pub enum Addresses {
    File(AddressFile),
    Services { names: ServiceNames, services: Option<Box<dyn Services>> },
}

impl Addresses {
    /// Returns the addresses to try, in this order. `None` if the cluster has no estimator.
    ///
    /// # Errors
    ///
    /// The addresses cannot be determined at the moment. The text is for people.
    pub async fn of(&self, cluster: &str) -> Result<Option<Vec<String>>, String> {
        let (ServiceNames { namespace, prefix, port }, services) = match self {
            Addresses::File(file) => return Ok(file.address(cluster).map(|address| vec![address])),
            Addresses::Services { names, services } => (names, services),
        };
        let service = format!("{prefix}-{cluster}");
        if let Some(services) = services
            && let Some(target) = services.target(namespace, &service, *port).await?
        {
            return Ok(Some(vec![target]));
        }
        let host = format!("{service}.{namespace}.svc");
        // The second name works if the cluster has another DNS suffix.
        Ok(Some(vec![format!("{host}.cluster.local:{port}"), format!("{host}:{port}")]))
    }

    /// Returns whether the cluster may have an estimator. Sends no request.
    pub fn may_have(&self, cluster: &str) -> bool {
        match self {
            Addresses::File(file) => file.address(cluster).is_some(),
            Addresses::Services { .. } => true,
        }
    }
}

/// A YAML file with one address per cluster: `CLUSTER: HOST:PORT`. It is read again after a change.
/// If the new content is invalid, a warning is logged, and the last valid content stays in use.
pub struct AddressFile {
    path: PathBuf,
    known: Mutex<Known>,
}

struct Known {
    changed: Option<SystemTime>,
    by_cluster: BTreeMap<String, String>,
}

impl AddressFile {
    /// Opens a file of addresses.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not such a map.
    pub fn open(path: &Path) -> Result<AddressFile, AddressesFault> {
        let by_cluster = read(path)?;
        Ok(AddressFile { path: path.to_owned(), known: Mutex::new(Known { changed: changed(path), by_cluster }) })
    }

    fn address(&self, cluster: &str) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = changed(&self.path);
        if changed != known.changed {
            known.changed = changed;
            match read(&self.path) {
                Ok(by_cluster) => known.by_cluster = by_cluster,
                Err(fault) => tracing::warn!(%fault, "the addresses that were read before stay in use"),
            }
        }
        known.by_cluster.get(cluster).cloned()
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|file| file.modified()).ok()
}

fn read(path: &Path) -> Result<BTreeMap<String, String>, AddressesFault> {
    let fault = |why: String| AddressesFault { path: path.to_owned(), why };
    let bytes = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(fault(format!("it has {bytes} bytes, and at most {FILE_BYTES_MAX} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let by_cluster: Option<BTreeMap<String, String>> =
        serde_saphyr::from_str(&text).map_err(|error| fault(error.to_string()))?;
    let by_cluster = by_cluster.unwrap_or_default();
    for (cluster, address) in &by_cluster {
        let is_sound = address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port));
        if !is_sound || endpoint(address, "http").is_none() {
            return Err(fault(format!("{cluster}: {address:?} is no HOST:PORT")));
        }
    }
    Ok(by_cluster)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Converts an address to a URI. `None` if the address is invalid.
pub fn endpoint(address: &str, scheme: &str) -> Option<http::Uri> {
    let uri = format!("{scheme}://{address}").parse::<http::Uri>().ok()?;
    uri.authority().is_some_and(|authority| authority.as_str() == address).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(Result<Option<String>, String>);

    #[async_trait]
    impl Services for One {
        async fn target(&self, namespace: &str, name: &str, port: u16) -> Result<Option<String>, String> {
            assert_eq!((namespace, name, port), ("karmada-system", "karmada-scheduler-estimator-m1", 10352));
            self.0.clone()
        }
    }

    async fn found(services: Option<Result<Option<String>, String>>) -> Result<Option<Vec<String>>, String> {
        let names = ServiceNames {
            namespace: "karmada-system".to_owned(),
            prefix: "karmada-scheduler-estimator".to_owned(),
            port: 10352,
        };
        let services = services.map(|known| Box::new(One(known)) as Box<dyn Services>);
        Addresses::Services { names, services }.of("m1").await
    }

    #[tokio::test]
    async fn rm14_a_service_that_points_elsewhere_wins_over_dns() {
        let target = "estimator.example.com:443".to_owned();
        assert_eq!(found(Some(Ok(Some(target.clone())))).await, Ok(Some(vec![target])));
        let by_dns = [
            "karmada-scheduler-estimator-m1.karmada-system.svc.cluster.local:10352",
            "karmada-scheduler-estimator-m1.karmada-system.svc:10352",
        ];
        for without in [Some(Ok(None)), None] {
            assert_eq!(found(without).await, Ok(Some(by_dns.map(str::to_owned).to_vec())));
        }
        assert_eq!(found(Some(Err("no answer".to_owned()))).await, Err("no answer".to_owned()));
    }

    #[test]
    fn rm14_a_file_of_addresses_is_read_again_when_it_changes() {
        let folder = std::env::temp_dir().join(format!("ballast-addresses-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("addresses.yaml");
        std::fs::write(&path, "m1: 127.0.0.1:1\nm2: '[::1]:2'\n").unwrap();
        let file = AddressFile::open(&path).unwrap();
        assert_eq!(file.address("m1").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(file.address("m2").as_deref(), Some("[::1]:2"));
        assert_eq!(file.address("m3"), None);
        let rewrite = |text: &str, age: u64| {
            std::fs::write(&path, text).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(age);
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        rewrite("m1: 127.0.0.1:3\n", 100);
        assert_eq!(file.address("m1").as_deref(), Some("127.0.0.1:3"));
        rewrite("- nonsense\n", 90);
        assert_eq!(file.address("m1").as_deref(), Some("127.0.0.1:3"));
        for (wrong, told) in [
            ("m1: 127.0.0.1", "no HOST:PORT"),
            ("m1: :80", "no HOST:PORT"),
            ("m1: a/b:80", "no HOST:PORT"),
            ("m1: h:0", "no HOST:PORT"),
        ] {
            std::fs::write(&path, wrong).unwrap();
            let fault = AddressFile::open(&path).err().unwrap().to_string();
            assert!(fault.contains(told) && fault.contains("addresses.yaml"), "{wrong}: {fault}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
