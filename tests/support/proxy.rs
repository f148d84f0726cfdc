//! A TCP proxy between clients and a server. On demand it blocks either direction, cuts
//! connections, and switches to another server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The polling interval of a blocked direction.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub struct Proxy {
    pub port: u16,
    pub holds_requests: Arc<AtomicBool>,
    pub holds_answers: Arc<AtomicBool>,
    server: watch::Sender<u16>,
    /// How often all connections were abandoned.
    abandoned: watch::Sender<u64>,
}

impl Proxy {
    /// Forwards connections to a local port. The proxy ends with its runtime.
    pub async fn before(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (holds_requests, holds_answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (requests, answers) = (Arc::clone(&holds_requests), Arc::clone(&holds_answers));
        let server = watch::Sender::new(server);
        let abandoned = watch::Sender::new(0);
        let told = (server.clone(), abandoned.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let told = (told.0.subscribe(), told.1.subscribe());
                tokio::spawn(connect(client, told, Arc::clone(&requests), Arc::clone(&answers)));
            }
        });
        Proxy { port, holds_requests, holds_answers, server, abandoned }
    }

    /// Cuts all connections, and forwards the next ones to another port.
    pub fn turn_to(&self, server: u16) {
        self.server.send_replace(server);
    }

    /// Lets all connections die silently: neither end is notified. Later ones work.
    pub fn abandon(&self) {
        self.abandoned.send_modify(|times| *times += 1);
    }

    /// Rewrites the URL of a database to this proxy.
    pub fn url(&self, direct: &str) -> String {
        direct.replace(&format!(":{}/", *self.server.borrow()), &format!(":{}/", self.port))
    }
}

/// Forwards one connection until either end closes it or the proxy switches to another server. If
/// the server is down, it is closed at once.
async fn connect(
    client: TcpStream,
    (mut turned, mut abandoned): (watch::Receiver<u16>, watch::Receiver<u64>),
    requests: Arc<AtomicBool>,
    answers: Arc<AtomicBool>,
) {
    let port = *turned.borrow_and_update();
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        () = pass(&mut from_client, &mut to_server, requests) => {}
        () = pass(&mut from_server, &mut to_client, answers) => {}
        _ = turned.changed() => {}
        _ = abandoned.changed() => std::future::pending().await,
    }
}

async fn pass(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, holds: Arc<AtomicBool>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        while holds.load(SeqCst) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
