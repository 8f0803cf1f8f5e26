//! Stories of interruptions, of what agents share, and of where a message is, in
//! the form of `scripts.rs`.

#[path = "scripts/teller.rs"]
mod teller;

use teller::check;

/// a command that cannot be notified is stopped, and the urgent message is next.
#[test]
fn a_plain_command_that_is_interrupted_is_stopped() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         send m2 to a => m2 accepted
         interrupt m3 at a prio 10 key k => m1 cancel asked, stop m1 at 1, 1 interrupted
         interrupt m3 at a prio 10 key k => 0 interrupted, again
         interrupt - at a => 0 interrupted
         say 1 m1 canceled => m1 ended canceled, m3>1, ok",
    );
}

/// PTY-9: the interruption is recorded in the task's history, and the task continues.
#[test]
fn a_program_that_listens_is_told_and_decides() {
    check(
        "agent a
         link 1 a 1 listener
         interrupt - at a => 0 interrupted
         send m1 to a => m1>1, m1 accepted
         interrupt - at a => 0 interrupted
         say 1 m1 working => m1 working, ok
         interrupt - at a by b => m1 interrupted, tell m1 at 1, 1 interrupted
         interrupt - at a by stranger => refused not_proven
         say 1 m1 completed => m1 ended completed, ok",
    );
    check(
        "agent a
         link 1 a 4 reader
         send m1 to a => m1>1, m1 accepted
         say 1 m1 seen => m1 working, ok
         interrupt - at a => m1 interrupted, tell m1 at 1, 1 interrupted
         close 1
         interrupt - at a => 0 interrupted",
    );
}

/// a late answer does not change the end of a one-way task, but the history keeps it.
#[test]
fn answer_to_a_one_way_message_is_kept_after_its_end() {
    check(
        "agent a
         agent b
         link 1 a 1 terminal
         gate 1 open
         send m1 to a oneway => m1>1, m1 accepted
         keep m1 by a => refused not_now
         say 1 m1 completed => m1 ended completed, ok
         keep m1 by b => refused not_allowed
         keep m1 by stranger => refused not_proven
         keep m1 by a => m1 answer kept, ok
         restart
         keep m1 by a => m1 answer kept, ok",
    );
}

/// PTY-9, X-4: an opening gate delivers the most urgent message first; a closed one is
/// notified of an emergency.
#[test]
fn a_terminal_takes_messages_only_while_its_gate_is_open() {
    check(
        "agent a
         link 1 a 1 terminal
         send m1 to a => m1 accepted
         send m2 to a prio 8 => m2 accepted
         gate 1 busy
         gate 1 open => m2>1
         gate 1 draft
         say 1 m2 held => m2 back, ok
         gate 1 open => m2>1
         send m3 to a prio 10 => urge 1, m3 accepted
         gate 1 busy
         say 1 m2 writing => m2 working, ok
         gate 1 busy
         say 1 m2 submitted => ok
         say 1 m2 completed => m2 ended completed, ok
         gate 1 waiting
         clock 3600000
         gate 1 open => m3>1
         say 1 m3 writing => m3 working, ok
         say 1 m3 completed => m3 ended completed, m1>1, ok",
    );
}

/// Defect I of issue "Every CLI": a message that was written and certainly not submitted waits in
/// its mailbox, and others go first.
#[test]
fn message_that_was_not_submitted_goes_back_to_its_mailbox() {
    check(
        "agent a
         link 1 a 1 terminal
         send m1 to a => m1 accepted
         send m2 to a => m2 accepted, 1 ahead
         gate 1 open => m1>1
         say 1 m1 missed => refused not_now
         say 1 m1 writing => m1 working, ok
         say 1 m1 missed => m1 back, m1 submitted, m2>1, ok
         say 1 m1 missed => refused not_now
         say 1 m2 writing => m2 working, ok
         restart
         agent a
         link 2 a 1 terminal running m2
         gate 2 open
         say 2 m2 completed => m2 ended completed, ok
         clock 60000 => m1>2
         say 2 m1 writing => m1 working, ok
         cancel m1 by user => m1 cancel asked, stop m1 at 2, ok
         say 2 m1 missed => m1 ended canceled, ok",
    );
}

/// a message that was being written when the node died stays with the hand; one that was
/// only leased is returned.
#[test]
fn what_was_being_written_is_not_handed_out_again() {
    check(
        "agent a
         link 1 a 1 terminal
         send m1 to a => m1 accepted
         send m2 to a => m2 accepted, 1 ahead
         gate 1 open => m1>1
         say 1 m1 writing => m1 working, ok
         restart
         agent a
         link 2 a 1 terminal running m1
         gate 2 open
         say 2 m1 unsure => ok
         say 2 m1 completed => m1 ended completed, m2>2, ok
         restart => m2 back
         agent a
         link 3 a 1 terminal
         gate 3 open => m2>3",
    );
}

#[test]
fn an_interruption_whose_message_is_refused_does_nothing() {
    check(
        "agent a
         link 1 a 1 hand
         send m1 to a key k => m1>1, m1 accepted
         say 1 m1 working => m1 working, ok
         interrupt m2 at a key k text other => refused conflict
         interrupt m3 at a hops 17 => loop, refused chain_too_long
         say 1 m1 completed => m1 ended completed, ok",
    );
}

/// PTY-10: a repeated share counts once, survives a restart, and no other agent may share for it.
#[test]
fn what_an_agent_shares_is_kept_and_who_follows_is_known() {
    check(
        "agent a
         agent b
         follow a by b => b follows, followed by [b]
         follow a by b => followed by [b]
         follow a => user follows, followed by [b user]
         share a tests by a => shared tests, followed by [b user]
         share a tests by a => followed by [b user]
         share a lies by b => refused not_allowed
         share a lies by stranger => refused not_proven
         restart
         agent a
         share a tests by a => followed by [b user]
         unfollow a by b => b unfollows, followed by [user]
         unfollow a by b => followed by [user]
         share a - => shared nothing, followed by [user]",
    );
}

#[test]
fn a_message_is_waiting_leased_resting_or_with_its_agent() {
    check(
        "agent a
         send m1 to a => m1 accepted
         send m2 to a => m2 accepted, 1 ahead
         place m2 => waits behind 1, tried 0
         link 1 a 1 hand => m1>1
         place m1 => leased until 60000, try 1
         place m2 => waits behind 0, tried 0
         say 1 m1 refused => m1 back, m2>1, ok
         place m1 => rests until 1000, tried 1
         say 1 m2 working => m2 working, ok
         place m2 => with its agent",
    );
}

#[test]
fn who_sends_is_told_of_that_task_and_of_no_other() {
    check(
        "agent a
         send m1 to a tells w1 key k => w1 saw accepted, m1 accepted
         send m2 to a => m2 accepted, 1 ahead
         send m1 to a tells w2 key k => m1 again
         cancel m2 by user => m2 ended canceled, ok
         cancel m1 by user => m1 ended canceled, w1 saw ended, ok
         send m3 to a by stranger tells w3 => refused not_proven",
    );
}
