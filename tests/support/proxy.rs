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
}

impl Proxy {
    /// Passes connections on to a port of this machine. It ends with its runtime.
    pub async fn before(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (holds_requests, holds_answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (requests, answers) = (Arc::clone(&holds_requests), Arc::clone(&holds_answers));
        let server = watch::Sender::new(server);
        let told = server.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, told.subscribe(), Arc::clone(&requests), Arc::clone(&answers)));
            }
        });
        Proxy { port, holds_requests, holds_answers, server }
    }

    /// Cuts all connections, and passes the next ones on to another port.
    pub fn turn_to(&self, server: u16) {
        self.server.send_replace(server);
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
    mut told: watch::Receiver<u16>,
    requests: Arc<AtomicBool>,
    answers: Arc<AtomicBool>,
) {
    let port = *told.borrow_and_update();
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pass(from_client, to_server, requests) => {}
        () = pass(from_server, to_client, answers) => {}
        _ = told.changed() => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, holds: Arc<AtomicBool>) {
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
