//! Settings for output: JSON for programs, a JSON Schema for editors, a table for people.
//!
//! Invariant: everything comes from `KEYS` and the loaded settings; no setting is named here.
//! Not here: printing.

use crate::keys::{self, KEYS, Key, ProjectMay};
use crate::kinds::Kind;
use crate::layers::{Loaded, Origin, Setting};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::path::Path;

/// All settings, as `synapse config show --json` prints them. Stable.
#[derive(Debug, Serialize)]
pub struct LoadedView {
    pub files: FilesView,
    pub settings: Vec<SettingView>,
    /// The faults; the faulty values are not in the settings above.
    pub faults: Vec<String>,
    /// What an untrusted project asks for and does not get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct FilesView {
    pub user: FileView,
    /// Null if there is none here or in a parent.
    pub project: Option<FileView>,
}

#[derive(Debug, Serialize)]
pub struct FileView {
    pub path: String,
    pub exists: bool,
}

#[derive(Debug, Serialize)]
pub struct SettingView {
    pub key: String,
    /// Null if it is not set and has no default.
    pub value: Json,
    pub origin: OriginView,
    pub default: Json,
    pub project_may_set: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OriginView {
    Default,
    User {
        file: String,
        line: usize,
    },
    Project {
        file: String,
        line: usize,
    },
    Environment {
        variable: String,
    },
    /// The restrictive value, because something is wrong.
    Careful,
}

impl LoadedView {
    /// Contains the settings that `wanted` selects.
    pub fn new(loaded: &Loaded, wanted: impl Fn(&Setting) -> bool) -> Self {
        let file = |path: &Path, exists| FileView { path: path.display().to_string(), exists };
        let files = FilesView {
            user: file(&loaded.files.user, loaded.files.user_found),
            project: loaded.files.project.as_deref().map(|path| file(path, true)),
        };
        let settings = loaded.origins.iter().filter(|one| wanted(one)).map(SettingView::new).collect();
        let faults = loaded.faults.iter().map(ToString::to_string).collect();
        let ignored = loaded.ignored.iter().map(ToString::to_string).collect();
        Self { files, settings, faults, ignored }
    }
}

impl SettingView {
    pub fn new(setting: &Setting) -> Self {
        let json =
            |value: Option<&crate::kinds::Value>| value.map_or(Json::Null, crate::kinds::Value::to_json);
        Self {
            key: setting.path.clone(),
            value: json(setting.value.as_ref()),
            origin: match &setting.origin {
                Origin::Default => OriginView::Default,
                Origin::User { file, line } => {
                    OriginView::User { file: file.display().to_string(), line: *line }
                }
                Origin::Project { file, line } => {
                    OriginView::Project { file: file.display().to_string(), line: *line }
                }
                Origin::Careful => OriginView::Careful,
                Origin::Variable { name } => OriginView::Environment { variable: name.clone() },
            },
            default: json(setting.key.default().as_ref()),
            project_may_set: setting.key.project != ProjectMay::Never,
        }
    }
}

/// Returns the JSON Schema of a settings file, draft 2020-12.
pub fn schema() -> Json {
    let mut root = section("");
    let properties = root["properties"].as_object_mut();
    if let Some(properties) = properties {
        properties.insert("$schema".into(), json!({ "type": "string" }));
    }
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Synapse settings".into();
    root["description"] =
        "`.synapse/settings.json` of a project or of the user. Comments and trailing commas are allowed."
            .into();
    root
}

fn section(pattern: &str) -> Json {
    let mut properties = Map::new();
    let mut named = None;
    for child in keys::children(pattern) {
        let path = if pattern.is_empty() { child.to_owned() } else { format!("{pattern}.{child}") };
        let schema = match keys::at(&path) {
            keys::Step::Key(key) => of_key(key),
            _ => section(&path),
        };
        if child == "*" { named = Some(schema) } else { drop(properties.insert(child.to_owned(), schema)) }
    }
    let mut own = json!({ "type": "object" });
    if !properties.is_empty() {
        own["properties"] = properties.into();
    }
    own["additionalProperties"] = named.unwrap_or(Json::Bool(false));
    own
}

fn of_key(key: &Key) -> Json {
    let mut schema = of_kind(key.kind);
    let only = if key.guarded { ". Only in the user's file" } else { "" };
    schema["description"] = format!("{}{only}.", key.help).into();
    if let Some(default) = key.default() {
        schema["default"] = default.to_json();
    }
    schema
}

fn of_kind(kind: Kind) -> Json {
    const LABEL: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
    match kind {
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Words(words) => {
            json!({ "type": "array", "items": { "enum": words }, "minItems": 1, "uniqueItems": true })
        }
        Kind::Verbs => json!({ "type": "array", "items": { "enum": keys::VERBS }, "uniqueItems": true }),
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Variable => json!({ "type": "string", "pattern": "^[A-Z_][A-Z0-9_]{0,127}$" }),
        Kind::Label => json!({ "type": "string", "pattern": LABEL }),
        Kind::Address => json!({ "type": "string", "anyOf": [{ "format": "ipv4" }, { "format": "ipv6" }] }),
        Kind::Url => json!({ "type": "string", "pattern": "^https?://[^/?#@]+(/[^?#]*)?$" }),
        Kind::Line => json!({ "type": "string", "minLength": 1, "maxLength": 100 }),
        Kind::PrefixKey => json!({
            "type": "string",
            "anyOf": [{ "const": "none" }, { "pattern": "^(\\^|[Cc](trl)?-|[Cc]trl\\+)[A-GK-LN-Za-gk-ln-z@\\\\\\]^_]$" }]
        }),
        Kind::Command => json!({ "type": "array", "items": { "type": "string" }, "maxItems": 64 }),
        Kind::MediaTypes => {
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true })
        }
        Kind::Ranges | Kind::Hosts | Kind::Origins => {
            json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })
        }
    }
}

/// Returns all settings as a Markdown table, for the settings page.
pub fn page_table() -> String {
    let mut table = String::from(
        "| setting | what it is for | it must be | default | a project may set it | variable |\n|---|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let default =
            key.default().map_or_else(|| "not set".to_owned(), |value| format!("`{}`", value.shown()));
        let variable = key.variable().map_or_else(|| "none".to_owned(), |name| format!("`{name}`"));
        let project = key.project.name();
        let (setting, help, allowed) = (key.shown(), key.help, key.kind.allowed());
        let _ = writeln!(table, "| `{setting}` | {help} | {allowed} | {default} | {project} | {variable} |");
    }
    table
}
