//! The live workload: one GoP a second at the live edge, played at a constant distance behind it.
//!
//! The player keeps a constant distance to the live edge, the start-up delay. A late GoP freezes the picture until it
//! arrives or its time is over; then playback continues at the same distance. So a late GoP does not lead to a larger
//! buffer, and every transport has the same deadlines. Model: docs/models/live-streaming.md.

use crate::arrivals::{Arrivals, Recorder, millis};
use crate::rate_choice::RateChoice;
use crate::transfer::{End, FetchError, READ, Stop, answer, ask, leave, some};
use crate::wire::{MAX_OBJECT, MAX_REPRESENTATIONS, Request};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tributary_types::{Bitrate, DataSize};

/// Settings of a live measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveParams {
    /// Number of GoPs.
    pub gops: u32,
    /// Time from the request to the deadline of GoP 0; usually one GoP duration.
    pub start_up: Duration,
}

/// Result of one GoP. Times are in milliseconds since the request for the live start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GopRecord {
    /// Number of the GoP, from zero.
    pub index: u64,
    /// Requested representation; `None` when the player skipped the GoP to return to the edge.
    pub representation: Option<usize>,
    /// Nominal bitrate of that representation in bit/s.
    pub rate_bps: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Time of the request.
    pub requested_ms: Option<f64>,
    /// Arrival time of the last byte; `None` when it never arrived.
    pub complete_ms: Option<f64>,
    /// Deadline.
    pub deadline_ms: f64,
    /// Whether it was complete by the deadline.
    pub in_time: bool,
    /// Time for which the picture was frozen in this GoP's slot, in milliseconds.
    pub frozen_ms: f64,
}

/// Result of a live stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveRecord {
    /// All GoPs of the run, with the skipped ones.
    pub gops: Vec<GopRecord>,
    /// Number of GoPs complete by their deadlines.
    pub in_time: u32,
    /// Number of stalls.
    pub stalls: u32,
    /// Total frozen time in milliseconds.
    pub frozen_ms: f64,
    /// Mean nominal bitrate of the GoPs that were in time, in Mbit/s, over *all* GoPs of the run.
    pub played_mbps: f64,
    /// Duration of a GoP in milliseconds.
    pub gop_ms: f64,
    /// Start-up delay in milliseconds.
    pub start_up_ms: f64,
    /// Arrivals over time; silences count while a produced GoP is outstanding.
    pub arrivals: Arrivals,
    /// How it ended. Complete: no GoP was in flight at the end.
    pub end: End,
}

/// Clock of a live stream.
struct Schedule {
    began: Instant,
    play: Instant,
    gop: Duration,
    /// When GoP 0 was produced, by the client's clock: the earliest of all estimates.
    edge: Instant,
}

impl Schedule {
    fn deadline(&self, index: u64) -> Instant {
        self.play + self.gop * u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn produced(&self, index: u64) -> Instant {
        self.edge + self.gop * u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Updates the clock from an answer: GoP `index` was produced `age` before `now`.
    fn learn(&mut self, index: u64, age: Duration, now: Instant) {
        let since_first = self.gop.checked_mul(u32::try_from(index).unwrap_or(u32::MAX));
        let total = since_first.and_then(|s| s.checked_add(age));
        if let Some(edge) = total.and_then(|t| now.checked_sub(t)) {
            self.edge = self.edge.min(edge);
        }
    }
}

/// Plays a live stream; `sink` gets every complete GoP with its bytes.
///
/// Cancellation: dropping the future drops `stream`, and the record is lost; `sink` has the GoPs that were complete.
///
/// # Errors
/// When the server breaks the protocol or has no video. A failing transport is not an error; the record reports it.
pub async fn fetch_live<S, F>(
    mut stream: S,
    params: &LiveParams,
    mut sink: F,
) -> Result<LiveRecord, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: FnMut(&GopRecord, &[u8]),
{
    let began = Instant::now();
    let mut record = LiveRecord { start_up_ms: millis(params.start_up), ..LiveRecord::default() };
    let mut recorder = Recorder::new(began);
    let (rates, gop) = match start(&mut stream, began + params.start_up).await {
        Ok(started) => started,
        Err(Stop::Fatal(error)) => return Err(error),
        Err(Stop::End(end)) => {
            // The start request failed: every GoP is missed.
            record.end = end;
            (Vec::new(), Duration::from_secs(1))
        }
    };
    record.gop_ms = millis(gop);
    let mut schedule = Schedule { began, play: began + params.start_up, gop, edge: Instant::now() };
    let close = schedule.deadline(u64::from(params.gops));
    let mut choice = RateChoice::new(rates.clone(), gop);
    let mut body = Vec::new();
    for index in 0..u64::from(params.gops) {
        let deadline = schedule.deadline(index);
        let mut gop = GopRecord { index, deadline_ms: millis(deadline - began), ..GopRecord::default() };
        let now = Instant::now();
        if record.end == End::Complete && now < deadline + schedule.gop {
            let from = now.max(schedule.produced(index));
            let chosen = choice.choose(deadline.saturating_duration_since(from));
            gop.representation = Some(chosen);
            gop.rate_bps = rates.get(chosen).map_or(0, |r| r.as_bps());
            match one(&mut stream, &mut gop, (&mut schedule, &mut recorder), close, &mut body).await {
                Ok(took) => {
                    choice.on_transfer(DataSize::from_bytes(gop.bytes), took);
                    judge(&mut gop, &schedule);
                    sink(&gop, &body);
                    record.gops.push(gop);
                    continue;
                }
                Err(Stop::Fatal(error)) => return Err(error),
                Err(Stop::End(end)) => record.end = end,
            }
        }
        judge(&mut gop, &schedule);
        record.gops.push(gop);
    }
    record.arrivals = recorder.finish(close);
    leave(&mut stream).await;
    summarise(&mut record);
    Ok(record)
}

/// Requests the live start: the bitrates and the duration of a GoP.
async fn start<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    until: Instant,
) -> Result<(Vec<Bitrate>, Duration), Stop> {
    ask(stream, Request::LiveStart, until).await?;
    let answer = answer(stream, "a live stream", until).await?;
    let (gop, count) = (answer.first, answer.second);
    if count == 0 || count > MAX_REPRESENTATIONS {
        return Err(FetchError::Excess { what: "a number of representations", value: count }.into());
    }
    if !(1_000..=60_000_000).contains(&gop) {
        return Err(FetchError::Excess { what: "a GoP duration in microseconds", value: gop }.into());
    }
    let mut rates = Vec::new();
    for _ in 0..count {
        rates.push(Bitrate::from_bps(timeout_at(until, stream.read_u64()).await??));
    }
    Ok((rates, Duration::from_micros(gop)))
}

/// Fetches one GoP into `body`; returns the time between its availability and its last byte.
async fn one<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    gop: &mut GopRecord,
    (schedule, recorder): (&mut Schedule, &mut Recorder),
    close: Instant,
    body: &mut Vec<u8>,
) -> Result<Duration, Stop> {
    let requested = Instant::now();
    gop.requested_ms = Some(millis(requested - schedule.began));
    recorder.expect(requested.max(schedule.produced(gop.index)));
    let representation = gop.representation.unwrap_or(0) as u64;
    ask(stream, Request::Gop { index: gop.index, representation }, close).await?;
    let answer = answer(stream, "a GoP", close).await?;
    schedule.learn(gop.index, Duration::from_micros(answer.second), Instant::now());
    if answer.first > MAX_OBJECT {
        return Err(FetchError::Excess { what: "a GoP", value: answer.first }.into());
    }
    body.clear();
    let mut buffer = vec![0; READ];
    while gop.bytes < answer.first {
        let bytes = some(stream, &mut buffer, answer.first - gop.bytes, close).await?;
        recorder.bytes(Instant::now(), bytes.len());
        gop.bytes += bytes.len() as u64;
        body.extend_from_slice(bytes);
    }
    recorder.rest();
    let complete = Instant::now();
    gop.complete_ms = Some(millis(complete - schedule.began));
    Ok(complete.saturating_duration_since(requested.max(schedule.produced(gop.index))))
}

/// Sets whether the GoP was in time and how long its slot was frozen.
fn judge(gop: &mut GopRecord, schedule: &Schedule) {
    let slot = millis(schedule.gop);
    let late = gop.complete_ms.map_or(f64::INFINITY, |c| c - gop.deadline_ms);
    gop.in_time = late <= 0.0;
    gop.frozen_ms = late.clamp(0.0, slot);
}

fn summarise(record: &mut LiveRecord) {
    record.in_time = record.gops.iter().filter(|g| g.in_time).count() as u32;
    record.frozen_ms = record.gops.iter().map(|g| g.frozen_ms).sum();
    let mut frozen_through = false;
    for gop in &record.gops {
        // A freeze that lasts to the end of its slot continues in the next one: one stall, not two.
        record.stalls += u32::from(gop.frozen_ms > 0.0 && !frozen_through);
        frozen_through = gop.frozen_ms >= record.gop_ms;
    }
    let played: u64 = record.gops.iter().filter(|g| g.in_time).map(|g| g.rate_bps).sum();
    record.played_mbps = played as f64 / 1e6 / record.gops.len().max(1) as f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(complete: &[Option<f64>]) -> LiveRecord {
        let began = Instant::now();
        let gop = Duration::from_secs(1);
        let schedule = Schedule { began, play: began + gop, gop, edge: began };
        let gops = complete.iter().enumerate().map(|(i, complete_ms)| {
            let deadline_ms = 1000.0 * (i + 1) as f64;
            let rate_bps = 40_000_000;
            let mut gop = GopRecord {
                index: i as u64,
                complete_ms: *complete_ms,
                deadline_ms,
                rate_bps,
                ..GopRecord::default()
            };
            judge(&mut gop, &schedule);
            gop
        });
        let mut record = LiveRecord { gops: gops.collect(), gop_ms: 1000.0, ..LiveRecord::default() };
        summarise(&mut record);
        record
    }

    #[test]
    fn late_missed_and_punctual_gops_add_up() {
        // The GoPs are in time, 300 ms late, missing, and later than the end of the slot: the last two are one stall.
        let record = played(&[Some(900.0), Some(2300.0), None, Some(5500.0), Some(4900.0)]);
        assert_eq!((record.in_time, record.stalls), (2, 2));
        assert_eq!(record.frozen_ms, 2300.0);
        assert_eq!(record.played_mbps, 16.0);
    }

    #[test]
    fn the_live_edge_is_the_earliest_observation() {
        let began = Instant::now();
        let gop = Duration::from_secs(1);
        let mut schedule =
            Schedule { began, play: began + gop, gop, edge: began + Duration::from_millis(50) };
        schedule.learn(2, Duration::from_millis(1), began + Duration::from_millis(2_021));
        assert_eq!(schedule.edge, began + Duration::from_millis(20));
        schedule.learn(u64::MAX, Duration::MAX, began);
        assert_eq!(schedule.produced(1), began + Duration::from_millis(1_020));
    }
}
