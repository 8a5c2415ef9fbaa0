//! HTTP/3 on one QUIC connection: concurrent requests within limits, and early requests where a replay is
//! harmless.
//!
//! A request that arrives before the handshake has finished may be a replay (RFC 8470). GET, HEAD and OPTIONS
//! change nothing and are answered; anything else gets 425 (Too Early). Not here: the answers (`answer`).
//! Source: RFC 9114.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use h3::error::{Code, StreamError};
use h3::server::RequestResolver;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tributary_net::proxy::Ticket;
use tributary_net::transport::Handshake;

use super::body::Content;
use super::slots::Activity;
use super::{HEADERS, STREAMS, Serving, answer};

/// Bytes of a body written at once; a client that reads none of it within [`super::Limits::idle`] is
/// disconnected.
const PIECE: usize = 32 << 10;

/// Why a response was not completed.
#[derive(Debug, Error)]
enum Broken {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the client stopped reading")]
    Still,
    #[error(transparent)]
    File(#[from] io::Error),
}

type Requests = RequestResolver<h3_quinn::Connection, Bytes>;
type Exchange = h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// Serves a connection until it ends.
pub(super) async fn serve(
    (quic, handshake): (&quinn::Connection, &Handshake),
    (from, activity): (SocketAddr, &Activity),
    serving: &Serving,
    mut ticket: Ticket,
) {
    let mut builder = h3::server::builder();
    builder.max_field_section_size(HEADERS as u64).send_grease(false);
    // Requests in progress are dropped after the connection, so that none looks finished to the client.
    let mut requests = JoinSet::new();
    let (mut cut, mut draining) = (ticket.clone(), false);
    let building = timeout(serving.limits.headers, builder.build(h3_quinn::Connection::new(quic.clone())));
    let mut http = tokio::select! {
        built = building => match built {
            Ok(Ok(http)) => http,
            Ok(Err(error)) => return tracing::debug!(%from, "connection ended: {error}"),
            // The control streams need three unidirectional streams (RFC 9114 §6.2).
            Err(_) => return tracing::debug!(%from, "connection ended: the client does not allow the control streams"),
        },
        () = cut.cut() => return,
    };
    loop {
        let still = sleep(serving.limits.idle);
        tokio::select! {
            accepted = http.accept(), if requests.len() < STREAMS as usize => match accepted {
                Ok(Some(request)) => {
                    activity.touch(Instant::now());
                    let who = (from, activity.clone());
                    requests.spawn(serve_request(request, handshake.clone(), who, serving.clone()));
                }
                Ok(None) => break,
                Err(error) => return tracing::debug!(%from, "connection ended: {error}"),
            },
            Some(_) = requests.join_next() => {}
            // The client closes the connection when it has its responses (RFC 9114 §5.2).
            () = ticket.draining(), if !draining => {
                draining = true;
                if http.shutdown(0).await.is_err() {
                    break;
                }
            }
            () = cut.cut() => break,
            () = still, if requests.is_empty() && !draining => break,
        }
    }
}

async fn serve_request(
    request: Requests,
    handshake: Handshake,
    (from, activity): (SocketAddr, Activity),
    serving: Serving,
) {
    let resolving = timeout(serving.limits.headers, request.resolve_request());
    let Ok(Ok((request, mut stream))) = resolving.await else {
        return tracing::debug!(%from, "a request came to nothing");
    };
    let (request, ()) = request.into_parts();
    let response = if request.method.is_safe() || handshake.is_over() {
        answer::answer(&serving.store, &request, None).await
    } else {
        answer::plain(StatusCode::TOO_EARLY)
    };
    tracing::debug!(%from, method = %request.method, uri = %request.uri, status = response.status().as_u16());
    if let Err(error) = respond(&mut stream, response, (serving.limits.idle, &activity)).await {
        tracing::debug!(%from, "response ended: {error}");
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
    }
    // The end of a request may arrive after its answer was sent, and stopping the stream before would look like a
    // refusal. The body itself is not read.
    if let Ok(Ok(Some(_))) = timeout(serving.limits.headers, stream.recv_data()).await {
        stream.stop_sending(Code::H3_NO_ERROR);
    }
}

async fn respond(
    stream: &mut Exchange,
    response: Response<Content>,
    (patience, activity): (Duration, &Activity),
) -> Result<(), Broken> {
    let (mut head, content) = response.into_parts();
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(SystemTime::now())) {
        head.headers.insert(header::DATE, date);
    }
    within(patience, stream.send_response(Response::from_parts(head, ()))).await?;
    let mut content = pin!(content);
    while let Some(frame) = poll_fn(|cx| content.as_mut().poll_frame(cx)).await {
        let mut data = frame?.into_data().unwrap_or_default();
        while !data.is_empty() {
            let piece = data.split_to(PIECE.min(data.len()));
            within(patience, stream.send_data(piece)).await?;
            activity.touch(Instant::now());
        }
    }
    within(patience, stream.finish()).await
}

async fn within(
    patience: Duration,
    sending: impl Future<Output = Result<(), StreamError>>,
) -> Result<(), Broken> {
    Ok(timeout(patience, sending).await.map_err(|_| Broken::Still)??)
}
