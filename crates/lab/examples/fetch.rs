//! Puts PostgreSQL versions into the cache: `cargo run -p lab --example fetch -- 14 18`. What is installed is not fetched.

use lab::postgres::Installation;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for major in std::env::args().skip(1) {
        let installation = Installation::obtain(major.parse()?)?;
        println!(
            "{} in {}",
            installation.version(),
            installation.program("").display()
        );
    }
    Ok(())
}
