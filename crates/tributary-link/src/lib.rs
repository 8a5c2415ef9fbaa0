//! One-way link model: rate, delay, loss, queue and faults, sans-IO.
