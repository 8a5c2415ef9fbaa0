//! Which nodes can connect with which keys, and what wrong ones are told.

use super::*;
use crate::hop::{Hop, Received};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use tempfile::TempDir;
use tributary_types::Instant;

const NOW: Instant = Instant::from_millis(5000);

fn node(seed: u8) -> PrivateKey {
    PrivateKey::from_seed([seed; 32])
}

/// Whether packets pass both ways between a node that begins with this key and one that answers with that one.
fn connects(begins: &Key, answers: &Key) -> bool {
    let (mut below, mut above) = (Hop::initiator(begins.clone(), 0), Hop::responder(answers.clone(), 0));
    let mut init = below.poll_handshake(NOW).expect("it begins");
    let Received::Handshake(Some(mut reply)) = above.handle_datagram(NOW, &mut init) else { return false };
    below.handle_datagram(NOW, &mut reply);
    let passes = |from: &mut Hop, to: &mut Hop| {
        let mut datagram = Vec::new();
        from.seal(&mut datagram, |out| out.extend_from_slice(b"packet")).is_some()
            && matches!(to.handle_datagram(NOW, &mut datagram), Received::Message(_, b"packet"))
    };
    passes(&mut below, &mut above) && passes(&mut above, &mut below)
}

/// Files of keys.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, line: &str, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        let file = std::fs::OpenOptions::new().write(true).create(true).mode(mode).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("a file");
        path
    }

    fn private(&self, name: &str, key: &PrivateKey) -> PathBuf {
        self.write(name, &key.to_line(), 0o600)
    }

    fn shared(&self, name: &str, byte: u8) -> NeighbourKey {
        NeighbourKey::Shared(self.write(name, &Key::from_bytes([byte; 32]).to_line(), 0o600))
    }
}

#[test]
fn two_nodes_with_keys_of_their_own_connect() {
    let files = Files::new();
    let (device, point) = (node(1), node(2));
    let (of_device, of_point) = (NeighbourKey::Public(device.public()), NeighbourKey::Public(point.public()));
    let hop = |own: &PrivateKey, neighbour| {
        let own = files.private(&own.public().to_string().replace('/', "-"), own);
        hop_keys(Some(&own), &[neighbour]).expect("the keys are right").remove(0)
    };
    let below = hop(&device, Neighbour::reached_as("access_point", "wifi", &of_point));
    let above = hop(&point, Neighbour::known_as("device_key", "device", &of_device));
    assert!(connects(&below, &above));
    // Another device, another access point, and both ends beginning.
    let stranger = hop(&node(3), Neighbour::reached_as("access_point", "wifi", &of_point));
    assert!(!connects(&stranger, &above));
    let of_stranger = NeighbourKey::Public(node(3).public());
    assert!(!connects(&hop(&device, Neighbour::reached_as("access_point", "wifi", &of_stranger)), &above));
    assert!(!connects(&hop(&device, Neighbour::known_as("device_key", "device", &of_point)), &above));
}

#[test]
fn nodes_with_a_shared_key_connect() {
    let files = Files::new();
    let shared = files.shared("shared", 7);
    let below = hop_keys(None, &[Neighbour::reached_as("gateway_key", "gateway", &shared)]).expect("a key");
    let above = hop_keys(None, &[Neighbour::known_as("access_point", "ap1", &shared)]).expect("a key");
    assert!(connects(&below[0], &above[0]));
}

#[test]
fn the_key_of_one_access_point_lets_nobody_pose_as_another_node() {
    let [gateway, one, two, device, thief] = [1, 2, 3, 4, 5].map(node);
    let all = [&gateway, &one, &two, &device, &thief].map(PrivateKey::public);
    // Everything that he can compute who has the private key of the first access point.
    let stolen = [&one, &thief].into_iter().flat_map(|own| {
        let others = all.iter().filter(|public| **public != own.public());
        others.flat_map(|public| [true, false].map(|begins| own.pair_key(public, LABEL, begins)))
    });
    let stolen: Vec<Key> = stolen.collect();
    let key = |own: &PrivateKey, other: &PrivateKey, begins| own.pair_key(&other.public(), LABEL, begins);
    let (to_gateway, of_two) = (key(&two, &gateway, true), key(&gateway, &two, false));
    let (to_two, of_device) = (key(&device, &two, true), key(&two, &device, false));
    assert!(connects(&to_gateway, &of_two) && connects(&to_two, &of_device));
    for key in &stolen {
        assert!(!connects(key, &of_two), "as the other access point, to the gateway");
        assert!(!connects(key, &of_device), "as the device, to the other access point");
        assert!(!connects(&to_gateway, key), "as the gateway, to the other access point");
        assert!(!connects(&to_two, key), "as the other access point, to the device");
    }
    // To the access point itself he can pose as each of its neighbours: decision 0010.
    assert!(stolen.contains(&key(&device, &one, true)));
}

#[test]
fn wrong_keys_are_named_with_the_way_out() {
    let files = Files::new();
    let own = files.private("own", &node(1));
    let public = NeighbourKey::Public(node(2).public());
    let refused = |own: Option<&Path>, keys: &[(&str, &NeighbourKey)]| {
        let neighbours: Vec<_> =
            keys.iter().map(|(name, key)| Neighbour::known_as("access_point", name, key)).collect();
        hop_keys(own, &neighbours).expect_err("it is refused").to_string()
    };
    let said = refused(None, &[("ap1", &public)]);
    assert!(said.contains("`access_point` names `ap1`") && said.contains("tributary keygen"), "{said}");
    let said = refused(Some(&own), &[("ap1", &NeighbourKey::Public(node(1).public()))]);
    assert!(said.contains("`ap1`") && said.contains("tributary pubkey"), "{said}");
    let said = refused(Some(&own), &[("ap1", &public), ("ap2", &public)]);
    assert!(said.contains("`ap2` the same key as `ap1`"), "{said}");
    let (one, two) = (files.shared("one", 7), files.shared("two", 7));
    let said = refused(None, &[("ap1", &one), ("ap2", &two)]);
    assert!(said.contains("`ap2` the same key as `ap1`"), "{said}");
    let NeighbourKey::Shared(shared) = &one else { panic!("it is shared") };
    let said = refused(Some(shared), &[("ap1", &public)]);
    assert!(said.contains("is a shared one") && said.contains("shared:FILE"), "{said}");
    let said = refused(Some(&own), &[("ap1", &NeighbourKey::Shared(own.clone()))]);
    assert!(said.contains("is a private key"), "{said}");
    let open = files.write("open", &node(1).to_line(), 0o644);
    let said = refused(Some(&open), &[("ap1", &public)]);
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn a_text_that_is_no_key_is_not_repeated() {
    let (private, shared) = (node(1).to_line(), Key::from_bytes([7; 32]).to_line());
    for text in [private.as_str(), shared.as_str(), "ap1.key", "shared:"] {
        let said = NeighbourKey::parse(text, "the key of `ap1`").expect_err("no key");
        assert!(said.starts_with("the key of `ap1`") && said.contains("shared:FILE"), "{said}");
        assert!(!said.contains(text) || text == "shared:", "{said}");
    }
}
