//! `synapse keys certs`: a private authority, certificates of its making, and what is in a certificate (REST-8).
//!
//! Invariant: a key is never readable by others, not even while it is written; an authority that is there is kept.

use crate::fail::{self, Done, Fail};
use crate::show;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use synapse_core::ids::Label;
use synapse_store::files::{self, create_private, write_private};
use synapse_store::home::Home;
use synapse_tls::certificate::{Certificate, Standing};
use synapse_tls::make::{Authority, MakeError, Pair, Span, new_key};
use synapse_tls::now_s;

#[derive(Subcommand)]
pub(super) enum Certs {
    /// Make a private CA, a server and client certificates
    Make(CertsMake),
    /// Show the names and the expiry of a certificate
    Show(CertsShow),
}

#[derive(Args)]
pub(super) struct CertsMake {
    /// Folder to write to [default: ~/.synapse/certs]
    #[arg(long)]
    dir: Option<std::path::PathBuf>,
    /// Another name or address of this machine (repeatable)
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Make a certificate for this client (repeatable)
    #[arg(long = "client", value_name = "NAME")]
    clients: Vec<String>,
    /// Days until the certificates expire
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// Replace existing certificates; keep the CA
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(super) struct CertsShow {
    /// Certificate file (PEM)
    file: std::path::PathBuf,
}

pub(super) fn certs(args: Certs, json: bool) -> Done {
    match args {
        Certs::Make(args) => make(args, json),
        Certs::Show(args) => show(&args, json),
    }
}

const AUTHORITY_DAYS: u32 = 3_650;
/// Files of ours that no client may be called after.
const TAKEN: [&str; 2] = ["ca", "server"];

fn make(args: CertsMake, json: bool) -> Done {
    let dir = match &args.dir {
        Some(dir) => std::path::absolute(dir)?,
        None => Home::from_env()?.root().join("certs"),
    };
    own_folder(&dir)?;
    let clients: Vec<Label> = args.clients.iter().map(|raw| client_name(raw)).collect::<Result<_, _>>()?;
    let folder = Folder { dir, span: Span::days(now_s(), args.days), force: args.force };
    let (authority, made_authority) = folder.authority()?;
    let names = server_names(&args.names);
    let mut done = vec![("ca".to_owned(), made_authority)];
    // Everything that stands in the way is found before anything is written.
    let server_is_there = folder.is_there(&authority, "server", |own| covers(own, &names))?;
    let mut wanted = Vec::new();
    for name in &clients {
        let name = name.as_str();
        let there = folder.is_there(&authority, name, |own| own.common_name.as_deref() == Some(name))?;
        wanted.push((name, there));
    }
    if !server_is_there {
        folder.write("server", &authority.server(&names, folder.span)?)?;
    }
    done.push(("server".into(), !server_is_there));
    for (name, there) in wanted {
        if !there {
            folder.write(name, &authority.client(name, folder.span)?)?;
        }
        done.push((name.to_owned(), !there));
    }
    tell(&folder, &done, json);
    Ok(())
}

/// Made for us alone if it is not there. One that is there is not changed: it may be anything, such as this folder.
fn own_folder(dir: &Path) -> Done {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata(dir) {
        Ok(found) if found.mode() & 0o022 != 0 => Err(Fail::refused(format!(
            "{} can be changed by other users, so no keys are put there; `chmod go-w {}`, or choose another --dir",
            dir.display(),
            quote(dir)
        ))),
        Ok(_) => Ok(()),
        Err(_) => Ok(files::private_dir(dir)?),
    }
}

fn client_name(raw: &str) -> Result<Label, Fail> {
    let name = Label::parse(raw).map_err(|bad| Fail::usage(bad.to_string()))?;
    if TAKEN.contains(&name.as_str()) {
        return Err(Fail::usage(format!(
            "a client cannot be called {raw:?}: that is the name of another file"
        )));
    }
    Ok(name)
}

/// Loopback, this machine's own name, and what was asked for.
fn server_names(asked: &[String]) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let host = Some(host).filter(|host| !host.is_empty() && host.chars().all(is_name));
    let fixed = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut names: Vec<String> = Vec::new();
    for name in fixed.into_iter().chain(host).chain(asked.iter().cloned()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn covers(certificate: &Certificate, names: &[String]) -> bool {
    names.iter().all(|name| match name.parse() {
        Ok(ip) => certificate.ips.contains(&ip),
        Err(_) => certificate.dns.iter().any(|own| own.eq_ignore_ascii_case(name)),
    })
}

/// Two machines may be called the same; their authorities must not be.
fn authority_name() -> Result<String, Fail> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|e| Fail::new(fail::ERROR, "error", e.to_string()))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(format!("Synapse on {host} {:08x}", u32::from_be_bytes(random)))
}

struct Folder {
    dir: PathBuf,
    span: Span,
    force: bool,
}

impl Folder {
    fn cert(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.pem"))
    }

    fn key(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.key"))
    }

    /// The authority that is there, or a new one. The key comes first, and a certificate is made for whatever key is
    /// there: so two who make one at once get the same, and one who was broken off can go on.
    fn authority(&self) -> Result<(Authority, bool), Fail> {
        let (cert, key) = (self.cert("ca"), self.key("ca"));
        let made = !cert.exists();
        if made {
            create_private(&key, new_key()?.as_bytes())?;
        }
        let key = synapse_tls::files::key_text(&key).map_err(|e| Fail::refused(e.to_string()))?;
        if made {
            let span = Span::days(now_s(), AUTHORITY_DAYS);
            let authority = Authority::with_key(&authority_name()?, span, &key)?;
            create_private(&cert, authority.cert_pem().as_bytes())?;
        }
        let text = files::read_private(&cert, FILE_BYTES_MAX, files::Access::Plain)?;
        let authority = Authority::open(&String::from_utf8_lossy(&text), &key).map_err(|e| {
            Fail::refused(format!("{}: {e}; or choose another folder with --dir", cert.display()))
        })?;
        let own = Certificate::read(authority.cert_der()).map_err(Fail::refused)?;
        if let Standing::Expired { .. } = own.standing(now_s()) {
            return Err(Fail::refused(format!(
                "the authority {} has expired; move its folder away and make all anew",
                cert.display()
            )));
        }
        Ok((authority, made))
    }

    /// Whether a pair is there and will do; one that will not is in the way unless it may be replaced.
    fn is_there(
        &self,
        authority: &Authority,
        name: &str,
        fits: impl Fn(&Certificate) -> bool,
    ) -> Result<bool, Fail> {
        let (cert, key) = (self.cert(name), self.key(name));
        if self.force || (!cert.exists() && !key.exists()) {
            return Ok(false);
        }
        let issuer = Certificate::read(authority.cert_der()).map_err(Fail::refused)?.subject;
        let found = synapse_tls::files::certificates(&cert).map_err(|e| e.to_string());
        let found = found.and_then(|chain| Certificate::read(&chain[0]));
        let why = match found {
            Err(why) => why,
            Ok(_) if !key.exists() => format!("{} is not there", key.display()),
            Ok(own) if own.issuer != issuer => "it is of another authority".into(),
            Ok(own) if !fits(&own) => "it is for other names".into(),
            Ok(own) => match own.standing(now_s()) {
                Standing::Holds { .. } => return Ok(true),
                _ => "it has expired".into(),
            },
        };
        Err(Fail::refused(format!(
            "{} will not do ({why}) and is not replaced without being told: add --force",
            cert.display()
        )))
    }

    fn write(&self, name: &str, pair: &Pair) -> Done {
        write_private(&self.key(name), pair.key.as_bytes())?;
        write_private(&self.cert(name), pair.cert.as_bytes())?;
        Ok(())
    }
}

const FILE_BYTES_MAX: usize = 1 << 20;

fn tell(folder: &Folder, done: &[(String, bool)], json: bool) {
    if json {
        let files: Vec<_> = done
            .iter()
            .map(|(name, made)| json!({ "name": name, "cert": folder.cert(name), "key": folder.key(name), "made": made }))
            .collect();
        show::json(&json!({ "dir": folder.dir, "certificates": files }));
        return;
    }
    for (name, made) in done {
        let what = if *made { "made" } else { "kept" };
        show::out(&format!("{what}  {}", folder.cert(name).display()));
    }
    let (quoted, file) = (quote(&folder.dir), |name: &str| quote(&folder.dir.join(name)));
    let client = done.get(2).map(|(name, _)| name.clone());
    let client = client.as_deref();
    let mtls = client.map_or_else(String::new, |_| format!(" \\\n    --client-ca {}", file("ca.pem")));
    let shown = client.map_or_else(String::new, |name| {
        format!(" \\\n    --cert {} --key {}", file(&format!("{name}.pem")), file(&format!("{name}.key")))
    });
    show::out(&format!(
        "\nNext, an agent that speaks TLS, and a call:\n  \
         synapse run --detach --name shout --exec 'tr a-z A-Z' --tls-cert {} --tls-key {}{mtls}\n  \
         curl --cacert {}{shown} https://localhost:<PORT>/status\n\
         Give callers ca.pem and their own pair; everything else in {quoted} stays here.",
        file("server.pem"),
        file("server.key"),
        file("ca.pem"),
    ));
}

/// As a shell reads it back.
fn quote(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn show(args: &CertsShow, json: bool) -> Done {
    let chain = synapse_tls::files::certificates(&args.file).map_err(|e| Fail::usage(e.to_string()))?;
    let mut wrong = None;
    for (n, der) in chain.iter().enumerate() {
        let file = args.file.display();
        let certificate = Certificate::read(der)
            .map_err(|why| Fail::usage(format!("certificate {} in {file} cannot be read: {why}", n + 1)))?;
        let standing = certificate.standing(now_s());
        match standing {
            Standing::Holds { .. } => {}
            Standing::NotYet => wrong = Some("is not valid yet"),
            Standing::Expired { .. } => wrong = Some("has expired"),
        }
        if json {
            show::json(&as_json(&certificate, standing));
        } else {
            if n > 0 {
                show::out("");
            }
            show::out(&as_text(&certificate, standing));
        }
    }
    match wrong {
        None => Ok(()),
        Some(how) => {
            let message = format!(
                "a certificate in {} {how}; `synapse keys certs make --force` makes a new one",
                args.file.display()
            );
            Err(Fail::new(fail::ERROR, "certificate_not_valid", message))
        }
    }
}

fn date(unix_s: u64) -> String {
    let at = i64::try_from(unix_s).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    at.map_or_else(|| "?".into(), |at| at.to_string())
}

fn as_json(own: &Certificate, standing: Standing) -> serde_json::Value {
    let (state, days_left) = match standing {
        Standing::NotYet => ("not_yet_valid", None),
        Standing::Holds { days_left } => ("valid", Some(days_left)),
        Standing::Expired { .. } => ("expired", None),
    };
    json!({
        "subject": own.subject, "issuer": own.issuer, "authority": own.is_authority,
        "common_name": own.common_name, "dns": own.dns, "ips": own.ips, "uris": own.uris,
        "not_before": date(own.not_before_s), "not_after": date(own.not_after_s),
        "state": state, "days_left": days_left,
    })
}

fn as_text(own: &Certificate, standing: Standing) -> String {
    let ips = own.ips.iter().map(ToString::to_string);
    let names: Vec<String> = own.dns.iter().chain(&own.uris).cloned().chain(ips).collect();
    let standing = match standing {
        Standing::NotYet => show::paint("31", "not valid yet"),
        Standing::Holds { days_left } => format!("expires in {days_left} days"),
        Standing::Expired { days_ago } => show::paint("31", &format!("expired {days_ago} days ago")),
    };
    let kind = if own.is_authority { " (an authority)" } else { "" };
    // A certificate is text of others.
    let rows = [
        ("subject", format!("{}{kind}", show::line(&own.subject, 200))),
        ("issuer", show::line(&own.issuer, 200)),
        ("names", show::line(&names.join(", "), 1_000)),
        ("valid", format!("{} to {}, {standing}", date(own.not_before_s), date(own.not_after_s))),
    ];
    let rows = rows.iter().filter(|(_, value)| !value.is_empty());
    let lines: Vec<String> =
        rows.map(|(name, value)| format!("{}  {value}", show::paint("2", &format!("{name:7}")))).collect();
    lines.join("\n")
}

impl From<MakeError> for Fail {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::BadName { .. } => Self::usage(error.to_string()),
            MakeError::OtherAuthority { .. } => Self::refused(error.to_string()),
            MakeError::Failed(_) => Self::new(fail::ERROR, "error", error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for (path, quoted) in
            [("/a/b-c.pem", "/a/b-c.pem"), ("/a b", "'/a b'"), ("/it's", "'/it'\\''s'"), ("/$x", "'/$x'")]
        {
            assert_eq!(quote(Path::new(path)), quoted);
        }
    }

    #[test]
    fn names_of_files_are_not_names_of_clients() {
        for raw in ["ca", "server", "", "../x", "a/b"] {
            assert!(client_name(raw).is_err(), "{raw:?}");
        }
        assert!(client_name("build-7").is_ok());
    }

    #[test]
    fn a_server_is_called_by_loopback_names_and_what_was_asked_for() {
        let names = server_names(&["box.example".into(), "localhost".into(), "192.0.2.7".into()]);
        assert_eq!(names[..3], ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(names[names.len() - 2..], ["box.example", "192.0.2.7"]);
    }
}
