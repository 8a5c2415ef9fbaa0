//! Seals and opens records in pieces of any size, and detects tampering.

use rustls::crypto::cipher::{AeadKey, Iv};

use super::*;

fn pair() -> (Sealer, Opener) {
    let secret = || {
        let key = AeadKey::from([7; 32]);
        (0, ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv: Iv::from([3; 12]) })
    };
    (Sealer::new(secret(), &[5; 32]).unwrap(), Opener::new(secret(), &[5; 32]).unwrap())
}

fn sealed(sealer: &mut Sealer, data: &[u8]) -> Vec<u8> {
    sealer.push(data);
    sealer.finish();
    let bytes = sealer.pending().to_vec();
    sealer.advance(bytes.len());
    bytes
}

#[test]
fn plaintexts_of_many_records_are_contiguous() {
    let (mut sealer, mut opener) = pair();
    let data: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let mut wire = sealed(&mut sealer, &data);
    wire.extend_from_slice(&sealed(&mut sealer, b"tail")[..10]);
    let opened = opener.open(&mut wire).unwrap();
    assert_eq!(opened.plaintext, data.len());
    assert_eq!(wire.len() - opened.consumed, 10);
    assert_eq!(&wire[..opened.plaintext], &data);
}

#[test]
fn keys_change_on_both_sides_together() {
    let (mut sealer, mut opener) = pair();
    sealer.keys.left = 2;
    opener.keys.left = 2;
    for n in 0..6_u8 {
        let mut wire = sealed(&mut sealer, &[n; 9]);
        assert_eq!(opener.open(&mut wire).unwrap().plaintext, 9);
        assert_eq!(wire[..9], [n; 9]);
    }
    assert_eq!(sealer.keys.sequence, 4);
}

#[test]
fn tampering_replay_and_garbage_are_refused() {
    let (mut sealer, mut opener) = pair();
    let wire = sealed(&mut sealer, b"hello");
    let mut bad = wire.clone();
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(pair().1.open(&mut bad), Err(RecordError::Tampered));
    opener.open(&mut wire.clone()).unwrap();
    assert_eq!(opener.open(&mut wire.clone()), Err(RecordError::Tampered));
    assert_eq!(opener.open(&mut [22, 3, 3, 0, 40]), Err(RecordError::Malformed));
    assert_eq!(opener.open(&mut [23, 3, 3, 255, 255]), Err(RecordError::Malformed));
}

#[test]
fn an_orderly_end_is_reported() {
    let (mut sealer, mut opener) = pair();
    sealer.push(b"last");
    sealer.close();
    let mut wire = sealer.pending().to_vec();
    let opened = opener.open(&mut wire).unwrap();
    assert!(opened.closed);
    assert_eq!(&wire[..opened.plaintext], b"last");
}

#[test]
fn the_missing_length_of_a_record_is_read_from_its_head() {
    let (mut sealer, _) = pair();
    let wire = sealed(&mut sealer, &[1; 1000]);
    assert_eq!(missing(&wire[..4]), 0);
    assert_eq!(missing(&wire[..5]), wire.len() - 5);
    assert_eq!(missing(&wire[..wire.len() - 1]), 1);
    assert_eq!(missing(&wire), 0);
}
