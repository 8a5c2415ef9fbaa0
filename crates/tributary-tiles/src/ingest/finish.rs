//! Combines the records of all pieces into the table, the manifest, the checksums and finally `ingest.json`.

use tributary_video::rd::{RdTable, TableLayout};

use super::IngestError;
use super::manifest;
use super::recipe::Recipe;
use super::sound::Heard;
use super::tiles::{self, Row};
use super::track::Track;
use super::untiled::{self, Untiled};
use super::work::{Reference, Sums, Work};
use crate::layout::{self, hex, sum};
use crate::record::{FORMAT, Overhead, Record, compared};

/// Writes the files that complete the video.
pub(super) fn finish(
    recipe: &Recipe,
    work: &Work,
    (made, heard): (&Reference, Option<&Heard>),
) -> Result<(), IngestError> {
    let (mut cells, mut sums, mut codecs) = (Vec::new(), made.sums.clone(), Vec::new());
    sums.extend(heard.into_iter().flat_map(|heard| heard.sums.clone()));
    for (gop, row) in (0..made.gops).flat_map(|gop| (0..recipe.grid.rows()).map(move |row| (gop, row))) {
        let row: Row = note(work, &tiles::note(gop, row))?;
        cells.extend(row.cells);
        codecs = row.codecs;
        for (name, sum) in row.sums {
            // Every GoP writes the initialisation segments; they must be the same each time.
            if sums.get(&name).is_some_and(|before| *before != sum) {
                let reason = format!("the parameters of {name} change between GoPs");
                return Err(IngestError::Setting { name: "libx264", reason });
            }
            sums.insert(name, sum);
        }
    }
    let layout = TableLayout {
        grid: recipe.grid,
        width: recipe.size.0,
        height: recipe.size.1,
        gop_duration_s: recipe.rate.seconds_of(recipe.pictures_per_gop),
        qps: recipe.qps.clone(),
    };
    let table = RdTable::new(layout, cells)?;
    let mut json = Vec::new();
    table.write_json(&mut json)?;
    work.write(layout::TABLE.to_owned(), &json, &mut sums)?;
    let manifest = manifest::manifest(&table, recipe.rate, &codecs, heard);
    work.write(layout::MANIFEST.to_owned(), manifest.as_bytes(), &mut sums)?;
    // As `sha256sum --check` reads it.
    let lines: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    work.write(layout::SUMS.to_owned(), lines.as_bytes(), &mut Sums::new())?;
    let record = Record {
        format: FORMAT.to_owned(),
        source: recipe.source.clone(),
        frame_rate: recipe.rate,
        pictures_per_gop: recipe.pictures_per_gop,
        encoder: recipe.encoder().description(),
        sound: recipe.sound.as_ref().map(Track::info),
        overhead: overhead(recipe, work, &table)?,
        notes: made.notes.clone(),
        sums_sha256: hex(&sum(lines.as_bytes())),
    };
    let text = serde_json::to_string_pretty(&record).expect("a record is plain fields") + "\n";
    work.write(layout::RECORD.to_owned(), text.as_bytes(), &mut Sums::new())?;
    work.end()
}

fn note<N: serde::de::DeserializeOwned>(work: &Work, name: &str) -> Result<N, IngestError> {
    let path = work.path(layout::WORK).join(name);
    let gone = || std::io::Error::new(std::io::ErrorKind::NotFound, "somebody removed or changed it");
    work.load(name).ok_or_else(|| IngestError::Unreadable { path, source: gone() })
}

/// The cost of tiling at each QP.
fn overhead(recipe: &Recipe, work: &Work, table: &RdTable) -> Result<Vec<Overhead>, IngestError> {
    let gops: Vec<Untiled> =
        compared(table.gops()).map(|gop| note(work, &untiled::note(gop))).collect::<Result<_, _>>()?;
    let count = gops.len() as f64;
    let at = |(index, qp): (usize, &u8)| {
        let cells = || compared(table.gops()).flat_map(|gop| table.gop(gop));
        Overhead {
            qp: *qp,
            tiled_bytes: cells().map(|cell| cell.bytes[index]).sum(),
            untiled_bytes: gops.iter().map(|gop| gop.bytes[index]).sum(),
            // All tiles have the same number of pixels.
            tiled_mse: cells().map(|cell| cell.mse[index]).sum::<f64>()
                / (count * recipe.grid.tiles() as f64),
            untiled_mse: gops.iter().map(|gop| gop.mse[index]).sum::<f64>() / count,
        }
    };
    Ok(recipe.qps.iter().enumerate().map(at).collect())
}
