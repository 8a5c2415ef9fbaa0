//! The window of a kernel connection over time.

use super::WindowSample;
use core::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_net::transport::Connection;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(10);
/// Longest series: ten minutes.
const MOST: usize = 60_000;
/// Bytes that arrive before the first request: what the stream is for.
const INTRODUCTION: u64 = 1;

/// Looks from the moment the first request arrives, until the connection is gone or the series is full.
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
    // Serving goes on.
    core::future::pending::<()>().await;
}
