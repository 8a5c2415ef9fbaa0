//! Scales a picture down: each sample is the mean of the samples in its place.

use std::borrow::Cow;

use tributary_video::picture::{Picture, PictureError, Plane};

/// The picture in a size that is not larger.
///
/// # Errors
/// The size is odd or empty.
pub(super) fn shrunk(
    picture: &Picture,
    (width, height): (usize, usize),
) -> Result<Cow<'_, Picture>, PictureError> {
    if (picture.width(), picture.height()) == (width, height) {
        return Ok(Cow::Borrowed(picture));
    }
    let mut small = Picture::black(width, height)?;
    let widths = [width, width / 2, width / 2];
    for ((from, into), width) in picture.planes().iter().zip(small.planes_mut()).zip(widths) {
        shrink(from, into, width);
    }
    Ok(Cow::Owned(small))
}

fn shrink(from: &Plane<'_>, into: &mut [u8], width: usize) {
    let height = into.len() / width;
    // The samples in the place of sample `at` of `count`: at least one.
    let place = |at: usize, count: usize, of: usize| {
        let begin = at * of / count;
        begin..((at + 1) * of / count).max(begin + 1)
    };
    for (y, row) in into.chunks_exact_mut(width).enumerate() {
        let rows = place(y, height, from.height());
        for (x, sample) in row.iter_mut().enumerate() {
            let columns = place(x, width, from.width());
            let count = (rows.len() * columns.len()) as u32;
            let sum: u32 = rows
                .clone()
                .flat_map(|row| &from.row(row)[columns.clone()])
                .map(|sample| u32::from(*sample))
                .sum();
            *sample = ((sum + count / 2) / count) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_the_means_of_those_in_their_place() {
        let mut samples: Vec<u8> = [0, 20, 100, 200].repeat(8);
        samples[4] = 40;
        samples.extend([50; 8].iter().chain(&[90; 8]));
        let picture = Picture::from_samples(4, 8, samples).unwrap();
        let small = shrunk(&picture, (2, 4)).unwrap();
        assert_eq!(small.samples(), [20, 150, 10, 150, 10, 150, 10, 150, 50, 50, 90, 90]);
        assert!(matches!(shrunk(&picture, (4, 8)).unwrap(), Cow::Borrowed(_)));
    }
}
