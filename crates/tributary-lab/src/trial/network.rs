//! The emulated network of a trial, and what its operations do to links, interfaces and connections.

use crate::error::LabError;
use crate::process::{ProcessError, output};
use core::time::Duration;
use std::fmt::Write as _;
use tributary_emu::{ForwardOptions, Network, Side};
use tributary_link::{Change, Direction, PathSpec, Scenario};
use tributary_sim::trial::{Act, End, Trial};
use tributary_types::Instant;

/// Longest trial, with the time until everything has arrived.
const LONGEST: Duration = Duration::from_secs(1800);
/// States of connections in the kernel's table that hold nothing for a program: waiting after the end, and listening.
const TIME_WAIT: &str = "06";
const LISTENING: &str = "0A";

/// The network, and what it was told last.
pub(super) struct TrialNetwork {
    network: Network,
    paths: Vec<Conditions>,
    /// Connections that an address translator has forgotten: path, the client's ports, and whether it answers.
    forgotten: Vec<(usize, Vec<u16>, bool)>,
}

/// What a path is at a time, beside what its links do by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Conditions {
    down: Change,
    up: Change,
    /// The interface of the client, of the server, is down.
    absent: [bool; 2],
    /// New connections are refused.
    refused: bool,
}

/// The side of an end.
pub(super) fn side(end: End) -> Side {
    match end {
        End::Client => Side::Client,
        End::Server => Side::Server,
    }
}

/// Name of a path's network interface at both ends.
pub(super) fn interface(path: usize) -> String {
    format!("p{path}")
}

/// The paths of a trial with everything that their links do by themselves: rates and delays over time.
fn scenario(trial: &Trial) -> Scenario {
    let mut scenario = Scenario::new("trial").with_seed(trial.seed).with_duration(LONGEST);
    for path in 0..trial.paths.len() {
        let [down, up] = End::BOTH.map(|end| trial.link(path, end).spec);
        scenario = scenario.with_path(PathSpec { up, ..PathSpec::symmetric(&interface(path), down) });
    }
    scenario
}

impl Conditions {
    fn at(trial: &Trial, path: usize, now: Instant) -> Self {
        let present = || {
            let operations = trial.operations.iter();
            let here = operations.filter(|o| o.act.path().map(usize::from) == Some(path));
            here.filter(|o| o.begins() <= now && now < o.ends()).map(|o| &o.act)
        };
        let arrives = |act: &Act| match *act {
            Act::Loss { per_mille, .. } => 1.0 - f64::from(per_mille.min(1000)) / 1000.0,
            _ => 1.0,
        };
        let loss = present().any(|act| matches!(act, Act::Loss { .. })).then(|| {
            let always = 1.0 - f64::from(trial.paths[path].loss_ppm) / 1e6;
            1.0 - always * present().map(arrives).product::<f64>()
        });
        let change = |to| {
            let blocked = trial.link(path, to).dead.iter().any(|(from, to)| *from <= now && now < *to);
            Change { loss, blocked, rate: None }
        };
        let told = |server: bool| {
            present().any(|act| matches!(act, Act::Absent { both_told, .. } if !server || *both_told))
        };
        Self {
            down: change(End::Client),
            up: change(End::Server),
            absent: [told(false), told(true)],
            refused: present().any(|act| matches!(act, Act::Refuse { .. })),
        }
    }
}

impl TrialNetwork {
    pub fn start(trial: &Trial) -> Result<Self, LabError> {
        // Polling before deadlines would cost several trials at the same time more accuracy than it gives one.
        let options = ForwardOptions { spin: Duration::ZERO, ..ForwardOptions::default() };
        let network = Network::start_with(&scenario(trial), options)?;
        let paths = vec![Conditions::default(); trial.paths.len()];
        Ok(Self { network, paths, forgotten: Vec::new() })
    }

    pub fn emulated(&self) -> &Network {
        &self.network
    }

    /// Times at which something on the network begins or ends.
    pub fn times(trial: &Trial) -> Vec<Instant> {
        let concerned = trial.operations.iter().filter(|o| o.act.path().is_some());
        let mut times: Vec<_> = concerned.flat_map(|o| [o.begins(), o.ends()]).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Lets the paths be what they are at this time of the trial.
    pub fn adapt(&mut self, trial: &Trial, now: Instant) -> Result<(), LabError> {
        for path in 0..self.paths.len() {
            let (before, wanted) = (self.paths[path], Conditions::at(trial, path, now));
            let name = interface(path);
            for (direction, was, is) in
                [(Direction::Down, before.down, wanted.down), (Direction::Up, before.up, wanted.up)]
            {
                if was != is {
                    self.network.change(&name, Some(direction), is)?;
                }
            }
            for (end, (was, is)) in End::BOTH.into_iter().zip(before.absent.into_iter().zip(wanted.absent)) {
                if was != is {
                    self.network.set_link_state(side(end), &name, !is)?;
                }
            }
            self.paths[path] = wanted;
            if before.refused != wanted.refused {
                self.filter()?;
            }
        }
        Ok(())
    }

    /// Ends the connections of a path at one end; the other end is told by a reset.
    pub fn reset(&self, path: u8, end: End) -> Result<(), LabError> {
        let address = side(end).address(path.into());
        let mut command = self.network.command(side(end), "ss");
        command.args(["--kill", "--no-header", "--tcp", "--numeric", "state", "established", "src"]);
        command.arg(address.to_string());
        output(command, "iproute2")?;
        Ok(())
    }

    /// An address translator forgets the connections of a path.
    pub fn forget(&mut self, path: u8, answers: bool) -> Result<(), LabError> {
        let address = Side::Client.address(path.into());
        let mut command = self.network.command(Side::Client, "ss");
        command.args(["--no-header", "--tcp", "--numeric", "--oneline", "state", "connected", "src"]);
        command.arg(address.to_string());
        let listed = output(command, "iproute2")?;
        let port = |line: &str| {
            let local = line.split_whitespace().find(|word| word.starts_with(&format!("{address}:")))?;
            local.rsplit_once(':')?.1.parse().ok()
        };
        let ports: Vec<u16> = listed.lines().filter_map(port).collect();
        if !ports.is_empty() {
            self.forgotten.push((path.into(), ports, answers));
            self.filter()?;
        }
        Ok(())
    }

    /// Puts refusals and forgotten connections into force at both ends.
    fn filter(&self) -> Result<(), ProcessError> {
        for (side, port) in [(Side::Server, "sport"), (Side::Client, "dport")] {
            let mut rules = String::new();
            let refused = self.paths.iter().enumerate().filter(|(_, path)| path.refused);
            for (path, _) in refused.filter(|_| side == Side::Server) {
                let name = interface(path);
                _ = write!(rules, "iifname {name} tcp flags & (syn | ack) == syn reject with tcp reset; ");
            }
            for (path, ports, answers) in &self.forgotten {
                let (name, ports) = (interface(*path), ports.iter().map(u16::to_string));
                let ports = ports.collect::<Vec<_>>().join(", ");
                let verdict = if *answers { "reject with tcp reset" } else { "drop" };
                // The translator's own resets pass.
                let passes = if *answers { "tcp flags & rst == 0 " } else { "" };
                _ = write!(rules, "iifname {name} tcp {port} {{ {ports} }} {passes}{verdict}; ");
            }
            let chain = "type filter hook input priority 0; policy accept";
            let table = format!(
                "table inet trial; flush table inet trial; table inet trial {{ chain arriving {{ {chain}; {rules} }}; }}"
            );
            let mut command = self.network.command(side, "nft");
            command.arg(table);
            output(command, "nftables")?;
        }
        Ok(())
    }

    /// TCP sockets in the kernel of one end, those that wait after their end not counted.
    pub fn connections(&self, end: End) -> Result<usize, LabError> {
        let count = || {
            let tables = ["tcp", "tcp6"].map(|table| format!("/proc/thread-self/net/{table}"));
            tables.iter().map(|table| connected(&std::fs::read_to_string(table).unwrap_or_default())).sum()
        };
        Ok(self.network.run(side(end), count)?)
    }
}

/// Connections in a table of the kernel.
fn connected(table: &str) -> usize {
    let states = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    states.filter(|state| ![TIME_WAIT, LISTENING].contains(state)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_follow_the_operations() {
        let path = "[[paths]]\nup-kbps = 1000\ndown-kbps = 1000\nrtt-ms = 10\nqueue = 30000\n";
        let operation = |at: u64, rest: &str| format!("[[operations]]\nat-ms = {at}\n{rest}\nfor-ms = 100\n");
        let text = format!(
            "seed = 1\nscheduler = \"fbdt\"\ncongestion = \"cubic\"\ntls = false\nearly = false\n\
             receive-credit = 1000000\nsend-buffer = 1000000\n{path}loss-ppm = 100000\n{path}{}{}{}{}",
            operation(100, "act = \"loss\"\npath = 0\nper-mille = 500"),
            operation(150, "act = \"dead\"\npath = 0\nway = \"up\""),
            operation(100, "act = \"absent\"\npath = 1\nboth-told = false"),
            operation(150, "act = \"refuse\"\npath = 1"),
        );
        let trial = Trial::parse(&text).unwrap();
        let at = |path, ms| Conditions::at(&trial, path, Instant::from_millis(ms));
        assert_eq!((at(0, 99), at(1, 99)), Default::default());
        let lossy = Change { loss: Some(1.0 - 0.9 * 0.5), ..Change::default() };
        assert_eq!(at(0, 100), Conditions { down: lossy, up: lossy, ..Conditions::default() });
        let dead = Change { blocked: true, ..lossy };
        assert_eq!(at(0, 160), Conditions { down: lossy, up: dead, ..Conditions::default() });
        let blocked = Change { blocked: true, ..Change::default() };
        let away = Conditions { down: blocked, up: blocked, absent: [true, false], ..Conditions::default() };
        assert_eq!(at(1, 160), Conditions { refused: true, ..away });
        assert_eq!((at(0, 250), at(1, 250)), Default::default());
        assert_eq!(TrialNetwork::times(&trial).len(), 4);
    }

    #[test]
    fn listening_and_waiting_sockets_are_no_connections() {
        let table =
            "  sl local rem st\n 0: 0A:1 0:0 0A x\n 1: 0A:1 0B:2 01 x\n 2: 0A:1 0B:2 06 x\n 3: 1 2 08 x\n";
        assert_eq!(connected(table), 2);
    }
}
