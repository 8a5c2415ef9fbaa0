//! Traces and their readers: sample texts, every error, and the public data sets if they are beside the
//! checkout.

use std::fs::{self, File};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn plain(text: &str) -> Result<HeadTrace, ReadError> {
    read(text.as_bytes(), Format::Plain)
}

fn fault(text: &str, format: Format) -> String {
    read(text.as_bytes(), format).expect_err("the text is faulty").to_string()
}

fn yaw_deg(trace: &HeadTrace, index: usize) -> f64 {
    trace.samples()[index].orientation.yaw.to_degrees()
}

#[test]
fn a_trace_can_start_later() {
    let trace = plain("time_s,yaw_deg,pitch_deg\n0,0,0\n1,10,0\n2,20,0\n").expect("a trace");
    let later = trace.starting_at(0.5).expect("two samples remain");
    assert!((yaw_deg(&later, 0) - 5.0).abs() < 1e-9);
    assert_eq!((later.samples().len(), later.duration_s()), (3, 1.5));
    assert!(matches!(trace.starting_at(2.0), Err(TraceError::Few { samples: 1 })));
}

#[test]
fn plain_columns_in_any_order() {
    let trace = plain("\u{feff}pitch_deg,time_s,yaw_deg\r\n5,10.5,30\r\n\r\n6,10.6,31\r\n").expect("a trace");
    assert_eq!(trace.samples().len(), 2);
    assert_eq!(trace.samples()[0].time_s, 0.0, "time starts at 0");
    assert!((yaw_deg(&trace, 1) - 31.0).abs() < 1e-9);
    assert!((trace.samples()[0].orientation.pitch.to_degrees() - 5.0).abs() < 1e-9);
    assert_eq!(trace.samples()[0].orientation.roll, 0.0);
}

#[test]
fn faults_name_line_and_field() {
    let faults = [
        ("time_s,yaw_deg,pitch_deg\n0,0,0\n0.1,NaN,0\n", "line 3, field yaw_deg: `NaN` is not finite"),
        ("time_s,yaw_deg,pitch_deg\n0,0,0\n0.1,0,left\n", "line 3, field pitch_deg: `left` is not a number"),
        ("time_s,yaw_deg,pitch_deg\n0,0,91\n", "line 2, field pitch_deg: `91` is not in ±90°"),
        ("time_s,yaw_deg,pitch_deg\n1,0,0\n0.5,0,0\n", "line 3, field time_s: 0.5 s comes before the 1 s"),
        ("time_s,yaw_deg,pitch_deg\n1,0,0\n1,0,0\n", "a trace of 1 samples"),
        ("time_s,yaw_deg,pitch_deg\n0,0\n", "line 2 has 2 fields; plain has 3: time_s, yaw_deg, pitch_deg"),
        ("time_s,yaw_deg,pitch_deg,mood\n", "line 1 names a column `mood`"),
        ("time_s,yaw_deg,yaw_deg\n", "line 1 names column `yaw_deg` twice"),
        ("time_s,yaw_deg\n", "line 1 does not name column `pitch_deg`"),
        ("time_s,yaw_deg,pitch_deg\n0,0,0\n", "a trace of 1 samples"),
        ("time_s,yaw_deg,pitch_deg\n", "a trace of 0 samples"),
    ];
    for (text, message) in faults {
        let found = fault(text, Format::Plain);
        assert!(found.contains(message), "{found} should say {message}");
    }
    assert!(fault("", Format::Plain).contains("column ``"));
    let ambiguous = fault("time_s,x;time_s\n", Format::Plain);
    assert!(ambiguous.contains("separated by comma or semicolon"), "{ambiguous}");
    let hidden = fault("time_s,yaw\u{301}_deg,pitch_deg\n", Format::Plain);
    assert!(hidden.contains("plain:time_s=NAME"), "{hidden}");
    let long = format!("time_s,yaw_deg,pitch_deg\n{}\n", "1".repeat(5000));
    assert!(fault(&long, Format::Plain).contains("line 2 makes the file longer"));
    let latin = read(&b"0,0,0\n1,0,\xe9"[..], Format::Jin22).expect_err("Latin-1").to_string();
    assert!(latin.contains("line 2") && latin.contains("save the file as UTF-8"), "{latin}");
}

#[test]
fn faults_of_the_data_sets_formats() {
    assert!(fault("0,0.5,1.5\n", Format::Jin22).contains("line 1, field y: `1.5` is not in 0…1"));
    assert!(fault("0,0,0,0,2,0,0,1\n", Format::Nasrabadi19).contains("field qx: `0` is the quaternion's"));
    assert!(fault("0,1,2\n", Format::Wu17).contains("line 1 has 3 fields; wu17 has 4"));
    assert!(fault("0,181,0,0\n", Format::Wu17).contains("field roll_deg"));
    let unknown = "vive".parse::<Format>().expect_err("no such format").to_string();
    assert!(unknown.contains("nasrabadi19, jin22, wu17, plain"), "{unknown}");
}

#[test]
fn marks_separators_and_encodings_change_nothing() {
    for (format, text) in [
        (Format::Jin22, "7,0.75,0.5\n7.1,0.5,0.5\n"),
        (Format::Wu17, "0,0,0,90\n0.1,0,0,0\n"),
        (Format::Plain, "time_s,yaw_deg,pitch_deg\n5,90,0\n5.1,0,0\n"),
    ] {
        let expected = read(text.as_bytes(), format.clone()).expect("a trace");
        let marked = format!("\u{feff}{text}");
        let utf_16 = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for bytes in [
            marked.clone().into_bytes(),
            utf_16,
            text.replace(',', ";").into_bytes(),
            text.replace(',', "\t").replace('\n', "\r\n").into_bytes(),
            text.replace('\n', "\r").into_bytes(),
        ] {
            let trace = read(&bytes[..], format.clone());
            assert_eq!(trace.unwrap_or_else(|error| panic!("{format}: {error}")), expected, "{format}");
        }
    }
}

#[test]
fn columns_with_other_names_are_read_by_option() {
    let format: Format =
        "plain:time_s=PlaybackTime (s),yaw_deg=Yaw,pitch_deg=Pitch".parse().expect("a format");
    assert_eq!(format.to_string().parse(), Ok(format.clone()));
    let text = "User;Yaw;Pitch;PlaybackTime (s)\nanna;10;5;3\nanna;20;5;4\n";
    let trace = read(text.as_bytes(), format.clone()).expect("a trace");
    assert!((yaw_deg(&trace, 1) - 20.0).abs() < 1e-9 && trace.duration_s() == 1.0);
    let error = fault("User,Yaw,Time\n", format.clone());
    assert!(
        error.contains("line 1 does not name column `PlaybackTime (s)`; it names `User`, `Yaw`, `Time`"),
        "{error}"
    );
    let error = fault("Yaw,Pitch,PlaybackTime (s)\nup,0,0\n", format);
    assert!(error.contains("line 2, field Yaw: `up`"), "{error}");
    for name in ["plain:", "plain:yaw=Yaw", "plain:yaw_deg=", "planar"] {
        let error = name.parse::<Format>().expect_err(name).to_string();
        assert!(error.contains("plain:time_s=NAME"), "{error}");
    }
}

#[test]
fn samples_at_the_same_time_are_their_mean() {
    let trace =
        plain("time_s,yaw_deg,pitch_deg\n1,0,0\n2,170,10\n2,-170,20\n2,180,30\n3,0,0\n").expect("a trace");
    assert_eq!(trace.samples().len(), 3);
    assert!((yaw_deg(&trace, 1).abs() - 180.0).abs() < 1.0, "{}", yaw_deg(&trace, 1));
    assert!((trace.samples()[1].orientation.pitch.to_degrees() - 20.0).abs() < 1.0);
}

#[test]
fn the_same_head_is_read_from_every_format() {
    // Turned 90° right: half a turn of the quaternion about the axis that points down.
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let turned = [
        (Format::Nasrabadi19, format!("0,0,{half},0,{half},1,0,0\n0.1,0,{half},0,{half},1,0,0\n")),
        (Format::Jin22, "7,0.75,0.5\n7.1,0.75,0.5\n".to_owned()),
        (Format::Wu17, "0,0,0,90\n0.1,0,0,90\n".to_owned()),
        (Format::Plain, "time_s,yaw_deg,pitch_deg\n0,90,0\n0.1,90,0\n".to_owned()),
    ];
    for (format, text) in turned {
        let trace = read(text.as_bytes(), format.clone()).expect("a trace");
        let Orientation { yaw, pitch, roll } = trace.samples()[1].orientation;
        assert!((yaw.to_degrees() - 90.0).abs() < 1e-4, "{format}: {yaw}");
        assert!(pitch.abs() < 1e-4 && roll.abs() < 1e-4, "{format}: {pitch} {roll}");
    }
}

#[test]
fn times_between_samples() {
    let trace = plain("time_s,yaw_deg,pitch_deg\n0,170,0\n1,-170,0\n3,-170,20\n").expect("a trace");
    assert!((trace.at(0.5).yaw.to_degrees().abs() - 180.0).abs() < 1e-6, "the short way round");
    assert!((trace.at(2.0).pitch.to_degrees() - 10.0).abs() < 0.1);
    assert_eq!(trace.at(-1.0), trace.samples()[0].orientation);
    assert_eq!(trace.at(99.0), trace.samples()[2].orientation);
    assert_eq!(trace.largest_gap_s(), 2.0);
    let yaw: Vec<f64> = trace.unwrapped_yaw().iter().map(|yaw| yaw.to_degrees().round()).collect();
    assert_eq!(yaw, [170.0, 190.0, 190.0]);
    let even = trace.resampled(10.0).expect("10 Hz");
    assert_eq!(even.samples().len(), 31);
    for rate_hz in [0.0, -1.0, f64::NAN, 1e9, 0.1] {
        assert!(trace.resampled(rate_hz).is_err(), "{rate_hz}");
    }
}

#[test]
fn short_traces_are_refused() {
    let trace = plain("time_s,yaw_deg,pitch_deg\n0,0,0\n10,0,0\n").expect("a trace");
    assert!(trace.require_duration(10.4).is_ok());
    let short = trace.require_duration(60.0).expect_err("too short").to_string();
    assert!(short.contains("ends at 10.000 s and the video at 60.000 s"), "{short}");
}

/// Traces of a data set beside the checkout; none if it is not there.
fn data(folder: &str) -> Vec<PathBuf> {
    let Some(set) = tributary_testing::data(folder) else { return Vec::new() };
    let entries = fs::read_dir(set).expect("a readable folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    assert!(!files.is_empty(), "no trace in {folder}");
    files
}

#[test]
fn the_public_data_sets_are_read() {
    let sets = [
        ("head-nasrabadi19/traces_1in4", Format::Nasrabadi19),
        ("head-nasrabadi19/traces_full", Format::Nasrabadi19),
        ("head-jin22/viewports_10Hz", Format::Jin22),
        ("head-wu17", Format::Wu17),
    ];
    for (folder, format) in sets {
        // Without the data sets, the formats are checked only with the sample texts above.
        for path in data(folder) {
            let file = File::open(&path).expect("a listed file opens");
            let trace =
                read(file, format.clone()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(trace.duration_s() > 50.0, "{}: {}", path.display(), trace.duration_s());
            assert!(trace.largest_gap_s() < 5.0, "{}: {}", path.display(), trace.largest_gap_s());
        }
    }
}

#[test]
fn a_quaternion_and_its_gaze_agree() {
    // A row in the data set's format, with the gaze direction beside the quaternion.
    let mut rows = vec!["0,0.085074,-0.008879,-0.0098767,0.99629,-0.019373,0.16934,0.98537".to_owned()];
    for path in data("head-nasrabadi19/traces_full").iter().take(1) {
        let text = fs::read_to_string(path).expect("a listed file opens");
        rows.extend(text.lines().map(str::to_owned));
    }
    for row in rows {
        let numbers: Vec<f64> = row.split(',').map(|text| text.trim().parse().expect("a number")).collect();
        let ahead = Format::Nasrabadi19.orientation(&numbers).expect("a rotation").ahead();
        let gaze = crate::sphere::Direction { x: numbers[5], y: numbers[6], z: numbers[7] };
        assert!(ahead.angle_to(gaze) < 1e-3, "{row}: {ahead:?}");
    }
}

#[test]
fn an_observed_movement_is_kept_for_a_while() {
    let at = |time_s, yaw| HeadSample { time_s, orientation: Orientation::from_degrees(yaw, 0.0, 0.0) };
    let mut trace = HeadTrace::still(Orientation::from_degrees(30.0, 0.0, 0.0));
    assert!((trace.at(-1.0).yaw.to_degrees() - 30.0).abs() < 1e-9);
    for tick in 1..=1000 {
        trace.observe(at(f64::from(tick) * 0.1, 30.0 + f64::from(tick) * 0.05), 1.0);
    }
    assert!(trace.samples().len() <= 13, "{}", trace.samples().len());
    assert!((trace.at(99.95).yaw.to_degrees() - 79.975).abs() < 1e-6, "{:?}", trace.at(99.95));
    assert_eq!(trace.samples()[0].time_s, 0.0);
    // What is not finite, or not new, changes nothing.
    for ignored in [at(f64::NAN, 0.0), at(101.0, f64::INFINITY), at(100.0, 0.0), at(5.0, 0.0)] {
        let before = trace.clone();
        trace.observe(ignored, 1.0);
        assert_eq!(trace, before);
    }
    // After a pause the movement begins where the head was.
    trace.observe(at(200.0, 0.0), 1.0);
    assert_eq!(trace.samples().iter().map(|sample| sample.time_s).collect::<Vec<_>>(), [0.0, 100.0, 200.0]);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[-0-9,.\nNa∞e]{0,200}") {
        for format in Format::NAMES {
            let _ = read(text.as_bytes(), format.parse().expect("a known name"));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes[..], Format::Plain);
    }

    #[test]
    fn resampled_poses_lie_between_the_samples(yaws in proptest::collection::vec(-180.0f64..180.0, 2..20)) {
        let sample = |(at, yaw): (usize, &f64)| HeadSample {
            time_s: at as f64 * 0.1,
            orientation: Orientation::from_degrees(*yaw, 0.0, 0.0),
        };
        let trace = HeadTrace::from_samples(yaws.iter().enumerate().map(sample).collect()).expect("a trace");
        let even = trace.resampled(10.0).expect("10 Hz");
        for (a, b) in trace.samples().iter().zip(even.samples()) {
            prop_assert!(a.orientation.ahead().angle_to(b.orientation.ahead()) < 1e-5);
        }
        let unwrapped = trace.unwrapped_yaw();
        prop_assert!(unwrapped.windows(2).all(|pair| (pair[1] - pair[0]).abs() <= std::f64::consts::PI + 1e-9));
    }
}
