//! Pairs of connections in virtual time: what is written is read, whatever the path does.

mod faults;
mod hostile;
mod late;
mod law;
mod pair;
mod random;
mod transfer;
mod wire;
