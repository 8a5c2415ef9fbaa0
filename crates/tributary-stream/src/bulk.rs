//! The bulk workload: as many bytes as the transport delivers in a given time.

use crate::arrivals::{Arrivals, Recorder, millis};
use crate::pattern::{Checker, Verify};
use crate::transfer::{End, FetchError, READ, Stop, answer, ask, leave};
use crate::wire::Request;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Time after the measurement during which the client waits for the end of the stream.
const END_TIME: Duration = Duration::from_secs(2);

/// Settings of a bulk measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkParams {
    /// Duration, counted from the request.
    pub duration: Duration,
    /// Share of the content to check.
    pub verify: Verify,
}

/// Result of a bulk transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkRecord {
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Bytes that arrived during the measurement.
    pub bytes: u64,
    /// Mean goodput during the measurement in Mbit/s (10⁶ bits).
    pub goodput_mbps: f64,
    /// From the request to the first byte of content, in milliseconds; `None` when none arrived.
    pub first_byte_ms: Option<f64>,
    /// Bytes over time; silences count from the first byte.
    pub arrivals: Arrivals,
    /// Whether all checked content was correct; `None` when nothing was checked.
    pub intact: Option<bool>,
    /// How it ended. Complete: the server's end of stream arrived, or data was still arriving two
    /// seconds after the measurement.
    pub end: End,
}

/// Measures a bulk transfer over `stream`, which cannot be used afterwards.
///
/// Cancellation: dropping the future drops `stream`, and the record is lost.
///
/// # Errors
/// When the server breaks the protocol or refuses. A failing transport is not an error; the record reports it.
pub async fn fetch_bulk<S>(mut stream: S, params: &BulkParams) -> Result<BulkRecord, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let began = Instant::now();
    let close = began + params.duration;
    let mut record = BulkRecord { seconds: params.duration.as_secs_f64(), ..BulkRecord::default() };
    let mut recorder = Recorder::new(began);
    let mut checker = Checker::new(params.verify);
    let millis_asked = u64::try_from(params.duration.as_millis()).unwrap_or(u64::MAX);
    let outcome = async {
        ask(&mut stream, Request::Bulk { millis: millis_asked }, close).await?;
        answer(&mut stream, "a bulk transfer of this length", close).await?;
        let mut buffer = vec![0; READ];
        if !measure(&mut stream, &mut buffer, close, (&mut recorder, &mut checker, &mut record)).await? {
            // After the measured time, it only matters whether the stream ends or content keeps arriving. Data in the
            // buffers of a slow link is not part of the measurement.
            let mut moves = false;
            loop {
                match timeout_at(close + END_TIME, stream.read(&mut buffer)).await {
                    Err(_) if moves => break,
                    read => match read?? {
                        0 => break,
                        count => checker.feed(&buffer[..count]),
                    },
                }
                moves = true;
            }
        }
        Ok::<_, Stop>(())
    };
    record.end = match outcome.await {
        Ok(()) => End::Complete,
        Err(Stop::Fatal(error)) => return Err(error),
        Err(Stop::End(end)) => end,
    };
    leave(&mut stream).await;
    record.arrivals = recorder.finish(close);
    record.bytes = record.arrivals.total();
    record.goodput_mbps = record.bytes as f64 * 8.0 / 1e6 / record.seconds.max(1e-9);
    record.intact = (params.verify != Verify::None).then(|| checker.intact());
    Ok(record)
}

/// Reads until `close`; true when the stream ended earlier.
async fn measure<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut [u8],
    close: Instant,
    (recorder, checker, record): (&mut Recorder, &mut Checker, &mut BulkRecord),
) -> Result<bool, Stop> {
    // One timer for all reads: setting a timer for each read would cost more than the read.
    let closing = sleep_until(close);
    tokio::pin!(closing);
    let began = close - Duration::from_secs_f64(record.seconds);
    loop {
        let count = tokio::select! {
            biased;
            () = &mut closing => return Ok(false),
            count = stream.read(buffer) => count?,
        };
        if count == 0 {
            return Ok(true);
        }
        let now = Instant::now();
        if now >= close {
            checker.feed(&buffer[..count]);
            return Ok(false);
        }
        if record.first_byte_ms.is_none() {
            record.first_byte_ms = Some(millis(now.saturating_duration_since(began)));
            recorder.expect(now);
        }
        recorder.bytes(now, count);
        checker.feed(&buffer[..count]);
    }
}
