//! Makes the types out of `proto/a2a_v03.proto`, and their JSON as protobuf has it.

use std::error::Error;
use std::path::PathBuf;

const PROTO: &str = "proto/a2a_v03.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let descriptors = out.join("descriptors.bin");
    prost_build::Config::new()
        .protoc_executable(protoc_bin_vendored::protoc_bin_path()?)
        .file_descriptor_set_path(&descriptors)
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_protos(&[PROTO], &["proto", include_of_google()?.as_str()])?;
    // Whoever adds a field is still understood.
    pbjson_build::Builder::new()
        .register_descriptors(&std::fs::read(descriptors)?)?
        .ignore_unknown_fields()
        .build(&[".a2a.v1"])?;
    Ok(())
}

/// Where the messages are that protobuf brings along.
fn include_of_google() -> Result<String, Box<dyn Error>> {
    let folder = protoc_bin_vendored::include_path()?;
    Ok(folder.to_str().ok_or("its path is no text")?.to_owned())
}
