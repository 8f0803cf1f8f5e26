//! The text of an agent in one turn, assembled from chunks and bounded to the length of a message.

use synapse_dialects::acp::{Chunk, ChunkContent};

/// The longest answer kept.
const ANSWER_BYTES_MAX: usize = 512 << 10;

/// The text of a turn so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Said {
    text: String,
    /// The number of bytes received, including those not kept.
    bytes: u64,
    /// The message that the last chunk belongs to.
    message: Option<String>,
    /// A tool was used since the last chunk.
    is_apart: bool,
    /// Why some content is missing.
    left_out: Option<String>,
}

impl Said {
    pub(super) fn add(&mut self, chunk: Chunk) {
        let text = match chunk.content {
            ChunkContent::Text(text) => text,
            ChunkContent::Other(kind) => {
                self.left_out = Some(format!("its answer also has content of the type {kind}"));
                return;
            }
        };
        let is_next = chunk.message.is_some() && self.message.is_some() && chunk.message != self.message;
        if (self.is_apart || is_next) && !self.text.is_empty() {
            self.push(if self.text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        (self.is_apart, self.message) = (false, chunk.message.or(self.message.take()));
        self.push(&text);
    }

    fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        let room = ANSWER_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room.min(text.len()))]);
    }

    /// Starts a new paragraph with the next chunk.
    pub(super) fn part(&mut self) {
        self.is_apart = true;
    }

    /// Records that content was lost, and why.
    pub(super) fn lose(&mut self, why: &str) {
        self.left_out = Some(why.to_owned());
    }

    /// Returns the text, with a mark if something is missing, and whether it is complete.
    pub(super) fn whole(self) -> (String, bool) {
        let mut text = self.text.trim_end().to_owned();
        let cut =
            (self.bytes > ANSWER_BYTES_MAX as u64).then(|| format!("the answer has {} bytes", self.bytes));
        match cut.map(|cut| format!("cut: {cut}")).or(self.left_out) {
            None => (text, true),
            Some(why) => {
                text.push_str(&format!("\n[{why}]"));
                (text, false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, message: Option<&str>) -> Chunk {
        Chunk { content: ChunkContent::Text(text.into()), message: message.map(str::to_owned) }
    }

    #[test]
    fn pieces_become_one_text_and_messages_stay_apart() {
        let mut said = Said::default();
        said.add(piece("I l", None));
        said.add(piece("ook.", None));
        said.part();
        said.part();
        said.add(piece("Done", Some("a")));
        said.add(piece(".", Some("a")));
        said.add(piece("Bye.\n", Some("b")));
        assert_eq!(said.whole(), ("I look.\n\nDone.\n\nBye.".to_owned(), true));
    }

    #[test]
    fn answer_that_is_not_whole_says_so() {
        let mut long = Said::default();
        (0..3).for_each(|_| long.add(piece(&"é".repeat(ANSWER_BYTES_MAX / 4), None)));
        let (text, complete) = long.whole();
        assert!(!complete && text.ends_with("bytes]") && text.len() <= ANSWER_BYTES_MAX + 64);
        let mut image = Said::default();
        image.add(Chunk { content: ChunkContent::Other("image".into()), message: None });
        assert_eq!(image.whole(), ("\n[its answer also has content of the type image]".to_owned(), false));
    }
}
