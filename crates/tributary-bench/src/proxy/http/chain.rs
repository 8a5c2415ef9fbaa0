//! What is between wrk and nginx: nothing, two HAProxies, or both ends of Tributary's proxy.

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Instant;
use tributary_emu::{Side, VethNetwork};
use tributary_lab::process::{Process, product_program};

use crate::BenchError;
use crate::daemon::{Program, keygen};
use crate::failed;
use crate::procfs::status_kb;

/// Paths between the namespaces.
pub(super) const PATHS: usize = 2;
/// nginx's workers, as many as its documentation recommends for two cores, and connections of each.
pub(super) const FILES: (u32, u32) = (2, 2048);
/// Ports of nginx, of the far HAProxy and of the near one. The namespaces are new, so the ports are free.
const PORT: [u16; 3] = [8080, 8443, 8081];
/// Time for a program to listen.
const START: Duration = Duration::from_secs(15);
/// Interval of attempts to connect.
const LOOK: Duration = Duration::from_millis(10);

/// What wrk's requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Only the first path.
    Nothing,
    /// One HAProxy on each side, TLS on the first path.
    HaProxy,
    /// Tributary over this many paths.
    Tributary(usize),
}

impl Peer {
    /// In the order of a round.
    pub(super) const ALL: [Self; 4] =
        [Self::Nothing, Self::HaProxy, Self::Tributary(1), Self::Tributary(PATHS)];

    /// Name for tables.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: one path, no TLS",
            Self::HaProxy => "HAProxy on both sides, TLS on one path",
            Self::Tributary(1) => "tributary, one path",
            Self::Tributary(_) => "tributary, two paths",
        }
    }
}

/// nginx's address. Behind a proxy it listens on the loopback interface.
pub(super) fn web(peer: Peer) -> SocketAddr {
    let address = if peer == Peer::Nothing { Side::Server.address(0) } else { Ipv4Addr::LOCALHOST };
    (address, PORT[0]).into()
}

/// Both ends of a proxy.
enum Ends {
    None,
    HaProxy([Process; 2]),
    /// Beside wrk and beside nginx.
    Tributary([Program; 2]),
}

/// Everything between wrk and nginx, ended when dropped.
pub(super) struct Chain {
    /// The address for wrk.
    pub(super) entrance: SocketAddr,
    ends: Ends,
}

impl Chain {
    pub(super) fn start(network: &VethNetwork, directory: &Path, peer: Peer) -> Result<Self, BenchError> {
        let (entrance, ends) = match peer {
            Peer::Nothing => (web(peer), Ends::None),
            Peer::HaProxy => haproxies(network, directory)?,
            Peer::Tributary(paths) => tributary(network, directory, paths)?,
        };
        wait_for(network, Side::Client, entrance)?;
        Ok(Self { entrance, ends })
    }

    /// Peaks of the resident memory beside wrk and beside nginx, MB.
    pub(super) fn memory_mb(&self) -> Result<Option<[f64; 2]>, BenchError> {
        let ids = match &self.ends {
            Ends::None => return Ok(None),
            Ends::HaProxy(ends) => [ends[0].id(), ends[1].id()],
            Ends::Tributary(ends) => [ends[0].id(), ends[1].id()],
        };
        Ok(Some([peak_mb(ids[0])?, peak_mb(ids[1])?]))
    }
}

fn tributary(
    network: &VethNetwork,
    directory: &Path,
    paths: usize,
) -> Result<(SocketAddr, Ends), BenchError> {
    let key = keygen(directory)?;
    let program = product_program()?;
    let forward = web(Peer::Tributary(paths)).to_string();
    let mut serve = vec!["serve".to_owned(), "--forward".to_owned(), forward];
    for path in 0..paths {
        serve.extend(["--listen".to_owned(), format!("{}:0", Side::Server.address(path))]);
    }
    let start = |side: Side, mut arguments: Vec<String>| {
        arguments.extend(["--shared-key".to_owned(), key.clone()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Program::start(network.command(side, &program), &arguments, directory)
    };
    let far = start(Side::Server, serve)?;
    let mut connect = vec!["connect".to_owned(), "--listen".to_owned(), "127.0.0.1:0".to_owned()];
    for (path, server) in far.listening().iter().enumerate() {
        connect.extend(["--path".to_owned(), format!("{}={server}", Side::Client.address(path))]);
    }
    let near = start(Side::Client, connect)?;
    Ok((near.listening()[0], Ends::Tributary([near, far])))
}

fn haproxies(network: &VethNetwork, directory: &Path) -> Result<(SocketAddr, Ends), BenchError> {
    let made = rcgen::generate_simple_self_signed(vec!["bench".to_owned()]);
    let made = made.map_err(|error| failed("a certificate", error))?;
    let certificate = directory.join("haproxy.pem");
    let text = made.cert.pem() + &made.signing_key.serialize_pem();
    std::fs::write(&certificate, text).map_err(|error| failed("haproxy.pem", error))?;
    let near: SocketAddr = (Ipv4Addr::LOCALHOST, PORT[2]).into();
    let far: SocketAddr = (Side::Server.address(0), PORT[1]).into();
    let bind_near = near.to_string();
    let to_far = format!("{far} ssl verify none");
    let bind_far = format!("{far} ssl crt {}", certificate.display());
    let to_web = web(Peer::HaProxy).to_string();
    let far = haproxy(network, (Side::Server, directory), &bind_far, &to_web)?;
    let ends = [haproxy(network, (Side::Client, directory), &bind_near, &to_far)?, far];
    Ok((near, Ends::HaProxy(ends)))
}

fn haproxy(
    network: &VethNetwork,
    (side, directory): (Side, &Path),
    bind: &str,
    server: &str,
) -> Result<Process, BenchError> {
    let file = directory.join(format!("haproxy-{side:?}.cfg"));
    std::fs::write(&file, configuration(bind, server)).map_err(|error| failed("haproxy.cfg", error))?;
    let mut command = network.command(side, "haproxy");
    command.args(["-db", "-q", "-f"]).arg(&file);
    Ok(Process::start("haproxy", command)?)
}

/// TCP is forwarded as it is, as Tributary's proxy does; TLS 1.3 with the cipher that Tributary prefers.
fn configuration(bind: &str, server: &str) -> String {
    const CIPHER: &str = "TLS_AES_128_GCM_SHA256";
    format!(
        "global
    maxconn 4096
    ssl-default-bind-options ssl-min-ver TLSv1.3
    ssl-default-bind-ciphersuites {CIPHER}
    ssl-default-server-options ssl-min-ver TLSv1.3
    ssl-default-server-ciphersuites {CIPHER}
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen bench
    bind {bind}
    server next {server}
"
    )
}

/// Waits until a program of this side accepts connections.
pub(super) fn wait_for(network: &VethNetwork, side: Side, address: SocketAddr) -> Result<(), BenchError> {
    let until = Instant::now() + START;
    network.run(side, || {
        loop {
            match TcpStream::connect_timeout(&address, START) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= until => {
                    return Err(failed("listener", format!("{address}: {error}")));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    })?
}

/// Peak of the resident memory of a process, MB.
fn peak_mb(id: u32) -> Result<f64, BenchError> {
    Ok(status_kb(id, "VmHWM:")? as f64 * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_is_reached_over_the_network_only_without_a_proxy() {
        assert!(!web(Peer::Nothing).ip().is_loopback());
        assert!(web(Peer::HaProxy).ip().is_loopback() && web(Peer::Tributary(2)).ip().is_loopback());
        assert!(peak_mb(std::process::id()).is_ok_and(|mb| mb > 1.0));
    }
}
