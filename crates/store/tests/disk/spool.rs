//! The spool: order, limits, and invalid letters.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use synapse_store::files::FileError;
use synapse_store::spool::{Found, Spool, SpoolError, SpoolId};

use crate::{chmod, give_away, mode, names, pipe, temp};

type Letters = Vec<(SpoolId, Vec<u8>)>;
type Bad = Vec<(String, String)>;

fn take(spool: &Spool) -> (Letters, Bad) {
    let (mut letters, mut bad) = (Vec::new(), Vec::new());
    for found in spool.take().unwrap() {
        match found {
            Found::Letter { name, bytes } => letters.push((name, bytes)),
            Found::Bad { name, why } => bad.push((name, why)),
        }
    }
    (letters, bad)
}

#[test]
fn letters_come_out_in_the_order_they_went_in_until_done() {
    let temp = temp();
    let dir = temp.path.join("spool");
    let (spool, other) = (Spool::open(&dir).unwrap(), Spool::open(&dir).unwrap());
    let put: Vec<SpoolId> = (0..50)
        .map(|n| if n % 3 == 0 { &other } else { &spool }.put(format!("letter {n}").as_bytes()).unwrap())
        .collect();
    assert_eq!(spool.waiting().unwrap(), 50);
    let (letters, _) = take(&spool);
    assert_eq!(letters.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), put);
    assert_eq!(letters[49].1, b"letter 49");
    for name in &put {
        assert_eq!(SpoolId::parse(name.as_str()).as_ref(), Some(name));
        assert_eq!(synapse_core::ids::MessageId::parse(name.as_str()).unwrap().as_str(), name.as_str());
    }

    // Not done, so it is returned again, under the same name.
    assert_eq!(take(&other).0, letters);
    for name in &put[..49] {
        spool.done(name).unwrap();
    }
    spool.done(&put[0]).unwrap();
    assert_eq!(take(&spool).0, letters[49..]);
    for part in ["", "tmp", "new", "bad"] {
        assert_eq!(mode(&dir.join(part)), 0o700, "{part}");
    }
    assert_eq!(mode(&dir.join("new").join(put[49].as_str())), 0o600);
}

#[test]
fn what_a_killed_writer_left_is_never_seen_and_swept_in_time() {
    let temp = temp();
    let dir = temp.path.join("spool");
    let spool = Spool::open(&dir).unwrap();
    for (name, age_s) in [("half", 60), ("old", 7200)] {
        let file = fs::File::create(dir.join("tmp").join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }
    let whole = spool.put(b"whole").unwrap();
    assert_eq!(take(&spool), (vec![(whole, b"whole".to_vec())], vec![]));
    assert_eq!(names(&dir.join("tmp")), ["half"]);
}

#[test]
fn what_is_no_letter_is_set_aside_and_stops_nobody() {
    let temp = temp();
    let dir = temp.path.join("spool");
    let new = dir.join("new");
    let spool = Spool::open(&dir).unwrap();
    let first = spool.put(b"first").unwrap();
    symlink("/etc/hostname", new.join("0-link")).unwrap();
    pipe(&new.join("1-pipe"));
    fs::create_dir(new.join("2-dir")).unwrap();
    fs::write(new.join("3 spaced"), "x").unwrap();
    fs::write(new.join("4-empty"), "").unwrap();
    let large = fs::File::create(new.join("5-large")).unwrap();
    large.set_len(Spool::LETTER_BYTES_MAX as u64 + 1).unwrap();
    fs::write(new.join(".hidden"), "x").unwrap();
    fs::write(new.join("6-foreign"), "x").unwrap();
    let mut expected = vec!["0-link", "1-pipe", "2-dir", "3-spaced", "4-empty", "5-large"];
    if give_away(&new.join("6-foreign")) {
        expected.push("6-foreign");
    } else {
        fs::remove_file(new.join("6-foreign")).unwrap();
    }
    let last = spool.put(b"last").unwrap();

    let (letters, bad) = take(&spool);
    let mut told: Vec<_> = bad.iter().map(|(name, _)| name.as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, expected, "{bad:?}");
    assert_eq!(letters.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&first, &last]);
    let aside = names(&dir.join("bad"));
    assert_eq!(aside.len(), expected.len() * 2, "{aside:?}");
    let why = aside.iter().find(|name| name.ends_with("-4-empty.why")).unwrap();
    assert_eq!(fs::read_to_string(dir.join("bad").join(why)).unwrap(), "it is empty");

    // The reader of letters rejects one.
    spool.set_aside(&first, "it is no JSON").unwrap();
    let (letters, bad) = take(&spool);
    assert_eq!((letters.len(), bad.len()), (1, 0));
    assert_eq!(names(&new), [".hidden", last.as_str()]);
}

#[test]
fn only_the_last_hundred_bad_ones_are_kept() {
    let temp = temp();
    let dir = temp.path.join("spool");
    let spool = Spool::open(&dir).unwrap();
    for n in 0..Spool::BAD_MAX + 5 {
        let name = spool.put(format!("{n}").as_bytes()).unwrap();
        spool.set_aside(&name, "bad").unwrap();
    }
    let kept = names(&dir.join("bad"));
    assert_eq!(kept.len(), Spool::BAD_MAX * 2);
    assert_eq!(fs::read(dir.join("bad").join(&kept[0])).unwrap(), b"5");
    assert!(kept[1].ends_with(".why"));
}

#[test]
fn a_spool_has_an_end_and_a_letter_too() {
    let temp = temp();
    let dir = temp.path.join("spool");
    let spool = Spool::open(&dir).unwrap();
    let large = vec![b'x'; Spool::LETTER_BYTES_MAX + 1];
    assert!(matches!(spool.put(&large), Err(SpoolError::TooLarge { .. })));
    let name = spool.put(&large[1..]).unwrap();
    assert_eq!(take(&spool).0[0].1.len(), Spool::LETTER_BYTES_MAX);
    spool.done(&name).unwrap();

    for n in 1..Spool::LETTERS_MAX {
        fs::write(dir.join("new").join(format!("{n:05}")), "x").unwrap();
    }
    let fresh = Spool::open(&dir).unwrap();
    fresh.put(b"the last that fits").unwrap();
    assert!(matches!(fresh.put(b"one too many"), Err(SpoolError::SpoolFull { .. })));
    assert!(names(&dir.join("tmp")).is_empty());

    // Taken in portions until it is empty; then there is room again.
    let mut taken = 0;
    loop {
        let (letters, bad) = take(&spool);
        assert!(letters.len() <= Spool::TAKE_LETTERS_MAX && bad.is_empty());
        if letters.is_empty() {
            break;
        }
        taken += letters.len();
        letters.iter().for_each(|(name, _)| spool.done(name).unwrap());
    }
    assert_eq!(taken, Spool::LETTERS_MAX);
    fresh.put(b"again").unwrap();
}

#[test]
fn a_spool_that_others_could_write_to_is_refused() {
    let temp = temp();
    let dir = temp.path.join("spool");
    Spool::open(&dir).unwrap();
    chmod(&dir.join("new"), 0o733);
    assert!(matches!(Spool::open(&dir), Err(SpoolError::File(FileError::TooOpen { .. }))));
    fs::remove_dir(dir.join("new")).unwrap();
    symlink(&temp.path, dir.join("new")).unwrap();
    assert!(matches!(Spool::open(&dir), Err(SpoolError::File(FileError::Symlink { .. }))));
    for raw in ["", ".", "..", ".x", "a/b", "a b", "a\n", "é", &"x".repeat(129)] {
        assert_eq!(SpoolId::parse(raw), None, "{raw:?}");
    }
}

/// Finding L13.
#[test]
fn spool_that_was_replaced_does_not_say_that_a_letter_is_kept() {
    let dir = temp();
    let path = dir.path.join("spool");
    let spool = Spool::open(&path).unwrap();
    spool.put(b"one").unwrap();
    fs::rename(&path, dir.path.join("elsewhere")).unwrap();
    assert!(spool.put(b"two").is_err(), "removed");
    let new = Spool::open(&path).unwrap();
    assert!(spool.put(b"three").is_err(), "replaced");
    assert_eq!(new.waiting().unwrap(), 0);
    new.put(b"four").unwrap();
}
