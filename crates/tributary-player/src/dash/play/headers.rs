//! What a client fetches of a quality before its first segment, in which order. Used on sockets and in the simulator.

/// A part of a title that is no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The initialisation segment.
    Initialization,
    /// The segment index.
    Index,
}

/// The headers of one quality that a client needs and does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingHeaders {
    /// The initialisation segment.
    pub initialization: bool,
    /// The segment index.
    pub index: bool,
}

impl MissingHeaders {
    /// The header to fetch next; after the last one segments can be requested.
    #[must_use]
    pub fn first(self) -> Option<Header> {
        match self {
            Self { initialization: true, .. } => Some(Header::Initialization),
            Self { index: true, .. } => Some(Header::Index),
            _ => None,
        }
    }

    /// A header has arrived.
    pub fn handle(&mut self, header: Header) {
        match header {
            Header::Initialization => self.initialization = false,
            Header::Index => self.index = false,
        }
    }
}
