//! The attributes of a SCRAM message: `a=value`, separated by commas, in a fixed order (RFC 5802, section 7).

use super::ScramError;

/// The attributes that have a meaning and a place; one of them anywhere else is an error, not an extension.
const DEFINED: &[u8] = b"anmrcsipve";

/// Reads a message from left to right.
pub(super) struct Attributes<'a> {
    /// `None` behind the last attribute; an empty slice is an (invalid) empty attribute.
    rest: Option<&'a [u8]>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Attributes {
            rest: Some(message),
        }
    }

    /// The value of the next attribute, which must be `name`; `missing` says what is wrong if it is not.
    pub(super) fn expect(
        &mut self,
        name: u8,
        missing: &'static str,
    ) -> Result<&'a [u8], ScramError> {
        match self.next()? {
            Some((found, value)) if found == name => Ok(value),
            Some((b'm', _)) => Err(ScramError::MandatoryExtension),
            _ => Err(ScramError::Malformed(missing)),
        }
    }

    /// The rest may be extensions only. RFC 5802, section 7: "unrecognized attributes not defined in this document MUST be ignored".
    pub(super) fn only_extensions_left(mut self) -> Result<(), ScramError> {
        while let Some((name, _)) = self.next()? {
            match name {
                b'm' => return Err(ScramError::MandatoryExtension),
                _ if DEFINED.contains(&name) => {
                    return Err(ScramError::Malformed(
                        "an attribute is repeated or out of order",
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, ScramError> {
        let Some(rest) = self.rest else {
            return Ok(None);
        };
        let mut halves = rest.splitn(2, |&byte| byte == b',');
        let attribute = halves.next().unwrap_or_default();
        self.rest = halves.next();
        match attribute {
            [name, b'=', value @ ..] if name.is_ascii_alphabetic() && !value.contains(&0) => {
                Ok(Some((*name, value)))
            }
            _ => Err(ScramError::Malformed(
                "an attribute is not of the form a=value",
            )),
        }
    }
}
