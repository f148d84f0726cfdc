//! A TCP proxy between clients and a server. It holds either direction, cuts connections, and turns
//! to another server, when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How often a direction that is held looks whether it still is.
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
    /// Passes connections on to a port of this machine. It ends with its runtime.
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

    /// Cuts all connections, and passes the next ones on to another port.
    pub fn turn_to(&self, server: u16) {
        self.server.send_replace(server);
    }

    /// Lets all connections die silently: neither end hears anything of it. The next ones live.
    pub fn abandon(&self) {
        self.abandoned.send_modify(|times| *times += 1);
    }

    /// The URL of a database behind this proxy, from its own.
    pub fn url(&self, direct: &str) -> String {
        direct.replace(&format!(":{}/", *self.server.borrow()), &format!(":{}/", self.port))
    }
}

/// One connection, until either end closes it or the proxy turns to another server. A server that
/// is not there closes it at once.
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
