//! The simulator's driver and the one on sockets, given the same arrivals, decide the same: which bytes go on which subflow, and
//! which subflows are closed. The arrivals are those of the two ends of a download in the simulator, on radios that fade, fail
//! and return.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_link::{Direction, Moment, Scenario, WorkloadSpec};
use tributary_net::script::ScriptedDriver;
use tributary_proto::{Config, Session, Side, Transmit};
use tributary_sim::script::{Arrival, Script, ScriptTurn};
use tributary_sim::workload::{Terms, pair};
use tributary_sim::{Endpoint, SessionConfig, SessionTransport, SubflowPath, World};
use tributary_types::{Instant, Rng, SubflowId};

const SECOND: Duration = Duration::from_secs(1);

fn with_scheduler(name: &str) -> Config {
    Config { scheduler: name.to_owned(), ..Config::default() }
}

/// What the drivers of client and server are given and do in a simulated download.
fn simulate(scenario: &Scenario, session: &Config, time: Duration) -> [(Side, Script); 2] {
    let mut world = World::new(50_000_000);
    let (client, server) = (world.reserve_host(), world.reserve_host());
    let paths: Vec<_> = (0..scenario.paths.len())
        .map(|path| {
            let [up, down] = [Direction::Up, Direction::Down]
                .map(|direction| world.add_link(scenario.link_config(path, direction)));
            let (up, down) = (world.add_route(&[up], server), world.add_route(&[down], client));
            SubflowPath { path: path as u8, up, down }
        })
        .collect();
    // The client on sockets sends right after the hello.
    let config = SessionConfig { session: session.clone(), early: true, ..SessionConfig::default() };
    let (mut at_client, mut at_server) = SessionTransport::pair(&config, &paths).unwrap();
    let recorded = [(Side::Client, at_client.record()), (Side::Server, at_server.record())];
    let (asks, answers) = pair(&[WorkloadSpec::Bulk { size: None }], &Terms::always(Rng::new(1)));
    world.place_host(server, Box::new(Endpoint::new(Box::new(at_server), Box::new(answers))));
    world.place_host(client, Box::new(Endpoint::new(Box::new(at_client), Box::new(asks))));
    let end = Instant::ZERO + time;
    for event in scenario.link_events().into_iter().filter(|event| event.at <= end) {
        world.run_until(event.at).unwrap();
        for host in [client, server] {
            world.path_changed(host, event.path as u8, event.up);
        }
    }
    world.run_until(end).unwrap();
    recorded.map(|(side, recorded)| (side, recorded.script().expect("the client opened a session")))
}

async fn arrive(driver: &mut ScriptedDriver, now: Instant, arrival: &Arrival) {
    match arrival.clone() {
        Arrival::Opened(subflow, path) => driver.open(now, subflow, path).await.unwrap(),
        Arrival::Progress(subflow, path, progress) => {
            driver.progress(now, (subflow, path), progress).await.unwrap();
        }
        Arrival::Input(subflow, bytes) => driver.input(subflow, bytes),
        Arrival::Broken(subflow) => driver.end(subflow),
        Arrival::Info(subflow, info) => driver.info(subflow, info),
        Arrival::Room(subflow, room) => driver.room(subflow, room),
        // An application sees its errors itself.
        Arrival::Open(priority) => drop(driver.act(|session| session.open_stream(priority))),
        Arrival::Write(stream, mut bytes) => drop(driver.act(|session| session.write(stream, &mut bytes))),
        Arrival::Finish(stream) => drop(driver.act(|session| session.finish(stream))),
        Arrival::Read(stream) => drop(driver.act(|session| session.read(stream))),
        Arrival::AddPath(path) => driver.act(|session| session.add_path(now, path)),
        Arrival::RemovePath(path) => driver.act(|session| session.remove_path(now, path)),
    }
}

/// The bytes of each frame of each subflow, in order.
type Frames = BTreeMap<SubflowId, Vec<Vec<u8>>>;

fn in_simulator(turn: &ScriptTurn) -> (Frames, Vec<(SubflowId, bool)>) {
    let mut frames = Frames::new();
    for (subflow, head, payload) in &turn.frames {
        frames.entry(*subflow).or_default().push([head, &payload[..]].concat());
    }
    (frames, turn.closed.clone())
}

fn on_sockets((queued, closed): (Vec<Transmit>, Vec<(SubflowId, bool)>)) -> (Frames, Vec<(SubflowId, bool)>) {
    let mut frames = Frames::new();
    for transmit in queued {
        let bytes = [transmit.head.as_slice(), &transmit.payload[..]].concat();
        frames.entry(transmit.subflow).or_default().push(bytes);
    }
    (frames, closed)
}

/// The subflows, with the length and the first bytes of each frame: enough to see what differs.
fn shortened((frames, closed): &(Frames, Vec<(SubflowId, bool)>)) -> String {
    let frame = |frame: &Vec<u8>| format!("{} bytes {:02x?}", frame.len(), &frame[..frame.len().min(24)]);
    let of = |(id, frames): (&SubflowId, &Vec<Vec<u8>>)| {
        format!("{id}: {}", frames.iter().map(frame).collect::<Vec<_>>().join(", "))
    };
    format!("{}; closed {closed:?}", frames.iter().map(of).collect::<Vec<_>>().join("; "))
}

/// Gives the script to the driver on sockets. Returns the number of frames and of closed subflows.
async fn play(what: &str, (side, script): &(Side, Script)) -> (usize, usize) {
    let (config, seed) = script.session.clone();
    let session = Session::new(*side, config, seed, script.began).unwrap();
    let mut driver = ScriptedDriver::new(*side, session).await.unwrap();
    let (mut frames, mut closed) = (0, 0);
    for (number, turn) in script.turns.iter().enumerate() {
        for arrival in &turn.arrivals {
            arrive(&mut driver, turn.at, arrival).await;
        }
        let (simulated, real) = (in_simulator(turn), on_sockets(driver.turn(turn.at)));
        assert!(
            simulated == real,
            "{what}, {side:?}: turn {number} at {:?}\nsimulator {}\nsockets   {}",
            turn.at,
            shortened(&simulated),
            shortened(&real)
        );
        frames += turn.frames.len();
        closed += turn.closed.len();
    }
    (frames, closed)
}

#[tokio::test]
async fn both_drivers_send_the_same_bytes_on_the_same_subflows() {
    let four = Duration::from_secs(4);
    // Radios that fade, are blocked, lose packets, and differ in delay.
    for (name, scheduler) in
        [("deep-fade", "fbdt"), ("blackout", "fbdt"), ("loss-wifi", "min-rtt"), ("delay-wigig", "fbdt")]
    {
        let what = format!("{name} {scheduler}");
        for end in simulate(&Scenario::builtin(name).unwrap(), &with_scheduler(scheduler), four) {
            let (frames, _) = play(&what, &end).await;
            assert!(frames > 300, "{what}, {:?}: only {frames} frames", end.0);
        }
    }
}

#[tokio::test]
async fn both_drivers_close_the_subflow_of_a_radio_that_is_removed() {
    let mut scenario = Scenario::builtin("los").unwrap();
    scenario.paths[0].absent = vec![(Moment::At(SECOND), Moment::At(2 * SECOND))];
    for end in simulate(&scenario, &with_scheduler("fbdt"), 4 * SECOND) {
        let (_, closed) = play("a radio is removed", &end).await;
        assert!(closed > 0);
    }
}

#[tokio::test]
async fn both_drivers_end_a_session_that_hears_nothing_alike() {
    let mut scenario = Scenario::builtin("los").unwrap();
    for path in &mut scenario.paths {
        path.dead = vec![(Moment::At(SECOND), Moment::At(20 * SECOND))];
    }
    let config = Config { idle_timeout: 3 * SECOND, ..with_scheduler("fbdt") };
    for end in simulate(&scenario, &config, 6 * SECOND) {
        let (_, closed) = play("all radios die", &end).await;
        assert!(closed > 0);
    }
}
