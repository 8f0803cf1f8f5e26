//! A bound for strings that never end: an OSC of 50 MB must not become 50 MB of ours.
//!
//! The grid's parser keeps an OSC until it is whole. Beyond what any of them needs, the rest of one is not passed on; its
//! end is, so that the next sequence begins where it does.

/// Hyperlinks and titles are far below this.
const OSC_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Default)]
pub struct Cap {
    at: At,
}

#[derive(Debug, Clone, Copy, Default)]
enum At {
    #[default]
    Ground,
    Escape,
    /// In an OSC of which so much has passed.
    Osc(usize),
}

impl Cap {
    /// Gives `take` what may pass, piece by piece, and whether it is of an OSC.
    pub fn pass(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8], bool)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = match self.at {
                At::Ground => {
                    let escape = memchr::memchr(0x1b, rest);
                    if escape.is_some() {
                        self.at = At::Escape;
                    }
                    let used = escape.map_or(rest.len(), |at| at + 1);
                    take(&rest[..used], false);
                    used
                }
                At::Escape => {
                    self.at = match rest[0] {
                        b']' => At::Osc(0),
                        0x18 | 0x1a => At::Ground,
                        // Control bytes act at once; the escape goes on.
                        0x00..=0x1f => At::Escape,
                        _ => At::Ground,
                    };
                    take(&rest[..1], false);
                    1
                }
                At::Osc(passed) => {
                    let ends = |byte: &u8| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b);
                    let end = rest.iter().position(ends);
                    let length = end.unwrap_or(rest.len());
                    let room = OSC_BYTES_MAX.saturating_sub(passed).min(length);
                    take(&rest[..room], true);
                    self.at = At::Osc(passed + room);
                    if let Some(end) = end {
                        take(&rest[end..=end], true);
                        self.at = if rest[end] == 0x1b { At::Escape } else { At::Ground };
                    }
                    end.map_or(rest.len(), |end| end + 1)
                }
            };
            rest = &rest[used..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut cap, mut out) = (Cap::default(), Vec::new());
        bytes.chunks(piece.max(1)).for_each(|part| cap.pass(part, |some, _| out.extend_from_slice(some)));
        out
    }

    #[test]
    fn a_long_string_is_cut_and_its_end_is_not() {
        for (end, after) in [("\u{7}", "x"), ("\u{1b}\\", "x"), ("\u{18}", "x")] {
            let long = format!("a\u{1b}]0;{}{end}{after}", "t".repeat(3 * OSC_BYTES_MAX));
            for piece in [1, 1000, usize::MAX] {
                let out = passed(long.as_bytes(), piece);
                assert!(out.len() < OSC_BYTES_MAX + 10, "{}", out.len());
                assert!(out.ends_with(format!("{end}{after}").as_bytes()) && out.starts_with(b"a\x1b]0;"));
            }
        }
    }

    #[test]
    fn what_is_not_long_passes_as_it_is() {
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, piece)| {
            assert_eq!(&passed(bytes, usize::from(*piece)), bytes);
        });
    }
}
