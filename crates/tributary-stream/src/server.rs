//! The server's side of all workloads, over any byte stream.
//!
//! It answers requests one after the other until the client ends its direction. A client that stops
//! reading or sends no requests is disconnected. No input can cause a panic or use unbounded memory.

use crate::ladder::Ladder;
use crate::pattern::Producer;
use crate::wire::{Answer, HEADER, MAX_BULK_MILLIS, MAX_OBJECT, Request, Status, WireError};
use bytes::{Buf, Bytes};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};

/// Time limit for a client to send a whole request, or to read the answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// A GoP may be requested at most this long before it is produced.
const MOST_EARLY: Duration = Duration::from_secs(60);

/// Why a stream was closed.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The client's request is invalid.
    #[error("invalid request: {0}")]
    Wire(#[from] WireError),
    /// The stream broke.
    #[error("the stream to the client broke: {0}")]
    Stream(#[from] io::Error),
    /// The client was inactive for too long.
    #[error("the client sent no request and read nothing for {} seconds", PATIENCE.as_secs())]
    Idle(#[from] tokio::time::error::Elapsed),
}

/// Answers the requests on `stream` until the client closes it. Live streams come from `ladder`; without
/// one they are refused.
///
/// Cancellation: dropping the future drops `stream`, perhaps within an answer.
///
/// # Errors
/// When the client breaks the protocol or is inactive for too long, or when the stream breaks.
pub async fn serve<S>(mut stream: S, ladder: Option<Arc<Ladder>>) -> Result<(), ServeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut live: Option<Instant> = None;
    while let Some(request) = next_request(&mut stream).await? {
        match request {
            Request::Bulk { millis } if (1..=MAX_BULK_MILLIS).contains(&millis) => {
                return bulk(&mut stream, Duration::from_millis(millis)).await;
            }
            Request::Object { size } if size <= MAX_OBJECT => object(&mut stream, size).await?,
            Request::LiveStart => {
                live = Some(Instant::now());
                live_start(&mut stream, ladder.as_deref()).await?;
            }
            Request::Gop { index, representation } => {
                let request = (index, representation);
                match (ladder.as_deref(), live) {
                    (Some(ladder), Some(began)) => gop(&mut stream, ladder, began, request).await?,
                    (None, _) => send(&mut stream, Answer::denied(Status::NoVideo), Bytes::new()).await?,
                    (_, None) => send(&mut stream, Answer::denied(Status::Refused), Bytes::new()).await?,
                }
            }
            Request::Bulk { .. } | Request::Object { .. } => {
                send(&mut stream, Answer::denied(Status::Refused), Bytes::new()).await?;
            }
        }
    }
    timeout(PATIENCE, stream.shutdown()).await??;
    Ok(())
}

/// The next request; `None` when the client has closed the stream.
async fn next_request<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Option<Request>, ServeError> {
    let mut header = [0; HEADER];
    let whole = async {
        let mut filled = 0;
        while filled < HEADER {
            match stream.read(&mut header[filled..]).await? {
                0 if filled == 0 => return Ok(false),
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                count => filled += count,
            }
        }
        Ok(true)
    };
    // Bytes of an unfinished request do not reset the timer. Otherwise a client could stay connected by sending a
    // byte at intervals.
    let whole = timeout(PATIENCE, whole).await??;
    Ok(if whole { Some(Request::decode(&header)?) } else { None })
}

/// Sends a header and its content in as few writes as possible.
async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    answer: Answer,
    content: Bytes,
) -> Result<(), ServeError> {
    let header = answer.encode();
    let mut both = Buf::chain(header.as_slice(), content);
    timeout(PATIENCE, async {
        stream.write_all_buf(&mut both).await?;
        stream.flush().await
    })
    .await??;
    Ok(())
}

async fn bulk<S: AsyncWrite + Unpin>(stream: &mut S, length: Duration) -> Result<(), ServeError> {
    send(stream, Answer::granted(0, 0, 0), Bytes::new()).await?;
    let ending = sleep_until(Instant::now() + length);
    tokio::pin!(ending);
    let mut producer = Producer::new();
    loop {
        let count = tokio::select! {
            biased;
            () = &mut ending => break,
            count = stream.write(producer.pending()) => count?,
        };
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        producer.advance(count);
    }
    timeout(PATIENCE, stream.shutdown()).await??;
    Ok(())
}

async fn object<S: AsyncWrite + Unpin>(stream: &mut S, size: u64) -> Result<(), ServeError> {
    let mut producer = Producer::new();
    let mut left = size;
    let mut answer = Some(Answer::granted(size, 0, 0));
    loop {
        let pending = producer.pending();
        let take = pending.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let piece = Bytes::copy_from_slice(&pending[..take]);
        match answer.take() {
            Some(answer) => send(stream, answer, piece).await?,
            None => timeout(PATIENCE, stream.write_all(&piece)).await??,
        }
        producer.advance(take);
        left -= take as u64;
        if left == 0 {
            timeout(PATIENCE, stream.flush()).await??;
            return Ok(());
        }
    }
}

async fn live_start<S: AsyncWrite + Unpin>(
    stream: &mut S,
    ladder: Option<&Ladder>,
) -> Result<(), ServeError> {
    let Some(ladder) = ladder else {
        return send(stream, Answer::denied(Status::NoVideo), Bytes::new()).await;
    };
    let rates: Vec<u8> = ladder.rates().iter().flat_map(|r| r.as_bps().to_be_bytes()).collect();
    let micros = ladder.gop_duration().as_micros() as u64;
    send(stream, Answer::granted(micros, ladder.rates().len() as u64, 0), rates.into()).await
}

/// Waits until the GoP is produced, in real time, then sends it.
async fn gop<S: AsyncWrite + Unpin>(
    stream: &mut S,
    ladder: &Ladder,
    began: Instant,
    (index, representation): (u64, u64),
) -> Result<(), ServeError> {
    let produced = u32::try_from(index)
        .ok()
        .and_then(|i| ladder.gop_duration().checked_mul(i))
        .and_then(|since| began.checked_add(since))
        .filter(|at| at.saturating_duration_since(Instant::now()) <= MOST_EARLY);
    let content = usize::try_from(representation).ok().and_then(|r| ladder.gop(r, index));
    let (Some(produced), Some(content)) = (produced, content) else {
        return send(stream, Answer::denied(Status::Refused), Bytes::new()).await;
    };
    sleep_until(produced).await;
    let age = produced.elapsed().as_micros() as u64;
    send(stream, Answer::granted(content.len() as u64, age, index), content).await
}
