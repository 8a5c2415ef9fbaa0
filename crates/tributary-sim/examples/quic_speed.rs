//! How many packets per second of processor time the simulated QUIC handles: both QUIC crates, with
//! TLS and with null crypto, at 1 and 10 Gbit/s. `cargo run --release --example quic_speed`.
//!
//! Time is processor time (`/proc/self/schedstat`), not wall time, so that other work on the machine counts
//! less. A packet is a full datagram from the server that the bottleneck delivered.

use std::time::Duration;

use tributary_link::{LinkConfig, LinkSpec, QueueSpec};
use tributary_sim::{
    Application, Endpoint, LinkId, MultipathQuicTransport, Notice, Protection, QuicConfig, QuicPath,
    QuicTransport, Transport, World, WorldError, quic_controllers,
};
use tributary_types::{Bitrate, DataSize, Instant};

/// The window of one stream, 1.375 MiB, does not fill 10 Gbit/s over 10 ms.
const STREAMS: u32 = 16;

/// Writes without end, or reads everything.
#[derive(Debug, Default)]
struct Endless {
    sends: bool,
    read: u64,
}

impl Application for Endless {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected if self.sends => {
                for _ in 0..STREAMS {
                    let stream = transport.open(now, 0).expect("few streams");
                    transport.write(now, stream, u64::MAX);
                }
            }
            Notice::Writable(stream) => {
                transport.write(now, stream, u64::MAX);
            }
            Notice::Readable(stream) => self.read += transport.read(now, stream, u64::MAX),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// A client, a server and the link between them.
fn world(config: &QuicConfig, gbps: u64, multipath: bool) -> (World, LinkId) {
    let mut world = World::new(u64::MAX);
    let (client, server) = (world.reserve_host(), world.reserve_host());
    let links = [1, 2].map(|seed| {
        let mut spec = LinkSpec::constant(Bitrate::from_mbps(1000 * gbps));
        // One bandwidth-delay product.
        spec.queue = QueueSpec::Bytes(DataSize::from_bytes(gbps * 1_250_000));
        let mut link = LinkConfig::new(spec, seed);
        link.extra_delay = Duration::from_millis(5);
        world.add_link(link)
    });
    let (up, down) = (world.add_route(&links[..1], server), world.add_route(&links[1..], client));
    let at_client = QuicPath { path: 0, out: up, back: down };
    let at_server = QuicPath { path: 0, out: down, back: up };
    let ends: [Box<dyn Transport>; 2] = if multipath {
        [
            Box::new(MultipathQuicTransport::client(config, &[at_client]).expect("valid")),
            Box::new(MultipathQuicTransport::server(config, &[at_server]).expect("valid")),
        ]
    } else {
        [
            Box::new(QuicTransport::client(config, at_client).expect("valid")),
            Box::new(QuicTransport::server(config, at_server).expect("valid")),
        ]
    };
    let hosts = [(client, false), (server, true)];
    for ((host, sends), end) in hosts.into_iter().zip(ends) {
        let application = Box::new(Endless { sends, ..Endless::default() });
        world.place_host(host, Box::new(Endpoint::new(end, application)));
    }
    (world, links[1])
}

/// Processor time of this process in seconds; zero if the system does not report it.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}

fn main() -> Result<(), WorldError> {
    let controller = std::env::args().nth(1).unwrap_or_else(|| "quic-cubic".to_owned());
    assert!(quic_controllers().contains(&controller.as_str()), "known: {:?}", quic_controllers());
    println!(
        "one connection of {STREAMS} streams, {controller}, 10 ms, queue of one bandwidth-delay product; medians of three"
    );
    println!(
        "{:<12} {:<12} {:>7} {:>12} {:>14} {:>12}",
        "stack", "protection", "Gbit/s", "goodput", "packets/s", "per packet"
    );
    for gbps in [1, 10] {
        for (stack, multipath) in [("quinn-proto", false), ("noq-proto", true)] {
            for protection in [Protection::Tls, Protection::Null] {
                let config = QuicConfig {
                    controller: controller.clone(),
                    protection,
                    receive_window: 64 << 20,
                    send_window: 64 << 20,
                    ..QuicConfig::default()
                };
                let virtual_millis = if gbps == 1 { 2_000 } else { 1_000 };
                let mut runs = Vec::new();
                for _ in 0..3 {
                    let (mut world, link) = world(&config, gbps, multipath);
                    let before = processor_seconds();
                    world.run_until(Instant::from_millis(virtual_millis))?;
                    let took = processor_seconds() - before;
                    let delivered = world.link_stats(link).delivered;
                    runs.push((delivered.packets as f64 / took, delivered));
                }
                runs.sort_by(|one, other| one.0.total_cmp(&other.0));
                let (rate, delivered) = runs[1];
                let goodput = delivered.bytes as f64 * 8.0 / virtual_millis as f64 / 1e6;
                println!(
                    "{stack:<12} {:<12} {gbps:>7} {goodput:>12.3} {rate:>14.0} {:>9.2} us",
                    protection.name(),
                    1e6 / rate
                );
            }
        }
    }
    Ok(())
}
