//! Messages and parts, from 0.3 to 1.0 and back; and what all rewriting needs.
//!
//! "New" is the JSON of 1.0, "old" one of the two of 0.3. A field that is `null` counts as one that is not there, and
//! what is not known is passed on: the types of 1.0 refuse what they must and ignore the rest.

use super::Form;
use crate::fault::Fault;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value, json};

pub(super) type Fields = Map<String, Value>;

/// In the metadata of a data part of 0.3, which is always an object: its `value` is meant. Other implementations do so too.
const WRAPPED: &str = "data_part_compat";

const ROLES: &[(&str, &str)] =
    &[("user", "ROLE_USER"), ("agent", "ROLE_AGENT"), ("unspecified", "ROLE_UNSPECIFIED")];

/// With or without padding, as protobuf reads it too.
const READS: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const READS_STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, READS);
const READS_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, READS);

/// An object, without what is `null`.
pub(super) fn fields(at: &str, value: Value) -> Result<Fields, Fault> {
    match value {
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Ok(fields)
        }
        _ => Err(Fault::params(at, "it must be an object")),
    }
}

/// The first of these that is there. ProtoJSON may also use the names of the proto.
pub(super) fn take(fields: &mut Fields, names: &[&str]) -> Option<Value> {
    names.iter().filter_map(|name| fields.remove(*name)).next()
}

pub(super) fn each(
    at: &str,
    list: Value,
    one: impl Fn(&str, Value) -> Result<Value, Fault>,
) -> Result<Value, Fault> {
    match list {
        Value::Array(list) => {
            let rewritten = list.into_iter().enumerate().map(|(n, value)| one(&format!("{at}[{n}]"), value));
            rewritten.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        _ => Err(Fault::params(at, "it must be a list")),
    }
}

/// Rewrites a field, if it is there.
pub(super) fn rewrite(
    fields: &mut Fields,
    name: &str,
    one: impl FnOnce(Value) -> Result<Value, Fault>,
) -> Result<(), Fault> {
    if let Some(value) = fields.remove(name) {
        fields.insert(name.to_owned(), one(value)?);
    }
    Ok(())
}

pub(super) fn insert(fields: &mut Fields, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value);
    }
}

pub(super) fn message_to_new(at: &str, old: Value, form: Form) -> Result<Value, Fault> {
    let mut message = fields(at, old)?;
    message.remove("kind");
    rewrite(&mut message, "role", |role| {
        word(ROLES, role).map_err(|_| Fault::params(format!("{at}.role"), "it must be user or agent"))
    })?;
    if let Some(parts) = take(&mut message, &["parts", "content"]) {
        let at = format!("{at}.parts");
        message.insert("parts".into(), each(&at, parts, |at, part| part_to_new(at, part, form))?);
    }
    Ok(Value::Object(message))
}

/// A small word, or the name that the proto has for it.
pub(super) fn word(words: &[(&str, &str)], value: Value) -> Result<Value, ()> {
    let Value::String(text) = &value else { return Ok(value) };
    let known = words.iter().find(|(old, new)| text == old || text == new);
    known.map(|(_, new)| Value::from(*new)).ok_or(())
}

pub(super) fn part_to_new(at: &str, old: Value, form: Form) -> Result<Value, Fault> {
    let mut part = fields(at, old)?;
    let kind = part.remove("kind");
    let is_proto = form == Form::Rest && kind.is_none();
    let which = match kind {
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(Fault::params(format!("{at}.kind"), "it must be text, file or data")),
        // Some leave it out; what is there tells.
        None => only_one(at, &part)?.to_owned(),
    };
    let inside = part.remove(&which);
    let mut metadata = part.remove("metadata");
    let missing = || Fault::params(format!("{at}.{which}"), "it is missing");
    let mut new = match which.as_str() {
        "text" => Map::from_iter([("text".to_owned(), inside.ok_or_else(missing)?)]),
        "data" => {
            let mut data = inside.ok_or_else(missing)?;
            if is_proto {
                data = inner_data(fields(&format!("{at}.data"), data)?);
            }
            Map::from_iter([("data".to_owned(), unwrapped(data, &mut metadata))])
        }
        "file" => {
            let at = format!("{at}.file");
            file_to_new(&at, fields(&at, inside.ok_or_else(missing)?)?, is_proto)?
        }
        _ => return Err(Fault::params(format!("{at}.kind"), "it must be text, file or data")),
    };
    insert(&mut new, "metadata", metadata);
    Ok(Value::Object(new))
}

/// In the proto data is wrapped once more. Some do not do so.
fn inner_data(mut data: Fields) -> Value {
    match data.get("data").is_some_and(Value::is_object) && data.len() == 1 {
        true => data.remove("data").unwrap_or_default(),
        false => Value::Object(data),
    }
}

fn only_one(at: &str, part: &Fields) -> Result<&'static str, Fault> {
    let mut there = ["text", "file", "data"].into_iter().filter(|name| part.contains_key(*name));
    match (there.next(), there.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(Fault::params(at, "exactly one of text, file, data is needed")),
    }
}

/// What was no object, and was made one on the way through 0.3.
fn unwrapped(mut data: Value, metadata: &mut Option<Value>) -> Value {
    let Some(Value::Object(about)) = metadata else { return data };
    if about.remove(WRAPPED) != Some(Value::Bool(true)) {
        return data;
    }
    if about.is_empty() {
        *metadata = None;
    }
    data.as_object_mut().and_then(|data| data.remove("value")).unwrap_or(data)
}

fn file_to_new(at: &str, mut file: Fields, is_proto: bool) -> Result<Fields, Fault> {
    let bytes = take(&mut file, &["bytes", "fileWithBytes", "file_with_bytes"]);
    let uri = take(&mut file, &["uri", "fileWithUri", "file_with_uri"]);
    let mut new = Map::new();
    match (bytes, uri) {
        (Some(Value::String(bytes)), None) => {
            let raw = base64_to_new(&bytes, is_proto)
                .ok_or_else(|| Fault::params(format!("{at}.bytes"), "it is no base64"))?;
            new.insert("raw".into(), raw.into());
        }
        (Some(_), None) => return Err(Fault::params(format!("{at}.bytes"), "it must be a text in base64")),
        (None, Some(uri)) => {
            new.insert("url".into(), uri);
        }
        _ => return Err(Fault::params(at, "exactly one of bytes, uri is needed")),
    }
    insert(&mut new, "mediaType", take(&mut file, &["mimeType", "mime_type", "mediaType"]));
    insert(&mut new, "filename", take(&mut file, &["name"]));
    Ok(new)
}

/// The Python and Java libraries of 0.3 encode the bytes of a file twice in HTTP+JSON; others do so once, as its proto
/// says. What comes out as base64 after it was decoded was encoded twice.
fn base64_to_new(text: &str, may_be_twice: bool) -> Option<String> {
    let decode = |text: &[u8]| READS_STANDARD.decode(text).or_else(|_| READS_URL_SAFE.decode(text)).ok();
    let once = decode(text.as_bytes())?;
    let is_twice = may_be_twice && !once.is_empty() && STANDARD.decode(&once).is_ok();
    match is_twice {
        true => String::from_utf8(once).ok(),
        false => Some(STANDARD.encode(once)),
    }
}

pub(super) fn message_to_old(mut message: Fields, form: Form) -> Result<Value, Fault> {
    let role = message.remove("role").unwrap_or_else(|| "ROLE_AGENT".into());
    message.insert("role".into(), word_to_old(ROLES, role, form));
    let parts = message.remove("parts").unwrap_or_else(|| json!([]));
    let parts = each("parts", parts, |_, part| Ok(part_to_old(part, form)))?;
    match form {
        Form::Rpc => {
            message.insert("kind".into(), "message".into());
            message.insert("parts".into(), parts);
        }
        Form::Rest => {
            // Readers of the proto refuse what it does not have.
            message.remove("referenceTaskIds");
            message.insert("content".into(), parts);
        }
    }
    Ok(Value::Object(message))
}

pub(super) fn word_to_old(words: &[(&str, &str)], value: Value, form: Form) -> Value {
    let known = words.iter().find(|(_, new)| value == *new);
    match (form, known) {
        (Form::Rpc, Some((old, _))) => (*old).into(),
        _ => value,
    }
}

pub(super) fn part_to_old(part: Value, form: Form) -> Value {
    let Value::Object(mut part) = part else { return part };
    let mut metadata = part.remove("metadata");
    let (kind, inside) = if let Some(text) = part.remove("text") {
        ("text", text)
    } else if let Some(data) = part.remove("data") {
        let data = wrapped(data, &mut metadata);
        ("data", if form == Form::Rest { json!({ "data": data }) } else { data })
    } else {
        ("file", file_to_old(part, form))
    };
    let mut old = Map::from_iter([(kind.to_owned(), inside)]);
    if form == Form::Rpc {
        old.insert("kind".into(), kind.into());
    }
    insert(&mut old, "metadata", metadata);
    Value::Object(old)
}

/// Data of 0.3 is an object.
fn wrapped(data: Value, metadata: &mut Option<Value>) -> Value {
    if data.is_object() {
        return data;
    }
    let about = metadata.get_or_insert_with(|| json!({}));
    if let Value::Object(about) = about {
        about.insert(WRAPPED.into(), true.into());
    }
    json!({ "value": data })
}

fn file_to_old(mut part: Fields, form: Form) -> Value {
    let mut file = Map::new();
    let (bytes, uri) = match form {
        Form::Rpc => ("bytes", "uri"),
        Form::Rest => ("fileWithBytes", "fileWithUri"),
    };
    // Twice, since one library of those that read this cannot read it otherwise, and breaks.
    let raw = part.remove("raw").map(|raw| match (form, raw) {
        (Form::Rest, Value::String(raw)) => STANDARD.encode(raw).into(),
        (_, raw) => raw,
    });
    insert(&mut file, bytes, raw);
    insert(&mut file, uri, part.remove("url"));
    insert(&mut file, "mimeType", part.remove("mediaType"));
    insert(&mut file, "name", part.remove("filename"));
    Value::Object(file)
}
