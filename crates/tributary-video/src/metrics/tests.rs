//! Metrics compared with cases computed by hand.

use std::f64::consts::FRAC_1_SQRT_2;

use proptest::prelude::*;

use super::*;

const EQUIRECTANGULAR: Projection = Projection::Equirectangular;

fn plane(samples: &[u8], width: usize) -> Plane<'_> {
    Plane::new(samples, width, samples.len() / width).expect("a plane")
}

#[test]
fn one_wrong_sample() {
    let (a, mut b) = ([100u8; 16], [100u8; 16]);
    b[5] = 108;
    // 64 / 16 = 4, and 10·log10(65025 / 4) = 42.11 dB.
    let error = mse(&plane(&a, 4), &plane(&b, 4)).expect("equal sizes");
    assert_eq!(error, 4.0);
    assert!((psnr_db(error) - 42.110_203).abs() < 1e-5);
    assert_eq!(psnr_db(0.0), f64::INFINITY);
    assert!(mse(&plane(&a, 4), &plane(&b, 8)).is_err());
}

#[test]
fn the_largest_error_does_not_overflow() {
    let (a, b) = (vec![0u8; 65_536], vec![255u8; 65_536]);
    assert_eq!(mse(&plane(&a, 65_536), &plane(&b, 65_536)).expect("equal sizes"), 65_025.0);
}

#[test]
fn rows_count_by_the_cosine_of_their_latitude() {
    // Two rows at ±45°, four at ±22.5° and ±67.5°.
    let a = [0u8; 8];
    let wrong_pole = [10, 10, 0, 0, 0, 0, 0, 0u8];
    let (near, far) = (libm::cos(67.5f64.to_radians()), libm::cos(22.5f64.to_radians()));
    let expected = 100.0 * near / (2.0 * near + 2.0 * far);
    let error = ws_mse(&plane(&a, 2), &plane(&wrong_pole, 2), EQUIRECTANGULAR).expect("equal sizes");
    assert!((error - expected).abs() < 1e-9, "{error} {expected}");
    let halves = ws_mse(&plane(&a, 4), &plane(&[7, 7, 7, 7, 0, 0, 0, 0], 4), EQUIRECTANGULAR);
    assert!((halves.expect("equal sizes") - 24.5).abs() < 1e-9);
}

#[test]
fn all_faces_of_a_cube_count_alike() {
    let (size, a) = ((24, 16), vec![0u8; 24 * 16]);
    for face in 0..6 {
        let mut b = a.clone();
        for row in 0..8 {
            let start = (face / 3 * 8 + row) * size.0 + face % 3 * 8;
            b[start..start + 8].fill(6);
        }
        let error = ws_mse(&plane(&a, size.0), &plane(&b, size.0), Projection::Cubemap).expect("equal sizes");
        assert!((error - 6.0).abs() < 1e-9, "{error}");
    }
}

#[test]
fn points_see_a_cap_by_its_area() {
    // The upper of four rows of an equirectangular picture: pitch above 45°, (1 − sin 45°) / 2 of the sphere.
    let (a, mut b) = ([0u8; 32], [0u8; 32]);
    b[..8].fill(10);
    let points = SpherePoints::new(100_000);
    let (a, b) = (plane(&a, 8), plane(&b, 8));
    let error = points.mse((&a, EQUIRECTANGULAR), (&b, EQUIRECTANGULAR));
    let expected = 100.0 * (1.0 - FRAC_1_SQRT_2) / 2.0;
    assert!((error - expected).abs() < 0.01, "{error} {expected}");
    assert_eq!(SpherePoints::default().count(), 655_362);
}

#[test]
fn points_compare_projections() {
    // One constant panorama in both projections.
    let (a, b) = ([77u8; 32], [80u8; 24]);
    let points = SpherePoints::new(1000);
    let error = points.mse((&plane(&a, 8), EQUIRECTANGULAR), (&plane(&b, 6), Projection::Cubemap));
    assert_eq!(error, 9.0);
}

#[test]
fn both_means_and_the_worst() {
    let mut errors = vec![1.0; 39];
    errors.push(1000.0);
    let summary = Summary::of(&errors).expect("errors");
    let (one, thousand) = (psnr_db(1.0), psnr_db(1000.0));
    assert!((summary.mean_db - (39.0 * one + thousand) / 40.0).abs() < 1e-9);
    assert!((summary.pooled_db - psnr_db(1039.0 / 40.0)).abs() < 1e-9);
    assert!((summary.worst_db - psnr_db(500.5)).abs() < 1e-9, "two of forty");
    assert_eq!(Summary::of(&[0.0]).expect("an error").mean_db, MOST_DB);
    assert!(Summary::of(&[]).is_none() && Summary::of(&[f64::NAN]).is_none());
}

proptest! {
    #[test]
    fn even_errors_are_the_same_in_every_metric(
        samples in proptest::collection::vec(0u8..=200, 128),
        error in 0u8..50,
    ) {
        let wrong: Vec<u8> = samples.iter().map(|sample| sample + error).collect();
        let (a, b) = (plane(&samples, 16), plane(&wrong, 16));
        let expected = f64::from(error) * f64::from(error);
        prop_assert!((mse(&a, &b).expect("equal sizes") - expected).abs() < 1e-9);
        let ws = ws_mse(&a, &b, EQUIRECTANGULAR).expect("equal sizes");
        prop_assert!((ws - expected).abs() < 1e-9);
        let points = SpherePoints::new(500).mse((&a, EQUIRECTANGULAR), (&b, EQUIRECTANGULAR));
        prop_assert!((points - expected).abs() < 1e-9);
    }

    #[test]
    fn pooled_is_never_above_the_mean(errors in proptest::collection::vec(0.01f64..5000.0, 1..60)) {
        let summary = Summary::of(&errors).expect("errors");
        prop_assert!(summary.pooled_db <= summary.mean_db + 1e-9);
        prop_assert!(summary.worst_db <= summary.pooled_db + 1e-9);
    }
}
