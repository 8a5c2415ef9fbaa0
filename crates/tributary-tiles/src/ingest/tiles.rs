//! Rows of tiles of one GoP: cut from the reference, encoded at every QP, written, decoded, measured.

use std::io::Write;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tributary_video::metrics::mse;
use tributary_video::picture::Picture;
use tributary_video::rd::TileCells;

use super::IngestError;
use super::plan::Plan;
use super::work::{Note, Sums, Work};
use crate::decode::{self, DecodeError, Pictures, TileData};
use crate::layout;
use crate::mp4::{Parameters, Timing, init_segment, media_segment};
use crate::patch::cut;

/// The note about one row of tiles of a GoP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) cells: Vec<TileCells>,
    /// The stream's codec, one per QP, as an MPD names it.
    pub(super) codecs: Vec<String>,
    pub(super) sums: Sums,
}

impl Note for Row {
    fn sums(&self) -> &Sums {
        &self.sums
    }
}

/// Its name.
pub(super) fn note(gop: usize, row: usize) -> String {
    format!("tiles-{gop:05}-{row:02}.json")
}

/// Makes rows `rows` of GoP `gop`, those that have not been made before.
pub(super) fn make(plan: &Plan, work: &Work, gop: usize, rows: Range<usize>) -> Result<(), IngestError> {
    let missing: Vec<usize> = rows.filter(|row| work.load_whole::<Row>(&note(gop, *row)).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let columns = plan.grid.columns();
    let numbers: Vec<usize> = missing.iter().flat_map(|row| row * columns..(row + 1) * columns).collect();
    let band = Band { plan, work, gop, originals: originals(plan, work, gop, &numbers)?, numbers };
    let mut cells = band.concealed()?;
    let (mut codecs, mut sums) = (Vec::new(), vec![Sums::new(); missing.len()]);
    for qp in &plan.qps {
        codecs.push(band.at(*qp, &mut cells, &mut sums)?);
    }
    for (row, sums) in missing.into_iter().zip(sums) {
        let cells = cells.drain(..columns).collect();
        work.save(&note(gop, row), &Row { cells, codecs: codecs.clone(), sums })?;
    }
    Ok(())
}

/// The source's pictures of each of these tiles.
fn originals(
    plan: &Plan,
    work: &Work,
    gop: usize,
    numbers: &[usize],
) -> Result<Vec<Vec<Picture>>, IngestError> {
    let mut originals = vec![Vec::with_capacity(plan.pictures_per_gop); numbers.len()];
    for panorama in reference(plan, work, gop)? {
        let panorama = panorama?;
        for (number, pictures) in numbers.iter().zip(&mut originals) {
            let tile = cut(&panorama, plan.grid.pixels(*number, plan.size)).map_err(DecodeError::Size)?;
            pictures.push(tile);
        }
    }
    if originals.iter().any(|pictures| pictures.len() != plan.pictures_per_gop) {
        return Err(DecodeError::Cut.into());
    }
    Ok(originals)
}

/// The source's pictures of a GoP.
pub(super) fn reference(plan: &Plan, work: &Work, gop: usize) -> Result<Pictures, IngestError> {
    let path = work.path(&layout::reference(gop));
    let stream = std::fs::read(&path).map_err(|source| IngestError::Unreadable { path, source })?;
    Ok(Pictures::of_stream(stream, plan.size)?)
}

/// Some tiles of a GoP, held in memory.
struct Band<'a> {
    plan: &'a Plan,
    work: &'a Work,
    gop: usize,
    /// Which tiles, whole rows of them.
    numbers: Vec<usize>,
    originals: Vec<Vec<Picture>>,
}

impl Band<'_> {
    /// The error of `shown` instead of each picture of a tile, mean of them.
    fn error_of(&self, tile: usize, shown: &Picture) -> Result<f64, IngestError> {
        error(&self.originals[tile], std::iter::repeat(shown))
    }

    /// Cells of all tiles with what concealment costs, and no QPs yet.
    fn concealed(&self) -> Result<Vec<TileCells>, IngestError> {
        let (width, height) = self.plan.tile_size();
        let black = Picture::black(width, height).map_err(DecodeError::Size)?;
        let before = match self.gop.checked_sub(1) {
            Some(before) => {
                let mut last = None;
                for panorama in reference(self.plan, self.work, before)? {
                    last = Some(panorama?);
                }
                last
            }
            None => None,
        };
        let cell = |(tile, number): (usize, &usize)| {
            let black_mse = self.error_of(tile, &black)?;
            let freeze_mse = match &before {
                Some(panorama) => {
                    let place = self.plan.grid.pixels(*number, self.plan.size);
                    self.error_of(tile, &cut(panorama, place).map_err(DecodeError::Size)?)?
                }
                // There is nothing to freeze before the first GoP.
                None => black_mse,
            };
            Ok(TileCells { bytes: Vec::new(), mse: Vec::new(), freeze_mse, black_mse })
        };
        self.numbers.iter().enumerate().map(cell).collect()
    }

    /// Encodes all tiles at `qp`, writes them, decodes what was written and adds sizes and errors; the codec.
    fn at(&self, qp: u8, cells: &mut [TileCells], sums: &mut [Sums]) -> Result<String, IngestError> {
        let (plan, gop) = (self.plan, self.gop);
        let size = plan.tile_size();
        let pictures = self.originals.iter().flatten();
        let streams = plan.encoder().encode(size, (qp, self.numbers.len()), |input| {
            pictures.into_iter().try_for_each(|picture| input.write_all(picture.samples()))
        })?;
        let timing = Timing::of(plan.rate);
        let before = (gop * plan.pictures_per_gop) as u64;
        let (mut inits, mut segments, mut codec) = (Vec::new(), Vec::new(), String::new());
        for stream in &streams {
            let parameters = Parameters::of(stream)?;
            codec = parameters.codec();
            inits.push(init_segment(&parameters, (size.0 as u16, size.1 as u16), timing));
            segments.push(media_segment(stream, (gop as u32 + 1, before), timing)?);
        }
        let written = inits.iter().zip(&segments);
        let data: Vec<_> = written.clone().map(|(init, segment)| TileData { init, segment }).collect();
        let decoded = decode::tiles(&data, size, plan.pictures_per_gop)?;
        for (at, (init, segment)) in written.enumerate() {
            let (number, sums) = (self.numbers[at], &mut sums[at / plan.grid.columns()]);
            self.work.write(layout::init(number, qp), init, sums)?;
            self.work.write(layout::segment(gop, number, qp), segment, sums)?;
            cells[at].bytes.push(segment.len() as u64);
            cells[at].mse.push(error(&self.originals[at], decoded[at].iter())?);
        }
        Ok(codec)
    }
}

/// The mean error of luma of the pictures shown.
fn error<'a>(originals: &[Picture], shown: impl Iterator<Item = &'a Picture>) -> Result<f64, IngestError> {
    let mut sum = 0.0;
    for (original, shown) in originals.iter().zip(shown) {
        sum += mse(&original.luma(), &shown.luma()).map_err(DecodeError::Size)?;
    }
    Ok(sum / originals.len() as f64)
}
