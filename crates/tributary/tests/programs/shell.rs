//! OpenSSH: a server with its own settings at the server's side, commands and files through every way.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tributary_emu::Side;

use crate::far_side::{NAME, WEB, said};
use crate::running::{Running, succeeds};
use crate::world::{Carrier, Way, World, content, output_of};

const PORT: u16 = 2222;
const BYTES: u32 = 20_000_000;
/// Bytes on the radios between two of their troubles.
const EACH: u64 = 1_200_000;

/// A server that knows one key.
fn serve(world: &World) -> Running {
    for name in ["host", "user"] {
        let file = world.at(name);
        if !file.exists() {
            let mut command = Command::new("ssh-keygen");
            succeeds(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file));
        }
    }
    let at = |name: &str| world.at(name).display().to_string();
    let settings = format!(
        "Port {PORT}\nListenAddress {WEB}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no
PermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n",
        at("host"),
        at("user.pub")
    );
    fs::write(world.at("sshd.conf"), settings).expect("a file");
    // Without PAM sshd refuses a user whose password is locked.
    fs::write(world.at("shadow"), "root:*:19000:0:99999:7:::\nsshd:*:19000::::::\n").expect("a file");
    let host = fs::read_to_string(world.at("host.pub")).expect("a key");
    fs::write(world.at("known"), format!("[{NAME}]:{PORT} {host}")).expect("a file");
    fs::create_dir_all("/run/sshd").expect("a directory");
    let mut command = world.network.command(Side::Server, "unshare");
    command.args([
        "-m",
        "sh",
        "-c",
        "mount --bind $0 /etc/shadow && exec $(command -v sshd) -D -e -f \"$1\"",
    ]);
    command.arg(world.at("shadow")).arg(world.at("sshd.conf"));
    let server = Running::start(command.stderr(fs::File::create(world.at("sshd.log")).expect("a file")));
    world.listens("tcp", PORT);
    server
}

/// The command with the options that lead to the server.
fn client(world: &World, carrier: &Carrier<'_>, program: &str) -> Command {
    let at = |name: &str| world.at(name).display().to_string();
    let mut options = vec![
        "BatchMode=yes".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        format!("Port={PORT}"),
        format!("IdentityFile={}", at("user")),
        format!("UserKnownHostsFile={}", at("known")),
    ];
    if !carrier.socks.is_empty() {
        options.push(format!("ProxyCommand=nc -X 5 -x {} %h %p", carrier.socks));
    }
    let mut command = carrier.command(program);
    command.args(["-q", "-F", "none"]).args(options.iter().flat_map(|option| ["-o", option]));
    command
}

pub fn ssh_runs_commands(world: &World) {
    let _server = serve(world);
    for way in [Way::Tunnel, Way::Exec, Way::Socks] {
        let carrier = world.carry(way);
        let mut command = client(world, &carrier, "ssh");
        command.arg(format!("root@{NAME}")).arg("echo \"$SSH_CONNECTION\"; cat; exit 5");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("ssh");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"typed\n").expect("it reads");
        let text = said(&output_of(child), 5);
        assert!(text.ends_with(&format!(" {WEB} {PORT}\ntyped\n")), "{way:?}: {text}");
        carrier.end();
    }
}

pub fn ssh_copies_files(world: &World) {
    let _server = serve(world);
    let near = world.at("file");
    fs::write(&near, content(BYTES)).expect("a file");
    for (way, program) in [(Way::Tunnel, "scp"), (Way::Exec, "sftp"), (Way::Socks, "scp")] {
        let carrier = world.carry(way);
        let copy = world.at("copy");
        let remote = |path: &Path| format!("root@{NAME}:{}", path.display());
        let mut command = client(world, &carrier, program);
        match program {
            "scp" => command.arg(&near).arg(remote(&copy)),
            _ => command.arg(remote(&near)).arg(&copy),
        };
        let mut child: Child = command.spawn().expect("it starts");
        world.troubles(|what| world.carried(EACH, what, &mut child));
        said(&output_of(child), 0);
        assert!(fs::read(&copy).expect("a copy") == content(BYTES), "{way:?}, {program}");
        fs::remove_file(copy).expect("it is there");
        carrier.end();
    }
}
