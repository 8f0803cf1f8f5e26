//! What a person gives a command besides its words: a yes, or a text.

use crate::fail::{Done, Fail};

/// Asks the person; where nobody can be asked, `--yes` has to have said it.
pub(super) fn confirm(question: &str, if_not: &str, json: bool) -> Done {
    use std::io::{BufRead as _, IsTerminal as _, Write as _};
    if json || !std::io::stdin().is_terminal() || !crate::show::err_on_terminal() {
        return Err(Fail::usage(format!("{if_not}; pass --yes to confirm")));
    }
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Fail::refused(if_not)),
    }
}

/// The message: given, from a file, or from stdin.
pub(super) fn text_of(message: Option<String>, file: Option<&std::path::Path>) -> Result<String, Fail> {
    use std::io::{IsTerminal as _, Read as _};
    /// As much as the settings can allow; what is allowed now is checked by whoever stores it.
    const BYTES_MAX: u64 = 32 << 20;
    let text = match (message, file) {
        (Some(text), _) if text != "-" => return not_empty(text),
        (_, Some(path)) => {
            let opened = std::fs::File::open(path);
            let file = opened.map_err(|e| Fail::usage(format!("{} cannot be read: {e}", path.display())))?;
            let mut bytes = Vec::new();
            file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
            bytes
        }
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Fail::usage("no message: give one, or --file, or pipe one in"));
        }
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin().take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
            bytes
        }
    };
    if text.len() as u64 > BYTES_MAX {
        // Never cut: half of a text may mean something else.
        return Err(Fail::too_large(format!("the message has more than {BYTES_MAX} bytes")));
    }
    not_empty(String::from_utf8(text).map_err(|_| Fail::usage("the message is not UTF-8 text"))?)
}

/// As a node would refuse it, in words for the command line.
fn not_empty(text: String) -> Result<String, Fail> {
    if !text.trim().is_empty() {
        return Ok(text);
    }
    let mut fail = Fail::from(synapse_core::Refusal::bad_field("message", "it is empty"));
    "the message is empty".clone_into(&mut fail.info.message);
    Err(fail)
}
