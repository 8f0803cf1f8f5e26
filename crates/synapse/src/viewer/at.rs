//! `@agent …` at an empty composer: decides which keys are a message for another agent, and which
//! belong to the program.
//!
//! From an `@` on, keys are held back while they may still be an agent's name. Once they cannot,
//! all of them are passed on unchanged. A whole name and a space make a line, until it is sent,
//! given back or dropped. Pure: the input is keys and the state of the composer, the output is what
//! to do and what the last line shows.
//!
//! Invariants: what was held back is sent, dropped by the person, or passed on completely and in
//! order. It never reaches a program that waits for a decision, because it could be taken as the
//! answer. Not here: which agents there are and how a message is sent (`cli::at`), decoding keys
//! (`synapse_terminal::tokens`), drawing (`viewer`).

mod names;

pub use self::names::Name;
use self::names::{Reading, fold, is_blank, offered, read};
use synapse_holder::terminal::wire::Composer;
use synapse_terminal::tokens::{self, Token};

/// What to do with the keys, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Pass these bytes to the program.
    Pass(Vec<u8>),
    Send(Message),
    /// A line could not be given back, because the program waits for a decision.
    Lost,
}

/// A line to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub to: String,
    pub text: String,
    pub is_urgent: bool,
}

/// A line as it is shown to the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) hint: String,
}

#[derive(Debug)]
pub(super) struct At {
    state: State,
    composer: Composer,
    /// Whether something was typed to the program since the composer was last reported empty.
    touched: bool,
    /// How many bytes were passed to the program in total. Unknown after a reconnect.
    given: Option<u64>,
    /// The bytes of an incomplete key, and how many of them were passed on already.
    pending: Vec<u8>,
    passed: usize,
}

#[derive(Debug)]
enum State {
    Free,
    /// A paste that belongs to the program, until its end.
    Elsewhere,
    /// A paste that may be a line for an agent.
    Pasted {
        raw: Vec<u8>,
        text: String,
        names: Vec<Name>,
    },
    Open(Open),
}

/// A line that is held back.
#[derive(Debug, Default)]
struct Open {
    cells: Vec<Cell>,
    names: Vec<Name>,
    tab: Option<Tab>,
    in_paste: bool,
    /// Why this line was not sent. Shown until the next key.
    failure: Option<String>,
}

/// One character, and the key that typed it.
#[derive(Debug)]
struct Cell {
    c: char,
    bytes: Vec<u8>,
}

/// The text when Tab was first pressed, and which name is offered now.
#[derive(Debug)]
struct Tab {
    stem: String,
    n: usize,
}

/// The limit of a line's text.
const LINE_CHARS_MAX: usize = 20_000;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// The number of names in a hint.
const HINTS_MAX: usize = 6;

impl Default for At {
    fn default() -> Self {
        Self {
            state: State::Free,
            composer: Composer::Other,
            touched: false,
            given: Some(0),
            pending: Vec::new(),
            passed: 0,
        }
    }
}

impl At {
    /// Takes a report on the composer, and how many of our bytes the node had seen by then. Only
    /// the viewer that leads gets reports.
    pub(super) fn composer(&mut self, composer: Composer, typed: Option<u64>) {
        self.composer = composer;
        // A report from before our last keys says nothing about their effect.
        let is_stale = typed.zip(self.given).is_some_and(|(typed, given)| typed != given);
        if !is_stale {
            self.touched = false;
        }
    }

    /// Some of the passed bytes may not have arrived, and the node's count starts at zero again.
    pub(super) fn connection_broke(&mut self) {
        self.given = None;
    }

    /// Opens a line again that was not sent, with the reason, unless the person has begun something
    /// else. The person may edit it, send it again, or press Esc.
    pub(super) fn reopen(&mut self, message: &Message, why: &str, names: Vec<Name>) -> bool {
        if !matches!(self.state, State::Free) || !self.may_begin() || !self.pending.is_empty() {
            return false;
        }
        let urgent = if message.is_urgent { "!" } else { "" };
        let line = format!("@{}{urgent} {}", message.to, message.text);
        if !matches!(read(&line, &names), Reading::Line { .. }) {
            return false;
        }
        let cells = line.chars().map(Cell::of).collect();
        self.state = State::Open(Open { cells, names, failure: Some(why.to_owned()), ..Open::default() });
        true
    }

    /// Another viewer leads. Our keys no longer count until the composer is reported again, and a
    /// held-back line is dropped.
    pub(super) fn looks_on(&mut self) {
        (self.state, self.composer) = (State::Free, Composer::Other);
    }

    /// The line that is held back, if there is one.
    pub(super) fn shown(&self) -> Option<Shown> {
        let State::Open(open) = &self.state else { return None };
        let text = open.text();
        let hint = match read(&text, &open.names) {
            _ if open.failure.is_some() => open.failure.clone().unwrap_or_default(),
            Reading::Line { to, is_urgent, .. } => {
                let urgent = if is_urgent { ", urgent" } else { "" };
                let escape =
                    if self.composer == Composer::Prompt { "drop it" } else { "give it to the program" };
                format!("Enter: send to {to}{urgent}  Esc: {escape}")
            }
            _ => {
                let stem = open.tab.as_ref().map_or(text.as_str(), |tab| &tab.stem);
                let fit: Vec<&str> = offered(stem, &open.names).take(HINTS_MAX).collect();
                format!("Tab: {}", fit.join(" "))
            }
        };
        Some(Shown { text, hint })
    }

    /// Handles keys as they were read. Calls `names` only when a line may begin.
    pub(super) fn hear(&mut self, bytes: &[u8], names: &mut dyn FnMut() -> Vec<Name>) -> Vec<Said> {
        let said = self.heard(bytes, names);
        let given = said.iter().map(|said| match said {
            Said::Pass(bytes) => bytes.len() as u64,
            Said::Send(_) | Said::Lost => 0,
        });
        let given = given.sum::<u64>();
        self.given = self.given.map(|before| before + given);
        said
    }

    fn heard(&mut self, bytes: &[u8], names: &mut dyn FnMut() -> Vec<Name>) -> Vec<Said> {
        let mut said = Vec::new();
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let (mut rest, mut passed) = (&all[..], std::mem::take(&mut self.passed));
        while !rest.is_empty() {
            let Some((token, length)) = tokens::first(rest) else {
                if matches!(self.state, State::Free | State::Elsewhere) && !self.may_become_at(rest) {
                    pass(&mut said, &rest[passed..]);
                    passed = rest.len();
                }
                (self.pending, self.passed) = (rest.to_vec(), passed);
                return said;
            };
            let key = &rest[..length];
            self.take(token, key, passed.min(length), names, &mut said);
            (rest, passed) = (&rest[length..], passed.saturating_sub(length));
        }
        said
    }

    /// Whether these may be the first bytes of a full-width `＠`, which may arrive one by one. No
    /// key consists of them alone.
    fn may_become_at(&self, bytes: &[u8]) -> bool {
        self.may_begin() && "＠".as_bytes().starts_with(bytes)
    }

    fn may_begin(&self) -> bool {
        self.composer == Composer::Empty && !self.touched
    }

    /// Handles one key, of which `passed` bytes were passed on already.
    fn take(
        &mut self,
        token: Token,
        key: &[u8],
        passed: usize,
        names: &mut dyn FnMut() -> Vec<Name>,
        said: &mut Vec<Said>,
    ) {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Free => self.free(token, key, passed, names, said),
            State::Elsewhere => {
                self.touched = true;
                pass(said, &key[passed..]);
                if token != Token::PasteEnds {
                    self.state = State::Elsewhere;
                }
            }
            State::Pasted { raw, text, names: known } => {
                let known = if raw == PASTE_BEGINS { names() } else { known };
                self.pasted(token, key, (raw, text, known), said);
            }
            State::Open(open) if open.in_paste => self.paste_into(token, open),
            State::Open(open) => self.edit(token, key, open, said),
        }
    }

    fn free(
        &mut self,
        token: Token,
        key: &[u8],
        passed: usize,
        names: &mut dyn FnMut() -> Vec<Name>,
        said: &mut Vec<Said>,
    ) {
        match token {
            Token::Text(c) if fold(c) == '@' && self.may_begin() && passed == 0 => {
                let names = names();
                if !names.is_empty() {
                    let cells = vec![Cell { c, bytes: key.to_vec() }];
                    self.state = State::Open(Open { cells, names, ..Open::default() });
                    return;
                }
            }
            Token::PasteBegins if self.may_begin() && passed == 0 => {
                self.state = State::Pasted { raw: key.to_vec(), text: String::new(), names: Vec::new() };
                return;
            }
            Token::PasteBegins => self.state = State::Elsewhere,
            _ => {}
        }
        self.touched |= !matches!(token, Token::Report | Token::Release);
        pass(said, &key[passed..]);
    }

    /// A paste at the empty composer. It is a line for an agent if it is one line that begins with
    /// a name.
    fn pasted(&mut self, token: Token, key: &[u8], had: (Vec<u8>, String, Vec<Name>), said: &mut Vec<Said>) {
        let (mut raw, mut text, names) = had;
        raw.extend_from_slice(key);
        let is_ended = text.ends_with('\n');
        match token {
            Token::Text(c) if !is_ended => text.push(c),
            Token::Tab if !is_ended => text.push(' '),
            Token::Enter => text.push('\n'),
            Token::Key if key == b"\n" => text.push('\n'),
            Token::PasteEnds => {
                let line = text.trim_end_matches('\n');
                if matches!(read(line, &names), Reading::Line { .. }) {
                    let cells = line.chars().map(Cell::of).collect();
                    self.state = State::Open(Open { cells, names, ..Open::default() });
                } else {
                    self.touched = true;
                    pass(said, &raw);
                }
                return;
            }
            _ => return self.let_paste_go(&raw, said),
        }
        let line = text.trim_end_matches('\n');
        if read(line, &names) == Reading::Nothing || line.chars().count() > LINE_CHARS_MAX {
            return self.let_paste_go(&raw, said);
        }
        self.state = State::Pasted { raw, text, names };
    }

    fn let_paste_go(&mut self, raw: &[u8], said: &mut Vec<Said>) {
        (self.state, self.touched) = (State::Elsewhere, true);
        pass(said, raw);
    }

    /// A paste into a line for an agent is part of its text.
    fn paste_into(&mut self, token: Token, mut open: Open) {
        match token {
            Token::Text(c) => open.push(Cell::of(c)),
            Token::Tab => open.push(Cell::of(' ')),
            Token::Enter => open.push(Cell::of('\n')),
            Token::PasteEnds => open.in_paste = false,
            _ => {}
        }
        self.state = State::Open(open);
    }

    fn edit(&mut self, token: Token, key: &[u8], mut open: Open, said: &mut Vec<Said>) {
        let text = open.text();
        let reading = read(&text, &open.names);
        let is_line = matches!(reading, Reading::Line { .. });
        if token != Token::Tab && !matches!(token, Token::Report | Token::Release) {
            (open.tab, open.failure) = (None, None);
        }
        match token {
            Token::Text(c) => {
                open.push(Cell { c, bytes: key.to_vec() });
                if read(&open.text(), &open.names) == Reading::Nothing {
                    return self.give_back(&open, &[], said);
                }
            }
            Token::Enter => match reading {
                Reading::Line { text: "", .. } => {}
                Reading::Line { to, text, is_urgent } => {
                    let (to, text) = (to.to_owned(), text.to_owned());
                    return said.push(Said::Send(Message { to, text, is_urgent }));
                }
                _ => return self.give_back(&open, key, said),
            },
            Token::Escape => return self.give_back(&open, &[], said),
            Token::Cancel | Token::Clear => return,
            Token::Backspace => drop(open.cells.pop()),
            Token::Word => open.drop_word(),
            Token::Tab if is_line => {}
            Token::Tab => open.complete(&text),
            Token::PasteBegins if is_line => open.in_paste = true,
            Token::PasteBegins => {
                self.give_back(&open, key, said);
                self.state = State::Elsewhere;
                return;
            }
            Token::Report => pass(said, key),
            Token::Release | Token::PasteEnds => {}
            // An editing or command key. In a line it is ignored; before that it belongs to the
            // program.
            Token::Key if is_line => {}
            Token::Key => return self.give_back(&open, key, said),
        }
        if !open.cells.is_empty() {
            self.state = State::Open(open);
        }
    }

    /// Passes the whole line to the program, and the key that caused it.
    fn give_back(&mut self, open: &Open, key: &[u8], said: &mut Vec<Said>) {
        if self.composer == Composer::Prompt {
            return said.push(Said::Lost);
        }
        self.touched = true;
        let mut bytes: Vec<u8> = open.cells.iter().flat_map(|cell| cell.bytes.iter().copied()).collect();
        if open.cells.iter().any(|cell| cell.c == '\n') {
            bytes = [PASTE_BEGINS, &bytes, PASTE_ENDS].concat();
        }
        bytes.extend_from_slice(key);
        pass(said, &bytes);
    }
}

impl Open {
    fn text(&self) -> String {
        self.cells.iter().map(|cell| cell.c).collect()
    }

    fn push(&mut self, cell: Cell) {
        if self.cells.len() < LINE_CHARS_MAX {
            self.cells.push(cell);
        }
    }

    fn drop_word(&mut self) {
        while self.cells.last().is_some_and(|cell| is_blank(cell.c)) {
            self.cells.pop();
        }
        while self.cells.last().is_some_and(|cell| !is_blank(cell.c)) {
            self.cells.pop();
        }
    }

    /// Completes the only matching name and adds a space, or offers the next one of several.
    fn complete(&mut self, text: &str) {
        let tab = self.tab.take().unwrap_or_else(|| Tab { stem: text.to_owned(), n: 0 });
        let fit: Vec<&str> = offered(&tab.stem, &self.names).collect();
        let (name, blank) = match fit[..] {
            [] => return,
            [only] => (only.to_owned(), " "),
            ref several => (several[tab.n % several.len()].to_owned(), ""),
        };
        let is_one = !blank.is_empty();
        self.cells.truncate(1);
        self.cells.extend(name.chars().chain(blank.chars()).map(Cell::of));
        self.tab = (!is_one).then(|| Tab { n: tab.n + 1, ..tab });
    }
}

impl Cell {
    fn of(c: char) -> Self {
        Self { c, bytes: c.to_string().into_bytes() }
    }
}

fn pass(said: &mut Vec<Said>, bytes: &[u8]) {
    match said.last_mut() {
        _ if bytes.is_empty() => {}
        Some(Said::Pass(before)) => before.extend_from_slice(bytes),
        _ => said.push(Said::Pass(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests;
