//! Whether the end of a turn is proven, so that its answer can be taken at once.
//!
//! A quiet screen proves nothing: a program may pause in the middle of its work. What proves it is the program's own
//! word (a hook, its server, a status report) that came after the turn began, while no other source disagrees.

use crate::rules::Sees;
use crate::signal::{Rank, Reading};
use synapse_core::ids::Timestamp;

/// A turn that began at `began`. `answer` is when the program last told what it answered; `None` for programs that are
/// not made to tell it. Without that text the answer would have to be read off the screen.
pub(crate) fn is_proven(
    readings: &[(Rank, &Reading)],
    began: Timestamp,
    answer: Option<Option<Timestamp>>,
) -> bool {
    let is_own_word = |rank: Rank| matches!(rank, Rank::Hook | Rank::Native | Rank::Status);
    let says_so = readings
        .iter()
        .any(|(rank, reading)| is_own_word(*rank) && reading.sees == Sees::Idle && reading.at >= began);
    let is_agreed = readings.iter().all(|(_, reading)| reading.sees == Sees::Idle);
    let has_answer = answer.is_none_or(|at| at.is_some_and(|at| at >= began));
    says_so && is_agreed && has_answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(sees: Sees, at: u64) -> Reading {
        Reading { sees, since: Timestamp(at), at: Timestamp(at), why: String::new(), nth: 1 }
    }

    #[test]
    fn end_is_proven_by_the_programs_own_word() {
        use Rank::{Hook, Native, Screen, Status, Title};
        use Sees::{Busy, Idle};
        type Row<'a> = (&'a [(Rank, Sees, u64)], Option<Option<u64>>, bool);
        let table: &[Row<'_>] = &[
            (&[(Hook, Idle, 20), (Screen, Idle, 20)], None, true),
            (&[(Status, Idle, 20), (Screen, Idle, 20)], None, true),
            (&[(Native, Idle, 20), (Screen, Idle, 20)], None, true),
            // Only what it shows.
            (&[(Title, Idle, 20), (Screen, Idle, 20)], None, false),
            (&[], None, false),
            // Of the turn before.
            (&[(Status, Idle, 9), (Screen, Idle, 20)], None, false),
            // Another hook told it to go on.
            (&[(Hook, Idle, 20), (Status, Busy, 15)], None, false),
            (&[(Hook, Idle, 20), (Screen, Busy, 15)], None, false),
            // Its answer is still on its way.
            (&[(Status, Idle, 20)], Some(None), false),
            (&[(Status, Idle, 20)], Some(Some(9)), false),
            (&[(Status, Idle, 20)], Some(Some(19)), true),
        ];
        for (said, answer, proven) in table {
            let kept: Vec<(Rank, Reading)> =
                said.iter().map(|(rank, sees, at)| (*rank, reading(*sees, *at))).collect();
            let readings: Vec<(Rank, &Reading)> = kept.iter().map(|(rank, one)| (*rank, one)).collect();
            let answer = answer.map(|at| at.map(Timestamp));
            assert_eq!(is_proven(&readings, Timestamp(10), answer), *proven, "{said:?} {answer:?}");
        }
    }
}
