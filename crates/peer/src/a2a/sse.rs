//! Server-sent events of somebody else's server: pieces of bytes in, whole events out.
//!
//! Strict and bounded: a line without an end, an event without an end and text that is no text end the reading with a
//! word for why. Not here: what the data of an event means.

/// Longest event that is taken, with all its lines; an artifact may come in one piece.
pub const EVENT_BYTES_MAX: usize = 8 << 20;
/// Longest id that is given back to a server.
pub const ID_BYTES_MAX: usize = 1 << 10;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its own; one of an earlier event does not count.
    pub id: Option<String>,
    pub data: String,
}

/// Why a stream is not read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStream {
    #[error("an event is longer than {EVENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("an event is not UTF-8 text")]
    NotText,
}

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Reader {
    /// What has come of the line that is not over yet.
    line: Vec<u8>,
    /// The last byte was a CR: a LF now is the rest of the same end of line.
    after_cr: bool,
    begun: bool,
    data: String,
    has_data: bool,
    id: Option<String>,
    ready: std::collections::VecDeque<SseEvent>,
}

impl Reader {
    /// Takes the next piece in. Whole events wait for `next`.
    pub fn take_in(&mut self, bytes: &[u8]) -> Result<(), BadStream> {
        for byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    self.end_of_line()?;
                }
                _ => {
                    self.after_cr = false;
                    if self.line.len() + self.data.len() >= EVENT_BYTES_MAX {
                        return Err(BadStream::TooLong);
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(())
    }

    pub fn next(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    fn end_of_line(&mut self) -> Result<(), BadStream> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| BadStream::NotText)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let (id, data) = (self.id.take(), std::mem::take(&mut self.data));
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(SseEvent { id, data });
            }
            return Ok(());
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
                // Lines without text count too: each costs a byte at least.
                if self.data.len() >= EVENT_BYTES_MAX {
                    return Err(BadStream::TooLong);
                }
            }
            // It goes into a header later.
            "id" if value.len() <= ID_BYTES_MAX && !value.chars().any(char::is_control) => {
                self.id = (!value.is_empty()).then(|| value.to_owned());
            }
            // A comment (an empty name), the name of an event, a pause before the next try, and what is not known.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<(Option<String>, String)>, BadStream> {
        let (mut reader, mut found) = (Reader::default(), Vec::new());
        for piece in pieces {
            reader.take_in(piece)?;
            while let Some(event) = reader.next() {
                found.push((event.id, event.data));
            }
        }
        Ok(found)
    }

    #[track_caller]
    fn check(text: &str, expected: &[(Option<&str>, &str)]) {
        let expected: Vec<(Option<String>, String)> =
            expected.iter().map(|(id, data)| (id.map(str::to_owned), (*data).to_owned())).collect();
        let bytes = text.as_bytes();
        assert_eq!(read(&[bytes]).as_ref(), Ok(&expected), "{text:?} in one piece");
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&bytewise).as_ref(), Ok(&expected), "{text:?} byte by byte");
        for cut in 0..bytes.len() {
            assert_eq!(
                read(&[&bytes[..cut], &bytes[cut..]]).as_ref(),
                Ok(&expected),
                "{text:?} cut at {cut}"
            );
        }
    }

    #[test]
    fn events_are_the_same_wherever_they_are_cut() {
        check("data: a\n\n", &[(None, "a")]);
        check("data:a\r\n\r\ndata: b\r\rdata:  c\n\n", &[(None, "a"), (None, "b"), (None, " c")]);
        check("id: 1\ndata: ä\ndata: 漢\n\ndata: x\n\n", &[(Some("1"), "ä\n漢"), (None, "x")]);
        check("\u{feff}data: a\n\n", &[(None, "a")]);
        check(": hello\nevent: message\nretry: 5\nid: 7\ndata: {}\n\n: ping\n\n", &[(Some("7"), "{}")]);
        check("id: 1\n\nid\ndata: a\n\n", &[(None, "a")]);
        check("data\n\ndata\ndata\n\n", &[(None, ""), (None, "\n")]);
        check("what\nis: this\n\n\n\n", &[]);
        // Without its blank line an event has not come.
        check("data: a\n\ndata: half", &[(None, "a")]);
        check("data: a\n\ndata: half\n", &[(None, "a")]);
    }

    #[test]
    fn an_id_that_fits_no_header_is_not_kept() {
        check("id: a\u{0}b\ndata: x\n\n", &[(None, "x")]);
        let long = format!("id: {}\ndata: x\n\n", "1".repeat(ID_BYTES_MAX + 1));
        assert_eq!(read(&[long.as_bytes()]), Ok(vec![(None, "x".to_owned())]));
    }

    #[test]
    fn what_has_no_end_is_ended() {
        let piece = vec![b'x'; 1 << 20];
        let endless: Vec<&[u8]> = (0..9).map(|_| &piece[..]).collect();
        assert_eq!(read(&endless), Err(BadStream::TooLong));
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let lines: Vec<&[u8]> = (0..9).map(|_| &line[..]).collect();
        assert_eq!(read(&lines), Err(BadStream::TooLong));
        let empty = b"data\n".repeat(EVENT_BYTES_MAX + 1);
        assert_eq!(read(&[&empty]), Err(BadStream::TooLong));
        assert_eq!(read(&[b"data: \xff\n\n"]), Err(BadStream::NotText));
    }
}
