//! Writing and reading of boxes: size, kind, content (ISO/IEC 14496-12 §4.2).

/// Appends a box whose content `fill` writes.
pub(super) fn put(into: &mut Vec<u8>, kind: &[u8; 4], fill: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend([0; 4]);
    into.extend(kind);
    fill(into);
    let size = u32::try_from(into.len() - start).expect("a box of our own is below 4 GiB");
    into[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends a full box: one with a version and flags.
pub(super) fn put_full(
    into: &mut Vec<u8>,
    kind: &[u8; 4],
    (version, flags): (u8, u32),
    fill: impl FnOnce(&mut Vec<u8>),
) {
    put(into, kind, |b| {
        b.extend((u32::from(version) << 24 | flags).to_be_bytes());
        fill(b);
    });
}

/// A box: its kind and its content, or `None` if the bytes are not a box.
pub(super) type Found<'a> = Option<([u8; 4], &'a [u8])>;

/// Iterates over the boxes in `bytes`; a broken one ends the iteration with a `None`.
pub(super) fn walk(mut bytes: &[u8]) -> impl Iterator<Item = Found<'_>> {
    core::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let found = split(bytes);
        bytes = found.map_or(&[], |(_, _, rest)| rest);
        Some(found.map(|(kind, content, _)| (kind, content)))
    })
}

fn split(bytes: &[u8]) -> Option<([u8; 4], &[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    // Size 1 means a 64-bit size, 0 a box up to the end; this crate writes neither.
    let content = usize::try_from(u32::from_be_bytes(*size)).ok()?.checked_sub(8)?;
    let (content, rest) = rest.split_at_checked(content)?;
    Some((*kind, content, rest))
}
