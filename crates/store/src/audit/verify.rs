//! Verifies an audit log and reports the first line that does not fit the chain.
//!
//! Pure: it gets the files one after another and the content of the head
//! file, and returns a report.
//!
//! Invariant: any change, removal, insertion or reordering in a valid log is detected, unless all
//! later links are recomputed. The exception is lines at the end that the head does not cover yet.

use super::{Hash, Link, Linked, Mark};
use std::fmt;

/// What the head file says about the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    At(Link),
    /// The head file is missing or unreadable.
    Missing,
    /// A single file was passed, without a head.
    NotAsked,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub lines: u64,
    /// The times of the first and the last line.
    pub span: Option<(String, String)>,
    pub end: Link,
    /// Lines after the one that the head names: truncation within these cannot be detected.
    pub after_head: u64,
    pub notes: Vec<Note>,
    pub problem: Option<Problem>,
}

/// A defect that the log itself reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub file: String,
    pub line: usize,
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1: the line at fault, or the one after a missing line.
    pub line: usize,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The line is not the one that was written.
    Edited,
    Missing {
        from: u64,
        to: u64,
    },
    /// Lines are missing at the end.
    CutOff {
        from: u64,
        to: u64,
    },
    Reordered {
        seq: u64,
    },
    /// The head file is missing, now or when the node started.
    HeadMissing,
}

impl What {
    pub fn name(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Missing { .. } => "missing",
            Self::CutOff { .. } => "cut_off",
            Self::Reordered { .. } => "reordered",
            Self::HeadMissing => "head_missing",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edited => f.write_str("edited: this is not the line that was written"),
            Self::Missing { from, to } => write!(f, "missing lines {from}..{to} before this one"),
            Self::CutOff { from, to } => write!(f, "cut off: lines {from}..{to} at the end are missing"),
            Self::Reordered { seq } => write!(f, "reordered: line {seq} does not belong here"),
            Self::HeadMissing => f.write_str(
                "the head file was removed, so whether lines before this place are missing cannot be told",
            ),
        }
    }
}

/// Verifies one file after another, in the order of their names.
pub struct Verifier {
    head: Head,
    /// The last line that fitted; `None` until the first line is known.
    end: Option<Link>,
    /// The number of the expected first line.
    first: Option<(u64, String)>,
    dropped: u64,
    /// The position of the line at `end`, for a broken link after it.
    place: (String, usize),
    report: Report,
}

impl Verifier {
    pub fn new(head: Head) -> Self {
        let report = Report {
            lines: 0,
            span: None,
            end: Link::START,
            after_head: 0,
            notes: Vec::new(),
            problem: None,
        };
        Self { head, end: None, first: None, dropped: 0, place: (String::new(), 0), report }
    }

    /// Verifies the next file. If it is the `last` one, a broken line at its end
    /// may still be in progress.
    pub fn file(&mut self, name: &str, bytes: &[u8], last: bool) {
        let lines = split(bytes);
        if self.first.is_none() {
            let named = number_in(name);
            let seen = lines.iter().find_map(|line| line.linked.as_ref()).map(|linked| linked.seq);
            if let Some(first) = named.or(seen) {
                self.first = Some((first, name.to_owned()));
                if first == 1 {
                    self.end = Some(Link::START);
                }
            }
        }
        // Bytes that are not a line; accepted if the next line marks them as torn.
        let mut fragment: Option<&Seen<'_>> = None;
        for (index, line) in lines.iter().enumerate() {
            let Some(linked) = &line.linked else {
                if !line.ended && last {
                    self.note(
                        name,
                        line.number,
                        "the last line is torn: it was being written when its node died",
                    );
                } else if !line.ended {
                    self.fail(name, line.number, What::Edited);
                } else {
                    fragment.get_or_insert(line);
                }
                continue;
            };
            if let Some(broken) = fragment.take() {
                self.excuse(name, broken, line, bytes);
            } else if matches!(linked.mark, Some(Mark::Torn { .. })) {
                self.fail(name, line.number, What::Missing { from: linked.seq, to: linked.seq });
            }
            self.fit(name, index, &lines);
            self.heed(name, line.number, linked.mark.as_ref());
        }
        if let Some(broken) = fragment {
            self.fail(name, broken.number, What::Edited);
        }
    }

    pub fn finish(mut self) -> Report {
        let end = self.end.unwrap_or(Link::START);
        match self.head {
            Head::At(head) if head.seq > end.seq => {
                let (file, line) = self.place.clone();
                self.fail(&file, line, What::CutOff { from: end.seq + 1, to: head.seq });
            }
            Head::At(head) => self.report.after_head = end.seq - head.seq,
            Head::Missing => {
                let (file, line) = self.place.clone();
                self.fail(&file, line, What::HeadMissing);
            }
            Head::NotAsked => {}
        }
        if let Some((first, file)) = self.first
            && first > self.dropped + 1
            && self.head != Head::NotAsked
        {
            // This comes before every other problem.
            let what = What::Missing { from: self.dropped + 1, to: first - 1 };
            self.report.problem = Some(Problem { file, line: 1, what });
        }
        self.report.end = end;
        self.report
    }

    /// Checks that this line continues the chain.
    fn fit(&mut self, name: &str, index: usize, lines: &[Seen<'_>]) {
        let line = &lines[index];
        let Some(linked) = &line.linked else { return };
        let hash = Hash::of(line.text);
        let expected = self.end.map(|end| end.seq + 1).or(self.first.as_ref().map(|(seq, _)| *seq));
        let expected = expected.unwrap_or(linked.seq);
        if linked.seq != expected {
            let later = lines[index..].iter().filter_map(|line| line.linked.as_ref());
            let moved =
                linked.seq < expected || later.clone().any(|l| (expected..linked.seq).contains(&l.seq));
            let what = if moved {
                What::Reordered { seq: linked.seq }
            } else {
                What::Missing { from: expected, to: linked.seq - 1 }
            };
            self.fail(name, line.number, what);
        } else if self.end.is_some_and(|end| end.hash != linked.prev) {
            // Either end of the link may have been changed; the line after tells which.
            let next = lines.get(index + 1).and_then(|next| next.linked.as_ref());
            let this_is_whole = next.is_none_or(|next| next.prev == hash);
            let (file, number) = self.place.clone();
            if this_is_whole && number > 0 {
                self.fail(&file, number, What::Edited);
            } else {
                self.fail(name, line.number, What::Edited);
            }
        }
        if let Head::At(head) = self.head
            && head.seq == linked.seq
            && head.hash != hash
        {
            self.fail(name, line.number, What::Edited);
        }
        self.end = Some(Link { seq: linked.seq, hash });
        self.place = (name.to_owned(), line.number);
        self.report.lines += 1;
        if let Some(at) = &linked.at {
            let first = self.report.span.take().map_or_else(|| at.clone(), |(first, _)| first);
            self.report.span = Some((first, at.clone()));
        }
    }

    /// Accepts a broken line if the very next line is a mark that names its bytes.
    fn excuse(&mut self, name: &str, broken: &Seen<'_>, by: &Seen<'_>, bytes: &[u8]) {
        let fragment = &bytes[broken.start..by.start - 1];
        match by.linked.as_ref().and_then(|linked| linked.mark.as_ref()) {
            Some(Mark::Torn { bytes, digest })
                if *bytes == fragment.len() as u64 && *digest == Hash::of(fragment).to_string() =>
            {
                let what = format!("torn: {bytes} bytes of a line that was being written when its node died");
                self.note(name, broken.number, &what);
            }
            _ => self.fail(name, broken.number, What::Edited),
        }
    }

    fn heed(&mut self, name: &str, line: usize, mark: Option<&Mark>) {
        match mark {
            Some(Mark::Gap { lost }) => {
                self.note(name, line, &format!("{lost} lines could not be written before this one"));
            }
            Some(Mark::Dropped { through }) => self.dropped = self.dropped.max(*through),
            Some(Mark::Headless {}) => self.fail(name, line, What::HeadMissing),
            Some(Mark::Torn { .. }) | None => {}
        }
    }

    fn note(&mut self, file: &str, line: usize, what: &str) {
        const NOTES_MAX: usize = 1_000;
        if self.report.notes.len() < NOTES_MAX {
            self.report.notes.push(Note { file: file.to_owned(), line, what: what.to_owned() });
        }
    }

    /// Only the first problem counts: after it, nothing can be expected to fit.
    fn fail(&mut self, file: &str, line: usize, what: What) {
        self.report.problem.get_or_insert_with(|| Problem { file: file.to_owned(), line, what });
    }
}

/// One line, or bytes in the place of one.
struct Seen<'a> {
    text: &'a [u8],
    start: usize,
    number: usize,
    ended: bool,
    linked: Option<Linked>,
}

fn split(bytes: &[u8]) -> Vec<Seen<'_>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for piece in bytes.split_inclusive(|b| *b == b'\n') {
        let ended = piece.ends_with(b"\n");
        let text = if ended { &piece[..piece.len() - 1] } else { piece };
        lines.push(Seen { text, start, number: lines.len() + 1, ended, linked: Linked::parse(text) });
        start += piece.len();
    }
    lines
}

/// Returns the number of the first line, from the name of a log file.
pub(super) fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".jsonl")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve lines in three files, as the log writes them.
    struct Written {
        files: Vec<(String, Vec<u8>)>,
        head: Link,
    }

    impl Written {
        fn new() -> Self {
            let (mut link, mut files) = (Link::START, Vec::new());
            for file in 0..3 {
                let mut bytes = Vec::new();
                for line in 0..4 {
                    link.seal(
                        format!("{{\"at\":\"t{file}{line}\",\"who\":\"user\"}}").as_bytes(),
                        &mut bytes,
                    );
                }
                files.push((format!("{:020}.jsonl", 1 + 4 * file), bytes));
            }
            Self { files, head: link }
        }

        fn report(&self) -> Report {
            self.report_with(Head::At(self.head))
        }

        fn report_with(&self, head: Head) -> Report {
            let mut verifier = Verifier::new(head);
            for (n, (name, bytes)) in self.files.iter().enumerate() {
                verifier.file(name, bytes, n + 1 == self.files.len());
            }
            verifier.finish()
        }

        fn lines(&self, file: usize) -> Vec<Vec<u8>> {
            self.files[file].1.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
        }

        fn with_lines(mut self, file: usize, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Self {
            let mut lines = self.lines(file);
            change(&mut lines);
            self.files[file].1 = lines.concat();
            self
        }
    }

    /// Returns the problem as "file.line what".
    fn told(report: &Report) -> String {
        report.problem.as_ref().map_or_else(
            || "ok".to_owned(),
            |p| format!("{}.{} {:?}", number_in(&p.file).unwrap_or(0), p.line, p.what),
        )
    }

    fn edit(line: &mut [u8], from: u8, to: u8) {
        let at = line.iter().rposition(|b| *b == from).unwrap();
        line[at] = to;
    }

    #[test]
    fn a_whole_log_is_ok() {
        let report = Written::new().report();
        assert_eq!((told(&report).as_str(), report.lines, report.after_head), ("ok", 12, 0));
        assert_eq!(report.span, Some(("t00".into(), "t23".into())));
    }

    #[test]
    fn what_was_done_to_it_is_told() {
        let whole = Written::new;
        let cases = [
            ("edited", whole().with_lines(1, |l| edit(&mut l[1], b'u', b'x')), "5.2 Edited"),
            ("edited, first of a file", whole().with_lines(1, |l| edit(&mut l[0], b'u', b'x')), "5.1 Edited"),
            ("edited, last of a file", whole().with_lines(1, |l| edit(&mut l[3], b'u', b'x')), "5.4 Edited"),
            ("edited, last of all", whole().with_lines(2, |l| edit(&mut l[3], b'u', b'x')), "9.4 Edited"),
            ("a link edited", whole().with_lines(1, |l| l[2][20] ^= 1), "5.3 Edited"),
            ("garbage", whole().with_lines(1, |l| l[1] = b"x\n".to_vec()), "5.2 Edited"),
            ("an empty line", whole().with_lines(1, |l| l.insert(2, b"\n".to_vec())), "5.3 Edited"),
            ("removed", whole().with_lines(1, |l| drop(l.remove(1))), "5.2 Missing { from: 6, to: 6 }"),
            ("two removed", whole().with_lines(1, |l| drop(l.drain(1..3))), "5.2 Missing { from: 6, to: 7 }"),
            ("first removed", whole().with_lines(0, |l| drop(l.remove(0))), "1.1 Missing { from: 1, to: 1 }"),
            ("end of a file", whole().with_lines(1, |l| drop(l.pop())), "9.1 Missing { from: 8, to: 8 }"),
            ("end of all", whole().with_lines(2, |l| l.truncate(2)), "9.2 CutOff { from: 11, to: 12 }"),
            ("swapped", whole().with_lines(1, |l| l.swap(1, 2)), "5.2 Reordered { seq: 7 }"),
            ("twice", whole().with_lines(1, |l| l.insert(2, l[1].clone())), "5.3 Reordered { seq: 6 }"),
            ("cut in a line", whole().with_lines(0, |l| l[3].truncate(30)), "1.4 Edited"),
        ];
        for (what, log, expected) in cases {
            assert_eq!(told(&log.report()), expected, "{what}");
        }
    }

    #[test]
    fn removed_files_are_told() {
        for (file, expected) in [
            (0, "5.1 Missing { from: 1, to: 4 }"),
            (1, "9.1 Missing { from: 5, to: 8 }"),
            (2, "5.4 CutOff { from: 9, to: 12 }"),
        ] {
            let mut log = Written::new();
            log.files.remove(file);
            assert_eq!(told(&log.report()), expected);
        }
        let mut log = Written::new();
        log.files.clear();
        assert_eq!(told(&log.report()), "0.0 CutOff { from: 1, to: 12 }");
        assert_eq!(told(&Written::new().report_with(Head::Missing)), "9.4 HeadMissing");
    }

    #[test]
    fn files_that_the_log_itself_dropped_are_not_missed() {
        let mut log = Written::new();
        log.head.seal(&Mark::Dropped { through: 4 }.fields("t"), &mut log.files[2].1);
        log.files.remove(0);
        assert_eq!(told(&log.report()), "ok");
        log.files.remove(0);
        assert_eq!(told(&log.report()), "9.1 Missing { from: 5, to: 8 }", "more than it dropped");
    }

    #[test]
    fn a_torn_line_that_the_log_owns_up_to_is_no_problem() {
        let fragment = b"{\"seq\":13,\"prev\":\"00";
        let torn =
            |bytes: &[u8]| Mark::Torn { bytes: bytes.len() as u64, digest: Hash::of(bytes).to_string() };
        let mut log = Written::new();
        log.files[2].1.extend(fragment);
        let report = log.report();
        assert_eq!((told(&report).as_str(), report.notes.len()), ("ok", 1), "not yet chained over");
        log.files[2].1.push(b'\n');
        log.head.seal(&torn(fragment).fields("t"), &mut log.files[2].1);
        log.head.seal(&Mark::Gap { lost: 2 }.fields("t"), &mut log.files[2].1);
        let report = log.report();
        assert_eq!((told(&report).as_str(), report.notes.len(), report.lines), ("ok", 2, 14));
        assert!(report.notes[0].what.starts_with("torn: 20 bytes"), "{:?}", report.notes);
        // Another fragment, or none, does not match the mark.
        let other = Written { files: log.files.clone(), head: log.head };
        assert_eq!(told(&other.with_lines(2, |l| l[4][3] = b'x').report()), "9.5 Edited");
        assert!(log.with_lines(2, |l| drop(l.remove(4))).report().problem.is_some());
    }

    #[test]
    fn lines_after_the_head_are_counted() {
        let mut log = Written::new();
        let head = log.head;
        log.head.seal(b"{\"at\":\"t\"}", &mut log.files[2].1);
        let report = log.report_with(Head::At(head));
        assert_eq!((told(&report).as_str(), report.after_head), ("ok", 1));
    }

    #[test]
    fn fuzz_any_bytes_are_looked_at_without_a_panic() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let mut verifier = Verifier::new(Head::At(Link::START));
            let half = bytes.len() / 2;
            verifier.file("00000000000000000001.jsonl", &bytes[..half], false);
            verifier.file("x", &bytes[half..], true);
            let _ = verifier.finish();
            let _ = (Linked::parse(bytes), Link::parse_head(bytes));
        });
    }

    /// Every change to the bytes of a valid log is detected.
    #[test]
    fn fuzz_no_change_goes_unseen() {
        bolero::check!().with_type::<(u8, u16, u16, u8, u8)>().for_each(|(kind, from, to, file, byte)| {
            let mut log = Written::new();
            let before = log.files.clone();
            let bytes = &mut log.files[usize::from(*file) % 3].1;
            let (a, b) = (usize::from(*from) % bytes.len(), usize::from(*to) % bytes.len());
            match kind % 5 {
                0 => bytes[a] ^= byte.max(&1),
                1 => drop(bytes.drain(a.min(b)..=a.max(b))),
                2 => bytes.insert(a, *byte),
                3 => bytes.swap(a, b),
                _ => {
                    let piece = bytes[a.min(b)..=a.max(b)].to_vec();
                    bytes.splice(a..a, piece);
                }
            }
            // The line end of a file's last line is not covered by the chain.
            let trimmed = |files: &[(String, Vec<u8>)]| {
                files
                    .iter()
                    .map(|(_, bytes)| bytes.strip_suffix(b"\n").unwrap_or(bytes).to_vec())
                    .collect::<Vec<_>>()
            };
            if trimmed(&log.files) != trimmed(&before) {
                let report = log.report();
                assert!(report.problem.is_some(), "not seen: {kind} {from} {to} {file} {byte}");
            }
        });
    }
}
