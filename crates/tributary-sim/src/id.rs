//! Identifiers of links, routes and hosts. A world assigns them.

/// A link of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// A route of a world: links in order, then a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub(crate) u32);

impl RouteId {
    /// Its number, as an index into tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// Its number, as an index into tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u32);

impl HostId {
    /// Its number, as an index into tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
