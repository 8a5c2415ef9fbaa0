//! Creates both ends of a connection from a transport's name. The only module that depends on all transports.

use std::rc::Rc;

use tributary_proto::Config;

use super::{Options, RunError, TcpEra, TransportName};
use crate::id::RouteId;
use crate::mptcp::{MptcpConfig, MptcpTransport};
use crate::multipath::{self, SubflowPath};
use crate::own::Own;
use crate::quic::{MultipathQuicTransport, QuicConfig, QuicPath, QuicTransport};
use crate::quic_in_session::QuicInSession;
use crate::session::{SessionConfig, SessionTransport};
use crate::tcp::{LossDetection, TcpConfig, TcpTransport};
use crate::transport::Transport;

/// Largest buffers of a host, at both ends: those of the emulator's hosts, so that both worlds have the same.
/// A connection's own buffers grow up to them.
const HOST_BUFFERS: u64 = 64 << 20;

/// Everything needed to create a transport.
pub(super) struct Blueprint<'a> {
    pub choice: &'a TransportName,
    /// Checked by the caller.
    pub congestion: &'a str,
    pub own: &'a Own,
    pub options: &'a Options,
    pub seed: u64,
    /// Whether a session's client sends data right after its hello.
    pub early: bool,
    /// The paths of the subflows; several may share a path.
    pub paths: Vec<SubflowPath>,
}

/// Both ends.
pub(super) struct Assembly {
    pub client: Box<dyn Transport>,
    pub server: Box<dyn Transport>,
}

impl Assembly {
    fn new(client: impl Transport, server: impl Transport) -> Self {
        Self { client: Box::new(client), server: Box::new(server) }
    }
}

impl Blueprint<'_> {
    pub fn build(self) -> Result<Assembly, RunError> {
        let (congestion, own) = (self.congestion.to_owned(), self.own.clone());
        Ok(match self.choice {
            TransportName::Tcp(_) => {
                let SubflowPath { up, down, .. } = self.paths[0];
                tcp_pair((self.congestion, self.own, self.options.tcp), self.seed, up, down)
            }
            TransportName::Mptcp { scheduler } => {
                let (scheduler, seed) = (scheduler.clone(), self.seed);
                let config = MptcpConfig {
                    tcp: host_tcp(self.options.tcp),
                    scheduler,
                    congestion,
                    own,
                    seed,
                    ..MptcpConfig::default()
                };
                let (client, server) = MptcpTransport::pair(&config, &self.paths)?;
                Assembly::new(client, server)
            }
            TransportName::Session { scheduler } => {
                let session = self.session(scheduler);
                let seed = self.seed;
                let tcp = TcpConfig { nagle: false, ..host_tcp(self.options.tcp) };
                let early = self.early;
                let config =
                    SessionConfig { session, tcp, congestion, own, seed, early, ..SessionConfig::default() };
                if let Some(controller) = &self.options.inner_quic {
                    let quic = QuicConfig { controller: controller.clone(), ..self.quic() };
                    let (client, server) = QuicInSession::pair(&config, &quic, &self.paths)?;
                    return Ok(Assembly::new(client, server));
                }
                let (client, server) = SessionTransport::pair(&config, &self.paths)?;
                Assembly::new(client, server)
            }
            TransportName::Quic(_) => {
                let config = self.quic();
                let [client, server] = self.quic_paths();
                let client = QuicTransport::client(&config, client[0])?;
                Assembly::new(client, QuicTransport::server(&config, server[0])?)
            }
            TransportName::Mpquic => {
                let config = self.quic();
                let [client, server] = self.quic_paths();
                let client = MultipathQuicTransport::client(&config, &client)?;
                Assembly::new(client, MultipathQuicTransport::server(&config, &server)?)
            }
        })
    }

    fn session(&self, scheduler: &str) -> Config {
        let mut session = Config::default();
        if self.own.scheduler.is_none() {
            scheduler.clone_into(&mut session.scheduler);
        }
        if let Some(window) = self.options.window {
            session.window = window;
        }
        session.unsent = self.options.unsent;
        session.short_queues = self.options.unsent.is_some();
        session
    }

    fn quic(&self) -> QuicConfig {
        QuicConfig { controller: self.congestion.to_owned(), seed: self.seed, ..QuicConfig::default() }
    }

    /// The paths as client and server see them; QUIC has one for each path of the scenario.
    fn quic_paths(&self) -> [Vec<QuicPath>; 2] {
        let mut paths = self.paths.clone();
        paths.dedup();
        let client = |p: &SubflowPath| QuicPath { path: p.path, out: p.up, back: p.down };
        let server = |p: &SubflowPath| QuicPath { path: p.path, out: p.down, back: p.up };
        [paths.iter().map(client).collect(), paths.iter().map(server).collect()]
    }
}

/// Both ends of a TCP connection with a host's settings; the caller has checked `congestion`.
pub(super) fn tcp_pair(
    (congestion, own, era): (&str, &Own, TcpEra),
    seed: u64,
    up: RouteId,
    down: RouteId,
) -> Assembly {
    let config = Rc::new(host_tcp(era));
    let controller = |end: u64| multipath::controller((congestion, own), &config, seed.wrapping_add(end));
    let client = TcpTransport::client(config.clone(), controller(0), up);
    let server = TcpTransport::server(config.clone(), controller(1), down);
    Assembly::new(client, server)
}

/// TCP settings of a host in the emulator.
fn host_tcp(era: TcpEra) -> TcpConfig {
    let config =
        TcpConfig { receive_buffer: HOST_BUFFERS, send_buffer: HOST_BUFFERS, ..TcpConfig::default() };
    match era {
        TcpEra::Today => config,
        TcpEra::Then => {
            TcpConfig { loss_detection: LossDetection::NewReno, initial_window_segments: 3, ..config }
        }
    }
}
