//! What a client sends first, and the texts in it. The properties are in `wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::startup(data));
