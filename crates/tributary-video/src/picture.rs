//! A picture in memory: a luma plane and two chroma planes of half the size, eight bits each (YUV 4:2:0).
//!
//! Only holds samples. `render` renders and `metrics` measures.

use thiserror::Error;

/// The longest side a picture may have, pixels.
pub const LONGEST_SIDE: usize = 1 << 16;

/// One plane of samples, row by row without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane<'a> {
    samples: &'a [u8],
    width: usize,
    height: usize,
}

/// A picture in YUV 4:2:0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    /// Luma, then both chromas, contiguous as in raw video files.
    samples: Vec<u8>,
}

/// Why a picture or a plane is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PictureError {
    /// No pixels, or too many.
    #[error("a picture of {width}x{height} pixels; each side must be 1 to {LONGEST_SIDE}")]
    Size {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
    },
    /// A buffer is too short or too long.
    #[error("{found} samples given for {width}x{height} pixels; {expected} are needed")]
    Samples {
        /// The width.
        width: usize,
        /// The height.
        height: usize,
        /// Samples given.
        found: usize,
        /// Samples needed.
        expected: usize,
    },
    /// Two pictures have different sizes.
    #[error("pictures of {0}x{1} and {2}x{3} pixels; they must be of one size")]
    Unequal(usize, usize, usize, usize),
}

impl<'a> Plane<'a> {
    /// A plane of `width` × `height` samples.
    ///
    /// # Errors
    /// No samples, too many, or a buffer of the wrong length.
    pub fn new(samples: &'a [u8], width: usize, height: usize) -> Result<Self, PictureError> {
        check_size(width, height)?;
        if samples.len() != width * height {
            let (found, expected) = (samples.len(), width * height);
            return Err(PictureError::Samples { width, height, found, expected });
        }
        Ok(Self { samples, width, height })
    }

    /// Samples, row by row.
    #[must_use]
    pub fn samples(&self) -> &'a [u8] {
        self.samples
    }

    /// Samples per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The samples of one row.
    ///
    /// # Panics
    /// The row does not exist.
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.samples[row * self.width..(row + 1) * self.width]
    }

    /// Checks that two planes have the same size.
    ///
    /// # Errors
    /// They differ.
    pub fn require_size_of(&self, other: &Plane<'_>) -> Result<(), PictureError> {
        if (self.width, self.height) == (other.width, other.height) {
            return Ok(());
        }
        Err(PictureError::Unequal(self.width, self.height, other.width, other.height))
    }
}

fn check_size(width: usize, height: usize) -> Result<(), PictureError> {
    let fits = |side: usize| (1..=LONGEST_SIDE).contains(&side);
    if fits(width) && fits(height) { Ok(()) } else { Err(PictureError::Size { width, height }) }
}

/// Width and height of the chroma planes of a picture; odd sizes round up.
#[must_use]
pub fn chroma_size(width: usize, height: usize) -> (usize, usize) {
    (width.div_ceil(2), height.div_ceil(2))
}

/// Samples of all three planes together.
#[must_use]
pub fn sample_count(width: usize, height: usize) -> usize {
    let (chroma_width, chroma_height) = chroma_size(width, height);
    width * height + 2 * chroma_width * chroma_height
}

impl Picture {
    /// A black picture (luma 16, chroma 128).
    ///
    /// # Errors
    /// No pixels, or too many.
    pub fn black(width: usize, height: usize) -> Result<Self, PictureError> {
        check_size(width, height)?;
        let mut samples = vec![128; sample_count(width, height)];
        samples[..width * height].fill(16);
        Ok(Self { width, height, samples })
    }

    /// A picture of raw samples: luma, then both chromas, each row by row.
    ///
    /// # Errors
    /// No pixels, too many, or a buffer of the wrong length.
    pub fn from_samples(width: usize, height: usize, samples: Vec<u8>) -> Result<Self, PictureError> {
        check_size(width, height)?;
        let (found, expected) = (samples.len(), sample_count(width, height));
        if found != expected {
            return Err(PictureError::Samples { width, height, found, expected });
        }
        Ok(Self { width, height, samples })
    }

    /// Pixels per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// All samples: luma, then both chromas.
    #[must_use]
    pub fn samples(&self) -> &[u8] {
        &self.samples
    }

    /// All samples, mutable, for a decoder to fill.
    pub fn samples_mut(&mut self) -> &mut [u8] {
        &mut self.samples
    }

    /// Luma and both chromas.
    #[must_use]
    pub fn planes(&self) -> [Plane<'_>; 3] {
        let (width, height) = chroma_size(self.width, self.height);
        let (luma, chroma) = self.samples.split_at(self.width * self.height);
        let (blue, red) = chroma.split_at(width * height);
        [
            Plane { samples: luma, width: self.width, height: self.height },
            Plane { samples: blue, width, height },
            Plane { samples: red, width, height },
        ]
    }

    /// The luma plane.
    #[must_use]
    pub fn luma(&self) -> Plane<'_> {
        self.planes()[0]
    }

    /// The samples of luma and both chromas, mutable.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let (width, height) = chroma_size(self.width, self.height);
        let (luma, chroma) = self.samples.split_at_mut(self.width * self.height);
        let (blue, red) = chroma.split_at_mut(width * height);
        [luma, blue, red]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_sizes_round_chroma_up() {
        let mut picture = Picture::black(3, 5).expect("a small picture");
        assert_eq!(picture.samples().len(), 15 + 2 * 6);
        assert_eq!(picture.planes().map(|plane| (plane.width(), plane.height())), [(3, 5), (2, 3), (2, 3)]);
        picture.planes_mut()[2][5] = 7;
        assert_eq!(picture.planes()[2].row(2), [128, 7]);
        assert_eq!(picture.luma().row(4), [16, 16, 16]);
    }

    #[test]
    fn wrong_buffers_are_refused() {
        assert!(matches!(Picture::black(0, 5), Err(PictureError::Size { .. })));
        assert!(matches!(Picture::black(LONGEST_SIDE + 1, 5), Err(PictureError::Size { .. })));
        let error = Picture::from_samples(4, 4, vec![0; 23]).expect_err("too few").to_string();
        assert_eq!(error, "23 samples given for 4x4 pixels; 24 are needed");
        assert!(Plane::new(&[0; 3], 2, 2).is_err() && Plane::new(&[], 0, 0).is_err());
    }
}
