//! The entry that makes a program start `synapse mcp serve`, in settings that are somebody else's (PTY-13).
//!
//! Each program has a form of its own. Only our entry is put in, brought up to date and taken out; comments, order and
//! whatever else is in the file stay as they are. An entry is ours if it is called `synapse` and runs `mcp serve`.
//!
//! Not here: which files, reading and writing them, asking (`cli/init`).

use crate::teach::Left;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;
use std::fmt;
use synapse_settings::document::{form as jsonc_form, too_deep, without_mark};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

const NAME: &str = "synapse";
const ARGS: [&str; 2] = ["mcp", "serve"];
/// Codex gives up on a call after a minute; waiting for another agent takes longer.
const CODEX_SECONDS: i64 = 660;

/// Whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `.mcp.json`, `~/.claude.json`.
    Claude,
    /// `.codex/config.toml`.
    Codex,
    /// `.gemini/settings.json`.
    Gemini,
    /// `opencode.json`.
    Opencode,
}

/// Why settings are left alone. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// From 1, where one can be told.
    pub line: Option<usize>,
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// What settings look like with the entry in them. `None` is a file that is not there.
pub fn put_in(form: Form, file: Option<&[u8]>, command: &str) -> Result<Vec<u8>, Broken> {
    let text = text_of(file.unwrap_or_default())?;
    match form {
        Form::Codex => put_into_toml(text, command),
        _ => put_into_json(form, text, command),
    }
    .map(String::into_bytes)
}

/// What is left of settings without the entry.
pub fn take_out(form: Form, file: &[u8]) -> Result<Left, Broken> {
    let text = text_of(file)?;
    let left = match form {
        Form::Codex => take_out_of_toml(text)?,
        _ => take_out_of_json(form, text)?,
    };
    Ok(match left {
        None => Left::AsItIs,
        Some(rest) if is_nothing(&rest) => Left::Nothing,
        Some(rest) => Left::Rest(rest.into_bytes()),
    })
}

pub fn is_in(form: Form, file: &[u8]) -> bool {
    !matches!(take_out(form, file), Ok(Left::AsItIs) | Err(_))
}

fn is_nothing(rest: &str) -> bool {
    matches!(rest.split_whitespace().collect::<String>().as_str(), "" | "{}")
}

fn text_of(file: &[u8]) -> Result<&str, Broken> {
    std::str::from_utf8(file).map_err(|e| broken(file, e.valid_up_to(), "it is not UTF-8 text"))
}

fn broken(file: &[u8], at: usize, why: impl Into<String>) -> Broken {
    let line = 1 + file[..at.min(file.len())].iter().filter(|byte| **byte == b'\n').count();
    Broken { line: Some(line), why: why.into() }
}

fn in_the_way(path: &str) -> Broken {
    let why =
        format!("`{path}` is there already and does not start `synapse mcp serve`; rename it, or remove it");
    Broken { line: None, why }
}

/// The object that has the servers.
fn section(form: Form) -> &'static str {
    match form {
        Form::Claude | Form::Gemini => "mcpServers",
        Form::Codex => "mcp_servers",
        Form::Opencode => "mcp",
    }
}

fn parse_json(text: &str) -> Result<CstRootNode, Broken> {
    if let Some(at) = too_deep(text) {
        return Err(broken(text.as_bytes(), at, "too many brackets are open"));
    }
    CstRootNode::parse(text, &jsonc_form())
        .map_err(|e| broken(text.as_bytes(), e.range().start, e.kind().to_string().to_lowercase()))
}

fn put_into_json(form: Form, text: &str, command: &str) -> Result<String, Broken> {
    let bare = without_mark(text);
    let root = parse_json(bare)?;
    let no_object = |what: &str| Broken { line: None, why: format!("{what} is no object; mend it first") };
    let object = root.object_value_or_create().ok_or_else(|| no_object("what stands in it"))?;
    let path = section(form);
    let servers = object.object_value_or_create(path).ok_or_else(|| no_object(&format!("`{path}`")))?;
    match servers.get(NAME) {
        None => drop(servers.append(NAME, json_entry(form, command))),
        Some(entry) => {
            let found = entry.object_value().filter(|found| is_ours(form, found));
            let found = found.ok_or_else(|| in_the_way(&format!("{path}.{NAME}")))?;
            // What somebody added to it, such as `env`, stays.
            if let (Some(property), false) = (found.get("command"), runs(form, &found, command)) {
                property.set_value(json_command(form, command));
            }
        }
    }
    let mut changed = root.to_string();
    if !changed.ends_with('\n') && (bare.is_empty() || bare.ends_with('\n')) {
        changed.push('\n');
    }
    // The mark at the beginning of some files.
    Ok(format!("{}{changed}", &text[..text.len() - bare.len()]))
}

fn take_out_of_json(form: Form, text: &str) -> Result<Option<String>, Broken> {
    let bare = without_mark(text);
    let root = parse_json(bare)?;
    let Some(object) = root.object_value() else { return Ok(None) };
    let Some(section) = object.get(section(form)) else { return Ok(None) };
    let Some(servers) = section.object_value() else { return Ok(None) };
    let Some(entry) = servers.get(NAME) else { return Ok(None) };
    if !entry.object_value().is_some_and(|found| is_ours(form, &found)) {
        return Ok(None);
    }
    entry.remove();
    // A comment in it may be why somebody left it there.
    if servers.properties().is_empty() && !servers.children().iter().any(CstNode::is_comment) {
        section.remove();
    }
    Ok(Some(format!("{}{root}", &text[..text.len() - bare.len()])))
}

fn json_entry(form: Form, command: &str) -> CstInputValue {
    let text = |text: &str| CstInputValue::String(text.to_owned());
    let args = || CstInputValue::Array(ARGS.map(text).to_vec());
    let fields = match form {
        Form::Claude => vec![("type", text("stdio")), ("command", text(command)), ("args", args())],
        Form::Opencode => vec![
            ("type", text("local")),
            ("command", json_command(form, command)),
            ("enabled", CstInputValue::Bool(true)),
        ],
        Form::Gemini | Form::Codex => vec![("command", text(command)), ("args", args())],
    };
    CstInputValue::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn json_command(form: Form, command: &str) -> CstInputValue {
    match form {
        Form::Opencode => {
            let words = [command].into_iter().chain(ARGS);
            CstInputValue::Array(words.map(|word| CstInputValue::String(word.to_owned())).collect())
        }
        _ => CstInputValue::String(command.to_owned()),
    }
}

/// The words of the command line that an entry has.
fn words_of(form: Form, entry: &CstObject) -> Option<Vec<String>> {
    let entry: Value = jsonc_parser::parse_to_serde_value(&entry.to_string(), &jsonc_form()).ok()?;
    let list = |name: &str| serde_json::from_value::<Vec<String>>(entry.get(name)?.clone()).ok();
    match form {
        Form::Opencode => list("command"),
        _ => {
            let command = entry.get("command")?.as_str()?.to_owned();
            Some([command].into_iter().chain(list("args")?).collect())
        }
    }
}

fn is_ours(form: Form, entry: &CstObject) -> bool {
    words_of(form, entry).is_some_and(|words| words.len() == 3 && words[1..] == ARGS)
}

fn runs(form: Form, entry: &CstObject, command: &str) -> bool {
    words_of(form, entry).is_some_and(|words| words[0] == command)
}

fn parse_toml(text: &str) -> Result<DocumentMut, Broken> {
    text.parse::<DocumentMut>().map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        broken(text.as_bytes(), at, e.message().to_lowercase())
    })
}

fn put_into_toml(text: &str, command: &str) -> Result<String, Broken> {
    let mut document = parse_toml(text)?;
    let path = section(Form::Codex);
    let is_first = document.is_empty();
    let servers = document.entry(path).or_insert_with(|| {
        let mut servers = Table::new();
        // Its head is written only if something stands in it besides tables.
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| Broken { line: None, why: format!("`{path}` is no table; mend it first") })?;
    match servers.get_mut(NAME) {
        None => drop(servers.insert(NAME, toml_entry(command, is_first && text.trim().is_empty()))),
        Some(entry) => {
            let found = entry.as_table_like_mut().filter(|found| is_ours_in_toml(*found));
            let found = found.ok_or_else(|| in_the_way(&format!("{path}.{NAME}")))?;
            if found.get("command").and_then(Item::as_str) != Some(command) {
                found.insert("command", value(command));
            }
        }
    }
    Ok(document.to_string())
}

fn toml_entry(command: &str, is_alone: bool) -> Item {
    let mut entry = Table::new();
    entry.insert("command", value(command));
    entry.insert("args", value(ARGS.into_iter().collect::<Array>()));
    entry.insert("tool_timeout_sec", value(CODEX_SECONDS));
    entry.insert("env_vars", value(["SYNAPSE_HOME"].into_iter().collect::<Array>()));
    entry.decor_mut().set_prefix(if is_alone { "" } else { "\n" });
    Item::Table(entry)
}

fn take_out_of_toml(text: &str) -> Result<Option<String>, Broken> {
    let mut document = parse_toml(text)?;
    let path = section(Form::Codex);
    let Some(servers) = document.get_mut(path).and_then(Item::as_table_like_mut) else { return Ok(None) };
    let is_there = servers.get(NAME).and_then(Item::as_table_like).is_some_and(is_ours_in_toml);
    if !is_there {
        return Ok(None);
    }
    servers.remove(NAME);
    if servers.is_empty() {
        document.remove(path);
    }
    Ok(Some(document.to_string()))
}

fn is_ours_in_toml(entry: &(impl TableLike + ?Sized)) -> bool {
    let args = entry.get("args").and_then(Item::as_array);
    args.is_some_and(|args| args.iter().map(|arg| arg.as_str()).eq(ARGS.map(Some)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [Form; 4] = [Form::Claude, Form::Codex, Form::Gemini, Form::Opencode];

    fn put(form: Form, file: &str) -> String {
        let put = put_in(form, Some(file.as_bytes()), "synapse").unwrap_or_else(|e| panic!("{file}: {e}"));
        String::from_utf8(put).expect("text stays text")
    }

    /// In, in again, out: as it was.
    fn check(form: Form, file: &str) {
        let with = put(form, file);
        assert_ne!(with, file);
        assert_eq!(put(form, &with), with, "a second time changes nothing");
        assert!(is_in(form, with.as_bytes()) && !is_in(form, file.as_bytes()));
        match take_out(form, with.as_bytes()) {
            Ok(Left::Rest(rest)) => assert_eq!(String::from_utf8_lossy(&rest), file, "of\n{with}"),
            other => panic!("{other:?} of\n{with}"),
        }
    }

    #[test]
    fn what_else_is_in_settings_stays_to_the_byte() {
        for form in [Form::Claude, Form::Gemini, Form::Opencode] {
            let name = section(form);
            check(form, "{\n  \"theme\": \"dark\"\n}\n");
            check(form, "{\n    // why\n    \"theme\": \"dark\", // so\n    \"n\": 1.50\n}\n");
            check(form, &format!("{{\n\t\"{name}\": {{\n\t\t\"other\": {{ \"command\": \"x\" }}\n\t}}\n}}"));
            check(form, "\u{feff}{\n  \"theme\": \"dark\"\n}\n");
        }
        check(
            Form::Codex,
            "# mine\nmodel = \"x\" # this one\n\n[projects.\"/a\"]\ntrust_level = \"trusted\"\n",
        );
        check(
            Form::Codex,
            "model = 'x'\n\n[mcp_servers.other]\ncommand = \"y\"\nargs = [ \"z\" ]\n\n[tui]\na = 1\n",
        );
        check(Form::Codex, "mcp_servers = { other = { command = \"y\" } }\n");
    }

    /// Settings in one line get lines; what they say stays.
    #[test]
    fn what_else_is_in_settings_of_one_line_stays() {
        let file = "{\"a\":1,\"mcpServers\":{\"other\":{\"command\":\"x\"}},\"z\":[1,2]}\n";
        let Ok(Left::Rest(rest)) = take_out(Form::Gemini, put(Form::Gemini, file).as_bytes()) else {
            panic!("there is more in it");
        };
        let value = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("it is JSON");
        assert_eq!(value(&rest), value(file.as_bytes()));
    }

    #[test]
    fn a_file_of_ours_alone_comes_and_goes() {
        for form in FORMS {
            let made = put_in(form, None, "synapse").expect("nothing is in the way");
            assert_eq!(take_out(form, &made), Ok(Left::Nothing), "{}", String::from_utf8_lossy(&made));
            assert!(made.ends_with(b"\n"));
            assert_eq!(put_in(form, Some(b""), "synapse").as_ref(), Ok(&made));
        }
        let toml =
            String::from_utf8(put_in(Form::Codex, None, "synapse").unwrap_or_default()).unwrap_or_default();
        let expected = "[mcp_servers.synapse]\ncommand = \"synapse\"\nargs = [\"mcp\", \"serve\"]\ntool_timeout_sec = 660\n\
            env_vars = [\"SYNAPSE_HOME\"]\n";
        assert_eq!(toml, expected);
    }

    #[test]
    fn an_entry_of_ours_is_brought_up_to_date_and_keeps_what_was_added() {
        let old = "{\"mcpServers\":{\"synapse\":{\"command\":\"/old/synapse\",\"args\":[\"mcp\",\"serve\"],\"env\":{\"A\":\"b\"}}}}\n";
        assert_eq!(put(Form::Claude, old), old.replace("/old/synapse", "synapse"));
        let old = "[mcp_servers.synapse]\ncommand = \"/old/synapse\" # here\nargs = [\"mcp\", \"serve\"]\nenabled = false\n";
        assert!(
            put(Form::Codex, old).contains("command = \"synapse\"")
                && put(Form::Codex, old).contains("enabled = false")
        );
    }

    #[test]
    fn what_is_broken_or_not_ours_is_left_alone() {
        let table = [
            (Form::Claude, "{\n  \"a\": 1,\n  oops\n}\n", "line 3"),
            (Form::Claude, "[1]\n", "no object"),
            (Form::Gemini, "{\"mcpServers\": []}", "`mcpServers` is no object"),
            (
                Form::Gemini,
                "{\"mcpServers\":{\"synapse\":{\"command\":\"other\"}}}",
                "`mcpServers.synapse` is there",
            ),
            (
                Form::Opencode,
                "{\"mcp\":{\"synapse\":{\"type\":\"remote\",\"url\":\"x\"}}}",
                "`mcp.synapse` is there",
            ),
            (Form::Codex, "a = 1\nb = = 2\n", "line 2"),
            (Form::Codex, "mcp_servers = 1\n", "no table"),
            (Form::Codex, "[mcp_servers.synapse]\nurl = \"x\"\n", "`mcp_servers.synapse` is there"),
        ];
        for (form, file, why) in table {
            let told = put_in(form, Some(file.as_bytes()), "synapse").map_err(|e| e.to_string());
            assert!(told.as_ref().is_err_and(|e| e.contains(why)), "{file}: {told:?}");
            assert!(!is_in(form, file.as_bytes()), "{file}");
        }
        let deep = "[".repeat(100_000);
        assert!(put_in(Form::Claude, Some(deep.as_bytes()), "synapse").is_err());
        assert!(put_in(Form::Claude, Some(b"{\"a\": \"\xff\"}"), "synapse").is_err());
    }
}
