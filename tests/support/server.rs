//! A server in this process: the registry that `ballast serve` composes, real TLS on a free port,
//! and certificates in a temporary folder. It has no running workers.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballast::auth::{Authenticator, Authorizer, ClientCa, OPEN_PATHS, Policy, Trust};
use ballast::clock::{Clock, SystemClock};
use ballast::engine::karmada::Profile;
use ballast::events::Recorder;
use ballast::members::{Members, Secrets};
use ballast::node::assembly;
use ballast::node::certs::{self, Files};
use ballast::node::config::ApprovedKind;
use ballast::rebalance::gates::address::AllowedAddress;
use ballast::rebalance::review::ReviewDetails;
use ballast::registry::Registry;
use ballast::server::audit::Audit;
use ballast::server::page::Surroundings;
use ballast::server::{
    self, App, Check, ConnectionLimits, Cors, Documents, InFlight, Proxy, ServeOptions, Shutdown, Tls,
};
use ballast::store::{MemoryStore, SqliteStore, Store};
use ballast::watch::{Limits, Task};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::raw::Raw;

/// The options of a test.
#[derive(Default)]
pub struct Options {
    pub checks: Vec<Check>,
    /// How long requests are served after the shutdown has begun.
    pub delay: Duration,
    pub database: Database,
    pub limits: Limits,
    pub connections: ConnectionLimits,
    pub audit: Option<Arc<Audit>>,
    /// The policy for users other than the administrator. Without it they have no rights.
    pub policy: Option<Policy>,
    /// The permitted origins of other sites, as in `--cors-allowed-origins`.
    pub cors: Cors,
    /// The details about clusters in a LocalPlacementReview.
    pub local_review_details: ReviewDetails,
    /// The permitted addresses of gates.
    pub gate_address_allow: Vec<AllowedAddress>,
    /// The kinds that need the approval of a second user.
    pub require_approval: Vec<ApprovedKind>,
    /// The folder of secrets for member clusters.
    pub member_secrets: Option<PathBuf>,
    /// The folder of an earlier server, with its certificates and database.
    pub folder: Option<TempDir>,
    /// The clock of the registry and the log. Certificates are always valid at the system's time.
    pub clock: Option<Arc<dyn Clock>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Database {
    #[default]
    Memory,
    Sqlite,
}

pub struct TestServer {
    pub address: SocketAddr,
    pub files: Files,
    pub shutdown: Shutdown,
    /// The registry, for workers that a test runs turn by turn.
    pub registry: Arc<Registry>,
    running: JoinHandle<()>,
    writer: Task,
    folder: TempDir,
}

impl TestServer {
    pub async fn start() -> TestServer {
        TestServer::with(Options::default()).await
    }

    pub async fn with(options: Options) -> TestServer {
        let folder = options.folder.unwrap_or_else(|| tempfile::tempdir().unwrap());
        let clock: Arc<dyn Clock> = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let files = certs::ensure(&folder.path().join("certs"), &[], SystemClock.now()).unwrap();
        let read = |path: &PathBuf| fs::read(path).unwrap();
        let ca = ClientCa::from_pem(&read(&files.ca_cert), server::signature_algorithms()).unwrap();
        let trust = Trust { client_ca: Some(ca), ..Trust::default() };
        let tls = Tls::new(&read(&files.server_cert), &read(&files.server_key), &trust.subjects()).unwrap();
        let store: Arc<dyn Store> = match options.database {
            Database::Memory => Arc::new(MemoryStore::new()),
            Database::Sqlite => Arc::new(SqliteStore::open(&folder.path().join("ballast.db"), &[]).await.unwrap()),
        };
        let (cache, writer, task) = ballast::watch::open(store, clock.clone(), options.limits).await.unwrap();
        let kinds = Arc::new(ballast::api::standalone_kinds());
        let authorizer = Arc::new(match options.policy {
            Some(policy) => Authorizer::new(policy.into(), OPEN_PATHS.map(str::to_owned).to_vec()),
            None => Authorizer::default(),
        });
        let shutdown = Shutdown::default();
        let documents = Documents::of(&kinds);
        let recorder = Recorder::new(clock.clone());
        let registry = assembly::registry(kinds, cache, writer, &authorizer, &clock, &recorder, &Profile::ours());
        let registry = assembly::with_reviews(registry, &clock, &Profile::ours(), options.local_review_details);
        let registry = assembly::with_gates(registry, &options.gate_address_allow);
        let registry = assembly::with_four_eyes(registry, &options.require_approval, None);
        let registry = Arc::new(assembly::without_no_execute_taints(registry));
        let app = App {
            documents,
            registry: Arc::clone(&registry),
            authenticator: Arc::new(Authenticator::new(trust, clock.clone())),
            authorizer,
            audit: options.audit,
            clock: clock.clone(),
            in_flight: InFlight::new(400, 200),
            replicas: None,
            proxy: Some(Proxy::new(Arc::new(Members::new(match options.member_secrets {
                Some(folder) => Secrets::Folder(folder),
                None => Secrets::Nowhere,
            })))),
            checks: options.checks,
            shutdown: shutdown.clone(),
            has_page: true,
            surroundings: Surroundings::of_server(None).to_json(),
            cors: options.cors,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        certs::write_kubeconfig(&files, &format!("https://{address}")).unwrap();
        let options = ServeOptions {
            limits: options.connections,
            shutdown: shutdown.clone(),
            delay: options.delay,
            resets_max: app.resets_max(),
            clock: Arc::new(SystemClock),
        };
        let serving = server::run(listener, tls, server::router(app), options);
        TestServer { address, files, shutdown, registry, running: tokio::spawn(serving), writer: task, folder }
    }

    /// A kube-rs client with the kubeconfig that the server wrote.
    pub async fn kube(&self) -> kube::Client {
        // kube needs a default provider for the process. It may be installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(&self.files.admin_kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    pub fn admin(&self) -> Raw {
        Raw::admin(self.address, &self.files)
    }

    pub fn nobody(&self) -> Raw {
        Raw::nobody(self.address, &self.files)
    }

    /// Returns a client with a certificate of this server's CA; `shape` may change its parameters.
    pub fn client(&self, name: &str, groups: &[&str], shape: impl FnOnce(&mut CertificateParams)) -> Raw {
        self.client_of(&self.files, name, groups, shape)
    }

    /// Like `client`, with a certificate of the CA of `signer`.
    pub fn client_of(
        &self,
        signer: &Files,
        name: &str,
        groups: &[&str],
        shape: impl FnOnce(&mut CertificateParams),
    ) -> Raw {
        let ca_key = KeyPair::from_pem(&fs::read_to_string(&signer.ca_key).unwrap()).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&fs::read_to_string(&signer.ca_cert).unwrap(), ca_key).unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        shape(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &issuer).unwrap();
        let (cert_path, key_path) = (self.folder.path().join("client.crt"), self.folder.path().join("client.key"));
        fs::write(&cert_path, cert.pem()).unwrap();
        fs::write(&key_path, key.serialize_pem()).unwrap();
        Raw::with_certificate(self.address, &self.files, &cert_path, &key_path)
    }

    /// Shuts down, waits until everything is stored and every task has ended, and returns the
    /// folder.
    pub async fn stop(self) -> TempDir {
        let TestServer { shutdown, registry, running, writer, folder, .. } = self;
        shutdown.begin();
        // The writer ends with the last registry that uses it.
        drop(registry);
        let drained = async {
            running.await.unwrap();
            writer.await.unwrap().unwrap();
        };
        tokio::time::timeout(Duration::from_secs(30), drained).await.expect("drains in time");
        folder
    }
}
