//! Converts bytes to core types and back, one module per dialect.
//!
//! Pure: no socket, no clock, no disk. A malformed request becomes a `Refusal` that
//! names the field at fault.
//! Not here: deciding anything (`synapse-core`), HTTP itself (`synapse-node`'s doors).

pub mod acp;
pub mod api;
pub mod audit;
pub mod error;
pub mod event;
pub mod history;
pub mod jsonl;
pub mod level;
pub mod message;
pub mod outbox;
pub mod parse;
pub mod rename;
pub mod share;
pub mod status;
pub mod terminal;
pub mod time;
