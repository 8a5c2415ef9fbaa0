//! Body of a part of the fuzz target `mp4`. It is here because the reader of headers is private; not part of the public interface.

/// A header is refused, or its parts lie in it one behind the other, and the segments behind them.
///
/// # Panics
/// If they do not.
pub fn header(data: &[u8]) {
    let Ok(made) = super::mp4::header_of(data) else { return };
    let end = |range: tributary_player::dash::mpd::ByteRange| range.last.map(|last| last + 1);
    let (initialization, index) = (end(made.initialization), end(made.index));
    assert!(initialization <= Some(made.index.first) && index <= Some(data.len() as u64));
    assert!(made.entries.first().is_none_or(|entry| Some(entry.range.first) >= index));
}
