//! The prefix key in every form in which a terminal sends it.

use super::*;

fn heard(prefix: &str, pieces: &[&[u8]]) -> Vec<Heard> {
    let mut keys = Keys::new(PrefixKey::parse(prefix));
    pieces.iter().flat_map(|piece| keys.hear(piece)).collect()
}

fn typed(bytes: &[u8]) -> Heard {
    Heard::Typed(bytes.to_vec())
}

/// All bytes that reach the program.
fn passed(heard: Vec<Heard>) -> Vec<u8> {
    let bytes = heard.into_iter().map(|heard| match heard {
        Heard::Typed(bytes) => bytes,
        other => panic!("{other:?}"),
    });
    bytes.collect::<Vec<_>>().concat()
}

#[test]
fn prefix_begins_a_command() {
    let heard = |pieces: &[&[u8]]| heard("C-b", pieces);
    assert_eq!(heard(&[b"abc"]), [typed(b"abc")]);
    assert_eq!(heard(&[b"a\x02dz"]), [typed(b"a"), Heard::Detach]);
    assert_eq!(heard(&[b"\x02\x02x"]), [typed(b"\x02x")]);
    assert_eq!(heard(&[b"\x02x"]), [typed(b"\x02x")]);
    assert_eq!(heard(&[b"a\x02"]), [typed(b"a")]);
    assert_eq!(heard(&[b"\x02", b"d"]), [Heard::Detach]);
    assert_eq!(heard(&[b"\x02", b"ty"]), [Heard::Take, typed(b"y")]);
    assert_eq!(heard(&[b"a\x02my"]), [typed(b"a"), Heard::Yield, typed(b"y")]);
    // Ctrl was released too late.
    assert_eq!(heard(&[b"\x02\x04"]), [Heard::Detach]);
}

#[test]
fn every_key_can_be_the_prefix() {
    for (prefix, byte) in
        [("C-\\", 0x1c), ("C-]", 0x1d), ("C-^", 0x1e), ("C-_", 0x1f), ("C-@", 0), ("C-a", 1)]
    {
        assert_eq!(heard(prefix, &[&[b'x', byte, b'd']]), [typed(b"x"), Heard::Detach], "{prefix}");
        assert_eq!(heard(prefix, &[&[byte, byte]]), [typed(&[byte])], "{prefix}");
        // The prefix of tmux now belongs to the program.
        assert_eq!(heard(prefix, &[b"\x02d"]), [typed(b"\x02d")], "{prefix}");
    }
    // Its own letter can be a command, and the key itself can still be sent.
    assert_eq!(heard("C-d", &[b"\x04d"]), [Heard::Detach]);
    assert_eq!(heard("C-d", &[b"\x04\x04"]), [typed(b"\x04")]);
    assert_eq!(heard("none", &[b"\x1cd\x02d\x1b[92;5ud"]), [typed(b"\x1cd\x02d\x1b[92;5ud")]);
}

#[test]
fn viewer_in_a_viewer_gets_its_own_prefix() {
    let mut outer = Keys::new(Some(PrefixKey::default()));
    let mut inner = Keys::new(Some(PrefixKey::default()));
    let reached = passed(outer.hear(b"a\x1c\x1cd"));
    assert_eq!(inner.hear(&reached), [typed(b"a"), Heard::Detach]);
    assert_eq!(outer.hear(b"\x1cd"), [Heard::Detach]);
}

#[test]
fn prefix_in_a_paste_is_text() {
    let paste = b"\x1b[200~a\x02d\x1b[201~";
    assert_eq!(heard("C-b", &[paste]), [typed(paste)]);
    let pieces: Vec<&[u8]> = paste.chunks(1).collect();
    assert_eq!(passed(heard("C-b", &pieces)), paste);
    assert_eq!(heard("C-b", &[paste, b"\x02d"]), [typed(paste), Heard::Detach]);
}

#[test]
fn prefix_is_recognised_as_a_sequence() {
    for (prefix, sequence) in [
        ("C-b", &b"\x1b[98;5u"[..]),
        ("C-b", b"\x1b[98;133:1u"),   // Caps Lock is on
        ("C-b", b"\x1b[1080::98;5u"), // the same key of a Russian keyboard
        ("C-b", b"\x1b[27;5;98~"),    // modifyOtherKeys
        ("C-\\", b"\x1b[92;5u"),
        ("C-\\", b"\x1b[92::92;5u"),
        ("C-\\", b"\x1b[27;5;92~"),
        ("C-\\", b"\x1b[52;5u"), // Ctrl-4
        ("C-]", b"\x1b[53;5u"),  // Ctrl-5
        ("C-]", b"\x1b[93;5:1u"),
        ("C-^", b"\x1b[54;5u"),    // Ctrl-6
        ("C-^", b"\x1b[54:94;6u"), // Ctrl-Shift-6 is Ctrl-^ on a US keyboard
        ("C-^", b"\x1b[27;6;94~"),
        ("C-_", b"\x1b[45:95;6u"),
        ("C-_", b"\x1b[47;5u"), // Ctrl-/
        ("C-@", b"\x1b[32;5u"), // Ctrl-Space
    ] {
        let name = String::from_utf8_lossy(sequence).into_owned();
        assert_eq!(heard(prefix, &[sequence, b"d"]), [Heard::Detach], "{prefix} {name:?}");
        let again = [sequence, sequence].concat();
        assert_eq!(heard(prefix, &[&again]), [typed(sequence)], "{prefix} {name:?}");
        assert_eq!(heard("none", &[sequence]), [typed(sequence)], "{name:?}");
    }
    // The key is released, held, or followed by a modifier.
    assert_eq!(
        heard("C-b", &[b"\x1b[98;5u\x1b[98;5:2u\x1b[98;5:3u\x1b[57442;1:3u\x1b[100u"]),
        [Heard::Detach]
    );
    assert_eq!(heard("C-b", &[b"\x1b[98;5u\x1b[57441;2u\x1b[100;1:1u"]), [Heard::Detach]);
    assert_eq!(heard("C-b", &[b"\x1b[98;5u\x1b[100;5u"]), [Heard::Detach]);
}

#[test]
fn other_keys_are_not_the_prefix() {
    for other in [
        &b"\x1b[98u"[..],
        b"\x1b[99;5u",
        b"\x1b[98;6u", // Ctrl-Shift-b
        b"\x1b[98;7u", // Ctrl-Alt-b
        b"\x1b[27;5;99~",
        b"\x1b[98;5:3u", // a release
        b"\x1b[A",
        b"\x1b[1;5D",
        b"\x1b[3;5~",
        b"\x1b[<0;3;4M",
        b"\x1b[I",
        b"\x1bb",
        b"\x1b",
    ] {
        assert_eq!(heard("C-b", &[other]), [typed(other)], "{:?}", String::from_utf8_lossy(other));
    }
    assert_eq!(heard("C-b", &[b"\x1b[98;5u\x1b[99;5u"]), [typed(b"\x1b[98;5u\x1b[99;5u")]);
    // Ctrl-4 means only Ctrl-\.
    assert_eq!(heard("C-]", &[b"\x1b[52;5u"]), [typed(b"\x1b[52;5u")]);
    assert_eq!(heard("C-\\", &[b"\x1b[52;6u"]), [typed(b"\x1b[52;6u")]);
}

#[test]
fn any_bytes_without_the_prefix_pass_as_they_are() {
    bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(bytes, piece)| {
        let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0x02).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(usize::from(*piece).max(1)).collect();
        let sequence = bytes.windows(2).any(|two| two == b"\x1b[");
        let told: Vec<u8> = heard("C-b", &pieces)
            .into_iter()
            .flat_map(|heard| if let Heard::Typed(bytes) = heard { bytes } else { Vec::new() })
            .collect();
        assert!(sequence || told == bytes);
    });
}
