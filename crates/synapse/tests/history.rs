//! `synapse history` and `search`: lists, search in every script, conversations across agents,
//! exports (CLI-9, ENV-11, X-9).

use crate::world;
use serde_json::Value;
use synapse_testkit::World;

/// Sends a message to the first of three agents, each of which asks the next before it answers.
fn chain(world: &World) -> Value {
    let exe = world.exe().display();
    world.run("worker", "tr a-z A-Z", &[]);
    world.run("lead", &format!("{exe} send worker 'end; #check --> 会議室' --response"), &[]);
    world.run("boss", &format!("{exe} send lead 'plan the release' --response; echo 数据库已经完成"), &[]);
    world.json(&["send", "boss", "begin with the \u{1b}[31mred\u{7} one", "--response"])
}

fn strings<'v>(values: &'v Value, field: &str) -> Vec<&'v str> {
    values.as_array().unwrap().iter().map(|value| value[field].as_str().unwrap()).collect()
}

#[test]
fn a_conversation_over_three_agents_is_one_tree_whoever_still_runs() {
    let world = world();
    let told = chain(&world);
    world.ok(&["kill", "lead", "worker"]);
    let task = told["task_id"].as_str().unwrap();
    let shown = world.json(&["history", "show", &task[..8]]);
    let messages = &shown["messages"];
    assert_eq!(strings(messages, "to_label"), ["boss", "lead", "worker"], "{shown:#}");
    for (depth, message) in messages.as_array().unwrap().iter().enumerate() {
        assert_eq!(message["depth"], depth, "{shown:#}");
        assert_eq!(message["hops"], depth, "{shown:#}");
        assert_eq!(message["outcome"]["state"], "completed", "{shown:#}");
        let trail: Vec<&str> = strings(&message["trail"], "what");
        assert_eq!((trail[0], *trail.last().unwrap()), ("accepted", "answered"), "{shown:#}");
    }
    assert_eq!(messages[1]["parent_message_id"], messages[0]["message_id"]);
    // Any id of the conversation shows all of it.
    let whole = &messages[2]["message_id"].as_str().unwrap();
    for id in [whole, messages[1]["task_id"].as_str().unwrap()] {
        assert_eq!(world.json(&["history", "show", id]), shown, "{id}");
    }
    let tree = world.ok(&["history", "show", task]);
    let at = |text: &str| tree.find(text).unwrap_or_else(|| panic!("{text:?} is not in\n{tree}"));
    assert!(
        at("user → boss") < at("└─ boss → lead") && at("boss → lead") < at("   └─ lead → worker"),
        "{tree}"
    );
    assert!(tree.contains("answered +") && tree.contains("↳ END; #CHECK --> 会議室"), "{tree}");
    assert!(!tree.contains('\u{1b}') && !tree.contains('\u{7}'), "a terminal was driven: {tree:?}");
    world.synapse(&["history", "show", "ffffffff"]).fails(5, &["no message or task", "ffffffff"]);
    world.synapse(&["history", "show", "not/an/id"]).fails(2, &["message id"]);

    let diagram = world.ok(&["history", "show", task, "--mermaid"]);
    let drawn = parse_mermaid(&diagram);
    let says = |from: &str, arrow: &str, to: &str, text: &str| {
        (from.to_owned(), arrow.to_owned(), to.to_owned(), text.to_owned())
    };
    assert_eq!(
        drawn[1..3],
        [
            says("boss", "->>", "lead", "plan the release"),
            says("lead", "->>", "worker", "end; #check --> 会議室"),
        ]
    );
    assert_eq!(drawn[3], says("worker", "-->>", "lead", "completed: END; #CHECK --> 会議室"));
    assert_eq!(drawn.len(), 6, "{diagram}");
}

/// Parses the part of Mermaid that we write, strictly. Returns who says what to whom, decoded.
fn parse_mermaid(text: &str) -> Vec<(String, String, String, String)> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("sequenceDiagram"));
    let (mut names, mut said) = (Vec::new(), Vec::new());
    for line in lines {
        let line = line.strip_prefix("    ").unwrap_or_else(|| panic!("{line:?} is not indented"));
        if let Some(rest) = line.strip_prefix("participant ") {
            let (id, name) = rest.split_once(" as ").unwrap();
            assert_eq!(id, format!("p{}", names.len()));
            names.push(decode(name));
            continue;
        }
        let (head, text) = line.split_once(": ").unwrap();
        let arrow = ["-->>", "->>", "--x"].into_iter().find(|arrow| head.contains(arrow)).unwrap();
        let (from, to) = head.split_once(arrow).unwrap();
        let name = |id: &str| names[id.strip_prefix('p').unwrap().parse::<usize>().unwrap()].clone();
        said.push((name(from), arrow.to_owned(), name(to), decode(text)));
    }
    said
}

/// Decodes character codes. A text must contain nothing else with a meaning in Mermaid.
fn decode(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((plain, code)) = rest.split_once('#') {
        out.push_str(plain);
        let (number, after) = code.split_once(';').unwrap();
        out.push(char::from_u32(number.parse().unwrap()).unwrap());
        rest = after;
    }
    out.push_str(rest);
    for forbidden in [";", "<", ">", ":", "%", "{", "\""] {
        assert!(!rest.contains(forbidden), "{forbidden:?} is left in {text:?}");
    }
    assert!(!text.split(' ').any(|word| word.eq_ignore_ascii_case("end")), "{text:?}");
    out
}

/// Each search creates the index, finds it, or finds it removed. All have the same results.
#[test]
fn several_search_at_once_while_somebody_removes_the_index() {
    let world = world();
    let agent = world.run("echo", "cat", &[]);
    for n in 0..20 {
        world.ok(&["send", "echo", &format!("concurrent {n}"), "--response"]);
    }
    let index = world.agent_dir(&agent.id).join("search.db");
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (world, index) = (&world, &index);
            scope.spawn(move || {
                for _ in 0..3 {
                    let found = world.json(&["history", "search", "concurrent", "--max", "100"]);
                    assert_eq!(found["hits"].as_array().unwrap().len(), 40, "{found}");
                    if n == 0 {
                        drop(std::fs::remove_file(index));
                    }
                }
            });
        }
    });
}

#[test]
fn words_of_every_script_are_found_and_no_query_is_an_error() {
    let world = world();
    world.run("echo", "cat", &[]);
    for text in
        ["明日の会議は東京で十時から", "请检查数据库连接，谢谢", "Review the PR, it's 100% \"done\"_now"]
    {
        world.ok(&["send", "echo", text, "--response"]);
    }
    let hits = |query: &str| {
        let found = world.json(&["history", "search", query]);
        assert_eq!(found["query"], query);
        found["hits"].as_array().unwrap().clone()
    };
    for (query, count) in [
        ("会議", 2),
        ("東京 会議", 2),
        ("議", 2),
        ("数据库", 2),
        ("谢谢", 2),
        ("REVIEW", 2),
        ("pr", 2),
        ("100%", 2),
        ("\"done\"_", 2),
        ("it's", 2),
        ("会議室", 0),
        ("review 東京", 0),
    ] {
        assert_eq!(hits(query).len(), count, "{query}");
    }
    for hostile in [
        "\"",
        "'",
        "*",
        "a*",
        "NEAR(a, b)",
        "text:review",
        "(",
        "review OR",
        "-- x",
        "%",
        "_",
        "\\",
        "^r",
        "{}",
        "\u{1b}[2J",
        "💥",
    ] {
        let ran = world.synapse(&["history", "search", hostile]).ok();
        assert!(!ran.stderr.contains("error") && !ran.stderr.contains("warning"), "{hostile:?}: {ran}");
        assert!(!ran.stdout.contains('\u{1b}'), "{ran:?}");
    }
    world.synapse(&["history", "search", " "]).fails(2, &["nothing to search"]);
    world.synapse(&["history", "search", &"x".repeat(5_000)]).fails(2, &["2000"]);
    let hit = &hits("会議")[0];
    let at = hit["matches"][0][0].as_u64().unwrap() as usize;
    let marked: String = hit["snippet"].as_str().unwrap().chars().skip(at).take(2).collect();
    assert_eq!((marked.as_str(), &hit["record"]["kind"]), ("会議", &Value::from("message")));
    assert_eq!(hits("会議")[1]["record"]["kind"], "ended", "an answer is found too");
    let few = world.json(&["history", "search", "会議", "--max", "1"]);
    assert_eq!((few["hits"].as_array().unwrap().len(), &few["complete"]), (1, &Value::Bool(false)));
    let short = world.synapse(&["history", "search", "zq"]).ok();
    assert!(short.stderr.contains("nothing"), "{short}");
    // Search also works when the agent is stopped and its index is deleted.
    world.ok(&["kill", "--all"]);
    let agents = std::fs::read_dir(world.home().join("agents")).unwrap();
    agents.flatten().for_each(|dir| std::fs::remove_file(dir.path().join("search.db")).unwrap());
    assert_eq!(hits("东京").len() + hits("東京").len(), 2);
}

#[test]
fn a_list_has_the_newest_last_and_takes_what_is_asked_for() {
    let world = world();
    chain(&world);
    world.run("slow", "while [ ! -e go ]; do sleep 0.02; done", &[]);
    let open = world.send("slow", "not done yet", &[]);
    let agent = world.agent("slow");
    world.wait_until("it works", || agent.task(&open)["state"] == "working");
    let all = world.json(&["history"]);
    assert_eq!(strings(&all, "to_label"), ["boss", "lead", "worker", "slow"], "{all:#}");
    assert_eq!(all[3]["outcome"]["state"], "working");
    assert_eq!(all[3]["receipt"], "submitted");
    assert_eq!(all[2]["outcome"]["answer"]["text"], "END; #CHECK --> 会議室");
    let to = |args: &[&str]| {
        let args: Vec<&str> = ["history"].iter().chain(args).copied().collect();
        strings(&world.json(&args), "to_label").join(" ")
    };
    assert_eq!(to(&["--max", "2"]), "worker slow");
    assert_eq!(to(&["lead"]), "lead");
    assert_eq!(to(&["--from", "lead"]), "worker");
    assert_eq!(to(&["--from", "user"]), "boss slow");
    assert_eq!(to(&["--task", &open[..8]]), "slow");
    assert_eq!(to(&["--task", all[1]["task_id"].as_str().unwrap()]), "lead");
    assert_eq!(to(&["--since", "1h", "--until", "2030-01-01"]), "boss lead worker slow");
    assert_eq!(to(&["--since", all[3]["accepted_at"].as_str().unwrap()]), "slow");
    assert_eq!(to(&["--until", "2020-01-01"]), "");
    let text = world.ok(&["history"]);
    assert_eq!(text.lines().count(), 1 + 4 + 3, "a head, a line each, and one for each answer\n{text}");
    assert!(text.contains("lead → worker") && text.contains("↳ END; #CHECK --> 会議室"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let wrong: &[&[&str]] = &[
        &["--since", "soon"],
        &["--max", "0"],
        &["--task", "zz"],
        &["search"],
        &["show"],
        &["search", "x", "--max", "0"],
    ];
    for args in wrong {
        let args: Vec<&str> = ["history"].iter().chain(*args).copied().collect();
        world.synapse(&args).exits(2);
    }
    world.synapse(&["history", "nobody"]).fails(5, &["nobody"]);
    world.synapse(&["history", "--from", "nobody"]).fails(5, &["nobody"]);
    world.write("go", "");
}

#[test]
fn an_export_has_everything_and_a_bad_journal_hides_no_good_one() {
    let world = world();
    chain(&world);
    world.run_lines(
        "maker",
        "say('artifact', name='plan.md', text='第一步', last=True)\nsay('completed', text='made')",
        &[],
    );
    world.ok(&["send", "maker", "make it", "--response"]);
    let (lead, worker) = (world.agent("lead").id, world.agent("worker").id);
    world.ok(&["kill", "--all"]);
    let lines = |args: &[&str]| -> Vec<Value> {
        let args: Vec<&str> = ["history", "export"].iter().chain(args).copied().collect();
        world.ok(&args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = lines(&[]);
    let of = |lines: &[Value], kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!(
        (of(&all, "agent"), of(&all, "message"), of(&all, "ended"), of(&all, "artifact")),
        (4, 4, 4, 1)
    );
    for message in all.iter().filter(|line| line["kind"] == "message") {
        let task = &message["task_id"];
        let ended = all.iter().find(|line| line["kind"] == "ended" && line["task_id"] == *task).unwrap();
        assert_eq!(ended["receipts"][0]["message_id"], message["message_id"]);
        assert!(message["content"]["parts"][0]["text"].is_string() && ended["answer"]["text"].is_string());
    }
    let artifact = all.iter().find(|line| line["kind"] == "artifact").unwrap();
    assert!(artifact["content"].to_string().contains("第一步"), "{artifact}");
    assert_eq!(lines(&["boss"]).len(), 3);
    assert_eq!(of(&lines(&["--until", "2020-01-01"]), "message"), 0);

    // One journal is damaged, one is too new. Both are named, and the others are shown.
    let journal = |id: &str| world.agent_dir(id).join("journal.db");
    for side in ["journal.db-wal", "journal.db-shm"] {
        drop(std::fs::remove_file(world.agent_dir(&worker).join(side)));
    }
    let mut bytes = std::fs::read(journal(&worker)).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(journal(&worker), bytes).unwrap();
    std::fs::write(journal(&lead), b"this was a journal".repeat(100)).unwrap();
    for args in [&["history"][..], &["history", "export"], &["history", "search", "release"]] {
        let ran = world.synapse(args).ok();
        for word in ["warning", "lead", "worker", "damaged", "newer version", "upgrade"] {
            assert!(ran.stderr.contains(word), "{word}: {ran}");
        }
        assert!(args.len() > 2 || ran.stdout.contains("begin with the"), "{ran}");
    }
}

/// The examples in `docs/history.md` work.
#[test]
fn heavy_what_the_page_on_history_shows_works() {
    let world = world();
    let page = include_str!("../../../docs/history.md");
    let blocks: Vec<&str> =
        page.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
    assert!(blocks.len() >= 4, "{blocks:?}");
    let path =
        format!("{}:{}", world.exe().parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = world.prepare(std::process::Command::new("sh"), &["-e", "-c", &blocks.join("\n")]);
    let ran =
        synapse_testkit::Ran::new(&["docs/history.md"], shell.env("PATH", &path).output().unwrap()).ok();
    for line in ["└─ lead → shout", "sequenceDiagram", "↳ PLEASE CHECK THE PARSER", "明日の会議は東京です"]
    {
        assert!(ran.stdout.contains(line), "{line} is not in {ran}");
    }
    world.wait_until("nothing is left running", || world.processes().is_empty());
}
