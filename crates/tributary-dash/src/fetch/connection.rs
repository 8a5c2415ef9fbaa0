//! Connections for requests: streams with HTTP/1.1, or a QUIC connection with HTTP/3.

use tributary_net::PathConfig;
use tributary_net::transport::{Connection, Handshake, TransportConfig, TransportError, TransportName};

use super::http3::Http3;

/// A connected transport with its HTTP version. Clones are handles to the same connection.
#[derive(Clone, Debug)]
pub(crate) enum HttpConnection {
    /// HTTP/1.1, one connection per stream.
    Streams(Connection),
    /// HTTP/3.
    Http3(Http3),
}

impl HttpConnection {
    /// Connects. `quic` uses HTTP/3, with 0-RTT if there is a ticket; every other transport uses HTTP/1.1.
    pub(crate) async fn connect(
        config: &TransportConfig,
        paths: &[PathConfig],
    ) -> Result<Self, TransportError> {
        let mut config = config.clone();
        if matches!(config.name, TransportName::Quic(_)) {
            if config.certificates.is_none() {
                let text = "HTTP/3 must authenticate the server: give a key, a certificate or a fingerprint";
                return Err(TransportError::Tls(text.to_owned()));
            }
            config.early = true;
        }
        Ok(Self::over(Connection::connect(&config, paths).await?))
    }

    /// HTTP requests over an existing connection.
    pub(crate) fn over(connection: Connection) -> Self {
        match Http3::over(&connection) {
            Some(http) => Self::Http3(http),
            None => Self::Streams(connection),
        }
    }

    /// The transport's connection.
    pub(crate) fn connection(&self) -> &Connection {
        match self {
            Self::Streams(connection) => connection,
            Self::Http3(http) => http.connection(),
        }
    }

    /// The state of the handshake, if requests may be sent before it has finished.
    pub(crate) fn handshake(&self) -> Option<&Handshake> {
        self.connection().handshake()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.connection().close_reason().is_some()
    }

    pub(crate) async fn close(&self) {
        self.connection().close().await;
    }
}
