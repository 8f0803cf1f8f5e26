//! `synapse __hook DIR`: what a CLI runs for each of its events; tells the agent's node, and is gone.
//!
//! The CLI waits for it, and what it prints could become part of a conversation. So: it prints nothing, it always
//! ends well, it ends soon, and it keeps no more of its input than the few fields that are told.
//! Not here: what an event means (`synapse-terminal`), how hooks are set up (`tells`).

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use synapse_dialects::terminal::{SignalRequest, SignalText};
use synapse_store::files::{self, Access};
use synapse_store::home::socket_address;
use synapse_terminal::hooks::TEXT_BYTES_MAX;

/// All of it takes no longer.
const LIMIT: Duration = Duration::from_secs(2);
/// What is looked at of an event; the files that a tool writes can be part of one.
const EVENT_BYTES_MAX: u64 = 32 << 20;
const KEY_BYTES_MAX: usize = 256;

/// Tells the node of the agent in `dir` of the event on standard input.
pub fn tell(dir: &Path) -> ExitCode {
    // Whatever hangs, the CLI does not.
    let guard = std::thread::Builder::new().stack_size(64 << 10).spawn(|| {
        std::thread::sleep(LIMIT);
        std::process::exit(0);
    });
    if guard.is_ok() {
        // Nobody could be told of a failure; the node goes by its other sources.
        let _ = report(dir);
    }
    ExitCode::SUCCESS
}

fn report(dir: &Path) -> io::Result<()> {
    let (mut input, mut bytes) = (io::stdin().lock(), Vec::new());
    input.by_ref().take(EVENT_BYTES_MAX).read_to_end(&mut bytes)?;
    // To the end: a CLI that cannot write all of it may take that for an error.
    io::copy(&mut input, &mut io::sink())?;
    let event: Event = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
    let key = files::read_private(&dir.join("hooks").join("key"), KEY_BYTES_MAX, Access::Secret);
    let request = event.request(String::from_utf8(key.map_err(io::Error::other)?).map_err(io::Error::other)?);
    let body = serde_json::to_vec(&request).map_err(io::Error::other)?;
    let (address, _guard) = socket_address(&dir.join("node.sock")).map_err(io::Error::other)?;
    let mut node = UnixStream::connect(address)?;
    write!(
        node,
        "POST /api/v1/signal HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    node.write_all(&body)?;
    // The node looks at who we are; we must still be there when it does.
    let mut answer = [0; 512];
    node.read(&mut answer).map(drop)
}

/// What is taken out of an event. Everything else is passed over without being kept.
#[derive(Deserialize)]
struct Event {
    hook_event_name: Cut<128>,
    #[serde(default)]
    session_id: Option<Cut<128>>,
    /// Of an agent below the main one, whose session is not the one that its person sees.
    #[serde(default)]
    agent_id: Option<de::IgnoredAny>,
    #[serde(default)]
    tool_name: Option<Cut<128>>,
    #[serde(default)]
    notification_type: Option<Cut<128>>,
    /// Why a session began.
    #[serde(default)]
    source: Option<Cut<128>>,
    #[serde(default)]
    prompt: Option<Cut<TEXT_BYTES_MAX>>,
    #[serde(default)]
    last_assistant_message: Option<Cut<TEXT_BYTES_MAX>>,
    #[serde(default)]
    tool_input: ToolInput,
}

impl Event {
    fn request(self, key: String) -> SignalRequest {
        let text = |cut: Cut<TEXT_BYTES_MAX>| SignalText { text: cut.text, bytes: cut.bytes };
        let about = self.tool_name.or(self.notification_type).or(self.source);
        // Of other events it would only be traffic.
        let command = self.tool_input.command.filter(|_| self.hook_event_name.text == "PermissionRequest");
        // An id that was cut is the id of nothing.
        let session_id = self.session_id.filter(|cut| self.agent_id.is_none() && cut.is_whole());
        SignalRequest {
            key,
            event: self.hook_event_name.text,
            session_id: session_id.map(|cut| cut.text),
            about: about.map(|cut| cut.text),
            prompt: self.prompt.map(text),
            answer: self.last_assistant_message.map(text),
            command: command.map(text),
        }
    }
}

/// What a tool is given. Only a command is kept; whatever else it is, it is passed over.
#[derive(Default)]
struct ToolInput {
    command: Option<Cut<TEXT_BYTES_MAX>>,
}

impl<'de> Deserialize<'de> for ToolInput {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> de::Visitor<'de> for Reader {
            type Value = ToolInput;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("what a tool is given")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut fields: A) -> Result<ToolInput, A::Error> {
                let mut input = ToolInput::default();
                while let Some(name) = fields.next_key::<Cut<16>>()? {
                    match (name.text.as_str(), name.bytes) {
                        ("command", 7) => input.command = fields.next_value::<AnyText>()?.0,
                        _ => drop(fields.next_value::<de::IgnoredAny>()?),
                    }
                }
                Ok(input)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<ToolInput, A::Error> {
                while items.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(ToolInput::default())
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<ToolInput, E> {
                Ok(ToolInput::default())
            }

            fn visit_unit<E: de::Error>(self) -> Result<ToolInput, E> {
                Ok(ToolInput::default())
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<ToolInput, E> {
                Ok(ToolInput::default())
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<ToolInput, E> {
                Ok(ToolInput::default())
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<ToolInput, E> {
                Ok(ToolInput::default())
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<ToolInput, E> {
                Ok(ToolInput::default())
            }
        }
        from.deserialize_any(Reader)
    }
}

/// A text, or several with a blank between them.
struct AnyText(Option<Cut<TEXT_BYTES_MAX>>);

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Shape {
            One(Cut<TEXT_BYTES_MAX>),
            Many(Vec<String>),
            #[allow(dead_code, reason = "read so that the event is not lost")]
            Other(de::IgnoredAny),
        }
        Ok(Self(match Shape::deserialize(from)? {
            Shape::One(text) => Some(text),
            Shape::Many(words) => serde_json::from_value(words.join(" ").into()).ok(),
            Shape::Other(_) => None,
        }))
    }
}

/// A text of which at most `MAX` bytes are kept.
struct Cut<const MAX: usize> {
    text: String,
    bytes: u64,
}

impl<const MAX: usize> Cut<MAX> {
    fn is_whole(&self) -> bool {
        self.bytes == self.text.len() as u64
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Cut<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader<const MAX: usize>;
        impl<const MAX: usize> de::Visitor<'_> for Reader<MAX> {
            type Value = Cut<MAX>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let kept = &text[..text.floor_char_boundary(MAX)];
                Ok(Cut { text: kept.to_owned(), bytes: text.len() as u64 })
            }
        }
        from.deserialize_str(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SignalRequest, serde_json::Error> {
        serde_json::from_slice(text.as_bytes()).map(|event: Event| event.request("key".into()))
    }

    #[test]
    fn the_fields_that_are_told_are_taken_and_cut() {
        let told = read(
            r#"{"session_id":"s","transcript_path":"/x","hook_event_name":"PreToolUse","tool_name":"Bash",
                "tool_input":{"command":"ls","deep":[[{}]]}}"#,
        );
        let told = told.unwrap();
        assert_eq!((told.event.as_str(), told.about.as_deref()), ("PreToolUse", Some("Bash")));
        assert_eq!(told.command, None, "only of a permission");
        for (input, command) in [
            (r#"{"description":"x","command":"rm -rf /\nls"}"#, Some("rm -rf /\nls")),
            (r#"{"command":["bash","-c","ls"]}"#, Some("bash -c ls")),
            (r#"{"command":{"a":[1]}}"#, None),
            (r#"{"command":7}"#, None),
            (r#"{"file_path":"x"}"#, None),
            (r#"["command"]"#, None),
            ("null", None),
            ("7", None),
        ] {
            let event = format!(r#"{{"hook_event_name":"PermissionRequest","tool_input":{input}}}"#);
            let told = read(&event).unwrap();
            assert_eq!(told.command.as_ref().map(|text| text.text.as_str()), command, "{input}");
        }
        let long = "€".repeat(TEXT_BYTES_MAX);
        let told = read(&format!(r#"{{"hook_event_name":"UserPromptSubmit","prompt":"{long}"}}"#)).unwrap();
        let prompt = told.prompt.unwrap();
        assert!(prompt.text.len() <= TEXT_BYTES_MAX && long.starts_with(&prompt.text));
        assert_eq!(prompt.bytes, long.len() as u64);
    }

    #[test]
    fn only_the_session_that_a_person_sees_is_told() {
        let told = |more: &str| {
            let event = format!(r#"{{"hook_event_name":"UserPromptSubmit"{more}}}"#);
            read(&event).unwrap().session_id
        };
        let long = "s".repeat(200);
        for (more, session) in [
            (r#","session_id":"s-1""#, Some("s-1")),
            (r#","session_id":"s-1","agent_id":null"#, Some("s-1")),
            (r#","session_id":"s-2","agent_id":"a-1","agent_type":"explorer""#, None),
            (&format!(r#","session_id":"{long}""#), None),
            (r#","session_id":null"#, None),
            ("", None),
        ] {
            assert_eq!(told(more).as_deref(), session, "{more}");
        }
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in ["", "{}", "[]", "{\"hook_event_name\":7}", "{\"hook_event_name\":\"Stop\"", "\u{0}"] {
            assert!(read(text).is_err(), "{text:?}");
        }
        let deep = format!("{{\"hook_event_name\":\"Stop\",\"x\":{}", "[".repeat(100_000));
        assert!(read(&deep).is_err());
    }
}
