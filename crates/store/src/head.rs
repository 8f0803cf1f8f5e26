//! The head of a journal: a small file beside it that says how far the journal has come (L14).
//!
//! Without it, a journal that is empty, missing or rolled back would open like any other. The head
//! is overwritten after each commit and not synced, which costs a microsecond. So it is never ahead
//! of the journal. It is behind only after a power cut, by what the kernel had not written back yet
//! (about 30 seconds on Linux); a snapshot and an orderly stop sync it. Any loss of records that
//! the head covers is detected.
//!
//! Two slots are written alternately, so that a torn write leaves the previous one.
//! Not here: what to do about a loss (`journal`, `repair`).

use crate::files::{self, FileError};
use crate::wal::Salts;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"SYNHEAD1";
const SLOT_BYTES: usize = 64;
/// Far apart, so that one torn sector cannot contain both.
const SLOT_PLACES: [u64; 2] = [0, 4096];

/// How far a journal had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head {
    /// A counter of head writes.
    turn: u64,
    /// The number of the last record.
    pub seq: u64,
    /// The log at that time, and how many frames it had. With none, everything was in the database.
    pub salts: Salts,
    pub frames: u32,
}

pub(crate) struct HeadFile {
    file: File,
    last: Head,
}

pub(crate) fn head_of(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push("-head");
    path.into()
}

/// The state of a journal's head file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadState {
    /// An older version wrote the journal, or there is no journal.
    Missing,
    /// Both slots are invalid. This means damage, since the file is created atomically and a torn
    /// write leaves one slot.
    Damaged,
    Whole(Head),
}

pub(crate) fn read(journal: &Path) -> io::Result<HeadState> {
    match File::open(head_of(journal)) {
        Ok(file) => Ok(newest(&file).map_or(HeadState::Damaged, HeadState::Whole)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(HeadState::Missing),
        Err(e) => Err(e),
    }
}

fn newest(file: &File) -> Option<Head> {
    let slot = |place: &u64| {
        let mut slot = [0; SLOT_BYTES];
        file.read_exact_at(&mut slot, *place).ok()?;
        parse(&slot)
    };
    SLOT_PLACES.iter().filter_map(slot).max_by_key(|head| head.turn)
}

fn parse(slot: &[u8; SLOT_BYTES]) -> Option<Head> {
    let long = |at: usize| slot[at..at + 8].try_into().ok().map(u64::from_be_bytes);
    let short = |at: usize| slot[at..at + 4].try_into().ok().map(u32::from_be_bytes);
    let is_whole = slot.starts_with(MAGIC) && crc32fast::hash(&slot[..60]) == short(60)?;
    is_whole.then_some(())?;
    Some(Head { turn: long(8)?, seq: long(16)?, salts: (short(24)?, short(28)?), frames: short(32)? })
}

fn slot_of(head: &Head) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..16].copy_from_slice(&head.turn.to_be_bytes());
    slot[16..24].copy_from_slice(&head.seq.to_be_bytes());
    slot[24..28].copy_from_slice(&head.salts.0.to_be_bytes());
    slot[28..32].copy_from_slice(&head.salts.1.to_be_bytes());
    slot[32..36].copy_from_slice(&head.frames.to_be_bytes());
    let crc = crc32fast::hash(&slot[..60]);
    slot[60..].copy_from_slice(&crc.to_be_bytes());
    slot
}

/// Replaces the head atomically, so that it is always readable. The file has its full length from
/// the start, so a full disk does not prevent later writes.
pub(crate) fn replace(journal: &Path, seq: u64) -> Result<(), FileError> {
    let mut bytes = vec![0; 4096 + SLOT_BYTES + 1];
    bytes[..SLOT_BYTES].copy_from_slice(&slot_of(&Head { seq, ..Head::default() }));
    files::write_private(&head_of(journal), &bytes)
}

impl HeadFile {
    /// Opens the head of this journal, or creates one that says `seq`.
    pub(crate) fn open(journal: &Path, seq: u64) -> io::Result<Self> {
        let path = head_of(journal);
        let mut how = std::fs::OpenOptions::new();
        how.read(true).write(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let file = match how.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                replace(journal, seq).map_err(io::Error::other)?;
                how.open(&path)?
            }
            opened => opened?,
        };
        let last = newest(&file).unwrap_or_default();
        Ok(Self { file, last })
    }

    pub(crate) fn write(&mut self, seq: u64, salts: Salts, frames: u32) -> io::Result<()> {
        let head = Head { turn: self.last.turn + 1, seq, salts, frames };
        let place = SLOT_PLACES[usize::from(head.turn % 2 == 1)];
        self.file.write_all_at(&slot_of(&head), place)?;
        self.last = head;
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_head_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal.db");
        assert_eq!(read(&journal).unwrap(), HeadState::Missing);
        let mut file = HeadFile::open(&journal, 0).unwrap();
        let seq = || match read(&journal).unwrap() {
            HeadState::Whole(head) => head.seq,
            other => panic!("{other:?}"),
        };
        assert_eq!(seq(), 0);
        for seq in 1..=5 {
            file.write(seq, (7, 8), 9).unwrap();
        }
        let head = Head { turn: 5, seq: 5, salts: (7, 8), frames: 9 };
        assert_eq!(read(&journal).unwrap(), HeadState::Whole(head));
        file.file.write_all_at(b"torn", SLOT_PLACES[1] + 16).unwrap();
        assert_eq!(seq(), 4);
        assert_eq!(HeadFile::open(&journal, 0).unwrap().last.seq, 4);
    }
}
