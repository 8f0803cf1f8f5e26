//! Files, the home that contains them, and the token.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use synapse_core::ids::AgentId;
use synapse_store::files::{self, Access, FileError};
use synapse_store::home::{Home, HomeError, socket_address};
use synapse_store::token::{Token, TokenError, TokenFile};

use crate::{NOBODY, chmod, give_away, mode, names, pipe, temp};

#[test]
fn a_private_directory_is_made_with_its_parents_and_closed_to_others() {
    let temp = temp();
    let dir = temp.path.join("a/b/c");
    files::private_dir(&dir).unwrap();
    for made in ["a", "a/b", "a/b/c"] {
        assert_eq!(mode(&temp.path.join(made)), 0o700, "{made}");
    }
    chmod(&dir, 0o755);
    files::private_dir(&dir).unwrap();
    assert_eq!(mode(&dir), 0o700);
    chmod(&dir, 0o500);
    files::private_dir(&dir).unwrap();
    assert_eq!(mode(&dir), 0o700);
}

#[test]
fn a_directory_that_others_may_have_filled_is_refused() {
    let temp = temp();
    let dir = temp.path.join("dir");
    fs::create_dir(&dir).unwrap();
    for open in [0o770, 0o702, 0o777] {
        chmod(&dir, open);
        let error = files::private_dir(&dir).unwrap_err();
        assert!(matches!(error, FileError::TooOpen { mode, .. } if mode == open), "{error}");
        assert!(error.to_string().contains(&format!("chmod 700 {}", dir.display())), "{error}");
    }
    files::adopt_dir(&dir).unwrap();
    assert_eq!(mode(&dir), 0o700);

    let link = temp.path.join("link");
    symlink(&dir, &link).unwrap();
    assert!(matches!(files::private_dir(&link), Err(FileError::Symlink { .. })));
    assert!(matches!(files::adopt_dir(&link), Err(FileError::Symlink { .. })));
    let nowhere = temp.path.join("nowhere");
    symlink(temp.path.join("missing"), &nowhere).unwrap();
    assert!(matches!(files::private_dir(&nowhere), Err(FileError::Symlink { .. })));
    assert!(!temp.path.join("missing").exists());
    let file = temp.path.join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(files::private_dir(&file), Err(FileError::NotADirectory { .. })));
    if give_away(&dir) {
        let error = files::private_dir(&dir).unwrap_err();
        assert!(matches!(error, FileError::Foreign { uid: NOBODY, .. }), "{error}");
        assert!(matches!(files::adopt_dir(&dir), Err(FileError::Foreign { .. })));
    }
}

#[test]
fn a_file_is_replaced_whole_and_for_us_alone() {
    let temp = temp();
    let (path, victim) = (temp.path.join("file"), temp.path.join("victim"));
    files::write_private(&path, b"one").unwrap();
    files::write_volatile(&path, b"two").unwrap();
    assert_eq!(files::read_private(&path, 3, Access::Secret).unwrap(), b"two");
    assert_eq!(mode(&path), 0o600);

    // A link in its place is replaced, and its target stays unchanged.
    fs::write(&victim, "victim").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    files::write_private(&path, b"three").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"victim");
    assert!(!files::create_private(&path, b"four").unwrap());
    assert_eq!(files::read_private(&path, 99, Access::Secret).unwrap(), b"three");
    assert_eq!(names(&temp.path), ["file", "victim"], "no draft is left");

    let error = files::write_private(&temp.path.join("no/file"), b"").unwrap_err();
    assert!(error.is_missing(), "{error}");
    fs::create_dir(temp.path.join("dir")).unwrap();
    assert!(files::write_private(&temp.path.join("dir"), b"").is_err());
    assert_eq!(names(&temp.path), ["dir", "file", "victim"], "no draft is left");
}

#[test]
fn only_our_own_plain_files_are_read() {
    let temp = temp();
    let path = temp.path.join("file");
    fs::write(&path, vec![b'x'; 5000]).unwrap();
    chmod(&path, 0o644);
    assert_eq!(files::read_private(&path, 5000, Access::Plain).unwrap().len(), 5000);
    let error = files::read_private(&path, 5000, Access::Secret).unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
    assert!(matches!(files::read_private(&path, 4999, Access::Plain), Err(FileError::TooLarge { .. })));
    chmod(&path, 0o620);
    assert!(matches!(files::read_private(&path, 5000, Access::Plain), Err(FileError::TooOpen { .. })));
    assert!(files::read_private(&path, 5000, Access::Any).is_ok());

    let link = temp.path.join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(files::read_private(&link, 9, Access::Any), Err(FileError::Symlink { .. })));
    assert!(matches!(files::read_private(&temp.path, 9, Access::Any), Err(FileError::NotAFile { .. })));
    // Opening it like a file would block forever.
    pipe(&temp.path.join("pipe"));
    let read = files::read_private(&temp.path.join("pipe"), 9, Access::Any);
    assert!(matches!(read, Err(FileError::NotAFile { .. })));
    let _listener = std::os::unix::net::UnixListener::bind(temp.path.join("sock")).unwrap();
    let read = files::read_private(&temp.path.join("sock"), 9, Access::Any);
    assert!(matches!(read, Err(FileError::NotAFile { .. })));
    fs::write(temp.path.join("empty"), "").unwrap();
    assert_eq!(files::read_private(&temp.path.join("empty"), 0, Access::Any).unwrap(), b"");
    if give_away(&path) {
        let error = files::read_private(&path, 5000, Access::Any).unwrap_err();
        assert!(matches!(error, FileError::Foreign { uid: NOBODY, .. }), "{error}");
    }
}

#[test]
fn a_home_is_one_variable() {
    let some = |text: &str| Some(text.into());
    let plain = Home::from_vars(None, some("/u")).unwrap();
    assert_eq!(plain, Home::at("/u/.synapse", "/u/.a2a/registry"));
    assert_eq!(Home::from_vars(some(""), some("/u")).unwrap(), plain);
    assert_eq!(Home::from_vars(some("/t"), some("/u")).unwrap(), Home::at("/t", "/t/registry"));
    assert!(matches!(Home::from_vars(None, None), Err(HomeError::Unset)));
    assert!(matches!(Home::from_vars(some("t"), some("/u")), Err(HomeError::Relative { .. })));

    let temp = temp();
    temp.home.ensure().unwrap();
    temp.home.ensure().unwrap();
    let agent = temp.home.agent(&AgentId::from_bytes([7; 32]));
    agent.ensure().unwrap();
    assert!(agent.path().ends_with(format!("agents/{}", "07".repeat(32))));
    for dir in [temp.home.root(), &temp.home.agents_dir(), temp.home.registry_dir(), agent.path()] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
}

#[test]
fn a_socket_is_reached_however_long_its_path() {
    let temp = temp();
    let short = temp.path.join("node.sock");
    assert!(matches!(socket_address(&short).unwrap(), (path, None) if path == short));

    let deep = temp.path.join("d".repeat(120));
    files::private_dir(&deep).unwrap();
    let socket = deep.join("node.sock");
    assert!(std::os::unix::net::UnixListener::bind(&socket).is_err());
    let listener = {
        let (address, _guard) = socket_address(&socket).unwrap();
        std::os::unix::net::UnixListener::bind(address).unwrap()
    };
    assert!(socket.exists());
    let (address, _guard) = socket_address(&socket).unwrap();
    std::os::unix::net::UnixStream::connect(address).unwrap();
    listener.accept().unwrap();
    let named_too_long = deep.join("n".repeat(120));
    assert!(matches!(socket_address(&named_too_long), Err(HomeError::SocketPathTooLong { .. })));
}

#[test]
fn twenty_who_make_the_token_at_once_get_the_same() {
    let temp = temp();
    assert!(matches!(Token::load(&temp.home), Err(TokenError::Missing { .. })));
    let start = std::sync::Barrier::new(20);
    let tokens: Vec<Token> = std::thread::scope(|scope| {
        let make = || {
            start.wait();
            Token::load_or_make(&temp.home).unwrap()
        };
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(Token::load(&temp.home).unwrap(), tokens[0]);
    assert_eq!(tokens[0].as_str().len(), 64);
    assert!(!format!("{:?}", tokens[0]).contains(&tokens[0].as_str()[..8]));
    assert_eq!(mode(&temp.home.token_file()), 0o600);
    assert_eq!(fs::metadata(temp.home.token_file()).unwrap().nlink(), 1);
    assert_eq!(names(temp.home.root()), ["token"], "no draft is left");
}

#[test]
fn a_token_that_others_could_know_is_refused() {
    let temp = temp();
    let token = Token::load_or_make(&temp.home).unwrap();
    let path = temp.home.token_file();
    let refused = || match (Token::load(&temp.home), Token::load_or_make(&temp.home)) {
        (Err(TokenError::File(first)), Err(TokenError::File(_))) => first,
        other => panic!("{other:?}"),
    };
    chmod(&path, 0o640);
    let error = refused().to_string();
    assert!(error.contains("chmod 600") && error.contains("640"), "{error}");
    assert!(!error.contains(token.as_str()));
    chmod(&path, 0o600);
    fs::write(&path, format!("{}\n", token.as_str())).unwrap();
    assert_eq!(Token::load(&temp.home).unwrap(), token);

    let real = temp.path.join("real");
    fs::rename(&path, &real).unwrap();
    symlink(&real, &path).unwrap();
    assert!(matches!(refused(), FileError::Symlink { .. }));
    fs::remove_file(&path).unwrap();
    for damaged in ["", "abc", &"x".repeat(64), &"A".repeat(64)] {
        fs::write(&path, damaged).unwrap();
        chmod(&path, 0o600);
        assert!(matches!(Token::load(&temp.home), Err(TokenError::Damaged { .. })), "{damaged:?}");
    }
    if give_away(&path) {
        assert!(matches!(refused(), FileError::Foreign { uid: NOBODY, .. }));
    }
}

/// REST-5: the replaced token stays valid for the overlap, and only its hash is on disk.
#[test]
fn a_rotated_token_is_remembered_by_its_hash_and_its_end() {
    let temp = temp();
    let file = TokenFile::of_user(&temp.home);
    let first = file.load_or_make().unwrap();
    file.rotate(1_000, 500).unwrap();
    let second = file.load().unwrap();
    assert_ne!(first, second);
    let replaced = file.replaced().unwrap();
    assert_eq!(replaced.len(), 1);
    assert_eq!((replaced[0].digest, replaced[0].until_ms), (first.digest(), 1_500));
    assert_eq!(mode(&file.old_path()), 0o600);
    let kept = fs::read_to_string(file.old_path()).unwrap();
    assert!(!kept.contains(first.as_str()) && !kept.contains(second.as_str()));
    for round in 0..20 {
        file.rotate(2_000 + round, 0).unwrap();
    }
    assert_eq!(file.replaced().unwrap().len(), TokenFile::REPLACED_MAX, "no more than needed to tell");
    fs::write(file.old_path(), "what?\n").unwrap();
    assert!(matches!(file.replaced(), Err(TokenError::Damaged { .. })));
}

#[test]
fn those_who_rotate_at_once_leave_one_token_and_all_before_it() {
    let temp = temp();
    let file = TokenFile::of_user(&temp.home);
    let first = file.load_or_make().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| file.rotate(1_000, 500).unwrap());
        }
    });
    let replaced = file.replaced().unwrap();
    assert_eq!(replaced.len(), 5);
    assert_eq!(replaced[0].digest, first.digest());
    assert!(replaced.iter().all(|old| old.digest != file.load().unwrap().digest()));
}

/// An agent's token names its agent; in another agent's folder it counts as damaged.
#[test]
fn the_token_of_an_agent_names_it() {
    let temp = temp();
    let (one, other) = (AgentId::from_bytes([1; 32]), AgentId::from_bytes([2; 32]));
    let file = TokenFile::of_agent(&temp.home.agent(&one));
    let token = file.load_or_make().unwrap();
    assert_eq!(mode(file.path()), 0o600);
    assert_eq!(Token::claims(token.as_str().as_bytes()), Some(one));
    assert_eq!(Token::claims(&token.as_str().as_bytes()[1..]), None);
    let stolen = TokenFile::of_agent(&temp.home.agent(&other));
    stolen.load_or_make().unwrap();
    fs::copy(file.path(), stolen.path()).unwrap();
    assert!(matches!(stolen.load(), Err(TokenError::Damaged { .. })));
    fs::copy(file.path(), temp.home.token_file()).unwrap();
    assert!(matches!(Token::load(&temp.home), Err(TokenError::Damaged { .. })));
}
