//! An index byte by byte, and bytes that are not an index.

use super::*;

/// An index of version 0, 1000 units a second, with these (size, duration) entries.
fn sidx(entries: &[(u32, u32)]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0];
    for word in [1, 1000, 500, 8, entries.len() as u32] {
        body.extend(u32::to_be_bytes(word));
    }
    for (size, duration) in entries {
        for word in [*size, *duration, 0x9000_0000] {
            body.extend(u32::to_be_bytes(word));
        }
    }
    let mut bytes = u32::to_be_bytes(body.len() as u32 + 8).to_vec();
    bytes.extend(b"sidx");
    bytes.extend(body);
    bytes
}

#[test]
fn segments_follow_the_index_after_its_first_offset() {
    let bytes = sidx(&[(100, 4000), (50, 2000)]);
    let index = read(&bytes, 786).expect("a valid index");
    assert_eq!(index.earliest, Duration::from_millis(500));
    let entries = index.entries;
    let first = 786 + bytes.len() as u64 + 8;
    assert_eq!(entries[0].range, ByteRange { first, last: Some(first + 99) });
    assert_eq!(entries[1].range, ByteRange { first: first + 100, last: Some(first + 149) });
    assert_eq!(entries[1].span.start, Duration::from_secs(4));
    assert_eq!(entries[1].span.duration, Duration::from_secs(2));
}

#[test]
fn boxes_before_the_index_are_skipped() {
    let mut bytes = vec![0, 0, 0, 9];
    bytes.extend(b"free\0");
    bytes.extend(sidx(&[(10, 1000)]));
    assert_eq!(read(&bytes, 0).expect("a valid index").entries.len(), 1);
}

#[test]
fn an_invalid_index_is_refused() {
    assert_eq!(read(b"", 0), Err(SidxError::Missing));
    assert_eq!(read(b"\0\0\0\x08free", 0), Err(SidxError::Missing));
    assert_eq!(read(b"\0\0\0\x04free", 0), Err(SidxError::Missing), "a box shorter than its header");
    assert_eq!(read(&sidx(&[(0, 1)]), 0), Err(SidxError::Range(0)));
    assert_eq!(read(&sidx(&[(0x8000_0001, 1)]), 0), Err(SidxError::Nested(0)));
    assert_eq!(read(&sidx(&[(1, 1)]), u64::MAX - 3), Err(SidxError::Range(0)));
    let mut zero = sidx(&[(1, 1)]);
    zero[16..20].fill(0);
    assert_eq!(read(&zero, 0), Err(SidxError::Timescale));
}

#[test]
fn no_prefix_and_no_damaged_byte_panics() {
    let whole = sidx(&[(100, 4000), (50, 2000)]);
    for end in 0..whole.len() {
        assert!(read(&whole[..end], 0).is_err(), "{end} bytes");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let _ = read(&damaged, u64::MAX / 2);
        }
    }
}
