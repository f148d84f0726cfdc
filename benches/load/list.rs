//! Lists 10,000 bindings over HTTPS: `cargo bench --bench load -- list`.
//!
//! It compares the server's CPU time with that of a thread that writes the same bytes to an equal
//! TLS stream, without HTTP or objects.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::process::{ServerProcess, cpu_of};
use super::setup::{BINDINGS, body_of, make_idle_bindings};

const OBJECTS: usize = 10_000;
/// The kernel reports CPU time in ticks of 10 ms. With this many lists, a tick does not matter.
const LISTS: u32 = 60;
const ROUNDS: usize = 3;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    make_idle_bindings(&client, OBJECTS).await;
    let get = || body_of(&client, Method::GET, BINDINGS, None, Bytes::new());
    let list = get().await;
    println!("a list of {OBJECTS} is {:.1} MB", list.len() as f64 / 1e6);
    for round in 0..ROUNDS {
        let before = server.cpu();
        for _ in 0..LISTS {
            assert_eq!(get().await.len(), list.len());
        }
        let listed = (server.cpu() - before) / LISTS;
        let (certs, bytes) = (folder.path().join("certs"), list.clone());
        let copied = tokio::task::spawn_blocking(move || copy(&certs, &bytes)).await.expect("no panic") / LISTS;
        println!(
            "round {round}: server CPU {listed:.1?} for a list, {copied:.1?} for a plain copy: ratio {:.2}",
            listed.as_secs_f64() / copied.as_secs_f64(),
        );
    }
}

/// Returns the CPU time of a thread that writes the bytes `LISTS` times into one TLS stream.
fn copy(certs: &Path, bytes: &Bytes) -> Duration {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (config, bytes, total) = (server_config(certs), bytes.clone(), bytes.len() * LISTS as usize);
    let writer = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the reader connects");
        let session = ServerConnection::new(config).expect("a valid configuration");
        let mut stream = StreamOwned::new(session, stream);
        for _ in 0..LISTS {
            stream.write_all(&bytes).expect("the reader reads");
        }
        stream.flush().expect("the reader reads");
        cpu_of("thread-self")
    });
    read(certs, address, total);
    writer.join().expect("no panic")
}

fn read(certs: &Path, address: SocketAddr, total: usize) {
    let stream = TcpStream::connect(address).expect("the writer listens");
    let name = ServerName::IpAddress(address.ip().into());
    let session = ClientConnection::new(client_config(certs), name).expect("a valid configuration");
    let mut stream = StreamOwned::new(session, stream);
    let (mut left, mut buffer) = (total, vec![0; 64 * 1024]);
    while left > 0 {
        left -= stream.read(&mut buffer).expect("the writer writes");
    }
}

fn server_config(certs: &Path) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_file_iter(certs.join("server.crt")).expect("the server made it");
    let key = PrivateKeyDer::from_pem_file(certs.join("server.key")).expect("the server made it");
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    Arc::new(config.with_single_cert(chain.collect::<Result<_, _>>().expect("PEM"), key).expect("a pair"))
}

fn client_config(certs: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(certs.join("ca.crt")).expect("the server made it") {
        roots.add(certificate.expect("PEM")).expect("a CA");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}
