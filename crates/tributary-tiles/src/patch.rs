//! Cuts a tile's pixels out of a panorama, and pastes them back.

use tributary_video::picture::{Picture, PictureError};
use tributary_video::tiles::PixelRectangle;

/// The part of `panorama` inside `place`, whose corner and size are even.
///
/// # Errors
/// The rectangle is odd, empty or not inside the panorama.
pub fn cut(panorama: &Picture, place: PixelRectangle) -> Result<Picture, PictureError> {
    check(panorama, place)?;
    let mut tile = Picture::black(place.width, place.height)?;
    for (plane, (from, into)) in panorama.planes().iter().zip(tile.planes_mut()).enumerate() {
        let (x, y, width) = within(plane, place);
        for (row, into) in into.chunks_exact_mut(width).enumerate() {
            into.copy_from_slice(&from.row(y + row)[x..x + width]);
        }
    }
    Ok(tile)
}

/// Puts `tile` into `panorama` at `place`, whose corner and size are even.
///
/// # Errors
/// The rectangle is odd, empty or not inside the panorama, or the tile has another size.
pub fn paste(panorama: &mut Picture, tile: &Picture, place: PixelRectangle) -> Result<(), PictureError> {
    check(panorama, place)?;
    if (tile.width(), tile.height()) != (place.width, place.height) {
        return Err(PictureError::Unequal(tile.width(), tile.height(), place.width, place.height));
    }
    let strides = [panorama.width(), panorama.width() / 2, panorama.width() / 2];
    for (plane, (from, into)) in tile.planes().iter().zip(panorama.planes_mut()).enumerate() {
        let (x, y, width) = within(plane, place);
        for row in 0..from.height() {
            let at = (y + row) * strides[plane] + x;
            into[at..at + width].copy_from_slice(from.row(row));
        }
    }
    Ok(())
}

/// Column, row and width of the rectangle in luma (plane 0) or chroma.
fn within(plane: usize, place: PixelRectangle) -> (usize, usize, usize) {
    let by = if plane == 0 { 1 } else { 2 };
    (place.x / by, place.y / by, place.width / by)
}

fn check(panorama: &Picture, place: PixelRectangle) -> Result<(), PictureError> {
    let numbers = [place.x, place.y, place.width, place.height, panorama.width(), panorama.height()];
    let even = numbers.iter().all(|number| number % 2 == 0);
    let inside = place.x.saturating_add(place.width) <= panorama.width()
        && place.y.saturating_add(place.height) <= panorama.height();
    if even && inside && place.width > 0 && place.height > 0 {
        return Ok(());
    }
    Err(PictureError::Size { width: place.width, height: place.height })
}

#[cfg(test)]
mod tests {
    use tributary_video::projection::Projection;
    use tributary_video::tiles::TileGrid;

    use super::*;

    #[test]
    fn all_tiles_put_back_make_the_panorama() {
        let samples: Vec<u8> = (0..48 * 24 * 3 / 2u32).map(|n| (n * 7 % 251) as u8).collect();
        let panorama = Picture::from_samples(48, 24, samples).expect("a picture");
        let grid = TileGrid::new(4, 3, Projection::Equirectangular).expect("a grid");
        let mut again = Picture::black(48, 24).expect("a picture");
        for tile in 0..grid.tiles() {
            let place = grid.pixels(tile, (48, 24));
            let cut = cut(&panorama, place).expect("even");
            assert_eq!((cut.width(), cut.height()), (12, 8));
            paste(&mut again, &cut, place).expect("even");
        }
        assert!(again == panorama);
    }

    #[test]
    fn odd_and_outside_rectangles_are_refused() {
        let panorama = Picture::black(16, 8).expect("a picture");
        for (x, y, width, height) in
            [(1, 0, 4, 4), (0, 0, 3, 4), (0, 6, 4, 4), (0, 0, 0, 4), (usize::MAX, 0, 4, 4)]
        {
            assert!(cut(&panorama, PixelRectangle { x, y, width, height }).is_err());
        }
    }
}
