//! The shape of stored pictures: scan, cropping, stereo, projection, rotation and pixel shape, in the order in which they
//! are undone.

use std::fmt;
use std::path::Path;

use super::ffprobe::{SideData, Stream};
use super::refusal::Refusal;
use super::{Eyes, SourceError, Upright, Use, colour, container};

/// The longest side of a picture, pixels.
const LONGEST_SIDE: usize = 16_384;
/// Pixels more than this many times as wide as high, or the reverse, are taken for a mistake.
const MOST_STRETCHED: f64 = 8.0;

/// The view that is taken of a stereo picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Of two views beside each other.
    SideBySide,
    /// Of two views, one above the other.
    TopBottom,
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SideBySide => "the left eye of its side-by-side stereo pictures",
            Self::TopBottom => "the left eye of its top-bottom stereo pictures",
        })
    }
}

/// How the pictures of a track become upright.
pub(super) fn upright(path: &Path, stream: &Stream, of: Use) -> Result<Upright, SourceError> {
    let (Some(width @ 1..), Some(height @ 1..)) = (stream.width, stream.height) else {
        let reason = "its pictures have no size".to_owned();
        return Err(SourceError::NotVideo { path: path.to_owned(), reason });
    };
    let stored = |Refusal { problem, way }| SourceError::Stored { path: path.to_owned(), problem, way };
    let mut upright = Upright {
        stored: (width, height),
        size: (width, height),
        filters: Vec::new(),
        view: None,
        eyes: 1,
        notes: Vec::new(),
        duration_s: stream.duration_s(),
    };
    cropping(path, &upright).map_err(stored)?;
    scan(stream, &mut upright);
    colour::convert(stream, &mut upright)?.map_or(Ok(()), |refusal| Err(stored(refusal)))?;
    let eyes = match of {
        Use::Flat => Eyes::Left,
        Use::Sphere(eyes) => eyes,
    };
    views(stream, eyes, &mut upright).map_err(stored)?;
    projection(path, stream, of, &mut upright).map_err(stored)?;
    pixels(stream, &mut upright).map_err(stored)?;
    rotation(stream, &mut upright).map_err(stored)?;
    if of != Use::Flat {
        squeezed(stream, &mut upright);
    }
    Ok(upright)
}

/// Cropping that only the container knows; decoders before ffmpeg 7.1 do not.
fn cropping(path: &Path, upright: &Upright) -> Result<(), Refusal> {
    let Some([x, y, width, height]) = container::shown_part(path, upright.stored) else { return Ok(()) };
    let problem = format!(
        "only {width}×{height} of its {}×{} pixels are to be shown",
        upright.stored.0, upright.stored.1
    );
    Err(Refusal::new(problem, &format!("crop={width}:{height}:{x}:{y}")))
}

fn scan(stream: &Stream, upright: &mut Upright) {
    if matches!(stream.field_order.as_deref(), Some("tt" | "bb" | "tb" | "bt")) {
        upright.filters.push("bwdif=mode=send_frame".to_owned());
        upright.notes.push("deinterlaced".to_owned());
    }
}

/// Takes one view of a stereo picture, or puts both above each other.
fn views(stream: &Stream, eyes: Eyes, upright: &mut Upright) -> Result<(), Refusal> {
    if eyes == Eyes::TopBottom {
        return both(View::TopBottom, false, upright);
    }
    let data = stream.side("Stereo 3D");
    let kind = data.and_then(|data| data.kind.as_deref());
    let mode = stream.tags.stereo_mode.as_deref();
    let (view, crop) = match (kind, mode) {
        (None | Some("2D"), None | Some("mono"))
            if !stream.picture.iter().any(|data| data == "Stereo 3D") =>
        {
            return Ok(());
        }
        (Some("side by side"), _) => (View::SideBySide, (2, 1)),
        (Some("top and bottom"), _) => (View::TopBottom, (1, 2)),
        (kind, mode) => {
            let how = kind.filter(|kind| *kind != "2D").or(mode).unwrap_or("packed in one frame");
            let problem = format!("its pictures are stereo in a way that is not converted ({how})");
            return Err(Refusal::new(problem, "stereo3d=LAYOUT:ml (layouts: ffmpeg -h filter=stereo3d)"));
        }
    };
    // The right eye comes first in an inverted one.
    let second = data.and_then(|data| data.inverted) == Some(1);
    if eyes == Eyes::Both {
        return both(view, second, upright);
    }
    let even = |side: usize, parts: usize| if parts > 1 { (side / parts) & !1 } else { side };
    let (width, height) = (even(upright.size.0, crop.0), even(upright.size.1, crop.1));
    let (x, y) = match view {
        View::SideBySide if second => (upright.size.0 - width, 0),
        View::TopBottom if second => (0, upright.size.1 - height),
        _ => (0, 0),
    };
    upright.filters.push(format!("crop={width}:{height}:{x}:{y}"));
    upright.notes.push(format!("stereo: {view} is taken"));
    (upright.size, upright.view) = ((width, height), Some(view));
    Ok(())
}

/// The left view above the right one.
fn both(stored: View, inverted: bool, upright: &mut Upright) -> Result<(), Refusal> {
    let (width, height) = upright.size;
    let (name, parts) = match stored {
        View::SideBySide => ("side-by-side", width),
        View::TopBottom => ("top-bottom", height),
    };
    if !parts.is_multiple_of(4) {
        let problem = format!("its {width}×{height} pixels are not two equal {name} pictures of even size");
        return Err(Refusal::new(problem, "scale=WIDTH:HEIGHT"));
    }
    let filter = match (stored, inverted) {
        (View::TopBottom, false) => None,
        (View::TopBottom, true) => Some("stereo3d=abr:abl"),
        (View::SideBySide, false) => Some("stereo3d=sbsl:abl"),
        (View::SideBySide, true) => Some("stereo3d=sbsr:abl"),
    };
    upright.filters.extend(filter.map(str::to_owned));
    upright.notes.push(format!("stereo: both eyes of its {name} pictures are taken"));
    if stored == View::SideBySide {
        upright.size = (width / 2, 2 * height);
    }
    upright.eyes = 2;
    Ok(())
}

/// The projection of a sphere; only a whole equirectangular one is tiled, and a flat use loses the mark.
fn projection(path: &Path, stream: &Stream, of: Use, upright: &mut Upright) -> Result<(), Refusal> {
    let data = stream.side("Spherical Mapping");
    let mesh = container::has_mesh(path).then_some("mesh");
    let Some(name) = mesh.or(data.and_then(|data| data.projection.as_deref())) else { return Ok(()) };
    if of == Use::Flat {
        upright
            .notes
            .push(format!("the file marks the pictures as spherical ({name}); the result is not marked"));
        return Ok(());
    }
    let none = SideData::default();
    let data = data.unwrap_or(&none);
    let bounds = [data.bound_left, data.bound_top, data.bound_right, data.bound_bottom];
    let cut = bounds.iter().any(|bound| bound.unwrap_or(0) > 0);
    if !matches!(name, "equirectangular" | "tiled equirectangular") || cut {
        let what = if cut {
            "its pictures show only a part of the sphere".to_owned()
        } else {
            format!("its projection is {name} and not equirectangular")
        };
        return Err(Refusal::new(
            what,
            "v360=input=PROJECTION:output=e (projections: ffmpeg -h filter=v360)",
        ));
    }
    let [yaw, pitch, roll] = [data.yaw, data.pitch, data.roll].map(Option::unwrap_or_default);
    if [yaw, pitch, roll].iter().any(|angle| *angle != 0.0) {
        let problem = format!("its sphere is to be turned by yaw {yaw}°, pitch {pitch}°, roll {roll}°");
        return Err(Refusal::new(problem, &format!("v360=e:e:yaw={yaw}:pitch={pitch}:roll={roll}")));
    }
    Ok(())
}

/// Widens or heightens pictures whose pixels are not square; nothing is made smaller.
fn pixels(stream: &Stream, upright: &mut Upright) -> Result<(), Refusal> {
    let ratio = stream.sample_aspect_ratio.as_deref().and_then(|text| {
        let (across, down) = text.split_once(':')?;
        Some((across.parse::<u32>().ok()?, down.parse::<u32>().ok()?))
    });
    let Some((across, down)) = ratio.filter(|(across, down)| across != down && *across > 0 && *down > 0)
    else {
        return Ok(());
    };
    let shape = f64::from(across) / f64::from(down);
    let (width, height) = upright.size;
    let grown = |side: usize, by: f64| ((side as f64 * by / 2.0).round() as usize * 2).max(2);
    let size = if shape > 1.0 { (grown(width, shape), height) } else { (width, grown(height, 1.0 / shape)) };
    if !(1.0 / MOST_STRETCHED..=MOST_STRETCHED).contains(&shape) || size.0.max(size.1) > LONGEST_SIDE {
        let problem =
            format!("its pixels are {across}:{down}, so that its pictures would be {}×{}", size.0, size.1);
        return Err(Refusal::new(problem, "setsar=1"));
    }
    if size != upright.size {
        upright.notes.push(format!(
            "{width}×{height} pixels of {across}:{down} become {}×{} square ones",
            size.0, size.1
        ));
        upright.size = size;
    }
    Ok(())
}

fn rotation(stream: &Stream, upright: &mut Upright) -> Result<(), Refusal> {
    let matrix = stream.side("Display Matrix").and_then(|data| data.displaymatrix.as_deref());
    let turned = match (matrix, stream.tags.rotate.as_deref().map(str::trim)) {
        (Some(matrix), _) => of_matrix(matrix),
        (None, None | Some("0" | "360")) => Some(""),
        (None, Some("90")) => Some("transpose=clock"),
        (None, Some("180")) => Some("hflip,vflip"),
        (None, Some("270" | "-90")) => Some("transpose=cclock"),
        (None, Some(_)) => None,
    };
    // Only when the track says nothing: ffmpeg copies the track's matrix to the pictures.
    let in_picture = matrix.is_none() && stream.picture.iter().any(|data| data.contains("displaymatrix"));
    match turned {
        None => Err(Refusal::new(
            "its pictures are to be turned by an angle that is no multiple of 90°",
            "rotate=ANGLE",
        )),
        _ if in_picture => Err(Refusal::new(
            "its coded pictures, and not the file, say that they are to be turned",
            "transpose=clock",
        )),
        Some("") => Ok(()),
        Some(filter) if upright.eyes > 1 => {
            Err(Refusal::new("its stereo pictures are to be turned or mirrored", filter))
        }
        Some(filter) => {
            upright.filters.push(filter.to_owned());
            upright.notes.push(format!("turned upright ({filter})"));
            if filter.starts_with("transpose") {
                upright.size = (upright.size.1, upright.size.0);
            }
            Ok(())
        }
    }
}

/// The filter that undoes a display matrix, given as ffprobe's dump of nine numbers; `None` if it is no rotation by a
/// multiple of 90° with or without a mirror. A picture's x axis is shown along the first row, its y axis along the second.
fn of_matrix(dump: &str) -> Option<&'static str> {
    let rows = dump.lines().filter_map(|line| line.split_once(':'));
    let numbers: Vec<f64> =
        rows.flat_map(|(_, row)| row.split_whitespace()).filter_map(|number| number.parse().ok()).collect();
    let [right, down, _, right_2, down_2, ..] = numbers[..] else { return None };
    let most = [right, down, right_2, down_2].iter().fold(0.0_f64, |most, n| most.max(n.abs()));
    let sign = |number: f64| if number.abs() < 0.02 * most { 0 } else { number.signum() as i8 };
    match [right, down, right_2, down_2].map(sign) {
        [1, 0, 0, 1] => Some(""),
        [-1, 0, 0, 1] => Some("hflip"),
        [1, 0, 0, -1] => Some("vflip"),
        [-1, 0, 0, -1] => Some("hflip,vflip"),
        [0, 1, -1, 0] => Some("transpose=clock"),
        [0, -1, 1, 0] => Some("transpose=cclock"),
        [0, 1, 1, 0] => Some("transpose=cclock_flip"),
        [0, -1, -1, 0] => Some("transpose=clock_flip"),
        _ => None,
    }
}

/// Stretches one eye of a panorama that was squeezed to put two eyes into one picture.
fn squeezed(stream: &Stream, upright: &mut Upright) {
    let (width, height) = (upright.size.0, upright.size.1 / upright.eyes);
    let whole = stream.side("Spherical Mapping").is_some();
    let is = |across: usize, down: usize| (width * down).abs_diff(height * across) * 50 <= width * down;
    let stereo = upright.eyes > 1;
    let size = match upright.view {
        Some(View::TopBottom) if is(4, 1) => (width, 2 * height),
        None if stereo && is(4, 1) => (width, 2 * height),
        // A square eye is a whole sphere only if the file says so; else it may be a hemisphere (VR180).
        Some(View::SideBySide) if is(1, 1) && whole => (2 * width, height),
        None if stereo && is(1, 1) && whole => (2 * width, height),
        _ => return,
    };
    upright
        .notes
        .push(format!("stereo: each eye is squeezed; {width}×{height} becomes {}×{}", size.0, size.1));
    upright.size = (size.0, size.1 * upright.eyes);
}
