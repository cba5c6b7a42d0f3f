//! The first packets of a connection (manual: "Start-up", "SSL Session Encryption", "GSSAPI Session Encryption"): what the peer
//! wants, and as whom.

use super::line::Line;
use super::refusal::{Failure, Refusal};
use settings::General;
use std::fmt::Display;
use wire::SqlState;
use wire::startup::{PROTOCOL_3_2, ProtocolVersion, Startup, StartupPacket};

/// PgBouncer's limits, in bytes.
const USER_LENGTH_MAX: usize = 127;
const DATABASE_LENGTH_MAX: usize = 63;

/// What a connection turned out to be for.
pub enum Purpose {
    Cancel { pid: i32, key: Vec<u8> },
    Session(Request),
}

/// What a client asks for in its StartupMessage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What both sides speak: at most 3.2.
    pub version: ProtocolVersion,
    pub user: String,
    pub database: String,
    /// The settings of its session, in the order in which they count: the last one of a name wins.
    pub settings: Vec<(String, String)>,
    /// Whether it has to be told what of its wishes we do not speak.
    pub negotiation: Option<Negotiation>,
}

/// The content of NegotiateProtocolVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiation {
    pub version: ProtocolVersion,
    pub unknown_options: Vec<String>,
}

impl Request {
    /// The value that counts of the setting `name`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let named = |(candidate, _): &&(String, String)| candidate.eq_ignore_ascii_case(name);
        self.settings
            .iter()
            .rfind(named)
            .map(|(_, value)| value.as_str())
    }
}

/// Encryption requests that a connection has made; each is allowed once.
#[derive(Default)]
struct Asked {
    tls: bool,
    gss: bool,
}

/// Reads until it is known what the connection is for.
pub async fn read(
    line: &mut Line,
    general: &General,
    peer: &impl Display,
) -> Result<Purpose, Failure> {
    let mut asked = Asked::default();
    loop {
        let total = line.startup_packet().await?;
        let packet = StartupPacket::parse(line.input().get(..total).unwrap_or_default())?;
        let request = match packet {
            StartupPacket::Cancel { pid, key } => {
                return Ok(Purpose::Cancel {
                    pid,
                    key: key.to_vec(),
                });
            }
            StartupPacket::Startup(startup) => {
                let request = decide(&startup, general, peer)?;
                line.consume(total);
                return Ok(Purpose::Session(request));
            }
            StartupPacket::Ssl => &mut asked.tls,
            StartupPacket::GssEnc => &mut asked.gss,
        };
        if std::mem::replace(request, true) {
            return Err(Refusal::protocol("encryption was requested twice").into());
        }
        decline_encryption(line, total).await?;
    }
}

/// Answers SSLRequest and GSSENCRequest. This is where TLS will begin: answer `S`, and wrap the line's socket.
async fn decline_encryption(line: &mut Line, packet_length: usize) -> Result<(), Failure> {
    line.consume(packet_length);
    // Bytes sent before our answer would be taken as if they had been encrypted (CVE-2021-3935).
    if !line.input().is_empty() {
        return Err(
            Refusal::protocol("received unencrypted data after an encryption request").into(),
        );
    }
    line.output.push(b'N');
    line.flush().await
}

/// Judges a StartupMessage. `peer` is how the client's address is written into application_name, if that is wanted.
pub fn decide(
    startup: &Startup<'_>,
    general: &General,
    peer: &impl Display,
) -> Result<Request, Refusal> {
    let mut draft = Draft::default();
    for (name, value) in startup.parameters() {
        draft.take(text(name)?, text(value)?, general)?;
    }
    if general.application_name_add_host {
        draft.add_host(peer);
    }
    draft.finish(startup.version)
}

#[derive(Default)]
struct Draft {
    user: String,
    database: String,
    /// From `options`: they come first, so that a parameter of its own overrides them, as in PostgreSQL.
    options: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    unknown_options: Vec<String>,
}

impl Draft {
    fn take(&mut self, name: &str, value: &str, general: &General) -> Result<(), Refusal> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match () {
            () if is("user") => self.user = checked(value, USER_LENGTH_MAX, "user name too long")?,
            () if is("database") => {
                self.database = checked(value, DATABASE_LENGTH_MAX, "database name too long")?
            }
            // Reserved for extensions of the protocol, of which we know none.
            () if name.starts_with("_pq_.") => self.unknown_options.push(name.to_owned()),
            () if is_ignored(name, general) => {}
            () if is("options") => self.take_options(value, general)?,
            () if is("replication") => refuse_replication(value)?,
            () => self.settings.push((name.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    fn take_options(&mut self, value: &str, general: &General) -> Result<(), Refusal> {
        let options = wire::parse_options(value.as_bytes())
            .map_err(|error| Refusal::new(SqlState::SYNTAX_ERROR, error.to_string()))?;
        for (name, value) in &options {
            let (name, value) = (text(name)?, text(value)?);
            if !is_ignored(name, general) {
                self.options.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(())
    }

    fn add_host(&mut self, peer: &impl Display) {
        const NAME: &str = "application_name";
        let given = self
            .settings
            .iter_mut()
            .rfind(|(name, _)| name.eq_ignore_ascii_case(NAME));
        match given {
            Some((_, value)) => *value = format!("{value} - {peer}"),
            None => self
                .settings
                .push((NAME.to_owned(), format!("app - {peer}"))),
        }
    }

    fn finish(self, asked: ProtocolVersion) -> Result<Request, Refusal> {
        if self.user.is_empty() {
            return Err(Refusal::new(
                SqlState::INVALID_AUTHORIZATION,
                "no user name specified in startup packet",
            ));
        }
        let version = asked.min(PROTOCOL_3_2);
        let negotiate = version != asked || !self.unknown_options.is_empty();
        let unknown_options = self.unknown_options;
        let mut settings = self.options;
        settings.extend(self.settings);
        Ok(Request {
            version,
            database: if self.database.is_empty() {
                self.user.clone()
            } else {
                self.database
            },
            user: self.user,
            settings,
            negotiation: negotiate.then_some(Negotiation {
                version,
                unknown_options,
            }),
        })
    }
}

fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes)
        .map_err(|_| Refusal::protocol("a startup parameter is not valid UTF-8"))
}

fn checked(name: &str, max: usize, problem: &str) -> Result<String, Refusal> {
    match name.len() <= max {
        true => Ok(name.to_owned()),
        false => Err(Refusal::protocol(problem)),
    }
}

fn is_ignored(name: &str, general: &General) -> bool {
    general
        .ignore_startup_parameters
        .iter()
        .any(|ignored| ignored.eq_ignore_ascii_case(name))
}

fn refuse_replication(value: &str) -> Result<(), Refusal> {
    match value.to_ascii_lowercase().as_str() {
        "false" | "off" | "no" | "0" => Ok(()),
        _ => Err(Refusal::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "replication connections are not pooled yet",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// What `general`, changed by `settings`, makes of these parameters.
    fn decided(settings: &str, parameters: &[(&str, &str)]) -> Result<Request, Refusal> {
        let text = format!("[pgbouncer]\n{settings}\n");
        let general = settings::Config::parse(&text, std::path::Path::new("test.ini"))
            .unwrap()
            .config
            .general;
        let mut packet = Vec::new();
        let pairs = parameters
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        wire::write::startup(&mut packet, PROTOCOL_3_2, pairs);
        let StartupPacket::Startup(startup) = StartupPacket::parse(&packet).unwrap() else {
            panic!("a startup packet")
        };
        decide(&startup, &general, &"10.0.0.1:5000")
    }

    #[test]
    fn the_database_is_called_as_the_user_by_default() {
        let request = decided("", &[("user", "app")]).unwrap();
        assert_eq!(
            (request.database.as_str(), request.negotiation),
            ("app", None)
        );
    }

    #[test]
    fn names_count_without_regard_to_case_and_the_last_value_wins() {
        let request = decided(
            "",
            &[
                ("user", "app"),
                ("DateStyle", "German"),
                ("datestyle", "ISO"),
            ],
        )
        .unwrap();
        assert_eq!(request.setting("DATESTYLE"), Some("ISO"));
    }

    #[test]
    fn a_parameter_comes_before_options() {
        let request = decided(
            "",
            &[
                ("user", "app"),
                ("work_mem", "1MB"),
                ("options", "-c work_mem=2MB --geqo=off"),
            ],
        )
        .unwrap();
        assert_eq!(
            (request.setting("work_mem"), request.setting("geqo")),
            (Some("1MB"), Some("off"))
        );
        assert_eq!(
            decided("", &[("user", "app"), ("options", "-x")])
                .unwrap_err()
                .sqlstate,
            SqlState::SYNTAX_ERROR
        );
    }

    #[test]
    fn ignored_parameters_are_dropped_wherever_they_stand() {
        let wishes = [
            ("user", "app"),
            ("extra_float_digits", "2"),
            ("options", "-c geqo=off -c work_mem=2MB"),
        ];
        let request = decided(
            "ignore_startup_parameters = Extra_Float_Digits, geqo",
            &wishes,
        )
        .unwrap();
        assert_eq!(
            request.settings,
            [("work_mem".to_owned(), "2MB".to_owned())]
        );
        let request = decided(
            "ignore_startup_parameters = options, replication",
            &[("user", "app"), ("options", "-x")],
        )
        .unwrap();
        assert!(request.settings.is_empty());
    }

    #[test]
    fn the_host_is_added_to_the_name_of_the_application() {
        let on = "application_name_add_host = 1";
        let named = decided(on, &[("user", "app"), ("application_name", "shop")]).unwrap();
        assert_eq!(
            named.setting("application_name"),
            Some("shop - 10.0.0.1:5000")
        );
        let unnamed = decided(on, &[("user", "app")]).unwrap();
        assert_eq!(
            unnamed.setting("application_name"),
            Some("app - 10.0.0.1:5000")
        );
    }

    #[test]
    fn names_have_limits() {
        let (fits, too_long) = ("u".repeat(127), "u".repeat(128));
        assert!(decided("", &[("user", &fits), ("database", "db")]).is_ok());
        assert_eq!(
            decided("", &[("user", &too_long)]).unwrap_err().message,
            "user name too long"
        );
        let too_long = "d".repeat(64);
        assert_eq!(
            decided("", &[("user", "app"), ("database", &too_long)])
                .unwrap_err()
                .message,
            "database name too long"
        );
        assert!(decided("", &[("user", ""), ("database", "db")]).is_err());
    }

    #[test]
    fn only_a_real_wish_for_replication_is_refused() {
        assert!(decided("", &[("user", "app"), ("replication", "off")]).is_ok());
        assert!(decided("", &[("user", "app"), ("replication", "true")]).is_err());
    }
}
