//! Aider's chat history, which is Markdown: a prompt is a heading of level four, what Aider itself says is a quote, and
//! the text between them is the model's.
//!
//! A model may write headings and quotes too. So only the line about tokens, which Aider writes after each answer of
//! the model, ends an answer; until then every line belongs to it.

use super::LoggedTurn;

const PROMPT: &str = "#### ";

/// Where in the log of our turn we are.
enum Place {
    /// Between two answers of the model, or behind the last one.
    Between,
    /// In an answer, with its lines so far.
    Answer(Vec<String>),
}

/// The turn of the last prompt that `is_ours` accepts, up to the next prompt.
pub(super) fn turn(log: &str, is_ours: impl Fn(&str) -> bool) -> Option<LoggedTurn> {
    let mut ours: Option<LoggedTurn> = None;
    // None while the prompt that came last is not ours.
    let mut place: Option<Place> = None;
    let mut is_in_prompt = false;
    for line in log.lines() {
        let prompt = line.strip_prefix(PROMPT);
        // The further lines of a prompt.
        if is_in_prompt && prompt.is_some() {
            continue;
        }
        is_in_prompt = prompt.is_some_and(&is_ours);
        if is_in_prompt {
            (ours, place) = (Some(LoggedTurn::default()), Some(Place::Answer(Vec::new())));
            continue;
        }
        let (Some(turn), Some(now)) = (&mut ours, &mut place) else { continue };
        match now {
            Place::Answer(lines) if is_end_of_answer(line) => {
                turn.say(lines.join("\n").trim().to_owned(), false);
                place = Some(Place::Between);
            }
            Place::Answer(lines) => lines.push(line.to_owned()),
            Place::Between if prompt.is_some() => place = None,
            Place::Between if line.trim().is_empty() || line.starts_with('>') => {}
            // It went on by itself, for instance with an error that its linter found.
            Place::Between => {
                turn.is_final = false;
                place = Some(Place::Answer(vec![line.to_owned()]));
            }
        }
    }
    ours
}

/// `> Tokens: 3.5k sent, 4 received.`, sometimes with costs behind it.
fn is_end_of_answer(line: &str) -> bool {
    let counts = line.strip_prefix("> Tokens: ");
    counts.is_some_and(|counts| counts.contains(" sent, ") && counts.contains(" received"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: &str = "> Tokens: 3.5k sent, 4 received. Cost: $0.01 message, $0.01 session.  \n";

    /// Defect J: Aider's answer was read off its screen, with the line about tokens and the rule below it.
    #[test]
    fn answer_is_what_stands_between_the_prompt_and_the_tokens() {
        let ours = "\n#### [A2A:0b78765b:user] tell me  \n#### all of it  \n";
        let check = |log: String, answer: &str, is_final: bool| {
            let found = turn(&log, |prompt| prompt.starts_with("[A2A:0b78765b:user]"));
            assert_eq!(found, Some(LoggedTurn { answer: answer.into(), is_final }), "{log}");
        };
        check(ours.to_owned(), "", false);
        check(format!("{ours}\nhalf of"), "", false);
        check(format!("\n#### hello  \n\nno\n\n{TOKENS}{ours}\nyes\n\n{TOKENS}"), "yes", true);
        // What looks like the words of Aider or of a person.
        let markdown = "# A\n\n#### B\n> quote\n\n    code\n\n> Tokens are words";
        check(format!("{ours}\n{markdown}\n\n{TOKENS}> Applied edit to a.py  \n"), markdown, true);
        check(format!("{ours}\nyes\n\n{TOKENS}\n#### next  \n\nno\n\n{TOKENS}"), "yes", true);
        // It asks its model again without a word of a person.
        let again = format!("{ours}\nfirst\n\n{TOKENS}> Fix lint errors? (Y)es/(N)o [Yes]: y  \n");
        check(again.clone(), "first", true);
        check(format!("{again}\nsec"), "first", false);
        check(format!("{again}\nsecond\n\n{TOKENS}"), "second", true);
        // Typed twice: the later one counts.
        check(format!("{ours}\nyes\n\n{TOKENS}{ours}"), "", false);
        assert_eq!(turn("#### other\n\nno\n", |prompt| prompt.starts_with("[A2A")), None);
    }
}
