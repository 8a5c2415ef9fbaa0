//! A recording of an emulated network: its rates, delays and losses are known, so it shows how true recordings are.

use super::options::Options;
use super::recorder::{RecordError, Recorder};
use super::recording::Recording;
use super::server::serve;
use core::time::Duration;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tributary_emu::{Network, NetworkError, Side};
use tributary_link::{LinkSpec, LossSpec, PathSpec, RateSpec, Scenario};
use tributary_net::{Key, KeyError};
use tributary_types::Bitrate;

/// Port of the server.
const PORT: u16 = 7100;
/// Time between two looks at whether the recording has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Why an emulated network could not be recorded.
#[derive(Debug, Error)]
pub enum EmulatedError {
    /// The network refuses.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A socket cannot be made.
    #[error("a socket in the emulated network: {0}")]
    Socket(#[from] io::Error),
    /// No key can be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The recorder fails.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A network whose rates stay: WiFi with other rates and delays in both directions, and a faster radio with a longer way, which
/// loses two per cent of the packets.
#[must_use]
pub fn fixed(length: Duration) -> Scenario {
    let constant = |mbps| RateSpec::Constant(Bitrate::from_mbps(mbps));
    let wifi = PathSpec {
        up: with_delay(constant(20), 12),
        ..PathSpec::symmetric("wifi", LinkSpec::with_rate(constant(47)))
    };
    let lossy = LinkSpec { loss: LossSpec::Bernoulli(0.02), ..with_delay(constant(90), 15) };
    scenario("fixed", [wifi, PathSpec::symmetric("wigig", lossy)], length)
}

/// A network whose radios fade at different times, by up to a factor of ten, without loss.
#[must_use]
pub fn fading(length: Duration) -> Scenario {
    let steps = |rates: &[u64], millis: u64| {
        let number = length.as_millis() / u128::from(millis) + 1;
        let step =
            |(number, rate): (u64, &u64)| (Duration::from_millis(millis * number), Bitrate::from_mbps(*rate));
        RateSpec::Steps((0..number as u64).zip(rates.iter().cycle()).map(step).collect())
    };
    let wifi = steps(&[40, 30, 12, 6, 20, 45, 25, 8, 15, 35, 40, 40], 1000);
    let wigig = steps(&[100, 80, 30, 10, 60, 110, 90, 20, 40, 100, 70, 50, 90, 100, 100], 800);
    let wifi = PathSpec::symmetric("wifi", LinkSpec::with_rate(wifi));
    scenario("fading", [wifi, PathSpec::symmetric("wigig", with_delay(wigig, 10))], length)
}

/// Two paths with 20 ms of base RTT.
fn scenario(name: &str, paths: [PathSpec; 2], length: Duration) -> Scenario {
    let scenario = Scenario::new(name).with_rtt(Duration::from_millis(20)).with_duration(length);
    paths.into_iter().fold(scenario, Scenario::with_path)
}

fn with_delay(rate: RateSpec, millis: u64) -> LinkSpec {
    let mut link = LinkSpec::with_rate(rate);
    link.delay.base = Duration::from_millis(millis);
    link
}

/// Ends the server in every case.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Records every path of a network for the length of its scenario, which begins again with the recording.
///
/// # Errors
/// [`EmulatedError`].
pub fn emulated(network: &Network, options: Options) -> Result<Recording, EmulatedError> {
    let (scenario, key, stop) = (network.scenario(), Key::generate()?, AtomicBool::new(false));
    let options = Options { length: Some(scenario.duration), ..options };
    let server = network.run(Side::Server, || UdpSocket::bind(("0.0.0.0", PORT)))??;
    let start = || {
        let socket = |(path, name): (usize, &str)| {
            let socket = UdpSocket::bind((Side::Client.address(path), 0))?;
            socket.connect((Side::Server.address(path), PORT))?;
            Ok((name.to_owned(), socket))
        };
        let sockets = scenario.path_names().into_iter().enumerate().map(socket);
        Ok::<_, EmulatedError>(Recorder::start(sockets.collect::<io::Result<_>>()?, &key, options)?)
    };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&server, &key, &stop));
        let ending = Stop(&stop);
        let recorder = network.run(Side::Client, start)??;
        network.rewind()?;
        while !recorder.is_finished() {
            std::thread::sleep(LOOK);
        }
        drop(ending);
        serving.join().map_err(|_| io::Error::other("the server panicked"))??;
        Ok(recorder.finish())
    })
}
