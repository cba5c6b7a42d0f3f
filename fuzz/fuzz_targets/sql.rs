//! Any bytes as SQL. The properties are in `sql::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sql::fuzz::text(data));
