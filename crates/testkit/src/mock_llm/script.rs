//! What the mock does, step by step.
//!
//! Steps stand in the text itself, `{{think 500; stream 3000; ask touch made; output}}` (a `;` within a step is written
//! `\;`), or in a script: rules of which the first whose `when` is in the text gives the steps. Steps after a tool call
//! are for the request that brings the tool's answer.
//!
//! | step | what it does |
//! |---|---|
//! | `say TEXT` | says it at once |
//! | `stream MS` | words, one each 0.1 s, for so long |
//! | `think MS` | nothing, for so long |
//! | `run COMMAND` | calls the shell tool with it |
//! | `ask COMMAND` | the same, and asks for more rights than the sandbox gives, where the tool knows that |
//! | `call NAME JSON` | calls that tool, with these arguments; of a tool of an MCP server its own name is enough |
//! | `output` | says what the last tool answered |
//! | `lines N` | says so many numbered lines |
//! | `recall TEXT` | says `recalled TEXT` if that is in something that the user said before, else `never told TEXT` |
//! | `mark` | says `mark7`, if this is request 7 of the log: whoever sees it has seen this answer |
//! | `error STATUS` | answers with that HTTP status; alone, or first after a tool call |

use serde_json::Value;

/// The most lines that one step says.
const LINES_MAX: u64 = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Say(String),
    Stream(u64),
    Think(u64),
    Run { command: String, asks: bool },
    Call { name: String, arguments: Value },
    Output,
    Lines(u64),
    Recall(String),
    Mark,
    Error(u16),
}

/// Rules, and what is done if none fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    rules: Vec<(String, Vec<Step>)>,
    otherwise: Vec<Step>,
}

impl Default for Script {
    fn default() -> Self {
        Self { rules: Vec::new(), otherwise: vec![Step::Stream(1_000)] }
    }
}

impl Script {
    /// `{"rules": [{"when": "text", "steps": ["think 500", "run date", "output"]}], "otherwise": ["say hello"]}`
    pub fn parse(text: &str) -> Result<Self, String> {
        let script: Value = serde_json::from_str(text).map_err(|e| format!("the script is no JSON: {e}"))?;
        let steps = |value: &Value| -> Result<Vec<Step>, String> {
            let words = value.as_array().ok_or("steps are a list of texts")?;
            words.iter().map(|step| Step::parse(step.as_str().unwrap_or_default())).collect()
        };
        let mut found = Self::default();
        for rule in super::list(&script["rules"]) {
            let when = rule["when"].as_str().ok_or("a rule has a text `when`")?;
            found.rules.push((when.to_owned(), steps(&rule["steps"])?));
        }
        if !script["otherwise"].is_null() {
            found.otherwise = steps(&script["otherwise"])?;
        }
        Ok(found)
    }

    pub fn rule(mut self, when: &str, steps: Vec<Step>) -> Self {
        self.rules.push((when.to_owned(), steps));
        self
    }

    /// What is done if no rule fits.
    pub fn otherwise(mut self, steps: Vec<Step>) -> Self {
        self.otherwise = steps;
        self
    }

    /// What to do now that the tools have answered so many calls of this turn: up to the next call, that one
    /// included. A text with steps that make no sense is told so.
    pub(super) fn steps(&self, text: &str, answered: usize) -> Vec<Step> {
        let all = match in_text(text) {
            Some(Ok(steps)) => steps,
            Some(Err(why)) => vec![Step::Say(why)],
            None => {
                let rule = self.rules.iter().find(|(when, _)| text.contains(when));
                rule.map_or(&self.otherwise, |(_, steps)| steps).clone()
            }
        };
        let is_call = |step: &Step| matches!(step, Step::Run { .. } | Step::Call { .. });
        let mut parts = all.split_inclusive(is_call).skip(answered);
        parts.next().map_or_else(|| vec![Step::Say("done".into())], <[Step]>::to_vec)
    }
}

/// The last steps that stand in a text.
fn in_text(text: &str) -> Option<Result<Vec<Step>, String>> {
    let from = text.rfind("{{")?;
    let (steps, _) = text[from + 2..].split_once("}}")?;
    Some(split(steps).iter().map(|step| Step::parse(step)).collect())
}

/// At each `;` that has no backslash before it.
fn split(steps: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for piece in steps.split_inclusive(';') {
        let last = found.len() - 1;
        match (piece.strip_suffix("\\;"), piece.strip_suffix(';')) {
            (Some(before), _) => found[last].push_str(&format!("{before};")),
            (None, Some(before)) => {
                found[last].push_str(before);
                found.push(String::new());
            }
            (None, None) => found[last].push_str(piece),
        }
    }
    found.retain(|step| !step.trim().is_empty());
    found
}

/// What `lines N` says.
pub fn numbered_lines(count: u64) -> String {
    let lines: Vec<String> = (1..=count).map(|n| format!("line {n} of {count}")).collect();
    lines.join("\n")
}

impl Step {
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let number = || rest.parse::<u64>().map_err(|_| format!("{text:?}: {rest:?} is no number"));
        Ok(match word {
            "say" => Self::Say(rest.to_owned()),
            "stream" => Self::Stream(number()?),
            "think" => Self::Think(number()?),
            "run" | "ask" => Self::Run { command: rest.to_owned(), asks: word == "ask" },
            "call" => {
                let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, "{}"));
                let arguments = serde_json::from_str(arguments).map_err(|e| format!("{text:?}: {e}"))?;
                Self::Call { name: name.to_owned(), arguments }
            }
            "output" => Self::Output,
            "lines" => Self::Lines(number()?.min(LINES_MAX)),
            "recall" => Self::Recall(rest.to_owned()),
            "mark" => Self::Mark,
            "error" => {
                Self::Error(u16::try_from(number()?).map_err(|_| format!("{text:?}: no HTTP status"))?)
            }
            _ => return Err(format!("{word:?} is no step of the mock")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(command: &str) -> Step {
        Step::Run { command: command.into(), asks: false }
    }

    #[test]
    fn steps_stand_in_the_text() {
        let script = Script::default();
        let text = "hello {{think 5; stream 30; run echo a\\; echo b; output}} and more";
        assert_eq!(
            script.steps(text, 0),
            [Step::Think(5), Step::Stream(30), run("echo a; echo b")],
            "up to the call"
        );
        assert_eq!(script.steps(text, 1), [Step::Output], "with the tool's answer");
        assert_eq!(script.steps(text, 2), [Step::Say("done".into())]);
        assert_eq!(script.steps("{{say old}} {{error 503}}", 0), [Step::Error(503)], "the last ones count");
        assert_eq!(script.steps("plain", 0), [Step::Stream(1_000)]);
        assert_eq!(script.steps("{{jump}}", 0), [Step::Say("\"jump\" is no step of the mock".into())]);
    }

    #[test]
    fn rules_stand_in_a_script() {
        let text = json!({
            "rules": [{ "when": "count", "steps": ["ask touch x; y", "call mcp__s__t {\"a\": 1}", "say so"] }],
            "otherwise": ["say hello"],
        });
        let script = Script::parse(&text.to_string()).unwrap();
        let asks = Step::Run { command: "touch x; y".into(), asks: true };
        assert_eq!(script.steps("please count", 0), [asks]);
        let call = Step::Call { name: "mcp__s__t".into(), arguments: json!({ "a": 1 }) };
        assert_eq!(script.steps("please count", 1), [call]);
        assert_eq!(script.steps("please count", 2), [Step::Say("so".into())]);
        assert_eq!(script.steps("anything", 0), [Step::Say("hello".into())]);
        assert_eq!(script.steps("{{say me}} count", 0), [Step::Say("me".into())], "the text itself wins");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (step, part) in
            [("stream soon", "no number"), ("call x {", "call x"), ("error 99999", "HTTP"), ("", "no step")]
        {
            let why = Step::parse(step).unwrap_err();
            assert!(why.contains(part), "{step}: {why}");
        }
        assert!(Script::parse("{\"rules\": [{}]}").is_err());
    }
}
