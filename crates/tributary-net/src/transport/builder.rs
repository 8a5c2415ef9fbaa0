//! Builds a client or a server in one expression. A transport's name that is unknown is an error when the client connects
//! or the server is bound. Not here: rarely used settings ([`ClientBuilder::configure`]).

use std::net::SocketAddr;

use super::{Acceptor, Connection, TransportConfig, TransportError};
use crate::config::{Common, PathConfig};
use crate::keys::Keys;

/// Settings of one end, or why its name is none.
type Settings = Result<TransportConfig, TransportError>;

fn settings(transport: &str) -> Settings {
    Ok(TransportConfig::new(transport.parse()?))
}

fn with_keys(settings: Settings, keys: Keys) -> Settings {
    settings.map(|config| {
        let common = match config.common.clone() {
            Some(common) => Common { keys, ..common },
            None => Common::new(keys),
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
    /// use tributary_net::{Connection, Key};
    ///
    /// let connection = Connection::client("session")
    ///     .key(Key::load("tributary.key".as_ref())?)
    ///     .path("wlan0=203.0.113.5:7000".parse()?)
    ///     .path("wwan0=203.0.113.5:7000".parse()?)
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
    /// How the ends know each other: [`Keys::Client`], or a [`Key`](crate::Key) that both have. Required by sessions.
    pub fn key(mut self, keys: impl Into<Keys>) -> Self {
        self.settings = with_keys(self.settings, keys.into());
        self
    }

    /// Adds a path: [`PathConfig::new`], or one that a user wrote as `LOCAL=SERVER:PORT`, parsed.
    pub fn path(mut self, path: PathConfig) -> Self {
        self.paths.push(path);
        self
    }

    /// Changes any other setting.
    pub fn configure(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        self.settings = configured(self.settings, change);
        self
    }

    /// Connects.
    ///
    /// Cancellation: dropping the future ends the attempt.
    ///
    /// # Errors
    /// [`TransportError`]: the transport's name is unknown, or as [`Connection::connect`].
    pub async fn connect(self) -> Result<Connection, TransportError> {
        Connection::connect(&self.settings?, &self.paths).await
    }
}

impl Acceptor {
    /// A server of this transport; the names are those of [`Connection::client`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tributary_net::{Acceptor, Key};
    ///
    /// let key = Key::load("tributary.key".as_ref())?;
    /// let mut acceptor = Acceptor::server("session").key(key).listen("0.0.0.0:7000".parse()?).bind().await?;
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
    /// How the ends know each other: [`Keys::Server`], or a [`Key`](crate::Key) that all have. Required by sessions.
    pub fn key(mut self, keys: impl Into<Keys>) -> Self {
        self.settings = with_keys(self.settings, keys.into());
        self
    }

    /// Adds an address to listen on. With port 0 the system chooses one, see [`Acceptor::addresses`].
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Changes any other setting.
    pub fn configure(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        self.settings = configured(self.settings, change);
        self
    }

    /// Listens.
    ///
    /// Cancellation: dropping the future listens nowhere.
    ///
    /// # Errors
    /// [`TransportError`]: the transport's name is unknown, or as [`Acceptor::bind`].
    pub async fn bind(self) -> Result<Acceptor, TransportError> {
        Acceptor::bind(&self.settings?, &self.addresses).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Local;
    use crate::key::Key;

    #[tokio::test]
    async fn an_unknown_name_a_missing_key_and_a_missing_address_are_named() {
        let refused = |name| async move {
            let path = PathConfig::new(Local::Any, SocketAddr::from(([127, 0, 0, 1], 7)));
            Connection::client(name).path(path).connect().await.unwrap_err().to_string()
        };
        assert!(refused("sesion").await.contains("sesion"));
        assert!(refused("session").await.contains("session needs keys"));
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
        assert_eq!(common.keys.shared().unwrap().bytes(), &[2; 32]);
        assert_eq!(config.name.to_string(), "session/min-rtt");
    }
}
