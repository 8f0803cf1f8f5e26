//! Restores a damaged log as far as its own checksums prove its content (L14).
//!
//! A checksum covers all frames up to its own, and its arithmetic can be reversed:
//! - A lost header follows from the first frame: the sums are computed backwards through it.
//! - A single flipped bit is repaired if only one position explains the difference of the sums. The
//!   highest bits of words have the same effect in many positions, and stay lost.
//! - A frame with a wrong stored checksum is proven by the next frame.
//! - Any other damaged frame is left out if a later frame has the same page and so replaces it.
//!   Frames behind it are checked against the checksum stored in the frame before them.
//!
//! Invariant: every page of the result matches a checksum of the log. Checksums cannot prove
//! that the pages fit together after a frame was left out: `is_certain` is then false, and the
//! caller checks every row.
//! Not here: what is in the pages; trying the result (`repair`).

use super::{Chain, FORMAT, FRAME_HEADER_BYTES, HEADER_BYTES, MAGIC, PAGE_BYTES_MAX, Salts, number};
use std::collections::BTreeSet;

/// A valid log that ends with a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SalvagedLog {
    pub bytes: Vec<u8>,
    /// Whether no frame up to its end was left out.
    pub is_certain: bool,
}

/// An upper limit: even one restart per second for half a year stays below it.
const RESTARTS_MAX: u32 = 1 << 24;

/// Returns what can be restored of a log, longest first; empty if no commit can be proven.
pub(crate) fn salvage(log: &[u8]) -> Vec<SalvagedLog> {
    let Some(header) = header_of(log) else { return Vec::new() };
    let Some(chain) = Chain::begin(&header) else { return Vec::new() };
    let salts = (number(&header, 16), number(&header, 20));
    let frames = read_frames(chain, salts, &log[HEADER_BYTES..]);
    let first_lost = frames.iter().position(|frame| matches!(frame, Frame::Lost { .. }));
    let certain = last_commit(&frames[..first_lost.unwrap_or(frames.len())]);
    let longest = last_commit_without_loss(&frames);
    let mut all = Vec::new();
    if longest > certain {
        all.push(SalvagedLog { bytes: write(&header, &frames[..longest]), is_certain: false });
    }
    if certain > 0 {
        all.push(SalvagedLog { bytes: write(&header, &frames[..certain]), is_certain: true });
    }
    all
}

enum Frame {
    /// As it was in the log, proven by a checksum.
    Proven(Vec<u8>),
    /// Only its page number is left, and that may be wrong too.
    Lost { page: u32 },
}

impl Frame {
    fn is_commit(&self) -> bool {
        matches!(self, Self::Proven(bytes) if number(bytes, 4) != 0)
    }

    fn page(&self) -> u32 {
        match self {
            Self::Proven(bytes) => number(bytes, 0),
            Self::Lost { page } => *page,
        }
    }
}

/// Returns the header of the log, or the one that its first frame proves.
fn header_of(log: &[u8]) -> Option<[u8; HEADER_BYTES]> {
    let found: [u8; HEADER_BYTES] = log.get(..HEADER_BYTES)?.try_into().ok()?;
    if Chain::begin(&found).is_some() {
        return Some(found);
    }
    let sizes = (9..=16).map(|power| 1_usize << power).filter(|size| *size <= PAGE_BYTES_MAX);
    let forms = sizes.flat_map(|page_bytes| [(page_bytes, false), (page_bytes, true)]);
    forms.into_iter().find_map(|(page_bytes, is_big_endian)| {
        let frame = log.get(HEADER_BYTES..HEADER_BYTES + FRAME_HEADER_BYTES + page_bytes)?;
        header_before(frame, page_bytes, is_big_endian)
    })
}

/// Computes the only header that this frame can follow. Only its restart count is unknown, and the
/// sums have twice as many bits as that number, so the remaining bits prove it.
fn header_before(frame: &[u8], page_bytes: usize, is_big_endian: bool) -> Option<[u8; HEADER_BYTES]> {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(MAGIC | u32::from(is_big_endian)).to_be_bytes());
    header[4..8].copy_from_slice(&FORMAT.to_be_bytes());
    header[8..12].copy_from_slice(&u32::try_from(page_bytes).ok()?.to_be_bytes());
    header[16..24].copy_from_slice(&frame[8..16]);

    let mut back = Chain { sums: stored(frame), is_big_endian, page_bytes };
    back.remove(&frame[FRAME_HEADER_BYTES..]);
    back.remove(&frame[..8]);
    let sums = back.sums;
    back.remove(&header[16..24]);
    let mut start = Chain { sums: (0, 0), is_big_endian, page_bytes };
    start.add(&header[..8]);
    // The second word of the pair is the unknown one.
    start.add(&header[8..16]);
    let restarts = back.sums.1.wrapping_sub(start.sums.1);
    let restarts = if is_big_endian { restarts.to_be_bytes() } else { restarts.to_le_bytes() };
    header[12..16].copy_from_slice(&restarts);
    header[24..28].copy_from_slice(&sums.0.to_be_bytes());
    header[28..].copy_from_slice(&sums.1.to_be_bytes());
    let is_proven = number(&header, 12) < RESTARTS_MAX
        && Chain::begin(&header).is_some_and(|mut chain| chain.follows(frame));
    is_proven.then_some(header)
}

/// Reads the frames of this log, up to the last proven one.
fn read_frames(mut chain: Chain, salts: Salts, bytes: &[u8]) -> Vec<Frame> {
    let size = FRAME_HEADER_BYTES + chain.page_bytes;
    let raw: Vec<&[u8]> = bytes.chunks_exact(size).collect();
    let form = chain_at(&chain, chain.sums);
    let is_ours = |frame: &[u8]| (number(frame, 8), number(frame, 12)) == salts;
    let follows = |at: usize, sums| {
        raw.get(at).is_some_and(|frame| is_ours(frame) && chain_at(&form, sums).follows(frame))
    };
    let last_linked = (1..raw.len()).rev().find(|at| follows(*at, stored(raw[at - 1]))).unwrap_or(0);
    let mut frames = Vec::new();
    for (at, frame) in raw.iter().enumerate() {
        if chain.follows(frame) {
            frames.push(Frame::Proven(frame.to_vec()));
            continue;
        }
        chain.add(&frame[..8]);
        chain.add(&frame[FRAME_HEADER_BYTES..]);
        let (computed, stored) = (chain.sums, stored(frame));
        if follows(at + 1, computed) {
            // Only its own stored checksum is wrong.
            frames.push(Frame::Proven(frame.to_vec()));
            continue;
        }
        chain.sums = stored;
        let is_sum_right = follows(at + 1, stored) || !differ_by_one_bit(computed, stored);
        match without_flipped_bit(frame, computed, form.is_big_endian) {
            Some(mended) if is_ours(frame) && is_sum_right => frames.push(Frame::Proven(mended)),
            _ if at < last_linked => frames.push(Frame::Lost { page: number(frame, 0) }),
            _ => break,
        }
    }
    frames
}

fn chain_at(chain: &Chain, sums: (u32, u32)) -> Chain {
    Chain { sums, is_big_endian: chain.is_big_endian, page_bytes: chain.page_bytes }
}

fn stored(frame: &[u8]) -> (u32, u32) {
    (number(frame, 16), number(frame, 20))
}

fn differ_by_one_bit(one: (u32, u32), other: (u32, u32)) -> bool {
    (one.0 ^ other.0).count_ones() + (one.1 ^ other.1).count_ones() == 1
}

/// Returns the frame with the one bit flipped that makes its sums match; `None` if
/// several bits would. Changing a word by `d` changes the sums by `d` times a factor that
/// depends only on its position.
fn without_flipped_bit(frame: &[u8], computed: (u32, u32), is_big_endian: bool) -> Option<Vec<u8>> {
    let stored = stored(frame);
    let wanted = (stored.0.wrapping_sub(computed.0), stored.1.wrapping_sub(computed.1));
    let pairs: Vec<usize> = std::iter::once(0).chain((FRAME_HEADER_BYTES..frame.len()).step_by(8)).collect();
    let mut mended: Option<Vec<u8>> = None;
    // Starts at the end, with the factors of the last pair's two words.
    let (mut of_first, mut of_second) = ((1_u32, 1_u32), (0_u32, 1_u32));
    for place in pairs.into_iter().rev() {
        for (at, factor) in [(place, of_first), (place + 4, of_second)] {
            let word = if is_big_endian { number(frame, at) } else { number(frame, at).swap_bytes() };
            for flipped in (0..32).map(|bit| word ^ (1 << bit)) {
                let change = flipped.wrapping_sub(word);
                if (change.wrapping_mul(factor.0), change.wrapping_mul(factor.1)) != wanted {
                    continue;
                }
                if mended.is_some() {
                    return None;
                }
                let bytes = if is_big_endian { flipped.to_be_bytes() } else { flipped.to_le_bytes() };
                let mut frame = frame.to_vec();
                frame[at..at + 4].copy_from_slice(&bytes);
                mended = Some(frame);
            }
        }
        (of_first, of_second) = (one_pair_later(of_first), one_pair_later(of_second));
    }
    mended.filter(|frame| number(frame, 0) != 0)
}

/// Updates the factors for one more pair of words.
fn one_pair_later((first, second): (u32, u32)) -> (u32, u32) {
    let first = first.wrapping_add(second);
    (first, second.wrapping_add(first))
}

/// Returns the number of frames up to the last commit.
fn last_commit(frames: &[Frame]) -> usize {
    frames.iter().rposition(Frame::is_commit).map_or(0, |at| at + 1)
}

/// Like `last_commit`, but only commits before which every lost frame was
/// replaced by a later one count.
fn last_commit_without_loss(frames: &[Frame]) -> usize {
    // Goes backwards from the end of each candidate, collecting the pages that are written again.
    let is_replaced = |end: usize| {
        let mut later = BTreeSet::new();
        frames[..end].iter().rev().all(|frame| match frame {
            Frame::Proven(_) => {
                later.insert(frame.page());
                true
            }
            Frame::Lost { page } => later.contains(page),
        })
    };
    let ends = (0..frames.len()).rev().filter(|at| frames[*at].is_commit()).map(|at| at + 1);
    ends.take(CUTS_MAX).find(|end| is_replaced(*end)).unwrap_or(0)
}

/// How many commits to try; a lost frame that is replaced at all is mostly replaced
/// before the last commits.
const CUTS_MAX: usize = 1_000;

/// Writes a log of these frames without the lost ones, with matching checksums.
fn write(header: &[u8; HEADER_BYTES], frames: &[Frame]) -> Vec<u8> {
    let mut log = header.to_vec();
    let Some(mut chain) = Chain::begin(header) else { return log };
    for frame in frames {
        let Frame::Proven(bytes) = frame else { continue };
        chain.add(&bytes[..8]);
        chain.add(&bytes[FRAME_HEADER_BYTES..]);
        log.extend_from_slice(&bytes[..8]);
        log.extend_from_slice(&header[16..24]);
        log.extend_from_slice(&chain.sums.0.to_be_bytes());
        log.extend_from_slice(&chain.sums.1.to_be_bytes());
        log.extend_from_slice(&bytes[FRAME_HEADER_BYTES..]);
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a log of three commits over pages 1, 2, 3, 1, 2, 3, with its header.
    fn whole() -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        for (at, word) in [MAGIC, FORMAT, 512, 77, 0x0102_0304, 0x0506_0708].into_iter().enumerate() {
            header[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
        }
        let mut chain = Chain { sums: (0, 0), is_big_endian: false, page_bytes: 512 };
        chain.add(&header[..24]);
        header[24..28].copy_from_slice(&chain.sums.0.to_be_bytes());
        header[28..].copy_from_slice(&chain.sums.1.to_be_bytes());
        let frame = |n: u32| {
            let mut frame = vec![0; FRAME_HEADER_BYTES + 512];
            frame[..4].copy_from_slice(&(n % 3 + 1).to_be_bytes());
            frame[4..8].copy_from_slice(&(if n % 2 == 1 { 3_u32 } else { 0 }).to_be_bytes());
            frame[FRAME_HEADER_BYTES..]
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = (at as u32 * 7 + n) as u8);
            Frame::Proven(frame)
        };
        write(&header, &(0..6).map(frame).collect::<Vec<_>>())
    }

    const FRAME: usize = FRAME_HEADER_BYTES + 512;

    /// Checks that a result has only frames of the original, in their order.
    fn assert_not_invented(log: &SalvagedLog, whole: &[u8], when: &str) {
        let contents = |log: &[u8]| -> Vec<Vec<u8>> {
            let frames = log[HEADER_BYTES..].chunks_exact(FRAME);
            frames.map(|frame| [&frame[..8], &frame[FRAME_HEADER_BYTES..]].concat()).collect()
        };
        assert_eq!(log.bytes[..HEADER_BYTES], whole[..HEADER_BYTES], "{when}");
        let mut originals = contents(whole).into_iter();
        for frame in contents(&log.bytes) {
            assert!(originals.any(|original| original == frame), "{when}");
        }
    }

    #[test]
    fn single_flipped_bit_is_undone_and_nothing_is_invented() {
        let whole = whole();
        let mut undone = 0;
        for bit in 0..whole.len() * 8 {
            let mut log = whole.clone();
            log[bit / 8] ^= 1 << (bit % 8);
            let when = format!("bit {} of byte {}", bit % 8, bit / 8);
            let found = salvage(&log);
            found.iter().for_each(|log| assert_not_invented(log, &whole, &when));
            undone += usize::from(found.first().is_some_and(|best| best.bytes == whole));
        }
        assert!(undone * 4 > whole.len() * 8 * 3, "{undone} of {}", whole.len() * 8);
    }

    #[test]
    fn lost_header_follows_from_the_first_frame() {
        let whole = whole();
        for garbage in [0x00, 0xff, 0x5a] {
            let mut log = whole.clone();
            log[..HEADER_BYTES].fill(garbage);
            assert_eq!(salvage(&log), [SalvagedLog { bytes: whole.clone(), is_certain: true }]);
        }
    }

    #[test]
    fn damaged_frame_is_left_out_only_if_its_page_was_written_again() {
        let whole = whole();
        let damage = |frame: usize| {
            let mut log = whole.clone();
            let start = HEADER_BYTES + frame * FRAME + 100;
            log[start..start + 50].fill(0xee);
            salvage(&log)
        };
        let frames = |log: &SalvagedLog| (log.bytes.len() - HEADER_BYTES) / FRAME;
        for (frame, certain) in [(0, 0), (1, 0), (2, 2)] {
            let found = damage(frame);
            assert_eq!((frames(&found[0]), found[0].is_certain), (5, false), "frame {frame}");
            assert_eq!(found.get(1).map_or(0, frames), certain, "frame {frame}");
        }
        // The last versions of pages 1, 2 and 3.
        for (frame, certain) in [(3, 2), (4, 4), (5, 4)] {
            let found = damage(frame);
            assert_eq!(found.len(), 1, "frame {frame}");
            assert_eq!((frames(&found[0]), found[0].is_certain), (certain, true), "frame {frame}");
        }
    }

    #[test]
    fn older_frames_behind_the_log_are_not_taken() {
        let whole = whole();
        let mut log = whole.clone();
        // The log was restarted after its first commit: the rest has other salts.
        for frame in 2..6 {
            log[HEADER_BYTES + frame * FRAME + 8] ^= 0xff;
            log[HEADER_BYTES + frame * FRAME + 200] ^= 0xff;
        }
        assert_eq!(salvage(&log)[0].bytes, whole[..HEADER_BYTES + 2 * FRAME]);
        assert_eq!(salvage(&[]), []);
        assert_eq!(salvage(&[0x5a; 5000]), []);
    }
}
