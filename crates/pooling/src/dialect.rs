//! What a Parse means beside its text: PostgreSQL reads constants (`'1/2/2024'::date`, `'{NULL}'::int[]`) when it parses a statement, by
//! the parameters that are set then. A statement that was parsed under other ones is another statement.

use crate::parameters::Parameters;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The parameters that PostgreSQL looks at while it parses. What a plan looks at (`search_path`, the role) it looks at again for each use.
const LOOKED_AT: [&str; 11] = [
    "array_nulls",
    "backslash_quote",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "lc_monetary",
    "standard_conforming_strings",
    "TimeZone",
    "timezone_abbreviations",
    "transform_null_equals",
    "xmloption",
];

/// A keyed hash of their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dialect(pub(crate) u64);

impl Dialect {
    pub fn of(parameters: &Parameters, key: &[u8; 16]) -> Dialect {
        let mut hasher = SipHasher13::new_with_key(key);
        for parameter in parameters.iter() {
            let number = LOOKED_AT
                .iter()
                .position(|name| name.eq_ignore_ascii_case(&parameter.name));
            if let Some(number) = number {
                hasher.write_usize(number);
                hasher.write_usize(parameter.value.len());
                hasher.write(parameter.value.as_bytes());
            }
        }
        Dialect(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Dialect {
        Dialect::of(&Parameters::reported(pairs.iter().copied()), &[5; 16])
    }

    #[test]
    fn only_what_parsing_looks_at_counts() {
        let usual = of(&[("DateStyle", "ISO, MDY"), ("TimeZone", "UTC")]);
        let named = of(&[
            ("application_name", "a"),
            ("datestyle", "ISO, MDY"),
            ("TimeZone", "UTC"),
        ]);
        assert_eq!(usual, named);
        assert_ne!(usual, of(&[("DateStyle", "ISO, DMY"), ("TimeZone", "UTC")]));
        assert_ne!(usual, of(&[("DateStyle", "ISO, MDY")]));
    }
}
