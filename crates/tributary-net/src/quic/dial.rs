//! Client: the QUIC connection of a path.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Endpoint, EndpointConfig, TokioRuntime};
use socket2::{Domain, Protocol, Socket, Type};

use super::{channel, protocol, settings};
use crate::config::{Common, Local, PathConfig, ServerAddress, Siblings};
use crate::dial::{Reached, addresses, bind_local, race};
use crate::error::explained;
use crate::handshake::{Channel, HandshakeError};
use crate::pipe::quic::Quic;
use crate::tls;

/// Connects to the instance's own address if it is known and answers, else to the path's server. When this returns, the server
/// has proved that it has the key.
pub(crate) async fn dial(
    own: Option<&ServerAddress>,
    path: &PathConfig,
    common: &Arc<Common>,
) -> Result<(Channel, Reached), HandshakeError> {
    let client = client(common)?;
    let (addresses, first) = addresses(own, path).await?;
    let outcome = race(addresses, |address| {
        let (path, common, client) = (path.clone(), common.clone(), client.clone());
        let reached = Reached::of(own.is_some(), first.contains(&address));
        async move { connect(&path, address, &common, client).await.map(|channel| (channel, reached)) }
    });
    outcome.await.unwrap_or(Err(HandshakeError::Timeout))
}

fn client(common: &Common) -> Result<quinn::ClientConfig, HandshakeError> {
    let failed = |error: rustls::Error| HandshakeError::Tls(error.into());
    let mut tls = rustls::ClientConfig::clone(&*tls::client_config(&common.keys).map_err(failed)?);
    tls.alpn_protocols = vec![protocol(&common.keys)];
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut client = quinn::ClientConfig::new(Arc::new(crypto));
    client.transport_config(Arc::new(settings(common)));
    Ok(client)
}

async fn connect(
    path: &PathConfig,
    server: SocketAddr,
    common: &Common,
    client: quinn::ClientConfig,
) -> Result<Channel, HandshakeError> {
    let failed =
        |error: io::Error| HandshakeError::Connect { path: path.to_string(), error: explained(error) };
    let socket = socket(path, server, common).map_err(failed)?;
    let endpoint =
        Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)).map_err(failed)?;
    let connecting = endpoint.connect_with(client, server, "tributary").map_err(io::Error::other)?;
    let connection = connecting.await.map_err(io::Error::from)?;
    let stream = connection.open_bi().await.map_err(io::Error::from)?;
    channel(Quic::new(connection, stream), &common.keys)
}

/// The UDP socket of one connection. Another one of the same path has another port, as with TCP.
fn socket(path: &PathConfig, server: SocketAddr, common: &Common) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if let Siblings::Mark(mark) = common.siblings {
        let _ = socket.set_mark(mark);
    }
    super::enlarge(&socket);
    match path.local {
        Local::Any | Local::Auto => {
            let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
            socket.bind(&any.into())?;
        }
        Local::Address(_) | Local::Interface(_) => bind_local(&socket, &path.local, server)?,
    }
    Ok(socket.into())
}
