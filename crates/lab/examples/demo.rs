//! The demonstration with any pooler that takes a pgbouncer.ini: `cargo run -p lab --example demo -- PROGRAM [SECONDS]`.

use lab::demo::{DemoOptions, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let weir_program = arguments.next().ok_or("which pooler?")?.into();
    let seconds = arguments
        .next()
        .map(|seconds| seconds.parse())
        .transpose()?;
    Ok(run(&DemoOptions {
        seconds,
        weir_program,
    })?)
}
