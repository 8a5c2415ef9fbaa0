//! Encoding of the messages between player and pusher: a head of eight bytes, then the body of the announced length.
//!
//! All numbers are big-endian. Specification: `docs/tiled-wire-format.md`. `frames` splits a byte stream into
//! messages.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;
use thiserror::Error;
use tributary_types::printable;
use tributary_video::projection::Projection;
use tributary_video::rd::{RdTable, TableError, TableLayout, TileCells};
use tributary_video::tiles::{GridError, MOST_TILES, TileGrid};

/// Bytes of every head.
pub(super) const HEAD: usize = 8;
/// Maximum number of tiles in a plan: each tile of the largest grid twice.
pub const MOST_ENTRIES: usize = 2 * MOST_TILES;
/// Maximum size of an initialisation segment, bytes.
pub const MOST_INIT: usize = 64 << 10;
/// Maximum size of a media segment, bytes.
pub const MOST_SEGMENT: usize = 64 << 20;
/// Maximum payload of one message of a tile; longer tiles are sent in parts.
pub const MOST_PART: usize = 512 << 10;
/// Maximum length of a refusal's reason, bytes.
const MOST_REASON: usize = 256;
/// Maximum number of GoPs in one request for menus.
pub(super) const MOST_MENUS: u16 = 16;

/// Number in the place of a tile's that means the sound of a GoP. Its only quality is 0.
pub const SOUND: u16 = u16::MAX;

/// Number of GoPs of a live video, whose end is not known.
pub const LIVE: u32 = u32::MAX;
/// A live video's GoPs have smaller numbers than this: 34 years of half-second GoPs.
pub(super) const MOST_LIVE: u32 = 1 << 31;

pub(super) const VERSION: u8 = 3;
const MAGIC: &[u8; 4] = b"TRBT";

/// A message in either direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TiledMessage {
    /// Client: starts the viewing, of the tiles or of the low-resolution stream in their place.
    Start { low_resolution: bool },
    /// Client: requests the menus of `count` GoPs from `first` on; after the video's last GoP comes its first.
    Menus { first: u32, count: u16 },
    /// Client: a plan of tiles to push.
    Plan(Plan),
    /// Client: ends the viewing.
    End,
    /// Client, after [`Self::Served`]: the number of tiles that arrived completely.
    Report { in_time: u64, late: u64 },
    /// Server: description of the video.
    Video(Video),
    /// Server: bytes of one GoP's sound, 0 without any, and its tiles' sizes and errors; the video's layout is needed to read these.
    Menu { gop: u32, sound: u32, cells: Bytes },
    /// Server: a part of a tile.
    Tile(TilePart),
    /// Server, after [`Self::End`]: the numbers of tiles requested and not withdrawn, and of tiles sent completely.
    Served { asked: u64, sent: u64 },
    /// Server: refuses to continue, with the reason.
    Refused { reason: String },
    /// Server: the number of the last GoP of a live video.
    Last { gop: u32 },
    /// Server: a GoP of a live video was requested that is no longer kept, and the oldest one that is.
    Gone { gop: u32, oldest: u32 },
}

/// Tiles to push for one slot of the playing time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Number of the slot from 0 at the start; increases from plan to plan.
    pub slot: u32,
    /// The GoP of the video that is shown in this slot.
    pub gop: u32,
    /// A higher revision replaces the slot's tiles that have not begun.
    pub revision: u16,
    /// Microseconds from the plan's arrival; after that time none of its tiles may begin.
    pub within_us: u32,
    /// The tiles, in sending order.
    pub entries: Vec<PlanEntry>,
}

/// One tile in one quality, or the sound of the GoP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanEntry {
    /// The tile, or [`SOUND`].
    pub tile: u16,
    /// Index of the quality, 0 the finest.
    pub quality: u8,
    /// Whether to send the initialisation segment before the media segment.
    pub with_init: bool,
}

/// A part of a tile's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TilePart {
    pub slot: u32,
    pub gop: u32,
    pub tile: u16,
    pub quality: u8,
    /// Bytes of the initialisation segment at the start of the whole; 0 without one.
    pub init: u32,
    /// Number of bytes of the whole.
    pub total: u32,
    /// Offset of this part.
    pub offset: u32,
    pub payload: Bytes,
}

/// The server's description of its video.
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// Grid, size, GoP duration and QPs.
    pub layout: TableLayout,
    /// Number of GoPs before the video starts again; [`LIVE`] for a video whose end is not known.
    pub gops: u32,
    /// Its sound, if it has any.
    pub sound: Option<SoundFormat>,
    /// Whether there is a low-resolution stream, which a client may ask for in the place of the tiles.
    pub low_resolution: bool,
}

impl Video {
    /// Whether the video is made while it is sent.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.gops == LIVE
    }
}

/// How the sound of a video is coded: Opus (RFC 6716) in fMP4 segments, whose time scale is always 48 kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SoundFormat {
    /// Channels, 1 or 2.
    pub channels: u8,
}

impl SoundFormat {
    /// Sound of so many channels, 1 or 2; `None` for another number.
    #[must_use]
    pub fn new(channels: u8) -> Option<Self> {
        matches!(channels, 1 | 2).then_some(Self { channels })
    }
}

/// Why a message is invalid.
#[derive(Debug, Error)]
pub enum WireError {
    /// Another protocol.
    #[error("these bytes are not tiled streaming; is this the right port?")]
    Magic,
    /// An unknown version.
    #[error("the peer speaks version {0} of tiled streaming, this program version {VERSION}")]
    Version(u8),
    /// An unknown kind, or a kind of the other direction.
    #[error("a message of kind {0:#04x}, which this side does not expect")]
    Kind(u8),
    /// A length that is invalid for the kind.
    #[error("a message of kind {kind:#04x} with {length} bytes")]
    Length {
        /// The kind.
        kind: u8,
        /// The announced length.
        length: u64,
    },
    /// A field is out of range.
    #[error("{field} is {value}, which is out of range")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// An impossible grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// An invalid layout or menu.
    #[error(transparent)]
    Table(#[from] TableError),
}

const START: u8 = 0x01;
const MENUS: u8 = 0x02;
const PLAN: u8 = 0x03;
const END: u8 = 0x04;
const REPORT: u8 = 0x05;
const VIDEO: u8 = 0x81;
const MENU: u8 = 0x82;
const TILE: u8 = 0x83;
const REFUSED: u8 = 0x84;
const SERVED: u8 = 0x85;
const LAST: u8 = 0x86;
const GONE: u8 = 0x87;

/// Flag of START: the low-resolution stream instead of the tiles.
const START_LOW: u8 = 1;
/// Flag of VIDEO: there is a low-resolution stream.
const VIDEO_LOW: u8 = 2;
/// The sound's codec in VIDEO: Opus; 0 means no sound.
const OPUS: u8 = 1;

const PLAN_FIXED: usize = 16;
const TILE_FIXED: usize = 24;
/// Bytes of a menu before its tiles.
const MENU_FIXED: usize = 8;
/// Bytes of a menu per tile: one quality, and the two concealments.
const CELL: usize = 8;

/// The reading end: each kind of message has one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Server,
    Client,
}

/// The kind and length of a head, if `reader` may receive such a message.
pub(super) fn head(bytes: &[u8; HEAD], reader: Reader) -> Result<(u8, usize), WireError> {
    let [kind, version, z0, z1, length @ ..] = *bytes;
    let length = u32::from_be_bytes(length) as usize;
    if (z0, z1) != (0, 0) {
        return Err(WireError::Magic);
    }
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let longest_menu = MENU_FIXED + MOST_TILES * CELL * (1 + tributary_video::allocation::MOST_CHOICES);
    let (least, most) = match (reader, kind) {
        (Reader::Server, START | MENUS) => (8, 8),
        (Reader::Server, PLAN) => (PLAN_FIXED, PLAN_FIXED + 4 * MOST_ENTRIES),
        (Reader::Server, END) => (0, 0),
        (Reader::Server, REPORT) | (Reader::Client, SERVED) => (16, 16),
        (Reader::Client, VIDEO) => (25, 24 + tributary_video::allocation::MOST_CHOICES),
        (Reader::Client, MENU) => (MENU_FIXED + 2 * CELL, longest_menu),
        (Reader::Client, TILE) => (TILE_FIXED + 1, TILE_FIXED + MOST_PART),
        (Reader::Client, REFUSED) => (0, MOST_REASON),
        (Reader::Client, LAST) => (4, 4),
        (Reader::Client, GONE) => (8, 8),
        _ => return Err(WireError::Kind(kind)),
    };
    if !(least..=most).contains(&length) {
        return Err(WireError::Length { kind, length: length as u64 });
    }
    Ok((kind, length))
}

/// Reads the message of a kind and length that [`head`] has checked.
pub(super) fn body(kind: u8, mut bytes: Bytes) -> Result<TiledMessage, WireError> {
    let length = bytes.len() as u64;
    Ok(match kind {
        START => {
            let mut magic = [0; 4];
            bytes.copy_to_slice(&mut magic);
            if &magic != MAGIC {
                return Err(WireError::Magic);
            }
            match bytes.get_u8() {
                flags if flags & !START_LOW == 0 => TiledMessage::Start { low_resolution: flags != 0 },
                flags => {
                    return Err(WireError::Field { field: "the flags of a start", value: u64::from(flags) });
                }
            }
        }
        MENUS => {
            let (first, count) = (bytes.get_u32(), bytes.get_u16());
            if !(1..=MOST_MENUS).contains(&count) {
                return Err(WireError::Field { field: "the number of menus", value: u64::from(count) });
            }
            TiledMessage::Menus { first, count }
        }
        PLAN => plan(bytes)?,
        END => TiledMessage::End,
        REPORT => TiledMessage::Report { in_time: bytes.get_u64(), late: bytes.get_u64() },
        VIDEO => video(bytes)?,
        MENU => TiledMessage::Menu { gop: bytes.get_u32(), sound: bytes.get_u32(), cells: bytes },
        TILE => tile(bytes)?,
        SERVED => TiledMessage::Served { asked: bytes.get_u64(), sent: bytes.get_u64() },
        LAST => TiledMessage::Last { gop: bytes.get_u32() },
        GONE => TiledMessage::Gone { gop: bytes.get_u32(), oldest: bytes.get_u32() },
        REFUSED => TiledMessage::Refused { reason: printable(&String::from_utf8_lossy(&bytes)) },
        _ => return Err(WireError::Length { kind, length }),
    })
}

fn plan(mut bytes: Bytes) -> Result<TiledMessage, WireError> {
    let length = bytes.len() as u64;
    let (slot, gop, revision) = (bytes.get_u32(), bytes.get_u32(), bytes.get_u16());
    let (count, within_us) = (usize::from(bytes.get_u16()), bytes.get_u32());
    if bytes.len() != 4 * count {
        return Err(WireError::Length { kind: PLAN, length });
    }
    let mut entries = Vec::with_capacity(count);
    while bytes.has_remaining() {
        let (tile, quality, flags) = (bytes.get_u16(), bytes.get_u8(), bytes.get_u8());
        if flags > 1 {
            return Err(WireError::Field { field: "the flags of a tile", value: u64::from(flags) });
        }
        entries.push(PlanEntry { tile, quality, with_init: flags == 1 });
    }
    Ok(TiledMessage::Plan(Plan { slot, gop, revision, within_us, entries }))
}

fn video(mut bytes: Bytes) -> Result<TiledMessage, WireError> {
    let (columns, rows) = (usize::from(bytes.get_u16()), usize::from(bytes.get_u16()));
    let (width, height) = (bytes.get_u32() as usize, bytes.get_u32() as usize);
    let (gop_us, gops) = (bytes.get_u32(), bytes.get_u32());
    let projection = match bytes.get_u8() {
        0 => Projection::Equirectangular,
        1 => Projection::Cubemap,
        2 => Projection::TopBottom,
        other => return Err(WireError::Field { field: "the projection", value: u64::from(other) }),
    };
    let low_resolution = bytes.get_u8() & VIDEO_LOW != 0;
    let sound = match (bytes.get_u8(), bytes.get_u8()) {
        (0, 0) => None,
        (OPUS, channels @ 1..=2) => SoundFormat::new(channels),
        (OPUS, other) => {
            return Err(WireError::Field { field: "the channels of the sound", value: u64::from(other) });
        }
        (other, _) => {
            return Err(WireError::Field { field: "the codec of the sound", value: u64::from(other) });
        }
    };
    if gops == 0 {
        return Err(WireError::Field { field: "the number of GoPs", value: 0 });
    }
    if !(50_000..=60_000_000).contains(&gop_us) {
        return Err(WireError::Field { field: "the GoP duration in µs", value: u64::from(gop_us) });
    }
    let layout = TableLayout {
        grid: TileGrid::new(columns, rows, projection)?,
        width,
        height,
        gop_duration_s: f64::from(gop_us) / 1e6,
        qps: bytes.to_vec(),
    };
    // A table of zeros checks the layout with the same rules as a real table.
    let zeros = || TileCells {
        bytes: vec![0; layout.qps.len()],
        mse: vec![0.0; layout.qps.len()],
        freeze_mse: 0.0,
        black_mse: 0.0,
    };
    RdTable::new(layout.clone(), (0..layout.grid.tiles()).map(|_| zeros()).collect())?;
    Ok(TiledMessage::Video(Video { layout, gops, sound, low_resolution }))
}

fn tile(mut bytes: Bytes) -> Result<TiledMessage, WireError> {
    let (slot, gop) = (bytes.get_u32(), bytes.get_u32());
    let (tile, quality, zero) = (bytes.get_u16(), bytes.get_u8(), bytes.get_u8());
    let (init, total, offset) = (bytes.get_u32(), bytes.get_u32(), bytes.get_u32());
    let refuse = |field, value: u32| Err(WireError::Field { field, value: u64::from(value) });
    if zero != 0 {
        return refuse("a byte that must be zero", u32::from(zero));
    }
    if init as usize > MOST_INIT || init >= total {
        return refuse("the length of an initialisation segment", init);
    }
    if total as usize > MOST_SEGMENT + MOST_INIT {
        return refuse("the length of a tile", total);
    }
    if offset as usize + bytes.len() > total as usize {
        return refuse("the offset in a tile", offset);
    }
    Ok(TiledMessage::Tile(TilePart { slot, gop, tile, quality, init, total, offset, payload: bytes }))
}

/// The entries of a menu as a table of one GoP.
pub(super) fn menu(layout: &TableLayout, mut cells: Bytes) -> Result<RdTable, WireError> {
    let (tiles, qualities) = (layout.grid.tiles(), layout.qps.len());
    if cells.len() != tiles * CELL * (1 + qualities) {
        return Err(WireError::Length { kind: MENU, length: (MENU_FIXED + cells.len()) as u64 });
    }
    let mut out = Vec::with_capacity(tiles);
    for _ in 0..tiles {
        let (freeze_mse, black_mse) = (f64::from(cells.get_f32()), f64::from(cells.get_f32()));
        let (mut bytes, mut mse) = (Vec::with_capacity(qualities), Vec::with_capacity(qualities));
        for _ in 0..qualities {
            bytes.push(u64::from(cells.get_u32()));
            mse.push(f64::from(cells.get_f32()));
        }
        out.push(TileCells { bytes, mse, freeze_mse, black_mse });
    }
    Ok(RdTable::new(layout.clone(), out)?)
}

impl TiledMessage {
    /// The message with its head.
    ///
    /// # Panics
    /// When the message is longer than its kind allows, which is a bug on this side.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_bytes(0, HEAD);
        let kind = self.put(&mut out);
        let length = u32::try_from(out.len() - HEAD).expect("messages are bounded");
        (out[0], out[1]) = (kind, VERSION);
        out[4..HEAD].copy_from_slice(&length.to_be_bytes());
        out.freeze()
    }

    fn put(&self, out: &mut BytesMut) -> u8 {
        match self {
            Self::Start { low_resolution } => {
                out.put_slice(MAGIC);
                out.put_u8(if *low_resolution { START_LOW } else { 0 });
                out.put_bytes(0, 3);
                START
            }
            Self::Menus { first, count } => {
                out.put_u32(*first);
                out.put_u16(*count);
                out.put_u16(0);
                MENUS
            }
            Self::Plan(plan) => {
                put_plan(out, plan);
                PLAN
            }
            Self::End => END,
            Self::Report { in_time, late } => {
                out.put_u64(*in_time);
                out.put_u64(*late);
                REPORT
            }
            Self::Video(video) => {
                put_video(out, video);
                VIDEO
            }
            Self::Menu { gop, sound, cells } => {
                out.put_u32(*gop);
                out.put_u32(*sound);
                out.put_slice(cells);
                MENU
            }
            Self::Tile(part) => {
                put_tile(out, part);
                TILE
            }
            Self::Served { asked, sent } => {
                out.put_u64(*asked);
                out.put_u64(*sent);
                SERVED
            }
            Self::Refused { reason } => {
                put_reason(out, reason);
                REFUSED
            }
            Self::Last { gop } => {
                out.put_u32(*gop);
                LAST
            }
            Self::Gone { gop, oldest } => {
                out.put_u32(*gop);
                out.put_u32(*oldest);
                GONE
            }
        }
    }

    /// The menu of one GoP of a table, with so many bytes of sound.
    pub(super) fn menu_of(table: &RdTable, gop: usize, sound: u32) -> Self {
        Self::menu(gop as u32, table.gop(gop), sound)
    }

    /// The menu of a GoP with these tiles.
    pub(super) fn menu(gop: u32, tiles: &[TileCells], sound: u32) -> Self {
        let mut cells = BytesMut::new();
        for tile in tiles {
            cells.put_f32(tile.freeze_mse as f32);
            cells.put_f32(tile.black_mse as f32);
            for (bytes, mse) in tile.bytes.iter().zip(&tile.mse) {
                cells.put_u32(u32::try_from(*bytes).unwrap_or(u32::MAX));
                cells.put_f32(*mse as f32);
            }
        }
        Self::Menu { gop, sound, cells: cells.freeze() }
    }
}

fn put_plan(out: &mut BytesMut, plan: &Plan) {
    out.put_u32(plan.slot);
    out.put_u32(plan.gop);
    out.put_u16(plan.revision);
    out.put_u16(u16::try_from(plan.entries.len()).expect("plans are bounded"));
    out.put_u32(plan.within_us);
    for entry in &plan.entries {
        out.put_u16(entry.tile);
        out.put_u8(entry.quality);
        out.put_u8(u8::from(entry.with_init));
    }
}

fn put_tile(out: &mut BytesMut, part: &TilePart) {
    out.put_u32(part.slot);
    out.put_u32(part.gop);
    out.put_u16(part.tile);
    out.put_u8(part.quality);
    out.put_u8(0);
    out.put_u32(part.init);
    out.put_u32(part.total);
    out.put_u32(part.offset);
    out.put_slice(&part.payload);
}

/// As many whole characters as fit into a refusal.
fn put_reason(out: &mut BytesMut, reason: &str) {
    let mut end = reason.len().min(MOST_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    out.put_slice(&reason.as_bytes()[..end]);
}

fn put_video(out: &mut BytesMut, Video { layout, gops, sound, low_resolution }: &Video) {
    out.put_u16(layout.grid.columns() as u16);
    out.put_u16(layout.grid.rows() as u16);
    out.put_u32(layout.width as u32);
    out.put_u32(layout.height as u32);
    out.put_u32((layout.gop_duration_s * 1e6).round() as u32);
    out.put_u32(*gops);
    out.put_u8(match layout.grid.projection() {
        Projection::Equirectangular => 0,
        Projection::Cubemap => 1,
        Projection::TopBottom => 2,
    });
    out.put_u8(if *low_resolution { VIDEO_LOW } else { 0 });
    out.put_u8(if sound.is_some() { OPUS } else { 0 });
    out.put_u8(sound.map_or(0, |sound| sound.channels));
    out.put_slice(&layout.qps);
}
