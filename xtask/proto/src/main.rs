//! `synapse-proto <proto> <folder>`: generates the message types of a proto as `messages.rs.inc` in
//! the folder, and their JSON as `json.rs.inc`.
//!
//! `protox` compiles the proto in Rust, so no other compiler is needed. Run by `cargo xtask proto`.

use prost_types::FileDescriptorProto;
use prost_types::field_descriptor_proto::Label;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "// Generated from the proto beside it by `cargo xtask proto`; not edited by hand.\n";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(proto), Some(folder), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: synapse-proto <proto> <folder>".into());
    };
    let include = proto.parent().ok_or("the proto has no folder")?;
    let descriptors = protox::Compiler::new([include])?
        .include_imports(true)
        .open_file(&proto)?
        .file_descriptor_set();
    let own = descriptors.file.last().ok_or("the proto is empty")?;
    let package = own.package().to_owned();
    let lists = lists(own);
    // prost and pbjson name their files after the package, so generate into a folder of its own.
    let made = tempfile(&folder)?;
    prost_build::Config::new()
        .out_dir(&made)
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_fds(descriptors.clone())?;
    let bytes = protox::prost::Message::encode_to_vec(&descriptors);
    let mut json = pbjson_build::Builder::new();
    json.out_dir(&made).register_descriptors(&bytes)?.ignore_unknown_fields();
    json.build(&[format!(".{package}")])?;
    let messages = fs::read_to_string(made.join(format!("{package}.rs")))?;
    let json = fs::read_to_string(made.join(format!("{package}.serde.rs")))?;
    fs::remove_dir_all(&made)?;
    fs::write(folder.join("messages.rs.inc"), format!("{HEAD}{messages}"))?;
    fs::write(folder.join("json.rs.inc"), format!("{HEAD}{}", with_nulls(json, &lists)))?;
    Ok(())
}

fn tempfile(folder: &Path) -> std::io::Result<PathBuf> {
    let made = folder.join("generated.tmp");
    fs::create_dir_all(&made)?;
    Ok(made)
}

/// The names of all list fields in a file. A map is a list of entries there.
fn lists(file: &FileDescriptorProto) -> Vec<String> {
    let mut names = Vec::new();
    let mut ahead: Vec<_> = file.message_type.iter().collect();
    while let Some(message) = ahead.pop() {
        ahead.extend(&message.nested_type);
        let repeated = message.field.iter().filter(|field| field.label() == Label::Repeated);
        names.extend(repeated.map(|field| field.name().to_owned()));
    }
    names.sort();
    names.dedup();
    names
}

/// Protobuf's JSON allows `null` for an empty list or map. pbjson's code accepts it only for
/// singular fields.
fn with_nulls(json: String, lists: &[String]) -> String {
    const MAP: &str = "std::collections::HashMap<_, _>";
    let mut json = json.replace(
        &format!("map_.next_value::<{MAP}>()?"),
        &format!("map_.next_value::<Option<{MAP}>>()?.unwrap_or_default()"),
    );
    for name in lists {
        json = json.replace(
            &format!("{name}__ = Some(map_.next_value()?);"),
            &format!("{name}__ = Some(map_.next_value::<Option<_>>()?.unwrap_or_default());"),
        );
    }
    json
}
