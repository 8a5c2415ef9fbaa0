//! Small videos made by ffmpeg, with boxes added to their containers: every way of storing a picture is converted or
//! refused.

use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::program::name_of;

const CODEC: [&str; 6] = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"];

/// Half a second of ffmpeg's test picture.
fn clip(directory: &TempDir, name: &str, size: &str, output: &[&str]) -> PathBuf {
    let path = directory.path().join(name);
    let mut command = Command::new("ffmpeg");
    command.args([
        "-nostdin",
        "-v",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        &format!("testsrc2=s={size}:r=10:d=0.5"),
    ]);
    let made = command.args(CODEC).args(output).arg(&path).status();
    assert!(made.expect("ffmpeg is installed (apt-get install ffmpeg)").success(), "{name}");
    path
}

/// MD5 of the first picture after `filter`, and its size.
fn picture(path: &Path, input: &[&str], filter: &str) -> String {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error"]).args(input).arg("-i").arg(name_of(path));
    command.args(["-vf", filter, "-frames:v", "1", "-f", "framemd5", "-"]);
    let output = command.output().expect("ffmpeg is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

/// Whether the filters give a picture of the announced size.
fn works(path: &Path, upright: &Upright) -> bool {
    let (width, height) = upright.size;
    let filters: Vec<&str> = upright.filters.iter().map(String::as_str).collect();
    let scale = format!("scale={width}:{height},setsar=1,format=yuv420p");
    let filter = filters.iter().copied().chain([scale.as_str()]).collect::<Vec<_>>().join(",");
    picture(path, &["-noautorotate"], &filter).contains(&format!(" {},", width * height * 3 / 2))
}

fn flat(path: &Path) -> Upright {
    upright(path, Use::Flat).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(path: &Path, of: Use) -> String {
    upright(path, of).expect_err("refused").to_string()
}

/// A box of an MP4 file.
fn boxed(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes(), name.as_slice(), body].concat()
}

/// Adds `more` to the end of the video's sample entry. The media comes before `moov`, so that nothing else moves.
fn with_box(path: &Path, more: &[u8]) {
    let mut bytes = fs::read(path).expect("there");
    let mut within = 0..bytes.len();
    for (name, head) in
        [("moov", 0), ("trak", 0), ("mdia", 0), ("minf", 0), ("stbl", 0), ("stsd", 8), ("avc1", 78)]
    {
        let mut at = within.start;
        let size = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
        while &bytes[at + 4..at + 8] != name.as_bytes() {
            at += size(at);
            assert!(at < within.end, "{name}");
        }
        let old = size(at);
        within = at + 8 + head..at + old;
        bytes.splice(at..at + 4, ((old + more.len()) as u32).to_be_bytes());
    }
    bytes.splice(within.end..within.end, more.iter().copied());
    fs::write(path, bytes).expect("written");
}

/// Gives the video track this display matrix.
fn with_matrix(path: &Path, [a, b, c, d]: [i32; 4]) {
    let mut bytes = fs::read(path).expect("there");
    let header = bytes.windows(4).position(|name| name == b"tkhd").expect("a track");
    let (one, whole) = (1 << 16, 1 << 30);
    let matrix = [a * one, b * one, 0, c * one, d * one, 0, 0, 0, whole];
    let matrix: Vec<u8> = matrix.iter().flat_map(|number: &i32| number.to_be_bytes()).collect();
    bytes.splice(header + 44..header + 80, matrix);
    fs::write(path, bytes).expect("written");
}

#[test]
fn every_rotation_and_mirror_is_undone_as_ffmpeg_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = clip(&directory, "turned.mp4", "64x32", &[]);
    assert_eq!(flat(&path).filters, Vec::<String>::new());
    for matrix in [
        [0, 1, -1, 0],
        [-1, 0, 0, -1],
        [0, -1, 1, 0],
        [-1, 0, 0, 1],
        [1, 0, 0, -1],
        [0, 1, 1, 0],
        [0, -1, -1, 0],
    ] {
        with_matrix(&path, matrix);
        let upright = flat(&path);
        let lying = matrix[0] == 0;
        assert_eq!(upright.size, if lying { (32, 64) } else { (64, 32) }, "{matrix:?}");
        assert_eq!((upright.notes.len(), works(&path, &upright)), (1, true), "{matrix:?}");
        // ffmpeg's own rotation ignores a mirror without a rotation in some versions, so those are compared with filters.
        let expected = match matrix {
            [-1, 0, 0, 1] => picture(&path, &["-noautorotate"], "hflip"),
            [1, 0, 0, -1] => picture(&path, &["-noautorotate"], "vflip"),
            _ => picture(&path, &[], "null"),
        };
        assert_eq!(picture(&path, &["-noautorotate"], &upright.filters.join(",")), expected, "{matrix:?}");
    }
    with_matrix(&path, [1, 1, -1, 1]);
    assert!(
        refused(&path, Use::Flat).contains("no multiple of 90°; convert it first: ffmpeg -i IN -vf rotate")
    );
}

#[test]
fn pixels_become_square() {
    let directory = tempfile::tempdir().expect("a directory");
    for (shape, size) in [("4/3", (86, 32)), ("1/2", (64, 64)), ("1/1", (64, 32)), ("0/1", (64, 32))] {
        let path = clip(&directory, "shape.mp4", "64x32", &["-vf", &format!("setsar={shape}")]);
        let upright = flat(&path);
        assert_eq!((upright.size, upright.notes.is_empty()), (size, size == (64, 32)), "{shape}");
        assert!(works(&path, &upright), "{shape}");
    }
    let path = clip(&directory, "lying.mp4", "64x32", &["-vf", "setsar=2"]);
    with_matrix(&path, [0, 1, -1, 0]);
    assert_eq!(flat(&path).size, (32, 128), "the pixels' shape is that of the stored picture");
    let path = clip(&directory, "odd.mp4", "64x32", &["-vf", "setsar=99"]);
    assert!(refused(&path, Use::Flat).contains("99:1"), "{}", refused(&path, Use::Flat));
}

#[test]
fn both_eyes_of_a_stereo_picture_are_put_above_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    for (mode, size, eyes, filter, whole) in [
        ("top_bottom", "64x64", Eyes::Both, None, (64, 64)),
        ("bottom_top", "64x64", Eyes::Both, Some("stereo3d=abr:abl"), (64, 64)),
        ("top_bottom", "64x32", Eyes::Both, None, (64, 64)),
        ("left_right", "128x32", Eyes::Both, Some("stereo3d=sbsl:abl"), (64, 64)),
        ("right_left", "128x32", Eyes::Both, Some("stereo3d=sbsr:abl"), (64, 64)),
        ("mono", "64x64", Eyes::TopBottom, None, (64, 64)),
        ("left_right", "64x64", Eyes::TopBottom, None, (64, 64)),
    ] {
        let path = clip(&directory, "stereo.mkv", size, &["-metadata:s:v", &format!("stereo_mode={mode}")]);
        let upright = super::upright(&path, Use::Sphere(eyes)).expect("both eyes");
        assert_eq!((upright.eyes, upright.view, upright.size), (2, None, whole), "{mode} {size}");
        assert_eq!(upright.filters.first().map(String::as_str), filter, "{mode} {size}");
        assert!(upright.notes[0].starts_with("stereo: both eyes") && works(&path, &upright), "{mode} {size}");
    }
    let mono = clip(&directory, "mono.mkv", "64x32", &[]);
    assert_eq!(super::upright(&mono, Use::Sphere(Eyes::Both)).expect("one eye").eyes, 1);
    let odd = clip(&directory, "odd.mkv", "64x62", &[]);
    assert!(refused(&odd, Use::Sphere(Eyes::TopBottom)).contains("not two equal top-bottom pictures"));
}

#[test]
fn one_eye_of_a_stereo_picture_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let stereo = |mode: &str, size: &str| {
        clip(&directory, "stereo.mkv", size, &["-metadata:s:v", &format!("stereo_mode={mode}")])
    };
    for (mode, size, crop, sphere) in [
        ("left_right", "64x32", "crop=32:32:0:0", (32, 32)),
        ("right_left", "64x32", "crop=32:32:32:0", (32, 32)),
        ("left_right", "128x32", "crop=64:32:0:0", (64, 32)),
        ("top_bottom", "64x64", "crop=64:32:0:0", (64, 32)),
        ("bottom_top", "64x64", "crop=64:32:0:32", (64, 32)),
        ("top_bottom", "64x32", "crop=64:16:0:0", (64, 32)),
    ] {
        let path = stereo(mode, size);
        let upright = super::upright(&path, Use::Sphere(Eyes::Left)).expect("one eye");
        assert_eq!((upright.filters[0].as_str(), upright.size), (crop, sphere), "{mode} {size}");
        assert!(
            upright.notes[0].starts_with("stereo: the left eye") && works(&path, &upright),
            "{mode} {size}"
        );
    }
    assert_eq!(
        flat(&stereo("top_bottom", "64x32")).size,
        (64, 16),
        "only a panorama is known to be squeezed"
    );
    assert_eq!(flat(&stereo("mono", "64x32")).view, None);
    for mode in ["row_interleaved_lr", "checkerboard_lr", "block_lr"] {
        let error = refused(&stereo(mode, "64x32"), Use::Sphere(Eyes::Left));
        assert!(
            error.contains("stereo in a way that is not converted") && error.contains("stereo3d="),
            "{error}"
        );
    }
}

#[test]
fn only_a_whole_equirectangular_sphere_is_tiled() {
    let directory = tempfile::tempdir().expect("a directory");
    let header = boxed(b"prhd", &[0; 16]);
    let spherical = |name: &str, projection: Vec<u8>, pose: Option<[i32; 3]>| {
        let path = clip(&directory, name, "64x32", &[]);
        let header = pose.map_or(header.clone(), |pose| {
            let angles = pose.iter().flat_map(|angle| (angle << 16).to_be_bytes());
            boxed(b"prhd", &[0; 4].into_iter().chain(angles).collect::<Vec<u8>>())
        });
        let svhd = boxed(b"svhd", b"\0\0\0\0test\0");
        with_box(&path, &boxed(b"sv3d", &[svhd, boxed(b"proj", &[header, projection].concat())].concat()));
        path
    };
    let whole = spherical("whole.mp4", boxed(b"equi", &[0; 20]), None);
    assert_eq!(upright(&whole, Use::Sphere(Eyes::Left)).expect("a panorama").notes, Vec::<String>::new());
    let part = [[0; 4], [0; 4], [0; 4], [0x40, 0, 0, 0], [0x40, 0, 0, 0]].concat();
    let part = spherical("part.mp4", boxed(b"equi", &part), None);
    let cube = spherical("cube.mp4", boxed(b"cbmp", &[0; 12]), None);
    let mesh = spherical("mesh.mp4", boxed(b"mshp", &[0; 12]), None);
    let turned = spherical("turned.mp4", boxed(b"equi", &[0; 20]), Some([30, 0, 0]));
    for (path, said) in [
        (&part, "only a part of the sphere"),
        (&cube, "its projection is cubemap"),
        (&mesh, "its projection is mesh"),
        (&turned, "v360=e:e:yaw=30"),
    ] {
        let error = refused(path, Use::Sphere(Eyes::Left));
        assert!(error.contains(said) && error.contains("ffmpeg -i IN -vf v360="), "{error}");
        let note = &flat(path).notes[0];
        assert!(note.contains("spherical"), "{note}");
    }
    // Two square eyes of a whole sphere are squeezed.
    let eyes = spherical("eyes.mp4", boxed(b"equi", &[0; 20]), None);
    with_box(&eyes, &boxed(b"st3d", &[0, 0, 0, 0, 2]));
    let eyes = upright(&eyes, Use::Sphere(Eyes::Left)).expect("one eye");
    assert_eq!((eyes.size, eyes.notes.len()), ((64, 32), 2), "{eyes:?}");
}

#[test]
fn high_dynamic_range_is_tone_mapped() {
    let directory = tempfile::tempdir().expect("a directory");
    let tagged = |name: &str, curve: &str| {
        let colours = ["-color_primaries", "bt2020", "-color_trc", curve, "-colorspace", "bt2020nc"];
        clip(&directory, name, "64x32", &[&["-pix_fmt", "yuv420p10le"], &colours[..]].concat())
    };
    for (curve, note) in [
        ("smpte2084", "tone-mapped from HDR (PQ) to BT.709"),
        ("arib-std-b67", "tone-mapped from HDR (HLG) to BT.709"),
        ("bt2020-10", "colours converted from BT.2020 to BT.709"),
    ] {
        let path = tagged("hdr.mp4", curve);
        let upright = flat(&path);
        assert_eq!((upright.notes.as_slice(), works(&path, &upright)), (&[note.to_owned()][..], true));
        // The result carries the tags of what it is.
        let out = directory.path().join("sdr.mp4");
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-y", "-i"]).arg(name_of(&path));
        command.args(["-vf", &upright.filters.join(",")]).args(CODEC).arg(&out);
        assert!(command.status().expect("ffmpeg is installed").success());
        let stream = ffprobe::stream(&out).expect("a video");
        let tags = [stream.color_transfer, stream.color_primaries, stream.color_space]
            .map(Option::unwrap_or_default);
        assert_eq!(tags, ["bt709"; 3], "{curve}");
    }
    let full = clip(&directory, "full.mp4", "64x32", &["-vf", "scale=out_range=full", "-color_range", "pc"]);
    let upright = flat(&full);
    assert_eq!(
        (upright.notes.as_slice(), works(&full, &upright)),
        (&["converted from full to limited range".to_owned()][..], true)
    );
}

#[test]
fn interlaced_and_cropped_pictures_are_not_taken_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let interlaced =
        clip(&directory, "fields.mp4", "64x32", &["-flags", "+ilme+ildct", "-x264-params", "tff=1"]);
    let upright = flat(&interlaced);
    assert_eq!(
        (upright.notes.as_slice(), works(&interlaced, &upright)),
        (&["deinterlaced".to_owned()][..], true)
    );
    let cropped = clip(&directory, "cropped.mp4", "64x32", &[]);
    let aperture = [60, 1, 30, 1, 0, 1, 0, 1].iter().flat_map(|n: &u32| n.to_be_bytes()).collect::<Vec<_>>();
    with_box(&cropped, &boxed(b"clap", &aperture));
    let error = refused(&cropped, Use::Flat);
    assert!(error.contains("only 60×30 of its 64×32 pixels") && error.contains("crop=60:30:2:1"), "{error}");
}
