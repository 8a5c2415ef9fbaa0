//! The counter of seconds and pictures in front of the camera, in seven-segment digits.

use super::{Canvas, yuv};

/// Segments of each digit: top, upper right, lower right, bottom, lower left, upper left, middle.
const DIGITS: [u8; 10] = [
    0b011_1111, 0b000_0110, 0b101_1011, 0b100_1111, 0b110_0110, 0b110_1101, 0b111_1101, 0b000_0111,
    0b111_1111, 0b110_1111,
];

/// Left, top, width, height of each segment in a digit of 6 × 11 units.
const SEGMENTS: [[usize; 4]; 7] =
    [[1, 0, 4, 1], [5, 1, 1, 4], [5, 6, 1, 4], [1, 10, 4, 1], [0, 6, 1, 4], [0, 1, 1, 4], [1, 5, 4, 1]];

/// Draws picture `number` as `seconds.pictures` on a dark plate.
pub(super) fn draw(canvas: &mut Canvas<'_>, number: u32) {
    let unit = canvas.width / 341;
    if unit == 0 {
        return;
    }
    let (seconds, picture) = (number / super::FRAME_RATE % 1000, number % super::FRAME_RATE);
    let digits = [seconds / 100, seconds / 10 % 10, seconds % 10, picture / 10, picture % 10];
    let (width, height) = (unit * 44, unit * 17);
    let (left, top) = ((canvas.width - width) / 2, canvas.height * 34 / 100);
    let mut fill = |x: usize, y: usize, [w, h]: [usize; 2], colour| {
        for row in y..y + h {
            (x..x + w).for_each(|column| canvas.set(column, row, colour));
        }
    };
    fill(left, top, [width, height], yuv([0.04, 0.06, 0.10]));
    let lit = yuv([0.55, 1.0, 0.82]);
    for (place, digit) in digits.into_iter().enumerate() {
        let gap = if place >= 3 { 4 } else { 0 };
        let (x, y) = (left + unit * (3 + 8 * place + gap), top + unit * 3);
        for (segment, [dx, dy, w, h]) in SEGMENTS.into_iter().enumerate() {
            if DIGITS[digit as usize % 10] >> segment & 1 == 1 {
                fill(x + dx * unit, y + dy * unit, [w * unit, h * unit], lit);
            }
        }
    }
    fill(left + unit * 27, top + unit * 13, [unit, unit], lit);
}
