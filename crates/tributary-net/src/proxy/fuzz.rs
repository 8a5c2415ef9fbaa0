//! Bodies of the fuzz targets `proxy-head` and `socks-datagram`. They are here because what they run is private; not part of the public
//! interface.

use super::request::{read_datagram, write_datagram};
use super::target::Head;
use crate::fuzz::value;

/// The head of a stream is refused, or is the same when it is written again.
///
/// # Panics
/// If it is another one.
pub fn proxy_head(data: &[u8]) {
    let mut rest = data;
    let Ok(head) = value(Head::read(&mut rest)) else { return };
    let again = head.encode();
    let mut rest = again.as_slice();
    assert_eq!(value(Head::read(&mut rest)).ok(), Some(head));
    assert!(rest.is_empty());
}

/// The datagram of an application is dropped, or is the same when it is written again.
///
/// # Panics
/// If it is another one.
pub fn socks_datagram(data: &[u8]) {
    let Some((to, payload)) = read_datagram(data) else { return };
    let mut again = Vec::new();
    write_datagram(&mut again, &to, payload);
    assert_eq!(read_datagram(&again), Some((to, payload)));
}
