//! How fast the simulator is: data packets per second of processor time, for one flow over rates and
//! for many flows over one bottleneck. `cargo run --release -p tributary-sim --example speed [CONTROLLER [MBIT/S FLOWS SECONDS]]`
//!
//! Prints what it measures on this machine; asserts nothing about time. Time is processor time
//! (`/proc/self/schedstat`), so that other work on the machine counts less.

use core::time::Duration;
use std::rc::Rc;

use tributary_cc::{Setup, create, names};
use tributary_link::{LinkConfig, LinkSpec, QueueSpec};
use tributary_sim::{Application, Endpoint, Notice, StreamKey, TcpConfig, TcpTransport, Transport, World};
use tributary_types::{Bitrate, DataSize, Instant};

/// Writes without end, or reads everything.
#[derive(Debug)]
struct Bulk {
    writes: bool,
    read: u64,
}

impl Application for Bulk {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected | Notice::Writable(_) if self.writes => {
                transport.write(now, 0, u64::MAX >> 1);
            }
            Notice::Readable(stream) => self.read += read_all(now, stream, transport),
            _ => {}
        }
    }
    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

fn read_all(now: Instant, stream: StreamKey, transport: &mut dyn Transport) -> u64 {
    transport.read(now, stream, u64::MAX)
}

/// Processor time of this process in seconds.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells a process its time");
    let nanos = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    nanos.expect("the first number is nanoseconds") as f64 * 1e-9
}

/// One bottleneck.
struct Case<'a> {
    controller: &'a str,
    mbps: u64,
    flows: u64,
    seconds: f64,
}

const RTT: Duration = Duration::from_millis(20);

fn bottleneck(mbps: u64) -> (LinkConfig, LinkConfig) {
    let rate = Bitrate::from_mbps(mbps);
    let mut spec = LinkSpec::constant(rate);
    spec.queue = QueueSpec::Bytes(rate.size_in(RTT).max(DataSize::from_bytes(60_000)));
    let mut down = LinkConfig::new(spec, 1);
    down.extra_delay = RTT / 2;
    let mut up = LinkConfig::new(LinkSpec::constant(rate), 2);
    up.spec.queue = QueueSpec::Bytes(DataSize::from_bytes(100 << 20));
    up.extra_delay = RTT / 2;
    (down, up)
}

fn run(case: &Case<'_>) {
    let mut world = World::new(u64::MAX);
    let (down, up) = bottleneck(case.mbps);
    let (down, up) = (world.add_link(down), world.add_link(up));
    let config =
        Rc::new(TcpConfig { receive_buffer: 256 << 20, send_buffer: 256 << 20, ..TcpConfig::default() });
    let mut sinks = Vec::new();
    for seed in 0..case.flows {
        let (source, sink) = (world.reserve_host(), world.reserve_host());
        let (to_sink, to_source) = (world.add_route(&[down], sink), world.add_route(&[up], source));
        let controller = || {
            let setup = Setup::new(config.mss).with_seed(seed);
            create(case.controller, setup).unwrap_or_else(|| panic!("known controllers: {:?}", names()))
        };
        let end = TcpTransport::client(config.clone(), controller(), to_sink);
        let application = Bulk { writes: true, read: 0 };
        world.place_host(source, Box::new(Endpoint::new(Box::new(end), Box::new(application))));
        let end = TcpTransport::server(config.clone(), controller(), to_source);
        let application = Bulk { writes: false, read: 0 };
        world.place_host(sink, Box::new(Endpoint::new(Box::new(end), Box::new(application))));
        sinks.push(sink);
    }
    let before = processor_seconds();
    world.run_until(Instant::from_millis((case.seconds * 1e3) as u64)).expect("no budget");
    let took = processor_seconds() - before;
    let delivered = world.link_stats(down).delivered.packets;
    let read: u64 = sinks
        .iter()
        .filter_map(|sink| world.host::<Endpoint>(*sink)?.application::<Bulk>())
        .map(|s| s.read)
        .sum();
    println!(
        "{:>8} Mbit/s {:>5} flows {:>7.1} s: {:>9} data packets in {:>6.3} s: {:>6.2} M/s, {:>5.0} ns each, {:>4.1} \
         events each, goodput {:>5.1} %",
        case.mbps,
        case.flows,
        case.seconds,
        delivered,
        took,
        delivered as f64 / took / 1e6,
        took * 1e9 / delivered as f64,
        world.events() as f64 / delivered as f64,
        read as f64 * 8e-4 / case.seconds / case.mbps as f64,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let controller = arguments.first().map_or("cubic", String::as_str);
    println!("{controller}, round-trip time 20 ms, buffer one bandwidth-delay product");
    if let [_, mbps, flows, seconds] = arguments.as_slice() {
        let number = |text: &String| text.parse::<f64>().expect("CONTROLLER [MBIT/S FLOWS SECONDS]");
        let (mbps, flows, seconds) = (number(mbps) as u64, number(flows) as u64, number(seconds));
        return run(&Case { controller, mbps, flows, seconds });
    }
    // About a million packets each: long enough to measure, whatever the rate.
    for (mbps, seconds) in [(10, 600.0), (100, 120.0), (1_000, 12.0), (10_000, 2.4)] {
        run(&Case { controller, mbps, flows: 1, seconds });
    }
    for flows in [10, 100, 1000] {
        run(&Case { controller, mbps: 1_000, flows, seconds: 12.0 });
    }
}
