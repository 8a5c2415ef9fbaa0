//! What a tunnel is to be, and the marks by which its packets are told apart.

use crate::selection::Selection;

/// Mark of the session's own packets (`SO_MARK`), which never go through the tunnel.
pub const MARK: u32 = 0x7472;
/// Mark of packets of selected control groups, which a rule sends to the device.
pub(crate) const GROUP_MARK: u32 = MARK + 1;

/// What a tunnel is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the device.
    pub device: String,
    /// Its MTU in bytes, at least 1280 for IPv6.
    pub mtu: u32,
    /// What goes through it.
    pub selection: Selection,
    /// Add rules and routes. Without them others lead to the device.
    pub routes: bool,
    /// Let the other end resolve names.
    pub names: bool,
    /// What is selected stays unreachable when the process that carries it dies.
    pub kill_switch: bool,
}
