//! The file formats of head-movement traces and the meaning of their columns.
//!
//! Columns become an [`Orientation`] here; `read` handles lines, numbers and their errors. Sources: the data
//! sets' own descriptions, named at each format.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::sphere::{Axes, Direction, Orientation};

/// A file format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Nasrabadi et al., "A Taxonomy and Dataset for 360° Videos", MMSys 2019: no header, `t_s, qx, qy, qz,
    /// qw, vx, vy, vz`, a unit quaternion and the gaze direction.
    Nasrabadi19,
    /// Jin et al., "Where Are You Looking?", ACM MM 2022, as resampled by MANSY: no header, `t_s, x, y`, a
    /// position in the equirectangular picture, x right and y down, in [0, 1].
    Jin22,
    /// Wu et al., "A Dataset for Exploring User Behaviors in VR Spherical Video Streaming", MMSys 2017, as
    /// converted by NetLLM: no header, `t_s, roll_deg, pitch_deg, yaw_deg`.
    Wu17,
    /// Ours: a header line, then `time_s,yaw_deg,pitch_deg` and optionally `roll_deg`, in any order.
    Plain,
    /// As [`Format::Plain`], with other names of the columns and perhaps more columns, which are ignored. The names are
    /// those of time, yaw, pitch and, if there is one, roll.
    Renamed(Box<[String; 4]>),
}

/// The format is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "there is no head-movement format `{name}`; known are {}, and plain:time_s=NAME,yaw_deg=NAME,… for a table \
     with other names of the columns",
    Format::NAMES.join(", ")
)]
pub struct UnknownFormat {
    /// The name.
    pub name: String,
}

impl Format {
    /// Every name, in the order of the formats.
    pub const NAMES: [&'static str; 4] = ["nasrabadi19", "jin22", "wu17", "plain"];
    const ALL: [Self; 4] = [Self::Nasrabadi19, Self::Jin22, Self::Wu17, Self::Plain];
    const PLAIN: [&'static str; 4] = ["time_s", "yaw_deg", "pitch_deg", "roll_deg"];

    /// Whether a file begins with a line of names.
    pub(super) fn has_header(&self) -> bool {
        matches!(self, Self::Plain | Self::Renamed(_))
    }

    /// The name of a known column in the header of a file.
    pub(super) fn name(&self, column: usize) -> &str {
        match self {
            Self::Renamed(names) => &names[column],
            _ => self.columns()[column],
        }
    }

    /// The columns of a file without a header, or those allowed in the header of a plain file.
    pub(super) fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Nasrabadi19 => &["t_s", "qx", "qy", "qz", "qw", "vx", "vy", "vz"],
            Self::Jin22 => &["t_s", "x", "y"],
            Self::Wu17 => &["t_s", "roll_deg", "pitch_deg", "yaw_deg"],
            Self::Plain | Self::Renamed(_) => &Self::PLAIN,
        }
    }

    /// The orientation of a row with values in the order of [`Self::columns`].
    ///
    /// On failure returns the invalid column and the reason.
    pub(super) fn orientation(&self, row: &[f64]) -> Result<Orientation, (usize, &'static str)> {
        match self {
            Self::Nasrabadi19 => quaternion(&row[1..5]),
            Self::Jin22 => {
                let place =
                    within(row, 1, 0.0, 1.0, "not in 0…1").and(within(row, 2, 0.0, 1.0, "not in 0…1"));
                place?;
                let yaw = std::f64::consts::TAU * (row[1] - 0.5);
                let pitch = std::f64::consts::PI * (0.5 - row[2]);
                Ok(Orientation { yaw, pitch, roll: 0.0 })
            }
            Self::Wu17 => degrees(row, [3, 2, 1]),
            Self::Plain | Self::Renamed(_) => degrees(row, [1, 2, 3]),
        }
    }
}

/// A quaternion with axes x right, y down, z ahead. The gaze direction is its third column with y turned up,
/// which is what the file's `vx, vy, vz` contain.
fn quaternion(q: &[f64]) -> Result<Orientation, (usize, &'static str)> {
    let norm = q.iter().map(|part| part * part).sum::<f64>().sqrt();
    // Files round to five digits; larger deviations mean that it is not a rotation.
    if (norm - 1.0).abs() > 0.01 {
        return Err((1, "the quaternion's length is not 1"));
    }
    let [x, y, z, w] = [q[0] / norm, q[1] / norm, q[2] / norm, q[3] / norm];
    let ahead =
        Direction { x: 2.0 * (x * z + w * y), y: -2.0 * (y * z - w * x), z: 1.0 - 2.0 * (x * x + y * y) };
    let up =
        Direction { x: -2.0 * (x * y - w * z), y: 1.0 - 2.0 * (x * x + z * z), z: -2.0 * (y * z + w * x) };
    Ok(Orientation::from_axes(&Axes { right: ahead, up, ahead }))
}

fn degrees(row: &[f64], [yaw, pitch, roll]: [usize; 3]) -> Result<Orientation, (usize, &'static str)> {
    within(row, yaw, -36_000.0, 36_000.0, "more than a hundred turns")?;
    within(row, pitch, -90.0, 90.0, "not in ±90°")?;
    within(row, roll, -180.0, 180.0, "not in ±180°")?;
    Ok(Orientation::from_degrees(row[yaw], row[pitch], row[roll]))
}

fn within(
    row: &[f64],
    column: usize,
    low: f64,
    high: f64,
    wrong: &'static str,
) -> Result<(), (usize, &'static str)> {
    if row[column] >= low && row[column] <= high { Ok(()) } else { Err((column, wrong)) }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let unknown = || UnknownFormat { name: name.to_owned() };
        if let Some(renamed) = name.strip_prefix("plain:") {
            return self::renamed(renamed).ok_or_else(unknown);
        }
        let at = Self::NAMES.iter().position(|known| *known == name);
        at.map(|at| Self::ALL[at].clone()).ok_or_else(unknown)
    }
}

/// Reads `time_s=Time,yaw_deg=Yaw`; columns that are not named keep their names.
fn renamed(text: &str) -> Option<Format> {
    let mut names = Format::PLAIN.map(str::to_owned);
    for pair in text.split(',') {
        let (column, name) = pair.split_once('=')?;
        let at = Format::PLAIN.iter().position(|known| *known == column.trim())?;
        names[at] = Some(name.trim()).filter(|name| !name.is_empty())?.to_owned();
    }
    Some(Format::Renamed(Box::new(names)))
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Renamed(names) = self {
            let pairs: Vec<String> = Self::PLAIN
                .iter()
                .zip(names.iter())
                .map(|(column, name)| format!("{column}={name}"))
                .collect();
            return write!(formatter, "plain:{}", pairs.join(","));
        }
        let at = Self::ALL.iter().position(|format| format == self).unwrap_or(0);
        formatter.write_str(Self::NAMES[at])
    }
}
