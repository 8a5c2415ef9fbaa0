//! Body of a part of the fuzz target `mp4`. It is here because the reader of containers is private; not part of the public interface.

use std::io::Cursor;

use super::container::{part_of, shows_mesh};

/// Whatever a file is, the part of its pictures that is shown is a part of them.
///
/// # Panics
/// If it is not.
pub fn container(data: &[u8]) {
    let stored = (320, 160);
    if let Some([x, y, width, height]) = part_of(&mut Cursor::new(data), stored) {
        assert!(x + width <= stored.0 && y + height <= stored.1, "{x}, {y}: {width} × {height}");
    }
    let _ = shows_mesh(&mut Cursor::new(data));
}
