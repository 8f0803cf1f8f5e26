//! What a program printed, as far as it is kept: the last picture of its screen, and the tail of what came after.
//!
//! A client that comes later gets both, with the changes of size in between at the places where they happened, so
//! that what it draws is what it would have drawn from the beginning.
//! Invariant: picture, tail and changes of size are bounded; what was lost by that is told.

use std::collections::VecDeque;

use super::wire::Tell;

/// Output kept beyond the last picture; what is more is lost for whoever comes later. A node that keeps up makes a
/// picture of every megabyte and is never further behind than the queue of a client, so nothing is lost while it lives.
const TAIL_BYTES_MAX: usize = 2 << 20;
/// Changes of size kept within the tail: a person who drags a window makes hundreds.
const CHANGES_MAX: usize = 1_024;
/// Of the tail's room, once all is quiet.
const ROOM_KEPT: usize = 64 << 10;

type Size = (u16, u16);

pub(super) struct Kept {
    /// All output that ever came, bytes.
    printed: u64,
    tail: VecDeque<u8>,
    picture: Vec<u8>,
    /// The window where the tail begins.
    size: Size,
    /// Where in the output the window got another size.
    changes: VecDeque<(u64, Size)>,
    /// Up to where queries are answered.
    answered: u64,
    /// Some output between the picture and the tail is lost.
    lost: bool,
    /// A person has typed.
    was_typed: bool,
}

impl Kept {
    pub(super) fn new(size: Size) -> Self {
        Self {
            printed: 0,
            tail: VecDeque::new(),
            picture: Vec::new(),
            size,
            changes: VecDeque::new(),
            answered: 0,
            lost: false,
            was_typed: false,
        }
    }

    pub(super) fn typed(&mut self) {
        self.was_typed = true;
    }

    /// All output that ever came, bytes.
    pub(super) fn printed(&self) -> u64 {
        self.printed
    }

    fn tail_from(&self) -> u64 {
        self.printed - self.tail.len() as u64
    }

    pub(super) fn print(&mut self, bytes: &[u8]) {
        self.printed += bytes.len() as u64;
        self.tail.extend(bytes);
        if self.tail.len() > TAIL_BYTES_MAX {
            self.tail.drain(..self.tail.len() - TAIL_BYTES_MAX);
            self.lost = true;
            self.forget_changes_before(self.tail_from() + 1);
        }
    }

    pub(super) fn resized(&mut self, size: Size) {
        // Nothing was printed in between: nobody needs the sizes before.
        if self.changes.back().is_some_and(|(at, _)| *at == self.printed) {
            self.changes.pop_back();
        }
        self.changes.push_back((self.printed, size));
        if self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    pub(super) fn answered(&mut self, upto: u64) {
        self.answered = self.answered.max(upto.min(self.printed));
    }

    /// Keeps a picture, and of the tail only what came after it.
    pub(super) fn draw(&mut self, upto: u64, size: Size, drawn: Vec<u8>) {
        let from = self.tail_from();
        // A picture of the future or from before what is kept fits nothing.
        if upto > self.printed || upto < from {
            return;
        }
        self.tail.drain(..usize::try_from(upto - from).unwrap_or(0));
        self.forget_changes_before(upto);
        self.size = size;
        self.picture = drawn;
        self.lost = false;
        // All is quiet; in a flood the room would be made again at once.
        if self.tail.is_empty() && self.tail.capacity() > ROOM_KEPT {
            self.tail.shrink_to(ROOM_KEPT);
            crate::memory::give_back();
        }
    }

    fn forget_changes_before(&mut self, upto: u64) {
        while let Some((_, size)) = self.changes.front().copied().filter(|(at, _)| *at < upto) {
            self.size = size;
            self.changes.pop_front();
        }
    }

    /// All that a client needs to be where the others are; the window is of size `now` by now.
    pub(super) fn replay(&self, now: Size) -> Vec<Tell> {
        let (columns, rows) = self.size;
        let (mut at, answered) = (self.tail_from(), self.answered);
        let mut tells = vec![
            Tell::Welcome {
                columns,
                rows,
                upto: at,
                answered,
                lost: self.lost,
                guards: true,
                typed: self.was_typed,
            },
            Tell::Picture(self.picture.clone()),
        ];
        let mut size = self.size;
        for (place, change) in &self.changes {
            self.between(at, *place, &mut tells);
            at = at.max(*place);
            size = *change;
            tells.push(Tell::Resized { columns: size.0, rows: size.1 });
        }
        self.between(at, self.printed, &mut tells);
        if size != now {
            tells.push(Tell::Resized { columns: now.0, rows: now.1 });
        }
        tells
    }

    fn between(&self, from: u64, upto: u64, tells: &mut Vec<Tell>) {
        let place = |at: u64| usize::try_from(at.saturating_sub(self.tail_from())).unwrap_or(usize::MAX);
        let (from, upto) = (place(from), place(upto).min(self.tail.len()));
        if from < upto {
            tells.push(Tell::Output(self.tail.range(from..upto).copied().collect()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one word: `W80x24@0 P[] O[ab] R1x1`.
    fn told(kept: &Kept, now: Size) -> String {
        let words = kept.replay(now).into_iter().map(|tell| match tell {
            Tell::Welcome { columns, rows, upto, answered, lost, typed, .. } => {
                let (lost, typed) = (if lost { " lost" } else { "" }, if typed { " typed" } else { "" });
                format!("W{columns}x{rows}@{upto}/{answered}{lost}{typed}")
            }
            Tell::Picture(drawn) => format!("P[{}]", String::from_utf8_lossy(&drawn)),
            Tell::Output(bytes) => format!("O[{}]", String::from_utf8_lossy(&bytes)),
            Tell::Resized { columns, rows } => format!("R{columns}x{rows}"),
            other => format!("{other:?}"),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Keys that came before the first node must not look like an empty line to it.
    #[test]
    fn keys_before_a_client_are_reported_to_it() {
        let mut kept = Kept::new((80, 24));
        kept.print(b"> ");
        kept.typed();
        assert_eq!(told(&kept, (80, 24)), "W80x24@0/0 typed P[] O[> ]");
    }

    #[test]
    fn a_change_of_size_comes_back_at_its_place() {
        let mut kept = Kept::new((80, 24));
        assert_eq!(told(&kept, (80, 24)), "W80x24@0/0 P[]");
        kept.print(b"ab");
        kept.resized((90, 24));
        kept.print(b"cd");
        assert_eq!(told(&kept, (90, 24)), "W80x24@0/0 P[] O[ab] R90x24 O[cd]");
        kept.answered(3);
        kept.draw(3, (90, 24), b"pic".to_vec());
        assert_eq!(told(&kept, (90, 24)), "W90x24@3/3 P[pic] O[d]");
        // A picture of the past or of the future is no picture.
        kept.draw(2, (1, 1), b"no".to_vec());
        kept.draw(9, (1, 1), b"no".to_vec());
        kept.resized((100, 30));
        assert_eq!(told(&kept, (100, 30)), "W90x24@3/3 P[pic] O[d] R100x30");
        kept.draw(4, (100, 30), b"new".to_vec());
        assert_eq!(told(&kept, (100, 30)), "W100x30@4/3 P[new] R100x30");
    }

    #[test]
    fn too_much_is_lost_from_the_front_and_said() {
        let mut kept = Kept::new((80, 24));
        kept.print(b"x");
        kept.resized((90, 24));
        kept.print(&vec![b'y'; TAIL_BYTES_MAX]);
        assert!(told(&kept, (90, 24)).starts_with("W90x24@1/0 lost P[] O[yyy"), "{}", kept.printed);
        kept.print(b"z");
        assert!(told(&kept, (90, 24)).starts_with("W90x24@2/0 lost P[] O[yyy"));
        for _ in 0..2 * CHANGES_MAX {
            kept.print(b"z");
            kept.resized((1, 1));
        }
        assert_eq!(kept.changes.len(), CHANGES_MAX);
        kept.draw(kept.printed, (5, 5), b"pic".to_vec());
        assert!(!told(&kept, (1, 1)).contains("lost"));
    }
}
