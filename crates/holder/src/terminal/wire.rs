//! What a holder and its clients say to each other: frames of a kind, a length and bytes.
//!
//! Both ends are ours and of the same user; what comes is still checked: a frame of an unknown kind or of too many
//! bytes ends the connection. So a holder sends the kinds that came later only to clients whose hello says that
//! they know them (`LEVEL`): a holder may be newer than its node, and older than its viewers.

mod frames;

use super::visitors::ViewerEvent;
pub use frames::{BadFrame, Frames};
use std::io::{self, Read, Write};

/// Longest content of one frame. A picture with all its scrollback fits.
pub const FRAME_BYTES_MAX: usize = 2 << 20;

/// Longest content of a client's first frame, its hello. Later versions have room to say more in it.
pub(super) const HELLO_BYTES_MAX: usize = 64;

/// What this version of a client understands: 1 brought `Tell::Refused` and `Tell::Viewer`, 2 `Tell::Stopped`.
pub const LEVEL: u8 = 2;

/// How a notice ends that mail waits for the person to stop typing; the viewer knows the key that delivers it now.
pub const MAIL_WAITS_FOR_KEYS: &str = "you are typing";

/// From a client to the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// First of all: who it is, and how large its window is.
    Hello {
        role: Role,
        columns: u16,
        rows: u16,
        /// The `LEVEL` of the client; 0 is what older ones do not say.
        level: u8,
    },
    /// Keys of a person, or text of the node.
    Input(Vec<u8>),
    /// Keys of the node, only if the program has printed nothing beyond this place. The holder looks again at once before.
    Press {
        upto: u64,
        keys: Vec<u8>,
    },
    Resize {
        columns: u16,
        rows: u16,
    },
    /// The node's answers to all queries in the output up to this place that were not answered before.
    Answer {
        upto: u64,
        bytes: Vec<u8>,
    },
    /// All output up to this place is in this picture of a screen of this size.
    Picture {
        upto: u64,
        columns: u16,
        rows: u16,
        drawn: Vec<u8>,
    },
    /// Nobody else's input reaches the program for so long, or until it is given back with 0.
    Keyboard {
        ms: u32,
    },
    /// A suspended program goes on.
    Continue,
    /// Makes the program draw everything again.
    Repaint,
    /// Sends the picture and what came after it once more: this client's window was used for something else.
    Again,
    /// This viewer wants to lead.
    Take,
    /// What the node thinks the program does, and why.
    State {
        state: String,
        why: String,
    },
    /// The colours of a person's terminal: those of text and of the background, as red, green and blue.
    Colours {
        ink: Rgb,
        paper: Rgb,
    },
    /// What the node sees of the place where the person writes, knowing of so many bytes that it was told were typed.
    Composer {
        composer: Composer,
        typed: Option<u64>,
    },
    /// What the person at this terminal should know.
    Notice(String),
    /// The person does not want to type for now: what waits for that may come.
    Yield,
    /// The node's answer about an agent that wants to look: why it may not, or nothing if it may.
    Admit {
        viewer: u64,
        refused: Option<String>,
    },
}

/// Red, green and blue.
pub type Rgb = [u8; 3];

/// What is known of the place where a person writes to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Composer {
    /// It holds something, or it is not to be seen.
    #[default]
    Other,
    Empty,
    /// The program asks for a decision: every key may be the answer.
    Prompt,
}

/// From the holder to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tell {
    /// First of all: the size of the picture, where the output after it begins, up to where queries are answered, and
    /// whether some output before it is lost; whether this holder knows `Ask::Press`; and whether a person typed before.
    Welcome {
        columns: u16,
        rows: u16,
        upto: u64,
        answered: u64,
        lost: bool,
        guards: bool,
        typed: bool,
    },
    /// The last picture the node made.
    Picture(Vec<u8>),
    Output(Vec<u8>),
    /// What another client typed; told to the node and to recorders.
    Typed(Vec<u8>),
    Resized {
        columns: u16,
        rows: u16,
    },
    /// Whether this viewer's keys and size count.
    Leads(bool),
    /// Whether nobody else's input reaches the program now; all that was typed before is told before this.
    Keyboard(bool),
    /// Whether the keys of `Ask::Press` were pressed; what was printed before is told before this.
    Pressed(bool),
    /// Whether the program, which still runs, has closed its terminal: nothing can be seen of it or typed to it.
    Closed(bool),
    Suspended,
    /// The colours of the terminal of the person who leads; told to the node.
    Colours {
        ink: Rgb,
        paper: Rgb,
    },
    /// What the node thinks the program does, and why; told to recorders.
    State {
        state: String,
        why: String,
    },
    /// The place where the person writes, after so many bytes of this client's input; told to whoever leads, as often as
    /// the node says it.
    Composer {
        composer: Composer,
        typed: Option<u64>,
    },
    /// What the person should know; told to the viewer who leads.
    Notice(String),
    /// The person who leads does not want to type for now; told to the node.
    Yield,
    /// This client is not let in; says why. Nothing follows.
    Refused(String),
    /// What a viewer did; told to the node, which writes it down.
    Viewer(Box<ViewerEvent>),
    /// The agent was stopped and its program with it; says why if nobody asked for it. Nothing follows.
    Stopped(String),
    /// The program ended; nothing follows.
    Ended {
        code: i32,
        signaled: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Node,
    /// Types and decides the size, unless another viewer does already.
    Viewer,
    /// Takes over from whoever leads.
    Leader,
    /// Only looks.
    Reader,
    /// Writes down what is printed and typed.
    Recorder,
}

/// `Tell::Output` of what may be in two pieces, without a copy of its own.
pub(super) fn output(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    frame(out, OUTPUT, pieces);
}

const OUTPUT: u8 = b'O';

fn frame(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.push(kind);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn size(columns: u16, rows: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (columns.to_le_bytes(), rows.to_le_bytes());
    [a, b, c, d]
}

/// Fixed bytes at the front of a content.
fn front<const N: usize>(content: &[u8]) -> Option<([u8; N], &[u8])> {
    let (front, rest) = content.split_at_checked(N)?;
    Some((front.try_into().ok()?, rest))
}

fn read_size(content: &[u8]) -> Option<((u16, u16), &[u8])> {
    let ([a, b, c, d], rest) = front::<4>(content)?;
    Some(((u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])), rest))
}

fn read_state(content: &[u8]) -> Option<(String, String)> {
    let (state, why) = std::str::from_utf8(content).ok()?.split_once('\n')?;
    Some((state.to_owned(), why.to_owned()))
}

fn read_colours(content: &[u8]) -> Option<(Rgb, Rgb)> {
    let (ink, rest) = front::<3>(content)?;
    let (paper, _) = front::<3>(rest)?;
    Some((ink, paper))
}

/// The number came later: who does not say it is older.
fn read_composer(content: &[u8]) -> Option<(Composer, Option<u64>)> {
    let ([mark], rest) = front::<1>(content)?;
    Some((Composer::of(mark)?, front::<8>(rest).map(|(typed, _)| u64::from_le_bytes(typed))))
}

fn composer_frame(out: &mut Vec<u8>, kind: u8, composer: Composer, typed: Option<u64>) {
    let typed = typed.map(u64::to_le_bytes);
    frame(out, kind, &[&[composer.mark()], typed.as_ref().map_or(&[][..], |typed| typed)]);
}

impl Ask {
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { role, columns, rows, level } => {
                frame(out, b'h', &[&[role.mark()], &size(*columns, *rows), &[*level]])
            }
            Self::Input(bytes) => frame(out, b'i', &[bytes]),
            Self::Press { upto, keys } => frame(out, b'e', &[&upto.to_le_bytes(), keys]),
            Self::Resize { columns, rows } => frame(out, b'r', &[&size(*columns, *rows)]),
            Self::Answer { upto, bytes } => frame(out, b'a', &[&upto.to_le_bytes(), bytes]),
            Self::Picture { upto, columns, rows, drawn } => {
                frame(out, b'p', &[&upto.to_le_bytes(), &size(*columns, *rows), drawn]);
            }
            Self::Keyboard { ms } => frame(out, b'k', &[&ms.to_le_bytes()]),
            Self::Continue => frame(out, b'c', &[]),
            Self::Repaint => frame(out, b'd', &[]),
            Self::Again => frame(out, b'g', &[]),
            Self::Take => frame(out, b't', &[]),
            Self::State { state, why } => frame(out, b's', &[state.as_bytes(), b"\n", why.as_bytes()]),
            Self::Colours { ink, paper } => frame(out, b'o', &[ink, paper]),
            Self::Composer { composer, typed } => composer_frame(out, b'm', *composer, *typed),
            Self::Notice(words) => frame(out, b'n', &[words.as_bytes()]),
            Self::Yield => frame(out, b'y', &[]),
            Self::Admit { viewer, refused } => {
                let why = refused.as_deref().unwrap_or_default();
                frame(out, b'w', &[&viewer.to_le_bytes(), why.as_bytes()]);
            }
        }
    }

    fn read(kind: u8, content: Vec<u8>) -> Result<Self, BadFrame> {
        let bytes = content.len();
        let read = match kind {
            b'h' => front::<1>(&content).and_then(|([mark], rest)| {
                let ((columns, rows), rest) = read_size(rest)?;
                let level = rest.first().copied().unwrap_or(0);
                Some(Self::Hello { role: Role::of(mark)?, columns, rows, level })
            }),
            b'i' => Some(Self::Input(content)),
            b'e' => front::<8>(&content)
                .map(|(upto, keys)| Self::Press { upto: u64::from_le_bytes(upto), keys: keys.to_vec() }),
            b'r' => read_size(&content).map(|((columns, rows), _)| Self::Resize { columns, rows }),
            b'a' => front::<8>(&content)
                .map(|(upto, bytes)| Self::Answer { upto: u64::from_le_bytes(upto), bytes: bytes.to_vec() }),
            b'p' => front::<8>(&content).and_then(|(upto, rest)| {
                let ((columns, rows), drawn) = read_size(rest)?;
                let upto = u64::from_le_bytes(upto);
                Some(Self::Picture { upto, columns, rows, drawn: drawn.to_vec() })
            }),
            b'k' => front::<4>(&content).map(|(ms, _)| Self::Keyboard { ms: u32::from_le_bytes(ms) }),
            b'c' => Some(Self::Continue),
            b'd' => Some(Self::Repaint),
            b'g' => Some(Self::Again),
            b't' => Some(Self::Take),
            b's' => read_state(&content).map(|(state, why)| Self::State { state, why }),
            b'o' => read_colours(&content).map(|(ink, paper)| Self::Colours { ink, paper }),
            b'm' => read_composer(&content).map(|(composer, typed)| Self::Composer { composer, typed }),
            b'n' => String::from_utf8(content).ok().map(Self::Notice),
            b'y' => Some(Self::Yield),
            b'w' => front::<8>(&content).and_then(|(viewer, why)| {
                let why = std::str::from_utf8(why).ok()?;
                let refused = (!why.is_empty()).then(|| why.to_owned());
                Some(Self::Admit { viewer: u64::from_le_bytes(viewer), refused })
            }),
            _ => None,
        };
        read.ok_or(BadFrame::Unknown { kind, bytes })
    }
}

impl Tell {
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Welcome { columns, rows, upto, answered, lost, guards, typed } => {
                let (upto, answered) = (upto.to_le_bytes(), answered.to_le_bytes());
                let marks = [u8::from(*lost), u8::from(*guards), u8::from(*typed)];
                frame(out, b'W', &[&size(*columns, *rows), &upto, &answered, &marks]);
            }
            Self::Picture(drawn) => frame(out, b'P', &[drawn]),
            Self::Output(bytes) => output(out, &[bytes]),
            Self::Typed(bytes) => frame(out, b'T', &[bytes]),
            Self::Resized { columns, rows } => frame(out, b'R', &[&size(*columns, *rows)]),
            Self::Leads(leads) => frame(out, b'L', &[&[u8::from(*leads)]]),
            Self::Keyboard(yours) => frame(out, b'K', &[&[u8::from(*yours)]]),
            Self::Pressed(pressed) => frame(out, b'D', &[&[u8::from(*pressed)]]),
            Self::Closed(closed) => frame(out, b'X', &[&[u8::from(*closed)]]),
            Self::Suspended => frame(out, b'S', &[]),
            Self::Colours { ink, paper } => frame(out, b'C', &[ink, paper]),
            Self::State { state, why } => frame(out, b'Z', &[state.as_bytes(), b"\n", why.as_bytes()]),
            Self::Composer { composer, typed } => composer_frame(out, b'M', *composer, *typed),
            Self::Notice(words) => frame(out, b'N', &[words.as_bytes()]),
            Self::Yield => frame(out, b'Y', &[]),
            Self::Refused(why) => frame(out, b'F', &[why.as_bytes()]),
            Self::Stopped(why) => frame(out, b'Q', &[why.as_bytes()]),
            Self::Viewer(event) => frame(out, b'V', &[&serde_json::to_vec(event).unwrap_or_default()]),
            Self::Ended { code, signaled } => {
                frame(out, b'E', &[&code.to_le_bytes(), &[u8::from(*signaled)]])
            }
        }
    }

    fn read(kind: u8, content: Vec<u8>) -> Result<Self, BadFrame> {
        let bytes = content.len();
        let read = match kind {
            b'W' => read_size(&content).and_then(|((columns, rows), rest)| {
                let (upto, rest) = front::<8>(rest)?;
                let (answered, rest) = front::<8>(rest)?;
                let ([lost], rest) = front::<1>(rest)?;
                // These were added later, one after the other; an older holder leaves them out.
                let later = |n: usize| rest.get(n).is_some_and(|mark| *mark != 0);
                let (guards, typed) = (later(0), later(1));
                let (upto, answered) = (u64::from_le_bytes(upto), u64::from_le_bytes(answered));
                Some(Self::Welcome { columns, rows, upto, answered, lost: lost != 0, guards, typed })
            }),
            b'P' => Some(Self::Picture(content)),
            OUTPUT => Some(Self::Output(content)),
            b'T' => Some(Self::Typed(content)),
            b'R' => read_size(&content).map(|((columns, rows), _)| Self::Resized { columns, rows }),
            b'L' => front::<1>(&content).map(|([leads], _)| Self::Leads(leads != 0)),
            b'K' => front::<1>(&content).map(|([yours], _)| Self::Keyboard(yours != 0)),
            b'D' => front::<1>(&content).map(|([pressed], _)| Self::Pressed(pressed != 0)),
            b'X' => front::<1>(&content).map(|([closed], _)| Self::Closed(closed != 0)),
            b'S' => Some(Self::Suspended),
            b'C' => read_colours(&content).map(|(ink, paper)| Self::Colours { ink, paper }),
            b'Z' => read_state(&content).map(|(state, why)| Self::State { state, why }),
            b'M' => read_composer(&content).map(|(composer, typed)| Self::Composer { composer, typed }),
            b'N' => String::from_utf8(content).ok().map(Self::Notice),
            b'Y' => Some(Self::Yield),
            b'F' => String::from_utf8(content).ok().map(Self::Refused),
            b'Q' => String::from_utf8(content).ok().map(Self::Stopped),
            b'V' => serde_json::from_slice(&content).ok().map(Self::Viewer),
            b'E' => front::<4>(&content).and_then(|(code, rest)| {
                let ([signaled], _) = front::<1>(rest)?;
                Some(Self::Ended { code: i32::from_le_bytes(code), signaled: signaled != 0 })
            }),
            _ => None,
        };
        read.ok_or(BadFrame::Unknown { kind, bytes })
    }
}

impl Role {
    /// For people to read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Viewer => "viewer",
            Self::Leader => "leader",
            Self::Reader => "reader",
            Self::Recorder => "recorder",
        }
    }

    fn mark(self) -> u8 {
        match self {
            Self::Node => b'n',
            Self::Viewer => b'v',
            Self::Leader => b'l',
            Self::Reader => b'r',
            Self::Recorder => b'c',
        }
    }

    fn of(mark: u8) -> Option<Self> {
        let all = [Self::Node, Self::Viewer, Self::Leader, Self::Reader, Self::Recorder];
        all.into_iter().find(|role| role.mark() == mark)
    }
}

impl Composer {
    fn mark(self) -> u8 {
        match self {
            Self::Other => b'o',
            Self::Empty => b'e',
            Self::Prompt => b'p',
        }
    }

    fn of(mark: u8) -> Option<Self> {
        [Self::Other, Self::Empty, Self::Prompt].into_iter().find(|composer| composer.mark() == mark)
    }
}

/// Sends one frame and waits until it is written.
pub fn send(to: &mut impl Write, ask: &Ask) -> io::Result<()> {
    let mut out = Vec::new();
    ask.write(&mut out);
    to.write_all(&out)
}

/// Waits for the next frame; none when the other end has closed.
pub fn receive(from: &mut impl Read, frames: &mut Frames) -> io::Result<Option<Tell>> {
    loop {
        if let Some(tell) = frames.next_tell().map_err(io::Error::other)? {
            return Ok(Some(tell));
        }
        match frames.fill(from) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::visitors::{ViewerAct, Visitor};
    use super::*;

    // tidy: table
    #[test]
    // tidy: table
    fn every_frame_comes_back_whatever_the_pieces() {
        let asks = [
            Ask::Hello { role: Role::Viewer, columns: 120, rows: 40, level: LEVEL },
            Ask::Input(b"\x1b[A".to_vec()),
            Ask::Press { upto: 7, keys: b"\r".to_vec() },
            Ask::Resize { columns: 1, rows: u16::MAX },
            Ask::Answer { upto: 12, bytes: b"\x1b[?6c".to_vec() },
            Ask::Picture { upto: u64::MAX, columns: 80, rows: 24, drawn: vec![0; 1000] },
            Ask::Keyboard { ms: 1500 },
            Ask::Continue,
            Ask::Repaint,
            Ask::Again,
            Ask::Take,
            Ask::State { state: "idle".into(), why: "it\nreports".into() },
            Ask::Colours { ink: [1, 2, 3], paper: [0, 255, 0] },
            Ask::Composer { composer: Composer::Prompt, typed: None },
            Ask::Composer { composer: Composer::Empty, typed: Some(u64::MAX) },
            Ask::Notice("1 waiting".into()),
            Ask::Yield,
            Ask::Admit { viewer: 7, refused: None },
            Ask::Admit { viewer: u64::MAX, refused: Some("no".into()) },
        ];
        let (columns, rows) = (80, 24);
        let tells = [
            Tell::Welcome { columns, rows, upto: 7, answered: 9, lost: true, guards: false, typed: true },
            Tell::Pressed(true),
            Tell::Picture(vec![1]),
            Tell::Output(vec![]),
            Tell::Typed(b"y".to_vec()),
            Tell::Resized { columns: 2, rows: 3 },
            Tell::Leads(false),
            Tell::Keyboard(true),
            Tell::Closed(true),
            Tell::Suspended,
            Tell::State { state: "busy".into(), why: String::new() },
            Tell::Colours { ink: [9, 9, 9], paper: [1, 0, 1] },
            Tell::Composer { composer: Composer::Empty, typed: None },
            Tell::Composer { composer: Composer::Other, typed: Some(7) },
            Tell::Notice("1 waiting".into()),
            Tell::Yield,
            Tell::Refused("only look".into()),
            Tell::Viewer(Box::new(ViewerEvent {
                viewer: 1,
                act: ViewerAct::AskToLook,
                who: Visitor::Agents(vec!["a".into(), "b".into()]),
                pid: 12,
                program: "sh".into(),
                role: "reader".into(),
                at_ms: 9,
                dropped: 2,
            })),
            Tell::Stopped(String::new()),
            Tell::Stopped("the node cannot run".into()),
            Tell::Ended { code: -1, signaled: true },
        ];
        let (mut said, mut told) = (Vec::new(), Vec::new());
        asks.iter().for_each(|ask| ask.write(&mut said));
        tells.iter().for_each(|tell| tell.write(&mut told));
        for piece in [1, 3, 1000] {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for part in said.chunks(piece) {
                frames.feed(part);
                found.extend(std::iter::from_fn(|| frames.next_ask().unwrap()));
            }
            assert_eq!(found, asks);
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for part in told.chunks(piece) {
                frames.feed(part);
                found.extend(std::iter::from_fn(|| frames.next_tell().unwrap()));
            }
            assert_eq!(found, tells);
        }
    }

    /// A client that is older than this holder.
    #[test]
    fn hello_without_a_level_is_read() {
        let mut frames = Frames::default();
        frames.feed(b"h\x05\x00\x00\x00v\x50\x00\x18\x00");
        let hello = Ask::Hello { role: Role::Viewer, columns: 80, rows: 24, level: 0 };
        assert_eq!(frames.next_ask().unwrap(), Some(hello));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bytes in [
            &b"i\xff\xff\xff\xff"[..],
            b"?\x00\x00\x00\x00",
            b"r\x01\x00\x00\x00x",
            b"h\x05\x00\x00\x00x1234",
            b"m\x01\x00\x00\x00x",
        ] {
            let mut frames = Frames::default();
            frames.feed(bytes);
            assert!(frames.next_ask().is_err(), "{bytes:?}");
        }
    }
}
