//! Ends of a session: bulk in one stream, or nothing at all.

use super::{
    CONGESTION, Carrier, EndPlan, EndReply, EndResult, Meter, Outcome, PIECE, Until, cpu_time, reply,
};
use bytes::Bytes;
use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use tributary_net::{
    Common, ConnectConfig, Key, Limits, ListenConfig, Listener, Local, PathConfig, Session, connect,
};

/// Time for subflows to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// Rest before idling is measured.
const SETTLE: Duration = Duration::from_secs(1);

fn common(plan: &EndPlan) -> Common {
    // Both ends are this program on one machine: the key protects nothing.
    let mut common = Common::new(Key::from_bytes([7; 32]));
    common.plaintext = plan.carrier == Carrier::Plaintext;
    common.congestion = Some(CONGESTION.to_owned());
    if let Some(window) = plan.window {
        common.session.window = window;
    }
    common
}

/// Payload held by a session.
fn held(session: &Session) -> u64 {
    let stats = session.stats().session;
    stats.send_held + stats.receive_held
}

pub(super) async fn sink(plan: &EndPlan, addresses: &[Ipv4Addr]) -> Outcome<EndResult> {
    let addresses = addresses.iter().map(|address| SocketAddr::from((*address, 0))).collect();
    let config = ListenConfig { addresses, common: common(plan), limits: Limits::default() };
    let mut listener = Listener::bind(config).await?;
    reply(&EndReply::Ready(listener.addresses().to_vec()));
    let (session, _) = listener.accept().await.ok_or("the listener ended without a session")?;
    if let Until::Idle(seconds) = plan.until {
        return Ok(idle(&session, seconds).await);
    }
    let mut stream = session.accept_stream().await.ok_or("the session ended without a stream")?;
    let mut meter = Meter::new(plan.until);
    let mut subflows = 0;
    while let Some(chunk) = stream.read_chunk().await? {
        meter.add(chunk.len());
        meter.sample(|| held(&session));
        if subflows == 0 {
            subflows = session.stats().subflows.len();
        }
    }
    let result = meter.finish(subflows);
    drop(stream);
    session.closed().await;
    Ok(result)
}

pub(super) async fn source(plan: &EndPlan, paths: &[(Ipv4Addr, SocketAddr)]) -> Outcome<EndResult> {
    let path = |(local, server): &(Ipv4Addr, SocketAddr)| PathConfig {
        local: Local::Address((*local).into()),
        server: (*server).into(),
    };
    let paths: Vec<PathConfig> = paths.iter().map(path).collect();
    let wanted = paths.len();
    let session = connect(ConnectConfig { paths, common: common(plan), timeout: CONNECT }).await?;
    let all_up = async {
        while session.stats().subflows.len() < wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(CONNECT, all_up).await.map_err(|_| "a path did not come up")?;
    if let Until::Idle(seconds) = plan.until {
        let result = idle(&session, seconds).await;
        // The sink may still be measuring its own idleness.
        tokio::time::sleep(SETTLE).await;
        return Ok(result);
    }
    let mut stream = session.open_stream(0).await?;
    let chunk = Bytes::from(vec![1; PIECE]);
    let mut meter = Meter::new(plan.until);
    meter.begin();
    while !meter.is_over() {
        // Where memory is measured, what the session holds must be memory of its own.
        let fresh = matches!(plan.until, Until::Bytes(_)).then(|| Bytes::from(vec![1; PIECE]));
        stream.write_chunk(fresh.unwrap_or_else(|| chunk.clone())).await?;
        meter.add(PIECE);
        meter.sample(|| held(&session));
    }
    stream.finish()?;
    let subflows = session.stats().subflows.len();
    session.close().await?;
    Ok(meter.finish(subflows))
}

/// What a session with nothing to do costs.
async fn idle(session: &Session, seconds: f64) -> EndResult {
    tokio::time::sleep(SETTLE).await;
    let subflows = session.stats().subflows.len();
    let (at, cpu) = (Instant::now(), cpu_time());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    EndResult {
        cpu_seconds: cpu_time().saturating_sub(cpu).as_secs_f64(),
        seconds: at.elapsed().as_secs_f64(),
        subflows,
        ..EndResult::default()
    }
}
