//! One console client's conversation, in the simple and the extended query protocol (manual: "Message Flow").
//!
//! Every message is bounded, nothing is kept but a few prepared statements and portals, and a command that waits (PAUSE, WAIT_CLOSE)
//! ends when its client leaves.

use super::super::act::{self, Refusal};
use super::super::console_client::{ConsoleClient, ConsoleSocket, Privilege};
use super::super::snapshot::Snapshot;
use super::super::{Control, reload};
use super::Present;
use super::command::{self, Command};
use super::show::{HELP, Show};
use super::table::{self, Formats, Row, Table};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::backend::{Format, TransactionStatus};
use wire::frontend::{self, Target, tag};
use wire::{Header, Report, Severity, SqlState, WireError, write};

/// Far more than any command needs, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Prepared statements, and portals, that one client may keep.
const KEPT_MAX: usize = 64;
/// Answers are sent when they have grown to this, in bytes.
const SEND_AT_BYTES: usize = 64 * 1024;
/// How long the last words may take.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// Serves a console client until it leaves, is killed, or the process ends.
pub async fn serve(control: Arc<Control>, client: ConsoleClient) {
    let present = control.consoles.enter(&client);
    let mut session = Session::new(&control, &present, client);
    let outcome = tokio::select! {
        outcome = session.run() => outcome,
        () = present.end.notified() => Ok(End::Killed),
    };
    let reason = match outcome {
        Ok(End::Left) => "client close request".to_owned(),
        Ok(End::Killed) => {
            session
                .say_goodbye(
                    SqlState::ADMIN_SHUTDOWN,
                    "the connection was ended by an administrator",
                )
                .await;
            "ended by KILL_CLIENT".to_owned()
        }
        Err(Broken::Io(error)) => error.to_string(),
        Err(broken) => {
            let reason = broken.to_string();
            session
                .say_goodbye(SqlState::PROTOCOL_VIOLATION, &reason)
                .await;
            reason
        }
    };
    if control.shared.config.load().general.log_disconnections {
        tracing::info!(user = session.user, "console closed: {reason}");
    }
}

/// How a session ends without an error.
enum End {
    Left,
    Killed,
}

/// Why the protocol cannot go on.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    #[error("a message of {0} bytes is too long for the console")]
    TooLong(usize),
    #[error("unexpected message of type {0:?}")]
    Unexpected(char),
}

/// After an error in the extended protocol everything up to Sync is passed over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Messages,
    UntilSync,
}

struct Session<'a> {
    control: &'a Arc<Control>,
    present: &'a Present<'a>,
    socket: Box<dyn ConsoleSocket>,
    user: String,
    privilege: Privilege,
    /// Received and not yet understood.
    input: Vec<u8>,
    /// To be sent.
    output: Vec<u8>,
    reading: Reading,
    statements: HashMap<Vec<u8>, Command>,
    portals: HashMap<Vec<u8>, Portal>,
}

struct Portal {
    command: Command,
    formats: Formats,
    /// What is left after an Execute with a row limit.
    rest: Option<std::vec::IntoIter<Row>>,
}

/// An error that the client is told, and after which the session goes on.
struct Complaint {
    sqlstate: SqlState,
    message: String,
    hint: Option<String>,
}

impl From<command::Malformed> for Complaint {
    fn from(malformed: command::Malformed) -> Complaint {
        Complaint {
            sqlstate: SqlState::SYNTAX_ERROR,
            message: malformed.to_string(),
            hint: Some(malformed.hint()),
        }
    }
}

impl From<Refusal> for Complaint {
    fn from(refusal: Refusal) -> Complaint {
        Complaint {
            sqlstate: refusal.sqlstate(),
            message: refusal.to_string(),
            hint: None,
        }
    }
}

impl Complaint {
    fn new(sqlstate: SqlState, message: impl Into<String>) -> Complaint {
        Complaint {
            sqlstate,
            message: message.into(),
            hint: None,
        }
    }
}

/// What a command answers before its CommandComplete.
enum Answer {
    Nothing,
    Notice {
        message: &'static str,
        detail: Option<&'static str>,
    },
    Rows(Table),
}

impl<'a> Session<'a> {
    fn new(
        control: &'a Arc<Control>,
        present: &'a Present<'a>,
        client: ConsoleClient,
    ) -> Session<'a> {
        Session {
            control,
            present,
            socket: client.socket,
            user: client.user,
            privilege: client.privilege,
            input: client.leftover,
            output: Vec::new(),
            reading: Reading::Messages,
            statements: HashMap::new(),
            portals: HashMap::new(),
        }
    }

    async fn run(&mut self) -> Result<End, Broken> {
        loop {
            let Some((tag, body)) = self.receive().await? else {
                return Ok(End::Left);
            };
            if tag == tag::TERMINATE {
                return Ok(End::Left);
            }
            self.message(tag, &body).await?;
            if self.output.len() >= SEND_AT_BYTES {
                self.send().await?;
            }
        }
    }

    /// The next whole message; `None` when the client has left.
    async fn receive(&mut self) -> Result<Option<(u8, Vec<u8>)>, Broken> {
        loop {
            if let Some(header) = Header::peek(&self.input)? {
                if header.body() > MESSAGE_BYTES_MAX {
                    return Err(Broken::TooLong(header.body()));
                }
                if self.input.len() >= header.total() {
                    let body = self.input[Header::SIZE..header.total()].to_vec();
                    self.input.drain(..header.total());
                    return Ok(Some((header.tag, body)));
                }
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn message(&mut self, tag: u8, body: &[u8]) -> Result<(), Broken> {
        if self.reading == Reading::UntilSync && tag != tag::SYNC {
            return Ok(());
        }
        let outcome = match tag {
            tag::QUERY => return self.query(frontend::Query::parse(body)?.text).await,
            tag::SYNC => return self.sync().await,
            tag::FLUSH => return Ok(self.send().await?),
            tag::PARSE => self.parse(&frontend::Parse::parse(body)?),
            tag::BIND => self.bind(&frontend::Bind::parse(body)?)?,
            tag::DESCRIBE => self.describe(&frontend::Describe::parse(body)?),
            tag::EXECUTE => self.execute(&frontend::Execute::parse(body)?).await?,
            tag::CLOSE => {
                self.close(&frontend::Close::parse(body)?);
                Ok(())
            }
            tag::FUNCTION_CALL => Err(Complaint::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "the console has no functions",
            )),
            // Left over from a COPY that the client gave up: the manual has a server ignore them.
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => Ok(()),
            other => return Err(Broken::Unexpected(char::from(other))),
        };
        if let Err(complaint) = outcome {
            self.complain(&complaint);
            if tag == tag::FUNCTION_CALL {
                return self.sync().await;
            }
            self.reading = Reading::UntilSync;
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), Broken> {
        self.reading = Reading::Messages;
        // The end of an implicit transaction, and with it of its portals.
        self.portals.clear();
        write::ready_for_query(&mut self.output, TransactionStatus::Idle);
        Ok(self.send().await?)
    }

    async fn query(&mut self, text: &[u8]) -> Result<(), Broken> {
        let outcome = match understand(text) {
            Ok(command) => self.simple(command).await?,
            Err(complaint) => Err(complaint),
        };
        if let Err(complaint) = outcome {
            self.complain(&complaint);
        }
        self.sync().await
    }

    async fn simple(&mut self, command: Command) -> Result<Result<(), Complaint>, Broken> {
        if command == Command::Nothing {
            write::empty_query_response(&mut self.output);
            return Ok(Ok(()));
        }
        let answer = match self.carry_out(&command).await? {
            Ok(answer) => answer,
            Err(complaint) => return Ok(Err(complaint)),
        };
        match answer {
            Answer::Nothing => {}
            Answer::Notice { message, detail } => self.notice(message, detail),
            Answer::Rows(table) => {
                table::describe(&mut self.output, table.columns, &Formats::TEXT);
                for row in &table.rows {
                    table::data_row(&mut self.output, table.columns, row, &Formats::TEXT);
                    self.send_when_large().await?;
                }
            }
        }
        write::command_complete(&mut self.output, command.tag().as_bytes());
        Ok(Ok(()))
    }

    fn parse(&mut self, parse: &frontend::Parse<'_>) -> Result<(), Complaint> {
        let command = understand(parse.text)?;
        let is_new = !self.statements.contains_key(parse.name);
        if !is_new && !parse.name.is_empty() {
            let name = String::from_utf8_lossy(parse.name);
            return Err(Complaint::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if is_new && self.statements.len() >= KEPT_MAX {
            return Err(Complaint::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many prepared statements for the console",
            ));
        }
        self.statements.insert(parse.name.to_vec(), command);
        write::parse_complete(&mut self.output);
        Ok(())
    }

    fn bind(&mut self, bind: &frontend::Bind<'_>) -> Result<Result<(), Complaint>, Broken> {
        let formats = match result_formats(bind.rest)? {
            Ok(formats) => formats,
            Err(complaint) => return Ok(Err(complaint)),
        };
        Ok(self.open_portal(bind, formats))
    }

    fn open_portal(
        &mut self,
        bind: &frontend::Bind<'_>,
        formats: Formats,
    ) -> Result<(), Complaint> {
        let command = self.statement(bind.statement)?.clone();
        if !self.portals.contains_key(bind.portal) && self.portals.len() >= KEPT_MAX {
            return Err(Complaint::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many portals for the console",
            ));
        }
        self.portals.insert(
            bind.portal.to_vec(),
            Portal {
                command,
                formats,
                rest: None,
            },
        );
        write::bind_complete(&mut self.output);
        Ok(())
    }

    fn describe(&mut self, describe: &frontend::Describe<'_>) -> Result<(), Complaint> {
        let (command, formats) = match describe.target {
            Target::Statement => {
                let command = self.statement(describe.name)?.clone();
                write::parameter_description(&mut self.output, &[]);
                (command, Formats::TEXT)
            }
            Target::Portal => {
                let portal = self.portal(describe.name)?;
                (portal.command.clone(), portal.formats.clone())
            }
        };
        match command.columns() {
            Some(columns) => table::describe(&mut self.output, columns, &formats),
            None => write::no_data(&mut self.output),
        }
        Ok(())
    }

    async fn execute(
        &mut self,
        execute: &frontend::Execute<'_>,
    ) -> Result<Result<(), Complaint>, Broken> {
        let Some(mut portal) = self.portals.remove(execute.portal) else {
            return Ok(Err(no_portal(execute.portal)));
        };
        if portal.command == Command::Nothing {
            write::empty_query_response(&mut self.output);
            return Ok(Ok(()));
        }
        let mut rows = match portal.rest.take() {
            Some(rows) => rows,
            None => match self.carry_out(&portal.command).await? {
                Ok(Answer::Rows(table)) => table.rows.into_iter(),
                Ok(Answer::Notice { message, detail }) => {
                    self.notice(message, detail);
                    Vec::new().into_iter()
                }
                Ok(Answer::Nothing) => Vec::new().into_iter(),
                Err(complaint) => return Ok(Err(complaint)),
            },
        };
        let columns = portal.command.columns().unwrap_or(&[]);
        let limit = usize::try_from(execute.max_rows)
            .ok()
            .filter(|rows| *rows > 0)
            .unwrap_or(usize::MAX);
        for row in rows.by_ref().take(limit) {
            table::data_row(&mut self.output, columns, &row, &portal.formats);
            self.send_when_large().await?;
        }
        if rows.len() == 0 {
            write::command_complete(&mut self.output, portal.command.tag().as_bytes());
        } else {
            write::portal_suspended(&mut self.output);
            portal.rest = Some(rows);
        }
        self.portals.insert(execute.portal.to_vec(), portal);
        Ok(Ok(()))
    }

    /// Closing what does not exist is no error.
    fn close(&mut self, close: &frontend::Close<'_>) {
        match close.target {
            Target::Statement => drop(self.statements.remove(close.name)),
            Target::Portal => drop(self.portals.remove(close.name)),
        }
        write::close_complete(&mut self.output);
    }

    fn statement(&self, name: &[u8]) -> Result<&Command, Complaint> {
        self.statements.get(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            Complaint::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    fn portal(&self, name: &[u8]) -> Result<&Portal, Complaint> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    /// Runs a command that the client may run. If the client leaves meanwhile, the command is given up.
    async fn carry_out(&mut self, command: &Command) -> Result<Result<Answer, Complaint>, Broken> {
        if !command::allowed(self.privilege, command) {
            let message = "this command needs a user of admin_users";
            return Ok(Err(Complaint::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                message,
            )));
        }
        self.present.begin_command(&self.control.shared);
        if command::required(command) == Privilege::Admin {
            tracing::info!(user = self.user, "console: {}", command.description());
        }
        // What is owed goes out before a command that may wait.
        self.send().await?;
        let (control, socket, input) = (self.control, &mut self.socket, &mut self.input);
        tokio::select! {
            biased;
            outcome = run(control, command) => Ok(outcome.map_err(Complaint::from)),
            left = leaving(socket, input) => Err(Broken::Io(left)),
        }
    }

    fn complain(&mut self, complaint: &Complaint) {
        let message = printable(&complaint.message);
        let report = Report {
            severity: Severity::Error,
            sqlstate: complaint.sqlstate,
            message: &message,
            detail: None,
            hint: complaint.hint.as_deref(),
        };
        write::error_response(&mut self.output, &report);
    }

    fn notice(&mut self, message: &str, detail: Option<&str>) {
        let report = Report::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        write::notice_response(&mut self.output, &Report { detail, ..report });
    }

    /// The connection ends in any case: whether the client hears why is its own affair, and it is not waited for.
    async fn say_goodbye(&mut self, sqlstate: SqlState, message: &str) {
        write::error_response(
            &mut self.output,
            &Report::new(Severity::Fatal, sqlstate, message),
        );
        let _ = tokio::time::timeout(GOODBYE_TIME, self.send()).await;
    }

    async fn send_when_large(&mut self) -> io::Result<()> {
        match self.output.len() >= SEND_AT_BYTES {
            true => self.send().await,
            false => Ok(()),
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.output).await?;
        self.output.clear();
        self.socket.flush().await
    }
}

fn understand(text: &[u8]) -> Result<Command, Complaint> {
    let text = std::str::from_utf8(text);
    let text =
        text.map_err(|_| Complaint::new(SqlState::SYNTAX_ERROR, "the command is not UTF-8 text"))?;
    Ok(command::parse(text)?)
}

/// Bind's parameters, of which there may be none, and its result formats (manual: "Bind").
fn result_formats(rest: &[u8]) -> Result<Result<Formats, Complaint>, WireError> {
    let mut words = rest
        .chunks_exact(2)
        .map(|word| i16::from_be_bytes([word[0], word[1]]));
    let mut next = || words.next().ok_or(WireError::Truncated);
    let parameter_formats = next()?;
    for _ in 0..parameter_formats.max(0) {
        next()?;
    }
    if next()? != 0 {
        return Ok(Err(Complaint::new(
            SqlState::PROTOCOL_VIOLATION,
            "the console's commands have no parameters",
        )));
    }
    let count = next()?;
    let format = |code| {
        Format::from_i16(code).ok_or(Complaint::new(
            SqlState::PROTOCOL_VIOLATION,
            "unknown result format",
        ))
    };
    let codes = (0..count.max(0))
        .map(|_| next())
        .collect::<Result<Vec<i16>, WireError>>()?;
    let formats: Result<Vec<Format>, Complaint> = codes.into_iter().map(format).collect();
    Ok(formats.map(|formats| match formats[..] {
        [] => Formats::TEXT,
        [all] => Formats::All(all),
        _ => Formats::Each(formats),
    }))
}

fn no_portal(name: &[u8]) -> Complaint {
    let name = String::from_utf8_lossy(name);
    Complaint::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("portal \"{name}\" does not exist"),
    )
}

/// A NUL would end the text on the wire.
fn printable(text: &str) -> String {
    text.replace('\0', "?")
}

/// Reads on while a command waits, and returns when the client has left. What it sends ahead is kept for later, up to a bound.
async fn leaving(socket: &mut Box<dyn ConsoleSocket>, input: &mut Vec<u8>) -> io::Error {
    while input.len() < MESSAGE_BYTES_MAX {
        match socket.read_buf(input).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
    std::future::pending().await
}

async fn run(control: &Arc<Control>, command: &Command) -> Result<Answer, Refusal> {
    match command {
        Command::Nothing => {}
        Command::Show(Show::Help) => {
            return Ok(Answer::Notice {
                message: "Console usage",
                detail: Some(HELP),
            });
        }
        Command::Show(show) => {
            let snapshot = Snapshot::take(control, show.detail()).await;
            return Ok(Answer::Rows(
                show.table(&snapshot, &control.statistics.averages()),
            ));
        }
        Command::ShowParameter(fake) => {
            return Ok(Answer::Rows(Table {
                columns: fake.columns,
                rows: vec![table::row![fake.value]],
            }));
        }
        Command::SetParameter => {
            return Ok(Answer::Notice {
                message: "SET ignored",
                detail: None,
            });
        }
        Command::Set { key, value } => reload::set(control, key, value).map_err(Refusal::from)?,
        Command::Reload => reload::reload(control).map_err(Refusal::from)?,
        Command::Pause(target) => act::pause(control, target).await?,
        Command::Resume(target) => act::resume(control, target)?,
        Command::Disable(name) => act::set_disabled(control, name, true)?,
        Command::Enable(name) => act::set_disabled(control, name, false)?,
        Command::Reconnect(target) => act::reconnect(control, target)?,
        Command::Kill(target) => act::kill(control, target)?,
        Command::KillClient(id) => act::kill_client(control, *id).await?,
        Command::WaitClose(target) => act::wait_close(control, target).await?,
        Command::Shutdown(phase) => act::shut_down(control, *phase),
    }
    Ok(Answer::Nothing)
}
