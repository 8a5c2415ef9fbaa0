//! Keys of each end as a user has them: key files, the list of clients and its reload, and what the programs say.

#[path = "common/program.rs"]
mod program;
#[path = "common/video.rs"]
mod video;

use program::Program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tributary_testing::{echo, text, until};
use video::tiled_video;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tributary")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with keys, a list of clients, and an echo service.
struct World {
    directory: TempDir,
    echo: SocketAddr,
}

impl World {
    /// With a server's key and those of `clients`, who are in the list.
    fn new(clients: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let world = Self { directory, echo: echo() };
        for name in [&["server"], clients].concat() {
            world.make_key(name);
        }
        world.list(clients, "");
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn make_key(&self, name: &str) {
        assert!(run(&["keygen", "--out", text(&self.at(name))]).status.success());
    }

    fn public(&self, name: &str) -> String {
        let output = run(&["pubkey", text(&self.at(name))]);
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write_list(&self, text: &str) {
        // Another file takes its place, so that the server never sees a part of it.
        std::fs::write(self.at("new"), text).unwrap();
        std::fs::set_permissions(self.at("new"), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(self.at("new"), self.at("clients.toml")).unwrap();
    }

    /// Writes the list of clients, each with these fields more.
    fn list(&self, clients: &[&str], more: &str) {
        let entry =
            |name: &&str| format!("[[client]]\nname = \"{name}\"\nkey = \"{}\"\n{more}\n", self.public(name));
        self.write_list(&clients.iter().map(entry).collect::<String>());
    }

    fn serve(&self, more: &[&str]) -> Program {
        let (key, list, forward) = (self.at("server"), self.at("clients.toml"), self.echo.to_string());
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--forward", &forward];
        let keys = ["--key", text(&key), "--clients", text(&list)];
        Program::start(&[&fixed, &keys[..], more].concat(), &self.at("server.log"))
    }

    fn client_arguments(&self, name: &str, server: &Program) -> Vec<String> {
        let (key, public) = (self.at(name), self.public("server"));
        let path = format!("127.0.0.2={}", server.listening);
        let fixed = ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--wait", "5"];
        let keys = ["--server-key", &public, "--key", text(&key)];
        [&fixed[..], &keys].concat().into_iter().map(str::to_owned).collect()
    }

    fn connect(&self, name: &str, server: &Program) -> Program {
        let arguments = self.client_arguments(name, server);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Program::start(&arguments, &self.at(&format!("{name}.log")))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(&format!("{name}.log"))).unwrap_or_default()
    }

    fn logs(&self, name: &str, part: &str) {
        until(&format!("{part} in the log of {name}"), || self.log(name).contains(part));
    }
}

/// Whether the echo service answers through this client.
fn answers(tcp: &mut TcpStream) -> bool {
    let mut answer = [0; 4];
    tcp.write_all(b"echo").and_then(|()| tcp.read_exact(&mut answer)).is_ok() && answer == *b"echo"
}

#[test]
fn a_private_key_and_its_public_one_are_made_and_printed() {
    let world = World::new(&["laptop"]);
    let mode = std::fs::metadata(world.at("server")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = run(&["keygen", "--out", text(&world.at("server"))]);
    assert!(!again.status.success() && said(&again).contains("exists"), "{}", said(&again));
    assert_eq!(world.public("server").len(), 44);
    // As a pipe, as WireGuard's.
    let mut piped = Command::new(env!("CARGO_BIN_EXE_tributary"));
    piped.arg("pubkey").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(world.at("server")).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), world.public("server"));
}

#[test]
fn a_revoked_client_is_cut_off_within_a_second_and_others_go_on() {
    let world = World::new(&["laptop", "phone"]);
    let server = world.serve(&[]);
    let (laptop, phone) = (world.connect("laptop", &server), world.connect("phone", &server));
    let mut of_laptop = TcpStream::connect(&laptop.listening).unwrap();
    let mut of_phone = TcpStream::connect(&phone.listening).unwrap();
    assert!(answers(&mut of_laptop) && answers(&mut of_phone));
    world.logs("server", "by client laptop");

    // The server notices the file by itself; a signal, too, is only a hint.
    let began = Instant::now();
    world.list(&["phone"], "");
    assert!(!matches!(of_laptop.read(&mut [0; 1]), Ok(1..)), "the application's connection ends");
    // real time: 1 s is what is promised; it takes a round trip on loopback.
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    assert!(answers(&mut of_phone));
    world.logs("server", "revoked: laptop");
    world.logs("laptop", "revoked this client's key");

    world.list(&["laptop", "phone"], "");
    world.logs("server", "added: laptop");
    until("the client is admitted again", || {
        TcpStream::connect(&laptop.listening).is_ok_and(|mut tcp| answers(&mut tcp))
    });
    assert!(answers(&mut of_phone));
}

#[test]
fn a_list_with_an_error_changes_nothing_and_names_the_line() {
    let world = World::new(&["laptop"]);
    let mut server = world.serve(&[]);
    let laptop = world.connect("laptop", &server);
    let mut tcp = TcpStream::connect(&laptop.listening).unwrap();
    assert!(answers(&mut tcp));
    world.write_list("[[client]]\nname = \"phone\"\ncolour = \"red\"\n");
    server.signal("HUP");
    world.logs("server", "clients.toml:3: unknown field `colour`");
    world.logs("server", "stays in force");
    assert!(answers(&mut tcp));
    drop((tcp, laptop));
    server.signal("TERM");
    // Not 128 plus a signal: SIGHUP has not ended it. What the application left behind decides between 0 and 1.
    assert!(matches!(server.wait().code(), Some(0 | 1)));
    // At the start it is an error.
    let (key, list) = (world.at("server"), world.at("clients.toml"));
    let refused = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--allow",
        "any",
        "--key",
        text(&key),
        "--clients",
        text(&list),
    ]);
    assert!(
        !refused.status.success() && said(&refused).contains("clients.toml:3: unknown field"),
        "{}",
        said(&refused)
    );
}

#[test]
fn targets_destinations_and_rates_are_those_of_the_client() {
    let world = World::new(&["laptop", "phone"]);
    let named = format!("other={}", world.echo);
    let list = |phone: &str| {
        let entry = |name: &str, more: &str| {
            format!("[[client]]\nname = \"{name}\"\nkey = \"{}\"\n{more}", world.public(name))
        };
        world.write_list(&[entry("laptop", ""), entry("phone", phone)].concat());
    };
    list("forward = [\"\"]\n");
    let server = world.serve(&["--forward", &named]);
    let select = |name: &str, target: &str| {
        let mut arguments = world.client_arguments(name, &server);
        arguments.extend(["--listen".to_owned(), format!("127.0.0.1:0={target}")]);
        let arguments: Vec<&str> =
            arguments.iter().map(String::as_str).filter(|a| *a != "127.0.0.1:0").collect();
        // Only the address with the name.
        let at = arguments.iter().position(|argument| *argument == "--listen").unwrap();
        let arguments = [&arguments[..at], &arguments[at + 1..]].concat();
        Program::start(&arguments, &world.at(&format!("{name}.log")))
    };
    let (laptop, phone) = (select("laptop", "other"), select("phone", "other"));
    assert!(answers(&mut TcpStream::connect(&laptop.listening).unwrap()));
    assert!(!answers(&mut TcpStream::connect(&phone.listening).unwrap()));
    world.logs("server", "does not let client phone select the target `other`");
    // Other limits hold for the next connection of the same session.
    list("forward = [\"other\"]\nrate = \"8 Mbit/s\"\n");
    world.logs("server", "changed: phone");
    let mut tcp = TcpStream::connect(&phone.listening).unwrap();
    assert!(answers(&mut tcp));
    let began = Instant::now();
    let mut reading = tcp.try_clone().unwrap();
    let writer = std::thread::spawn(move || tcp.write_all(&vec![7; 2_000_000]));
    reading.read_exact(&mut vec![0; 2_000_000]).unwrap();
    writer.join().unwrap().unwrap();
    // real time: 2 MB at 1 MB/s; without the limit it takes 0.05 s.
    assert!(began.elapsed() > Duration::from_millis(1500), "after {:?}", began.elapsed());
}

/// The client's last words, and its exit code.
fn refused(world: &World, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let output = command.args(arguments).env("TRIBUTARY_RUNTIME_DIR", world.at("status")).output().unwrap();
    assert!(!output.status.success());
    said(&output)
}

#[test]
fn a_client_prints_why_the_server_refuses_it() {
    let world = World::new(&["laptop"]);
    world.make_key("stranger");
    assert!(run(&["keygen", "--shared", "--out", text(&world.at("shared"))]).status.success());
    let server = world.serve(&[]);
    let arguments = world.client_arguments("stranger", &server);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = refused(&world, &arguments);
    assert_eq!(said.matches("the server does not know this client's key").count(), 1, "once: {said}");
    world.logs("server", &format!("no client of the list has the key {}", world.public("stranger")));

    // A server with another key, as an impostor has.
    let (other, mut wrong) = (world.public("laptop"), arguments.clone());
    let at = wrong.iter().position(|argument| *argument == "--server-key").unwrap();
    wrong[at + 1] = &other;
    let said = refused(&world, &wrong);
    assert!(said.contains(&world.public("server")) && said.contains(&other), "{said}");

    let (path, shared) = (format!("127.0.0.2={}", server.listening), world.at("shared"));
    let old =
        ["connect", "--path", &path, "--listen", "127.0.0.1:0", "--wait", "3", "--shared-key", text(&shared)];
    let said = refused(&world, &old);
    assert!(said.contains("whoever has this key can pose as the server"), "its meaning is said: {said}");
    assert!(said.contains("give --server-key and --key, not --shared-key"), "{said}");
    world.logs("server", "the client has a shared key");
}

#[test]
fn key_files_that_others_may_read_and_keys_of_the_wrong_kind_are_refused() {
    let world = World::new(&["laptop"]);
    assert!(run(&["keygen", "--shared", "--out", text(&world.at("shared"))]).status.success());
    let mode = |name: &str, mode| {
        std::fs::set_permissions(world.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let serve = |key: &Path, list: &Path| {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--allow", "any"];
        refused(&world, &[&fixed[..], &["--key", text(key), "--clients", text(list)]].concat())
    };
    let (server, list) = (world.at("server"), world.at("clients.toml"));
    mode("server", 0o644);
    let said = serve(&server, &list);
    assert!(said.contains("mode 644") && said.contains("chmod 600"), "{said}");
    mode("server", 0o600);
    mode("clients.toml", 0o666);
    let said = serve(&server, &list);
    assert!(said.contains("mode 666") && said.contains("chmod go-w"), "{said}");
    mode("clients.toml", 0o644);
    let said = serve(&world.at("shared"), &list);
    assert!(said.contains("shared:1 is a shared key") && said.contains("tributary keygen"), "{said}");
    let secret = std::fs::read_to_string(&server).unwrap();
    let fixed = ["connect", "--path", "127.0.0.2=127.0.0.1:1", "--listen", "127.0.0.1:0"];
    let private =
        refused(&world, &[&fixed[..], &["--server-key", secret.trim(), "--key", text(&server)]].concat());
    assert!(private.contains("--server-key is not a public key"), "{private}");
    assert!(!private.contains(secret.trim()), "the secret is printed");
    let none = refused(&world, &fixed);
    assert!(none.contains("--server-key") && none.contains("--shared-key"), "{none}");
}

/// What a command says on both outputs, and whether it succeeds.
fn outcome(world: &World, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let output = command.args(arguments).env("TRIBUTARY_RUNTIME_DIR", world.at("status")).output().unwrap();
    (output.status.success(), format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output)))
}

/// A server for players, which says more than one address.
fn dash(world: &World, page: &Path) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.args(["dash", "serve"]).arg(page).args(["--listen", "127.0.0.1:0", "--session", "127.0.0.1:0"]);
    command.arg("--key").arg(world.at("server")).arg("--clients").arg(world.at("clients.toml"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find_map(|line| Some(line.strip_prefix("listening on session://")?.to_owned()));
    let listening = said.expect("it says where it listens").trim_end_matches('/').to_owned();
    Program { child, listening }
}

#[test]
fn viewers_players_and_programs_need_a_key_of_the_list() {
    const UNKNOWN: &str = "the server does not know this client's key";
    let world = World::new(&["laptop"]);
    world.make_key("stranger");
    let (tiles, page) = (tiled_video(world.directory.path()), world.at("page"));
    std::fs::create_dir(&page).unwrap();
    std::fs::write(page.join("manifest.mpd"), "no manifest").unwrap();
    let (key, list) = (world.at("server"), world.at("clients.toml"));
    let start = |command: &[&str], log: &str| {
        let keys = ["--key", text(&key), "--clients", text(&list)];
        Program::start(&[command, &keys].concat(), &world.at(log))
    };
    let video = start(&["stream", "serve", text(&tiles), "--listen", "127.0.0.1:0"], "stream.log");
    let dash = dash(&world, &page);
    let proxy = start(&["serve", "--allow", "any", "--listen", "127.0.0.1:0"], "server.log");
    let public = world.public("server");
    let with = |name: &str, command: &[&str], rest: &[&str]| {
        let key = world.at(name);
        let keys = ["--server-key", &public, "--key", text(&key)];
        outcome(&world, &[command, &keys, rest].concat())
    };
    let path = |server: &Program| format!("127.0.0.2={}", server.listening);

    let viewer = path(&video);
    let play = ["stream", "play", "--path", &viewer, "--seconds", "1"];
    let (done, said) = with("laptop", &play, &[]);
    assert!(done, "{said}");
    let (done, said) = with("stranger", &play, &[]);
    assert!(!done && said.contains(UNKNOWN), "{said}");

    let url = format!("http://{}/manifest.mpd", dash.listening);
    let play = ["dash", "play", &url, "--transport", "fbdt"];
    let (_, said) = with("laptop", &play, &[]);
    assert!(said.contains("the manifest: ") && !said.contains(UNKNOWN), "it is served: {said}");
    let (done, said) = with("stranger", &play, &[]);
    assert!(!done && said.contains(UNKNOWN), "{said}");

    let through = path(&proxy);
    let (exec, program) = (["exec", "--path", &through], ["--", "echo", "it runs"]);
    let (done, said) = with("laptop", &exec, &program);
    assert!(done && said.contains("it runs"), "{said}");
    let (done, said) = with("stranger", &exec, &program);
    assert!(!done && !said.contains("it runs"), "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("tributary exec: ") && line.contains(UNKNOWN)),
        "{said}"
    );
    assert_eq!(said.matches(UNKNOWN).count(), 1, "the reason is said once: {said}");
}
