//! The window of a kernel connection over time, read from `TCP_INFO`.

use super::WindowSample;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_net::sockopt;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(10);
/// Longest series: ten minutes.
const MOST: usize = 60_000;

/// Looks from the moment the first request arrives, until the connection is gone or the series is full.
pub(super) async fn watch(socket: BorrowedFd<'_>, mut note: impl FnMut(WindowSample)) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut began = None;
    let mut count = 0;
    while count < MOST {
        ticks.tick().await;
        let Ok(info) = sockopt::tcp_info(socket) else { break };
        if info.bytes_received == 0 {
            continue;
        }
        let began = *began.get_or_insert_with(Instant::now);
        count += 1;
        note(WindowSample {
            at_ms: began.elapsed().as_secs_f64() * 1e3,
            window: info.cwnd_bytes(),
            in_flight: info.in_flight(),
            srtt_ms: info.rtt.as_secs_f64() * 1e3,
        });
    }
    // Serving goes on.
    core::future::pending::<()>().await;
}
