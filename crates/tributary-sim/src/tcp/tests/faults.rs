//! Paths that lose, reorder and die.
