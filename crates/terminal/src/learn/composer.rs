//! Where a probe text appeared, and which description of that place reads every screen right.

use super::pattern::{self, is_rule};
use super::{Observations, Proposed, ProposedComposer, Shot};
use crate::composer::Holds;
use crate::text::bones;

/// Rows below the composer that may be its end.
const BELOW_MAX: usize = 6;

/// What was found around a probe.
struct Surroundings {
    left: String,
    right: String,
    /// What begins a second row.
    second: Option<String>,
    above: Option<String>,
    /// Rows below it, from the top.
    below: Vec<String>,
    is_cursor_drawn: bool,
}

pub(super) fn find(seen: &Observations) -> Result<ProposedComposer, String> {
    let empty = seen.empty.first().ok_or("the program was never seen ready")?;
    let (first, word) = seen.typed.first().ok_or("nothing was typed")?;
    let around = surroundings(empty, first, word, &seen.typed[1..])?;
    let candidates = candidates(&around);
    if candidates.is_empty() {
        return Err("nothing marks where it begins: no mark before the text, no line above it".into());
    }
    let mut why = String::new();
    for candidate in candidates {
        match complete(candidate, seen) {
            Ok(composer) => return Ok(composer),
            Err(failed) if why.is_empty() => why = failed,
            Err(_) => {}
        }
    }
    Err(why)
}

fn surroundings(
    empty: &Shot,
    first: &Shot,
    word: &str,
    more: &[(Shot, String)],
) -> Result<Surroundings, String> {
    let is_new = |row: &usize| {
        first.rows[*row].contains(word) && !empty.rows.get(*row).is_some_and(|old| old.contains(word))
    };
    let places: Vec<usize> = (0..first.rows.len()).filter(is_new).collect();
    let row = places.iter().find(|row| **row == first.cursor.0).or(places.last());
    let row = *row.ok_or("the probe word did not appear on the screen")?;
    let (left, right) = first.rows[row].split_once(word).unwrap_or_default();
    let is_cursor_drawn = row != first.cursor.0;
    let behind = (left.chars().count() + word.chars().count(), row);
    if is_cursor_drawn && !first.drawn.iter().any(|cursor| (cursor.characters, cursor.row) == behind) {
        return Err(format!(
            "the text appeared in row {}, but the cursor is in row {}, and the program draws none behind the text",
            row + 1,
            first.cursor.0 + 1
        ));
    }
    let second = more.iter().find_map(|(shot, text)| {
        let (_, last) = text.rsplit_once('\n')?;
        let at = shot.rows.iter().rposition(|row| row.contains(last))?;
        shot.rows[at].split_once(last).map(|(left, _)| left.to_owned())
    });
    let above = row.checked_sub(1).map(|above| first.rows[above].clone());
    let below = first.rows[row + 1..].iter().filter(|row| !row.trim().is_empty()).take(BELOW_MAX);
    Ok(Surroundings {
        left: left.to_owned(),
        right: right.trim().to_owned(),
        second,
        above,
        below: below.cloned().collect(),
        is_cursor_drawn,
    })
}

/// Every description that could be right, the strictest first.
fn candidates(around: &Surroundings) -> Vec<ProposedComposer> {
    let is_visible = |text: &&String| !text.trim().is_empty();
    let mark = Some(&around.left).filter(is_visible).map(|left| pattern::front(left));
    let rule_above = around.above.as_ref().filter(|row| is_rule(row)).map(|row| pattern::rule(row));
    let second = around.second.as_ref().filter(is_visible).map(|left| pattern::front(left));
    // A mark in every row is a frame.
    let is_same =
        mark.is_some() && mark.as_ref().map(|one| &one.pattern) == second.as_ref().map(|one| &one.pattern);
    let mark = mark.filter(|_| !is_same);
    let edge = around.left.trim_start().chars().next().filter(|c| "│┃║▌▎▏|".contains(*c));
    let edge = edge.map(|edge| Proposed {
        pattern: format!(r"^\s*{}\s?", pattern::literal(edge)),
        seen: around.left.clone(),
    });
    let right = Some(&around.right).filter(is_visible).map(|right| pattern::back(right));
    let rule_below = around.below.iter().find(|row| is_rule(row)).map(|row| pattern::rule(row));
    let words = around.below.iter().filter(|row| !is_rule(row) && row.chars().any(char::is_alphanumeric));
    let strict = words.clone().map(|row| pattern::row(row));
    let ends = rule_below.into_iter().chain(strict).chain(words.map(|row| pattern::row_begin(row)));
    let ends = ends.map(Some).chain([None]);
    let begins = if mark.is_some() || is_same { vec![None] } else { vec![rule_above] };
    let mut frames = vec![second, edge];
    frames.retain(Option::is_some);
    frames.push(None);
    let rights = if right.is_some() { vec![right, None] } else { vec![None] };
    let mut all = Vec::new();
    for end in ends {
        for frame in &frames {
            for right in &rights {
                for begin in &begins {
                    let one = ProposedComposer {
                        begin: begin.clone(),
                        mark: mark.clone(),
                        frame: frame.clone(),
                        right: right.clone(),
                        end: end.clone(),
                        placeholders: Vec::new(),
                        is_cursor_drawn: around.is_cursor_drawn,
                    };
                    if one.begin.is_some() || one.mark.is_some() || one.frame.is_some() {
                        all.push(one);
                    }
                }
            }
        }
    }
    all
}

/// The same with what the program shows while it is empty, if it then reads every screen right.
fn complete(mut composer: ProposedComposer, seen: &Observations) -> Result<ProposedComposer, String> {
    let bare = composer.compile().ok_or("its pattern is not valid")?;
    for shot in &seen.empty {
        let (row, _) = bare.cursor_of(shot);
        let shown = bare.shown_in(&shot.rows, row).unwrap_or_default();
        let proposed = pattern::placeholder(&shown);
        // An example is one row, that of the cursor. Anything else may be text of a model.
        let is_example = !shown.is_empty() && shot.rows[row].contains(&shown);
        if is_example && !composer.placeholders.iter().any(|other| other.pattern == proposed.pattern) {
            composer.placeholders.push(proposed);
        }
    }
    let compiled = composer.compile().ok_or("its pattern is not valid")?;
    for (shot, text) in &seen.typed {
        let holds = compiled.read_rows(&shot.rows, compiled.cursor_of(shot), &shot.faint);
        if holds != Holds::Text(bones(text)) {
            return Err(format!("with {text:?} typed, it reads as {}", words(&holds)));
        }
    }
    for shot in &seen.empty {
        let holds = compiled.read_rows(&shot.rows, compiled.cursor_of(shot), &shot.faint);
        if holds != Holds::Empty {
            return Err(format!("with nothing typed, it reads as {}", words(&holds)));
        }
    }
    Ok(composer)
}

fn words(holds: &Holds) -> String {
    match holds {
        Holds::Unknown => "not visible".to_owned(),
        Holds::Empty => "empty".to_owned(),
        Holds::Text(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Holds::Collapsed(..) => "a count".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shot;
    use super::*;

    /// The empty screen, with a word, with two lines; and the parts that are proposed.
    // tidy: table
    const SHAPES: &[(&str, &str, &str, &str)] = &[
        (
            "hi\n────────────\n> ▮\n────────────\n ready",
            "hi\n────────────\n> zqprobe▮\n────────────\n ready",
            "hi\n────────────\n> zqone\n  zqtwo▮\n────────────\n ready",
            "mark end",
        ),
        (
            "╭──────────────────╮\n│ > ▮Ask anything  │\n╰──────────────────╯\n footer",
            "╭──────────────────╮\n│ > zqprobe▮       │\n╰──────────────────╯\n footer",
            "╭──────────────────╮\n│ > zqone          │\n│   zqtwo▮         │\n╰──────────────────╯\n footer",
            "mark frame right end placeholders",
        ),
        (
            "talk\n────────────\n▮\n────────────\n ~/w  0.0%",
            "talk\n────────────\nzqprobe▮\n────────────\n ~/w  0.0%",
            "talk\n────────────\nzqone\nzqtwo▮\n────────────\n ~/w  0.0%",
            "begin end",
        ),
        ("talk\n\n> ▮", "talk\n\n> zqprobe▮", "talk\n\n> zqone\n  zqtwo▮", "mark"),
        ("talk\nask> ▮", "talk\nask> zqprobe▮", "talk\nask> zqone\nask> zqtwo▮", "frame"),
        (
            "› ▮Ask it \"to fix a bug\"\n\n  gpt-5 · /tmp/w",
            "› zqprobe▮\n\n  gpt-5 · /tmp/w",
            "› zqone\n  zqtwo▮\n\n  gpt-5 · /tmp/w",
            "mark end placeholders",
        ),
        (
            "╭──────────────────╮\n│ ● ▯              │\n╰──────────────────╯\n ~/w         CLI\n▮",
            "╭──────────────────╮\n│ ● zqprobe▯       │\n╰──────────────────╯\n ~/w         CLI\n▮",
            "╭──────────────────╮\n│ ● zqone          │\n│   zqtwo▯         │\n╰──────────────────╯\n ~/w         CLI\n▮",
            "mark frame right end drawn",
        ),
        (
            "╭──────────────────╮\n│ ❯ «Ask me»▯        │\n╰──────────────────╯\n\n auto-edit: off\n▮",
            "╭──────────────────╮\n│ ❯ zqprobe▯       │\n╰──────────────────╯\n\n auto-edit: off\n▮",
            "╭──────────────────╮\n│ ❯ zqone          │\n│   zqtwo▯         │\n╰──────────────────╯\n\n auto-edit: off\n▮",
            "mark frame right end placeholders drawn",
        ),
    ];

    fn observe(empty: &str, typed: &str, two: &str) -> Observations {
        Observations {
            empty: vec![shot(empty)],
            typed: vec![(shot(typed), "zqprobe".into()), (shot(two), "zqone\nzqtwo".into())],
            ..Observations::default()
        }
    }

    #[test]
    fn composers_of_every_shape_are_found() {
        for (empty, typed, two, parts) in SHAPES {
            let found = find(&observe(empty, typed, two)).unwrap_or_else(|e| panic!("{e}\n{empty}"));
            let has = [
                ("begin", found.begin.is_some()),
                ("mark", found.mark.is_some()),
                ("frame", found.frame.is_some()),
                ("right", found.right.is_some()),
                ("end", found.end.is_some()),
                ("placeholders", !found.placeholders.is_empty()),
                ("drawn", found.is_cursor_drawn),
            ];
            let has: Vec<&str> = has.iter().filter(|(_, is)| *is).map(|(part, _)| *part).collect();
            assert_eq!(has.join(" "), *parts, "{empty}\n{found:#?}");
        }
    }

    /// Finding: a composer that moved after the first turn made a placeholder of all that the model had said.
    #[test]
    fn composer_that_moves_is_found_and_text_of_a_model_is_no_example() {
        let empty = "   logo\n   ────────────\n   ❯ ▮What can I do?\n   ────────────\n   mock-1";
        let typed = "   logo\n   ────────────\n   ❯ zqprobe▮\n   ────────────\n   mock-1";
        let after =
            "   ❯ asked before\n* secret words\n────────────\n❯ ▮Ask anything...\n────────────\nmock-1";
        let mut seen = observe(empty, typed, typed);
        seen.typed.truncate(1);
        seen.empty.push(shot(after));
        let found = find(&seen).unwrap();
        let examples: Vec<&str> = found.placeholders.iter().map(|one| one.seen.as_str()).collect();
        assert_eq!(examples, ["What can I do?", "Ask anything..."], "{found:#?}");
        // The rows above it look like a composer, and the cursor is not in it.
        seen.empty[1] = shot("   ❯ asked before\n* secret words\n? Ask▮\n────────────\nmock-1");
        assert!(find(&seen).is_err());
    }

    #[test]
    fn what_cannot_be_described_is_said() {
        for (empty, typed, why) in [
            ("a\n▮", "a\n▮", "did not appear"),
            ("a\n▮", "a zqprobe\n▮", "the cursor is in row 2"),
            ("a\n▮", "a\nzqprobe▮", "nothing marks where it begins"),
            ("> ▮", "> zqprobe and more▮", "it reads as"),
        ] {
            let failed = find(&observe(empty, typed, typed)).unwrap_err();
            assert!(failed.contains(why), "{failed}");
        }
    }
}
