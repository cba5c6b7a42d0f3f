//! What a client sends after its log-in. The properties are in `wire::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::frontend(data));
