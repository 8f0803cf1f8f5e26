//! Reads PEM files carefully: bounded, regular files only, and with an owner and mode that keep
//! other users from changing them.
//!
//! Symbolic links are followed, since tools that renew certificates replace links; the checks apply
//! to the open file.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Larger than any chain, and than a system's CA bundle.
const BYTES_MAX: u64 = 4 << 20;

/// Why a certificate or key was not used, and what helps.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{} cannot be read: {why}{}", .path.display(), hint(.why))]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("{} is not a plain file", .path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is larger than {BYTES_MAX} bytes, so it is no certificate or key", .path.display())]
    TooLarge { path: PathBuf },
    #[error(
        "the key {} can be read by other users (mode {mode:03o}), so it is not used; \
         make it yours alone: `chmod 600 {0}`", .path.display()
    )]
    KeyTooOpen { path: PathBuf, mode: u32 },
    #[error(
        "{} belongs to another user (uid {uid}), so it is not trusted; \
         as that user or an administrator: `chown {} {0}`", .path.display(), our_uid()
    )]
    Foreign { path: PathBuf, uid: u32 },
    #[error(
        "{} can be changed by other users (mode {mode:03o}), so it is not trusted; \
         look at what is in it, then: `chmod go-w {0}`", .path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error(
        "{} holds no certificate (no `BEGIN CERTIFICATE`); `synapse keys certs make` makes one", .path.display()
    )]
    NoCertificate { path: PathBuf },
    #[error("{} holds no private key (no `BEGIN PRIVATE KEY`); an encrypted key cannot be used", .path.display())]
    NoKey { path: PathBuf },
    #[error("{} is damaged: {why}", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(
        "the key {} does not belong to the certificate {}; give the pair that was made together",
        .key.display(), .cert.display()
    )]
    OtherKey { cert: PathBuf, key: PathBuf },
}

fn hint(why: &std::io::Error) -> &'static str {
    match why.kind() {
        std::io::ErrorKind::NotFound => "; `synapse keys certs make` makes certificates and keys",
        _ => "",
    }
}

fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns all certificates of a file, at least one, in their order.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let bytes = read(path, Wanted::Trusted)?;
    let damaged = |why: String| FileError::Damaged { path: path.to_owned(), why };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|e| damaged(e.to_string()))?;
    if found.is_empty() {
        return Err(FileError::NoCertificate { path: path.to_owned() });
    }
    Ok(found)
}

/// Returns the first private key of a file.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let bytes = read(path, Wanted::Secret)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| match e {
        rustls::pki_types::pem::Error::NoItemsFound => FileError::NoKey { path: path.to_owned() },
        // The error text of the library could quote a part of the key.
        _ => FileError::Damaged { path: path.to_owned(), why: "what is in it is not PEM".into() },
    })
}

/// Returns the text of a key file, for a caller that signs with it.
pub fn key_text(path: &Path) -> Result<String, FileError> {
    let bytes = read(path, Wanted::Secret)?;
    String::from_utf8(bytes)
        .map_err(|_| FileError::Damaged { path: path.to_owned(), why: "what is in it is not PEM".into() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Others may read it but not change it.
    Trusted,
    /// Nobody else may read it.
    Secret,
}

fn read(path: &Path, wanted: Wanted) -> Result<Vec<u8>, FileError> {
    let unreadable = |why| FileError::Unreadable { path: path.to_owned(), why };
    // Not blocking: opening a pipe would otherwise wait for someone to write to it.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    let (mode, uid) = (found.mode() & 0o777, found.uid());
    let path = || path.to_owned();
    if !found.is_file() {
        return Err(FileError::NotAFile { path: path() });
    }
    let (owned, open) = match wanted {
        Wanted::Secret => (uid == our_uid(), mode & 0o077),
        // Root can do anything anyway.
        Wanted::Trusted => (uid == our_uid() || uid == 0, mode & 0o022),
    };
    if !owned {
        return Err(FileError::Foreign { path: path(), uid });
    }
    if open != 0 {
        return Err(match wanted {
            Wanted::Secret => FileError::KeyTooOpen { path: path(), mode },
            Wanted::Trusted => FileError::Writable { path: path(), mode },
        });
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(FileError::TooLarge { path: path() });
    }
    Ok(bytes)
}

/// Identifies a version of a file, to detect changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Option<[u64; 5]>);

impl Stamp {
    pub fn of(path: impl AsRef<Path>) -> Self {
        let number = |n: i64| n.cast_unsigned();
        Self(std::fs::metadata(path).ok().map(|found| {
            [found.dev(), found.ino(), found.size(), number(found.mtime()), number(found.mtime_nsec())]
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(dir: &tempfile::TempDir, name: &str, mode: u32, bytes: &[u8]) -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn what_others_could_read_or_change_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        for (mode, words) in [(0o644, "chmod 600"), (0o640, "chmod 600"), (0o604, "chmod 600")] {
            let path = file(&dir, "key", mode, b"");
            assert!(key(&path).unwrap_err().to_string().contains(words), "{mode:o}");
        }
        for (mode, words) in [(0o666, "chmod go-w"), (0o664, "chmod go-w")] {
            let path = file(&dir, "cert", mode, b"");
            assert!(certificates(&path).unwrap_err().to_string().contains(words), "{mode:o}");
        }
        assert!(key(dir.path()).unwrap_err().to_string().contains("not a plain file"));
        assert!(key(&dir.path().join("none")).unwrap_err().to_string().contains("synapse keys certs make"));
    }

    #[test]
    fn what_is_no_pem_is_told_without_its_words() {
        let dir = tempfile::tempdir().unwrap();
        let cases: [(&[u8], &str, &str); 4] = [
            (b"", "holds no certificate", "holds no private key"),
            (b"\xff\x00 garbage", "holds no certificate", "holds no private key"),
            (b"-----BEGIN CERTIFICATE-----\n", "damaged", "damaged"),
            (
                b"-----BEGIN PRIVATE KEY-----\ns3cr3t!\n-----END PRIVATE KEY-----\n",
                "damaged",
                "damaged: what is in it is not PEM",
            ),
        ];
        for (bytes, as_certificate, as_key) in cases {
            let path = file(&dir, "file", 0o600, bytes);
            let told = certificates(&path).unwrap_err().to_string();
            assert!(told.contains(as_certificate), "{told}");
            let told = key(&path).unwrap_err().to_string();
            assert!(told.contains(as_key) && !told.contains("s3cr3t"), "{told}");
        }
    }

    #[test]
    fn a_replaced_file_has_another_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, "a", 0o600, b"one");
        let before = Stamp::of(&path);
        assert_eq!(before, Stamp::of(&path));
        let other = file(&dir, "b", 0o600, b"two");
        std::fs::rename(other, &path).unwrap();
        assert_ne!(before, Stamp::of(&path));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Stamp::of(&path), Stamp(None));
    }
}
