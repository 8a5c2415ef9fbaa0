//! Layout of a hop's datagrams. Integers are big-endian. Not here: what they mean (`hop`) and the message inside
//! (`message`).
//!
//! Every datagram begins with its kind, the hop's version and two zeros; these four bytes and the number after an
//! `init`'s or a notice's first four bytes keep their place in every version, so that another version is recognised.
//!
//! | kind | bytes from 4 on |
//! |---|---|
//! | 1 `init` | initiator's session number (4), key identity (8), time stamp (8), salt (16), cookie or zeros (16), MAC (16) |
//! | 2 `reply` | initiator's session number (4), responder's (4), salt (16), MAC (16) |
//! | 3 data | receiver's session number (4), packet number (8), ciphertext, tag (16) |
//! | 4 cookie | initiator's session number (4), cookie (16), MAC (16) |
//! | 5 stale | initiator's session number (4), newest time stamp (8), MAC (16) |
//! | 6 version | initiator's session number (4) |

/// The version of the hop's protocol.
pub(crate) const VERSION: u8 = 4;
pub(super) const ID: usize = 8;
pub(super) const SALT: usize = 16;
pub(super) const COOKIE: usize = 16;
pub(super) const MAC: usize = 16;
pub(super) const DATA_HEADER: usize = 16;
/// Bytes that a hop adds to a message.
pub(crate) const OVERHEAD: usize = DATA_HEADER + 16;
pub(super) const INIT: usize = 40 + COOKIE + MAC;
pub(super) const REPLY: usize = 12 + SALT + MAC;
const COOKIE_REPLY: usize = 8 + COOKIE + MAC;
const STALE: usize = 16 + MAC;

/// Kind of a datagram of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Init,
    Reply,
    Data,
    Cookie,
    Stale,
}

/// Why bytes are no datagram of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Malformed,
    /// Sent by a node with this version of the hop.
    Version(u8),
}

/// Age of an `init` by its time stamp, which is not authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Fresh,
    /// As old as the newest one: a copy.
    Same,
    /// Older: recorded, overtaken, or the peer's clock was set back.
    Stale,
}

impl Kind {
    /// The kind of a datagram whose length is right for it.
    pub(crate) fn of(datagram: &[u8]) -> Result<Self, Fault> {
        let Some([first @ 1..=6, version @ 1..=255, 0, 0]) = datagram.get(..4) else {
            return Err(Fault::Malformed);
        };
        if *version != VERSION && datagram.len() >= 8 {
            return Err(Fault::Version(*version));
        }
        match (first, datagram.len()) {
            (1, INIT) => Ok(Self::Init),
            (2, REPLY) => Ok(Self::Reply),
            (3, OVERHEAD..) => Ok(Self::Data),
            (4, COOKIE_REPLY) => Ok(Self::Cookie),
            (5, STALE) => Ok(Self::Stale),
            _ => Err(Fault::Malformed),
        }
    }

    /// The first bytes of a datagram of this kind, up to the first session number.
    pub(super) fn head(self, number: u32) -> [u8; 8] {
        let first = match self {
            Self::Init => 1,
            Self::Reply => 2,
            Self::Data => 3,
            Self::Cookie => 4,
            Self::Stale => 5,
        };
        let [a, b, c, d] = number.to_be_bytes();
        [first, VERSION, 0, 0, a, b, c, d]
    }
}

/// The answer to an `init` of another version; `None` if the datagram is none.
pub(crate) fn version_notice(datagram: &[u8]) -> Option<[u8; 8]> {
    let number = datagram.get(4..8).filter(|_| datagram[0] == 1)?;
    Some([6, VERSION, 0, 0, number[0], number[1], number[2], number[3]])
}

/// The session number of every kind: the receiver's, but the sender's in an `init`.
pub(super) fn session_number(datagram: &[u8]) -> u32 {
    u32::from_be_bytes(array(datagram, 4))
}

/// The `N` bytes at `at`.
///
/// # Panics
/// The datagram is shorter. Its length was checked by [`Kind::of`].
pub(super) fn array<const N: usize>(datagram: &[u8], at: usize) -> [u8; N] {
    datagram[at..at + N].try_into().expect("the range has N bytes")
}

/// Fields of an `init`.
pub(super) struct Init {
    pub(super) theirs: u32,
    pub(super) stamp: u64,
    pub(super) salt: [u8; SALT],
}

impl Init {
    pub(super) fn read(datagram: &[u8]) -> Self {
        Self {
            theirs: session_number(datagram),
            stamp: u64::from_be_bytes(array(datagram, 16)),
            salt: array(datagram, 24),
        }
    }

    pub(super) fn id(datagram: &[u8]) -> [u8; ID] {
        array(datagram, 8)
    }

    pub(super) fn cookie(datagram: &[u8]) -> [u8; COOKIE] {
        array(datagram, 40)
    }
}
