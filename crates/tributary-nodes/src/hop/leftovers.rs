//! Searches the memory of this process for a key that should be gone.

use super::*;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use tributary_net::PrivateKey;

/// The end of a key or of its text, which the allocator does not overwrite when it frees the memory, in a form that the search does not
/// find.
struct Needle([u8; 16]);

impl Needle {
    fn of(secret: &[u8]) -> Self {
        Self(core::array::from_fn(|i| !secret[secret.len() - 16 + i]))
    }

    fn is_at(&self, bytes: &[u8]) -> bool {
        bytes.iter().zip(self.0).all(|(byte, inverted)| *byte == !inverted)
    }

    /// Copies in the writable memory of the process, but for this thread's stack.
    fn copies(&self) -> usize {
        let here = &raw const *self as usize;
        let memory = File::open("/proc/self/mem").unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let writable = maps.lines().filter(|line| line.contains(" rw-p ") && !line.contains("[stack"));
        let mut page = [0; 4096 + 15];
        let mut copies = 0;
        for line in writable {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap());
            if (from..to).contains(&here) {
                continue;
            }
            for at in (from..to).step_by(4096) {
                // Memory may have been unmapped meanwhile.
                let read = memory.read_at(&mut page[..(to - at).min(4096 + 15)], at as u64).unwrap_or(0);
                copies += page[..read].windows(16).filter(|bytes| self.is_at(bytes)).count();
            }
        }
        copies
    }
}

#[test]
fn no_copy_of_a_key_is_left_when_its_file_was_read_and_its_hop_has_ended() {
    let path = std::env::temp_dir().join(format!("tributary-hop-key-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(Key::generate().unwrap().to_line().as_bytes()).unwrap();
    let key = Key::load(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let (bytes, text) = (Needle::of(key.bytes()), Needle::of(key.to_line().as_bytes()));
    let hop = Box::new(Hop::responder(key, 0));
    assert_eq!((bytes.copies(), text.copies()), (1, 0), "the hop's own");
    drop(hop);
    assert_eq!((bytes.copies(), text.copies()), (0, 0));
}

#[test]
fn no_copy_of_a_pairs_key_is_left_when_its_hop_has_ended() {
    let [own, other] = [(), ()].map(|()| PrivateKey::generate().unwrap());
    let key = own.pair_key(&other.public(), LABEL, true);
    let needle = Needle::of(key.bytes());
    let hop = Box::new(Hop::initiator(key, 0));
    assert_eq!(needle.copies(), 1, "the hop's own");
    drop(hop);
    assert_eq!(needle.copies(), 0);
}
