//! What an agent is and how it is reached, as flags that all commands have that start one.

use clap::Args;

/// What an agent is called and can do.
#[derive(Args)]
pub(super) struct Who {
    /// Name of the agent
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Type of the agent, part of its handle [default: from the command]
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<String>,
    /// Role, e.g. Developer, Reviewer, Coordinator
    #[arg(long)]
    pub(super) role: Option<String>,
    /// Skill, found as `skill:<NAME>` (repeatable)
    #[arg(long = "skill", value_name = "NAME")]
    pub(super) skills: Vec<String>,
    /// Description for the agent card
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// A2A bindings on the agent card, preferred first: jsonrpc, http, grpc
    #[arg(long, value_name = "LIST", value_parser = bindings)]
    pub(super) interfaces: Option<Bindings>,
    /// Media types to accept over A2A, e.g. text/plain,image/*
    #[arg(long, value_name = "LIST", value_parser = media_types)]
    pub(super) input_modes: Option<MediaTypes>,
    /// Media types to produce over A2A, e.g. text/plain,image/png
    #[arg(long, value_name = "LIST", value_parser = media_types)]
    pub(super) output_modes: Option<MediaTypes>,
    /// Do not offer A2A streaming
    #[arg(long)]
    pub(super) no_streaming: bool,
    /// Do not offer A2A push notifications
    #[arg(long)]
    pub(super) no_push: bool,
    /// TCP port [default: the last one, or the first free from 8100]
    #[arg(long)]
    pub(super) port: Option<u16>,
    /// Working folder [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(super) network: Network,
}

/// How an agent is reached from other machines (REST-8).
#[derive(Args, Default)]
pub(super) struct Network {
    /// Address to listen on [default: loopback only]
    #[arg(help_heading = "Network", long, value_name = "ADDRESS")]
    pub(super) listen: Option<std::net::IpAddr>,
    /// Host name that callers use for this machine (repeatable)
    #[arg(help_heading = "Network", long = "host", value_name = "NAME")]
    pub(super) hosts: Vec<String>,
    /// Public URL behind a proxy, for the agent card
    #[arg(help_heading = "Network", long, value_name = "URL", value_parser = url)]
    pub(super) public_url: Option<String>,
    /// Serve TLS with this certificate (PEM); see `synapse keys certs make`
    #[arg(help_heading = "Network", long, value_name = "FILE")]
    pub(super) tls_cert: Option<std::path::PathBuf>,
    /// Key of the TLS certificate (PEM), readable only by you
    #[arg(help_heading = "Network", long, value_name = "FILE")]
    pub(super) tls_key: Option<std::path::PathBuf>,
    /// Require client certificates of this CA (PEM)
    #[arg(help_heading = "Network", long, value_name = "FILE")]
    pub(super) client_ca: Option<std::path::PathBuf>,
    /// Serve plain HTTP to other machines, without encryption
    #[arg(help_heading = "Network", long)]
    pub(super) insecure: bool,
}

/// Bindings by their names in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bindings(pub(super) Vec<String>);

/// Media types, without parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MediaTypes(pub(super) Vec<String>);

fn bindings(raw: &str) -> Result<Bindings, String> {
    let known = synapse_settings::BINDINGS;
    let read = |word: &str| known.contains(&word).then(|| word.to_owned());
    list(raw, read, &format!("one of {}", known.join(", "))).map(Bindings)
}

fn media_types(raw: &str) -> Result<MediaTypes, String> {
    list(raw, synapse_settings::kinds::parse_media_type, "a media type such as image/png").map(MediaTypes)
}

/// Words with commas between them, each of which is read and listed once.
fn list(raw: &str, read: impl Fn(&str) -> Option<String>, allowed: &str) -> Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    for word in raw.split(',').map(str::trim) {
        let one = read(word).ok_or_else(|| format!("{word:?} is not {allowed}"))?;
        if found.contains(&one) {
            return Err(format!("{word:?} is listed twice"));
        }
        found.push(one);
    }
    Ok(found)
}

fn url(raw: &str) -> Result<String, String> {
    let allowed = "it must be an address on the web, such as https://agents.example.org/review";
    synapse_settings::kinds::parse_url(raw).ok_or_else(|| allowed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding A13: blanks are fine, and a binding is listed once.
    #[test]
    fn lists_of_bindings() {
        let read = |raw: &str| bindings(raw).map(|Bindings(found)| found.join(" "));
        assert_eq!(read("http"), Ok("http".to_owned()));
        assert_eq!(read(" jsonrpc, http"), Ok("jsonrpc http".to_owned()));
        assert_eq!(read("grpc,http,jsonrpc"), Ok("grpc http jsonrpc".to_owned()));
        for wrong in ["http,http", "http, http", "", "http,", "soap", "HTTP"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_of_media_types() {
        let read = |raw: &str| media_types(raw).map(|MediaTypes(found)| found.join(" "));
        assert_eq!(read("text/plain, Image/PNG,image/*"), Ok("text/plain image/png image/*".to_owned()));
        assert_eq!(read("*/*"), Ok("*/*".to_owned()));
        for wrong in ["", "png", "*/png", "image/", "/png", "a/b/c", "text/plain; charset=utf-8", "a/b,A/B"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
