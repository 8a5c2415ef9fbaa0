//! Two sessions and the paths between them in virtual time; each test is a short story.

mod abandoned;
mod arrivals;
mod caps;
mod comings;
mod cost;
mod datagrams;
mod ends;
mod hostile;
mod memory;
mod overtaking;
mod pair;
mod priorities;
mod redundant;
mod rtp;
mod stalled;
mod stories;
mod unsent;
