//! Reads the headers of a Linux binary (ELF, 64 bits, little-endian): does it need anything beside
//! itself?

use anyhow::{Context, bail, ensure};

const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NEEDED: u64 = 1;

/// Fails if the kernel would start a loader for this binary, or the loader would look for libraries.
pub(super) fn ensure_static(binary: &[u8]) -> anyhow::Result<()> {
    ensure!(binary.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit ELF binary");
    let (start, size, count) = (number(binary, 32, 8)?, number(binary, 54, 2)?, number(binary, 56, 2)?);
    for index in 0..count {
        let header = start + index * size;
        match number(binary, header, 4)? {
            PT_INTERP => bail!("not static: the binary names a loader (PT_INTERP)"),
            PT_DYNAMIC => {
                let (at, len) = (number(binary, header + 8, 8)?, number(binary, header + 32, 8)?);
                for entry in (at..at + len).step_by(16) {
                    ensure!(
                        number(binary, entry, 8)? != DT_NEEDED,
                        "not static: the binary needs a library (DT_NEEDED)"
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The number of `len` bytes at `at`.
fn number(binary: &[u8], at: u64, len: u64) -> anyhow::Result<u64> {
    let (start, end) = (usize::try_from(at)?, usize::try_from(at + len)?);
    let bytes = binary.get(start..end).with_context(|| format!("the binary ends before byte {end}"))?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, and one program header that is followed by `dynamic`.
    fn binary(kind: u64, dynamic: &[u64]) -> Vec<u8> {
        let mut binary = b"\x7fELF\x02\x01".to_vec();
        binary.resize(64 + 56, 0);
        let mut put = |at: usize, number: u64, len: usize| {
            binary[at..at + len].copy_from_slice(&number.to_le_bytes()[..len])
        };
        put(32, 64, 8);
        put(54, 56, 2);
        put(56, 1, 2);
        put(64, kind, 4);
        put(64 + 8, 120, 8);
        put(64 + 32, dynamic.len() as u64 * 8, 8);
        binary.extend(dynamic.iter().flat_map(|number| number.to_le_bytes()));
        binary
    }

    #[test]
    fn loader_and_libraries_are_found() {
        let refused = |binary: &[u8]| ensure_static(binary).unwrap_err().to_string();
        ensure_static(&binary(1, &[])).unwrap();
        // A static binary at an address of the kernel's choice has a dynamic section too.
        ensure_static(&binary(PT_DYNAMIC, &[24, 0, 0, 0])).unwrap();
        assert!(refused(&binary(PT_INTERP, &[])).contains("PT_INTERP"));
        assert!(refused(&binary(PT_DYNAMIC, &[24, 0, DT_NEEDED, 5])).contains("DT_NEEDED"));
        assert!(refused(b"#!/bin/sh\n").contains("not a 64-bit ELF"));
        assert!(refused(&binary(PT_DYNAMIC, &[24, 0])[..100]).contains("ends before byte"));
    }

    /// The loader of this test is named in it.
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    #[test]
    fn a_dynamic_binary_is_refused() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(ensure_static(&own).unwrap_err().to_string().contains("not static"));
    }
}
