//! Takes in what the holder sends: output in large batches, and of several sizes only the newest.

use super::Sitting;
use std::time::Duration;
use synapse_holder::terminal::wire::Tell;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout_at};

/// More output than this at once may be a flood. Then more is gathered until the program is quiet
/// for a moment, or until a limit of time or size.
const FLOOD_BYTES: usize = 16 << 10;
const GATHER_QUIET: Duration = Duration::from_millis(4);
const GATHER_MAX: Duration = Duration::from_millis(60);
const BATCH_BYTES: usize = 2 << 20;
/// The limit of the answers to the queries of one batch. A program that asks more does not read the
/// answers anyway.
const ANSWERS_BYTES_MAX: usize = 16 << 10;

impl Sitting<'_> {
    /// Takes everything that has arrived. In a flood it gathers large batches, since little of that
    /// output has to be drawn.
    pub(super) async fn take_frames(&mut self, buffer: &mut [u8]) -> bool {
        let end = Instant::now() + GATHER_MAX;
        let (mut output, mut size) = (Vec::new(), None);
        loop {
            match self.frames.next_tell() {
                Ok(Some(resized @ Tell::Resized { .. })) if output.is_empty() => size = Some(resized),
                Ok(Some(Tell::Output(bytes))) if output.is_empty() && size.is_none() => output = bytes,
                Ok(Some(Tell::Output(bytes))) if size.is_none() => output.extend_from_slice(&bytes),
                Ok(Some(tell)) => {
                    let before = size.take().unwrap_or_else(|| Tell::Output(std::mem::take(&mut output)));
                    if !self.told(before).await || !self.told(tell).await {
                        return false;
                    }
                }
                Ok(None) => {
                    let until = end.min(Instant::now() + GATHER_QUIET);
                    if (FLOOD_BYTES..BATCH_BYTES).contains(&output.len())
                        && let Ok(Ok(read @ 1..)) = timeout_at(until, self.stream.read(buffer)).await
                    {
                        self.frames.feed(&buffer[..read]);
                        continue;
                    }
                    let last = size.take().unwrap_or_else(|| Tell::Output(std::mem::take(&mut output)));
                    return self.told(last).await;
                }
                Err(e) => {
                    tracing::warn!(error = %e, "the holder said something we do not understand");
                    return false;
                }
            }
        }
    }
}

/// Joins as many whole answers as may be sent at once.
pub(super) fn within(answers: Vec<String>) -> String {
    let mut all = String::new();
    for answer in answers {
        if all.len() + answer.len() > ANSWERS_BYTES_MAX {
            break;
        }
        all.push_str(&answer);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding L12: more answers than a frame may hold made the holder end the connection.
    #[test]
    fn answers_of_a_flood_of_queries_are_bounded_and_whole() {
        let answer = "\u{1b}[?6c".to_owned();
        let sent = within(vec![answer.clone(); 1 << 20]);
        assert!(sent.len() <= ANSWERS_BYTES_MAX && sent.ends_with(&answer), "{} bytes", sent.len());
        assert_eq!(within(vec!["a".into(), "b".into()]), "ab");
    }
}
