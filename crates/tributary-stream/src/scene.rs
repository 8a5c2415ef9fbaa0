//! A rendered 360° scene, streamed when the user gives no video.
//!
//! A turning camera in a town square: sky with clouds, paved ground, houses, a spinning striped globe, balls that
//! bounce around the square, a counter of seconds. Equirectangular, planar YUV 4:2:0, BT.709 limited range, 30
//! pictures per second, the same bytes on every machine of an architecture. Grain and fine texture make it as hard to
//! encode as camera footage. The town is painted once. The camera's turn is a rotation of the picture's rows, and
//! only moving objects are drawn for each picture.

mod ball;
mod counter;
mod town;

use ball::Ball;
use tributary_types::Rng;

/// Pictures per second in every ladder and every GoP.
pub const FRAME_RATE: u32 = 30;
/// Pixels by which the camera turns per picture at a width of 2048: 21° per second.
const TURN: u32 = 4;

/// A colour as luma, blue difference, red difference.
type Yuv = [u8; 3];

/// The scene at one size.
#[derive(Clone, Debug)]
pub struct Scene {
    width: usize,
    height: usize,
    town: Vec<u8>,
    balls: Vec<Ball>,
    grain: Vec<i8>,
}

/// One picture being drawn: planes of luma and two of chroma.
struct Canvas<'a> {
    width: usize,
    height: usize,
    bytes: &'a mut [u8],
}

impl Canvas<'_> {
    /// Sets one pixel. Of four pixels with common chroma, the upper left sets it. Outside positions are ignored.
    fn set(&mut self, x: usize, y: usize, [luma, blue, red]: Yuv) {
        if x >= self.width || y >= self.height {
            return;
        }
        self.bytes[y * self.width + x] = luma;
        if x.is_multiple_of(2) && y.is_multiple_of(2) {
            let all = self.width * self.height;
            let chroma = (y / 2) * (self.width / 2) + x / 2;
            self.bytes[all + chroma] = blue;
            self.bytes[all + all / 4 + chroma] = red;
        }
    }
}

/// Converts red, green and blue (0 to 1) to BT.709, limited range.
fn yuv([r, g, b]: [f32; 3]) -> Yuv {
    let luma = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    let scaled = |v: f32, low: f32, high: f32| v.clamp(low, high) as u8;
    [
        scaled(16.0 + 219.0 * luma, 16.0, 235.0),
        scaled(128.0 + 224.0 * (b - luma) / 1.8556, 16.0, 240.0),
        scaled(128.0 + 224.0 * (r - luma) / 1.5748, 16.0, 240.0),
    ]
}

impl Scene {
    /// Paints the town for pictures of `width` × `height`.
    ///
    /// # Panics
    /// When a side is odd or below 16, or the width is not a multiple of four.
    #[must_use]
    pub fn new(width: u32, height: u32) -> Self {
        assert!(
            width >= 16 && height >= 16 && width.is_multiple_of(4) && height.is_multiple_of(2),
            "4:2:0 needs even sizes"
        );
        let (width, height) = (width as usize, height as usize);
        let mut rng = Rng::new(360).child("grain");
        let grain = (0..(1 << 16) + width).map(|_| (rng.below(9) as i8) - 4).collect();
        Self { width, height, town: town::paint(width, height), balls: ball::all(), grain }
    }

    /// A buffer for one picture: the luma plane, then both chroma planes at half the width and height.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        vec![0; self.width * self.height * 3 / 2]
    }

    /// Draws picture `number` into `frame`.
    ///
    /// # Panics
    /// When the size of `frame` is not that of [`Scene::frame`].
    pub fn render(&self, number: u32, frame: &mut [u8]) {
        assert_eq!(frame.len(), self.town.len(), "the frame has the scene's size");
        // Rounded to an even number, so that chroma turns with luma.
        let turn =
            (u64::from(number) * u64::from(TURN) * self.width as u64 / 2048) as usize % self.width / 2 * 2;
        self.turn_town(number, turn, frame);
        let seconds = f64::from(number) / f64::from(FRAME_RATE);
        let heading = turn as f64 / self.width as f64 * core::f64::consts::TAU;
        let mut canvas = Canvas { width: self.width, height: self.height, bytes: frame };
        for ball in &self.balls {
            ball.draw(&mut canvas, seconds as f32, heading as f32);
        }
        counter::draw(&mut canvas, number);
    }

    /// Copies the town turned by `turn` pixels, with new grain on luma.
    fn turn_town(&self, number: u32, turn: usize, frame: &mut [u8]) {
        let (luma, chroma) = frame.split_at_mut(self.width * self.height);
        let (town_luma, town_chroma) = self.town.split_at(luma.len());
        let mut noise = u64::from(number) + 1;
        for (row, town) in luma.chunks_exact_mut(self.width).zip(town_luma.chunks_exact(self.width)) {
            noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let grain = &self.grain[(noise >> 48) as usize..][..self.width];
            let (right, left) = (&town[turn..], &town[..turn]);
            let (first, last) = row.split_at_mut(right.len());
            for ((out, town), grain) in first.iter_mut().zip(right).zip(grain) {
                *out = town.saturating_add_signed(*grain);
            }
            for ((out, town), grain) in last.iter_mut().zip(left).zip(&grain[right.len()..]) {
                *out = town.saturating_add_signed(*grain);
            }
        }
        let half = self.width / 2;
        for (row, town) in chroma.chunks_exact_mut(half).zip(town_chroma.chunks_exact(half)) {
            row.copy_from_slice(town);
            row.rotate_left(turn / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(scene: &Scene, number: u32) -> Vec<u8> {
        let mut frame = scene.frame();
        scene.render(number, &mut frame);
        frame
    }

    #[test]
    fn the_same_picture_twice_and_another_next() {
        let (a, b) = (Scene::new(256, 128), Scene::new(256, 128));
        assert_eq!(picture(&a, 17), picture(&b, 17));
        let (this, next) = (picture(&a, 17), picture(&a, 18));
        let moved = this.iter().zip(&next).filter(|(a, b)| a != b).count();
        assert!(moved > this.len() / 4, "only {moved} bytes of {} change", this.len());
    }

    #[test]
    fn every_picture_of_a_long_run_and_the_smallest_size_draw() {
        let scene = Scene::new(64, 32);
        for number in [0, 1, 511, 512, 100_000, u32::MAX] {
            let frame = picture(&scene, number);
            assert!(frame.iter().any(|b| *b > 60));
        }
        picture(&Scene::new(16, 16), 3);
    }

    #[test]
    fn known_colours() {
        assert_eq!(yuv([0.0; 3]), [16, 128, 128]);
        assert_eq!(yuv([1.0; 3]), [235, 128, 128]);
        assert_eq!(yuv([1.0, 0.0, 0.0]), [62, 102, 240]);
    }
}
