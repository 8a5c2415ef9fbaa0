//! A QUIC connection inside a session: the product's proxy relays its datagrams. Application and proxy of an end run in one
//! process. Not here: the workload.

use super::{EndpointError, Task};
use crate::transport::{self, Paths};
use std::net::{Ipv4Addr, SocketAddr};
use tributary_net::proxy::{Entrance, ForwardConfig, Forwarder, LeadsTo, ServeConfig, Server, Target};
use tributary_net::transport::{Acceptor, Connection, TransportConfig, TransportName};
use tributary_net::{Common, ConnectConfig, ListenConfig, Session};

/// Settings of the QUIC connection with this congestion control.
fn quic(task: &Task, congestion: &str) -> Result<TransportConfig, EndpointError> {
    let mut config = task.config()?;
    (config.name, config.congestion) = (TransportName::Quic(None), Some(congestion.to_owned()));
    Ok(config)
}

fn common(task: &Task) -> Result<Common, EndpointError> {
    let config = task.config()?;
    let mut common = config.common.expect("every task has a key");
    if let TransportName::Session { scheduler } = config.name {
        common.session.scheduler = scheduler;
    }
    common.congestion = config.congestion;
    Ok(common)
}

/// Listens for QUIC on loopback, and for sessions on `addresses`, whose flows lead there. Returns what accepts the connections and
/// the addresses for sessions.
pub(super) async fn listen(
    task: &Task,
    congestion: &str,
    addresses: &[Ipv4Addr],
) -> Result<(Acceptor, Vec<SocketAddr>), EndpointError> {
    let (acceptor, inside) = transport::listen(&quic(task, congestion)?, &[Ipv4Addr::LOCALHOST]).await?;
    let target = |to: &SocketAddr| Target { name: None, host: to.ip().to_string(), port: to.port() };
    let targets: Vec<Target> = inside.iter().map(target).collect();
    let addresses = addresses.iter().map(|address| SocketAddr::from((*address, 0))).collect();
    let listen = ListenConfig::new(addresses, common(task)?);
    // A server needs a target of connections, too. None is opened.
    let server =
        Server::bind(ServeConfig { udp: targets.clone(), ..ServeConfig::new(listen, targets) }).await?;
    let listening = server.addresses().to_vec();
    tokio::spawn(server.run());
    Ok((acceptor, listening))
}

/// Connects over a session once all `paths` of it are up. Returns the connection, the session, and the number of its paths.
pub(super) async fn connect(
    task: &Task,
    congestion: &str,
    paths: &[(Ipv4Addr, SocketAddr)],
) -> Result<(Connection, Session, usize), EndpointError> {
    let outer = Paths::new(&task.transport, paths);
    let config = task.config()?;
    let connect =
        ConnectConfig { paths: outer.dialled().to_vec(), common: common(task)?, timeout: config.timeout };
    let entrance = Entrance { address: (Ipv4Addr::LOCALHOST, 0).into(), leads_to: LeadsTo::Target(None) };
    let forward = ForwardConfig {
        udp: vec![entrance],
        wait: Some(config.timeout),
        ..ForwardConfig::new(connect, Vec::new())
    };
    let forwarder = Forwarder::bind(forward).await?;
    let entrance = forwarder.udp_addresses()[0];
    let session = forwarder.session().ok_or(EndpointError::Ended)?;
    tokio::spawn(forwarder.run());
    let look = || {
        let up = session.stats().subflows.len();
        (up, up)
    };
    let up = outer.until_up(look).await?;
    let inner = quic(task, congestion)?;
    let connection = Paths::new(&inner.name, &[(Ipv4Addr::LOCALHOST, entrance)]).connect(&inner).await?;
    Ok((connection, session, up))
}
