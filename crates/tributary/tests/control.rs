//! Settings files, their reload, the control socket and metrics, as an operator has them.

#[path = "common/program.rs"]
mod program;

use program::Program;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;
use tributary_net::{Common, ConnectConfig, Keys, PrivateKey, PublicKey, connect};
use tributary_testing::{HANG, becomes, echo, text, until};

/// A directory with keys, a list of one client, and a service that sends back what it gets.
struct World {
    directory: TempDir,
    echo: SocketAddr,
}

impl World {
    fn new() -> Self {
        let world = Self { directory: TempDir::new().unwrap(), echo: echo() };
        for name in ["server", "laptop"] {
            assert!(world.run(&["keygen", "--out", text(&world.at(name))]).status.success());
        }
        let list = format!("[[client]]\nname = \"laptop\"\nkey = \"{}\"\n", world.public("laptop"));
        std::fs::write(world.at("clients.toml"), list).unwrap();
        std::fs::set_permissions(world.at("clients.toml"), std::fs::Permissions::from_mode(0o600)).unwrap();
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(arguments).env("TRIBUTARY_RUNTIME_DIR", self.at("status"));
        command.output().unwrap()
    }

    fn public(&self, name: &str) -> String {
        let output = self.run(&["pubkey", text(&self.at(name))]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Settings of the server.
    fn serve(&self, more: &str) -> PathBuf {
        let (key, list) = (self.at("server"), self.at("clients.toml"));
        let text = format!(
            "command = \"serve\"\nlisten = [\"127.0.0.1:0\"]\nforward = [\"{}\"]\nkey = {key:?}\nclients = {list:?}\n{more}",
            self.echo
        );
        self.write("serve.toml", &text)
    }

    /// Settings of the client.
    fn connect(&self, server: &Program, paths: &[&str], more: &str) -> PathBuf {
        let (key, public) = (self.at("laptop"), self.public("server"));
        let text = format!(
            "command = \"connect\"\npath = {paths:?}\nserver = \"{}\"\nlisten = [\"127.0.0.1:0\"]\nserver_key = \"{public}\"\n\
             key = {key:?}\n{more}",
            server.listening
        );
        self.write("connect.toml", &text)
    }

    fn start(&self, settings: &Path, log: &str) -> Program {
        Program::start(&["run", text(settings)], &self.at(log))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    /// The state of the running program with this role.
    fn status(&self, role: &str) -> Value {
        let output = self.run(&["status", "--json"]);
        let told: Value = serde_json::from_slice(&output.stdout).expect("an object");
        let programs = told["programs"].as_array().unwrap();
        programs.iter().find(|program| program["role"] == role).expect("it runs").clone()
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        self.run(&[&["ctl"], arguments].concat())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// A free port of this machine. Nobody else takes one in the moment until it is used, or the test says so.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut tcp = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Sends `bytes` to the echo service and checks that all of them come back.
fn exchange(client: &Program, bytes: usize) {
    let mut tcp = TcpStream::connect(&client.listening).unwrap();
    let mut end = tcp.try_clone().unwrap();
    let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let sent = content.clone();
    let writer = std::thread::spawn(move || {
        end.write_all(&sent).unwrap();
        end.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    tcp.read_to_end(&mut back).unwrap();
    writer.join().unwrap();
    assert!(back == content, "{} of {bytes} bytes came back", back.len());
}

/// The samples of a scrape, by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        (series.to_owned(), value.parse().expect("a number"))
    };
    samples.map(pair).collect()
}

#[test]
fn a_scrape_has_the_values_of_the_status() {
    let world = World::new();
    let (of_server, of_client) = (free(), free());
    let server = world.start(&world.serve(&format!("metrics = \"{of_server}\"\n")), "server.log");
    let settings =
        world.connect(&server, &["127.0.0.2", "127.0.0.3"], &format!("metrics = \"{of_client}\"\n"));
    let client = world.start(&settings, "client.log");
    until("the client is ready", || get(of_client, "/readyz").0 == 200);
    exchange(&client, 300_000);
    assert_eq!(get(of_server, "/healthz"), (200, "ok\n".to_owned()));
    until("both paths are up", || {
        let status = world.status("serve");
        let paths = status["clients"][0]["paths"].as_array().cloned().unwrap_or_default();
        paths.len() == 2 && paths.iter().all(|path| path["up"] == 1)
    });
    // Nothing is sent any more once both ends have heard of all of it: the numbers stand still.
    let scrape = |address| samples(&get(address, "/metrics").1);
    let mut status = (Value::Null, Value::Null);
    until("the numbers stand still", || {
        status = (world.status("serve"), world.status("connect"));
        let sum = |of: &Value| {
            of["sessions"][0]["paths"]
                .as_array()
                .map_or(0, |paths| paths.iter().filter_map(|path| path["received"].as_u64()).sum())
        };
        let before: (u64, u64) = (sum(&status.0), sum(&status.1));
        before.0 >= 300_000
            && before.1 >= 300_000
            && before == (sum(&world.status("serve")), sum(&world.status("connect")))
    });
    let (serve, connect) = (scrape(of_server), scrape(of_client));
    let of_client = &status.0["clients"][0];
    assert_eq!(of_client["client"], "laptop");
    for name in ["sent", "received", "sent_again"] {
        let series = format!("tributary_client_{name}_bytes_total{{role=\"serve\",client=\"laptop\"}}");
        assert_eq!(Some(serve[&series]), of_client[name].as_f64(), "{series}");
    }
    for path in of_client["paths"].as_array().unwrap() {
        let labels = format!("{{role=\"serve\",client=\"laptop\",path={}}}", path["path"]);
        for name in ["sent", "received"] {
            assert_eq!(
                Some(serve[&format!("tributary_client_path_{name}_bytes_total{labels}")]),
                path[name].as_f64()
            );
        }
        assert_eq!(serve[&format!("tributary_client_paths_up{labels}")], 1.0);
    }
    for path in status.1["sessions"][0]["paths"].as_array().unwrap() {
        let labels = format!("{{role=\"connect\",path={}}}", path["radio"]);
        for name in ["sent", "received"] {
            assert_eq!(
                Some(connect[&format!("tributary_path_{name}_bytes_total{labels}")]),
                path[name].as_f64()
            );
        }
        assert_eq!(connect[&format!("tributary_path_up{labels}")], 1.0);
    }
    assert_eq!(serve["tributary_sessions{role=\"serve\"}"], 1.0);
    assert_eq!(get(of_server, "/metrics").0, 200);
}

#[test]
fn the_counters_of_a_client_stay_when_its_session_ends() {
    let world = World::new();
    let server = world.start(&world.serve(""), "server.log");
    let received = || world.status("serve")["clients"][0]["received"].as_u64();
    for round in 1..=2 {
        let settings = world.connect(&server, &["127.0.0.2"], "");
        let mut client = world.start(&settings, "client.log");
        exchange(&client, 100_000);
        client.signal("TERM");
        client.wait();
        until("the session has ended", || {
            world.status("serve")["sessions"].as_array().is_some_and(Vec::is_empty)
        });
        // Each stream begins with a byte that names the target.
        assert_eq!(received(), Some(round * 100_001));
    }
}

#[test]
fn a_settings_file_is_checked_whole_before_anything_starts() {
    let world = World::new();
    let settings = world.serve("drain = 5\naddress = \"one.example.org:7000\"\n");
    let checked = world.run(&["check", text(&settings)]);
    assert!(
        checked.status.success() && said(&checked).contains("valid settings of `serve`"),
        "{}",
        said(&checked)
    );
    let file = settings.display().to_string();
    for (more, line, parts) in [
        ("drian = 5", 6, "unknown key `drian`; did you mean `drain`?"),
        ("drain = \"ten\"", 6, "`drain`: `ten`"),
        ("priority = [\"7001=7\"]\nscheduler = \"fast\"", 7, "`scheduler`: "),
        ("priority = [\n  \"video=300\"]", 7, "priority `300` is not from 0 to 255"),
        ("metrics = \"0.0.0.0:9464\"", 6, "--metrics-remote"),
        (
            "address = \"0.0.0.0:7000\"",
            6,
            "`address`: `0.0.0.0:7000`: clients cannot connect to that address",
        ),
        ("address = \"rack\"", 6, "`address`: `rack`: expected HOST:PORT"),
        ("shared_key = \"k\"", 6, "cannot be together with"),
    ] {
        let settings = world.serve(more);
        for command in [&["check", text(&settings)][..], &["run", text(&settings)]] {
            let output = world.run(command);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{more}: {said}");
            let place = said.split_once(&format!("{file}:")).unwrap_or_else(|| panic!("{more}: {said}")).1;
            let at: u32 = place.split(':').next().unwrap().parse().unwrap();
            assert!(said.contains(parts), "{more}: {said}");
            assert!(at == line || parts.starts_with("cannot"), "{more}: line {at}: {said}");
        }
    }
    std::fs::remove_file(world.at("server")).unwrap();
    let output = world.run(&["check", text(&world.serve(""))]);
    assert!(said(&output).contains(&format!("{file}:4: `key`: ")), "{}", said(&output));
    let output = world.run(&["check", "/nowhere/x.toml"]);
    assert!(said(&output).contains("/nowhere/x.toml"), "{}", said(&output));
}

#[test]
fn flags_replace_the_files_values() {
    let world = World::new();
    let settings = world.serve("log_format = \"json\"\n");
    let port = free().to_string();
    let log = world.at("server.log");
    let server = Program::start(&["run", text(&settings), "--listen", &port, "--drain=1"], &log);
    assert_eq!(server.listening, port);
    // The client's arrival is logged as JSON.
    let _client = world.start(&world.connect(&server, &["127.0.0.2"], ""), "client.log");
    until("the server logs the session", || world.log("server.log").contains("opened"));
    for line in world.log("server.log").lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(event["level"].is_string() && event["timestamp"].is_string(), "{event}");
        assert!(event["fields"]["message"].is_string(), "{event}");
    }
}

#[test]
fn a_taken_metrics_port_is_named() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = world.run(&["run", text(&world.serve(&format!("metrics = \"{address}\"\n")))]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("--metrics {address}")) && said.contains("in use"), "{said}");
}

#[test]
fn a_reload_drops_no_byte() {
    /// More than the buffers of all sockets and sessions on the way.
    const BYTES: usize = 40_000_000;
    let world = World::new();
    let server = world.start(&world.serve(""), "server.log");
    let client = world.start(&world.connect(&server, &["127.0.0.2"], ""), "client.log");
    let transfer = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| exchange(&client, BYTES));
        let mut reloads = 0;
        while !transfer.is_finished() {
            let paths: [&[&str]; 3] =
                [&["127.0.0.2", "127.0.0.3"], &["127.0.0.3"], &["127.0.0.2,metered", "127.0.0.4"]];
            world.connect(&server, paths[reloads % 3], "");
            let other = if reloads % 2 == 0 { "allow = [\"any:80\"]\n" } else { "memory = \"1GiB\"\n" };
            world.serve(other);
            for (program, log) in [(&client, "client.log"), (&server, "server.log")] {
                let count = || world.log(log).matches("was read again").count();
                let before = count();
                program.signal("HUP");
                until("the reload is logged", || count() > before);
            }
            reloads += 1;
        }
        println!("{reloads} reloads during {BYTES} bytes each way");
        assert!(reloads >= 3, "{reloads} reloads");
        transfer.join()
    });
    transfer.expect("every byte came back");
    let log = world.log("client.log");
    assert!(log.contains("changed: path; needs a restart: nothing"), "{log}");
    assert!(!log.contains("a new one is opened"), "one session has carried it all: {log}");
    let log = world.log("server.log");
    assert!(
        log.contains("changed: allow; needs a restart: nothing") || log.contains("changed: allow, memory;"),
        "{log}"
    );
}

#[test]
fn a_reload_says_what_needs_a_restart_and_refuses_a_file_with_an_error() {
    let world = World::new();
    let server = world.start(&world.serve("drain = 5\n"), "server.log");
    let settings = world.connect(&server, &["127.0.0.2"], "");
    let client = world.start(&settings, "client.log");
    exchange(&client, 1000);
    world.serve("drain = 6\nbuffer = 100\n");
    let reload = |pid: &str| world.ctl(&["--pid", pid, "reload"]);
    let pid = server.child.id().to_string();
    let output = reload(&pid);
    assert!(said(&output).contains("changed: nothing; needs a restart: buffer, drain"), "{}", said(&output));
    // A target that nobody has: an error leaves the old ones in force.
    let settings = world.serve("forwrad = [\"127.0.0.1:1\"]\n");
    let output = reload(&pid);
    let expected = format!("{}:6: unknown key `forwrad`; did you mean `forward`?", settings.display());
    assert!(!output.status.success() && said(&output).contains(&expected), "{}", said(&output));
    assert!(world.log("server.log").contains("the settings that were read before stay in force"));
    exchange(&client, 1000);
    // Another target is used by the next connection.
    let refusing = free();
    let text = std::fs::read_to_string(world.serve("")).unwrap();
    world.write("serve.toml", &text.replace(&world.echo.to_string(), &refusing.to_string()));
    let output = reload(&pid);
    assert!(said(&output).contains("changed: forward"), "{}", said(&output));
    let mut tcp = TcpStream::connect(&client.listening).unwrap();
    assert!(!matches!(tcp.read(&mut [0]), Ok(1..)));
    until("the log names the new target", || world.log("server.log").contains(&refusing.to_string()));
}

#[test]
fn ctl_changes_paths_priorities_and_lets_a_program_end() {
    let world = World::new();
    let server = world.start(&world.serve(""), "server.log");
    let mut client = world.start(&world.connect(&server, &["127.0.0.2"], ""), "client.log");
    let done = |arguments: &[&str]| {
        let output = world.ctl(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    };
    let refused = |arguments: &[&str], parts: &str| {
        let output = world.ctl(arguments);
        assert!(
            !output.status.success() && said(&output).contains(parts),
            "{arguments:?}: {}",
            said(&output)
        );
    };
    let path = |local: &str| {
        let status = world.status("connect");
        let paths = status["sessions"][0]["paths"].as_array().cloned().unwrap_or_default();
        paths.into_iter().find(|path| path["radio"].as_str().is_some_and(|radio| radio.starts_with(local)))
    };
    let is = |local: &str, state: &str| path(local).is_some_and(|path| path["state"] == state);
    done(&["add-path", "127.0.0.3"]);
    until("the path is up", || is("127.0.0.3", "up"));
    done(&["metered", "127.0.0.3", "on"]);
    until("the metered path is up", || is("127.0.0.3,metered", "up"));
    done(&["remove-path", "127.0.0.3"]);
    until("the path is removed", || is("127.0.0.3,metered", "removed"));
    exchange(&client, 100_000);
    refused(&["remove-path", "127.0.0.9"], "`127.0.0.9` is no configured path; there are 127.0.0.2=");
    refused(&["remove-path", "127.0.0.2"], "path");
    refused(&["add-path", "127.0.0.2"], "127.0.0.2");
    refused(&["priority", "7"], "choose one by --pid");
    let (of_client, of_server) = (client.child.id().to_string(), server.child.id().to_string());
    refused(&["--pid", &of_client, "priority", "7"], "priority rule `7`");
    let port = client.listening.rsplit_once(':').unwrap().1.to_owned();
    done(&["--pid", &of_client, "priority", &format!("{port}=7")]);
    done(&["--pid", &of_client, "priority", "dscp:EF=7:latency"]);
    done(&["--pid", &of_server, "priority", &format!("{}=9", world.echo.port())]);
    refused(&["--pid", &of_server, "priority", "video=9"], "there is no target `video`");
    refused(&["--pid", &of_server, "add-path", "127.0.0.3"], "no method `add_path`");
    refused(&["--pid", "1", "drain"], "process number 1");
    done(&["--pid", &of_client, "drain"]);
    assert_eq!(client.wait().code(), Some(0));
    assert!(world.log("client.log").contains("asked to end"));
}

#[test]
fn a_cap_changes_by_ctl_and_by_a_reload_and_the_path_stays() {
    let world = World::new();
    let server = world.start(&world.serve(""), "server.log");
    let client = world.start(&world.connect(&server, &["127.0.0.2,cap=16"], ""), "client.log");
    let path = |role: &str| world.status(role)["sessions"][0]["paths"][0].clone();
    let both = |cap: &Value| ["connect", "serve"].iter().all(|role| path(role)["cap_mbps"] == *cap);
    until("both ends have the cap", || both(&json!(16.0)));
    let number = path("connect")["path"].clone();
    assert!(path("connect")["radio"].as_str().unwrap().starts_with("127.0.0.2="), "{}", path("connect"));
    // 1 MB each way at 16 Mbit/s takes half a second; over loopback without a cap, a hundredth of that.
    let timed = || {
        let began = std::time::Instant::now();
        exchange(&client, 1_000_000);
        began.elapsed() // real time: a cap is a rate.
    };
    assert!(timed() > Duration::from_millis(400));
    let done = |arguments: &[&str]| {
        let output = world.ctl(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    };
    done(&["cap", "127.0.0.2", "2.5"]);
    until("both ends have the new cap", || both(&json!(2.5)));
    assert!(said(&world.run(&["status"])).contains("sends at most 2.5 Mbit/s"));
    done(&["cap", "127.0.0.2", "off"]);
    until("neither end has a cap", || both(&Value::Null));
    for (cap, part) in [("0", "cap `0` is not a number from 0.1"), ("much", "such as 20, or `off`")] {
        let output = world.ctl(&["cap", "127.0.0.2", cap]);
        assert!(!output.status.success() && said(&output).contains(part), "{cap}: {}", said(&output));
    }
    world.connect(&server, &["127.0.0.2,cap=40"], "");
    let pid = client.child.id().to_string();
    done(&["--pid", &pid, "reload"]);
    until("both ends have the file's cap", || both(&json!(40.0)));
    assert_eq!(path("connect")["path"], number, "the path is the same");
    assert!(!world.log("client.log").contains("is removed"), "{}", world.log("client.log"));
    exchange(&client, 100_000);
}

#[test]
fn the_control_socket_speaks_json_rpc_and_other_users_cannot_reach_it() {
    let world = World::new();
    let server = world.start(&world.serve(""), "server.log");
    let sockets = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(world.at("status")).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect()
    };
    until("the socket is there", || !sockets().is_empty());
    assert_eq!(std::fs::metadata(world.at("status")).unwrap().permissions().mode() & 0o777, 0o700);
    let mut stream = UnixStream::connect(&sockets()[0]).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut ask = |line: &str| -> Value {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let status = ask(r#"{"jsonrpc":"2.0","id":"a","method":"status"}"#);
    assert_eq!((&status["id"], &status["result"]["role"]), (&json!("a"), &json!("serve")));
    assert_eq!(status["result"]["pid"], server.child.id());
    assert_eq!(ask("nonsense")["error"]["code"], -32700);
    assert_eq!(
        ask(r#"{"jsonrpc":"2.0","id":1,"method":"set_priority","params":{"rule":[]}}"#)["error"]["code"],
        -32602
    );
    assert_eq!(ask(r#"{"jsonrpc":"2.0","id":1,"method":"reload"}"#)["result"]["changed"], json!([]));
    assert!(
        ask(r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"interval_s":0.1}}"#)["result"]
            .is_object()
    );
    let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&told["method"], &told["params"]["role"]), (&json!("status"), &json!("serve")));
    // A second program has a socket of its own.
    let _other = world.start(&world.serve(""), "other.log");
    until("both sockets are there", || sockets().len() == 2);
}

#[test]
fn a_program_runs_without_a_place_for_its_socket() {
    let world = World::new();
    // A file in the place of the directory stops root, too, whom no permission bit stops.
    std::fs::write(world.at("status"), "").unwrap();
    let server = world.start(&world.serve(""), "server.log");
    until("it says that its status cannot be shown", || {
        world.log("server.log").contains("cannot show this program")
    });
    std::fs::remove_file(world.at("status")).unwrap();
    let client = world.start(&world.connect(&server, &["127.0.0.2"], ""), "client.log");
    exchange(&client, 1000);
}

#[test]
fn a_qlog_has_measurements_of_each_path_as_a_group() {
    let world = World::new();
    let server = world.start(&world.serve(""), "server.log");
    let qlog = world.at("client.qlog");
    let settings = world.connect(&server, &["127.0.0.2", "127.0.0.3"], &format!("qlog = {qlog:?}\n"));
    let mut client = world.start(&settings, "client.log");
    let text = || std::fs::read_to_string(&qlog).unwrap();
    until("both paths are measured", || {
        ["/0\"", "/1\""]
            .iter()
            .all(|group| text().lines().any(|line| line.contains("metrics_updated") && line.contains(group)))
    });
    exchange(&client, 300_000);
    client.signal("TERM");
    client.wait();
    let records: Vec<Value> = text()
        .split_terminator('\n')
        .map(|line| serde_json::from_str(line.strip_prefix('\u{1e}').expect("RFC 7464")).expect("JSON"))
        .collect();
    assert_eq!(records[0]["qlog_format"], "JSON-SEQ");
    let times: Vec<f64> =
        records[1..].iter().map(|record| record["time"].as_f64().expect("a time")).collect();
    assert!(times.len() > 5 && times.iter().all(|time| *time >= 0.0));
    let named = |name: &str| records.iter().filter(|record| record["name"] == name).count();
    assert!(named("tributary:subflow_up") == 2 && named("tributary:closed") == 1, "{}", text());
    let session = records.last().unwrap()["group_id"].as_str().unwrap().split('/').next().unwrap().to_owned();
    let measured = records.iter().filter(|record| record["name"] == "recovery:metrics_updated");
    for record in measured {
        assert!(record["data"]["congestion_window"].as_u64().is_some_and(|bytes| bytes > 0), "{record}");
        assert!(record["group_id"].as_str().unwrap().starts_with(&session), "{record}");
    }
}

/// Clients of the scrape that is measured, with two paths each.
const MANY: usize = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_of_a_thousand_clients_has_them_all() {
    let world = World::new();
    let keys: Vec<PrivateKey> = (0..MANY).map(|_| PrivateKey::generate().unwrap()).collect();
    let entry = |(n, key): (usize, &PrivateKey)| {
        format!("[[client]]\nname = \"client-{n}\"\nkey = \"{}\"\n", key.public())
    };
    std::fs::write(world.at("clients.toml"), keys.iter().enumerate().map(entry).collect::<String>()).unwrap();
    let metrics = free();
    let server = world.start(&world.serve(&format!("metrics = \"{metrics}\"\n")), "server.log");
    let public = PublicKey::parse(&world.public("server"), "the server").unwrap();
    let mut sessions = Vec::new();
    for group in keys.chunks(50) {
        let connecting = group.iter().map(|own| {
            let paths = ["127.0.0.2", "127.0.0.3"]
                .map(|local| format!("{local}={}", server.listening).parse().unwrap());
            let common = Common::new(Keys::Client { own: own.clone(), server: public });
            tokio::spawn(connect(ConnectConfig { paths: paths.to_vec(), common, timeout: HANG }))
        });
        for session in connecting.collect::<Vec<_>>() {
            sessions.push(session.await.unwrap().unwrap());
        }
    }
    becomes("every path is up", || {
        let ups = samples(&get(metrics, "/metrics").1);
        ups.iter()
            .filter(|(series, up)| series.starts_with("tributary_client_paths_up{") && **up == 1.0)
            .count()
            == 2 * MANY
    })
    .await;
    let mut times = Vec::new();
    let mut size = 0;
    for _ in 0..10 {
        let began = std::time::Instant::now();
        size = get(metrics, "/metrics").1.len();
        // real time: printed for the reader, no bound.
        times.push(began.elapsed());
    }
    times.sort();
    println!(
        "a scrape of {MANY} clients with 2 paths each: {size} bytes, median {:?}, longest {:?}",
        times[5], times[9]
    );
    drop(sessions);
}
