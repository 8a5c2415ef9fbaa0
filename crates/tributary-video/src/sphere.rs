//! The unit sphere around the viewer: directions, head orientations and solid angles.
//!
//! The viewer's axes: x to the right, y up, z straight ahead. Positive yaw turns right, pitch looks up, roll
//! tilts the head to the right shoulder; angles are in radians unless a name ends in `_deg`. (OMAF, ISO/IEC
//! 23090-2 §5.1, turns yaw to the left; the head-movement data sets and ffmpeg turn it right.)

use std::f64::consts::{PI, TAU};

/// A vector from the centre of the sphere; of length 1 if it is a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Direction {
    /// To the right.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Ahead.
    pub z: f64,
}

impl Direction {
    /// Straight ahead: the middle of an equirectangular picture.
    pub const AHEAD: Self = Self { x: 0.0, y: 0.0, z: 1.0 };

    /// The direction of a yaw and a pitch, radians.
    #[must_use]
    pub fn from_angles(yaw: f64, pitch: f64) -> Self {
        let level = libm::cos(pitch);
        Self { x: libm::sin(yaw) * level, y: libm::sin(pitch), z: libm::cos(yaw) * level }
    }

    /// Yaw in (−π, π] and pitch in [−π/2, π/2]. Straight up and down have yaw 0.
    #[must_use]
    pub fn angles(self) -> (f64, f64) {
        (libm::atan2(self.x, self.z), libm::asin(self.y.clamp(-1.0, 1.0)))
    }

    /// The scalar product.
    #[must_use]
    pub fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// The same direction with length 1; straight ahead for the zero vector.
    #[must_use]
    pub fn normalised(self) -> Self {
        let length = self.dot(self).sqrt();
        if length > 0.0 && length.is_finite() { self.scaled(1.0 / length) } else { Self::AHEAD }
    }

    /// The angle to another direction in [0, π], radians.
    #[must_use]
    pub fn angle_to(self, other: Self) -> f64 {
        let cross = Self {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        };
        // The arc cosine of the scalar product would lose half the digits of small angles.
        libm::atan2(cross.dot(cross).sqrt(), self.dot(other))
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { x: self.x * factor, y: self.y * factor, z: self.z * factor }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

/// A head's orientation: yaw, then pitch about its own right axis, then roll about its own view axis.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Orientation {
    /// To the right, radians.
    pub yaw: f64,
    /// Up, radians.
    pub pitch: f64,
    /// To the right shoulder, radians.
    pub roll: f64,
}

/// The three axes of the head, each of length 1, in the sphere's coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axes {
    /// The head's right.
    pub right: Direction,
    /// The head's up.
    pub up: Direction,
    /// Where the head looks.
    pub ahead: Direction,
}

impl Orientation {
    /// From degrees.
    #[must_use]
    pub fn from_degrees(yaw: f64, pitch: f64, roll: f64) -> Self {
        Self { yaw: yaw.to_radians(), pitch: pitch.to_radians(), roll: roll.to_radians() }
    }

    /// Where the head looks.
    #[must_use]
    pub fn ahead(self) -> Direction {
        Direction::from_angles(self.yaw, self.pitch)
    }

    /// The head's axes.
    #[must_use]
    pub fn axes(self) -> Axes {
        let (sin_yaw, cos_yaw) = libm::sincos(self.yaw);
        let (sin_pitch, cos_pitch) = libm::sincos(self.pitch);
        let (sin_roll, cos_roll) = libm::sincos(self.roll);
        let level_right = Direction { x: cos_yaw, y: 0.0, z: -sin_yaw };
        let level_up = Direction { x: -sin_yaw * sin_pitch, y: cos_pitch, z: -cos_yaw * sin_pitch };
        Axes {
            right: level_right.scaled(cos_roll).plus(level_up.scaled(-sin_roll)),
            up: level_up.scaled(cos_roll).plus(level_right.scaled(sin_roll)),
            ahead: Direction { x: sin_yaw * cos_pitch, y: sin_pitch, z: cos_yaw * cos_pitch },
        }
    }

    /// The orientation with these axes, yaw and roll in (−π, π]. For a head that looks straight up or down,
    /// only the sum of yaw and roll is defined; all of it becomes yaw.
    #[must_use]
    pub fn from_axes(axes: &Axes) -> Self {
        let Axes { up, ahead, .. } = *axes;
        let level = (ahead.x * ahead.x + ahead.z * ahead.z).sqrt();
        let pitch = libm::atan2(ahead.y, level);
        if level < 1e-9 {
            let sign = -ahead.y.signum();
            return Self { yaw: libm::atan2(sign * up.x, sign * up.z), pitch, roll: 0.0 };
        }
        let yaw = libm::atan2(ahead.x, ahead.z);
        let unrolled = Self { yaw, pitch, roll: 0.0 }.axes();
        Self { yaw, pitch, roll: libm::atan2(up.dot(unrolled.right), up.dot(unrolled.up)) }
    }

    /// The orientation at `share` (0…1) between this one and another, along the shorter arc. Meant for
    /// neighbouring samples of a trace: between opposite orientations the arc is arbitrary.
    #[must_use]
    pub fn towards(self, other: Self, share: f64) -> Self {
        let (a, b) = (self.axes(), other.axes());
        let mix = |a: Direction, b: Direction| a.scaled(1.0 - share).plus(b.scaled(share));
        let ahead = mix(a.ahead, b.ahead);
        if ahead.dot(ahead) < 1e-12 {
            return if share < 0.5 { self } else { other };
        }
        let ahead = ahead.normalised();
        let up = mix(a.up, b.up);
        let up = up.plus(ahead.scaled(-up.dot(ahead))).normalised();
        Self::from_axes(&Axes { right: a.right, up, ahead })
    }
}

/// An angle reduced to (−π, π].
#[must_use]
pub fn wrapped(angle: f64) -> f64 {
    let turns = libm::floor((angle + PI) / TAU);
    let angle = angle - turns * TAU;
    if angle <= -PI { angle + TAU } else { angle }
}

/// The solid angle between two pitches and over a range of yaw, steradians.
#[must_use]
pub fn solid_angle(pitch_low: f64, pitch_high: f64, yaw_width: f64) -> f64 {
    (libm::sin(pitch_high) - libm::sin(pitch_low)) * yaw_width
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_2;

    use proptest::prelude::*;

    use super::*;

    fn close(a: Direction, b: Direction) -> bool {
        a.angle_to(b) < 1e-9
    }

    #[test]
    fn named_directions() {
        assert!(close(Direction::from_angles(0.0, 0.0), Direction::AHEAD));
        assert!(close(Direction::from_angles(FRAC_PI_2, 0.0), Direction { x: 1.0, y: 0.0, z: 0.0 }));
        assert!(close(Direction::from_angles(1.0, FRAC_PI_2), Direction { x: 0.0, y: 1.0, z: 0.0 }));
        let rolled = Orientation::from_degrees(0.0, 0.0, 90.0).axes();
        assert!(close(rolled.up, Direction { x: 1.0, y: 0.0, z: 0.0 }), "up tips to the right shoulder");
    }

    #[test]
    fn whole_sphere_has_four_pi() {
        assert!((solid_angle(-FRAC_PI_2, FRAC_PI_2, TAU) - 4.0 * PI).abs() < 1e-12);
    }

    #[test]
    fn straight_up_keeps_its_axes() {
        let axes = Orientation { yaw: 0.4, pitch: FRAC_PI_2, roll: 0.3 }.axes();
        let again = Orientation::from_axes(&axes).axes();
        assert!(close(axes.up, again.up) && close(axes.ahead, again.ahead));
    }

    #[test]
    fn half_way_crosses_the_seam() {
        let a = Orientation::from_degrees(170.0, 0.0, 0.0);
        let b = Orientation::from_degrees(-170.0, 0.0, 0.0);
        let middle = a.towards(b, 0.5);
        assert!((middle.yaw.abs() - PI).abs() < 1e-9, "{middle:?}");
    }

    proptest! {
        #[test]
        fn angles_round_trip(yaw in -3.1f64..3.1, pitch in -1.5f64..1.5) {
            let (y, p) = Direction::from_angles(yaw, pitch).angles();
            prop_assert!((y - yaw).abs() < 1e-9 && (p - pitch).abs() < 1e-9);
        }

        #[test]
        fn axes_round_trip(yaw in -3.1f64..3.1, pitch in -1.5f64..1.5, roll in -3.1f64..3.1) {
            let axes = Orientation { yaw, pitch, roll }.axes();
            prop_assert!(axes.right.dot(axes.up).abs() < 1e-12);
            prop_assert!(axes.right.dot(axes.ahead).abs() < 1e-12);
            let again = Orientation::from_axes(&axes);
            prop_assert!((again.yaw - yaw).abs() < 1e-8, "{again:?}");
            prop_assert!((again.pitch - pitch).abs() < 1e-8 && (again.roll - roll).abs() < 1e-8);
        }

        #[test]
        fn wrapping_keeps_the_direction(angle in -100.0f64..100.0) {
            let inside = wrapped(angle);
            prop_assert!(inside > -PI && inside <= PI);
            prop_assert!((libm::sin(inside) - libm::sin(angle)).abs() < 1e-9);
        }
    }
}
