//! Head movement: traces of a viewer's orientation, read from every form that the product knows.

use crate::errors::refused;
use crate::options::Argument;
use crate::table::Table;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;
use tributary_video::head::{self, Format, HeadSample};
use tributary_video::sphere::Orientation;

/// A viewer's head movement: orientations over the time of playback.
///
/// Parameters
/// ----------
/// samples : array_like of float, shape (samples, 3) or (samples, 4)
///     Time in seconds, ascending; yaw to the right, pitch up and, if given, roll, in degrees. At least two.
///
/// Raises
/// ------
/// TypeError, ValueError
///     A value has another type, shape or range; the text names its place.
///
/// Examples
/// --------
/// >>> head = tributary.HeadTrace([(0.0, 170.0, 0.0), (1.0, -170.0, 0.0)])
/// >>> yaw, pitch, roll = head.at(0.5)
/// >>> round(abs(yaw))
/// 180
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct HeadTrace {
    trace: head::HeadTrace,
}

fn degrees(Orientation { yaw, pitch, roll }: Orientation) -> (f64, f64, f64) {
    (yaw.to_degrees(), pitch.to_degrees(), roll.to_degrees())
}

#[pymethods]
impl HeadTrace {
    #[new]
    fn new(samples: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sample = |item: Argument<'_, '_>| {
            let row = item.each("time_s, yaw, pitch and perhaps roll", |item| {
                item.number(f64::NEG_INFINITY..=f64::INFINITY)
            })?;
            let (time_s, angles) = match row[..] {
                [time, yaw, pitch] => (time, (yaw, pitch, 0.0)),
                [time, yaw, pitch, roll] => (time, (yaw, pitch, roll)),
                _ => return Err(item.refused("3 or 4 numbers: time_s, yaw, pitch and perhaps roll")),
            };
            Ok(HeadSample { time_s, orientation: Orientation::from_degrees(angles.0, angles.1, angles.2) })
        };
        let samples = Argument("samples", samples).each("a list of samples", sample)?;
        let trace = head::HeadTrace::from_samples(samples);
        Ok(Self { trace: trace.map_err(|error| PyValueError::new_err(format!("samples: {error}")))? })
    }

    /// Reads a file.
    ///
    /// Parameters
    /// ----------
    /// path : str or os.PathLike
    ///     The file.
    /// format : str
    ///     ``nasrabadi19``, ``jin22``, ``wu17``, ``plain`` (a heading ``time_s,yaw_deg,pitch_deg``), or ``plain:time_s=NAME,…``.
    ///
    /// Raises
    /// ------
    /// OSError
    ///     The file cannot be opened.
    /// ValueError
    ///     The format is unknown, or the file damaged; the text names line and column.
    #[staticmethod]
    fn read(path: PathBuf, format: &str) -> PyResult<Self> {
        let format: Format = format.parse().map_err(refused)?;
        let file =
            File::open(&path).map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))?;
        let trace = head::read(file, format);
        Ok(Self {
            trace: trace.map_err(|error| PyValueError::new_err(format!("{}: {error}", path.display())))?,
        })
    }

    /// Time of the last sample, seconds.
    #[getter]
    fn duration_s(&self) -> f64 {
        self.trace.duration_s()
    }

    fn __len__(&self) -> usize {
        self.trace.samples().len()
    }

    /// Yaw, pitch and roll at a time in degrees, interpolated along the shorter arc.
    fn at(&self, time_s: &Bound<'_, PyAny>) -> PyResult<(f64, f64, f64)> {
        let time = Argument("time_s", time_s).number(f64::NEG_INFINITY..=f64::INFINITY)?;
        Ok(degrees(self.trace.at(time)))
    }

    /// The same movement with ``rate_hz`` samples a second, at most 1000.
    fn resampled(&self, rate_hz: f64) -> PyResult<Self> {
        Ok(Self { trace: self.trace.resampled(rate_hz).map_err(refused)? })
    }

    /// The movement from ``start_s`` on, which becomes 0 s.
    fn starting_at(&self, start_s: f64) -> PyResult<Self> {
        Ok(Self { trace: self.trace.starting_at(start_s).map_err(refused)? })
    }

    /// One row per sample: ``time_s``, ``yaw_deg``, ``pitch_deg``, ``roll_deg``.
    fn table(&self) -> Table {
        let samples = self.trace.samples();
        let column =
            |of: &dyn Fn(&HeadSample) -> f64| samples.iter().map(|sample| Some(of(sample))).collect();
        Table::of_numbers(vec![
            ("time_s", column(&|sample| sample.time_s)),
            ("yaw_deg", column(&|sample| degrees(sample.orientation).0)),
            ("pitch_deg", column(&|sample| degrees(sample.orientation).1)),
            ("roll_deg", column(&|sample| degrees(sample.orientation).2)),
        ])
    }
}
