//! The object workload: fetches objects one after the other and measures the time of each.

use crate::arrivals::millis;
use crate::pattern::{Checker, Verify};
use crate::transfer::{End, FetchError, READ, Stop, answer, ask, leave, some};
use crate::wire::{MAX_OBJECT, Request};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout_at};

/// Settings of an object measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectParams {
    /// Size of each object in bytes.
    pub size: u64,
    /// Number of objects, fetched one after the other.
    pub count: u32,
    /// Pause between the end of one object and the request of the next.
    pub pause: Duration,
    /// Time limit of the run.
    pub limit: Duration,
}

/// Result of an object measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// Size of each object in bytes.
    pub size: u64,
    /// Time from the request to the last byte of each finished object, in milliseconds, in order.
    pub completion_ms: Vec<f64>,
    /// Time from the request to the first byte of each finished object, in milliseconds, in order.
    pub first_byte_ms: Vec<f64>,
    /// Number of objects that were not finished or never requested.
    pub unfinished: u32,
    /// Age of the unfinished request at the end of the run, in milliseconds: a lower bound of its completion time.
    pub pending_ms: Option<f64>,
    /// Whether all checked content was correct; `None` when nothing was checked.
    pub intact: Option<bool>,
    /// How it ended.
    pub end: End,
}

/// Fetches objects over `stream` one after the other.
///
/// Cancellation: dropping the future drops `stream`, and the record is lost.
///
/// # Errors
/// When the server breaks the protocol or refuses. A failing transport is not an error; the record reports it.
pub async fn fetch_object<S>(mut stream: S, params: &ObjectParams) -> Result<ObjectRecord, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let close = Instant::now() + params.limit;
    let mut record = ObjectRecord { size: params.size, ..ObjectRecord::default() };
    let mut buffer = vec![0; READ];
    for number in 0..params.count {
        let asked = Instant::now();
        match one(&mut stream, params.size, close, &mut buffer).await {
            Ok((first, last, intact)) => {
                record.first_byte_ms.push(millis(first - asked));
                record.completion_ms.push(millis(last - asked));
                record.intact = Some(intact && record.intact != Some(false));
            }
            Err(Stop::Fatal(error)) => return Err(error),
            Err(Stop::End(end)) => {
                record.end = end;
                record.pending_ms = Some(millis(asked.elapsed()));
                break;
            }
        }
        if number + 1 < params.count && timeout_at(close, sleep(params.pause)).await.is_err() {
            record.end = End::TimedOut;
            break;
        }
    }
    leave(&mut stream).await;
    record.unfinished = params.count - record.completion_ms.len() as u32;
    Ok(record)
}

/// Fetches one object: arrival times of the first and the last byte, and whether the content was correct.
async fn one<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    size: u64,
    close: Instant,
    buffer: &mut [u8],
) -> Result<(Instant, Instant, bool), Stop> {
    ask(stream, Request::Object { size }, close).await?;
    let announced = answer(stream, "an object of this size", close).await?.first;
    if announced != size || size > MAX_OBJECT {
        return Err(FetchError::Excess { what: "an object", value: announced }.into());
    }
    let first = Instant::now();
    let mut checker = Checker::new(Verify::Full);
    let mut left = size;
    while left > 0 {
        let bytes = some(stream, buffer, left, close).await?;
        checker.feed(bytes);
        left -= bytes.len() as u64;
    }
    Ok((first, Instant::now(), checker.intact()))
}
