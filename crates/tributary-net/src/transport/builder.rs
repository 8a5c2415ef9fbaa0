//! Builds a client or a server in one expression, with names, keys and paths written as on a command line. A text
//! that cannot be parsed is an error when the client connects or the server is bound. Not here: rarely used settings
//! ([`ClientBuilder::configure`]).

use std::net::SocketAddr;

use super::{Acceptor, Connection, TransportConfig, TransportError};
use crate::config::{Common, PathConfig};
use crate::key::Key;

/// Settings of one end, or the error of the first one that could not be parsed.
type Settings = Result<TransportConfig, TransportError>;

fn settings(transport: &str) -> Settings {
    Ok(TransportConfig::new(transport.parse()?))
}

fn with_key(settings: Settings, key: Key) -> Settings {
    settings.map(|config| {
        let common = match config.common.clone() {
            Some(common) => Common { key, ..common },
            None => Common::new(key),
        };
        config.with_common(common)
    })
}

fn configured(settings: Settings, change: impl FnOnce(&mut TransportConfig)) -> Settings {
    settings.map(|mut config| {
        change(&mut config);
        config
    })
}

/// Builds a client. Start with [`Connection::client`].
#[derive(Debug)]
#[must_use = "nothing is connected before `connect`"]
pub struct ClientBuilder {
    settings: Settings,
    paths: Vec<PathConfig>,
}

/// Builds a server. Start with [`Acceptor::server`].
#[derive(Debug)]
#[must_use = "nothing listens before `bind`"]
pub struct ServerBuilder {
    settings: Settings,
    addresses: Vec<SocketAddr>,
}

impl Connection {
    /// A client of this transport: `session`, `session/min-rtt`, `tcp`, `mptcp`, `quic`, `mpquic`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tributary_net::{Key, transport::Connection};
    ///
    /// let connection = Connection::client("session")
    ///     .key(Key::load("tributary.key".as_ref())?)
    ///     .path("wlan0=203.0.113.5:7000")
    ///     .path("wwan0=203.0.113.5:7000")
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(transport: &str) -> ClientBuilder {
        ClientBuilder { settings: settings(transport), paths: Vec::new() }
    }
}

impl ClientBuilder {
    /// The pre-shared key; the server needs the same one. Required by sessions.
    pub fn key(mut self, key: Key) -> Self {
        self.settings = with_key(self.settings, key);
        self
    }

    /// Adds a path, written as `LOCAL=SERVER:PORT`: `wlan0=203.0.113.5:7000`, `192.168.1.7=example.org:7000`,
    /// `any=[2001:db8::1]:7000`.
    pub fn path(mut self, path: impl AsRef<str>) -> Self {
        match path.as_ref().parse() {
            Ok(path) => self.paths.push(path),
            Err(error) => self.settings = self.settings.and(Err(TransportError::Path(error))),
        }
        self
    }

    /// Changes any other setting.
    pub fn configure(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        self.settings = configured(self.settings, change);
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// [`TransportError`]: that of the first setting that could not be parsed, or as [`Connection::connect`].
    pub async fn connect(self) -> Result<Connection, TransportError> {
        Connection::connect(&self.settings?, &self.paths).await
    }
}

impl Acceptor {
    /// A server of this transport; the names are those of [`Connection::client`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tributary_net::{Key, transport::Acceptor};
    ///
    /// let key = Key::load("tributary.key".as_ref())?;
    /// let mut acceptor = Acceptor::server("session").key(key).listen("0.0.0.0:7000").bind().await?;
    /// while let Some((connection, from)) = acceptor.accept().await {
    ///     println!("{from} has {} paths", connection.stats().paths.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn server(transport: &str) -> ServerBuilder {
        ServerBuilder { settings: settings(transport), addresses: Vec::new() }
    }
}

impl ServerBuilder {
    /// The pre-shared key; the clients need the same one. Required by sessions.
    pub fn key(mut self, key: Key) -> Self {
        self.settings = with_key(self.settings, key);
        self
    }

    /// Adds an address to listen on, written as `ADDRESS:PORT`: `0.0.0.0:7000`, `[::]:7000`. With port 0 the system
    /// chooses one, see [`Acceptor::addresses`].
    pub fn listen(mut self, address: impl AsRef<str>) -> Self {
        let text = address.as_ref();
        match text.parse() {
            Ok(address) => self.addresses.push(address),
            Err(_) => self.settings = self.settings.and(Err(TransportError::Address(text.to_owned()))),
        }
        self
    }

    /// Changes any other setting.
    pub fn configure(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        self.settings = configured(self.settings, change);
        self
    }

    /// Listens.
    ///
    /// # Errors
    /// [`TransportError`]: that of the first setting that could not be parsed, or as [`Acceptor::bind`].
    pub async fn bind(self) -> Result<Acceptor, TransportError> {
        Acceptor::bind(&self.settings?, &self.addresses).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_setting_that_cannot_be_read_is_the_error() {
        let refused = |builder: ClientBuilder| async { builder.connect().await.unwrap_err().to_string() };
        let client = || Connection::client("session").key(Key::from_bytes([1; 32]));
        let error = refused(client().path("nowhere").path("10.0.0.1=:7")).await;
        assert!(error.contains("`nowhere`: expected LOCAL=SERVER:PORT"), "{error}");
        let error = refused(Connection::client("sesion").path("nowhere")).await;
        assert!(error.contains("sesion"), "{error}");
        let error = refused(Connection::client("session").path("any=127.0.0.1:7")).await;
        assert!(error.contains("session needs a key"), "{error}");
        let error = Acceptor::server("tcp").listen("localhost").bind().await.unwrap_err().to_string();
        assert_eq!(error, "`localhost`: expected ADDRESS:PORT, for example 0.0.0.0:7000 or [::]:7000");
        assert!(matches!(Acceptor::server("tcp").bind().await, Err(TransportError::NoAddress)));
    }

    #[test]
    fn a_key_keeps_what_was_configured() {
        let builder = Acceptor::server("session/min-rtt")
            .configure(|config| {
                let mut common = Common::new(Key::from_bytes([1; 32]));
                common.plaintext = true;
                config.common = Some(common);
            })
            .key(Key::from_bytes([2; 32]))
            .configure(|config| config.congestion = Some("reno".to_owned()));
        let config = builder.settings.unwrap();
        let common = config.common.clone().unwrap();
        assert!(common.plaintext && config.congestion.as_deref() == Some("reno"));
        assert_eq!(common.key.bytes(), &[2; 32]);
        assert_eq!(config.name.to_string(), "session/min-rtt");
    }
}
