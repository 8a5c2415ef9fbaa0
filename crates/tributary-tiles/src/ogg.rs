//! Reads the packets of one logical stream of Opus in Ogg, as ffmpeg writes it (RFC 3533 §6, RFC 7845).
//!
//! Checks no checksum, because the bytes come through a pipe. Bounded: a packet is at most [`MOST_PACKET`] bytes long.

use std::io::{self, ErrorKind, Read};

/// Maximum size of a packet, bytes: RFC 7845 §6 recommends 61 440 per stream; the comments are one packet, too.
const MOST_PACKET: usize = 1 << 20;

/// The first packet of the stream (RFC 7845 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpusHead {
    /// Channels, 1 or 2.
    pub(crate) channels: u8,
    /// Samples of 48 kHz at the beginning that are not presented.
    pub(crate) pre_skip: u16,
    /// Rate of the encoder's input, Hz.
    pub(crate) input_rate: u32,
}

/// The packets of a stream.
pub(crate) struct Packets<R> {
    from: R,
    /// Lengths of the rest of the page's lacing values, and the next one's index.
    lacing: Vec<u8>,
    next: usize,
}

impl<R: Read> Packets<R> {
    /// Reads the two packets before the sound.
    ///
    /// # Errors
    /// The input ends early or is not Opus of one or two channels in Ogg.
    pub(crate) fn begin(from: R) -> io::Result<(OpusHead, Self)> {
        let mut packets = Self { from, lacing: Vec::new(), next: 0 };
        let head = packets.next()?.ok_or(ErrorKind::UnexpectedEof)?;
        let head = match head.as_slice() {
            [
                b'O',
                b'p',
                b'u',
                b's',
                b'H',
                b'e',
                b'a',
                b'd',
                1,
                channels @ 1..=2,
                p0,
                p1,
                r0,
                r1,
                r2,
                r3,
                _,
                _,
                0,
            ] => OpusHead {
                channels: *channels,
                pre_skip: u16::from_le_bytes([*p0, *p1]),
                input_rate: u32::from_le_bytes([*r0, *r1, *r2, *r3]),
            },
            _ => return Err(invalid("no Opus of one or two channels")),
        };
        packets.next()?.ok_or(ErrorKind::UnexpectedEof)?;
        Ok((head, packets))
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// The input ends within a packet, or is not Ogg.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut packet = Vec::new();
        loop {
            let Some(&length) = self.lacing.get(self.next) else {
                match self.page()? {
                    true => continue,
                    false if packet.is_empty() => return Ok(None),
                    false => return Err(ErrorKind::UnexpectedEof.into()),
                }
            };
            self.next += 1;
            let start = packet.len();
            packet.resize(start + usize::from(length), 0);
            self.from.read_exact(&mut packet[start..])?;
            if packet.len() > MOST_PACKET {
                return Err(invalid("a packet without end"));
            }
            // RFC 3533 §6: 255 means that the packet continues.
            if length < 255 {
                return Ok(Some(packet));
            }
        }
    }

    /// Reads the head of the next page; `false` at the end.
    fn page(&mut self) -> io::Result<bool> {
        let mut head = [0; 27];
        match self.from.read(&mut head[..1])? {
            0 => return Ok(false),
            _ => self.from.read_exact(&mut head[1..])?,
        }
        if &head[..5] != b"OggS\0" {
            return Err(invalid("no page of Ogg"));
        }
        (self.lacing, self.next) = (vec![0; usize::from(head[26])], 0);
        self.from.read_exact(&mut self.lacing)?;
        Ok(true)
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0";

    fn page(lacing: &[u8], data: &[u8]) -> Vec<u8> {
        let head = [b"OggS\0".as_slice(), &[0; 21], &[lacing.len() as u8]].concat();
        [&head, lacing, data].concat()
    }

    fn stream(pages: &[Vec<u8>]) -> Vec<u8> {
        [page(&[19], HEAD), page(&[2], b"hi")].into_iter().chain(pages.iter().cloned()).flatten().collect()
    }

    #[test]
    fn packets_are_found_across_pages() {
        let file = stream(&[page(&[3, 255], &[7; 258]), page(&[255, 0, 1], &[8; 256])]);
        let (head, mut packets) = Packets::begin(&file[..]).unwrap();
        assert_eq!(head, OpusHead { channels: 2, pre_skip: 312, input_rate: 48_000 });
        let sizes: Vec<usize> = core::iter::from_fn(|| packets.next().unwrap()).map(|p| p.len()).collect();
        assert_eq!(sizes, [3, 510, 1]);
    }

    #[test]
    fn what_is_cut_or_something_else_is_an_error() {
        let file = stream(&[page(&[3, 255], &[7; 258]), page(&[255, 0, 1], &[8; 256])]);
        for length in 0..file.len() {
            let read = || {
                let (_, mut packets) = Packets::begin(&file[..length])?;
                while packets.next()?.is_some() {}
                Ok::<(), io::Error>(())
            };
            // Only between two packets of different pages the end is no error.
            assert_eq!(read().is_ok(), length == stream(&[]).len(), "cut at {length}");
        }
        let surround = stream(&[]).iter().map(|b| if *b == 0x02 { 6 } else { *b }).collect::<Vec<u8>>();
        assert!(Packets::begin(&surround[..]).is_err());
        assert!(Packets::begin(&b"RIFFxxxxWAVE"[..]).is_err());
    }
}
