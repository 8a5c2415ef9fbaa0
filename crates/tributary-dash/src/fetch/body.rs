//! Request bodies, and response bodies read piece by piece.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;

use super::http3::{Answer, Http3Error};

/// The body of a request; empty for most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent(pub(crate) Bytes);

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Why a request or its response failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Over HTTP/1.1.
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    /// Over HTTP/3.
    #[error(transparent)]
    Http3(#[from] Http3Error),
}

/// The body of a response.
pub(crate) enum Received {
    Http1(Incoming),
    Http3(Box<Answer>),
}

impl Received {
    /// Number of bytes still to come, if the headers give it.
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Http1(body) => body.size_hint().exact(),
            Self::Http3(body) => body.left(),
        }
    }

    /// The next bytes; `None` at the end. Trailers are skipped.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, HttpError>> {
        let body = match self {
            Self::Http1(body) => body,
            Self::Http3(body) => return Some(body.next().await?.map_err(Into::into)),
        };
        loop {
            match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}
