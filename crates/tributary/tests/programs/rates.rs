//! iperf3 in both directions, TCP and UDP: it counts what it sent, and what arrived. Datagrams of every length.

use std::process::{Child, Stdio};

use serde_json::Value;
use tributary_emu::Side;

use crate::far_side::{WEB, echo_client, said};
use crate::running::Running;
use crate::world::{Way, World, output_of};

const PORT: u16 = 5201;

/// Runs a client against a server for one test while the radios have their troubles; its report.
fn run(world: &World, way: Way, (options, each): (&[&str], u64)) -> Value {
    let carrier = world.carry(way);
    let (web, port) = (WEB.to_string(), PORT.to_string());
    let mut command = world.network.command(Side::Server, "iperf3");
    let server = Running::start(command.args(["-s", "-1", "-B", &web, "-p", &port]).stdout(Stdio::null()));
    world.listens("tcp", PORT);
    let mut command = carrier.command("iperf3");
    command.args(["-J", "-c", &web, "-p", &port]).args(options).stdout(Stdio::piped());
    let mut child: Child = command.spawn().expect("it starts");
    world.troubles(|what| world.carried(each, what, &mut child));
    let report = serde_json::from_str(&said(&output_of(child), 0)).expect("JSON");
    drop(server);
    carrier.end();
    report
}

pub fn iperf3_counts_what_it_sent(world: &World) {
    for way in [Way::Tunnel, Way::Exec] {
        for back in [None, Some("-R")] {
            let options: Vec<&str> = ["-n", "8M"].into_iter().chain(back).collect();
            let report = run(world, way, (&options, 400_000));
            let of = |end: &str| report["end"][end]["bytes"].as_u64().expect("a count");
            println!("{way:?} TCP {back:?}: {} of {} bytes", of("sum_received"), of("sum_sent"));
            // A server counts until the client says that it has sent everything, while up to a session's buffers are on their way.
            assert!(of("sum_received") >= of("sum_sent") / 2, "{way:?} {back:?}: {report}");
        }
        for back in [None, Some("-R")] {
            let udp = ["-u", "-b", "4M", "-l", "1200", "-n", "3M"];
            let options: Vec<&str> = udp.into_iter().chain(back).collect();
            let report = run(world, way, (&options, 200_000));
            let of = |what: &str| report["end"]["sum"][what].as_u64().expect("a count");
            println!("{way:?} UDP {back:?}: {} of {} lost", of("lost_packets"), of("packets"));
            // What is on its way when a radio dies has a deadline; iperf3 does not ask for it again, as SRT does.
            assert!(10 * of("lost_packets") <= of("packets"), "{way:?} {back:?}: {}", report["end"]);
        }
    }
}

pub fn datagrams_of_every_length_come_back(world: &World) {
    for way in [Way::Tunnel, Way::Exec] {
        let carrier = world.carry(way);
        let mut command = carrier.command("python3");
        assert_eq!(
            said(&command.args(["-c", &echo_client(world.web)]).output().expect("python3"), 0),
            "all\n"
        );
        carrier.end();
    }
}
