//! Real ffmpeg as sender, on loopback and in files.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use tributary_video::projection::Projection;

use super::*;
use crate::decode::{self, TileData};

const SIZE: (usize, usize) = (128, 64);

fn settings(grid: &str) -> Settings {
    Settings {
        grid: TileGrid::parse(grid, Projection::Equirectangular).expect("a grid"),
        eyes: Eyes::Left,
        qps: vec![20, 40],
        size: None,
        seconds: None,
        rate: None,
        any_aspect: false,
        preset: "ultrafast".to_owned(),
        sound: false,
        jobs: None,
    }
}

/// ffmpeg's test picture for so many seconds, with the arguments of its reading and of an output.
fn sent(seconds: u32, pace: &[&str], output: &[&str]) -> Child {
    let input = format!("testsrc2=s={}x{}:r=10:d={seconds}", SIZE.0, SIZE.1);
    let mut command = Command::new("ffmpeg");
    command
        .args(["-nostdin", "-v", "error", "-y"])
        .args(pace)
        .args(["-f", "lavfi", "-i", &input, "-f", "lavfi", "-i", "sine=d=1"]);
    command.args(output).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("ffmpeg")
}

fn file(directory: &Path, name: &str, output: &[&str]) -> PathBuf {
    let path = directory.join(name);
    let path_text = path.to_str().expect("a path").to_owned();
    let status = sent(2, &[], &[output, &[path_text.as_str()]].concat()).wait().expect("it ends");
    assert!(status.success());
    path
}

const VIDEO: [&str; 4] = ["-map", "0:v", "-c:v", "libx264"];

/// The GoPs of a source, to its end or until there are `most`.
fn gops(live: &Live, most: usize) -> Result<Vec<LiveGop>, LiveError> {
    let (stop, found) = (Stop::default(), Mutex::new(Vec::new()));
    live.run(&stop, &|event| {
        if let Event::Gop(gop) = event {
            let mut found = found.lock().unwrap();
            found.push(gop);
            if found.len() == most {
                stop.stop();
            }
        }
    })?;
    Ok(found.into_inner().unwrap())
}

fn refused(source: &str, settings: Settings) -> String {
    let input = source.parse::<Input>().expect("a source");
    let ended = Live::new(input, settings, 0.5).and_then(|live| gops(&live, 1));
    ended.map(|_| ()).expect_err("it is refused").to_string()
}

#[test]
fn sources_are_parsed_and_others_refused_by_name() {
    let stream = |text: &str| match text.parse::<Input>() {
        Ok(Input::Stream { url, listens, .. }) => (url, listens),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(stream("rtmp://h/live/a"), ("rtmp://h/live/a".to_owned(), false));
    assert_eq!(stream("rtmp://h/live/a?mode=listener"), ("rtmp://h/live/a".to_owned(), true));
    assert_eq!(stream("rtmp://h/a?k=1&mode=listener"), ("rtmp://h/a?k=1".to_owned(), true));
    assert_eq!(stream("srt://:9000?mode=listener"), ("srt://:9000?mode=listener".to_owned(), true));
    assert_eq!("/dev/null".parse::<Input>(), Ok(Input::Camera("/dev/null".into())));
    for bad in ["", "http://h/x.mp4", "rtmp://", "srt://h?a b", "/no/such/file", "concat:a|b", "-i"] {
        let error = bad.parse::<Input>().expect_err("no source").to_string();
        assert!(error.contains("no live source") && error.contains("rtmp://"), "{error}");
    }
    let absent = "/no/such/file".parse::<Input>().expect_err("no source").to_string();
    assert!(
        absent.starts_with("`/no/such/file` is no live source, and there is no such file: give "),
        "{absent}"
    );
    // A stream's key is not shown.
    assert_eq!("srt://h:1?passphrase=x".parse::<Input>().map(|i| i.to_string()), Ok("srt://h:1".to_owned()));
}

#[test]
fn a_file_becomes_gops_of_tiles_that_decode_to_its_pictures() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), "a.mp4", &VIDEO);
    let live = Live::new(Input::File(path), settings("4x2"), 0.5).expect("it fits");
    let gops = gops(&live, usize::MAX).expect("it is encoded");
    assert!((1..=4).contains(&gops.len()), "{} GoPs", gops.len());
    for (number, gop) in gops.iter().enumerate() {
        assert_eq!((gop.number, gop.tiles.cells.len()), (number as u32, 8));
        let all = &gop.tiles;
        for tile in 0..8 {
            let data = TileData { init: &all.inits[tile][0], segment: &all.segments[tile][0] };
            let pictures = decode::tile(data, (32, 32), 5).expect("it decodes");
            assert_eq!(pictures.len(), 5);
            assert_eq!(all.cells[tile].bytes[0], all.segments[tile][0].len() as u64);
            // The picture is bright; a black tile would be as far from it as the table says.
            let light =
                pictures[0].luma().samples().iter().map(|luma| f64::from(*luma)).sum::<f64>() / 1024.0;
            assert!(light > 20.0 && all.cells[tile].black_mse > 100.0, "tile {tile}: {light}");
        }
        // Half as wide, one tile in one quality.
        let low = gop.low.as_ref().expect("a low-resolution stream");
        let data = TileData { init: &low.inits[0][0], segment: &low.segments[0][0] };
        let pictures = decode::tile(data, (64, 32), 5).expect("it decodes");
        assert_eq!((pictures.len(), low.cells.len(), low.cells[0].bytes.len()), (5, 1, 1));
        let light = pictures[0].luma().samples().iter().map(|luma| f64::from(*luma)).sum::<f64>() / 2048.0;
        assert!(light > 20.0 && low.cells[0].black_mse > 100.0, "{light}");
    }
}

#[test]
fn what_comes_at_once_waits_and_later_one_gop() {
    let mut allowed = Waiting::of(2);
    assert!(allowed.takes(0) && allowed.takes(1) && !allowed.takes(2), "a third");
    // Still the first ones.
    assert!(allowed.takes(1));
    assert!(allowed.takes(0) && !allowed.takes(1) && allowed.takes(0), "one may wait");
}

#[test]
fn without_a_low_resolution_stream_none_is_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), "a.mp4", &VIDEO);
    let live = Live::new(Input::File(path), settings("4x2"), 0.5).expect("it fits").without_low_resolution();
    assert!(gops(&live, usize::MAX).expect("it is encoded").iter().all(|gop| gop.low.is_none()));
}

#[test]
fn unsuitable_sources_are_refused_with_the_way_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = file(directory.path(), "a.mp4", &VIDEO);
    let sound = file(directory.path(), "s.m4a", &["-map", "1:a"]);
    let flat = file(directory.path(), "f.mp4", &[&VIDEO[..], &["-vf", "scale=128:96,setsar=1"]].concat());
    let text = directory.path().join("t.mp4");
    std::fs::write(&text, "no video").expect("it is written");
    let said = |path: &Path, grid: &str| refused(path.to_str().expect("a path"), settings(grid));
    assert!(said(&sound, "4x2").contains("no video track"), "{}", said(&sound, "4x2"));
    assert!(said(&flat, "4x2").contains("--any-aspect"), "{}", said(&flat, "4x2"));
    assert!(said(&good, "7x2").contains("--size"), "{}", said(&good, "7x2"));
    assert!(said(&text, "4x2").contains("not a video"), "{}", said(&text, "4x2"));
    assert!(refused("/dev/null", settings("4x2")).starts_with("the source /dev/null failed: "));
    let nobody = refused("rtmp://127.0.0.1:1/live/a", settings("4x2"));
    assert!(nobody.contains("rtmp://127.0.0.1:1/live/a failed: ") && nobody.contains("refused"), "{nobody}");
    assert!(
        nobody.ends_with("start the program that has the stream, or wait for a sender with ?mode=listener")
    );
    // Neither log nor viewers get to know the secret.
    let secret = refused("srt://127.0.0.1:1?passphrase=0123456789", settings("4x2"));
    assert!(secret.contains("srt://127.0.0.1:1 failed: ") && !secret.contains("0123456789"), "{secret}");
    assert!(secret.contains("?mode=listener waits for one"), "{secret}");
}

/// A port that was free a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

#[test]
fn a_stream_that_is_waited_for_goes_on_with_its_next_sender() {
    for (source, output) in [("rtmp://127.0.0.1:PORT/live/a", "flv"), ("srt://127.0.0.1:PORT", "mpegts")] {
        let url = source.replace("PORT", &port().to_string());
        let live = Live::new(format!("{url}?mode=listener").parse().unwrap(), settings("2x1"), 0.2).unwrap();
        let (stop, seen) = (Stop::default(), Mutex::new((Vec::new(), 0)));
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                // Until it listens, ffmpeg is refused; each connection after that sends two seconds.
                while !stop.is_stopped() {
                    let coding =
                        [&VIDEO[..], &["-preset", "ultrafast", "-g", "5", "-f", output, url.as_str()]]
                            .concat();
                    // At once, SRT would drop most of it.
                    let _ = sent(2, &["-re"], &coding).wait();
                }
            });
            let ran = live.run(&stop, &|event| {
                let mut seen = seen.lock().unwrap();
                match event {
                    Event::Gop(gop) => {
                        seen.0.push(gop.number);
                        if seen.1 > 0 {
                            stop.stop();
                        }
                    }
                    Event::Away(_) if !seen.0.is_empty() => seen.1 += 1,
                    _ => {}
                }
            });
            stop.stop();
            sending.join().expect("it sends");
            ran.unwrap_or_else(|error| panic!("{source}: {error}"));
        });
        let (numbers, away) = seen.into_inner().unwrap();
        assert!(away >= 1 && numbers.iter().copied().eq(0..numbers.len() as u32), "{source}: {numbers:?}");
    }
}

#[test]
fn two_sources_on_one_port_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = refused(&format!("rtmp://127.0.0.1:{port}/live/a?mode=listener"), settings("2x1"));
    assert!(text.contains("in use; end the program that listens there, or take another port"), "{text}");
}
