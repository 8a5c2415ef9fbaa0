//! The viewer's picture: a panorama seen through a flat viewport, all three planes, bilinear.
//!
//! A [`Renderer`] keeps the lookup tables of its last orientation, so further pictures with the same view
//! cost only the lookups. A new view needs no trigonometry per pixel: the map is computed exactly on a coarse
//! grid and interpolated linearly between its points, where that is accurate enough (see `table`). Decoding
//! and measuring are not part of this module. Conventions: sample positions are pixel centres; chroma samples
//! are in the middle of their four luma samples.

mod lookup;
mod map;
mod table;

use thiserror::Error;

use crate::picture::{LONGEST_SIDE, Picture, PictureError, chroma_size};
use crate::projection::Projection;
use crate::sphere::Orientation;
use crate::viewport::FieldOfView;

use map::Map;
use table::Table;

/// Settings of a renderer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RenderSettings {
    /// Projection of the panorama.
    pub projection: Projection,
    /// The panorama's width and height, pixels.
    pub panorama: (usize, usize),
    /// Field of view of the viewport.
    pub field: FieldOfView,
    /// The viewport's width and height, pixels.
    pub viewport: (usize, usize),
}

/// Why rendering is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// A size is invalid.
    #[error("the {what} is {width}x{height} pixels; each side must be {least} to {LONGEST_SIDE}")]
    Size {
        /// The panorama or the viewport.
        what: &'static str,
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// The minimum of a side.
        least: usize,
    },
    /// The panorama has another size than the renderer's.
    #[error("a panorama of {found:?} pixels; this renderer was made for {expected:?}")]
    Panorama {
        /// Its size.
        found: (usize, usize),
        /// The renderer's.
        expected: (usize, usize),
    },
    /// The viewport has another size.
    #[error(transparent)]
    Picture(#[from] PictureError),
}

/// A cubemap's chroma faces need two samples per side for blending.
const LEAST_PANORAMA: usize = 12;

/// Renders viewports from panoramas of one size.
#[derive(Debug, Clone)]
pub struct Renderer {
    settings: RenderSettings,
    view: Option<Orientation>,
    luma: Table,
    chroma: Table,
}

impl Renderer {
    /// A renderer for these sizes.
    ///
    /// # Errors
    /// A panorama with a side under 12, a viewport without pixels, or a side over 65536.
    pub fn new(settings: RenderSettings) -> Result<Self, RenderError> {
        let sizes = [("panorama", settings.panorama, LEAST_PANORAMA), ("viewport", settings.viewport, 1)];
        for (what, (width, height), least) in sizes {
            let fits = |side: usize| (least..=LONGEST_SIDE).contains(&side);
            if !fits(width) || !fits(height) {
                return Err(RenderError::Size { what, width, height, least });
            }
        }
        Ok(Self { settings, view: None, luma: Table::default(), chroma: Table::default() })
    }

    /// The renderer's settings.
    #[must_use]
    pub fn settings(&self) -> RenderSettings {
        self.settings
    }

    /// Renders the view of a head with orientation `view`.
    ///
    /// # Errors
    /// The panorama has another size than the renderer's.
    pub fn render(&mut self, panorama: &Picture, view: Orientation) -> Result<Picture, RenderError> {
        let (width, height) = self.settings.viewport;
        let mut seen = Picture::black(width, height)?;
        self.render_into(panorama, view, &mut seen)?;
        Ok(seen)
    }

    /// Renders into an existing picture.
    ///
    /// # Errors
    /// Either picture has another size than the renderer's.
    pub fn render_into(
        &mut self,
        panorama: &Picture,
        view: Orientation,
        seen: &mut Picture,
    ) -> Result<(), RenderError> {
        let found = (panorama.width(), panorama.height());
        if found != self.settings.panorama {
            return Err(RenderError::Panorama { found, expected: self.settings.panorama });
        }
        let (width, height) = self.settings.viewport;
        if (seen.width(), seen.height()) != (width, height) {
            return Err(PictureError::Unequal(seen.width(), seen.height(), width, height).into());
        }
        self.look(view);
        let planes = panorama.planes();
        let [luma, blue, red] = seen.planes_mut();
        self.luma.apply([&planes[0]], [luma]);
        self.chroma.apply([&planes[1], &planes[2]], [blue, red]);
        Ok(())
    }

    /// Computes the tables of a view.
    fn look(&mut self, view: Orientation) {
        if self.view == Some(view) {
            return;
        }
        let RenderSettings { projection, panorama, field, viewport } = self.settings;
        let map = Map::new(projection, panorama, (field, viewport), view.axes());
        self.luma.build(&map, viewport);
        let (chroma_panorama, chroma_viewport) =
            (chroma_size(panorama.0, panorama.1), chroma_size(viewport.0, viewport.1));
        let map = Map::new(projection, chroma_panorama, (field, chroma_viewport), view.axes());
        self.chroma.build(&map, chroma_viewport);
        self.view = Some(view);
    }
}

#[cfg(test)]
mod tests;
