//! Rendered viewports compared with exactly computed ones.

use proptest::prelude::*;

use super::*;
use crate::metrics::{mse, psnr_db};
use crate::picture::Plane;
use crate::sphere::{Axes, Direction};

/// A smooth panorama with a different shade in each direction, so that misplaced samples are detected.
fn panorama(projection: Projection, (width, height): (usize, usize)) -> Picture {
    let mut picture = Picture::black(width, height).expect("a picture");
    let sizes = picture.planes().map(|plane| (plane.width(), plane.height()));
    for (plane, (width, height)) in picture.planes_mut().into_iter().zip(sizes) {
        for (at, sample) in plane.iter_mut().enumerate() {
            let (column, row) = (at % width, at / width);
            let place = crate::projection::PicturePoint {
                u: (column as f64 + 0.5) / width as f64,
                v: (row as f64 + 0.5) / height as f64,
            };
            *sample = shade(projection.direction_at(place)).round() as u8;
        }
    }
    picture
}

fn shade(at: Direction) -> f64 {
    128.0 + 50.0 * libm::sin(3.0 * at.x + 1.0) + 40.0 * libm::cos(4.0 * at.y + at.z) + 30.0 * at.z * at.x
}

/// The shade each pixel of a viewport should have.
fn ideal(settings: &RenderSettings, view: Orientation) -> Vec<f64> {
    let ((width, height), (across, upwards)) = (settings.viewport, settings.field.half_extent());
    let Axes { right, up, ahead } = view.axes();
    let pixel = |at: usize| {
        let x = across * ((2 * (at % width) + 1) as f64 / width as f64 - 1.0);
        let y = upwards * (1.0 - (2 * (at / width) + 1) as f64 / height as f64);
        shade(right.scaled(x).plus(up.scaled(y)).plus(ahead).normalised())
    };
    (0..width * height).map(pixel).collect()
}

fn settings(projection: Projection) -> RenderSettings {
    let panorama = match projection {
        Projection::Equirectangular => (512, 256),
        Projection::Cubemap => (384, 256),
        Projection::TopBottom => (512, 512),
    };
    RenderSettings { projection, panorama, field: FieldOfView::default(), viewport: (120, 100) }
}

fn worst_error(projection: Projection, view: Orientation) -> f64 {
    worst_error_of(settings(projection), view)
}

fn worst_error_of(settings: RenderSettings, view: Orientation) -> f64 {
    let projection = settings.projection;
    let mut renderer = Renderer::new(settings).expect("valid sizes");
    let seen = renderer.render(&panorama(projection, settings.panorama), view).expect("the right size");
    let ideal = ideal(&settings, view);
    let errors =
        seen.luma().samples().iter().zip(&ideal).map(|(sample, ideal)| (f64::from(*sample) - ideal).abs());
    errors.fold(0.0, f64::max)
}

#[test]
fn every_direction_shows_its_own_shade() {
    let views =
        [(0.0, 0.0, 0.0), (90.0, 20.0, 0.0), (180.0, -30.0, 10.0), (-135.0, 0.0, 90.0), (10.0, 89.0, 5.0)];
    for (yaw, pitch, roll) in views {
        let view = Orientation::from_degrees(yaw, pitch, roll);
        for projection in [Projection::Equirectangular, Projection::Cubemap, Projection::TopBottom] {
            let error = worst_error(projection, view);
            // Rounding in the panorama and in the result, and the outermost half sample of a face.
            assert!(error < 2.5, "{projection:?} {view:?}: {error}");
        }
    }
}

#[test]
fn neighbours_far_apart_and_any_width_are_right() {
    // In the smaller viewports eight pixels are further apart than 16-bit offsets reach.
    for (height, viewport) in [(1024, (9, 7)), (512, (19, 16)), (64, (27, 21))] {
        for projection in [Projection::Equirectangular, Projection::Cubemap, Projection::TopBottom] {
            let width = match projection {
                Projection::Equirectangular => 2 * height,
                Projection::Cubemap => height / 2 * 3,
                Projection::TopBottom => height,
            };
            let settings = RenderSettings { panorama: (width, height), viewport, ..settings(projection) };
            for view in [(0.0, 0.0, 0.0), (175.0, 50.0, 80.0)] {
                let view = Orientation::from_degrees(view.0, view.1, view.2);
                let error = worst_error_of(settings, view);
                assert!(error < 4.0, "{settings:?} {view:?}: {error}");
            }
        }
    }
}

#[test]
fn a_constant_panorama_stays_constant() {
    for projection in [Projection::Equirectangular, Projection::Cubemap, Projection::TopBottom] {
        let settings = settings(projection);
        let (width, height) = settings.panorama;
        for value in [0, 1, 127, 254, 255] {
            let samples = vec![value; crate::picture::sample_count(width, height)];
            let panorama = Picture::from_samples(width, height, samples).expect("a picture");
            let mut renderer = Renderer::new(settings).expect("valid sizes");
            let seen = renderer.render(&panorama, Orientation::from_degrees(170.0, 60.0, 3.0)).expect("fits");
            assert!(seen.samples().iter().all(|sample| *sample == value), "{value}");
        }
    }
}

#[test]
fn chroma_follows_luma() {
    let settings = settings(Projection::Equirectangular);
    let mut renderer = Renderer::new(settings).expect("valid sizes");
    let view = Orientation::from_degrees(60.0, 10.0, 0.0);
    let seen = renderer.render(&panorama(settings.projection, settings.panorama), view).expect("fits");
    let [luma, blue, red] = seen.planes();
    assert_eq!(blue, red);
    let (mut halved, width) = (Vec::new(), luma.width());
    for row in 0..blue.height() {
        for column in 0..blue.width() {
            let sum =
                |row: usize| u32::from(luma.row(row)[2 * column]) + u32::from(luma.row(row)[2 * column + 1]);
            halved.push(((sum(2 * row) + sum(2 * row + 1) + 2) / 4) as u8);
        }
    }
    let halved = Plane::new(&halved, width / 2, blue.height()).expect("a plane");
    assert!(psnr_db(mse(&halved, &blue).expect("equal sizes")) > 45.0);
}

#[test]
fn wrong_sizes_are_refused() {
    let good = settings(Projection::Equirectangular);
    assert!(Renderer::new(RenderSettings { panorama: (8, 256), ..good }).is_err());
    assert!(Renderer::new(RenderSettings { viewport: (0, 5), ..good }).is_err());
    assert!(Renderer::new(RenderSettings { viewport: (5, 1 << 17), ..good }).is_err());
    let mut renderer = Renderer::new(good).expect("valid sizes");
    let other = Picture::black(64, 32).expect("a picture");
    let error = renderer.render(&other, Orientation::default()).expect_err("another size").to_string();
    assert!(error.contains("(64, 32)") && error.contains("(512, 256)"), "{error}");
}

#[test]
fn odd_and_small_sizes_are_rendered() {
    for projection in [Projection::Equirectangular, Projection::Cubemap, Projection::TopBottom] {
        for (panorama, viewport) in [((13, 15), (1, 1)), ((33, 17), (17, 35)), ((640, 322), (31, 16))] {
            let settings = RenderSettings { panorama, viewport, ..settings(projection) };
            let mut renderer = Renderer::new(settings).expect("valid sizes");
            let picture = Picture::black(panorama.0, panorama.1).expect("a picture");
            let seen = renderer.render(&picture, Orientation::from_degrees(180.0, 90.0, 0.0)).expect("fits");
            assert!(seen.luma().samples().iter().all(|sample| *sample == 16));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_view_is_right(yaw in -180.0f64..180.0, pitch in -90.0f64..90.0, roll in -180.0f64..180.0) {
        let view = Orientation::from_degrees(yaw, pitch, roll);
        for projection in [Projection::Equirectangular, Projection::Cubemap, Projection::TopBottom] {
            let error = worst_error(projection, view);
            prop_assert!(error < 2.5, "{:?}: {}", projection, error);
        }
    }
}
