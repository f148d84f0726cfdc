//! A TCP proxy with a fixed port, while the server behind it restarts on others.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub struct Line {
    pub address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    _serving: AbortOnDropHandle<()>,
}

impl Line {
    pub async fn to(server: SocketAddr) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Mutex::new(server));
        let target = Arc::clone(&server);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut here, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let target = *target.lock().unwrap();
                connections.spawn(async move {
                    // Without a server, the client's connection is closed.
                    let Ok(mut there) = TcpStream::connect(target).await else { return };
                    let _closed = copy_bidirectional(&mut here, &mut there).await;
                });
            }
        });
        Line { address, server, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Directs new connections to this server.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.server.lock().unwrap() = server;
    }
}
