//! Generates the wire types and services from `proto/leeway/v1`, without a system protoc.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());

    let mut files: Vec<PathBuf> =
        fs::read_dir(root.join("leeway/v1"))?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();

    let descriptors = protox::compile(&files, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("leeway.v1.descriptors.bin"), descriptors.encode_to_vec())?;

    tonic_prost_build::configure()
        // Ordered maps, so that equal messages have equal bytes.
        .btree_map(".")
        .bytes(".")
        .codec_path("crate::codec::BorderCodec")
        // Their hand-written `Debug` shows no secret.
        .skip_debug(["leeway.v1.SecretValue", "leeway.v1.AgentCaller"])
        .compile_fds(descriptors)?;
    Ok(())
}
