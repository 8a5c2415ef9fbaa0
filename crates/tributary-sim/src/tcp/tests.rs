//! Pairs of connections in virtual time: everything written is read over any path.

mod faults;
mod hostile;
mod late;
mod law;
mod pair;
mod random;
mod transfer;
mod wire;
