//! One GoP after the other: cut into tiles, encoded at every QP at the same time, and the low-resolution stream beside them.

use std::io::Write;
use std::time::Instant;

use tributary_video::metrics::mse;
use tributary_video::picture::Picture;
use tributary_video::rd::TileCells;
use tributary_video::tiles::TileGrid;

use super::shrink::shrunk;
use super::{LiveError, LiveGop, LiveTiles};
use crate::encode::Encoder;
use crate::mp4::{Parameters, Timing, init_segment, media_segment};
use crate::patch::cut;

/// Of this many pictures one is compared, to know the error of concealment.
const COMPARED: usize = 4;

/// An encoder of tiles.
pub(super) struct Encoding {
    encoder: Encoder,
    next: u32,
    tiles: Stream,
    low: Option<Stream>,
}

impl Encoding {
    /// `next` is the number of the next GoP.
    pub(super) fn new(encoder: Encoder, tiles: Stream, low: Option<Stream>, next: u32) -> Self {
        Self { encoder, next, tiles, low }
    }

    /// The number of the next GoP.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Cuts and encodes these pictures.
    pub(super) fn gop(&mut self, pictures: &[Picture]) -> Result<LiveGop, LiveError> {
        let began = Instant::now();
        let (encoder, number) = (&self.encoder, self.next);
        let (tiles, low) = (&mut self.tiles, self.low.as_mut());
        let (tiles, low) = std::thread::scope(|scope| {
            let low = low.map(|low| scope.spawn(move || low.gop(pictures, encoder, number)));
            let tiles = tiles.gop(pictures, encoder, number);
            (tiles, low.map(|low| low.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
        });
        let (tiles, low) = (tiles?, low.transpose()?);
        self.next += 1;
        Ok(LiveGop { number, tiles, low, encoding_s: began.elapsed().as_secs_f64() })
    }
}

/// The segments of all tiles at one QP: initialisation and media.
type Coded = Vec<(Vec<u8>, Vec<u8>)>;

/// The tiles, or the low-resolution stream.
pub(super) struct Stream {
    grid: TileGrid,
    qps: Vec<u8>,
    /// Of the whole picture, to which the source's are scaled down.
    size: (usize, usize),
    /// The last picture of each tile in the GoP before.
    before: Vec<Picture>,
}

impl Stream {
    pub(super) fn new(grid: TileGrid, qps: &[u8], size: (usize, usize)) -> Self {
        Self { grid, qps: qps.to_vec(), size, before: Vec::new() }
    }

    /// All tiles of these pictures at all QPs.
    fn gop(&mut self, pictures: &[Picture], encoder: &Encoder, number: u32) -> Result<LiveTiles, LiveError> {
        let mut tiles = vec![Vec::with_capacity(pictures.len()); self.grid.tiles()];
        for picture in pictures {
            let picture = shrunk(picture, self.size)?;
            for (tile, cuts) in tiles.iter_mut().enumerate() {
                cuts.push(cut(&picture, self.grid.pixels(tile, self.size))?);
            }
        }
        let this = &*self;
        let coded: Vec<Result<Coded, LiveError>> = std::thread::scope(|scope| {
            let tiles = &tiles;
            let at = |qp: &u8| {
                let qp = *qp;
                scope.spawn(move || this.at(qp, tiles, encoder, number))
            };
            let encoders: Vec<_> = this.qps.iter().map(at).collect();
            let ended = encoders.into_iter().map(|encoder| encoder.join());
            ended.map(|coded| coded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let coded = coded.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut cells, mut inits, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for (tile, originals) in tiles.iter().enumerate() {
            cells.push(TileCells {
                bytes: coded.iter().map(|tiles| tiles[tile].1.len() as u64).collect(),
                mse: self.qps.iter().map(|qp| expected_mse(*qp)).collect(),
                ..self.concealed(tile, originals)?
            });
            inits.push(coded.iter().map(|tiles| tiles[tile].0.clone()).collect());
            segments.push(coded.iter().map(|tiles| tiles[tile].1.clone()).collect());
        }
        self.before = tiles.iter_mut().filter_map(Vec::pop).collect();
        Ok(LiveTiles { cells, inits, segments })
    }

    /// All tiles at one QP.
    fn at(&self, qp: u8, tiles: &[Vec<Picture>], encoder: &Encoder, number: u32) -> Result<Coded, LiveError> {
        let (width, height) = (self.size.0 / self.grid.columns(), self.size.1 / self.grid.rows());
        let streams = encoder.encode((width, height), (qp, tiles.len()), |input| {
            tiles.iter().flatten().try_for_each(|picture| input.write_all(picture.samples()))
        })?;
        let timing = Timing::of(encoder.rate);
        let before = u64::from(number) * encoder.pictures_per_gop as u64;
        let segments = |stream: &Vec<u8>| {
            let init = init_segment(&Parameters::of(stream)?, (width as u16, height as u16), timing);
            Ok::<_, LiveError>((init, media_segment(stream, (number + 1, before), timing)?))
        };
        streams.iter().map(segments).collect()
    }

    /// The errors of concealment of a tile.
    fn concealed(&self, tile: usize, originals: &[Picture]) -> Result<TileCells, LiveError> {
        let black = Picture::black(originals[0].width(), originals[0].height())?;
        let error_of = |shown: &Picture| -> Result<f64, LiveError> {
            let (mut sum, mut count) = (0.0, 0);
            for original in originals.iter().step_by(COMPARED) {
                sum += mse(&original.luma(), &shown.luma())?;
                count += 1;
            }
            Ok(sum / f64::from(count))
        };
        let black_mse = error_of(&black)?;
        let freeze_mse = self.before.get(tile).map_or(Ok(black_mse), error_of)?;
        Ok(TileCells { bytes: Vec::new(), mse: Vec::new(), freeze_mse, black_mse })
    }
}

/// The error of a uniform quantiser with H.264's step size, 0.625 · 2^(QP / 6), if all its errors are equally likely:
/// step² / 12. Flat areas have less.
fn expected_mse(qp: u8) -> f64 {
    let step = 0.625 * (f64::from(qp) / 6.0).exp2();
    step * step / 12.0
}
