//! `tributary status --web`: a page that shows every running program of this user, each second. Not here: who may read it
//! (`tributary-site`).

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use tokio::sync::Mutex;
use tributary_site::{self as site, Answer, Site};

use crate::service::sockets;

const PAGE: &str = include_str!("dashboard.html");
/// Several pages share an answer of this age.
const FRESH: Duration = Duration::from_millis(500);

/// Serves the page until the process is ended; prints its URL and opens it in the user's browser.
///
/// # Errors
/// The address is not on loopback or is in use.
pub(super) fn run(address: SocketAddr, json: bool) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (site, listener) = Site::bind(address)?;
        site.announce(json)?;
        let programs = Arc::new(Programs::default());
        site.serve(listener, move |path, request| {
            let programs = programs.clone();
            async move { answer(&path, request.method(), &programs).await }
        })
        .await?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn answer(path: &str, method: &Method, programs: &Programs) -> Answer {
    match (path, method) {
        ("/", &Method::GET | &Method::HEAD) => site::page(PAGE),
        ("/programs", &Method::GET | &Method::HEAD) => match programs.ask().await {
            Ok(programs) => site::answer("application/json", Full::new(programs)),
            Err(_) => site::refuse(StatusCode::INTERNAL_SERVER_ERROR, "try again"),
        },
        _ => site::nothing(method),
    }
}

/// The programs' last answer, and when they gave it.
#[derive(Debug, Default)]
struct Programs(Mutex<Option<(Instant, Bytes)>>);

impl Programs {
    async fn ask(&self) -> Result<Bytes> {
        let mut known = self.0.lock().await;
        if let Some((at, answer)) = &*known
            && at.elapsed() < FRESH
        {
            return Ok(answer.clone());
        }
        let programs = tokio::task::spawn_blocking(sockets::ask_all).await?;
        let answer = Bytes::from(serde_json::json!({ "programs": programs }).to_string());
        *known = Some((Instant::now(), answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_foreign_address() {
        site::assert_alone(PAGE);
    }

    #[tokio::test]
    async fn only_reading_is_possible() {
        let programs = Programs::default();
        assert_eq!(answer("/", &Method::GET, &programs).await.status(), StatusCode::OK);
        assert_eq!(answer("/programs", &Method::POST, &programs).await.status(), StatusCode::NOT_FOUND);
    }
}
