#![no_main]

mod python;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| python::check("urls", raw));
