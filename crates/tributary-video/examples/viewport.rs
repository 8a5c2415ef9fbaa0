//! The viewport renderer compared with ffmpeg's v360 on the same pictures: processor time, and distance from
//! the exactly computed picture.
//!
//! ```text
//! cargo run --release -p tributary-video --example viewport [-- PANORAMA_WIDTH]
//! ```
//! Needs `ffmpeg` in the path. Both run on one thread and are measured in processor time, so that other load
//! disturbs little; rounds alternate. ffmpeg's time without v360 is measured with runs of two lengths and
//! without the filter, and subtracted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::time::{ClockId, clock_gettime};
use tributary_video::metrics::{mse, psnr_db};
use tributary_video::picture::{Picture, Plane, sample_count};
use tributary_video::projection::{PicturePoint, Projection};
use tributary_video::render::{RenderSettings, Renderer};
use tributary_video::sphere::{Axes, Direction, Orientation};
use tributary_video::viewport::FieldOfView;

type Error = Box<dyn std::error::Error>;

const VIEWPORT: (usize, usize) = (1920, 1080);
const VIEW_DEG: (f64, f64, f64) = (30.0, 10.0, 0.0);
const ROUNDS: usize = 5;
/// Pictures per measured run: the short and the long one.
const FEW: usize = 20;
const MANY: usize = 120;

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("tributary-viewport-{}", std::process::id()));
    let done = fs::create_dir_all(&folder).map_err(Error::from).and_then(|()| run(&folder));
    // Remove the files also after an error.
    let _ = fs::remove_dir_all(&folder);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("viewport: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path) -> Result<(), Error> {
    let width = std::env::args().nth(1).map_or(Ok(3840), |text| text.parse::<usize>())?;
    let settings = RenderSettings {
        projection: Projection::Equirectangular,
        panorama: (width, width / 2),
        field: FieldOfView::default(),
        viewport: VIEWPORT,
    };
    let view = Orientation::from_degrees(VIEW_DEG.0, VIEW_DEG.1, VIEW_DEG.2);
    println!(
        "panorama {}x{}, viewport {}x{}, 110x90 degrees, yuv420p",
        width,
        width / 2,
        VIEWPORT.0,
        VIEWPORT.1
    );
    let panorama = panorama(settings.panorama)?;
    let raw = folder.join("panorama.yuv");
    fs::write(&raw, panorama.samples())?;

    let mut renderer = Renderer::new(settings)?;
    let ours = renderer.render(&panorama, view)?;
    let theirs = v360_picture(folder, &raw, settings.panorama)?;
    let ideal = ideal(&settings, view);
    let ideal = Plane::new(&ideal, VIEWPORT.0, VIEWPORT.1)?;
    let near = |picture: &Picture| Ok::<f64, Error>(psnr_db(mse(&picture.luma(), &ideal)?));
    println!("luma PSNR to exact mathematics: ours {:.2} dB, v360 {:.2} dB", near(&ours)?, near(&theirs)?);
    fs::write(folder.join("ours.yuv"), ours.samples())?;
    let between = psnr_db(mse(&ours.luma(), &theirs.luma())?);
    println!("luma PSNR between both: {between:.2} dB here, {} dB by ffmpeg's psnr", ffmpeg_psnr(folder)?);
    fixed_view(&panorama, &raw, &mut renderer, view)?;
    moving_view(&panorama, &raw, &mut renderer)
}

fn fixed_view(
    panorama: &Picture,
    raw: &Path,
    renderer: &mut Renderer,
    view: Orientation,
) -> Result<(), Error> {
    let size = (panorama.width(), panorama.height());
    let mut seen = Picture::black(VIEWPORT.0, VIEWPORT.1)?;
    let (mut ours_ms, mut theirs_ms, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = processor_seconds();
        for _ in 0..4 * MANY {
            renderer.render_into(panorama, view, &mut seen)?;
        }
        let ours = (processor_seconds() - start) / (4 * MANY) as f64;
        let filter = v360();
        let with =
            ffmpeg_seconds(raw, size, MANY, Some(&filter))? - ffmpeg_seconds(raw, size, FEW, Some(&filter))?;
        let without = ffmpeg_seconds(raw, size, MANY, None)? - ffmpeg_seconds(raw, size, FEW, None)?;
        let theirs = (with - without) / (MANY - FEW) as f64;
        ours_ms.push(1e3 * ours);
        theirs_ms.push(1e3 * theirs);
        ratios.push(theirs / ours);
    }
    report("one view", &mut ours_ms, &mut theirs_ms, &mut ratios);
    Ok(())
}

/// A new view for every picture, as with a moving head.
fn moving_view(panorama: &Picture, raw: &Path, renderer: &mut Renderer) -> Result<(), Error> {
    let size = (panorama.width(), panorama.height());
    let mut seen = Picture::black(VIEWPORT.0, VIEWPORT.1)?;
    let pictures = 10;
    let commands: Vec<String> =
        (0..pictures).map(|at| format!("{:.4} v360 yaw {}", at as f64 / 30.0, at + 1)).collect();
    let moving = format!("sendcmd=c='{}',{}", commands.join("; "), v360());
    let (mut ours_ms, mut theirs_ms, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = processor_seconds();
        for at in 0..MANY {
            let view = Orientation::from_degrees(at as f64 + round as f64 / 8.0, 10.0, 0.0);
            renderer.render_into(panorama, view, &mut seen)?;
        }
        let ours = (processor_seconds() - start) / MANY as f64;
        let theirs = ffmpeg_seconds(raw, size, pictures, Some(&moving))? / pictures as f64;
        ours_ms.push(1e3 * ours);
        theirs_ms.push(1e3 * theirs);
        ratios.push(theirs / ours);
    }
    report("a new view each", &mut ours_ms, &mut theirs_ms, &mut ratios);
    Ok(())
}

fn report(name: &str, ours_ms: &mut [f64], theirs_ms: &mut [f64], ratios: &mut [f64]) {
    let median = |values: &mut [f64]| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let spread = format!(
        "{:.2}…{:.2}",
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max)
    );
    println!(
        "{name}: ours {:.2} ms, v360 {:.2} ms per picture and core, ratio {:.2} (median of {ROUNDS}, {spread})",
        median(ours_ms),
        median(theirs_ms),
        median(ratios)
    );
}

fn v360() -> String {
    let (yaw, pitch, roll) = VIEW_DEG;
    format!(
        "v360=e:flat:h_fov=110:v_fov=90:w={}:h={}:yaw={yaw}:pitch={pitch}:roll={roll}:interp=linear",
        VIEWPORT.0, VIEWPORT.1
    )
}

fn ffmpeg(raw: &Path, (width, height): (usize, usize), filter: &str) -> Command {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-hide_banner", "-nostdin", "-y", "-benchmark", "-threads", "1", "-filter_threads", "1"])
        .args(["-f", "rawvideo", "-pix_fmt", "yuv420p", "-r", "30", "-s", &format!("{width}x{height}")])
        .arg("-i")
        .arg(raw)
        .args(["-vf", filter])
        .stdin(Stdio::null());
    command
}

/// Processor time, as reported by ffmpeg, for `pictures` pictures through a filter.
fn ffmpeg_seconds(
    raw: &Path,
    size: (usize, usize),
    pictures: usize,
    filter: Option<&str>,
) -> Result<f64, Error> {
    let repeat = format!("loop=loop={}:size=1", pictures - 1);
    let chain = filter.map_or(repeat.clone(), |filter| format!("{repeat},{filter}"));
    let output = ffmpeg(raw, size, &chain).args(["-f", "null", "-"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let field = |name: &str| {
        let (_, rest) = text.split_once(name)?;
        rest.split('s').next()?.parse::<f64>().ok()
    };
    match (output.status.success(), field("utime="), field("stime=")) {
        (true, Some(user), Some(system)) => Ok(user + system),
        _ => Err(format!("ffmpeg failed: {text}").into()),
    }
}

fn v360_picture(folder: &Path, raw: &Path, size: (usize, usize)) -> Result<Picture, Error> {
    let out: PathBuf = folder.join("v360.yuv");
    let output = ffmpeg(raw, size, &v360()).args(["-frames:v", "1", "-f", "rawvideo"]).arg(&out).output()?;
    if !output.status.success() {
        return Err(format!("ffmpeg failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(Picture::from_samples(VIEWPORT.0, VIEWPORT.1, fs::read(out)?)?)
}

/// The luma PSNR of both pictures as computed by ffmpeg's `psnr` filter.
fn ffmpeg_psnr(folder: &Path) -> Result<String, Error> {
    let mut second = vec!["-f".into(), "rawvideo".into(), "-pix_fmt".into(), "yuv420p".into()];
    second.extend(["-s".into(), format!("{}x{}", VIEWPORT.0, VIEWPORT.1), "-i".into()]);
    let output = Command::new("ffmpeg")
        .args(["-hide_banner", "-nostdin"])
        .args(&second)
        .arg(folder.join("ours.yuv"))
        .args(&second)
        .arg(folder.join("v360.yuv"))
        .args(["-lavfi", "psnr", "-f", "null", "-"])
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = text.split_once("PSNR y:").and_then(|(_, rest)| rest.split_whitespace().next());
    value.map(str::to_owned).ok_or_else(|| format!("ffmpeg gave no PSNR: {text}").into())
}

/// Processor time of this thread so far.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Waves from coarse to about eight samples long, in every direction.
fn shade(at: Direction) -> f64 {
    let wave =
        |frequency: f64, x: f64, y: f64, z: f64| libm::sin(frequency * (x * at.x + y * at.y + z * at.z));
    128.0
        + 30.0 * wave(5.0, 1.0, 0.3, 0.2)
        + 25.0 * wave(40.0, 0.2, 1.0, 0.4)
        + 20.0 * wave(150.0, 0.6, 0.3, 0.7)
        + 15.0 * wave(400.0, 0.5, 0.6, 0.6)
}

fn panorama((width, height): (usize, usize)) -> Result<Picture, Error> {
    let mut samples = vec![128; sample_count(width, height)];
    for (at, sample) in samples[..width * height].iter_mut().enumerate() {
        let (column, row) = ((at % width) as f64 + 0.5, (at / width) as f64 + 0.5);
        let place = PicturePoint { u: column / width as f64, v: row / height as f64 };
        *sample = shade(Projection::Equirectangular.direction_at(place)).round() as u8;
    }
    Ok(Picture::from_samples(width, height, samples)?)
}

fn ideal(settings: &RenderSettings, view: Orientation) -> Vec<u8> {
    let ((width, height), (across, upwards)) = (settings.viewport, settings.field.half_extent());
    let Axes { right, up, ahead } = view.axes();
    let along = |x: f64, y: f64, of: fn(Direction) -> f64| x * of(right) + y * of(up) + of(ahead);
    let pixel = |at: usize| {
        let x = across * ((2 * (at % width) + 1) as f64 / width as f64 - 1.0);
        let y = upwards * (1.0 - (2 * (at / width) + 1) as f64 / height as f64);
        let direction =
            Direction { x: along(x, y, |d| d.x), y: along(x, y, |d| d.y), z: along(x, y, |d| d.z) };
        shade(direction.normalised()).round() as u8
    };
    (0..width * height).map(pixel).collect()
}
