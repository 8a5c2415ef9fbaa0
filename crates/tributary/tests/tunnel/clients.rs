//! A tunnel with a key of its own, to a server that has a list of clients: what its client may reach, and what happens when it is revoked.
//!
//! Not here: the list's form, its limits and the time that a revocation takes (`keys.rs`).

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tributary_emu::{Side, VethNetwork};
use tributary_testing::until;

use crate::far_side::{NAME, PAGE, WEB, WEB_6, echo_client, listening, said};
use crate::running::{Running, succeeds};
use crate::{PROGRAM, World};

/// A server with a key of its own and a list of clients, beside the one that all other cases use.
struct Server<'a> {
    world: &'a World,
    port: u16,
    _running: Running,
}

impl<'a> Server<'a> {
    /// Makes these clients' keys and lists them, each with these fields more.
    fn start(world: &'a World, clients: &[(&str, &str)]) -> Self {
        for name in ["server"].into_iter().chain(clients.iter().map(|(name, _)| *name)) {
            make_key(world, name);
        }
        list(world, clients);
        let mut command = world.ends.serve_without_keys(world.network.command(Side::Server, "unshare"));
        command.args(["--listen", "0.0.0.0:0", "--key"]).arg(key(world, "server"));
        command.arg("--clients").arg(world.ends.at("clients.toml"));
        let log = File::create(world.ends.at("clients-server.log")).expect("a file");
        let mut running = Running::start(command.stderr(log));
        let address = listening(&mut running.0);
        let port = address.rsplit_once(':').expect("a port").1.parse().expect("a port");
        Self { world, port, _running: running }
    }

    /// The command of a client's tunnel.
    fn tunnel_command(&self, name: &str) -> Command {
        let mut command = self.world.program();
        command.args(["tunnel", "--server-key", &public(self.world, "server"), "--key"]);
        command.arg(key(self.world, name));
        for radio in [0, 1] {
            let (interface, address) = (VethNetwork::interface(radio), Side::Server.address(radio));
            command.args(["--path", &format!("{interface}={address}:{}", self.port)]);
        }
        command
    }

    fn tunnel(&self, name: &str) -> Running {
        self.world.start(self.tunnel_command(name), false)
    }

    fn logged(&self, words: &str) {
        let log = self.world.ends.at("clients-server.log");
        until(words, || fs::read_to_string(&log).expect("a log").contains(words));
    }
}

fn key(world: &World, name: &str) -> std::path::PathBuf {
    world.ends.at(&format!("{name}.key"))
}

fn make_key(world: &World, name: &str) {
    let file = key(world, name);
    // A case before this one may have made it.
    let _ = fs::remove_file(&file);
    succeeds(Command::new(PROGRAM).args(["keygen", "--out"]).arg(file).stderr(Stdio::null()));
}

fn public(world: &World, name: &str) -> String {
    let output = Command::new(PROGRAM).arg("pubkey").arg(key(world, name)).output().expect("it starts");
    said(&output, 0).trim().to_owned()
}

/// Another list takes the file's place, so that the server never sees a part of it.
fn list(world: &World, clients: &[(&str, &str)]) {
    let entry = |(name, more): &(&str, &str)| {
        format!("[[client]]\nname = \"{name}\"\nkey = \"{}\"\n{more}\n", public(world, name))
    };
    let new = world.ends.at("clients.new");
    fs::write(&new, clients.iter().map(entry).collect::<String>()).expect("a file");
    fs::set_permissions(&new, Permissions::from_mode(0o600)).expect("its own file");
    fs::rename(new, world.ends.at("clients.toml")).expect("the same directory");
}

pub fn a_client_of_the_list_reaches_what_it_may(world: &World) {
    let before = world.state();
    let allowed = format!("allow = [\"{WEB}\"]");
    let server = Server::start(world, &[("laptop", &allowed), ("phone", "")]);
    let tunnel = server.tunnel("laptop");
    server.logged("by client laptop");
    for host in [NAME.to_owned(), WEB.to_string()] {
        assert_eq!(said(&world.page(&host), 0), PAGE, "{host}");
    }
    // Only the server's own rule is for all. curl: 7, 52 or 56, the connection was reset.
    let refused = world.page(format!("[{WEB_6}]"));
    assert!(matches!(refused.status.code(), Some(7 | 52 | 56)), "{refused:?}");
    let script = format!(
        "import socket, errno
for family, host in [(socket.AF_INET, '{WEB}'), (socket.AF_INET6, '{WEB_6}')]:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(60)
    s.connect((host, {}))
    s.send(b'x')
    try: print(s.recv(1).decode())
    except OSError as error: print(errno.errorcode[error.errno])",
        world.web
    );
    assert_eq!(said(&world.on_client(&["python3", "-c", &script]), 0), "x\nEACCES\n");
    assert_eq!(tunnel.end(), Some(0));

    let tunnel = server.tunnel("phone");
    server.logged("by client phone");
    for host in [NAME.to_owned(), WEB.to_string(), format!("[{WEB_6}]")] {
        assert_eq!(said(&world.page(&host), 0), PAGE, "{host}");
    }
    assert_eq!(said(&world.on_client(&["python3", "-c", &echo_client(world.web)]), 0), "all\n");
    assert_eq!(tunnel.end(), Some(0));

    make_key(world, "stranger");
    let output = server.tunnel_command("stranger").args(["--wait", "5"]).output().expect("it starts");
    said(&output, 1);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("does not know this client's key"), "{errors}");
    assert_eq!(world.state(), before, "as it was found");
}

pub fn a_revoked_clients_tunnel_carries_nothing(world: &World) {
    let before = world.state();
    let server = Server::start(world, &[("laptop", ""), ("phone", "")]);
    let tunnel = server.tunnel("laptop");
    let during = world.state();
    assert_eq!(said(&world.page(WEB), 0), PAGE);
    list(world, &[("phone", "")]);
    world.logged("revoked this client's key");
    let refused = world.page(WEB);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(world.state(), during, "nothing goes around it");
    list(world, &[("laptop", ""), ("phone", "")]);
    server.logged("added: laptop");
    until("the client is admitted again", || world.page(WEB).status.success());
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before, "as it was found");
}
