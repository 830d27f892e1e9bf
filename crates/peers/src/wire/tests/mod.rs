//! Frames, connections and the port, over streams in memory and paused time where possible.

mod certified;
mod connections;
mod frames;
mod full;
mod ports;
mod support;
