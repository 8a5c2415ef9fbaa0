//! A live source: ffmpeg reads a camera, a stream or a file at its own speed; the pictures are cut into tiles and encoded
//! GoP by GoP while they come.
//!
//! Encoder, tiles and low-resolution stream are those of [`ingest`](crate::ingest). Unlike there, nothing is written to disk, and the
//! errors of encoding are estimated from the QP, because decoding everything again would take as long as encoding. If encoding is
//! slower than the source, whole GoPs of the source are left out and counted; at most one waits. No sound.

mod encoding;
mod input;
mod pictures;
mod shrink;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tributary_video::picture::{Picture, PictureError};
use tributary_video::rd::TileCells;
use tributary_video::tiles::TileGrid;

use crate::encode::{EncodeError, Encoder};
use crate::ingest::{IngestError, LOW_QP, Settings, check_settings, low_size, size_of};
use crate::mp4::InitError;
use crate::program::{ProgramError, Running};
use crate::rate::FrameRate;
use crate::source::{self, Eyes, SourceError, Upright, Use};
use encoding::{Encoding, Stream};
pub use input::{Input, InputError};
use pictures::Pictures;

/// Most bytes of raw pictures that are held: those of the GoP that is read, of those that wait, and of the one that is encoded.
const MOST_RAW_BYTES: usize = 1600 << 20;
/// ffmpeg looks at a stream for about a second and then delivers all of it at once; with what has come meanwhile, seconds.
const LOOKED_AT_S: f64 = 1.5;
/// Most pictures a second: a source that announces more has only a time base, and no rate.
const MOST_RATE: f64 = 240.0;

/// Why a live source ends.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The settings do not fit the pictures.
    #[error(transparent)]
    Settings(#[from] IngestError),
    /// The file is not converted.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// ffmpeg cannot read the source.
    #[error("the source {input} failed: {reason}{}", way_out(reason))]
    Failed {
        /// The source.
        input: String,
        /// ffmpeg's words.
        reason: String,
    },
    /// The source has no pictures.
    #[error("the source {input} has no video track, only sound or data; send the pictures, too")]
    NoPicture {
        /// The source.
        input: String,
    },
    /// The pictures cannot be used as they are.
    #[error("the source {input}: {problem}; {way}")]
    Pictures {
        /// The source.
        input: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        way: &'static str,
    },
    /// Encoding failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The encoder's output is no MP4 track.
    #[error(transparent)]
    Init(#[from] InitError),
    /// A picture has an impossible size.
    #[error(transparent)]
    Size(#[from] PictureError),
    /// ffmpeg is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// What to do about a failure of which ffmpeg says this.
fn way_out(reason: &str) -> &'static str {
    let ways = [
        ("already in use", "; end the program that listens there, or take another port"),
        ("refused", "; start the program that has the stream, or wait for a sender with ?mode=listener"),
        ("Input/output error", "; is its sender there? ?mode=listener waits for one"),
        (
            "Invalid data",
            "; give a source that ffmpeg can read: RTMP, MPEG-TS over SRT, a camera or a video file",
        ),
    ];
    ways.iter().find(|(words, _)| reason.contains(words)).map_or("", |(_, way)| way)
}

/// Whether ffmpeg's words are about what a sender sent, and not about the port at which it is waited for.
fn is_of_sender(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["could not find codec parameters", "invalid data"].iter().any(|words| reason.contains(words))
}

/// What the pictures of a source are; known with the first of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Width and height, pixels.
    pub size: (usize, usize),
    /// Pictures a second.
    pub rate: FrameRate,
    /// Pictures in a GoP.
    pub pictures_per_gop: usize,
    /// Width and height of the low-resolution stream, pixels; `None` without one.
    pub low: Option<(usize, usize)>,
}

impl Shape {
    /// Duration of a GoP, seconds.
    #[must_use]
    pub fn gop_s(&self) -> f64 {
        self.rate.seconds_of(self.pictures_per_gop)
    }

    /// GoPs that ffmpeg delivers at once when a source is opened.
    fn at_once(&self) -> usize {
        (LOOKED_AT_S / self.gop_s()).ceil() as usize
    }
}

/// One GoP.
#[derive(Debug)]
pub struct LiveGop {
    /// Its number, from 0, without gaps.
    pub number: u32,
    /// All tiles in all qualities.
    pub tiles: LiveTiles,
    /// The low-resolution stream, of one tile in one quality.
    pub low: Option<LiveTiles>,
    /// Time that cutting and encoding took, seconds.
    pub encoding_s: f64,
}

impl LiveGop {
    /// Its tiles, or its low-resolution stream.
    #[must_use]
    pub fn of(&self, low_resolution: bool) -> Option<&LiveTiles> {
        if low_resolution { self.low.as_ref() } else { Some(&self.tiles) }
    }
}

/// Encoded tiles of a GoP.
#[derive(Debug)]
pub struct LiveTiles {
    /// Sizes, and estimated errors.
    pub cells: Vec<TileCells>,
    /// Initialisation segments, `[tile][QP]`.
    pub inits: Vec<Vec<Vec<u8>>>,
    /// Media segments, `[tile][QP]`.
    pub segments: Vec<Vec<Vec<u8>>>,
}

/// What happens.
#[derive(Debug)]
pub enum Event {
    /// The first picture is there.
    Began(Shape),
    /// A GoP is encoded.
    Gop(LiveGop),
    /// A GoP of the source was left out, because encoding is slower than the source.
    LeftOut,
    /// Whoever sends to the port has left; the next one is waited for. With ffmpeg's words, if it failed.
    Away(Option<String>),
}

/// Stops a source from another thread, with its ffmpeg.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Mutex<Stopped>>);

#[derive(Debug, Default)]
struct Stopped {
    stopped: bool,
    running: Option<Running>,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Stopped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the source; [`Live::run`] returns without an error.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.running = None;
    }

    fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Keeps a program that has been started, or ends it if the source was stopped meanwhile.
    fn keep(&self, running: Running) {
        let mut state = self.lock();
        state.running = (!state.stopped).then_some(running);
    }

    fn take(&self) -> Option<Running> {
        self.lock().running.take()
    }
}

/// How many GoPs may wait while one is encoded and one is read.
#[derive(Debug)]
struct Waiting {
    most: usize,
    /// How many of the GoPs that come at once at the beginning are still to come.
    at_once: usize,
}

impl Waiting {
    fn of(at_once: usize) -> Self {
        Self { most: at_once.max(1), at_once }
    }

    /// Whether another GoP may wait with so many that do. When those that came at once are encoded, one may wait: more would be delay.
    fn takes(&mut self, waiting: usize) -> bool {
        if self.at_once > 0 {
            self.at_once -= 1;
        } else if waiting == 0 {
            self.most = 1;
        }
        waiting < self.most
    }
}

/// A source and what is made of it, checked as far as possible before it is opened.
#[derive(Debug)]
pub struct Live {
    input: Input,
    settings: Settings,
    gop_s: f64,
    low_resolution: bool,
    /// How a file's pictures become upright.
    upright: Option<Upright>,
}

impl Live {
    /// Checks the settings; of a file, also its pictures. GoPs last about `gop_s` seconds: a whole number of pictures.
    ///
    /// # Errors
    /// [`LiveError`]; a source that is not a file is not opened.
    pub fn new(input: Input, settings: Settings, gop_s: f64) -> Result<Self, LiveError> {
        check_settings(&settings)?;
        let mut live = Self { input, settings, gop_s, low_resolution: true, upright: None };
        if let Input::File(path) = &live.input {
            let upright = source::upright(path, Use::Sphere(Eyes::Left))?;
            live.settings.size = Some(size_of(path, &upright, &live.settings)?);
            live.upright = Some(upright);
        }
        Ok(live)
    }

    /// The same without a low-resolution stream.
    #[must_use]
    pub fn without_low_resolution(self) -> Self {
        Self { low_resolution: false, ..self }
    }

    /// The source.
    #[must_use]
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The tiles.
    #[must_use]
    pub fn grid(&self) -> TileGrid {
        self.settings.grid
    }

    /// The quantisation parameters.
    #[must_use]
    pub fn qps(&self) -> &[u8] {
        &self.settings.qps
    }

    /// Grid and quantisation parameters of the low-resolution stream.
    #[must_use]
    pub fn low(&self) -> (TileGrid, [u8; 1]) {
        let one = TileGrid::new(1, 1, self.settings.grid.projection());
        (one.expect("one tile is a grid of one eye's picture"), [LOW_QP])
    }

    /// Reads and encodes until the source ends or is stopped; a source that is waited for at a port does not end. Blocks.
    ///
    /// # Errors
    /// [`LiveError`]: the source cannot be opened or breaks, or encoding fails.
    pub fn run(&self, stop: &Stop, tell: &(dyn Fn(Event) + Sync)) -> Result<(), LiveError> {
        let (mut shape, mut next) = (None, 0);
        loop {
            let ended = self.once((&mut shape, &mut next), stop, tell);
            let begun = shape.is_some();
            match ended {
                _ if stop.is_stopped() => return Ok(()),
                Ok(()) if self.input.is_waited_for() => tell(Event::Away(None)),
                // Whoever comes next may do better.
                Err(LiveError::Failed { reason, .. })
                    if self.input.is_waited_for() && (begun || is_of_sender(&reason)) =>
                {
                    tell(Event::Away(Some(reason)));
                }
                ended => return ended,
            }
        }
    }

    /// From opening the source to its end.
    fn once(
        &self,
        (shape, next): (&mut Option<Shape>, &mut u32),
        stop: &Stop,
        tell: &(dyn Fn(Event) + Sync),
    ) -> Result<(), LiveError> {
        let mut pictures = Pictures::open(self, *shape, stop)?;
        let Some((size, rate)) = pictures.head()? else { return pictures.end(stop) };
        let shape = match *shape {
            Some(shape) => shape,
            None => {
                let begun = self.shape(size, rate)?;
                *shape = Some(begun);
                tell(Event::Began(begun));
                begun
            }
        };
        let encoder = Encoder {
            preset: self.settings.preset.clone(),
            rate: shape.rate,
            pictures_per_gop: shape.pictures_per_gop,
        };
        let tiles = Stream::new(self.settings.grid, &self.settings.qps, shape.size);
        let (one, qps) = self.low();
        let low = shape.low.map(|size| Stream::new(one, &qps, size));
        let mut encoding = Encoding::new(encoder, tiles, low, *next);
        let (raw, to_encode) = channel::<Vec<Picture>>();
        let waiting = AtomicUsize::new(0);
        let (read, encoded) = std::thread::scope(|scope| {
            let encoder = scope.spawn(|| {
                for gop in to_encode {
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    tell(Event::Gop(encoding.gop(&gop)?));
                }
                Ok::<_, LiveError>(encoding.next())
            });
            let mut allowed = Waiting::of(shape.at_once());
            let read = pictures.gops(shape, |gop| {
                if !allowed.takes(waiting.fetch_add(1, Ordering::SeqCst)) {
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    tell(Event::LeftOut);
                    return true;
                }
                raw.send(gop).is_ok()
            });
            drop(raw);
            (read, encoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        // An encoder that failed ended the reading.
        *next = encoded?;
        read?;
        pictures.end(stop)
    }

    /// Checks the pictures of a source.
    fn shape(&self, size: (usize, usize), rate: FrameRate) -> Result<Shape, LiveError> {
        let input = self.input.to_string();
        let refuse = |problem, way| Err(LiveError::Pictures { input: input.clone(), problem, way });
        if rate.as_f64() > MOST_RATE {
            return refuse(
                format!("it announces {rate} pictures a second"),
                "say how many it has with --rate",
            );
        }
        if self.upright.is_none() {
            let of = Upright {
                stored: size,
                size,
                filters: Vec::new(),
                view: None,
                eyes: 1,
                notes: Vec::new(),
                duration_s: None,
            };
            size_of(input.as_ref(), &of, &self.settings)?;
        }
        let pictures_per_gop = ((rate.as_f64() * self.gop_s).round() as usize).max(1);
        let low = low_size(size, 1).filter(|_| self.low_resolution);
        let shape = Shape { size, rate, pictures_per_gop, low };
        if size.0 * size.1 * 3 / 2 * pictures_per_gop * (shape.at_once() + 2) > MOST_RAW_BYTES {
            let problem =
                format!("{pictures_per_gop} pictures of {}×{} are too large to hold", size.0, size.1);
            return refuse(problem, "scale them with --size, or shorten --gop");
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests;
