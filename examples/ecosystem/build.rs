//! The code of the gRPC services, from `proto/`: without a `protoc` of the system.
#![forbid(unsafe_code)]

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["hello.proto"], ["proto"])?;
    // For reflection.
    let path = std::path::Path::new(&std::env::var("OUT_DIR")?).join("hello.bin");
    std::fs::write(path, descriptors.encode_to_vec())?;
    Ok(tonic_prost_build::configure().compile_fds(descriptors)?)
}
