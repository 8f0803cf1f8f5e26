//! Stories of tasks that wait for input, in the form of `scripts.rs`.

#[path = "scripts/teller.rs"]
mod teller;

use teller::check;

/// Finding A2: a task that waits for input frees its place, and resumes before new messages start.
#[test]
fn tasks_that_wait_for_input_hold_no_place() {
    check(
        "show presence
         agent a => a is starting
         link 1 a 1 hand => a is idle
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, a is busy, ok
         send m2 to a => m2 accepted
         send m3 to a => m3 accepted, 1 ahead
         say 1 m1 asks => m1 input-required, a is waiting, m2>1, ok
         say 1 m2 working => m2 working, a is busy, ok
         send m4 continues m1 => m4 accepted, 1 ahead
         say 1 m2 asks => m2 input-required, a is waiting, m4>1, ok
         say 1 m4 submitted => m1 working, a is busy, ok
         say 1 m1 completed => m1 ended completed, a is waiting, m3>1, ok
         say 1 m3 working => m3 working, a is busy, ok
         say 1 m2 completed => m2 ended completed, ok
         say 1 m3 completed => m3 ended completed, a is idle, ok",
    );
}

/// Finding A2: waiting tasks beyond the limit take a place, and one of them can always be answered.
#[test]
fn tasks_that_wait_for_input_are_bounded() {
    check(
        "limit asking 1
         agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         send m2 to a => m2 accepted
         send m3 to a => m3 accepted, 1 ahead
         say 1 m1 working => m1 working, ok
         say 1 m1 asks => m1 input-required, m2>1, ok
         say 1 m2 working => m2 working, ok
         say 1 m2 may-i => m2 auth-required, ok
         send m4 continues m2 => m4>1, m4 accepted
         say 1 m4 submitted => m2 working, ok
         send m5 continues m1 => m5 accepted, 1 ahead
         say 1 m2 completed => m2 ended completed, m5>1, ok
         say 1 m5 submitted => m1 working, ok
         say 1 m1 completed => m1 ended completed, m3>1, ok",
    );
}

/// Finding A2: after a restart, tasks that wait for input still free their places.
#[test]
fn tasks_that_wait_for_input_hold_no_place_after_a_restart() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         say 1 m1 asks => m1 input-required, ok
         restart
         agent a
         link 1 a 1 hand running m1
         send m2 to a => m2>1, m2 accepted",
    );
}

/// Finding A2: a question that nobody answers fails its task; an interruption
/// does not extend the time.
#[test]
fn question_that_nobody_answers_expires() {
    check(
        "limit answer 5000
         agent a
         link 1 a 1 listener
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         say 1 m1 asks => m1 input-required, ok
         clock 3000
         interrupt - at a => m1 interrupted, tell m1 at 1, 1 interrupted
         clock 1999
         clock 1 => m1 ended failed, stop m1 at 1
         send m2 to a => m2>1, m2 accepted
         say 1 m2 working => m2 working, ok
         say 1 m2 asks => m2 input-required, ok
         clock 4000
         send m3 continues m2 => m3>1, m3 accepted
         say 1 m3 submitted => m2 working, ok
         clock 50000
         say 1 m2 completed => m2 ended completed, ok",
    );
}

/// Finding A2: an answer that waits for a place counts as an answer.
#[test]
fn answered_question_does_not_expire_while_all_places_are_taken() {
    check(
        "limit answer 5000
         agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         say 1 m1 asks => m1 input-required, ok
         send m2 to a => m2>1, m2 accepted
         say 1 m2 working => m2 working, ok
         send m3 continues m1 => m3 accepted
         clock 50000
         restart
         agent a
         link 1 a 1 hand running m1 m2
         clock 5000
         say 1 m2 completed => m2 ended completed, m3>1, ok",
    );
}
