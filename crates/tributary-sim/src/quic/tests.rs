//! Connections over simulated links: loss, blackouts, dead paths, priorities, and the same seed twice.

mod apps;
mod multipath;
mod process;
mod single;

use core::time::Duration;

use tributary_link::{LinkConfig, LinkSpec, LossSpec, QueueSpec};
use tributary_types::{Bitrate, DataSize, Instant};

use self::apps::{Sink, Source, Write};
use super::*;
use crate::id::HostId;
use crate::id::{LinkId, RouteId};
use crate::transport::{Endpoint, Transport};
use crate::world::World;

/// A path: rate both ways, delay each way, loss towards the client, dead times in ms.
#[derive(Clone, Copy)]
struct TestPath {
    mbps: u64,
    delay: u64,
    loss: f64,
    dead: Option<(u64, u64)>,
    /// Queue size in bytes; `None`: the default.
    queue: Option<u64>,
}

const fn way(mbps: u64, delay: u64) -> TestPath {
    TestPath { mbps, delay, loss: 0.0, dead: None, queue: None }
}

fn link(way: TestPath, loss: f64, seed: u64) -> LinkConfig {
    let mut spec = LinkSpec::constant(Bitrate::from_mbps(way.mbps));
    if loss > 0.0 {
        spec.loss = LossSpec::Bernoulli(loss);
    }
    if let Some(bytes) = way.queue {
        spec.queue = QueueSpec::Bytes(DataSize::from_bytes(bytes));
    }
    let mut config = LinkConfig::new(spec, seed);
    config.extra_delay = Duration::from_millis(way.delay);
    config.dead.extend(way.dead.map(|(from, to)| (Instant::from_millis(from), Instant::from_millis(to))));
    config
}

/// A server that sends to a client.
struct Rig {
    world: World,
    client: HostId,
    server: HostId,
    /// To the client, by path.
    links: Vec<LinkId>,
}

impl Rig {
    /// One path with quinn-proto.
    fn single(config: &QuicConfig, way: TestPath, writes: &[Write]) -> Self {
        let make = |config: &QuicConfig, paths: &[QuicPath], is_client| -> Box<dyn Transport> {
            let made = if is_client { QuicTransport::client } else { QuicTransport::server };
            Box::new(made(config, paths[0]).unwrap())
        };
        Self::build(config, &[way], writes, make)
    }

    /// All paths with noq-proto.
    fn multi(config: &QuicConfig, ways: &[TestPath], writes: &[Write]) -> Self {
        let make = |config: &QuicConfig, paths: &[QuicPath], is_client| -> Box<dyn Transport> {
            let made =
                if is_client { MultipathQuicTransport::client } else { MultipathQuicTransport::server };
            Box::new(made(config, paths).unwrap())
        };
        Self::build(config, ways, writes, make)
    }

    fn build(
        config: &QuicConfig,
        ways: &[TestPath],
        writes: &[Write],
        make: impl Fn(&QuicConfig, &[QuicPath], bool) -> Box<dyn Transport>,
    ) -> Self {
        let mut world = World::new(20_000_000);
        let (client, server) = (world.reserve_host(), world.reserve_host());
        let mut links = Vec::new();
        let routes: Vec<(RouteId, RouteId)> = ways
            .iter()
            .enumerate()
            .map(|(index, way)| {
                let down = world.add_link(link(*way, way.loss, config.seed + index as u64));
                let up = world.add_link(link(*way, 0.0, config.seed + index as u64));
                links.push(down);
                (world.add_route(&[up], server), world.add_route(&[down], client))
            })
            .collect();
        let paths = |is_client: bool| -> Vec<QuicPath> {
            let path = |(index, (up, down)): (usize, &(RouteId, RouteId))| {
                let (out, back) = if is_client { (*up, *down) } else { (*down, *up) };
                QuicPath { path: index as u8, out, back }
            };
            routes.iter().enumerate().map(path).collect()
        };
        let client_end = make(config, &paths(true), true);
        let server_end = make(config, &paths(false), false);
        world.place_host(server, Box::new(Endpoint::new(server_end, Box::new(Source::new(writes)))));
        world.place_host(client, Box::new(Endpoint::new(client_end, Box::new(Sink::default()))));
        Self { world, client, server, links }
    }

    fn run(&mut self, millis: u64) -> &mut Self {
        self.world.run_until(Instant::from_millis(millis)).unwrap();
        self
    }

    fn sink(&self) -> &Sink {
        self.world.host::<Endpoint>(self.client).unwrap().application().unwrap()
    }

    fn sender(&self) -> &dyn Transport {
        self.world.host::<Endpoint>(self.server).unwrap().transport()
    }

    /// The sender's congestion window on a path, bytes; zero if there is none.
    fn window(&self, path: u8) -> u64 {
        let mut samples = Vec::new();
        self.sender().sample(&mut samples);
        samples.iter().find(|sample| sample.path == path).map_or(0, |sample| sample.window)
    }

    /// Megabits per second that the client has read in `millis`.
    fn goodput(&self, millis: u64) -> f64 {
        self.sink().total as f64 * 8.0 / 1e3 / millis as f64
    }
}

/// One stream of so many bytes.
fn bulk(bytes: u64) -> [Write; 1] {
    [Write { priority: 0, bytes }]
}

fn config(controller: &str) -> QuicConfig {
    QuicConfig { controller: controller.to_owned(), ..QuicConfig::default() }
}
