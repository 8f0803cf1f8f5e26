//! Stories of a hub as scripts: one order per line, and after `=>` everything it caused.
//!
//! First the records (`m1 ended completed`, `m1 back`, `m1 working`, `loop`), then the effects
//! (`m1>1`: delivered to link 1; `m1>1#2`: for the second time; `ok`, `refused …`, `w1 saw …`, `a
//! is busy`). Only `scripts/teller.rs` uses the API; the stories consist of orders alone.

#[path = "scripts/teller.rs"]
mod teller;

use teller::check;

/// a one-way task ends with the proof that the message arrived; it has no result.
#[test]
fn a_one_way_message_is_done_when_it_is_seen() {
    check(
        "agent a
         link 1 a 2 reader
         send m1 to a oneway => m1>1, m1 accepted
         say 1 m1 seen => m1 ended completed, ok",
    );
}

/// a requester that expects an answer gets one, or a final state without one.
#[test]
fn a_question_is_done_when_it_is_answered() {
    check(
        "agent a
         link 1 a 2 reader
         send m1 to a => m1>1, m1 accepted
         say 1 m1 seen => m1 working, ok
         reply m1 by a => m1 ended completed, replied m1
         reply m1 by a => send on to user",
    );
}

#[test]
fn a_task_that_ends_within_a_batch_has_ended_for_what_comes_after_it() {
    check(
        "agent a
         link 1 a 2 reader
         send m1 to a => m1>1, m1 accepted
         say 1 m1 seen => m1 working, ok
         batch
         reply m1 by a
         cancel m1
         end => m1 ended completed, replied m1, refused task_ended",
    );
}

#[test]
fn the_last_one_handed_over_is_the_one_a_bare_reply_answers() {
    check(
        "agent a
         send m1 to a prio 4 => m1 accepted
         send m2 to a prio 8 => m2 accepted
         link 1 a 2 reader => m2>1, m1>1
         say 1 m2 seen => m2 working, ok
         say 1 m1 seen => m1 working, ok
         reply last by a => m1 ended completed, replied m1
         reply last by a => m2 ended completed, replied m2
         reply last by a => refused no_such_task",
    );
}

#[test]
fn a_one_way_message_that_is_replied_to_becomes_a_message_back() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a oneway => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         reply m1 by a => send on to user",
    );
}

#[test]
fn the_same_key_is_the_same_message_and_other_content_is_a_conflict() {
    check(
        "agent a
         send m1 to a key k text hello => m1 accepted
         send m1 to a key k text hello => m1 again
         send m2 to a key k text other => refused conflict
         restart
         send m1 to a key k text hello => m1 again
         cancel m1 by user => m1 ended canceled, ok
         send m1 to a key k text hello => m1 again",
    );
}

#[test]
fn a_repeat_within_one_batch_is_one_message() {
    check(
        "agent a
         batch
         send m1 to a key k
         send m2 to a key k
         end => m1 accepted, m2 again",
    );
}

#[test]
fn a_full_mailbox_refuses_the_new_and_answers_the_repeat() {
    check(
        "limit mailbox 2
         agent a
         send m1 to a key k1 => m1 accepted
         send m2 to a key k2 => m2 accepted, 1 ahead
         send m3 to a key k3 => refused mailbox_full
         send m1 to a key k1 => m1 again
         link 1 a 1 reader => m1>1
         say 1 m1 seen => m1 working, m2>1, ok
         send m3 to a key k3 => m3 accepted",
    );
}

#[test]
fn a_broadcast_reaches_all_or_nobody() {
    check(
        "limit mailbox 1
         agent a
         agent b
         send m1 to b => m1 accepted
         send m2 to broadcast key k => refused mailbox_full
         cancel m1 by user => m1 ended canceled, ok
         send m2 to broadcast key k => m2 accepted, m2b accepted
         send m2 to broadcast key k => m2 again",
    );
}

#[test]
fn a_lease_that_runs_out_is_tried_three_times_with_longer_pauses() {
    check(
        "agent a
         link 1 a 1 reader
         send m1 to a => m1>1, m1 accepted
         clock 59999
         clock 1 => m1 back
         clock 999
         clock 1 => m1>1#2
         clock 60000 => m1 back
         clock 1999
         clock 1 => m1>1#3
         clock 60000 => m1 ended failed as a dead letter",
    );
}

#[test]
fn what_a_hand_refuses_rests_and_comes_again() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 refused => m1 back, ok
         clock 1000 => m1>1#2
         say 1 m1 working => m1 working, ok
         say 1 m1 completed => m1 ended completed, ok",
    );
}

#[test]
fn a_refusal_makes_room_for_the_next() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         send m2 to a => m2 accepted
         say 1 m1 refused => m1 back, m2>1, ok",
    );
}

#[test]
fn a_link_that_closes_gives_back_what_it_had_not_seen() {
    check(
        "agent a
         link 1 a 2 reader
         link 2 a 1 reader
         send m1 to a => m1>1, m1 accepted
         send m2 to a => m2>1, m2 accepted
         close 1 => m1 back, m2 back, m1>2#2
         say 2 m1 seen => m1 working, m2>2#2, ok",
    );
}

#[test]
fn a_restart_gives_back_what_was_leased_and_counts_no_try() {
    check(
        "agent a
         link 1 a 1 reader
         send m1 to a => m1>1, m1 accepted
         restart => m1 back
         link 1 a 1 reader => m1>1
         restart => m1 back
         link 1 a 1 reader => m1>1
         restart => m1 back
         link 1 a 1 reader => m1>1",
    );
}

#[test]
fn a_message_that_had_rested_is_found_again_after_a_restart() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 refused => m1 back, ok
         clock 1000 => m1>1#2
         restart => m1 back
         link 1 a 1 hand => m1>1#2",
    );
}

#[test]
fn higher_goes_first_and_waiting_gains_a_level() {
    check(
        "agent a
         send m1 to a prio 4 => m1 accepted
         send m2 to a prio 6 => m2 accepted
         send m3 to a prio 10 => m3 accepted
         link 1 a 3 reader => m3>1, m2>1, m1>1",
    );
    check(
        "agent a
         send m1 to a prio 4 => m1 accepted
         clock 120000
         send m2 to a prio 6 => m2 accepted
         send m3 to a prio 9 => m3 accepted
         link 1 a 3 reader => m3>1, m1>1, m2>1",
    );
}

#[test]
fn notes_go_only_to_who_wants_them() {
    check(
        "agent a
         link 1 a 3 reader
         send m1 to a prio 2 oneway => m1 accepted
         link 2 a 3 notes => m1>2
         say 2 m1 seen => m1 ended completed, ok",
    );
    check(
        "agent a
         link 1 a 3 hand
         send m1 to a prio 2 oneway => m1 accepted
         inbox a by a => 1 waiting, 1 notes: m1
         inbox a by b => 1 waiting, 1 notes: m1",
    );
    // A link that takes no notes gets their number; a link that takes notes does not.
    check(
        "agent a
         send m1 to a prio 2 oneway => m1 accepted
         send m2 to a prio 1 oneway => m2 accepted, 1 ahead
         send m3 to a => m3 accepted
         link 1 a 3 hand => m3>1 beside 2 notes",
    );
    check(
        "agent a
         send m1 to a prio 2 oneway => m1 accepted
         send m3 to a oneway => m3 accepted
         link 1 a 3 notes => m3>1, m1>1",
    );
}

#[test]
fn what_waits_is_canceled_at_once_and_what_runs_is_stopped_first() {
    check(
        "agent a
         send m1 to a => m1 accepted
         cancel m1 by user => m1 ended canceled, ok
         cancel m1 by user => refused task_ended
         link 1 a 1 hand
         send m2 to a => m2>1, m2 accepted
         say 1 m2 working => m2 working, ok
         cancel m2 by user => m2 cancel asked, stop m2 at 1, ok
         say 1 m2 canceled => m2 ended canceled, ok",
    );
}

#[test]
fn a_program_hears_that_what_it_works_on_was_canceled() {
    check(
        "agent a
         link 1 a 3 reader
         send m1 to a => m1>1, m1 accepted
         say 1 m1 seen => m1 working, ok
         cancel m1 by user => m1 ended canceled, stop m1 at 1, ok
         send m2 to a => m2>1, m2 accepted
         cancel m2 by user => m2 ended canceled, stop m2 at 1, ok",
    );
}

#[test]
fn a_program_that_does_not_come_back_in_time_has_failed() {
    check(
        "agent a
         link 1 a 3 reader
         send m1 to a => m1>1, m1 accepted
         say 1 m1 seen => m1 working, ok
         close 1
         clock 89999
         link 2 a 3 reader
         close 2
         send m2 to a => m2 accepted
         clock 89999
         clock 1 => m1 ended failed",
    );
}

#[test]
fn only_its_own_agent_answers_an_ended_task() {
    check(
        "agent a
         agent b
         link 1 a 3 reader
         send m1 to a oneway => m1>1, m1 accepted
         say 1 m1 seen => m1 ended completed, ok
         reply m1 by b => refused not_allowed",
    );
}

#[test]
fn a_cancel_survives_the_hand_that_did_not_hear_it() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         cancel m1 by user => m1 cancel asked, stop m1 at 1, ok
         restart
         link 1 a 1 hand running m1 => stop m1 at 1",
    );
}

#[test]
fn a_task_that_takes_too_long_is_stopped() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a timeout 5000 => m1>1, m1 accepted
         clock 5000
         say 1 m1 working => m1 working, ok
         clock 4999
         clock 1 => m1 ended failed, stop m1 at 1
         say 1 m1 completed => refused no_such_message",
    );
}

#[test]
fn an_answer_to_a_question_goes_to_the_hand_that_asked() {
    check(
        "agent a
         link 1 a 1 hand
         link 2 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         say 1 m1 asks => m1 input-required, ok
         send m2 continues m1 => m2>1, m2 accepted
         say 1 m2 submitted => m1 working, ok
         receipt m2 => m2 reached submitted
         say 1 m1 completed => m1 ended completed, ok",
    );
}

#[test]
fn a_follow_up_that_was_refused_rests_before_it_comes_again() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         send m2 continues m1 => refused not_now
         say 1 m1 working => m1 working, ok
         send m2 continues m1 => refused not_now
         say 1 m1 asks => m1 input-required, ok
         send m2 continues m1 => m2>1, m2 accepted
         say 1 m2 refused => m2 back, ok
         clock 999
         clock 1 => m2>1#2",
    );
}

#[test]
fn a_task_is_begun_once_whoever_comes_late() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         clock 60000 => m1 back
         link 2 a 1 hand
         close 1
         clock 1000 => m1>2#2
         say 2 m1 working => m1 working, ok
         link 3 a 1 hand
         say 3 m1 working => refused not_now
         say 3 m1 refused => refused not_now
         say 2 m1 working => ok
         say 2 m1 completed => m1 ended completed, ok",
    );
}

#[test]
fn a_loop_is_stopped_and_written_down() {
    check(
        "limit repeats 2
         agent a
         agent b
         send m1 to b by a text thanks => m1 accepted
         send m2 to b by a text thanks => m2 accepted, 1 ahead
         watch w1 alerts => following
         send m3 to b by a text thanks => loop, w1 saw loop, refused no_progress
         send m3 to b text thanks => m3 accepted, 2 ahead
         send m4 to b hops 17 => loop, w1 saw loop, refused chain_too_long",
    );
}

#[test]
fn a_watcher_returns_to_where_it_was_or_is_told_that_it_is_behind() {
    check(
        "limit ring 3
         agent a
         watch w1 all => following
         send m1 to a => w1 saw accepted, m1 accepted
         unwatch w1
         send m2 to a => m2 accepted, 1 ahead
         watch w1 all after 2 => following, missed accepted
         cancel m1 by user => m1 ended canceled, w1 saw ended, ok
         cancel m2 by user => m2 ended canceled, w1 saw ended, ok
         watch w2 all after 1 => behind 3
         watch w2 all after 2 => following, missed accepted ended ended
         restart
         watch w1 all after 4 => behind 6
         watch w1 all after 5 => following",
    );
}

#[test]
fn how_an_agent_is_follows_from_its_links_and_tasks() {
    check(
        "show presence
         agent a => a is starting
         link 1 a 2 hand => a is idle
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, a is busy, ok
         say 1 m1 completed => m1 ended completed, a is idle, ok
         close 1 => a is offline",
    );
}

#[test]
fn only_who_may_does() {
    check(
        "agent a
         agent b
         send m1 to a by stranger => refused not_proven
         send m1 to a by b => m1 accepted
         cancel m1 by a => refused not_allowed
         reply m1 by b => refused not_allowed
         link 1 a 1 hand => m1>1
         say 1 m1 working => m1 working, ok
         cancel m1 by b => m1 cancel asked, stop m1 at 1, ok
         send m2 to nobody => refused no_such_agent
         receipt m1 by stranger => refused not_proven
         say 1 m1 canceled => m1 ended canceled, ok
         reply m1 by stranger => refused not_proven
         reply m1 by a => send on to b",
    );
}

/// REST-4: the rules can change while the hub runs, and apply to later inputs.
#[test]
fn other_rules_hold_from_the_next_input_on() {
    check(
        "agent a
         agent b
         send m1 to a by b => m1 accepted
         rule agent read
         send m2 to a by b => refused not_allowed
         cancel m1 by b => refused not_allowed
         receipt m1 by b => m1 reached stored
         send m2 to a => m2 accepted, 1 ahead
         rule agent message
         receipt m1 by b => refused not_allowed
         cancel m1 by b => m1 ended canceled, ok",
    );
}

/// the answer to "may I?" is an approval. Only the user gives it, and over the Unix socket.
#[test]
fn only_the_user_answers_a_request_for_permission() {
    check(
        "agent a
         agent b
         link 1 a 1 hand
         send m1 to a by b => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         say 1 m1 may-i => m1 auth-required, ok
         send m2 continues m1 by b => refused not_allowed
         send m2 continues m1 by a => refused not_allowed
         send m2 continues m1 by token => refused not_allowed
         send m2 continues m1 => m2>1, m2 accepted",
    );
}
