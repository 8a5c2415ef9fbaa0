//! Bodies of the fuzz targets `tiled-wire`, `tiled-pusher` and `tiled-player`. They are here because the messages are private; not part of
//! the public interface.
//!
//! The input of pusher and player are records: a command byte, a length byte, that many bytes. Command bits 0–1 are the time that passes
//! in steps of 50 ms, bit 2 puts a valid head for a message of the kind in the first byte before the others, bits 3–7 are the
//! driver's.

use core::time::Duration;

use tributary_types::{Bitrate, Instant};
use tributary_video::head::HeadTrace;
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

use super::frames::Frames;
use super::wire::{Reader, TiledMessage, VERSION};
use super::{Planner, Player, PlayerSettings, Pusher, SOUND, SoundFormat, Transmit, Video, allocator};

const STEP: Duration = Duration::from_millis(50);
const GOPS: u32 = 3;
/// Bytes of the first GoP's sound; the others have none.
const SOUND_BYTES: u64 = 300;
/// More messages without a pause than any input causes.
const MOST: usize = 10_000;

/// Messages decode alike for any cut of the bytes, and encoding one gives the same message.
///
/// Input: a byte for the reader, then what it reads.
///
/// # Panics
/// If one of these properties does not hold.
pub fn wire(data: &[u8]) {
    let Some((reader, bytes)) = data.split_first() else { return };
    let reader = if reader & 1 == 0 { Reader::Server } else { Reader::Client };
    let whole = messages(reader, bytes, usize::MAX);
    for cut in [1, 7] {
        assert_eq!(messages(reader, bytes, cut), whole, "cut into pieces of {cut}");
    }
    for message in whole.0 {
        let again = messages(reader, &message.encode(), usize::MAX);
        // A reason is cut to its longest length after its control characters are replaced.
        assert!(matches!(message, TiledMessage::Refused { .. }) || again == (vec![message], None));
    }
}

fn messages(reader: Reader, bytes: &[u8], cut: usize) -> (Vec<TiledMessage>, Option<String>) {
    let (mut frames, mut found) = (Frames::new(reader), Vec::new());
    for piece in bytes.chunks(cut.min(bytes.len()).max(1)) {
        frames.push(piece);
        loop {
            match frames.next() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }
    (found, None)
}

/// Calls `each` with the time, the command and the bytes of every record, until it returns `false`.
fn records(mut data: &[u8], mut each: impl FnMut(Instant, u8, &[u8]) -> bool) {
    let mut now = Instant::from_millis(1);
    while let [command, length, rest @ ..] = data {
        let (body, after) = rest.split_at(usize::from(*length).min(rest.len()));
        data = after;
        now += STEP * u32::from(command & 3);
        let bytes = match body {
            [kind, body @ ..] if command & 4 != 0 => {
                let head = [*kind, VERSION, 0, 0, 0, 0, 0, body.len() as u8];
                [head.as_slice(), body].concat()
            }
            _ => body.to_vec(),
        };
        if !each(now, *command, &bytes) {
            return;
        }
    }
}

fn table() -> RdTable {
    let grid = TileGrid::new(4, 2, Projection::Equirectangular).expect("a grid");
    let layout = TableLayout { grid, width: 64, height: 32, gop_duration_s: 0.5, qps: vec![22, 42] };
    let cells =
        TileCells { bytes: vec![40_000, 300], mse: vec![4.0, 90.0], freeze_mse: 600.0, black_mse: 9000.0 };
    RdTable::new(layout, vec![cells; grid.tiles() * GOPS as usize]).expect("a table")
}

/// A pusher accepts any bytes from its client; what it sends can be read, and it counts every tile once.
///
/// Driver's bits: 3–5 how often it is asked for more, 6 whether a message is too late, 7 whether tiles come with their parameters.
///
/// # Panics
/// If one of these properties does not hold.
pub fn pusher(data: &[u8]) {
    let table = table();
    let video = Video {
        layout: table.layout().clone(),
        gops: GOPS,
        sound: SoundFormat::new(2),
        low_resolution: false,
    };
    let mut pusher = Pusher::new(video).with_sound(vec![SOUND_BYTES as u32]);
    let mut client = Frames::new(Reader::Client);
    records(data, |now, command, bytes| {
        if pusher.handle_bytes(now, bytes).is_err() {
            return false;
        }
        for _ in 0..command >> 3 & 7 {
            match pusher.poll_transmit(now, &table) {
                None => break,
                Some(Transmit::Message { deadline: Some(_), .. }) if command & 64 != 0 => {
                    pusher.handle_expired()
                }
                Some(Transmit::Message { bytes, .. }) => {
                    client.push(&bytes);
                    let read = client.next().expect("a pusher sends messages");
                    assert!(read.is_some() && client.is_between_messages(), "one message at a time");
                }
                Some(Transmit::Read(order)) => {
                    let bytes = match order.entry.tile {
                        SOUND => SOUND_BYTES,
                        tile => {
                            table.gop(order.gop as usize)[usize::from(tile)].bytes
                                [usize::from(order.entry.quality)]
                        }
                    };
                    let segment = vec![0; bytes as usize];
                    let init = (command & 128 != 0).then(|| vec![1; 40].into());
                    pusher.handle_tile(init, segment.into()).expect("the tile has the size of the table");
                }
            }
        }
        let counters = pusher.counters();
        assert!(counters.pushed + counters.expired + counters.replaced <= counters.planned, "{counters:?}");
        true
    });
    let _ = pusher.handle_end();
    let left = (0..MOST).take_while(|_| pusher.poll_transmit(Instant::from_millis(1), &table).is_some());
    assert!(left.count() < MOST && pusher.is_over());
}

/// A player accepts any bytes from its server, and its plans can be read, until it has played what it was to play.
///
/// Driver's bit 3: whether it is called only now and then.
///
/// # Panics
/// If one of these properties does not hold.
pub fn player(data: &[u8]) {
    let settings = PlayerSettings::new(Some(2), Bitrate::from_mbps(20), 4);
    let planner = Planner {
        allocator: allocator("ows", settings.plans, false).expect("the default allocator"),
        field: FieldOfView::default(),
        trace: HeadTrace::still(Orientation::default()),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    };
    let mut player = Player::new(settings, planner, Instant::from_millis(1));
    let mut server = Frames::new(Reader::Server);
    let mut last = Instant::from_millis(1);
    let mut drain = |player: &mut Player| {
        while let Some(bytes) = player.poll_transmit() {
            server.push(&bytes);
            let read = server.next().expect("a player sends messages");
            assert!(read.is_some() && server.is_between_messages(), "one message at a time");
        }
        while player.poll_tile().is_some() {}
    };
    records(data, |now, command, bytes| {
        last = now;
        let called = command & 8 != 0 || player.handle_timeout(now).is_ok();
        let heard = called && player.handle_bytes(now, bytes).is_ok();
        drain(&mut player);
        heard
    });
    if player.is_live() {
        // It may wait for a GoP that never comes, until the viewer leaves.
        player.leave();
    }
    // Left alone, it ends at the time that it names.
    for _ in 0..MOST {
        if player.is_over(last) {
            break;
        }
        last = last.max(player.poll_timeout());
        if player.handle_timeout(last).is_err() {
            return;
        }
        drain(&mut player);
    }
    assert!(player.is_over(last), "the viewing never ends");
    player.finish();
    drain(&mut player);
    let _ = player.record(super::End::Complete);
}
