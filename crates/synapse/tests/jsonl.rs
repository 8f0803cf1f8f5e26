//! Programs that stream: a ten-line script in any language is a full agent.

use crate::world;
use serde_json::{Value, json};
use synapse_testkit::http::Events;

#[test]
fn progress_is_seen_while_the_task_runs() {
    let world = world();
    let script = "
import os, time
say('progress', text='half way', percent=50)
while not os.path.exists('go'): time.sleep(0.02)
say('progress', text='nearly', percent=99)
say('completed', text='all of ' + message['text'])";
    let agent = world.run_lines("steps", script, &[]);
    let mut asking = world.command(&["send", "steps", "the work", "--response"]);
    let asking = asking.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let asking = asking.spawn().unwrap();
    let mut events = Events::open(&agent.unix(), "/api/v1/events", &[], Some(0)).unwrap();
    let mut next_progress = || loop {
        let event = events.next_event().unwrap();
        if event.event == "progress" {
            return event.data["data"].clone();
        }
    };
    assert_eq!(next_progress(), json!({ "text": "half way", "percent": 50 }));
    world.write("go", "");
    assert_eq!(next_progress()["text"], "nearly");
    let output = asking.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all of the work\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "… half way\n… nearly\n");
}

/// Finding A2: artifacts without an id are kept separately, and chunks extend the one before them.
#[test]
fn artifacts_without_an_id_are_kept_side_by_side() {
    let world = world();
    let script = "
say('artifact', name='a.txt', text='a')
say('artifact', name='b.txt', text='b')
say('artifact', text='c', last=False)
say('artifact', text='d', append=True)
say('artifact', text='e')
say('completed', text='done')";
    let agent = world.run_lines("maker", script, &[]);
    let told = world.json(&["send", "maker", "make", "--response"]);
    let task = agent.task(told["task_id"].as_str().unwrap());
    let ids: Vec<&str> = task["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|said| said["artifact"]["id"].as_str())
        .collect();
    let all = task["artifacts"].to_string();
    assert_eq!(ids, ["a.txt", "b.txt", "artifact-3", "artifact-3", "artifact-4"], "{all}");
}

/// Measured (16): the answer of an agent that only made artifacts was empty.
#[test]
fn artifacts_are_the_answer_where_there_is_no_other() {
    let world = world();
    let script = "
say('artifact', artifact_id='c', text='one ', last=False)
say('artifact', artifact_id='c', text='two', append=True)
say('artifact', artifact_id='d', text='three')
say('completed')";
    world.run_lines("maker", script, &[]);
    assert_eq!(world.ok(&["send", "maker", "make", "--response"]), "one two\nthree");
    let told = world.json(&["send", "maker", "make", "--response"]);
    assert_eq!(told["answer"]["text"], "one two\nthree", "{told}");
    assert_eq!(told["answer"]["content"]["parts"].as_array().unwrap().len(), 3, "{told}");
    world.run_lines("quiet", "say('completed')", &[]);
    assert_eq!(world.json(&["send", "quiet", "hush", "--response"])["answer"], serde_json::Value::Null);
}

#[test]
fn artifacts_of_every_kind_are_kept_with_the_task() {
    let world = world();
    let script = "
say('artifact', artifact_id='t', name='report', text='hello')
say('artifact', artifact_id='d', data={'rows': [1, 2]})
say('artifact', artifact_id='u', url='https://example.org/x')
say('artifact', artifact_id='b', bytes='AAEC', media_type='application/octet-stream')
say('artifact', artifact_id='c', text='one ', last=False)
say('artifact', artifact_id='c', text='two ', append=True, last=False)
say('artifact', artifact_id='c', text='three', append=True, last=True)
say('completed', data={'ok': True})";
    let agent = world.run_lines("maker", script, &[]);
    let told = world.json(&["send", "maker", "make", "--response"]);
    assert_eq!(told["answer"]["content"]["parts"][0]["data"], json!({ "ok": true }));
    let task = agent.task(told["task_id"].as_str().unwrap());
    let artifacts = task["artifacts"].as_array().unwrap();
    let all = task["artifacts"].to_string();
    for part in ["hello", "report", "rows", "https://example.org/x", "AAEC", "application/octet-stream"] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
    let chunks: Vec<&Value> = artifacts.iter().filter(|a| a.to_string().contains("\"c\"")).collect();
    let text: String = chunks.iter().map(|chunk| chunk.to_string()).collect();
    let order: Vec<usize> = ["one ", "two ", "three"].iter().map(|word| text.find(word).unwrap()).collect();
    assert!(order.is_sorted(), "{text}");
}

#[test]
fn a_program_may_ask_and_goes_on_with_the_answer() {
    let world = world();
    let script = "
say('input_required', text='which colour?')
colour = hear()
assert colour['type'] == 'input', colour
say('completed', text='painted ' + colour['text'] + ' for ' + colour['from']['label'])";
    let agent = world.run_lines("painter", script, &[]);
    let mut asking = world.program(&["send", "painter", "paint the wall", "--response", "--json"]);
    let task = world.wait_for("the painter asks", || {
        let tasks = agent.get("/api/v1/tasks").json();
        let task = tasks.as_array()?.iter().find(|task| task["state"] == "input-required")?;
        Some(task["task_id"].as_str()?.to_owned())
    });
    let told = world.ok(&["send", "painter", "green", "--task", &task[..8]]);
    assert!(told.contains(&task[..8]), "{told}");
    assert_eq!(asking.next()["answer"]["text"], "painted green for user");
    assert!(asking.wait().success());
    let history = agent.task(&task)["history"].to_string();
    for state in ["working", "input-required", "completed"] {
        assert!(history.contains(state), "{history}");
    }
    world.synapse(&["send", "painter", "blue", "--task", &task]).fails(5, &["already completed"]);
    world.synapse(&["send", "painter", "blue", "--task", "ffffffff"]).fails(5, &["unknown task"]);
}

#[test]
fn a_question_survives_the_death_of_the_node() {
    let world = world();
    let script = "
say('input_required', text='which colour?')
say('completed', text=hear()['text'])";
    let agent = world.run_lines("painter", script, &[]);
    let mut asking = world.program(&["send", "painter", "paint", "--response"]);
    let asks = || {
        let tasks = agent.get("/api/v1/tasks").json();
        let task = tasks.as_array()?.iter().find(|task| task["state"] == "input-required")?;
        Some(task["task_id"].as_str()?.to_owned())
    };
    let task = world.wait_for("the painter asks", asks);
    world.kill_node("painter");
    world.ok(&["send", "painter", "red", "--task", &task]);
    assert_eq!(asking.next_line(), "red");
    assert!(asking.wait().success());
}

/// Finding A2: tasks that wait for input do not count towards `--parallel`, and each can still be
/// answered.
#[test]
fn unanswered_questions_do_not_block_an_agent() {
    let world = world();
    let script = "
if message['text'] == 'ask':
    say('input_required', text='which colour?')
    say('completed', text=hear()['text'])
say('completed', text='done')";
    let agent = world.run_lines("painter", script, &["--parallel", "2"]);
    let tasks: Vec<String> = (0..6).map(|_| world.send("painter", "ask", &[])).collect();
    let asks = |task: &String| agent.task(task)["state"] == "input-required";
    world.wait_until("all six ask", || tasks.iter().all(asks));
    assert_eq!(world.ok(&["send", "painter", "work", "--response"]), "done");
    world.kill_node("painter");
    assert_eq!(world.ok(&["send", "painter", "work", "--response"]), "done", "also after a restart");
    for task in &tasks {
        world.ok(&["send", "painter", "red", "--task", task]);
        world.wait_until("it is answered", || agent.task(task)["state"] == "completed");
    }
}

/// Finding A2: the owner sets how long a question may stay unanswered. Then the program is stopped.
#[test]
fn unanswered_question_expires_as_the_owner_says() {
    let world = world();
    world.ok(&["config", "set", "limits.input_required_seconds", "1"]);
    let agent = world.run_lines("painter", "say('input_required', text='well?')\nhear()", &[]);
    let task = world.send("painter", "x", &[]);
    world.wait_until("it fails", || agent.task(&task)["state"] == "failed");
    let ended = agent.task(&task);
    assert!(ended.to_string().contains("nobody answered its question within 1 s"), "{ended}");
    world.wait_until("its program is gone", || {
        !world.processes().iter().any(|pid| synapse_testkit::processes::command_line(*pid).contains("__run"))
    });
}

#[test]
fn rejected_and_failed_are_told_apart() {
    let world = world();
    let script = "say(message['text'], why='the tea is cold')";
    let agent = world.run_lines("picky", script, &[]);
    for state in ["rejected", "failed"] {
        let ran = world.synapse(&["send", "picky", state, "--response"]);
        ran.fails(3, &[state, "the tea is cold"]);
        let told = world.synapse(&["send", "picky", state, "--response", "--json"]).exits(3).json();
        assert_eq!(told["state"], state);
        assert_eq!(agent.task(told["task_id"].as_str().unwrap())["state"], state);
    }
}

#[test]
fn garbage_is_answered_and_the_task_goes_on() {
    let world = world();
    let script = r#"
errors = []
garbage = ['not json', '{"type":"nonsense"}', '{"type":"progress","text":7}', '[]', '{"type":"completed"',
           '{"type":"artifact","text":"a","url":"b"}', '{"type":"send","to":"nobody-here","text":"x"}']
for line in garbage:
    print(line, flush=True)
    answer = hear()
    assert answer['type'] == 'error' and answer['line'] == line, answer
    errors.append(answer['message'])
sys.stdout.buffer.write(b'\xff\xfe\n'); sys.stdout.flush()
errors.append(hear()['message'])
print('', flush=True)
say('completed', data=errors)"#;
    world.run_lines("messy", script, &[]);
    let told = world.json(&["send", "messy", "x", "--response"]);
    assert_eq!(told["state"], "completed", "{told}");
    let errors = told["answer"]["content"]["parts"][0]["data"].as_array().unwrap().clone();
    assert_eq!(errors.len(), 8, "{errors:?}");
    assert!(errors.iter().all(|why| why.as_str().is_some_and(|why| !why.is_empty())), "{errors:?}");
    assert!(errors[6].as_str().unwrap().contains("nobody-here"), "{errors:?}");
}

#[test]
fn a_program_can_write_to_another_agent_and_is_named_as_the_sender() {
    let world = world();
    world.run("ledger", "echo \"$SYNAPSE_SENDER: $(cat)\" >> got", &[]);
    let script = "
say('send', to='ledger', text='from inside')
say('send', to='ledger', text='urgent', priority=5)
say('completed')";
    world.run_lines("writer", script, &[]);
    world.ok(&["send", "writer", "x", "--response"]);
    world.wait_until("both letters have arrived", || world.lines("got").len() == 2);
    let mut got = world.lines("got");
    got.sort();
    assert_eq!(got, ["writer: from inside", "writer: urgent"]);
}

#[test]
fn a_program_that_leaves_without_a_last_word_is_told_by_its_exit_code() {
    let world = world();
    let script = "
say('progress', text='hm')
if message['text'] == 'bad':
    sys.stderr.write('out of paint')
    sys.exit(4)";
    world.run_lines("quiet", script, &[]);
    let good = world.json(&["send", "quiet", "good", "--response"]);
    assert_eq!(good["state"], "completed", "{good}");
    assert_eq!(good["answer"], Value::Null);
    world.synapse(&["send", "quiet", "bad", "--response"]).fails(3, &["exit code 4", "out of paint"]);
}

#[test]
fn a_cancel_reaches_a_program_that_waits() {
    let world = world();
    let agent = world.run_lines("stuck", "say('input_required', text='well?')\nhear()", &[]);
    let task = world.send("stuck", "x", &[]);
    world.wait_until("it asks", || agent.task(&task)["state"] == "input-required");
    assert_eq!(world.ok(&["cancel", &task[..8]]), format!("task {} is canceled", &task[..8]));
    world.ok(&["kill", "stuck"]);
    assert_eq!(world.processes(), [0_u32; 0], "{}", world.show());
}

#[test]
fn a_line_without_end_ends_the_task_not_the_node() {
    let world = world();
    let script = "
sys.stdout.write('x' * 3_000_000); sys.stdout.flush()
hear()";
    let agent = world.run_lines("endless", script, &[]);
    world.synapse(&["send", "endless", "x", "--response"]).fails(3, &["a line has more than"]);
    assert_eq!(agent.get("/healthz").status, 200);
}
