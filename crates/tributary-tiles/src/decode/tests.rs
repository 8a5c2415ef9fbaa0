//! Tiles from one encoder decode with one decoder, alone and all together; the damaged tile is named.

use std::io::Write;

use tributary_video::metrics::{mse, psnr_db};

use super::*;
use crate::encode::Encoder;
use crate::mp4::{Parameters, Timing, init_segment, media_segment};
use crate::rate::FrameRate;

const SIZE: (usize, usize) = (64, 48);
const PICTURES: usize = 5;

/// A moving pattern, different for each tile.
fn source(tile: usize, picture: usize) -> Picture {
    let mut made = Picture::black(SIZE.0, SIZE.1).expect("a size");
    let [luma, ..] = made.planes_mut();
    for (at, sample) in luma.iter_mut().enumerate() {
        let (x, y) = (at % SIZE.0 + 2 * picture, at / SIZE.0);
        *sample = (40 + tile * 40 + (x * 2 + y) % 80) as u8;
    }
    made
}

fn encoder() -> Encoder {
    let rate = FrameRate::new(5, 1).expect("a rate");
    Encoder { preset: "ultrafast".to_owned(), rate, pictures_per_gop: PICTURES }
}

/// Initialisation and media segments of three tiles.
fn segments() -> Vec<(Vec<u8>, Vec<u8>)> {
    let feed = |input: &mut std::process::ChildStdin| {
        let mut pictures = (0..3).flat_map(|tile| (0..PICTURES).map(move |p| source(tile, p)));
        pictures.try_for_each(|picture| input.write_all(picture.samples()))
    };
    let streams = encoder().encode(SIZE, (20, 3), feed).expect("ffmpeg encodes");
    let timing = Timing::of(encoder().rate);
    let segment = |stream: &Vec<u8>| {
        let parameters = Parameters::of(stream).expect("parameters");
        let media = media_segment(stream, (1, 0), timing).expect("pictures");
        (init_segment(&parameters, (SIZE.0 as u16, SIZE.1 as u16), timing), media)
    };
    streams.iter().map(segment).collect()
}

fn data(segments: &[(Vec<u8>, Vec<u8>)]) -> Vec<TileData<'_>> {
    segments.iter().map(|(init, segment)| TileData { init, segment }).collect()
}

#[test]
fn all_tiles_at_once_are_each_tile_alone_and_near_the_source() {
    let segments = segments();
    let all = tiles(&data(&segments), SIZE, PICTURES).expect("they decode");
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [PICTURES; 3]);
    for (number, pictures) in all.iter().enumerate() {
        let alone = tile(data(&segments)[number], SIZE, PICTURES).expect("it decodes alone");
        assert!(*pictures == alone, "tile {number}");
        for (at, picture) in pictures.iter().enumerate() {
            let original = source(number, at);
            let error = mse(&picture.luma(), &original.luma()).expect("one size");
            assert!(psnr_db(error) > 35.0, "tile {number}, picture {at}: {error}");
        }
    }
}

#[test]
fn a_damaged_tile_is_named() {
    let mut segments = segments();
    let last = segments[1].1.len();
    segments[1].1.truncate(last - 10);
    let error = tiles(&data(&segments), SIZE, PICTURES).expect_err("cut short");
    assert!(matches!(error, DecodeError::Container { tile: 1, .. }), "{error}");

    let mut segments = self::segments();
    // Damage the first slice's data; the container stays valid.
    let at = segments[2].1.windows(4).position(|w| w == b"mdat").expect("data") + 10;
    segments[2].1[at..at + 40].fill(0);
    let error = tiles(&data(&segments), SIZE, PICTURES).expect_err("no pictures");
    assert!(matches!(error, DecodeError::Tile { tile: 2, .. }), "{error}");
}

#[test]
fn another_size_or_number_of_pictures_is_refused() {
    let segments = segments();
    for size in [(48, 64), (32, 24), (64, 64), (0, 0)] {
        assert!(tiles(&data(&segments), size, PICTURES).is_err(), "{size:?}");
    }
    for pictures in [0, PICTURES - 1, PICTURES + 1] {
        assert!(tiles(&data(&segments), SIZE, pictures).is_err(), "{pictures}");
    }
    assert!(tiles(&[], SIZE, PICTURES).expect("nothing to do").is_empty());
}

#[test]
fn one_bad_tile_of_many_is_found_with_few_decoders() {
    for bad in 0..32 {
        let mut calls = 0;
        let error = first_bad(32, |tiles| {
            calls += 1;
            let reason = "damaged".to_owned();
            if tiles.contains(&bad) { Err(DecodeError::Tile { tile: 0, reason }) } else { Ok(()) }
        });
        assert!(matches!(error, DecodeError::Tile { tile, .. } if tile == bad), "{error}");
        assert!(calls <= 6, "{calls} decoders for tile {bad}");
    }
}
