//! Bytes into text: what is no UTF-8 becomes U+FFFD, the same whatever the pieces it came in.

/// The beginning of a character whose rest has not come yet.
#[derive(Debug, Default)]
pub struct Utf8 {
    carried: Vec<u8>,
}

impl Utf8 {
    /// Bytes of the character under way.
    pub fn unfinished(&self) -> usize {
        self.carried.len()
    }

    /// Gives `take` all that is whole by now, piece by piece.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(&str)) {
        let mut rest = bytes;
        while !self.carried.is_empty() && !rest.is_empty() {
            let (next, after) = rest.split_at(1);
            self.carried.extend_from_slice(next);
            match std::str::from_utf8(&self.carried) {
                Err(error) if error.error_len().is_none() => {}
                Ok(text) => {
                    take(text);
                    self.carried.clear();
                }
                // The byte that does not go on with it is looked at for itself.
                Err(_) => {
                    take("\u{fffd}");
                    self.carried.clear();
                    break;
                }
            }
            rest = after;
        }
        while !rest.is_empty() {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return take(text),
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            if let Ok(text) = std::str::from_utf8(valid)
                && !text.is_empty()
            {
                take(text);
            }
            let Some(wrong) = error.error_len() else {
                self.carried = after.to_vec();
                return;
            };
            take("\u{fffd}");
            rest = &after[wrong..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], chunk: usize) -> String {
        let (mut utf8, mut out) = (Utf8::default(), String::new());
        bytes.chunks(chunk.max(1)).for_each(|part| utf8.feed(part, |text| out.push_str(text)));
        out
    }

    #[test]
    fn any_pieces_give_the_same_text() {
        assert_eq!(text("aé世🦀".as_bytes(), 1), "aé世🦀");
        assert_eq!(text(b"a\xffb\xe4\xb8c\x9b", 1), "a\u{fffd}b\u{fffd}c\u{fffd}");
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, chunk)| {
            assert_eq!(text(bytes, usize::from(*chunk)), text(bytes, usize::MAX));
        });
    }
}
