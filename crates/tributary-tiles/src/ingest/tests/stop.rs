//! An ingest stopped by its caller leaves no temporary file, and resumes.

use super::*;
use crate::layout;

/// Stops after this many steps of a stage.
struct Stopper {
    stage: Stage,
    steps: AtomicUsize,
}

impl Stopper {
    fn after(stage: Stage, steps: usize) -> Self {
        Self { stage, steps: AtomicUsize::new(steps) }
    }
}

impl Watch for Stopper {
    fn at(&self, progress: Progress) {
        if progress.stage == self.stage {
            let _ = self.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        }
    }

    fn stops(&self) -> bool {
        self.steps.load(Ordering::Relaxed) == 0
    }
}

/// All files and directories below `directory`.
fn everything(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| [vec![path.clone()], everything(&path)].concat()).collect()
}

#[test]
fn a_stop_before_anything_is_finished_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (moving(&directory), directory.path().join("tiles"));
    let error = ingest(&source, &settings(), &out, &Stopper::after(Stage::Source, 1)).expect_err("stopped");
    assert!(matches!(error, IngestError::Stopped { kept: false }), "{error}");
    assert!(!out.exists());
    make(&source, &settings(), &out).expect("another time it works");
}

#[test]
fn a_stopped_ingest_resumes() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (moving(&directory), directory.path().join("tiles"));
    let one = Settings { jobs: NonZeroUsize::new(1), ..settings() };
    // After the untiled GoP (5 pictures) and the first rows of tiles (20 at each of two QPs, encoded and
    // measured), in the middle of the next piece.
    let error = ingest(&source, &one, &out, &Stopper::after(Stage::Tiles, 110)).expect_err("stopped");
    assert!(matches!(error, IngestError::Stopped { kept: true }), "{error}");
    let left = everything(&out);
    let temporary = |path: &&PathBuf| {
        let scratch = path.parent() == Some(&out.join(layout::WORK)) && path.is_dir();
        path.to_string_lossy().ends_with(".part") || scratch
    };
    assert_eq!(left.iter().find(temporary), None);
    let notes = left.iter().filter(|path| path.to_string_lossy().contains("work/tiles-")).count();
    assert!((1..4).contains(&notes), "{left:?}");

    // Remains of a killed ingest are removed; finished pieces are kept and count from the beginning.
    let scratch = out.join(layout::WORK).join("scratch-of-a-killed-one");
    fs::create_dir(&scratch).expect("made");
    let kept = fs::metadata(out.join(layout::segment(0, 0, 24))).and_then(|m| m.modified()).expect("there");
    let first = AtomicUsize::new(0);
    let watch = |at: Progress| {
        if at.stage == Stage::Tiles {
            let _ = first.compare_exchange(0, at.done, Ordering::Relaxed, Ordering::Relaxed);
        }
    };
    let video = ingest(&source, &one, &out, &watch).expect("it continues");
    let still = fs::metadata(out.join(layout::segment(0, 0, 24))).and_then(|m| m.modified()).expect("there");
    assert!(kept == still && !scratch.exists());
    // The source's 10 pictures of 4 tiles are the first 40 units; pieces of an earlier run are added.
    assert!(first.load(Ordering::Relaxed) > 40);
    let fresh = make(&source, &one, &directory.path().join("fresh")).expect("an ingest");
    assert_eq!(video.record(), fresh.record());
}

#[test]
fn progress_rises_to_the_whole_and_the_estimate_is_near() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (moving(&directory), directory.path().join("tiles"));
    let one = Settings { jobs: NonZeroUsize::new(1), ..settings() };
    let prepared = Prepared::of(&source, &one).expect("a video");
    let estimate = prepared.estimate().expect("a sample");
    assert_eq!((estimate.pictures, estimate.size, estimate.jobs), (10, (80, 40), 1));
    let seen = Mutex::new(Vec::new());
    prepared.make(&out, &|at: Progress| seen.lock().expect("one thread").push(at)).expect("an ingest");
    let seen = seen.into_inner().expect("whole");
    assert!(seen.is_sorted_by_key(|at| at.done) && seen.iter().all(|at| at.pictures == 10), "{seen:?}");
    let last = seen.last().expect("told");
    assert_eq!((last.done, last.stage), (last.total, Stage::Tiles));
    // Without the records and checksums, which the estimate does not include.
    let media = |path: &PathBuf| path.extension().is_some_and(|end| end == "m4s" || end == "h264");
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
    let bytes: u64 = everything(&out).iter().filter(|path| media(path)).map(size).sum();
    assert!((bytes / 2..bytes * 2).contains(&estimate.bytes), "{} for {bytes}", estimate.bytes);
}
