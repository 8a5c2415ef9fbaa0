//! How a node knows its neighbours, and the keys of its hops that follow from that.
//!
//! A node has a key pair, as the ends of sessions have, and names the public keys of its neighbours. A hop's key is that of the
//! pair ([`PrivateKey::pair_key`]), so no neighbour can pose as another one. The other form, a file that both ends of a hop
//! have, is for those who ask for it. Not here: what a hop does with its key (`hop`).

use crate::error::NodeError;
use crate::hop::LABEL;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use tributary_net::{Key, KeyError, PrivateKey, PublicKey};

/// What precedes the name of a file with a shared key.
const SHARED: &str = "shared:";

/// How a neighbour is known: `PUBKEY` or `shared:FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum NeighbourKey {
    /// Its public key. This node needs a private one.
    Public(PublicKey),
    /// File of a key that both ends of the hop have. Whoever has it can pose as either of them.
    Shared(PathBuf),
}

impl TryFrom<String> for NeighbourKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text, "this")
    }
}

impl NeighbourKey {
    /// Reads it; `place` names the text in the error, which does not repeat it: it may be a secret.
    pub(crate) fn parse(text: &str, place: &str) -> Result<Self, String> {
        match text.strip_prefix(SHARED) {
            Some("") => Err(format!("{place} names no file: expected {SHARED}FILE")),
            Some(file) => Ok(Self::Shared(file.into())),
            None => PublicKey::parse(text, place).map(Self::Public).map_err(|error| {
                format!("{error}; a file with a key that both ends of the hop have is {SHARED}FILE")
            }),
        }
    }
}

/// A neighbour in a node's settings.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// The setting that names it.
    pub setting: &'static str,
    /// Its name in statistics.
    pub name: &'a str,
    /// How it is known.
    pub key: &'a NeighbourKey,
    /// Whether this node begins the hop's sessions.
    pub begins: bool,
}

impl<'a> Neighbour<'a> {
    /// The next node towards the gateway: this node begins the hop's sessions.
    pub(crate) fn reached_as(setting: &'static str, name: &'a str, key: &'a NeighbourKey) -> Self {
        Self { setting, name, key, begins: true }
    }

    /// The next node towards the device: it begins the hop's sessions.
    pub(crate) fn known_as(setting: &'static str, name: &'a str, key: &'a NeighbourKey) -> Self {
        Self { setting, name, key, begins: false }
    }
}

/// The key of the hop to each neighbour. `own` is the file of this node's private key.
///
/// # Errors
/// [`NodeError`] names the file, or the setting and the neighbour.
pub(crate) fn hop_keys(own: Option<&Path>, neighbours: &[Neighbour<'_>]) -> Result<Vec<Key>, NodeError> {
    let own = own.map(PrivateKey::load).transpose().map_err(|error| match error {
        KeyError::IsShared { place } => NodeError::OwnKeyIsShared { place },
        error => error.into(),
    })?;
    let mut keys: Vec<Key> = Vec::with_capacity(neighbours.len());
    for neighbour in neighbours {
        let Neighbour { setting, name, key, begins } = *neighbour;
        let named = || name.to_owned();
        let key = match key {
            NeighbourKey::Shared(file) => {
                Key::load(file).map_err(|source| NodeError::SharedKey { setting, name: named(), source })?
            }
            NeighbourKey::Public(public) => {
                let own = own.as_ref().ok_or_else(|| NodeError::NoOwnKey { setting, name: named() })?;
                if own.public() == *public {
                    return Err(NodeError::OwnKeyAsNeighbour { setting, name: named() });
                }
                own.pair_key(public, LABEL, begins)
            }
        };
        if let Some(same) = keys.iter().position(|known| *known == key) {
            let other = neighbours[same].name.to_owned();
            return Err(NodeError::SameKey { setting, name: named(), other });
        }
        keys.push(key);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
