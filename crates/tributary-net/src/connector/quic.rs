//! Which of an attempt's two connections is used: QUIC has a head start, and the first whose server is authenticated wins.
//!
//! A path on which TCP was first is not tried with QUIC for a while, because its UDP packets are lost, or its server has no
//! QUIC: each attempt would wait for the head start.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_types::{Instant, PathId};

use crate::dial::Reached;
use crate::handshake::{Channel, HandshakeError};

/// Head start of QUIC: as RFC 8305 §8 between addresses. It needs one round trip and TLS on TCP two, so TCP is first only if
/// QUIC's first packets were lost, or its round trip is longer by this time.
const HEAD_START: Duration = Duration::from_millis(250);
/// Time without QUIC on a path where TCP was first.
const WITHOUT: Duration = Duration::from_secs(60);

/// Paths on which QUIC does not get through.
#[derive(Debug, Default)]
pub(super) struct Blocked(BTreeMap<PathId, Instant>);

impl Blocked {
    pub(super) fn may_try(&self, now: Instant, path: PathId) -> bool {
        self.0.get(&path).is_none_or(|until| now >= *until)
    }

    /// TCP was first.
    pub(super) fn note(&mut self, now: Instant, path: PathId) {
        self.0.insert(path, now + WITHOUT);
    }

    pub(super) fn forget(&mut self, path: PathId) {
        self.0.remove(&path);
    }
}

/// The connection that is used.
pub(super) enum Dialled {
    Quic(Channel, Reached),
    /// TCP's outcome: QUIC was later, or has failed.
    Tcp(Result<Channel, HandshakeError>),
}

/// Starts TCP after QUIC's head start, or when QUIC has failed. If both fail, TCP's error is the one that is reported.
pub(super) async fn first(
    over_quic: impl Future<Output = Result<(Channel, Reached), HandshakeError>>,
    over_tcp: impl Future<Output = Result<Channel, HandshakeError>>,
) -> Dialled {
    let (mut over_quic, mut over_tcp) = (std::pin::pin!(over_quic), std::pin::pin!(over_tcp));
    let early = tokio::time::timeout(HEAD_START, &mut over_quic).await;
    let tcp = match early {
        Ok(Ok((channel, reached))) => return Dialled::Quic(channel, reached),
        Ok(Err(error)) => {
            tracing::debug!("QUIC has failed: {error}");
            return Dialled::Tcp(over_tcp.await);
        }
        Err(_) => tokio::select! {
            // Both may be ready after a pause of this program.
            biased;
            quic = &mut over_quic => match quic {
                Ok((channel, reached)) => return Dialled::Quic(channel, reached),
                Err(_) => return Dialled::Tcp(over_tcp.await),
            },
            tcp = &mut over_tcp => tcp,
        },
    };
    // TCP may have failed for a reason of its own, for example a firewall. Its error does not wait long for QUIC.
    if tcp.is_err()
        && let Ok(Ok((channel, reached))) = tokio::time::timeout(HEAD_START, over_quic).await
    {
        return Dialled::Quic(channel, reached);
    }
    Dialled::Tcp(tcp)
}
