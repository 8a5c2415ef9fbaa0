//! The window of a kernel connection over time.

use super::WindowSample;
use core::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_net::transport::Connection;

/// Time between two samples.
const EVERY: Duration = Duration::from_millis(10);
/// Maximum number of samples: ten minutes.
const MOST: usize = 60_000;
/// Bytes that arrive before the first request: the purpose of the stream.
const INTRODUCTION: u64 = 1;

/// Samples from the first request until the connection has ended or the series is full.
pub(super) async fn watch(connection: &Connection, mut note: impl FnMut(WindowSample)) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut began = None;
    let mut count = 0;
    while count < MOST {
        ticks.tick().await;
        let Some(path) = connection.stats().paths.pop() else { break };
        if path.received <= INTRODUCTION {
            continue;
        }
        let began = *began.get_or_insert_with(Instant::now);
        count += 1;
        note(WindowSample {
            at_ms: began.elapsed().as_secs_f64() * 1e3,
            window: path.window,
            in_flight: path.in_flight.unwrap_or_default(),
            srtt_ms: path.rtt.as_secs_f64() * 1e3,
        });
    }
    // The connection has ended; the server continues.
    core::future::pending::<()>().await;
}
