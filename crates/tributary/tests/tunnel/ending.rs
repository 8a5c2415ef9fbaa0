//! The end of a tunnel while programs have connections: these finish, or are reset, and their programs learn of it.
//!
//! Not here: what the end takes back (every case of this program compares it).

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Stdio};
use std::thread;

use tributary_emu::Side;

use crate::World;
use crate::far_side::WEB;
use crate::running::Running;

/// What the log says when connections have their time to finish.
const ENDING: &str = "ending; connections have";

/// A program with a connection over the tunnel.
struct Program {
    running: Running,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Connects the socket `s` to `far`, which sends the first byte, and waits before it does `then`.
    fn connect(world: &World, far: fn(TcpStream), then: &str) -> Self {
        let listener =
            world.network.run(Side::Server, || TcpListener::bind((WEB, 0)).expect("its own address"));
        let listener = listener.expect("a thread");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || {
            let (mut tcp, _) = listener.accept().expect("a connection");
            tcp.write_all(b"1").expect("it reads");
            far(tcp);
        });
        let script = format!(
            "import socket, sys
s = socket.create_connection(('{WEB}', {port}))
s.settimeout(60)
s.recv(1)
print('begun', flush=True)
sys.stdin.readline()
{then}"
        );
        let mut command = world.network.command(Side::Client, "python3");
        let mut running =
            Running::start(command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let lines = BufReader::new(running.0.stdout.take().expect("a pipe")).lines();
        let mut program = Self { running, lines };
        assert_eq!(program.line(), "begun");
        program
    }

    fn go_on(&mut self) {
        self.running.0.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("a line")
    }
}

pub fn connections_finish_after_the_end_has_begun(world: &World) {
    const BYTES: usize = 8 << 20;
    let before = world.state();
    let mut tunnel = world.tunnel(&[]);
    let count = |mut tcp: TcpStream| {
        let mut all = Vec::new();
        tcp.read_to_end(&mut all).expect("no reset");
        write!(tcp, "{}", all.len()).expect("it reads");
    };
    let then = format!(
        "s.sendall(bytes({BYTES}))
s.shutdown(socket.SHUT_WR)
print(s.recv(100, socket.MSG_WAITALL).decode())"
    );
    let mut program = Program::connect(world, count, &then);
    tunnel.terminate();
    world.logged(ENDING);
    program.go_on();
    assert_eq!(program.line(), BYTES.to_string());
    assert_eq!(tunnel.0.wait().expect("it is a child").code(), Some(0));
    assert_eq!(world.state(), before);
}

pub fn connections_that_do_not_finish_are_reset(world: &World) {
    let before = world.state();
    let keep = |mut tcp: TcpStream| drop(tcp.read_to_end(&mut Vec::new()));
    let then = "try: print(s.recv(1))
except OSError as error: print(type(error).__name__)";
    for (options, is_hurried, code) in [(&["--drain", "1"][..], false, 1), (&["--drain", "60"], true, 143)] {
        let mut tunnel = world.tunnel(options);
        let mut program = Program::connect(world, keep, then);
        program.go_on();
        tunnel.terminate();
        world.logged(ENDING);
        if is_hurried {
            tunnel.terminate();
        }
        assert_eq!(tunnel.0.wait().expect("it is a child").code(), Some(code));
        assert_eq!(program.line(), "ConnectionResetError", "{options:?}");
        assert_eq!(world.state(), before);
    }
}
