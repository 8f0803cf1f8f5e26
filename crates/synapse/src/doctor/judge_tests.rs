//! Tables of facts and the resulting findings.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::doctor::facts::Journal;
use std::path::PathBuf;
use synapse_store::disagreement::{ProposedLines, RuleDisagreement, ScreenRule};

fn well() -> Facts {
    Facts {
        home: "/h".into(),
        home_is_there: true,
        our_uid: 7,
        paths: vec![],
        file_system: Some(0xef53),
        disk: Some(Disk { free_bytes: 9_000 * MB, inodes: 1_000_000, free_inodes: 900_000 }),
        clock: Clock {
            now_ms: 1_000_000_000,
            file_ms: Some(1_000_000_001),
            newest: Some((999_000_000, "a".into())),
        },
        journals: vec![],
        stale: vec![],
        problems: vec![],
        nodes: vec![],
        ports: vec![],
        free_port: true,
        open_files: Some(4_096),
        programs: vec![],
        notified: vec![],
        disagreements: vec![],
        ignored: vec![],
        own: Levels { oldest: 2, newest: 3 },
        version: "2.0.0".into(),
    }
}

fn found(facts: &Facts) -> Vec<(Mark, String)> {
    let not_well = judge(facts).into_iter().filter(|finding| finding.mark != Mark::Ok);
    not_well
        .map(|finding| {
            assert!(!finding.why.is_empty(), "{finding:?} does not say why it matters");
            assert!(finding.help.is_some(), "{finding:?} does not say what helps");
            (finding.mark, finding.what)
        })
        .collect()
}

/// Changes the facts and checks the resulting finding.
#[track_caller]
fn check(change: impl FnOnce(&mut Facts), expected: Option<(Mark, &str)>) -> Option<Finding> {
    let mut facts = well();
    change(&mut facts);
    let findings = found(&facts);
    match (&findings[..], expected) {
        ([], None) => {}
        ([(mark, what)], Some((expected, word))) if *mark == expected && what.contains(word) => {}
        other => panic!("{other:?}"),
    }
    judge(&facts).into_iter().find(|finding| finding.mark != Mark::Ok)
}

#[test]
fn all_is_well() {
    assert_eq!(found(&well()), []);
    check(|f| f.home_is_there = false, None);
}

#[test]
fn permissions_are_judged() {
    let path =
        |kind, mode| Found { path: "/h/x y".into(), kind, mode, uid: 7, is_link: false, is_kind: true };
    let table = [
        (path(Kind::Folder, 0o700), None),
        (path(Kind::Folder, 0o750), Some(0o700)),
        (path(Kind::Folder, 0o777), Some(0o700)),
        (path(Kind::SharedFolder, 0o755), None),
        (path(Kind::SharedFolder, 0o775), Some(0o700)),
        (path(Kind::Secret, 0o600), None),
        (path(Kind::Secret, 0o640), Some(0o600)),
        (path(Kind::Plain, 0o644), None),
        (path(Kind::Plain, 0o664), Some(0o600)),
    ];
    for (fact, wanted) in table {
        let expected = wanted.map(|_| (Mark::Bad, "open to other users"));
        let finding = check(|f| f.paths = vec![fact.clone()], expected);
        let fix = wanted.map(|mode| Fix::Chmod { path: fact.path.clone(), mode });
        assert_eq!(finding.as_ref().and_then(|f| f.fix.clone()), fix, "{fact:?}");
        if let Some(help) = finding.and_then(|f| f.help) {
            assert!(help.starts_with("chmod ") && help.ends_with("'/h/x y'"), "{help}");
        }
    }
    let good = path(Kind::Folder, 0o700);
    check(|f| f.paths = vec![Found { is_link: true, ..good.clone() }], Some((Mark::Bad, "symbolic link")));
    check(|f| f.paths = vec![Found { uid: 8, ..good.clone() }], Some((Mark::Bad, "another user (uid 8)")));
    check(|f| f.paths = vec![Found { is_kind: false, ..good }], Some((Mark::Bad, "is not a folder")));
}

#[test]
fn file_systems_are_judged() {
    let table = [
        (0xef53, None),
        (0x9123_683e, None),
        (0x6969, Some((Mark::Bad, "NFS"))),
        (0xff53_4d42, Some((Mark::Bad, "SMB"))),
        (0x6573_5546, Some((Mark::Warn, "FUSE"))),
        (0x0102_1997, Some((Mark::Warn, "9p"))),
        (0x0102_1994, Some((Mark::Warn, "in memory"))),
    ];
    for (magic, expected) in table {
        check(|f| f.file_system = Some(magic), expected);
    }
    check(|f| f.file_system = None, None);
}

#[test]
fn room_is_judged() {
    let disk = |free_bytes, inodes, free_inodes| Some(Disk { free_bytes, inodes, free_inodes });
    check(|f| f.disk = disk(DISK_BYTES_WARN, 1_000_000, INODES_WARN), None);
    check(|f| f.disk = disk(DISK_BYTES_WARN - 1, 1_000_000, INODES_WARN), Some((Mark::Warn, "511 MB")));
    check(|f| f.disk = disk(DISK_BYTES_BAD - 1, 1_000_000, INODES_WARN), Some((Mark::Bad, "63 MB")));
    check(|f| f.disk = disk(DISK_BYTES_WARN, 1_000_000, 9_999), Some((Mark::Warn, "9999 more files")));
    check(|f| f.disk = disk(DISK_BYTES_WARN, 1_000_000, 0), Some((Mark::Bad, "0 more files")));
    check(|f| f.disk = disk(DISK_BYTES_WARN, 0, 0), None);
    check(|f| f.open_files = Some(512), Some((Mark::Warn, "512 open files")));
    check(|f| f.open_files = Some(100), Some((Mark::Bad, "100 open files")));
    check(|f| f.open_files = None, None);
}

#[test]
fn clocks_are_judged() {
    let now = well().clock.now_ms;
    let newest = |ahead: u64| Some((now + ahead, "desk".to_owned()));
    check(|f| f.clock.newest = newest(0), None);
    check(|f| f.clock.newest = newest(900), None);
    check(|f| f.clock.newest = newest(5_000), Some((Mark::Warn, "5 s behind the last record of desk")));
    check(|f| f.clock.newest = newest(7_200_000), Some((Mark::Bad, "2 h behind")));
    check(|f| f.clock.newest = None, None);
    check(|f| f.clock.file_ms = Some(now - 60_000), Some((Mark::Warn, "1 min away")));
    check(|f| f.clock.file_ms = None, None);
}

#[test]
fn agents_are_judged() {
    let node = |version: &str, api, holder: &str, answers| Node {
        agent: "desk".into(),
        version: version.into(),
        api,
        holder_version: holder.into(),
        answers,
    };
    let table = [
        (node("2.0.0", 3, "2.0.0", true), None),
        (node("1.9.0", 2, "1.9.0", true), Some((Mark::Warn, "runs synapse 1.9.0, this is 2.0.0"))),
        (node("1.0.0", 1, "1.0.0", true), Some((Mark::Bad, "does not understand"))),
        (node("9.0.0", 9, "9.0.0", true), Some((Mark::Warn, "9.0.0"))),
        (node("2.0.0", 3, "1.0.0", true), Some((Mark::Warn, "the holder of desk is of synapse 1.0.0"))),
        (node("2.0.0", 3, "", true), Some((Mark::Warn, "unknown version"))),
        (node("2.0.0", 3, "2.0.0", false), Some((Mark::Bad, "does not answer"))),
    ];
    for (node, expected) in table {
        check(|f| f.nodes = vec![node], expected);
    }
    let journal = |error: Option<&str>| Journal {
        agent: "desk".into(),
        path: "/h/journal.db".into(),
        error: error.map(Into::into),
        is_repairable: false,
        repairs: vec![],
    };
    check(|f| f.journals = vec![journal(None)], None);
    let repaired = Journal { repairs: vec!["restored up to record 5".into()], ..journal(None) };
    check(
        |f| f.journals = vec![repaired],
        Some((Mark::Warn, "the journal of desk was damaged: restored up to record 5")),
    );
    check(
        |f| f.journals = vec![journal(Some("it is damaged"))],
        Some((Mark::Bad, "desk cannot be opened: it is damaged")),
    );
}

#[test]
fn ports_are_judged() {
    let port = |running, taken| vec![Port { agent: "desk".into(), port: 8101, running, taken }];
    check(|f| f.ports = port(true, true), None);
    check(|f| f.ports = port(false, false), None);
    check(|f| f.ports = port(true, false), Some((Mark::Bad, "does not answer on its port 8101")));
    check(|f| f.ports = port(false, true), Some((Mark::Warn, "used by something else")));
    check(|f| f.free_port = false, Some((Mark::Bad, "8100 to 8999")));
}

#[test]
fn what_is_stale_can_be_mended() {
    let path = PathBuf::from("/h/f");
    let agent = PathBuf::from("/h/agents/1");
    let of_agent = Fix::RemoveOfAgent { dir: agent.clone(), path: path.clone() };
    let table = [
        (StaleKind::RegistryEntry, Fix::ClearRegistry),
        (StaleKind::Socket { agent: agent.clone() }, of_agent.clone()),
        (StaleKind::Holder { agent }, of_agent),
        (StaleKind::Draft, Fix::Remove { path: path.clone() }),
        (StaleKind::Demo, Fix::RemoveDemo { path: path.clone() }),
    ];
    for (kind, fix) in table {
        let finding =
            check(|f| f.stale = vec![Stale { path: path.clone(), kind }], Some((Mark::Warn, "/h/f")));
        assert_eq!(finding.unwrap().fix, Some(fix));
    }
    check(|f| f.problems = vec![("/h/f".into(), "it is not JSON".into())], Some((Mark::Warn, "not JSON")));
}

/// Finding H3: an ignored file of a project is a warning, with the command that shows it.
#[test]
fn ignored_project_files_are_a_warning() {
    let said = "/p/.synapse/profiles/claude.yaml: ignored command: this project is not trusted";
    let finding = check(|f| f.ignored = vec![said.into()], Some((Mark::Warn, "ignored command")));
    assert_eq!(finding.unwrap().help.as_deref(), Some("synapse trust"));
}

#[test]
fn programs_are_judged() {
    let program = |said| vec![Program { name: "claude", said }];
    check(|f| f.programs = program(Said::NotFound), None);
    check(|f| f.programs = program(Said::Version("2.1".into())), None);
    check(
        |f| f.programs = program(Said::Nothing("no answer within 3 s".into())),
        Some((Mark::Warn, "within 3 s")),
    );
}

#[test]
fn lasting_disagreement_is_found_with_a_proposal() {
    let rule = ScreenRule { name: "composer".into(), state: "idle".into() };
    let lines = vec!["  - state: busy".to_owned(), "    any:".into(), "      - 'x'".into()];
    let seen = RuleDisagreement {
        since_ms: 1_000_000_000 - 3_600_000,
        last_ms: 1_000_000_000,
        times: 4,
        longest_ms: 240_000,
        source: "hook".into(),
        says: "busy".into(),
        why: "hook, PreToolUse".into(),
        rule: Some(rule),
        profile: "claude".into(),
        profile_from: "shipped".into(),
        program: "claude".into(),
        cli_version: Some("2.2.0".into()),
        rows: vec!["> ".into()],
        proposal: Some(ProposedLines { place: "first".into(), lines: lines.clone() }),
    };
    let what =
        "ana: its hooks say busy (hook, PreToolUse), but the rule 'composer' of the profile claude says idle";
    let found =
        check(|facts| facts.disagreements.push(("ana".into(), seen.clone())), Some((Mark::Warn, what)));
    let found = found.unwrap();
    for part in ["4 times", "1 h ago", "4 min", "2.2.0"] {
        assert!(found.what.contains(part), "{part}: {}", found.what);
    }
    let proposal = found.proposal.unwrap();
    assert_eq!((proposal.file.to_str(), &proposal.lines), (Some("/h/profiles/claude.yaml"), &lines));
    assert_eq!(proposal.steps[0], "synapse profile show claude > /h/profiles/claude.yaml");
    assert!(
        proposal
            .steps
            .last()
            .unwrap()
            .starts_with("synapse profile test /h/profiles/claude.yaml --recording")
    );
    assert_eq!(found.rows, ["> "]);
    // A user's file is changed in place. Without a proposal, the program must be learned again.
    let own = RuleDisagreement { profile_from: "/p/claude.yaml".into(), ..seen.clone() };
    let what = "the rule 'composer' of the profile claude says idle";
    let found = check(|facts| facts.disagreements.push(("ana".into(), own)), Some((Mark::Warn, what)));
    let proposal = found.unwrap().proposal.unwrap();
    assert_eq!(proposal.file, PathBuf::from("/p/claude.yaml"));
    assert!(proposal.steps[0].starts_with("synapse profile check /p/claude.yaml"), "{:?}", proposal.steps);
    let none = RuleDisagreement { proposal: None, rule: None, cli_version: None, ..seen };
    let what = "no rule of the profile claude fits its screen";
    let found = check(|facts| facts.disagreements.push(("ana".into(), none)), Some((Mark::Warn, what)));
    assert_eq!(found.unwrap().help.as_deref(), Some("synapse profile learn -- claude"));
}

#[test]
fn failed_notification_is_found() {
    let last = |failed| NotifierResult {
        told_at_ms: 1,
        at_ms: 2,
        program: "tell.sh".into(),
        failed,
        why: "exited with code 3".into(),
        stderr: "no bus\u{1b}[2J".into(),
    };
    check(|facts| facts.notified.push(("ana".into(), last(false))), None);
    let what = "the last notification of ana failed: tell.sh exited with code 3: no bus\u{fffd}[2J";
    check(|facts| facts.notified.push(("ana".into(), last(true))), Some((Mark::Warn, what)));
}
