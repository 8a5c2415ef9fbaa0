//! Pairs of connections in virtual time: what is written is read, whatever the path does.

mod faults;
mod hostile;
mod law;
mod pair;
mod random;
mod transfer;
mod wire;
