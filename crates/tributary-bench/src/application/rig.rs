//! The namespaces of one contestant, the programs that carry an application's data in them, and what they cost.

use super::{Settings, Way};
use crate::daemon::{Program, keygen};
use crate::end::{CONGESTION, Contestant, EndReply, EndResult, EndRole, EndTask, Until};
use crate::procfs::{cpu_s, family_cpu_s};
use crate::{BenchError, failed};
use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;
use tributary_emu::{Side, VethNetwork};
use tributary_lab::process::{Process, own_program, product_program};

/// Address of the application's far end, which only the server's side has (RFC 5737).
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
/// Addresses inside WireGuard, and its MTU: packets of the datagrams fit, and those of WireGuard fit into Ethernet's.
const INSIDE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
const INSIDE_MTU: u32 = 1440;
/// Time for a program to be ready, and for an end to answer beyond the transfer's own time.
const START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// Time without traffic, and before it until the last transfer has no effects.
const IDLE: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(3);

/// A contestant that is ready.
pub(super) struct Rig {
    way: Way,
    network: VethNetwork,
    directory: TempDir,
    serve: Option<Program>,
    /// Programs that carry the data; ended when dropped.
    carriers: Vec<Process>,
}

impl Rig {
    pub(super) fn prepare(way: Way, settings: &Settings) -> Result<Self, BenchError> {
        let network = VethNetwork::create(2)?;
        let directory = TempDir::new().map_err(|error| failed("a directory", error))?;
        let mut rig = Self { way, network, directory, serve: None, carriers: Vec::new() };
        match way {
            // `connect` is started for each transfer: its server must know the far end's port.
            Way::Plain | Way::Connect => {}
            Way::Wireguard => rig.wireguard(&settings.wireguard)?,
            Way::Tunnel | Way::Exec => rig.product()?,
        }
        Ok(rig)
    }

    /// Where the far end listens.
    fn far(&self) -> Ipv4Addr {
        match self.way {
            Way::Plain | Way::Connect => Side::Server.address(0),
            Way::Wireguard => INSIDE[1],
            Way::Tunnel | Way::Exec => FAR,
        }
    }

    fn shell(&self, side: Side, script: &str) -> Result<String, BenchError> {
        let mut command = self.network.command(side, "sh");
        let output = command.args(["-ec", script]).output().map_err(|error| failed("sh", error))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(failed(script, String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    fn serve(&mut self, targets: [&str; 2]) -> Result<(), BenchError> {
        let key = keygen(self.directory.path())?;
        let command = self.network.command(Side::Server, product_program()?);
        let arguments = ["serve", "--listen", "0.0.0.0:0", targets[0], targets[1], "--shared-key", &key];
        self.serve = Some(Program::start(command, &arguments, self.directory.path())?);
        Ok(())
    }

    /// `serve` and `connect` in front of this target; the client's program and where it listens.
    fn connect(&mut self, target: SocketAddr) -> Result<(Program, SocketAddr), BenchError> {
        self.serve(["--forward", &target.to_string()])?;
        let session = self.session();
        let mut arguments = vec!["connect", "--listen", "127.0.0.1:0"];
        arguments.extend(session.iter().map(String::as_str));
        let command = self.network.command(Side::Client, product_program()?);
        let client = Program::start(command, &arguments, self.directory.path())?;
        let entrance = client.listening().first().copied();
        let entrance = entrance.ok_or_else(|| failed("tributary connect", "it listens nowhere"))?;
        Ok((client, entrance))
    }

    fn product(&mut self) -> Result<(), BenchError> {
        self.shell(Side::Server, &format!("ip addr add {FAR}/32 dev lo"))?;
        self.serve(["--allow", "any"])?;
        if self.way != Way::Tunnel {
            return Ok(());
        }
        let mut command = self.network.command(Side::Client, product_program()?);
        command.arg("tunnel").args(self.session()).args(["--dns", "off", "--to", &format!("{FAR}/32")]);
        command.env("RUST_LOG", "error").env("TRIBUTARY_RUNTIME_DIR", self.directory.path().join("tunnel"));
        let mut tunnel = Process::start("tributary tunnel", command)?;
        self.until("tributary tunnel", &mut tunnel, |rig| {
            let route = rig.shell(Side::Client, &format!("ip route get {FAR}"));
            route.is_ok_and(|route| route.contains("tributary0"))
        })?;
        self.carriers.push(tunnel);
        Ok(())
    }

    /// Arguments for a session over both paths.
    fn session(&self) -> Vec<String> {
        let port = self.serve.as_ref().and_then(|serve| serve.listening().first()).map_or(0, |at| at.port());
        let key = self.directory.path().join("key").to_string_lossy().into_owned();
        let path = |path| format!("{}={}:{port}", VethNetwork::interface(path), Side::Server.address(path));
        let paths = (0..2).flat_map(|index| ["--path".to_owned(), path(index)]);
        ["--shared-key".to_owned(), key].into_iter().chain(paths).collect()
    }

    fn wireguard(&mut self, program: &str) -> Result<(), BenchError> {
        let key = |name: &str| self.directory.path().join(name).to_string_lossy().into_owned();
        let sides = [(Side::Client, 0, "wg-near"), (Side::Server, 1, "wg-far")];
        for (side, _, name) in sides {
            let file = key(name);
            let public = format!("umask 077; wg genkey > {file}; wg pubkey < {file} > {file}.pub");
            self.shell(side, &public)?;
        }
        for (side, own, name) in sides {
            let mut command = self.network.command(side, program);
            command.args(["-f", name]).env("LOG_LEVEL", "error");
            let mut process = Process::start(program, command)?;
            let socket = format!("/var/run/wireguard/{name}.sock");
            self.until(program, &mut process, |_| Path::new(&socket).exists())?;
            let (peer_side, _, peer) = sides[1 - own];
            let (file, peer_key) = (key(name), key(peer) + ".pub");
            let (inside, endpoint) = (INSIDE[own], peer_side.address(0));
            self.shell(
                side,
                &format!(
                    "wg set {name} private-key {file} listen-port 51820 peer $(cat {peer_key}) \
                     allowed-ips {}/32 endpoint {endpoint}:51820
                     ip addr add {inside}/24 dev {name}; ip link set {name} mtu {INSIDE_MTU} up",
                    INSIDE[1 - own]
                ),
            )?;
            self.carriers.push(process);
        }
        Ok(())
    }

    /// Waits until a program is ready.
    fn until(
        &self,
        name: &str,
        process: &mut Process,
        is_ready: impl Fn(&Self) -> bool,
    ) -> Result<(), BenchError> {
        let began = Instant::now();
        while !is_ready(self) {
            if process.wait(LOOK).is_some() || began.elapsed() > START {
                return Err(failed(name, "it ended, or is not ready in time"));
            }
        }
        Ok(())
    }

    /// One transfer: what sender and receiver measured, and the processor seconds of all processes.
    pub(super) fn transfer(
        &mut self,
        contestant: &Contestant,
        seconds: f64,
    ) -> Result<(EndResult, EndResult, f64), BenchError> {
        let until = Until::Seconds(seconds);
        let task = |role| {
            let (contestant, congestion) = (contestant.clone(), CONGESTION.to_owned());
            EndTask { contestant, congestion, until, role }
        };
        let before = family_cpu_s()?;
        let far = self.network.command(Side::Server, own_program()?);
        let mut far = Process::endpoint("far end", far, "end", &task(EndRole::Sink(vec![self.far()])))?;
        let EndReply::Ready(listening) = far.reply(START)? else {
            return Err(far.failed("answered out of turn").into());
        };
        let mut to = *listening.first().ok_or_else(|| failed("the far end", "it listens nowhere"))?;
        let mut client = None;
        if self.way == Way::Connect {
            let (program, entrance) = self.connect(to)?;
            (client, to) = (Some(program), entrance);
        }
        let role = EndRole::Source(vec![(Ipv4Addr::UNSPECIFIED, to)]);
        let mut near = Process::endpoint("near end", self.near()?, "end", &task(role))?;
        let within = START + Duration::from_secs_f64(seconds);
        let done = |end: &Process| match end.reply(within)? {
            EndReply::Done(result) => Ok(result),
            EndReply::Ready(_) => Err(end.failed("answered out of turn")),
        };
        let (near_result, far_result) = (done(&near)?, done(&far)?);
        for end in [&mut near, &mut far] {
            end.wait(START);
        }
        let cpu = family_cpu_s()? - before;
        drop(client);
        Ok(match contestant {
            Contestant::Datagrams { back: true } => (far_result, near_result, cpu),
            _ => (near_result, far_result, cpu),
        })
    }

    /// What the carriers and the server need while nothing is sent, as a share of a core.
    pub(super) fn idle(&self) -> Result<f64, BenchError> {
        let carriers = self.carriers.iter().map(Process::id);
        let programs: Vec<u32> = carriers.chain(self.serve.as_ref().map(Program::id)).collect();
        let spent = || programs.iter().map(|id| cpu_s(*id)).sum::<Result<f64, BenchError>>();
        std::thread::sleep(REST);
        let before = spent()?;
        std::thread::sleep(IDLE);
        Ok((spent()? - before) / IDLE.as_secs_f64())
    }

    /// The command that becomes the near end.
    fn near(&self) -> Result<Command, BenchError> {
        if self.way != Way::Exec {
            return Ok(self.network.command(Side::Client, own_program()?));
        }
        let mut command = self.network.command(Side::Client, product_program()?);
        command.arg("exec").args(self.session()).arg("--").arg(own_program()?);
        command.env("RUST_LOG", "error").stderr(Stdio::null());
        Ok(command)
    }
}
