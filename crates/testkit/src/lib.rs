//! Development only: fresh homes, the real binary, waits with a purpose, golden files.

pub mod acp;
pub mod cli;
pub mod golden;
pub mod http;
pub mod mock_llm;
pub mod processes;
pub mod program;
pub mod pty;
pub mod recorder;
pub mod states;
pub mod stranger;
pub mod tui;
pub mod webhook;
pub mod world;

pub use world::{Agent, Ran, World};
