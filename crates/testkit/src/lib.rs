//! Development only: fresh homes, the real binary, waits with a purpose, golden files.

pub mod golden;
