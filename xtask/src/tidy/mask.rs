//! Rust source with its comments and literals blanked out.
//!
//! What is left is code, byte for byte in its place, so a rule may search for a word or match
//! braces without being misled by a string. This is not a parser: it knows only where comments and
//! literals begin and end.

/// The same text, same length, same lines, with spaces where comments and literals were.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = blank_until(bytes, at).unwrap_or(at).min(bytes.len());
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the comment or literal that begins at `at`, if one begins there.
fn blank_until(bytes: &[u8], at: usize) -> Option<usize> {
    match &bytes[at..] {
        [b'/', b'/', ..] => Some(find(bytes, at, b"\n").unwrap_or(bytes.len())),
        [b'/', b'*', ..] => Some(after_block(bytes, at)),
        [b'"', ..] => Some(after_string(bytes, at)),
        [b'r', b'"' | b'#', ..] => after_raw(bytes, at),
        [b'\'', ..] => after_char(bytes, at),
        _ => None,
    }
}

/// Block comments nest.
fn after_block(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn after_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Handles `r"…"`, `r#"…"#` and so on. `r#word` is an identifier, not a string.
fn after_raw(bytes: &[u8], from: usize) -> Option<usize> {
    let hashes = bytes[from + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(from + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let end = find(bytes, from + 2 + hashes, &close);
    Some(end.map_or(bytes.len(), |end| end + close.len()))
}

/// Handles `'x'` and `'\n'`, which are characters. `'a` alone is a lifetime.
fn after_char(bytes: &[u8], from: usize) -> Option<usize> {
    let first = *bytes.get(from + 1)?;
    if first == b'\\' {
        return find(bytes, from + 3, b"'").map(|end| end + 1);
    }
    let width = match first {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    };
    (bytes.get(from + 1 + width) == Some(&b'\'')).then_some(from + 2 + width)
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str) {
        let masked = mask(text);
        assert_eq!(masked.len(), text.len());
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), code);
    }

    #[test]
    fn comments_are_no_code() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check("//! head\n/// doc\nfn", "fn");
        check("a /* never closed", "a");
    }

    #[test]
    fn literals_are_no_code() {
        check(r#"f("a { \" b", x)"#, "f( , x)");
        check("f(r#\"a \" { b\"#, br\"c\\\", x)", "f( , b , x)");
        check("f(\"// no comment\") // but this", "f( )");
        check("f(\"never closed", "f(");
    }

    #[test]
    fn a_lifetime_is_no_character() {
        check(
            "fn f<'a>(x: &'a str, c: char) { c == '{' || c == '\\'' || c == 'é' }",
            "fn f<'a>(x: &'a str, c: char) { c == || c == || c == }",
        );
        check("let r#fn = 'outer: loop {}", "let r#fn = 'outer: loop {}");
    }

    #[test]
    fn lines_stay_where_they_were() {
        assert_eq!(mask("a\n\"b\nc\"\nd").lines().count(), 4);
    }
}
