//! Rows of tiles of one GoP: cut from the reference, encoded at every QP, written, decoded, measured.

use std::io::Write;

use serde::{Deserialize, Serialize};
use tributary_video::metrics::mse;
use tributary_video::picture::Picture;
use tributary_video::rd::TileCells;

use super::IngestError;
use super::Job;
use super::work::{Note, Sums, Work};
use crate::decode::{DecodeError, Pictures};
use crate::layout;
use crate::mp4::{self, Parameters, Timing, init_segment, media_segment};
use crate::patch::cut;

/// The record of one row of tiles of a GoP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) cells: Vec<TileCells>,
    /// The stream's codec string for an MPD, one per QP.
    pub(super) codecs: Vec<String>,
    pub(super) sums: Sums,
}

impl Note for Row {
    fn sums(&self) -> &Sums {
        &self.sums
    }
}

/// The record's name.
pub(super) fn note(gop: usize, row: usize) -> String {
    format!("tiles-{gop:05}-{row:02}.json")
}

/// Whether row `row` of GoP `gop` has been made.
pub(super) fn is_made(work: &Work, gop: usize, row: usize) -> bool {
    work.load_whole::<Row>(&note(gop, row)).is_some()
}

/// Makes some rows of GoP `gop`.
pub(super) fn make(job: &Job<'_>, gop: usize, rows: &[usize]) -> Result<(), IngestError> {
    let recipe = job.recipe;
    let columns = recipe.grid.columns();
    let numbers: Vec<usize> = rows.iter().flat_map(|row| row * columns..(row + 1) * columns).collect();
    let band = Band { job, gop, originals: originals(job, gop, &numbers)?, numbers };
    let mut sums = vec![Sums::new(); rows.len()];
    let none = TileCells { bytes: Vec::new(), mse: Vec::new(), freeze_mse: 0.0, black_mse: 0.0 };
    let mut cells = vec![none; band.numbers.len()];
    let (codecs, written) = band.encode(&mut cells, &mut sums)?;
    band.measure(written, &mut cells)?;
    // Last, because by then another thread has probably decoded the previous GoP.
    band.conceal(&mut cells)?;
    for (row, sums) in rows.iter().zip(sums) {
        let cells = cells.drain(..columns).collect();
        job.work.save(&note(gop, *row), &Row { cells, codecs: codecs.clone(), sums })?;
    }
    Ok(())
}

/// The source's pictures of each of these tiles.
fn originals(job: &Job<'_>, gop: usize, numbers: &[usize]) -> Result<Vec<Vec<Picture>>, IngestError> {
    let recipe = job.recipe;
    let mut originals = vec![Vec::with_capacity(recipe.pictures_per_gop); numbers.len()];
    let mut last = None;
    for panorama in job.reference(gop)? {
        job.meter.tick(0)?;
        let panorama = panorama?;
        for (number, pictures) in numbers.iter().zip(&mut originals) {
            let tile = cut(&panorama, recipe.grid.pixels(*number, recipe.size)).map_err(DecodeError::Size)?;
            pictures.push(tile);
        }
        last = Some(panorama);
    }
    match last {
        Some(last) if originals.iter().all(|pictures| pictures.len() == recipe.pictures_per_gop) => {
            job.keep_last(gop, last);
            Ok(originals)
        }
        _ => Err(DecodeError::Cut.into()),
    }
}

/// Some tiles of a GoP, held in memory.
struct Band<'a> {
    job: &'a Job<'a>,
    gop: usize,
    /// Which tiles, whole rows of them.
    numbers: Vec<usize>,
    originals: Vec<Vec<Picture>>,
}

impl Band<'_> {
    /// The mean error of showing `shown` instead of each picture of a tile.
    fn error_of(&self, tile: usize, shown: &Picture) -> Result<f64, IngestError> {
        let originals = &self.originals[tile];
        let mut sum = 0.0;
        for original in originals {
            sum += mse(&original.luma(), &shown.luma()).map_err(DecodeError::Size)?;
        }
        Ok(sum / originals.len() as f64)
    }

    /// Adds the errors of concealment to the cells of all tiles.
    fn conceal(&self, cells: &mut [TileCells]) -> Result<(), IngestError> {
        let recipe = self.job.recipe;
        let (width, height) = recipe.tile_size();
        let black = Picture::black(width, height).map_err(DecodeError::Size)?;
        let before = self.gop.checked_sub(1).map(|before| self.job.last_of(before)).transpose()?;
        for (tile, (number, cell)) in self.numbers.iter().zip(cells).enumerate() {
            cell.black_mse = self.error_of(tile, &black)?;
            cell.freeze_mse = match &before {
                Some(panorama) => {
                    let place = recipe.grid.pixels(*number, recipe.size);
                    self.error_of(tile, &cut(panorama, place).map_err(DecodeError::Size)?)?
                }
                // There is nothing to freeze before the first GoP.
                None => cell.black_mse,
            };
        }
        Ok(())
    }

    /// Encodes all tiles at every QP, writes them and adds their sizes; returns the codec of each QP, and everything that was
    /// written as one byte stream, all tiles of a QP after those of the one before.
    fn encode(
        &self,
        cells: &mut [TileCells],
        sums: &mut [Sums],
    ) -> Result<(Vec<String>, Vec<u8>), IngestError> {
        let Job { recipe, work, meter, .. } = self.job;
        let scratch = work.scratch()?;
        let pictures = self.originals.iter().flatten();
        let settings = (&recipe.qps[..], self.numbers.len());
        let qualities =
            recipe.encoder().encode_all(recipe.tile_size(), settings, scratch.path(), |input| {
                pictures.into_iter().try_for_each(|picture| {
                    meter.tick(recipe.qps.len())?;
                    input.write_all(picture.samples())
                })
            })?;
        let (mut codecs, mut written) = (Vec::new(), Vec::new());
        for (qp, streams) in recipe.qps.iter().zip(qualities) {
            codecs.push(self.write((*qp, &streams), cells, sums, &mut written)?);
        }
        Ok((codecs, written))
    }

    /// Writes the streams of all tiles at `qp`; returns the codec.
    fn write(
        &self,
        (qp, streams): (u8, &[Vec<u8>]),
        cells: &mut [TileCells],
        sums: &mut [Sums],
        written: &mut Vec<u8>,
    ) -> Result<String, IngestError> {
        let (gop, Job { recipe, work, .. }) = (self.gop, self.job);
        let size = recipe.tile_size();
        let timing = Timing::of(recipe.rate);
        let before = (gop * recipe.pictures_per_gop) as u64;
        let mut codec = String::new();
        for (at, stream) in streams.iter().enumerate() {
            let parameters = Parameters::of(stream)?;
            codec = parameters.codec();
            let init = init_segment(&parameters, (size.0 as u16, size.1 as u16), timing);
            let segment = media_segment(stream, (gop as u32 + 1, before), timing)?;
            let (number, sums) = (self.numbers[at], &mut sums[at / recipe.grid.columns()]);
            work.write_shared(layout::init(number, qp), &init, sums)?;
            work.write(layout::segment(gop, number, qp), &segment, sums)?;
            cells[at].bytes.push(segment.len() as u64);
            let container = |source| DecodeError::Container { tile: at, source };
            written.extend(mp4::to_annex_b(&init, &segment).map_err(container)?);
        }
        Ok(codec)
    }

    /// Decodes all tiles at every QP, one after the other in one process, and adds the error of each.
    fn measure(&self, written: Vec<u8>, cells: &mut [TileCells]) -> Result<(), IngestError> {
        let (width, height) = self.job.recipe.tile_size();
        let mut shown = Pictures::of_stream(written, (width, height))?;
        let mut picture = Picture::black(width, height).map_err(DecodeError::Size)?;
        for _ in &self.job.recipe.qps {
            for (originals, cell) in self.originals.iter().zip(&mut *cells) {
                let mut sum = 0.0;
                for original in originals {
                    self.job.meter.tick(1)?;
                    if !shown.read_into(&mut picture)? {
                        return Err(DecodeError::Cut.into());
                    }
                    sum += mse(&original.luma(), &picture.luma()).map_err(DecodeError::Size)?;
                }
                cell.mse.push(sum / originals.len() as f64);
            }
        }
        if shown.read_into(&mut picture)? {
            let (tile, reason) = (self.numbers.len() - 1, "more pictures come out than went in".to_owned());
            return Err(DecodeError::Tile { tile, reason }.into());
        }
        Ok(())
    }
}
