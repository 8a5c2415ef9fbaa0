//! Playbacks in the forms of other programs. Traces are written by [`tributary_link::Trace`], captures and logs by the simulator
//! and the emulator.

pub mod e3po;
pub mod p1203;
