//! One message, and how it reads in a transcript.

use std::fmt;
use wire::{backend, frontend};

/// Who sent a message: the same letter means different things from each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
}

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub sender: Sender,
    pub tag: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// What is worth telling, if anything: the status of `Z`, the command tag of `C`, SQLSTATE of `E` and `N`, name and value of `S`, the
    /// values of `D` by commas, the code of `R`; from clients the text of `Q`, the name of `P`, `B`, `D`, `C` and `E`.
    pub fn detail(&self) -> Option<String> {
        match self.sender {
            Sender::Server => self.detail_from_server(),
            Sender::Client => self.detail_from_client(),
        }
    }

    /// Field `code` of an ErrorResponse or a NoticeResponse (manual, "Error and Notice Message Fields").
    pub fn field(&self, code: u8) -> Option<String> {
        let fields = backend::ErrorFields::parse(&self.body).ok()?;
        fields.get(code).map(text)
    }

    /// The values of a DataRow; `None` stands for NULL.
    ///
    /// # Panics
    /// When it is none.
    pub fn values(&self) -> Vec<Option<String>> {
        let row = backend::DataRow::parse(&self.body).expect("a DataRow");
        row.values().map(|value| value.map(text)).collect()
    }

    fn detail_from_server(&self) -> Option<String> {
        use backend::tag;
        let body = &self.body[..];
        match self.tag {
            tag::READY_FOR_QUERY => Some(text(body)),
            tag::COMMAND_COMPLETE => Some(text(backend::CommandComplete::parse(body).ok()?.tag)),
            tag::ERROR_RESPONSE | tag::NOTICE_RESPONSE => self.field(b'C'),
            tag::PARAMETER_STATUS => {
                let status = backend::ParameterStatus::parse(body).ok()?;
                Some(format!("{}={}", text(status.name), text(status.value)))
            }
            tag::DATA_ROW => {
                let row = backend::DataRow::parse(body).ok()?;
                let values: Vec<_> = row
                    .values()
                    .map(|value| value.map_or("NULL".into(), text))
                    .collect();
                Some(values.join(","))
            }
            tag::AUTHENTICATION => Some(i32::from_be_bytes(*body.first_chunk()?).to_string()),
            _ => None,
        }
    }

    fn detail_from_client(&self) -> Option<String> {
        use frontend::tag;
        let body = &self.body[..];
        match self.tag {
            tag::QUERY => Some(text(frontend::Query::parse(body).ok()?.text)),
            tag::PARSE => Some(text(frontend::Parse::parse(body).ok()?.name)),
            tag::BIND => Some(text(frontend::Bind::parse(body).ok()?.statement)),
            tag::DESCRIBE => Some(text(frontend::Describe::parse(body).ok()?.name)),
            tag::CLOSE => Some(text(frontend::Close::parse(body).ok()?.name)),
            tag::EXECUTE => Some(text(frontend::Execute::parse(body).ok()?.portal)),
            _ => None,
        }
    }
}

/// The tag alone, or with its detail in brackets.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", char::from(self.tag))?;
        match self.detail() {
            Some(detail) => write!(f, "({detail})"),
            None => Ok(()),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
