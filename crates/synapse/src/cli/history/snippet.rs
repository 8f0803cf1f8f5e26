//! A piece of text around what was found in it. Pure.

/// The text on one line, cut to about so many characters around the first place; and the places within it.
pub(super) fn around(
    text: &str,
    places: &[(usize, usize)],
    chars_max: usize,
) -> (String, Vec<(usize, usize)>) {
    let first = places.first().map_or(0, |(at, _)| *at);
    let start = first.saturating_sub(chars_max / 3);
    let mut rest = text.chars().skip(start).map(|c| if c.is_whitespace() { ' ' } else { c });
    let kept: String = rest.by_ref().take(chars_max).collect();
    let count = kept.chars().count();
    let before = if start > 0 { "…" } else { "" };
    let after = if rest.next().is_some() { "…" } else { "" };
    let shift = usize::from(start > 0);
    let inside = places.iter().filter_map(|(at, len)| {
        let from = at.checked_sub(start)?;
        let len = (*len).min(count.saturating_sub(from));
        (len > 0).then_some((from + shift, len))
    });
    (format!("{before}{kept}{after}"), inside.collect())
}

/// The text with a change to each place in it.
pub(super) fn marked(text: &str, places: &[(usize, usize)], mark: impl Fn(&str) -> String) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut done) = (String::new(), 0);
    for (at, len) in places {
        let (from, to) = ((*at).clamp(done, chars.len()), (at + len).clamp(done, chars.len()));
        out.extend(&chars[done..from]);
        out.push_str(&mark(&chars[from..to].iter().collect::<String>()));
        done = to;
    }
    out.extend(&chars[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_around_the_first_place() {
        let check = |text: &str, places: &[(usize, usize)], expected: &str| {
            let (piece, inside) = around(text, places, 12);
            assert_eq!(marked(&piece, &inside, |m| format!("[{m}]")), expected, "{text:?}");
        };
        check("short text", &[(0, 5)], "[short] text");
        check("", &[], "");
        check("one two\nthree four five six", &[(8, 5)], "…two [three] fo…");
        check("会議室を予約してください。お願いします", &[(0, 2), (4, 2)], "[会議]室を[予約]してください…");
        check("aaaaaaaaaaaaaaaaaaaa", &[(0, 20)], "[aaaaaaaaaaaa]…");
        check("end", &[(7, 2)], "…");
    }
}
