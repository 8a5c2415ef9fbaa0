//! Subflows over QUIC: the same addresses, on UDP.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Registry, is_only_v6};
use crate::config::Common;
use crate::error::ListenError;
use crate::passed::PassedSockets;
use crate::quic::Endpoint;

/// One endpoint for each address of the TCP listeners, if the settings want it.
pub(super) fn bind(
    addresses: &[SocketAddr],
    common: &Common,
    passed: &PassedSockets,
) -> Result<Vec<Endpoint>, ListenError> {
    let wanted = addresses.iter().filter(|_| common.quic);
    let bind =
        |address: &SocketAddr| Endpoint::bind((*address, is_only_v6(*address, addresses)), common, passed);
    wanted.map(bind).collect()
}

pub(super) async fn accept_loop(endpoint: Endpoint, registry: Arc<Registry>) {
    while let Some(incoming) = endpoint.accept().await {
        let (from, shaking) = (incoming.from, registry.clone());
        registry.clone().greet(from, move |_| {
            Box::pin(async move {
                let channel = incoming.shake(&shaking.common.keys).await?;
                shaking.introduced(channel, from).await
            })
        });
    }
}
