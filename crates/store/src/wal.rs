//! Reads the write-ahead log of a journal before SQLite does, and distinguishes damage
//! from an unfinished write.
//!
//! SQLite replays a log up to the first frame with a wrong checksum and silently ignores the rest.
//! That is right for a transaction that a power cut interrupted, but wrong for a log with a flipped
//! bit: committed records would vanish, or older pages would replace newer ones of the database.
//!
//! Every commit is synced before the next one is written. So a power cut leaves at most one
//! unfinished transaction, the last one, with at most one commit mark, in its last frame. A wrong
//! frame followed by more than that is damage. The head (`head`) tells whether a single last
//! transaction was acknowledged.
//! Not here: what is in the pages; restoring a damaged log (`salvage`).

mod salvage;

pub(crate) use salvage::{SalvagedLog, salvage};

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const FORMAT: u32 = 3_007_000;
const PAGE_BYTES_MAX: usize = 65_536;

/// Random numbers that a log gets after each checkpoint; they distinguish its frames from
/// older ones behind them.
pub(crate) type Salts = (u32, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// There is no log, or nothing was written to it.
    Empty,
    /// Its header is not one that SQLite writes.
    BadHeader,
    Frames {
        salts: Salts,
        /// The number of frames up to the last valid commit.
        committed: u32,
        bad: Option<BadFrame>,
    },
}

/// The first frame with a wrong checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadFrame {
    pub number: u32,
    /// Commit marks of this log in this frame and behind it.
    pub commits: u32,
    /// Whether frames of this log follow the last of these marks.
    pub more: bool,
}

impl BadFrame {
    /// Whether this is more than one unfinished transaction can leave.
    pub(crate) fn is_damage(self) -> bool {
        self.commits > 1 || (self.commits == 1 && self.more)
    }
}

/// Returns the current salts of a log; `None` if it has no header.
pub(crate) fn salts(path: &Path) -> Option<Salts> {
    let mut header = [0; HEADER_BYTES];
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    Some((number(&header, 16), number(&header, 20)))
}

/// Returns the size of a log with this many frames.
pub(crate) fn bytes_of(frames: u32, page_bytes: u64) -> u64 {
    HEADER_BYTES as u64 + u64::from(frames) * (FRAME_HEADER_BYTES as u64 + page_bytes)
}

pub(crate) fn inspect(path: &Path) -> io::Result<Log> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Log::Empty),
        Err(e) => return Err(e),
    };
    let mut file = BufReader::with_capacity(256 << 10, file);
    let mut header = [0; HEADER_BYTES];
    if !fill(&mut file, &mut header)? || header.iter().all(|byte| *byte == 0) {
        return Ok(Log::Empty);
    }
    let Some(mut chain) = Chain::begin(&header) else { return Ok(Log::BadHeader) };
    let salts = (number(&header, 16), number(&header, 20));
    let (mut committed, mut bad, mut count) = (0, None::<BadFrame>, 0_u32);
    let mut frame = vec![0; FRAME_HEADER_BYTES + chain.page_bytes];
    while fill(&mut file, &mut frame)? {
        count += 1;
        let is_of_this_log = (number(&frame, 8), number(&frame, 12)) == salts;
        let is_commit = number(&frame, 4) != 0;
        match &mut bad {
            None if is_of_this_log && chain.follows(&frame) => {
                if is_commit {
                    committed = count;
                }
            }
            // Wrong salts or checksum: the end of this log, or damage. The frames behind it decide.
            None => {
                let commits = u32::from(is_of_this_log && is_commit);
                bad = Some(BadFrame { number: count, commits, more: false });
            }
            Some(bad) if is_of_this_log => {
                bad.more = bad.commits > 0 && !is_commit;
                bad.commits += u32::from(is_commit);
            }
            Some(_) => {}
        }
    }
    // Older frames behind the end of a log are normal.
    let bad = bad.filter(|bad| bad.commits > 0);
    Ok(Log::Frames { salts, committed, bad })
}

/// The running checksum over a log.
struct Chain {
    sums: (u32, u32),
    is_big_endian: bool,
    page_bytes: usize,
}

impl Chain {
    fn begin(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let magic = number(header, 0);
        let page_bytes = usize::try_from(number(header, 8)).ok()?;
        let is_page = page_bytes.is_power_of_two() && (512..=PAGE_BYTES_MAX).contains(&page_bytes);
        if magic & !1 != MAGIC || number(header, 4) != FORMAT || !is_page {
            return None;
        }
        let mut chain = Self { sums: (0, 0), is_big_endian: magic & 1 == 1, page_bytes };
        chain.add(&header[..24]);
        (chain.sums == (number(header, 24), number(header, 28))).then_some(chain)
    }

    /// Whether this frame continues the chain; if so, it is added to the sums.
    fn follows(&mut self, frame: &[u8]) -> bool {
        let before = self.sums;
        self.add(&frame[..8]);
        self.add(&frame[FRAME_HEADER_BYTES..]);
        let fits = number(frame, 0) != 0 && self.sums == (number(frame, 16), number(frame, 20));
        if !fits {
            self.sums = before;
        }
        fits
    }

    fn add(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(self.word(pair, 0)).wrapping_add(second);
            second = second.wrapping_add(self.word(pair, 4)).wrapping_add(first);
        }
        self.sums = (first, second);
    }

    /// Undoes `add` of the same bytes.
    fn remove(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8).rev() {
            second = second.wrapping_sub(self.word(pair, 4)).wrapping_sub(first);
            first = first.wrapping_sub(self.word(pair, 0)).wrapping_sub(second);
        }
        self.sums = (first, second);
    }

    fn word(&self, pair: &[u8], at: usize) -> u32 {
        match self.is_big_endian {
            true => number(pair, at),
            false => number(pair, at).swap_bytes(),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fills the buffer; returns false if the file ended before.
fn fill(file: &mut impl io::Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}
