//! What a server sends. The properties are in `wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::backend(data));
