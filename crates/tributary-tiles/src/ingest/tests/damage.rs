//! A damaged directory is refused when it is opened, or at the latest when the damaged file is read.

use super::*;
use crate::layout;

fn open(directory: &Path) -> TiledError {
    TiledVideo::open(directory).map(drop).expect_err("refused")
}

/// Changes a file, checks the error, and restores the file.
fn spoil(path: &Path, change: impl Fn(&mut Vec<u8>), refused: impl Fn()) {
    let whole = fs::read(path).expect("there");
    let mut changed = whole.clone();
    change(&mut changed);
    fs::write(path, changed).expect("written");
    refused();
    fs::write(path, whole).expect("written");
}

#[test]
fn damaged_files_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("tiles");
    assert!(matches!(open(&out), TiledError::NotIngested { .. }));
    let settings = Settings { seconds: Some(1), ..settings() };
    let video = make(&moving(&directory), &settings, &out).expect("an ingest");
    for name in [layout::TABLE, layout::RECORD, layout::SUMS] {
        let last = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
        spoil(&out.join(name), last, || assert!(matches!(open(&out), TiledError::Damaged { .. }), "{name}"));
    }
    let unknown = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(bytes).replacen("\"format\"", "\"colour\": 1, \"format\"", 1);
        *bytes = text.into_bytes();
    };
    spoil(&out.join(layout::RECORD), unknown, || {
        let error = open(&out).to_string();
        assert!(error.contains("ingest.json") && error.contains("colour"), "{error}");
    });
    let segment = out.join(layout::segment(0, 2, 40));
    spoil(
        &segment,
        |bytes| bytes.truncate(bytes.len() - 1),
        || assert!(matches!(open(&out), TiledError::Damaged { .. })),
    );
    let flip = |bytes: &mut Vec<u8>| *bytes.last_mut().expect("not empty") ^= 1;
    spoil(&segment, flip, || {
        let video = TiledVideo::open(&out).expect("sizes are right");
        assert!(matches!(video.segment(0, 2, 1), Err(TiledError::Damaged { .. })));
        assert!(matches!(video.verify(), Err(TiledError::Damaged { .. })));
        video.segment(0, 2, 0).expect("the other quality is whole");
    });
    spoil(&out.join(layout::reference(0)), flip, || {
        let refused = TiledVideo::open(&out).expect("sizes are right").reference(0).map(drop);
        assert!(matches!(refused, Err(TiledError::Damaged { .. })));
    });
    for (gop, tile, index) in [(1, 0, 0), (0, 4, 0), (0, 0, 2)] {
        assert!(matches!(video.segment(gop, tile, index), Err(TiledError::Absent { .. })));
    }
    for name in [layout::init(1, 24), layout::segment(0, 0, 24), layout::reference(0)] {
        let (path, aside) = (out.join(&name), directory.path().join("aside"));
        fs::rename(&path, &aside).expect("moved");
        assert!(matches!(open(&out), TiledError::Missing { .. }), "{name}");
        fs::rename(&aside, &path).expect("moved back");
    }
    TiledVideo::open(&out).expect("all is back").verify().expect("and whole");
}
