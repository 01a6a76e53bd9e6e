//! The code of the gRPC services, from `proto/`: without a `protoc` of the system.
#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["hello.proto"], ["proto"])?;
    Ok(tonic_prost_build::configure().compile_fds(descriptors)?)
}
