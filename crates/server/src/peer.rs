//! The other end of a connection.

use std::net::SocketAddr;

use rustls::ServerConnection;
use tokio_util::sync::CancellationToken;

use ballast_auth::Certificate;

/// The client of a connection. It is in the extensions of each request.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// TLS has verified that the peer holds its key. The user is authenticated with each request.
    pub certificate: Option<Certificate>,
    pub(super) is_http2: bool,
    /// Cancel it to end the connection after its running requests.
    pub(super) leave: CancellationToken,
    /// Is cancelled when the connection has ended, also one that switched its protocol.
    pub(super) gone: CancellationToken,
}

impl Peer {
    pub(super) fn of(address: SocketAddr, session: &ServerConnection) -> Peer {
        let chain = session.peer_certificates().map(|chain| chain.iter().map(|it| it.clone().into_owned()).collect());
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let (leave, gone) = (CancellationToken::new(), CancellationToken::new());
        Peer { address, certificate: chain.map(Certificate::new), is_http2, leave, gone }
    }
}
