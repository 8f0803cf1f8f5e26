//! Splits the person's keys into those for the program and commands to the viewer.
//!
//! A command is the prefix key (`terminal.prefix`) and a letter, as in tmux: `d` detaches, `t`
//! takes the keyboard, `m` delivers waiting messages. The prefix key twice sends it to the program
//! once. Everything else goes to the program byte for byte, and the prefix key in a paste is text.
//! If the program has switched the terminal to sending keys as sequences (`sequence`), the prefix
//! key is recognised in that form too.
//! Not here: reading the keys and sending them on (`viewer`).

mod sequence;

use sequence::Key;
use synapse_settings::PrefixKey;

/// What was typed, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Typed(Vec<u8>),
    Detach,
    Take,
    Yield,
}

#[derive(Debug)]
pub(super) struct Keys {
    /// None if all keys belong to the program.
    prefix_key: Option<PrefixKey>,
    /// The bytes of the prefix key, until the next key decides.
    prefix: Option<Vec<u8>>,
    in_paste: bool,
    /// The last bytes, to recognise a paste marker that arrives in pieces.
    last: Vec<u8>,
}

impl Keys {
    pub(super) fn new(prefix_key: Option<PrefixKey>) -> Self {
        Self { prefix_key, prefix: None, in_paste: false, last: Vec::new() }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) -> Vec<Heard> {
        let (mut heard, mut typed, mut rest) = (Vec::new(), Vec::new(), bytes);
        while !rest.is_empty() {
            let key = Key::first(rest);
            rest = &rest[key.bytes.len()..];
            self.look_for_paste(key.bytes);
            let is_prefix = !self.in_paste && self.prefix_key.is_some_and(|prefix| key.is_control(prefix));
            let Some(prefix) = self.prefix.take() else {
                if is_prefix && key.is_pressed() {
                    self.prefix = Some(key.bytes.to_vec());
                } else {
                    typed.extend_from_slice(key.bytes);
                }
                continue;
            };
            match command(&key, is_prefix) {
                Command::None => self.prefix = Some(prefix),
                Command::Detach => {
                    hand_over(&mut typed, &mut heard);
                    heard.push(Heard::Detach);
                    return heard;
                }
                Command::Take => {
                    hand_over(&mut typed, &mut heard);
                    heard.push(Heard::Take);
                }
                Command::Yield => {
                    hand_over(&mut typed, &mut heard);
                    heard.push(Heard::Yield);
                }
                Command::SendPrefix => typed.extend_from_slice(key.bytes),
                Command::Unknown => {
                    typed.extend_from_slice(&prefix);
                    typed.extend_from_slice(key.bytes);
                }
            }
        }
        hand_over(&mut typed, &mut heard);
        heard
    }

    fn look_for_paste(&mut self, bytes: &[u8]) {
        const MARK: usize = 6;
        for byte in bytes {
            self.last.push(*byte);
            if self.last.ends_with(b"\x1b[200~") {
                self.in_paste = true;
            } else if self.last.ends_with(b"\x1b[201~") {
                self.in_paste = false;
            }
            if self.last.len() > 2 * MARK {
                self.last.drain(..MARK);
            }
        }
    }
}

/// The meaning of a key after the prefix key.
enum Command {
    /// Nothing yet: a release, a repeat, or a modifier.
    None,
    Detach,
    Take,
    Yield,
    SendPrefix,
    /// Not a command. It goes to the program together with the prefix key.
    Unknown,
}

fn command(key: &Key<'_>, is_prefix: bool) -> Command {
    if !key.is_pressed() || key.is_modifier() {
        return Command::None;
    }
    if is_prefix {
        return Command::SendPrefix;
    }
    // Accept Ctrl-d too, if Ctrl is still held, because Ctrl-d would end many programs.
    let is_detach = key.is_plain('d') || PrefixKey::parse("C-d").is_some_and(|end| key.is_control(end));
    match () {
        () if is_detach => Command::Detach,
        () if key.is_plain('t') => Command::Take,
        () if key.is_plain('m') => Command::Yield,
        () => Command::Unknown,
    }
}

fn hand_over(typed: &mut Vec<u8>, heard: &mut Vec<Heard>) {
    if !typed.is_empty() {
        heard.push(Heard::Typed(std::mem::take(typed)));
    }
}

#[cfg(test)]
mod tests;
