//! Clients that take many places: others still get one, and a client that loses its sessions is not locked out.

use std::net::SocketAddr;
use std::time::Instant;

use tributary_net::{ConnectError, Limits, Listener, Session, connect};

use crate::common::{client, in_time, listen_with, settings};

/// A session from 127.0.0.`host`.
async fn open(host: u8, server: SocketAddr) -> Result<Session, ConnectError> {
    connect(client(settings(true), vec![format!("127.0.0.{host}={server}").parse().unwrap()])).await
}

/// Accepts sessions and keeps each until it ends, as a server does.
fn keep(mut listener: Listener) {
    tokio::spawn(async move {
        while let Some((session, _)) = listener.accept().await {
            tokio::spawn(async move { session.closed().await });
        }
    });
}

/// Opens a session and lets go of it as a program that is killed does: its connection ends, and the session's end is
/// not announced.
async fn open_and_drop(host: u8, server: SocketAddr) {
    let program = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(open(host, server)).unwrap();
        drop(runtime);
        drop(session);
    };
    tokio::task::spawn_blocking(program).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_a_client_opened_and_dropped_lock_nobody_out() {
    in_time(async {
        let limits = Limits::default();
        let listener = listen_with(settings(true), limits).await;
        let server = listener.addresses()[0];
        keep(listener);
        for _ in 0..limits.sessions {
            open_and_drop(2, server).await;
        }
        for host in [3, 2] {
            let began = Instant::now();
            let session = open(host, server).await.unwrap();
            // real time: printed for the reader, not judged.
            let took = began.elapsed();
            eprintln!("a session from 127.0.0.{host} after {} dropped ones: {took:?}", limits.sessions);
            assert!(!session.is_closed());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_a_crash_loop_gets_a_session_with_little_memory() {
    in_time(async {
        // Memory for eight sessions.
        let limits = Limits { memory: 16 * Limits::SESSION, ..Limits::default() };
        let listener = listen_with(settings(true), limits).await;
        let server = listener.addresses()[0];
        keep(listener);
        for _ in 0..40 {
            let began = Instant::now();
            open_and_drop(2, server).await;
            // real time: printed for the reader, not judged.
            eprintln!("{:?}", began.elapsed());
        }
        assert!(!open(3, server).await.unwrap().is_closed());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_with_a_subflow_keeps_its_place_and_one_client_leaves_places_to_others() {
    in_time(async {
        let limits = Limits { memory: 16 * Limits::SESSION, ..Limits::default() };
        let listener = listen_with(settings(true), limits).await;
        let server = listener.addresses()[0];
        keep(listener);
        let mut sessions = Vec::new();
        for _ in 0..7 {
            sessions.push(open(2, server).await.unwrap());
        }
        let error = open(2, server).await.unwrap_err().to_string();
        assert!(error.contains("limit of sessions"), "{error}");
        sessions.push(open(3, server).await.unwrap());
        let error = open(4, server).await.unwrap_err().to_string();
        assert!(error.contains("limit of sessions"), "{error}");
        assert!(sessions.iter().all(|session| !session.is_closed()));
        // A dropped session gives its place to a newcomer, not one that is in use.
        drop(sessions.pop());
        open_and_drop(3, server).await;
        let last = open(4, server).await.unwrap();
        assert!(!last.is_closed() && sessions.iter().all(|session| !session.is_closed()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_nobody_has_accepted_hold_no_memory_after_their_end() {
    in_time(async {
        let limits = Limits { memory: 6 * Limits::SESSION, ..Limits::default() };
        let listener = listen_with(settings(true), limits).await;
        let server = listener.addresses()[0];
        // Nobody accepts the sessions, so all of them wait in the listener.
        for _ in 0..9 {
            open_and_drop(2, server).await;
        }
        for _ in 0..9 {
            // Its end is announced.
            open(2, server).await.unwrap().close().await.unwrap();
        }
    })
    .await;
}
