//! 360-degree video sources and live GoP streaming over any byte stream.
