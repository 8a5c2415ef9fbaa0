//! HTTP/1.1 for local pages and scrapes: few connections, a time limit for each request's head. Not here: what is served.

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time; a browser opens up to six for a page.
const CONNECTIONS: usize = 64;
/// Time for the head of a request; an idle connection is closed after it, too.
const HEAD: Duration = Duration::from_secs(10);
/// Pause after a failed `accept`, for example at the limit of descriptors.
const PAUSE: Duration = Duration::from_millis(500);

/// Answers requests until the future is dropped. Connections then end with their present answer.
pub async fn serve<A, F, B>(listener: TcpListener, answer: A) -> Infallible
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.expect("nobody closes it");
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            connection(tcp, answer).await;
            drop(place);
        });
    }
}

async fn connection<A, F, B>(tcp: TcpStream, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    // A request that is not HTTP ends its connection.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(tcp), service)
        .await;
}
